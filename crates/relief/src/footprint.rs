//! What a stretch touches, and whether that fits the first cache with room to spare.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes of a line.
pub(crate) const LINE: u64 = 64;
const LINES_PER_PAGE: u64 = 64;

/// The first cache, as far as a stretch may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstCache {
    /// Lines it holds.
    pub lines: usize,
    /// Lines of one set.
    pub ways: usize,
}

impl Default for FirstCache {
    /// 32 KiB of eight ways, which no core of today has less of.
    fn default() -> Self {
        Self { lines: 512, ways: 8 }
    }
}

impl FirstCache {
    fn sets(&self) -> u64 {
        (self.lines / self.ways.max(1)).max(1) as u64
    }
}

/// Lines, pages and ways that a stretch has touched.
#[derive(Debug)]
pub(crate) struct Footprint {
    cache: FirstCache,
    lines: HashSet<u64>,
    pages: HashSet<u64>,
    in_set: HashMap<u64, usize>,
    /// What was in a line before it was first written to.
    written: BTreeMap<u64, Vec<u8>>,
    fullest_set: usize,
    /// Most lines that came in one turn.
    step: usize,
    at_turn: usize,
}

impl Footprint {
    pub fn new(cache: FirstCache) -> Self {
        Self {
            cache,
            lines: HashSet::new(),
            pages: HashSet::new(),
            in_set: HashMap::new(),
            written: BTreeMap::new(),
            fullest_set: 0,
            step: 0,
            at_turn: 0,
        }
    }

    /// Notes an access; `before` gives the bytes of a line that is about to be written.
    pub fn touch(
        &mut self,
        address: u64,
        bytes: u64,
        is_written: bool,
        mut before: impl FnMut(u64) -> Vec<u8>,
    ) {
        let last = address.saturating_add(bytes.max(1) - 1) / LINE;
        for line in address / LINE..=last {
            if self.lines.insert(line) {
                self.pages.insert(line / LINES_PER_PAGE);
                self.crowd(line);
            }
            if is_written && !self.written.contains_key(&line) {
                let bytes = before(line * LINE);
                if bytes.len() as u64 == LINE {
                    self.written.insert(line, bytes);
                }
            }
        }
    }

    fn crowd(&mut self, line: u64) {
        let set = self.in_set.entry(line % self.cache.sets()).or_insert(0);
        *set += 1;
        self.fullest_set = self.fullest_set.max(*set);
    }

    /// A turn begins.
    pub fn begin_turn(&mut self) {
        let weight = self.weight();
        self.step = self.step.max(weight.saturating_sub(self.at_turn));
        self.at_turn = weight;
    }

    /// Lines, those counted twice that are put back before each repetition: what they held takes room as well.
    fn weight(&self) -> usize {
        self.lines.len() + self.written.len()
    }

    /// Another turn as large as the largest may not fit.
    pub fn is_full(&self) -> bool {
        // Some 40 of at least 64 places of the first TLB; registers and results have lines and a page or two of their own.
        const PAGES: usize = 40;
        let room = self.cache.lines * 45 / 100;
        let ways = self.cache.ways.saturating_sub(2).max(1);
        self.weight() + self.step > room || self.pages.len() >= PAGES || self.fullest_set >= ways
    }

    /// It does not fit.
    pub fn is_over(&self) -> bool {
        self.weight() > self.cache.lines * 7 / 10 || self.fullest_set > self.cache.ways
    }

    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    pub fn into_written(self) -> BTreeMap<u64, Vec<u8>> {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(footprint: &mut Footprint, addresses: &[u64], is_written: bool) {
        footprint.begin_turn();
        for &address in addresses {
            footprint.touch(address, 8, is_written, |_| vec![0; 64]);
        }
    }

    #[test]
    fn a_stream_of_loads_fills_nearly_half_of_the_cache() {
        let mut footprint = Footprint::new(FirstCache::default());
        let mut turns = 0u64;
        while !footprint.is_full() {
            turn(&mut footprint, &[0x10000 + turns * 8], false);
            turns += 1;
        }
        assert!((200..=240).contains(&footprint.lines()), "{}", footprint.lines());
        assert!(!footprint.is_over());
    }

    #[test]
    fn what_is_written_counts_twice() {
        let mut footprint = Footprint::new(FirstCache::default());
        let mut turns = 0u64;
        while !footprint.is_full() {
            turn(&mut footprint, &[0x10000 + turns * 8], true);
            turns += 1;
        }
        assert!((100..=120).contains(&footprint.lines()), "{}", footprint.lines());
    }

    #[test]
    fn lines_of_one_set_are_few() {
        let mut footprint = Footprint::new(FirstCache::default());
        for turns in 0..6u64 {
            assert!(!footprint.is_full(), "{turns}");
            turn(&mut footprint, &[turns * 4096], false);
        }
        assert!(footprint.is_full(), "six of eight ways");
        assert!(!footprint.is_over());
        (6..9).for_each(|turns| turn(&mut footprint, &[turns * 4096], false));
        assert!(footprint.is_over(), "nine of eight ways");
    }

    #[test]
    fn far_places_end_with_the_pages() {
        let mut footprint = Footprint::new(FirstCache::default());
        let mut turns = 0u64;
        while !footprint.is_full() {
            turn(&mut footprint, &[turns * (4096 + 64)], false);
            turns += 1;
        }
        assert_eq!(turns, 40);
    }
}
