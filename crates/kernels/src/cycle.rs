//! Random single cycles of pointers, for chasing: each load gives the address of the next.
//!
//! Sattolo's shuffle gives each of the (n−1)! cycles of full length with equal chance. An ordinary shuffle would
//! give several short cycles, and a chase would stay in one of them, in a smaller cache than the size says.

use machine::Bytes;

use crate::draw::SplitMix;

/// Why there is no cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CycleError {
    /// A line that cannot hold a pointer or does not divide a page.
    #[error("a line of {line} cannot be chased; it must be a power of two of at least 8 bytes")]
    BadLine {
        /// What was asked for.
        line: Bytes,
    },
    /// A stride that is not made of whole lines.
    #[error(
        "a stride of {stride} does not fit lines of {line}; it must be a power of two and at least one line"
    )]
    BadStride {
        /// Line length.
        line: Bytes,
        /// What was asked for.
        stride: Bytes,
    },
    /// Not one slot fits.
    #[error("{len} is too short to chase through at a stride of {stride}; use at least one stride")]
    TooShort {
        /// Length of the region.
        len: Bytes,
        /// Distance of slots.
        stride: Bytes,
    },
    /// Slot numbers are 32 bits.
    #[error(
        "{slots} slots are too many for one cycle, at most 4294967295; use a smaller buffer or a larger stride"
    )]
    TooManySlots {
        /// How many there would be.
        slots: u64,
    },
    /// Slots would not lie where the spacing says, or not in the address space.
    #[error(
        "a region of {len} cannot start at address {base:#x}; it must start on a line and end below 2^64"
    )]
    BadBase {
        /// The address given.
        base: u64,
        /// Length of the region.
        len: Bytes,
    },
}

/// How far apart the slots of a cycle are, and where in its stride each lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    line: u64,
    stride: u64,
}

impl Spacing {
    /// One slot in every line.
    pub fn every_line(line: Bytes) -> Result<Self, CycleError> {
        Self::every_stride(line, line)
    }

    /// One slot in every `stride` bytes, such as a 4 KiB page, to strain address translation and little else.
    ///
    /// The line within the stride changes from slot to slot: at a fixed offset all slots would fall into a few
    /// cache sets and the chase would measure conflicts.
    pub fn every_stride(line: Bytes, stride: Bytes) -> Result<Self, CycleError> {
        if !line.0.is_power_of_two() || line.0 < 8 {
            return Err(CycleError::BadLine { line });
        }
        if !stride.0.is_power_of_two() || stride < line {
            return Err(CycleError::BadStride { line, stride });
        }
        Ok(Self { line: line.0, stride: stride.0 })
    }

    /// How many slots a region of `len` has.
    pub fn slots(self, len: Bytes) -> u64 {
        len.0 / self.stride
    }

    /// Where slot number `slot` starts, in bytes from the start of the region.
    ///
    /// The line within the stride is the digit sum of the slot number to the base of lines per stride. A cache's
    /// set is the line within the stride and some low bits of the slot number; with the digit sum both take all
    /// their combinations equally often, whatever power of two the number of sets is.
    pub fn offset(self, slot: u32) -> u64 {
        let lines = self.stride / self.line;
        let (mut rest, mut sum) = (u64::from(slot), 0);
        while lines > 1 && rest > 0 {
            sum += rest % lines;
            rest /= lines;
        }
        u64::from(slot) * self.stride + sum % lines * self.line
    }
}

/// The slot visited after each slot: a random permutation of `0..slots` that is one cycle of full length.
///
/// ```
/// let next = kernels::cycle::order(5, 1);
/// let mut slot = 0;
/// for _ in 0..5 {
///     slot = next[slot as usize];
/// }
/// assert_eq!(slot, 0);
/// ```
pub fn order(slots: u32, seed: u64) -> Vec<u32> {
    let mut next: Vec<u32> = (0..slots).collect();
    let mut random = SplitMix::new(seed);
    for last in (1..next.len()).rev() {
        // Strictly below `last`: that a slot never stays in place is what makes it one cycle.
        next.swap(last, random.below(last as u64) as usize);
    }
    next
}

