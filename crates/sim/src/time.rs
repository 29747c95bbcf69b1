//! Simulated time. Cores and uncore have clocks of their own; they meet in femtoseconds.

use std::ops::{Add, AddAssign, Sub};

/// A moment or a span, in femtoseconds: fine enough that a cycle of any clock is a whole number within 10⁻⁶,
/// coarse enough that 64 bits hold five hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// A span of nanoseconds.
    pub fn from_ns(ns: f64) -> Self {
        Self((ns * 1e6).round() as u64)
    }

    /// In nanoseconds.
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// One cycle of a clock.
    pub const fn cycle_of(hz: u64) -> Self {
        Self(1_000_000_000_000_000 / hz)
    }

    /// This span, `n` times.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0 * n)
    }

    /// The span from `earlier`, zero if that is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
