//! How many lines code goes through, by how often samples meet the same one again.
//!
//! Of n places drawn from N lines, about n²/2N pairs lie in the same line. That holds however the lines are spread over memory:
//! nodes of a list may lie far apart, and their list still fit a cache. Of lines that are touched unequally often it tells how
//! many equal ones would meet as often, which is what a cache has to hold.

use std::collections::HashMap;

use super::facts::LINE;

/// Pairs that make a number: it is right to a factor of about 1.4 then.
const FEWEST_PAIRS: f64 = 10.0;

/// Samples looked at: more tell no more of what fits a cache.
const MOST: u64 = 16384;

/// Lines that samples were seen in.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineSightings {
    times: HashMap<u64, u64>,
    samples: u64,
    pairs: u64,
}

impl LineSightings {
    /// A sample at an address.
    pub(crate) fn push(&mut self, address: u64) {
        if self.samples == MOST {
            return;
        }
        let times = self.times.entry(address / LINE).or_default();
        self.pairs += *times;
        self.samples += 1;
        *times += 1;
    }

    /// Bytes of the lines that there seem to be, if that is less than `extent_bytes` by more than chance; else those.
    pub(crate) fn within(&self, extent_bytes: f64) -> f64 {
        let (samples, pairs) = (self.samples as f64, self.pairs as f64);
        if pairs < FEWEST_PAIRS {
            return extent_bytes;
        }
        let bytes = (samples * samples / (2.0 * pairs) * LINE as f64).max(LINE as f64);
        let most = bytes * (1.0 + 3.0 / pairs.sqrt());
        if most < extent_bytes { bytes } else { extent_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws so many times one of `lines` lines, `apart` bytes from each other.
    fn seen(draws: u64, lines: u64, apart: u64) -> LineSightings {
        let mut sightings = LineSightings::default();
        for draw in 0..draws {
            let line =
                (draw.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ draw).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
            sightings.push(line % lines * apart);
        }
        sightings
    }

    #[test]
    fn lines_far_apart_are_counted_and_not_what_lies_between_them() {
        for (draws, lines) in [(600, 2000), (600, 9000), (6000, 100_000)] {
            let ratio = seen(draws, lines, 4096).within((lines * 4096) as f64) / (lines * LINE) as f64;
            assert!((0.6..1.6).contains(&ratio), "{draws} of {lines}: {ratio}");
        }
    }

    #[test]
    fn lines_side_by_side_are_as_many_as_they_reach() {
        for lines in [2000, 9000] {
            let extent = (lines * LINE) as f64;
            assert_eq!(seen(600, lines, LINE).within(extent), extent);
        }
    }

    #[test]
    fn samples_that_hardly_ever_meet_tell_nothing() {
        assert_eq!(seen(600, 1_000_000, 4096).within(4e9), 4e9);
        assert_eq!(LineSightings::default().within(4e9), 4e9);
    }
}
