//! Division by a number that stays the same, by multiplying: a fraction of the time of the host's division.

/// Divides by one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    by: u64,
    /// 2⁶⁴ / `by`, rounded down: the product is at most one short.
    reciprocal: u64,
}

impl Divider {
    /// By `by`; 0 is taken as 1.
    pub fn new(by: u64) -> Self {
        let by = by.max(1);
        Self { by, reciprocal: u64::MAX / by }
    }

    /// What is divided by.
    pub fn by(&self) -> u64 {
        self.by
    }

    /// `number` divided, rounded down, and what is left.
    #[inline]
    pub fn divide(&self, number: u64) -> (u64, u64) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.by;
        // Not a branch: whole multiples are short, and the host could not tell them from others.
        let short = u64::from(rest >= self.by);
        (quotient + short, rest - self.by * short)
    }

    /// Rounded down.
    #[inline]
    pub fn floor(&self, number: u64) -> u64 {
        self.divide(number).0
    }

    /// Rounded up.
    #[inline]
    pub fn ceil(&self, number: u64) -> u64 {
        let (quotient, rest) = self.divide(number);
        quotient + u64::from(rest > 0)
    }

    /// What is left.
    #[inline]
    pub fn rest(&self, number: u64) -> u64 {
        self.divide(number).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn like_the_host(by in any::<u64>(), number in any::<u64>(), shifts in (0u32..64, 0u32..64)) {
            let (by, number) = ((by >> shifts.0).max(1), number >> shifts.1);
            let divider = Divider::new(by);
            prop_assert_eq!(divider.divide(number), (number / by, number % by));
            prop_assert_eq!(divider.ceil(number), number.div_ceil(by));
        }
    }

    #[test]
    fn the_ends_are_right_too() {
        for by in [0, 1, 2, 3, u64::MAX - 1, u64::MAX] {
            for number in [0, 1, 2, u64::MAX - 1, u64::MAX] {
                let by = by.max(1);
                assert_eq!(Divider::new(by).divide(number), (number / by, number % by), "{number} / {by}");
            }
        }
    }
}
