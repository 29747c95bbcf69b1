//! The random numbers that streams hold: places in other streams, and what branches go by.
//!
//! Number *k* of a stream follows from *k* alone, so that a walk knows it without memory, and it is the same in each pass
//! and each run.

use crate::{
    description::{Description, NumberBound, StreamPattern},
    draw::SplitMix,
    geometry::Geometry,
};

/// Bytes of a buffer that hold numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberStretch {
    /// Where they begin.
    pub offset: u64,
    /// How long they are.
    pub bytes: u64,
    /// Which numbers.
    pub numbers: Numbering,
}

/// The numbers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// Which stream of its kernel.
    pub stream: usize,
    /// Bytes of a number, and from one to the next.
    pub element: u64,
    /// Every number is below this.
    pub below: u64,
    /// They begin again after so many.
    pub period: Option<u64>,
}

/// After so many, numbers that branches go by begin again.
pub const PERIOD: u64 = 512;

impl Numbering {
    /// Those of a kernel's stream; none if it holds others.
    pub(crate) fn of(description: &Description, geometry: &Geometry, stream: usize) -> Option<Self> {
        let StreamPattern::Numbers { element, below } = description.streams[stream].pattern else {
            return None;
        };
        let (below, period) = match below {
            NumberBound::Is(below) => (below, Some(PERIOD)),
            NumberBound::ElementsOf(other) => match description.streams[other].pattern {
                StreamPattern::Gathered { element } => (geometry.stream_bytes / element, None),
                _ => (1, None),
            },
        };
        Some(Self { stream, element, below, period })
    }

    /// Number `index` of the stream. Those that only branches go by repeat after [`PERIOD`]: branch predictors then meet
    /// the same in small data and in large, and what differs is memory.
    ///
    /// ```
    /// let numbers = kernels::numbers::Numbering { stream: 0, element: 4, below: 100, period: None };
    /// assert!((0..1000).all(|index| numbers.at(index) < 100));
    /// assert_ne!(numbers.at(0), numbers.at(1));
    /// ```
    pub fn at(&self, index: u64) -> u64 {
        let index = self.period.map_or(index, |period| index % period);
        let seed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.stream as u64 + 1) << 56;
        SplitMix::new(seed).below(self.below)
    }

    /// The number at so many bytes from the stream's beginning.
    pub(crate) fn at_byte(&self, position: u64) -> u64 {
        self.at(position / self.element)
    }

    /// Writes them, from the first on.
    pub(crate) fn fill(&self, words: &mut [u64]) {
        let per_word = 8 / self.element;
        for (index, word) in words.iter_mut().enumerate() {
            let first = index as u64 * per_word;
            *word = match per_word {
                1 => self.at(first),
                _ => self.at(first) | self.at(first + 1) << 32,
            };
        }
    }
}
