//! The byte order of a file: that of the machine that recorded it.

/// Whose byte order numbers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileOrder {
    /// That of this machine.
    #[default]
    Same,
    /// The other one: s390x, and older Power, seen from here.
    Other,
}

impl FileOrder {
    /// Eight bytes of it.
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        let word = u64::from_ne_bytes(bytes);
        if self == Self::Same { word } else { word.swap_bytes() }
    }

    /// Four bytes.
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        let half = u32::from_ne_bytes(bytes);
        if self == Self::Same { half } else { half.swap_bytes() }
    }

    /// Two bytes.
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        let quarter = u16::from_ne_bytes(bytes);
        if self == Self::Same { quarter } else { quarter.swap_bytes() }
    }

    /// The word at a byte.
    pub fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        bytes.get(at..)?.first_chunk().map(|word| self.u64(*word))
    }

    /// The half of a word at a byte.
    pub fn half(self, bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..)?.first_chunk().map(|half| self.u32(*half))
    }

    /// A word of bits, the first of which is the lowest here and the highest there.
    pub fn bits(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = self.word(bytes, at)?;
        Some(if self == Self::Same { word } else { word.reverse_bits() })
    }

    /// Two of these bits as a number.
    pub fn pair(self, bits: u64, at: u32) -> u8 {
        let pair = (bits >> at & 3) as u8;
        if self == Self::Same { pair } else { pair >> 1 | (pair & 1) << 1 }
    }

    /// A word as the file has it.
    pub fn bytes(self, word: u64) -> [u8; 8] {
        if self == Self::Same { word.to_ne_bytes() } else { word.swap_bytes().to_ne_bytes() }
    }

    /// Words as the file has them.
    pub fn words(self, bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
        bytes.as_chunks().0.iter().map(move |word| self.u64(*word))
    }
}
