//! Where a thread's instructions come from: µop cache, or level-one instruction cache and decoders.

use machine::model::{CacheGeometry, FrontEnd, ModelTlb};

use super::table::{BlockTable, UopTable};

/// Tags with least-recently-used replacement: an instruction cache, or an instruction TLB.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    /// Per set, most recently used first; tag plus one.
    tags: Box<[u64]>,
    ways: usize,
    sets: u64,
    shift: u32,
}

impl Tags {
    pub fn cache(geometry: &CacheGeometry) -> Self {
        let line = geometry.line.0.max(1);
        let ways = geometry.ways.clamp(1, 1 << 10);
        Self::new(geometry.size.0 / line / u64::from(ways), ways, line.ilog2())
    }

    /// For pages of 4 KiB.
    pub fn tlb(level: &ModelTlb) -> Self {
        let ways = level.ways.clamp(1, 1 << 10);
        Self::new(u64::from(level.entries / ways), ways, 12)
    }

    fn new(sets: u64, ways: u32, shift: u32) -> Self {
        let (sets, ways) = (sets.clamp(1, 1 << 20), ways as usize);
        Self { tags: vec![0; sets as usize * ways].into_boxed_slice(), ways, sets, shift }
    }

    /// Bytes of a line or a page.
    pub fn granule(&self) -> u64 {
        1 << self.shift
    }

    /// Looks an address up and makes it the most recent; false if it was not there.
    pub fn touch(&mut self, address: u64) -> bool {
        let tag = (address >> self.shift) + 1;
        let set = ((address >> self.shift) % self.sets) as usize * self.ways;
        let tags = &mut self.tags[set..set + self.ways];
        match tags.iter().position(|&held| held == tag) {
            Some(way) => {
                tags[..=way].rotate_right(1);
                true
            }
            None => {
                tags.rotate_right(1);
                tags[0] = tag;
                false
            }
        }
    }
}

/// Decoded blocks of one program, least recently used first out.
#[derive(Clone, Debug)]
pub(crate) struct UopCache {
    capacity: u64,
    held: u64,
    stamp: u64,
    /// Last use of each block; 0 if it is not held.
    used: Vec<u64>,
}

impl UopCache {
    /// `share`: threads that divide it.
    pub fn new(model: &FrontEnd, share: u32) -> Self {
        Self { capacity: u64::from(model.uop_cache_uops / share.max(1)), held: 0, stamp: 0, used: Vec::new() }
    }

    /// Another program.
    pub fn reset(&mut self, blocks: usize) {
        self.held = 0;
        self.used.clear();
        self.used.resize(blocks, 0);
    }

    /// Whether a block is held; it will be from now on if it fits.
    #[inline]
    pub fn touch(&mut self, index: usize, table: &UopTable) -> bool {
        self.stamp += 1;
        match self.used.get_mut(index) {
            Some(used) if *used != 0 => {
                *used = self.stamp;
                true
            }
            Some(_) => {
                self.insert(index, table);
                false
            }
            None => false,
        }
    }

    fn insert(&mut self, index: usize, table: &UopTable) {
        let size = |block: &BlockTable| block.counts.slots;
        let needed = size(&table.blocks[index]);
        if needed > self.capacity {
            return;
        }
        while self.held + needed > self.capacity {
            let held = self.used.iter().enumerate().filter(|(_, stamp)| **stamp != 0);
            let Some((oldest, _)) = held.min_by_key(|(_, stamp)| **stamp) else { break };
            self.used[oldest] = 0;
            self.held -= size(&table.blocks[oldest]);
        }
        self.used[index] = self.stamp;
        self.held += needed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Bytes, model::Replacement};

    #[test]
    fn the_least_recently_used_line_goes() {
        let geometry =
            CacheGeometry { size: Bytes(256), ways: 2, line: Bytes(64), replacement: Replacement::Lru };
        let mut tags = Tags::cache(&geometry);
        assert_eq!(tags.granule(), 64);
        // Two sets of two ways: lines 0, 2, 4 share a set.
        assert!(!tags.touch(0));
        assert!(!tags.touch(128));
        assert!(tags.touch(0));
        assert!(!tags.touch(256));
        assert!(tags.touch(0), "used more recently than line 2");
        assert!(!tags.touch(128));
        assert!(!tags.touch(64), "the other set");
    }
}
