//! Spreading lines over slices and channels of any number: evenly over neighbours, and without the same order
//! everywhere, so that strides do not meet one slice only.

use super::pages::mix;

/// Over how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    parts: u64,
    /// 2⁶⁴ / `parts`, rounded up: multiplying by it takes a fraction of the time of a division.
    reciprocal: u64,
    /// Below this the product is exact.
    exact: u64,
}

impl Spread {
    pub fn new(parts: u32) -> Self {
        let parts = u64::from(parts.max(1));
        let (reciprocal, exact) = if parts == 1 { (0, 0) } else { (u64::MAX / parts + 1, u64::MAX / parts) };
        Self { parts, reciprocal, exact }
    }

    /// The part that has `line`, and the line's number within it. Each group of neighbours has one line in each part,
    /// and the order within a group is its own.
    #[inline]
    pub fn place(&self, line: u64) -> (usize, u64) {
        let group = match line < self.exact {
            true => ((u128::from(line) * u128::from(self.reciprocal)) >> 64) as u64,
            false => line / self.parts,
        };
        let member = line - group * self.parts;
        let turn = ((mix(group) >> 32) * self.parts) >> 32;
        let part = member + turn;
        let part = if part >= self.parts { part - self.parts } else { part };
        (part as usize, group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_are_those_of_a_division(parts in 1u32..200, line in any::<u64>(), shift in 0u32..64) {
            let line = line >> shift;
            prop_assert_eq!(Spread::new(parts).place(line).1, line / u64::from(parts));
        }
    }

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
