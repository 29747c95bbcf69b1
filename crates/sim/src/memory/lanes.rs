//! The ports of a level-one cache, cycle by cycle. Loads and stores have lanes of their own; a fill or an eviction
//! takes all lanes of its cycles, which is why a core cannot load at full rate while lines come in.

/// 64-cycle words remembered: how far fills may be booked ahead of loads.
const WORDS: usize = 64;
const CYCLES: u64 = WORDS as u64 * 64;

/// Lanes of one cache in a window of cycles that moves with time.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// One bitmap of cycles per lane: load lanes, then the store lane.
    taken: Vec<[u64; WORDS]>,
    loads: usize,
    /// First cycle of the window, a multiple of 64.
    base: u64,
}

impl Lanes {
    /// `loads` load lanes and one store lane.
    pub fn new(loads: usize) -> Self {
        let loads = loads.max(1);
        Self { taken: vec![[0; WORDS]; loads + 1], loads, base: 0 }
    }

    /// Forgets all; for when the clock changes and cycles get new numbers.
    pub fn clear(&mut self) {
        self.taken.iter_mut().for_each(|lane| lane.fill(0));
        self.base = 0;
    }

    /// The first cycle at or after `cycle` at which a load can start.
    #[inline]
    pub fn load(&mut self, cycle: u64) -> u64 {
        // Lanes are taken in their order, so the last one tells whether all are.
        let (last, loads) = (self.loads - 1, self.loads);
        self.take(
            cycle,
            |lanes, word| lanes[last][word],
            |lanes, word, bit| {
                if let Some(lane) = lanes[..loads].iter_mut().find(|lane| lane[word] & bit == 0) {
                    lane[word] |= bit;
                }
            },
        )
    }

    /// The first cycle at or after `cycle` at which a store can write.
    #[inline]
    pub fn store(&mut self, cycle: u64) -> u64 {
        let store = self.loads;
        self.take(cycle, |lanes, word| lanes[store][word], |lanes, word, bit| lanes[store][word] |= bit)
    }

    /// Takes all lanes for `cycles` cycles, not necessarily neighbours, and returns the cycle after the last.
    pub fn all(&mut self, mut cycle: u64, mut cycles: u32) -> u64 {
        while cycles > 0 {
            if cycle < self.base {
                // Nothing is known: free.
                (cycle, cycles) = (cycle + 1, cycles - 1);
                continue;
            }
            let word = self.word_of(cycle);
            // The first lane tells whether a load has taken any.
            let mut free = !(self.taken[0][word] | self.taken[self.loads][word]) & (!0 << (cycle % 64));
            let mut mine = 0u64;
            let first = cycle & !63;
            cycle = first + 64;
            while free != 0 && cycles > 0 {
                let bit = free & free.wrapping_neg();
                mine |= bit;
                free ^= bit;
                cycles -= 1;
                if cycles == 0 {
                    cycle = first + u64::from(bit.trailing_zeros()) + 1;
                }
            }
            self.taken.iter_mut().for_each(|lane| lane[word] |= mine);
        }
        cycle
    }

    /// Finds the first cycle that `busy` leaves free and marks it. Before the window nothing is known: free.
    #[inline]
    fn take(
        &mut self,
        cycle: u64,
        busy: impl Fn(&[[u64; WORDS]], usize) -> u64,
        mark: impl FnOnce(&mut [[u64; WORDS]], usize, u64),
    ) -> u64 {
        if cycle < self.base {
            return cycle;
        }
        let mut first = cycle;
        loop {
            let word = self.word_of(first);
            let free = !busy(&self.taken, word) & (!0 << (first % 64));
            if free != 0 {
                let bit = free.trailing_zeros();
                mark(&mut self.taken, word, 1 << bit);
                return (first & !63) + u64::from(bit);
            }
            first = (first & !63) + 64;
        }
    }

    /// The word of a cycle, which the window then holds.
    #[inline]
    fn word_of(&mut self, cycle: u64) -> usize {
        if cycle >= self.base + CYCLES {
            self.advance(cycle);
        }
        (cycle / 64) as usize % WORDS
    }

    /// Moves the window so that it holds `cycle`, which lies after it.
    fn advance(&mut self, cycle: u64) {
        let base = (cycle & !63) + 64 - CYCLES;
        let words = ((base - self.base) / 64).min(WORDS as u64);
        for word in 0..words {
            let word = ((self.base / 64 + word) % WORDS as u64) as usize;
            self.taken.iter_mut().for_each(|lane| lane[word] = 0);
        }
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
