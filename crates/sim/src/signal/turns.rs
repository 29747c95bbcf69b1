//! Sets of counters that share the hardware one after the other.

use std::sync::Arc;

/// Sets of counters that take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterTurns {
    /// When the first begins.
    pub origin: u64,
    /// Cycles of each.
    pub tick: u64,
    /// How many there are.
    pub sets: usize,
    /// Turns that are not alike: where each ends, and whose it is. The last goes on.
    pub planned: Option<Arc<[(u64, usize)]>>,
}

impl CounterTurns {
    /// All run all the time.
    pub const ONE: Self = Self { origin: 0, tick: u64::MAX, sets: 1, planned: None };

    /// Whose turn it is, and where it ends.
    #[inline]
    pub fn at(&self, cycle: u64) -> (usize, u64) {
        if self.sets <= 1 {
            return (0, u64::MAX);
        }
        if let Some(planned) = &self.planned {
            let place = planned.partition_point(|(end, _)| *end <= cycle);
            return match (planned.get(place), planned.last()) {
                (Some(&(end, set)), _) => (set, end),
                (None, last) => (last.map_or(0, |(_, set)| *set), u64::MAX),
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_turns_are_as_long_as_they_are() {
        let planned = Some(Arc::from([(10, 1), (15, 0), (30, 1)]));
        let turns = CounterTurns { origin: 0, tick: 1, sets: 2, planned };
        assert_eq!([0, 9, 10, 14, 15, 99].map(|cycle| turns.at(cycle).0), [1, 1, 0, 0, 1, 1]);
        assert_eq!((turns.running(0, 40, 0), turns.running(0, 40, 1)), (5, 35));
    }
}
