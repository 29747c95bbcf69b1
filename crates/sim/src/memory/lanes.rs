//! The ports of a level-one cache, cycle by cycle. Loads and stores have lanes of their own; a fill or an eviction
//! takes all lanes of its cycles, which is why a core cannot load at full rate while lines come in.

/// 64-cycle words remembered: how far fills may be booked ahead of loads.
const WORDS: usize = 64;
const CYCLES: u64 = WORDS as u64 * 64;

/// Lanes of one cache in a window of cycles that moves with time.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// By word of cycles, then by lane: load lanes, then the store lane. A bit per cycle.
    taken: Vec<u64>,
    loads: usize,
    /// First cycle of the window, a multiple of 64.
    base: u64,
}

impl Lanes {
    /// `loads` load lanes and one store lane.
    pub fn new(loads: usize) -> Self {
        let loads = loads.max(1);
        Self { taken: vec![0; (loads + 1) * WORDS], loads, base: 0 }
    }

    /// Forgets all; for when the clock changes and cycles get new numbers.
    pub fn clear(&mut self) {
        self.taken.fill(0);
        self.base = 0;
    }

    /// The first cycle at or after `cycle` at which a load can start.
    #[inline]
    pub fn load(&mut self, cycle: u64) -> u64 {
        // Lanes are taken in their order, so the last one tells whether all are.
        self.take(cycle, self.loads - 1, |lanes, bit| {
            if let Some(lane) = lanes.iter_mut().find(|lane| **lane & bit == 0) {
                *lane |= bit;
            }
        })
    }

    /// The first cycle at or after `cycle` at which a store can write.
    #[inline]
    pub fn store(&mut self, cycle: u64) -> u64 {
        let store = self.loads;
        self.take(cycle, store, |lanes, bit| lanes[store] |= bit)
    }

    /// Takes all lanes for `cycles` cycles, not necessarily neighbours, and returns the cycle after the last.
    pub fn all(&mut self, mut cycle: u64, mut cycles: u32) -> u64 {
        while cycle < self.base && cycles > 0 {
            // Nothing is known: free.
            (cycle, cycles) = (cycle + 1, cycles - 1);
        }
        while cycles > 0 {
            let loads = self.loads;
            let lanes = self.lanes_at(cycle);
            // The first lane tells whether a load has taken any.
            let free = !(lanes[0] | lanes[loads]) & (!0 << (cycle % 64));
            let (mut left, first) = (free, cycle & !63);
            cycle = first + 64;
            while left != 0 && cycles > 0 {
                cycle = first + u64::from(left.trailing_zeros()) + 1;
                left &= left - 1;
                cycles -= 1;
            }
            lanes.iter_mut().for_each(|lane| *lane |= free ^ left);
            cycle = if cycles > 0 { first + 64 } else { cycle };
        }
        cycle
    }

    /// Finds the first cycle at which `lane` is free and marks it. Before the window nothing is known: free.
    #[inline]
    fn take(&mut self, cycle: u64, lane: usize, mark: impl FnOnce(&mut [u64], u64)) -> u64 {
        if cycle < self.base {
            return cycle;
        }
        let mut first = cycle;
        loop {
            let lanes = self.lanes_at(first);
            let free = !lanes[lane] & (!0 << (first % 64));
            if free != 0 {
                let bit = free.trailing_zeros();
                mark(lanes, 1 << bit);
                return (first & !63) + u64::from(bit);
            }
            first = (first & !63) + 64;
        }
    }

    /// The words of a cycle, which the window then holds.
    #[inline]
    fn lanes_at(&mut self, cycle: u64) -> &mut [u64] {
        if cycle >= self.base + CYCLES {
            self.advance(cycle);
        }
        let (lanes, word) = (self.loads + 1, (cycle / 64) as usize % WORDS);
        &mut self.taken[word * lanes..][..lanes]
    }

    /// Moves the window so that it holds `cycle`, which lies after it.
    #[inline(never)]
    fn advance(&mut self, cycle: u64) {
        let base = (cycle & !63) + 64 - CYCLES;
        let words = ((base - self.base) / 64).min(WORDS as u64) as usize;
        let (lanes, first) = (self.loads + 1, (self.base / 64) as usize % WORDS);
        let end = first + words;
        self.taken[first * lanes..end.min(WORDS) * lanes].fill(0);
        self.taken[..end.saturating_sub(WORDS) * lanes].fill(0);
        self.base = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_loads_and_a_store_per_cycle_unless_a_line_comes_in() {
        let mut lanes = Lanes::new(2);
        assert_eq!(lanes.all(3, 2), 5);
        let starts: Vec<u64> = (0..6).map(|_| lanes.load(2)).collect();
        assert_eq!(starts, [2, 2, 5, 5, 6, 6]);
        assert_eq!(lanes.store(2), 2);
        assert_eq!(lanes.store(2), 5);
        assert_eq!(lanes.all(0, 3), 8);
    }

    #[test]
    fn the_window_moves_and_forgets() {
        let mut lanes = Lanes::new(1);
        assert_eq!(lanes.load(10), 10);
        assert_eq!(lanes.all(1_000_000, 1), 1_000_001);
        assert_eq!(lanes.load(10), 10, "before the window");
        assert_eq!(lanes.load(1_000_000), 1_000_001);
        for _ in 0..1000 {
            lanes.load(2_000_000);
        }
        assert_eq!(lanes.load(2_000_000), 2_001_000);
    }
}
