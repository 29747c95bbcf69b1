//! A private cache with the state of its lines and the moment from which each is there.

use machine::model::CacheGeometry;

use super::{
    cache::{EMPTY, SetCache},
    stamp::LruStamp,
};

/// Others may have it.
pub(super) const SHARED: u8 = 1;
/// Nobody else has it.
pub(super) const EXCLUSIVE: u8 = 2;
/// Nobody else has it, and it differs from what is below.
pub(super) const MODIFIED: u8 = 3;
/// The bits of a state.
pub(super) const STATE: u8 = 3;
/// Brought by a prefetcher and not used since.
pub(super) const PREFETCHED: u8 = 4;

/// A line that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub line: u64,
    /// State and flag.
    pub state: u8,
}

/// What is known of a line besides its number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LevelEntry(LruStamp);

impl LevelEntry {
    #[inline]
    pub fn new(ready: u64, state: u8) -> Self {
        Self(LruStamp::new(ready, state))
    }

    /// When its data is there.
    #[inline]
    pub fn ready(&self) -> u64 {
        self.0.moment_fs()
    }

    /// State and flag.
    #[inline]
    pub fn state(&self) -> u8 {
        self.0.flags()
    }

    #[inline]
    pub fn set_state(&mut self, state: u8) {
        self.0.set_flags(state);
    }
}

/// An L1 or L2.
#[derive(Clone, Debug)]
pub(super) struct CacheLevel {
    cache: SetCache<LevelEntry>,
}

impl CacheLevel {
    pub fn new(geometry: &CacheGeometry, seed: u64) -> Self {
        Self { cache: SetCache::with_geometry(geometry, seed) }
    }

    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        self.cache.find(line, line)
    }

    #[inline]
    pub fn entry(&self, slot: usize) -> &LevelEntry {
        self.cache.note(slot)
    }

    #[inline]
    pub fn entry_mut(&mut self, slot: usize) -> &mut LevelEntry {
        self.cache.note_mut(slot)
    }

    /// Notes a use, and gives what is known of the line.
    #[inline]
    pub fn touched(&mut self, slot: usize) -> &mut LevelEntry {
        self.cache.touched(slot)
    }

    /// Puts a line in and returns the one that had to go.
    #[inline(always)]
    pub fn put(&mut self, line: u64, state: u8, ready: u64) -> Option<Gone> {
        let (line, entry) = self.cache.put(line, line, LevelEntry::new(ready, state), 0);
        (line != EMPTY).then(|| Gone { line, state: entry.state() })
    }

    /// Takes a line away, if it is here.
    pub fn take(&mut self, line: u64) -> Option<Gone> {
        let slot = self.find(line)?;
        Some(self.clear(slot))
    }

    /// Takes the line of a slot away.
    pub fn clear(&mut self, slot: usize) -> Gone {
        let gone = Gone { line: self.cache.line(slot), state: self.entry(slot).state() };
        self.cache.clear(slot);
        gone
    }

    /// All slots that hold a line, with it.
    pub fn held(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.cache.held()
    }
}
