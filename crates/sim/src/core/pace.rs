//! How fast slots go by: so many per cycle.

/// A clock in cycles, and how much of its current cycle is used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CorePace {
    pub cycle: u64,
    pub used: u64,
    /// Cycles in which anything happened.
    pub active: u64,
}

impl CorePace {
    /// The first cycle with room.
    #[inline]
    pub fn next(&self, width: u64) -> u64 {
        self.cycle + u64::from(self.used >= width)
    }

    /// Uses one place at `cycle`, not before [`next`](Self::next).
    #[inline]
    pub fn take(&mut self, cycle: u64) {
        if cycle > self.cycle || self.used == 0 {
            *self = Self { cycle, used: 1, active: self.active + 1 };
        } else {
            self.used += 1;
        }
    }

    pub fn jump(&mut self, cycle: u64) {
        *self = Self { cycle: cycle.max(self.cycle), used: 0, active: self.active };
    }
}
