//! Pages: which physical line a virtual address lies in, and on which package.
//!
//! A physical line number carries its package in the bits from [`NODE_SHIFT`] up, and below them what kind of frame
//! it is in: of a small page, of a huge page, or of a page table. So the home of a line is known from its number.

use super::options::{FrameOrder, HUGE_PAGE_BYTES, MemoryOptions, PagePlacement, PageSize, SMALL_PAGE_BYTES};

/// Bit of a line number at which the package begins.
pub(super) const NODE_SHIFT: u32 = 40;
const HUGE_FRAMES: u64 = 1 << 38;
const TABLE_FRAMES: u64 = 1 << 39;
/// Lines of a small page.
pub(super) const SMALL_LINES: u64 = SMALL_PAGE_BYTES / 64;
const HUGE_LINES: u64 = HUGE_PAGE_BYTES / 64;
/// Scattered frames permute this many bits of the frame number: 256 GiB.
const SCATTER_BITS: u32 = 26;
const EMPTY: u64 = u64::MAX;

/// A translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedPage {
    /// First line of the page.
    pub first_line: u64,
    pub size: PageSize,
}

/// Pages placed by hand.
#[derive(Clone, Copy, Debug)]
struct PageRange {
    first: u64,
    last: u64,
    node: u64,
    size: PageSize,
}

/// All pages touched so far: a hash table with open addressing, and the rules for new ones.
#[derive(Clone, Debug)]
pub(super) struct PageMap {
    keys: Vec<u64>,
    first_lines: Vec<u64>,
    len: usize,
    ranges: Vec<PageRange>,
    options: MemoryOptions,
    nodes: u64,
    /// Small frames of each package's memory.
    frames_per_node: u64,
    used: Vec<Used>,
    next_interleaved: u64,
    /// Pages given although all memory was in use.
    pub overcommitted: u64,
}

/// Frames given out on one package.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    small: u64,
    huge: u64,
}

/// Names a page: its number and size.
pub(super) fn page_key(address: u64, size: PageSize) -> u64 {
    match size {
        PageSize::Small => address / SMALL_PAGE_BYTES * 2,
        PageSize::Huge => address / HUGE_PAGE_BYTES * 2 + 1,
    }
}

/// The line of a page that `address` lies in.
pub(super) fn line_in(page: MappedPage, address: u64) -> u64 {
    let lines = match page.size {
        PageSize::Small => SMALL_LINES,
        PageSize::Huge => HUGE_LINES,
    };
    page.first_line + (address / 64) % lines
}

/// The package whose memory holds a line.
pub(super) fn home(line: u64) -> usize {
    (line >> NODE_SHIFT) as usize
}

