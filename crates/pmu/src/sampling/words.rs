//! Reading a record's body piece by piece, without ever reading beyond it.

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    pub fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    pub fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next `count` words, as bytes. `count` comes from the ring and may be anything.
    pub fn words(&mut self, count: u64) -> Option<&'a [u8]> {
        self.bytes(usize::try_from(count).ok()?.checked_mul(8)?)
    }

    /// The rest as text: up to the first zero byte.
    pub fn text(self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}
