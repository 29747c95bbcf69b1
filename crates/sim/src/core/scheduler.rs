//! The scheduler: µops wait in it from dispatch until they start on a port, in any order.

/// A byte per cycle, this many in a word.
const PER_WORD: u64 = 8;
/// Words of the ring.
const WORDS: usize = 1 << 13;
/// Cycles of the ring.
const RING: usize = WORDS * PER_WORD as usize;
/// Words that one bit each tells about.
const PER_GROUP: u64 = 64;
/// Groups of words.
const GROUPS: usize = WORDS / PER_GROUP as usize;
/// Cycles ahead of the last look that are kept in the ring; later starts are in a list. One word less than the ring
/// holds, so that no word is of two rounds.
const CYCLES: u64 = (WORDS as u64 - 1) * PER_WORD;
/// More than ports can start in a cycle, little enough that the sum of eight fits a byte.
const MOST_PER_CYCLE: u8 = 31;

/// How many µops wait, and how many of them start in each cycle to come.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    entries: u32,
    /// µops not known to have started by `looked`.
    waiting: u32,
    /// Starts up to and including this cycle are taken off.
    looked: u64,
    starts: Box<[u8; RING]>,
    /// A bit for each word that is not zero: waits are long, and few start meanwhile.
    filled: [u64; GROUPS],
    late: Vec<u64>,
}

impl Scheduler {
    pub fn new(entries: u32) -> Self {
        let starts = Box::new([0; RING]);
        Self { entries: entries.max(2), waiting: 0, looked: 0, starts, filled: [0; GROUPS], late: Vec::new() }
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
        let word = cycle / PER_WORD;
        let count = &mut self.starts[cycle as usize % RING];
        if cycle.wrapping_sub(self.looked) < CYCLES && *count < MOST_PER_CYCLE {
            *count += 1;
            self.filled[(word / PER_GROUP) as usize % GROUPS] |= 1 << (word % PER_GROUP);
        } else {
            self.start_late(cycle);
        }
    }

    #[cold]
    fn start_late(&mut self, cycle: u64) {
        self.late.push(cycle);
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
        let first = self.looked / PER_WORD;
        let found = self
            .filled_word(first, first + WORDS as u64 - 1)
            .map(|word| word * PER_WORD + u64::from(self.word(word).trailing_zeros() / 8));
        found.into_iter().chain(self.late.iter().copied()).min()
    }

    fn word(&self, word: u64) -> u64 {
        u64::from_le_bytes(self.starts.as_chunks().0[word as usize % WORDS])
    }

    /// The first word, from one up to another, in which something starts.
    #[inline]
    fn filled_word(&self, from: u64, last: u64) -> Option<u64> {
        let mut group = from / PER_GROUP;
        let mut bits = self.filled[group as usize % GROUPS] & (u64::MAX << (from % PER_GROUP));
        while bits == 0 {
            group += 1;
            if group > last / PER_GROUP {
                return None;
            }
            bits = self.filled[group as usize % GROUPS];
        }
        Some(group * PER_GROUP + u64::from(bits.trailing_zeros())).filter(|&word| word <= last)
    }

    /// Takes off what starts after `looked` and up to `now`.
    fn look(&mut self, now: u64) {
        if now <= self.looked {
            return;
        }
        let first = self.looked / PER_WORD;
        let last = (now / PER_WORD).min(first + WORDS as u64 - 1);
        let mut from = first;
        while let Some(word) = self.filled_word(from, last) {
            let starts = self.word(word);
            // Bytes of cycles after `now` stay, in two steps because all eight may go.
            let left = if word == now / PER_WORD {
                starts >> (now % PER_WORD * 8) >> 8 << (now % PER_WORD * 8) << 8
            } else {
                0
            };
            // The sum of eight bytes, none of which is above MOST_PER_CYCLE.
            let sum = (starts - left).wrapping_mul(0x0101_0101_0101_0101) >> 56;
            self.starts.as_chunks_mut().0[word as usize % WORDS] = left.to_le_bytes();
            if left == 0 {
                self.filled[(word / PER_GROUP) as usize % GROUPS] &= !(1 << (word % PER_GROUP));
            }
            self.waiting = self.waiting.saturating_sub(sum as u32);
            from = word + 1;
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
                // Now and then far ahead: in the ring, at its end, just and far beyond it.
                let delay = match delay {
                    295 => CYCLES / 2,
                    296 => CYCLES - 1,
                    297 => CYCLES,
                    298 => CYCLES + 20,
                    299 => 3 * CYCLES,
                    near => near,
                };
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