/// Writes a random single cycle into `words`: the first word of each slot gets the address of the next slot's
/// first word. `base` is the address of `words` as the chaser sees it. Returns the number of slots; slot 0, where
/// a chase may start, is at `base`. Other words stay as they are.
///
/// ```
/// use kernels::cycle::{Spacing, fill_cycle};
/// use machine::Bytes;
/// let mut words = vec![0u64; 1024];
/// let slots = fill_cycle(&mut words, 0x10000, Spacing::every_line(Bytes(64))?, 1)?;
/// assert_eq!(slots, 128);
/// let second = words[0];
/// assert!(second > 0x10000 && second % 64 == 0);
/// # Ok::<(), kernels::cycle::CycleError>(())
/// ```
pub fn fill_cycle(words: &mut [u64], base: u64, spacing: Spacing, seed: u64) -> Result<u32, CycleError> {
    let len = Bytes(size_of_val(words) as u64);
    let slots = match spacing.slots(len) {
        0 => {
            return Err(CycleError::TooShort { len, stride: Bytes(spacing.stride) });
        }
        slots => u32::try_from(slots).map_err(|_| CycleError::TooManySlots { slots })?,
    };
    if !base.is_multiple_of(spacing.line) || base.checked_add(len.0).is_none() {
        return Err(CycleError::BadBase { base, len });
    }
    for (slot, next) in (0..slots).zip(order(slots, seed)) {
        words[(spacing.offset(slot) / 8) as usize] = base + spacing.offset(next);
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    /// Slots met on the way from slot 0 back to it.
    fn cycle_length(next: &[u32]) -> usize {
        let mut slot = next[0];
        let mut steps = 1;
        while slot != 0 && steps <= next.len() {
            slot = next[slot as usize];
            steps += 1;
        }
        steps
    }

    #[test]
    fn small_orders() {
        assert!(order(0, 1).is_empty());
        assert_eq!(order(1, 1), [0]);
        assert_eq!(order(2, 1), [1, 0]);
        assert_eq!(order(1000, 7), order(1000, 7));
        assert_ne!(order(1000, 7), order(1000, 8));
    }

    #[test]
    fn all_cycles_are_equally_likely() {
        // Four slots have 3! cycles of full length.
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            *counts.entry(order(4, seed)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn slots_of_a_stride_use_all_sets_alike() {
        let spacing = Spacing::every_stride(Bytes(64), Bytes::kib(4)).expect("a spacing");
        for sets in [64u64, 512, 1024, 2048, 16_384] {
            let mut used = vec![0u32; sets as usize];
            for slot in 0..4 * sets as u32 {
                used[(spacing.offset(slot) / 64 % sets) as usize] += 1;
            }
            assert!(used.iter().all(|&n| n == 4), "{sets} sets");
        }
        // Even a chase that fits the first level meets each of its sets.
        let first: BTreeSet<u64> = (0..64).map(|slot| spacing.offset(slot) / 64 % 64).collect();
        assert_eq!(first.len(), 64);
    }

    #[test]
    fn what_cannot_be_chased() {
        let line = Bytes(64);
        for bad in [0, 4, 48] {
            assert_eq!(Spacing::every_line(Bytes(bad)), Err(CycleError::BadLine { line: Bytes(bad) }));
        }
        for bad in [0, 32, 96] {
            let stride = Bytes(bad);
            assert_eq!(Spacing::every_stride(line, stride), Err(CycleError::BadStride { line, stride }));
        }
        let spacing = Spacing::every_line(line).expect("a spacing");
        let too_short = CycleError::TooShort { len: Bytes(56), stride: line };
        assert_eq!(fill_cycle(&mut [0; 7], 0, spacing, 1), Err(too_short));
        for base in [8, u64::MAX - 63] {
            let error = CycleError::BadBase { base, len: line };
            assert_eq!(fill_cycle(&mut [0; 8], base, spacing, 1), Err(error));
        }
        assert_eq!(fill_cycle(&mut [0; 8], 0, spacing, 1), Ok(1));
    }

    proptest! {
        #[test]
        fn one_cycle_of_full_length(slots in 1u32..3000, seed: u64) {
            prop_assert_eq!(cycle_length(&order(slots, seed)), slots as usize);
        }

        #[test]
        fn pointers_visit_every_slot_once(
            words in 512usize..20_000, line in 3u32..9, lines in 0u32..7, base in 0u64..1 << 40, seed: u64
        ) {
            let (line, stride) = (Bytes(1 << line), Bytes(1 << (line + lines)));
            let spacing = Spacing::every_stride(line, stride).expect("a spacing");
            let base = base / line.0 * line.0;
            let mut words = vec![u64::MAX; words];
            let Ok(slots) = fill_cycle(&mut words, base, spacing, seed) else {
                prop_assert!(spacing.slots(Bytes(words.len() as u64 * 8)) == 0);
                return Ok(());
            };
            let mut seen = BTreeSet::new();
            let mut address = base;
            while seen.insert(address) {
                prop_assert_eq!(address % line.0, 0);
                address = words[((address - base) / 8) as usize];
                prop_assert!(address != u64::MAX, "a word that is no slot");
            }
            prop_assert_eq!(address, base);
            prop_assert_eq!(seen.len(), slots as usize);
            let strides: BTreeSet<u64> = seen.iter().map(|a| (a - base) / stride.0).collect();
            prop_assert_eq!(strides.len(), slots as usize, "one slot per stride");
            prop_assert_eq!(words.iter().filter(|&&w| w != u64::MAX).count(), slots as usize);
        }
    }
}