/// Spreads the bits of a number; a multiplication by an odd constant and a fold.
pub(super) fn mix(n: u64) -> u64 {
    let product = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

/// The line that holds the page-table entry of `address` in the table `level` (1 points to small pages). Tables are
/// spread over a region of their own, neighbours in one table lie side by side.
pub(super) fn entry_line(address: u64, level: u32, node: usize) -> u64 {
    let entry = address >> (12 + 9 * (level - 1)).min(63);
    let table = mix(entry >> 9 << 3 | u64::from(level)) >> 8 & ((1 << 32) - 1);
    (node as u64) << NODE_SHIFT | TABLE_FRAMES | (table * SMALL_LINES + (entry % 512) / 8)
}

impl PageMap {
    pub fn new(nodes: u32, node_bytes: u64, options: MemoryOptions) -> Self {
        Self {
            keys: vec![EMPTY; 1024],
            first_lines: vec![0; 1024],
            len: 0,
            ranges: Vec::new(),
            options,
            nodes: u64::from(nodes.max(1)),
            frames_per_node: (node_bytes / SMALL_PAGE_BYTES).max(1),
            used: vec![Used::default(); nodes.max(1) as usize],
            next_interleaved: 0,
            overcommitted: 0,
        }
    }

    /// Places the pages of `first..=last` that nobody touched yet. Later calls win.
    pub fn map(&mut self, first: u64, last: u64, node: u32, size: PageSize) {
        let node = u64::from(node).min(self.nodes - 1);
        self.ranges.push(PageRange { first, last, node, size });
    }

    /// Whether pages of this size can occur.
    pub fn may_have(&self, size: PageSize) -> bool {
        self.options.page_size == size || self.ranges.iter().any(|range| range.size == size)
    }

    /// How large the page of `address` is.
    pub fn size_at(&self, address: u64) -> PageSize {
        self.range_of(address).map_or(self.options.page_size, |range| range.size)
    }

    fn range_of(&self, address: u64) -> Option<&PageRange> {
        self.ranges.iter().rev().find(|range| (range.first..=range.last).contains(&address))
    }

    /// The page of `address`, placed now if it is touched for the first time, by a core of package `toucher`.
    pub fn page(&mut self, address: u64, toucher: usize) -> MappedPage {
        let size = self.size_at(address);
        let key = page_key(address, size);
        let place = self.place_of(key);
        if self.keys[place] == key {
            return MappedPage { first_line: self.first_lines[place], size };
        }
        let wanted = match (self.range_of(address), self.options.placement) {
            (Some(range), _) => range.node,
            (None, PagePlacement::FirstTouch) => toucher as u64,
            (None, PagePlacement::Interleave) => {
                self.next_interleaved += 1;
                (self.next_interleaved - 1) % self.nodes
            }
            (None, PagePlacement::Node(node)) => u64::from(node).min(self.nodes - 1),
        };
        let first_line = self.new_frame(wanted, size);
        self.insert(key, first_line);
        MappedPage { first_line, size }
    }

    fn new_frame(&mut self, wanted: u64, size: PageSize) -> u64 {
        let needed = match size {
            PageSize::Small => 1,
            PageSize::Huge => HUGE_LINES / SMALL_LINES,
        };
        let limit = self.frames_per_node;
        let has_room = |used: &Used| used.small + used.huge * (HUGE_LINES / SMALL_LINES) + needed <= limit;
        // Where the wanted package is full, the next one that is not.
        let node = (0..self.nodes)
            .map(|step| (wanted + step) % self.nodes)
            .find(|&node| has_room(&self.used[node as usize]))
            .unwrap_or_else(|| {
                self.overcommitted += 1;
                wanted
            });
        let used = &mut self.used[node as usize];
        let within = match size {
            PageSize::Small => {
                used.small += 1;
                scatter(used.small - 1, self.options) * SMALL_LINES % HUGE_FRAMES
            }
            PageSize::Huge => {
                used.huge += 1;
                HUGE_FRAMES | ((used.huge - 1) * HUGE_LINES % HUGE_FRAMES)
            }
        };
        node << NODE_SHIFT | within
    }

    fn place_of(&self, key: u64) -> usize {
        let mask = self.keys.len() - 1;
        let mut place = mix(key) as usize & mask;
        while self.keys[place] != EMPTY && self.keys[place] != key {
            place = (place + 1) & mask;
        }
        place
    }

    fn insert(&mut self, key: u64, first_line: u64) {
        if 2 * self.len >= self.keys.len() {
            let size = 2 * self.keys.len();
            let keys = std::mem::replace(&mut self.keys, vec![EMPTY; size]);
            let first_lines = std::mem::replace(&mut self.first_lines, vec![0; size]);
            self.len = 0;
            for (key, first_line) in keys.into_iter().zip(first_lines).filter(|&(key, _)| key != EMPTY) {
                self.insert(key, first_line);
            }
        }
        let place = self.place_of(key);
        self.keys[place] = key;
        self.first_lines[place] = first_line;
        self.len += 1;
    }
}

/// The frame that the `n`th small page gets.
fn scatter(n: u64, options: MemoryOptions) -> u64 {
    match options.frames {
        FrameOrder::InOrder => n,
        FrameOrder::Scattered => {
            let mask = (1 << SCATTER_BITS) - 1;
            let low = n & mask;
            // Each step can be undone, so no two pages share a frame.
            let low = (low ^ mix(options.seed) & mask).wrapping_mul(0x2c1b_3c6d) & mask;
            let low = low ^ low >> (SCATTER_BITS / 2);
            n & !mask | low.wrapping_mul(0x297a_2d39) & mask
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn first_touch_map_interleave_and_overflow() {
        let mut pages = PageMap::new(2, 4 * SMALL_PAGE_BYTES, MemoryOptions::default());
        pages.map(0x10_0000, 0x10_1fff, 1, PageSize::Small);
        let node = |pages: &mut PageMap, address, toucher| home(pages.page(address, toucher).first_line);
        assert_eq!(node(&mut pages, 0x5000, 0), 0);
        assert_eq!(node(&mut pages, 0x5fff, 1), 0, "placed already");
        assert_eq!(node(&mut pages, 0x10_1000, 0), 1);
        for page in 0..3 {
            assert_eq!(node(&mut pages, 0x20_0000 + page * 4096, 0), 0);
        }
        assert_eq!(node(&mut pages, 0x30_0000, 0), 1, "the first package is full");
        for page in 0..3 {
            node(&mut pages, 0x40_0000 + page * 4096, 0);
        }
        assert_eq!(pages.overcommitted, 1);
        let mut pages = PageMap::new(
            2,
            1 << 30,
            MemoryOptions { placement: PagePlacement::Interleave, ..MemoryOptions::default() },
        );
        let nodes: Vec<usize> = (0..4).map(|page| node(&mut pages, page * 4096, 0)).collect();
        assert_eq!(nodes, [0, 1, 0, 1]);
    }

    #[test]
    fn frames_are_given_once() {
        for frames in [FrameOrder::InOrder, FrameOrder::Scattered] {
            let mut pages = PageMap::new(1, 1 << 40, MemoryOptions { frames, ..MemoryOptions::default() });
            let lines: HashSet<u64> = (0..5000u64).map(|page| pages.page(page << 12, 0).first_line).collect();
            assert_eq!(lines.len(), 5000, "{frames:?}");
            assert!(lines.iter().all(|line| line % SMALL_LINES == 0));
        }
    }

    #[test]
    fn neighbouring_entries_share_a_line_and_huge_pages_are_whole() {
        assert_eq!(entry_line(0, 1, 0), entry_line(7 << 12, 1, 0));
        assert_ne!(entry_line(0, 1, 0), entry_line(8 << 12, 1, 0));
        assert_eq!(home(entry_line(u64::MAX, 4, 3)), 3);
        let options = MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() };
        let mut pages = PageMap::new(1, 1 << 40, options);
        let page = pages.page(u64::MAX, 0);
        assert_eq!(page, pages.page(u64::MAX - HUGE_PAGE_BYTES + 1, 0));
        assert_eq!(line_in(page, u64::MAX), page.first_line + HUGE_LINES - 1);
    }
}
