//! Records in files of their own: `perf record --threads` writes one for each ring, beside the one with the frame.
//!
//! Each is in order of time, as its ring was, and no rounds are told of. All are read together, always on in the one that
//! has come least far, so that what waits for its turn stays small.

use std::mem;

use super::PerfReading;
use crate::{input::Input, stream::RecordStream, unpacking::Unpacking};

/// Records that are taken of a file before another one has its turn.
const TURN: usize = 256;

/// A file with nothing but records.
pub struct FurtherRecords<'i> {
    /// What it is called, for what is said of it.
    pub name: String,
    /// Its bytes.
    pub input: &'i mut dyn Input,
}

/// One that is being read.
struct FurtherStream<'i> {
    name: String,
    stream: RecordStream<'i>,
    unpacking: Option<Box<Unpacking>>,
    reached_ns: u64,
}

impl PerfReading<'_> {
    /// Reads all of them; adds how many bytes they have. The error says which of them were not read to their end.
    pub(super) fn read_further(
        &mut self,
        further: Vec<FurtherRecords<'_>>,
        bytes: &mut u64,
    ) -> Result<(), String> {
        let mut streams: Vec<FurtherStream<'_>> = further
            .into_iter()
            .map(|FurtherRecords { name, input }| FurtherStream {
                name,
                stream: RecordStream::one_of_many(input, self.core.container.order),
                unpacking: None,
                reached_ns: 0,
            })
            .collect();
        let mut broken = Vec::new();
        while let Some(least) = (0..streams.len()).min_by_key(|at| streams[*at].reached_ns) {
            let turn = self.take_turn(&mut streams[least]);
            if turn != Ok(true) {
                let done = streams.swap_remove(least);
                *bytes += done.stream.position();
                broken.extend(turn.err().map(|why| format!("{}: {why}", done.name)));
            }
            if self.core.consumer.has_failed() {
                return Ok(());
            }
        }
        if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
    }

    /// False: it was read to its end.
    fn take_turn(&mut self, one: &mut FurtherStream<'_>) -> Result<bool, String> {
        // Each file is compressed by itself.
        mem::swap(&mut self.unpacking, &mut one.unpacking);
        self.reached_ns = one.reached_ns;
        let mut taken = Ok(true);
        for _ in 0..TURN {
            taken = self.read_next(&mut one.stream);
            if taken != Ok(true) {
                break;
            }
        }
        if taken == Ok(false) {
            taken = self.left_over().map(|()| false);
        }
        mem::swap(&mut self.unpacking, &mut one.unpacking);
        one.reached_ns = self.reached_ns;
        taken
    }
}
