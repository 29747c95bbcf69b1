//! Spreading lines over slices and channels of any number: evenly over neighbours, and without the same order
//! everywhere, so that strides do not meet one slice only.

use super::pages::mix;
use crate::divider::Divider;

/// Over how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    parts: Divider,
}

impl Spread {
    pub fn new(parts: u32) -> Self {
        Self { parts: Divider::new(parts.into()) }
    }

    /// The part that has `line`, and the line's number within it. Each group of neighbours has one line in each part,
    /// and the order within a group is its own.
    #[inline]
    pub fn place(&self, line: u64) -> (usize, u64) {
        let (group, member) = self.parts.divide(line);
        let parts = self.parts.by();
        let turn = ((mix(group) >> 32) * parts) >> 32;
        let part = member + turn;
        let part = if part >= parts { part - parts } else { part };
        (part as usize, group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_strides_are_spread() {
        for parts in [1u32, 2, 4, 12, 18] {
            let spread = Spread::new(parts);
            for stride in [1u64, u64::from(parts), 64, 4096] {
                let mut count = vec![0u64; parts as usize];
                (0..12_000).for_each(|n| count[spread.place(n * stride).0] += 1);
                let even = 12_000 / u64::from(parts);
                assert!(count.iter().all(|&n| n.abs_diff(even) < even / 4 + 2), "{parts} {stride} {count:?}");
            }
        }
    }
}
