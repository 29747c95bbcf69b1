//! Sets of counters that share the hardware one after the other.

/// Sets of counters that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterTurns {
    /// When the first begins.
    pub origin: u64,
    /// Cycles of each.
    pub tick: u64,
    /// How many there are.
    pub sets: usize,
}

impl CounterTurns {
    /// All run all the time.
    pub const ONE: Self = Self { origin: 0, tick: u64::MAX, sets: 1 };

    /// Whose turn it is, and where it ends.
    #[inline]
    pub fn at(&self, cycle: u64) -> (usize, u64) {
        if self.sets <= 1 {
            return (0, u64::MAX);
        }
        let number = cycle.saturating_sub(self.origin) / self.tick;
        ((number % self.sets as u64) as usize, self.origin + (number + 1) * self.tick)
    }

    /// How much of a span is a set's turn.
    pub fn running(&self, from: u64, until: u64, set: usize) -> u64 {
        let (mut cycle, mut sum) = (from, 0);
        while cycle < until {
            let (turn, end) = self.at(cycle);
            let next = end.min(until);
            sum += if turn == set { next - cycle } else { 0 };
            cycle = next;
        }
        sum
    }
}
