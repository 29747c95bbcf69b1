//! Memory without time: hits and misses of a trace of addresses, for large cache studies.
//!
//! [`TwoLevel`] is what cachegrind simulates and follows its rules, so that both can be held against each other:
//!
//! - Two first-level caches and a unified last level, write-allocate; the last level is asked only after a miss in the
//!   first, and is not inclusive.
//! - An access that crosses a line touches both lines, in both levels, and counts as one miss at most.
//! - An instruction that reads a place and writes it again (`M` in a lackey trace) is one read.
//! - An access longer than a line (saving all vector registers, for one) is cut to a line's length.
//!
//! [`Hierarchy`] is a model's caches: an L1 and L2 per core, shared L3s. Addresses are taken as physical.

mod hierarchy;

pub use hierarchy::{Hierarchy, LevelCounts, TraceLevel};

use machine::model::CacheGeometry;

use super::cache::SetCache;

/// Counts of a [`TwoLevel`], with the meaning of cachegrind's `Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoLevelCounts {
    /// Instructions.
    pub instructions: AccessCounts,
    /// Reads, and reads that write the same place again.
    pub reads: AccessCounts,
    /// Writes.
    pub writes: AccessCounts,
}

/// Accesses of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// All of them.
    pub accesses: u64,
    /// Those that missed the first level.
    pub first_misses: u64,
    /// Those that missed the last level too.
    pub last_misses: u64,
}

/// Two levels of caches without time.
///
/// ```
/// use machine::{Bytes, model::{CacheGeometry, Replacement}};
/// use sim::memory::trace::TwoLevel;
/// let geometry = |size, ways| CacheGeometry { size, ways, line: Bytes(64), replacement: Replacement::Lru };
/// let first = geometry(Bytes::kib(32), 8);
/// let mut caches = TwoLevel::new(&first, &first, &geometry(Bytes::mib(1), 16));
/// (0..100_000).step_by(8).for_each(|address| caches.read(address, 8));
/// assert_eq!(caches.counts().reads.first_misses, 100_000 / 64 + 1);
/// ```
pub struct TwoLevel {
    first_instructions: First,
    first_data: First,
    last: SetCache,
    last_shift: u32,
    counts: TwoLevelCounts,
}

/// A first level with the line used last, which needs no search.
struct First {
    cache: SetCache,
    shift: u32,
    recent: u64,
}

impl First {
    fn new(geometry: &CacheGeometry) -> Self {
        Self { cache: SetCache::with_geometry(geometry, 1), shift: shift(geometry), recent: u64::MAX }
    }

    /// Whether the access missed.
    #[inline]
    fn misses(&mut self, address: u64, size: u64) -> bool {
        let (first, last) = (address >> self.shift, end(address, size) >> self.shift);
        if first == last && first == self.recent {
            return false;
        }
        self.recent = last;
        let missed = misses(&mut self.cache, first);
        if first == last { missed } else { misses(&mut self.cache, last) | missed }
    }
}

fn shift(geometry: &CacheGeometry) -> u32 {
    geometry.line.0.max(1).ilog2()
}

/// The last byte of an access; at the end of the address space it ends there.
fn end(address: u64, size: u64) -> u64 {
    address.saturating_add(size.max(1) - 1)
}

/// Uses a line, bringing it in if it is not there; whether it was not.
#[inline]
fn misses(cache: &mut SetCache, line: u64) -> bool {
    match cache.find(line, line) {
        Some(slot) => {
            cache.touch(slot);
            false
        }
        None => {
            let slot = cache.victim(line);
            cache.replace(slot, line, ());
            true
        }
    }
}

impl TwoLevel {
    /// Empty caches: first level for instructions, for data, and the last level. Lines of all should be of one
    /// length; a length that is no power of two is taken as the next lower one.
    pub fn new(instructions: &CacheGeometry, data: &CacheGeometry, last: &CacheGeometry) -> Self {
        Self {
            first_instructions: First::new(instructions),
            first_data: First::new(data),
            last: SetCache::with_geometry(last, 1),
            last_shift: shift(last),
            counts: TwoLevelCounts::default(),
        }
    }

    /// An instruction is fetched.
    #[inline]
    pub fn instruction(&mut self, address: u64, size: u64) {
        let missed = self.first_instructions.misses(address, size);
        let counts = &mut self.counts.instructions;
        Self::count(counts, missed, &mut self.last, self.last_shift, address, size);
    }

    /// Data is read, or read and written again.
    #[inline]
    pub fn read(&mut self, address: u64, size: u64) {
        let size = size.min(1 << self.first_data.shift);
        let missed = self.first_data.misses(address, size);
        Self::count(&mut self.counts.reads, missed, &mut self.last, self.last_shift, address, size);
    }

    /// Data is written.
    #[inline]
    pub fn write(&mut self, address: u64, size: u64) {
        let size = size.min(1 << self.first_data.shift);
        let missed = self.first_data.misses(address, size);
        Self::count(&mut self.counts.writes, missed, &mut self.last, self.last_shift, address, size);
    }

    #[inline]
    fn count(
        counts: &mut AccessCounts,
        missed: bool,
        last: &mut SetCache,
        shift: u32,
        address: u64,
        size: u64,
    ) {
        counts.accesses += 1;
        if missed {
            counts.first_misses += 1;
            let (first, second) = (address >> shift, end(address, size) >> shift);
            let mut missed = misses(last, first);
            if second != first {
                missed |= misses(last, second);
            }
            counts.last_misses += u64::from(missed);
        }
    }

    /// What was counted.
    pub fn counts(&self) -> &TwoLevelCounts {
        &self.counts
    }
}
