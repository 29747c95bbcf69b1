//! The scheduler: µops wait in it from dispatch until they start on a port, in any order.

/// Cycles ahead of the last look that are kept in the ring; later starts are in a list.
const CYCLES: u64 = 1 << 16;
/// A byte per cycle.
const PER_WORD: u64 = 8;
/// More than ports can start in a cycle, little enough that the sum of eight fits a byte.
const MOST_PER_CYCLE: u64 = 31;

/// How many µops wait, and how many of them start in each cycle to come.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    entries: u32,
    /// µops not known to have started by `looked`.
    waiting: u32,
    /// Starts up to and including this cycle are taken off.
    looked: u64,
    starts: Box<[u64]>,
    late: Vec<u64>,
}

impl Scheduler {
    pub fn new(entries: u32) -> Self {
        let starts = vec![0; (CYCLES / PER_WORD) as usize].into_boxed_slice();
        Self { entries: entries.max(2), waiting: 0, looked: 0, starts, late: Vec::new() }
    }

    /// When `count` more µops, not before `from`, find room.
    #[inline]
    pub fn admit(&mut self, count: u8, from: u64) -> u64 {
        self.waiting += u32::from(count);
        if self.waiting <= self.entries { from } else { self.wait_for_room(from) }
    }

    /// A µop starts at `cycle`, later than the last admission.
    #[inline]
    pub fn start(&mut self, cycle: u64) {
        let word = (cycle / PER_WORD) as usize & (self.starts.len() - 1);
        let shift = cycle % PER_WORD * 8;
        if cycle.saturating_sub(self.looked) >= CYCLES || self.starts[word] >> shift & 0xff >= MOST_PER_CYCLE
        {
            self.late.push(cycle);
        } else {
            self.starts[word] += 1 << shift;
        }
    }

    /// Takes off what starts up to `now`, so that the ring follows a clock that moves without admissions.
    #[inline]
    pub fn follow(&mut self, now: u64) {
        if now - self.looked >= CYCLES / 2 {
            self.look(now);
        }
    }

    fn wait_for_room(&mut self, from: u64) -> u64 {
        self.look(from);
        while self.waiting > self.entries {
            let Some(next) = self.next_start() else {
                // Nobody to wait for: a slot that is larger than the scheduler.
                self.waiting = self.entries;
                break;
            };
            self.look(next);
        }
        from.max(self.looked)
    }

    /// The first cycle after `looked` in which something starts.
    fn next_start(&self) -> Option<u64> {
        let late = self.late.iter().copied().min();
        let mut cycle = self.looked + 1;
        let end = late.unwrap_or(u64::MAX).min(self.looked + CYCLES);
        while cycle < end {
            let word =
                self.starts[(cycle / PER_WORD) as usize & (self.starts.len() - 1)] >> (cycle % PER_WORD * 8);
            if word != 0 {
                let found = cycle + u64::from(word.trailing_zeros() / 8);
                return Some(late.map_or(found, |late| late.min(found)));
            }
            cycle = (cycle / PER_WORD + 1) * PER_WORD;
        }
        late
    }

    /// Takes off what starts after `looked` and up to `now`.
    fn look(&mut self, now: u64) {
        if now <= self.looked {
            return;
        }
        let (mut cycle, end) = (self.looked + 1, (now + 1).min(self.looked + CYCLES));
        while cycle < end {
            let shift = cycle % PER_WORD;
            let count = (PER_WORD - shift).min(end - cycle);
            let mask = u64::MAX >> (64 - 8 * count) << (8 * shift);
            let word = &mut self.starts[(cycle / PER_WORD) as usize & (CYCLES / PER_WORD - 1) as usize];
            // The sum of eight bytes, none of which is above MOST_PER_CYCLE.
            let sum = (*word & mask).wrapping_mul(0x0101_0101_0101_0101) >> 56;
            *word &= !mask;
            self.waiting = self.waiting.saturating_sub(sum as u32);
            cycle += count;
        }
        self.looked = now;
        if !self.late.is_empty() {
            let before = self.late.len();
            self.late.retain(|&start| start > now);
            self.waiting = self.waiting.saturating_sub((before - self.late.len()) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of all starts.
        #[test]
        fn agrees_with_a_list(entries in 2u32..20, delays in prop::collection::vec((0u64..4, 1u64..300), 1..400)) {
            let mut scheduler = Scheduler::new(entries);
            let (mut all, mut now): (Vec<u64>, u64) = (Vec::new(), 0);
            for (step, delay) in delays {
                // Now and then far beyond the ring.
                let delay = if delay == 299 { 3 * CYCLES } else { delay };
                now += step;
                let held = |at: u64, all: &[u64]| all.iter().filter(|&&start| start > at).count() as u32;
                let mut expected = now;
                while held(expected, &all) + 1 > entries {
                    expected = all.iter().copied().filter(|&start| start > expected).min().expect("something waits");
                }
                now = scheduler.admit(1, now);
                prop_assert_eq!(now, expected);
                all.push(now + delay);
                scheduler.start(now + delay);
            }
        }
    }
}
