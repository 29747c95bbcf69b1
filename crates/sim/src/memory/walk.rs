//! Translation: two levels of TLB, then a walk whose reads go through the caches like any other.

use super::{
    options::{PageSize, SMALL_PAGE_BYTES},
    pages::{self, MappedPage, line_in, page_key},
    system::{LineOrigin, MemorySystem},
};
use crate::{access::Translation, signal::CoreSignal};

/// A translated address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translated {
    pub line: u64,
    /// When the translation is known.
    pub at: u64,
    pub how: Translation,
}

impl MemorySystem {
    /// Translates for a request made at `at`.
    #[inline]
    pub(super) fn translate(&mut self, core: usize, address: u64, at: u64, origin: LineOrigin) -> Translated {
        let (number, first) = self.cores[core].last_page;
        if address / SMALL_PAGE_BYTES == number {
            let line = first + (address / 64) % pages::SMALL_LINES;
            return Translated { line, at, how: Translation::L1 };
        }
        self.translate_elsewhere(core, address, at, origin)
    }

    /// Not in the page translated last.
    fn translate_elsewhere(&mut self, core: usize, address: u64, at: u64, origin: LineOrigin) -> Translated {
        let side = &mut self.cores[core];
        let mut found = None;
        if self.any_small {
            let key = page_key(address, PageSize::Small);
            found = side.dtlb_small.find(key);
        }
        if self.any_huge && found.is_none() {
            let key = page_key(address, PageSize::Huge);
            found = side.dtlb_huge.find(key);
        }
        let Some(entry) = found else {
            return self.translate_data(core, address, at, origin);
        };
        let line = line_in(entry.page, address);
        if entry.ready > at {
            return Translated { line, at: entry.ready, how: Translation::Walk };
        }
        side.last_page = (address / SMALL_PAGE_BYTES, line - (address / 64) % pages::SMALL_LINES);
        Translated { line, at, how: Translation::L1 }
    }

    /// After a miss in the first level for data.
    fn translate_data(&mut self, core: usize, address: u64, at: u64, origin: LineOrigin) -> Translated {
        self.cores[core].stats.dtlb_misses += 1;
        let (translated, page) = self.translate_further(core, address, at, origin);
        if translated.how == Translation::L2 {
            let load = origin != LineOrigin::Store;
            let signal = if load { CoreSignal::LoadSecondLevelTlb } else { CoreSignal::StoreSecondLevelTlb };
            self.watcher.note(core, signal, translated.at);
        }
        let side = &mut self.cores[core];
        let first_level = match page.size {
            PageSize::Small => &mut side.dtlb_small,
            PageSize::Huge => &mut side.dtlb_huge,
        };
        first_level.fill(page_key(address, page.size), page, translated.at);
        translated
    }

    /// Through the second level, and by a walk if it has to be.
    pub(super) fn translate_further(
        &mut self,
        core: usize,
        address: u64,
        at: u64,
        origin: LineOrigin,
    ) -> (Translated, MappedPage) {
        let package = self.package_of(core);
        let page = self.pages.page(address, package);
        let key = page_key(address, page.size);
        let in_second = page.size == PageSize::Small || self.tlb.l2_holds_huge;
        let side = &mut self.cores[core];
        let asked = at + u64::from(self.tlb.l2_latency) * side.cycle_fs;
        let held = if in_second { side.stlb.find(key) } else { None };
        let (done, how) = match held {
            Some(entry) if entry.ready <= asked => {
                side.stats.stlb_hits += 1;
                (asked, Translation::L2)
            }
            Some(entry) => (entry.ready, Translation::Walk),
            None => {
                let done = self.walk(core, address, page, asked, origin);
                if in_second {
                    self.cores[core].stlb.fill(key, page, done);
                }
                (done, Translation::Walk)
            }
        };
        (Translated { line: line_in(page, address), at: done, how }, page)
    }

    /// Reads the page-table entries that no structure cache has, outermost first; returns when the last is known.
    fn walk(&mut self, core: usize, address: u64, page: MappedPage, at: u64, origin: LineOrigin) -> u64 {
        let (walker, started) = self.cores[core].walkers.acquire(at);
        let innermost = match page.size {
            PageSize::Small => 1,
            PageSize::Huge => 2,
        };
        // Entries above are cached; the innermost is always read.
        let outermost = 4u32.saturating_sub(self.tlb.walk_levels_cached).max(innermost);
        let node = pages::home(page.first_line);
        let mut done = started + u64::from(self.tlb.walk_cycles) * self.cores[core].cycle_fs;
        for level in (innermost..=outermost).rev() {
            let line = pages::entry_line(address, level, node);
            done = self.data(core, line, done, LineOrigin::Walk).ready;
            self.cores[core].stats.walk_reads += 1;
        }
        let side = &mut self.cores[core];
        side.walkers.hold(walker, done);
        side.stats.walks += 1;
        side.stats.walk_fs += done - started;
        self.tell_walk(core, origin, started, done);
        done
    }
}
