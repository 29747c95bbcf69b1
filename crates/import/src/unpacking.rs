//! Records that were compressed (`perf record -z`): one stream of zstd over many records.

use zstd_safe::{DCtx, InBuffer, OutBuffer};

use crate::{
    file_order::FileOrder,
    stream::{RawRecord, split_first},
};

/// Unpacked at a time: a few bytes may stand for very many.
const STEP: usize = 256 << 10;

/// Unpacks what one record after the other holds.
pub(crate) struct Unpacking {
    context: DCtx<'static>,
    step: Vec<u8>,
    /// The beginning of a record whose end is still to come.
    begun: Vec<u8>,
}

impl Default for Unpacking {
    fn default() -> Self {
        Self { context: DCtx::create(), step: vec![0; STEP], begun: Vec::new() }
    }
}

impl Unpacking {
    /// Hands out every record that is whole. The error says what is wrong with the stream.
    pub fn unpack(
        &mut self,
        packed: &[u8],
        order: FileOrder,
        mut each: impl FnMut(RawRecord<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut input = InBuffer::around(packed);
        loop {
            let mut output = OutBuffer::around(&mut self.step[..]);
            self.context.decompress_stream(&mut output, &mut input).map_err(|code| {
                format!("records cannot be unpacked ({})", zstd_safe::get_error_name(code))
            })?;
            let written = output.pos();
            self.begun.extend_from_slice(&self.step[..written]);
            let mut rest = self.begun.as_slice();
            let bad = |size| format!("an unpacked record says that it has {size} bytes");
            while let Some((record, size)) = split_first(rest, order).map_err(bad)? {
                rest = &rest[size..];
                each(record)?;
            }
            let done = self.begun.len() - rest.len();
            self.begun.drain(..done);
            if written < STEP && input.pos() == packed.len() {
                return Ok(());
            }
        }
    }

    /// Bytes of a record that never came to its end.
    pub fn left_over(&self) -> usize {
        self.begun.len()
    }
}
