//! Translation buffers: the arrays. How misses are walked is in `walk`.

use machine::model::ModelTlb;

use super::pages::MappedPage;
use crate::divider::Divider;

/// No page has this key.
const EMPTY: u64 = u64::MAX;

/// One array of translations, most recently used first in each set.
#[derive(Clone, Debug)]
pub(super) struct SimulatedTlb {
    entries: Vec<TlbEntry>,
    sets: Divider,
    ways: usize,
}

/// A translation, and when its walk is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct TlbEntry {
    key: u64,
    pub page: MappedPage,
    pub ready: u64,
}

impl SimulatedTlb {
    pub fn new(level: &ModelTlb) -> Self {
        let ways = level.ways.clamp(1, level.entries.max(1));
        let sets = (level.entries / ways).max(1);
        let page = MappedPage { first_line: 0, size: super::options::PageSize::Small };
        let empty = TlbEntry { key: EMPTY, page, ready: 0 };
        Self {
            entries: vec![empty; (sets * ways) as usize],
            sets: Divider::new(sets.into()),
            ways: ways as usize,
        }
    }

    fn set(&mut self, key: u64) -> &mut [TlbEntry] {
        // The lowest bit of a key is the page's size.
        let first = self.sets.rest(key >> 1) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// The translation, if held.
    #[inline]
    pub fn find(&mut self, key: u64) -> Option<TlbEntry> {
        let set = self.set(key);
        let way = set.iter().position(|entry| entry.key == key)?;
        set[..=way].rotate_right(1);
        Some(set[0])
    }

    /// Holds a translation in place of the one unused for longest.
    pub fn fill(&mut self, key: u64, page: MappedPage, ready: u64) {
        let set = self.set(key);
        set.copy_within(..set.len() - 1, 1);
        set[0] = TlbEntry { key, page, ready };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::options::PageSize;

    #[test]
    fn the_least_recent_of_a_set_goes() {
        let mut tlb = SimulatedTlb::new(&ModelTlb { entries: 4, ways: 2 });
        let page = |n| MappedPage { first_line: n, size: PageSize::Small };
        for key in [0, 4, 2] {
            tlb.fill(key, page(key), 0);
        }
        assert!(tlb.find(0).is_some());
        tlb.fill(8, page(8), 0);
        assert!(tlb.find(4).is_none(), "0 was used after it");
        assert_eq!(tlb.find(8).map(|entry| entry.page.first_line), Some(8));
        assert!(tlb.find(2).is_some(), "of the other set");
    }
}
