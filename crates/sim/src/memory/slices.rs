//! The shared cache of a package, in slices, with the directory of an inclusive one packed beside its tags.

use machine::model::{Inclusion, SharedCache};

use super::{
    cache::{EMPTY, SetCache},
    calendar::{Calendar, Slots},
    spread::Spread,
    stamp::LruStamp,
};
use crate::divider::Divider;

/// Differs from memory.
pub(super) const DIRTY: u8 = 1;
/// The only holder may write it without asking.
pub(super) const OWNED: u8 = 2;
/// Other packages may hold it too.
pub(super) const ELSEWHERE: u8 = 4;
/// Brought by a prefetcher and not used since.
pub(super) const PREFETCHED: u8 = 8;

/// Lines between one that is used and one the host is asked for.
const AHEAD: u64 = 16;

/// A line that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineLeft {
    pub line: u64,
    pub flags: u8,
    pub holders: u64,
}

/// A line and where it belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub line: u64,
    pub slice: usize,
    /// Its set, among those of all slices.
    set: u64,
}

impl Located {
    /// A line of a package without a shared cache.
    pub fn nowhere(line: u64) -> Self {
        Self { line, slice: 0, set: 0 }
    }
}

/// What is known of a line besides its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SliceEntry {
    stamp: LruStamp,
    /// One bit per L2 that may hold the line; stays when an L2 drops an unmodified line, as on real machines.
    pub holders: u64,
}

impl SliceEntry {
    /// When its data is there.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.stamp.moment_fs()
    }

    #[inline]
    pub fn flags(&self) -> u8 {
        self.stamp.flags()
    }

    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.stamp.set_flags(flags);
    }
}

/// A last-level cache.
#[derive(Clone, Debug)]
pub(super) struct CacheSlices {
    cache: SetCache<SliceEntry>,
    arrays: Vec<Calendar>,
    pub misses: Vec<Slots>,
    spread: Spread,
    sets_per_slice: Divider,
    slice_fs: u64,
    /// Uncore part of a hit's latency.
    pub latency_fs: u64,
    /// Core cycles of a hit's latency.
    pub core_latency: u64,
    pub snoop_fs: u64,
    pub inclusive: bool,
}

impl CacheSlices {
    pub fn new(model: &SharedCache, uncore_fs: u64, seed: u64) -> Self {
        let slices = model.slices.max(1);
        let geometry = &model.geometry;
        let sets = geometry.size.0 / (geometry.line.0.max(1) * u64::from(geometry.ways.max(1)));
        let sets_per_slice = (sets / u64::from(slices)).max(1);
        let cache =
            SetCache::new(sets_per_slice * u64::from(slices), geometry.ways, geometry.replacement, seed);
        let count = slices as usize;
        let slice_fs = u64::from(model.slice_cycles) * uncore_fs;
        Self {
            cache,
            arrays: vec![Calendar::new(slice_fs); count],
            misses: vec![Slots::new(model.misses_in_flight); count],
            spread: Spread::new(slices),
            sets_per_slice: Divider::new(sets_per_slice),
            slice_fs,
            latency_fs: u64::from(model.latency) * uncore_fs,
            core_latency: u64::from(model.core_latency),
            snoop_fs: u64::from(model.snoop_latency) * uncore_fs,
            inclusive: model.inclusion == Inclusion::Inclusive,
        }
    }

    /// The slice and the set of a line.
    #[inline]
    pub fn locate(&self, line: u64) -> Located {
        let (slice, within) = self.spread.place(line);
        let set = self.sets_per_slice.rest(within);
        // Sets of all slices side by side: a stream of lines then walks the host's memory in order too.
        Located { line, slice, set: set * self.arrays.len() as u64 + slice as u64 }
    }

    #[inline]
    pub fn find(&self, at: Located) -> Option<usize> {
        self.cache.find(at.set, at.line)
    }

    /// Neighbours of a line follow soon: asks the host for what they will need. Their sets are the next ones, if not in
    /// their order.
    #[inline]
    pub fn expect_after(&self, at: Located) {
        self.cache.expect_set(at.set + AHEAD);
    }

    #[inline]
    pub fn entry(&self, slot: usize) -> &SliceEntry {
        self.cache.note(slot)
    }

    #[inline]
    pub fn entry_mut(&mut self, slot: usize) -> &mut SliceEntry {
        self.cache.note_mut(slot)
    }

    pub fn touch(&mut self, slot: usize) {
        self.cache.touch(slot);
    }

    /// When a request that reaches its slice at `at` gets the array.
    #[inline]
    pub fn serve(&mut self, line: Located, at: u64) -> u64 {
        self.arrays[line.slice].reserve(at, self.slice_fs)
    }

    /// Puts a line in; returns the line that had to go.
    #[inline]
    pub fn put(&mut self, at: Located, flags: u8, holders: u64, ready: u64) -> Option<LineLeft> {
        let entry = SliceEntry { stamp: LruStamp::new(ready, flags), holders };
        let (line, entry) = self.cache.put(at.set, at.line, entry, AHEAD as usize);
        let left = LineLeft { line, flags: entry.flags(), holders: entry.holders };
        (line != EMPTY).then_some(left)
    }

    /// Takes the line of a slot away.
    pub fn take(&mut self, slot: usize) {
        self.cache.clear(slot);
    }

    /// All slots that hold a line, with it.
    pub fn held(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.cache.held()
    }
}
