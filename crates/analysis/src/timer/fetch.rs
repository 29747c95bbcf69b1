//! How the lines of a stream come: one after the other, side by side, or ahead of the code.

use code::{Block, Instruction};

use super::{
    bounds::CoreLevel,
    facts::{feeds_itself, writes_memory},
    streams::AddressStream,
};

/// How the lines are fetched that a turn touches of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LineFetch {
    /// By atomic operations, which nothing passes.
    Atomic,
    /// By so many loads a turn that each wait for the one before.
    Chased(f64),
    /// Line after line, so that prefetchers know the next.
    Ahead,
    /// Side by side, as many as are under way at once.
    Scattered,
}

/// What code does with a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamCode {
    pub fetch: LineFetch,
    /// Some of it is written.
    pub writes: bool,
}

impl StreamCode {
    /// By the instructions of its block, of which the first is this site.
    pub fn of(stream: &AddressStream, block: &Block, first_site: usize) -> Self {
        let instructions =
            || stream.sites.iter().filter_map(|site| block.instructions().get(site - first_site));
        let chases = instructions().filter(|instruction| feeds_itself(block, instruction)).count() as f64;
        let fetch = match () {
            () if instructions().any(Instruction::is_locked) => LineFetch::Atomic,
            () if chases > 0.0 => LineFetch::Chased(chases),
            () if stream.goes_line_by_line() => LineFetch::Ahead,
            () => LineFetch::Scattered,
        };
        Self { fetch, writes: instructions().any(|instruction| writes_memory(block, instruction)) }
    }

    /// What moving a turn's lines of the stream takes from a level.
    pub fn transfer_ns(&self, stream: &AddressStream, level: &CoreLevel) -> f64 {
        let bytes = stream.bytes_per_turn();
        let per_s = if self.writes { level.store_bytes_per_s } else { level.load_bytes_per_s };
        let copied_s = if stream.is_copied { bytes / level.load_bytes_per_s } else { 0.0 };
        (bytes / per_s + copied_s) * 1e9
    }
}
