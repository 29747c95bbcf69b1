//! The way of a request through the L1: ports, tags, fill buffers.

use super::{
    level::{EXCLUSIVE, LevelEntry, MODIFIED, PREFETCHED, SHARED, STATE},
    system::{LineOrigin, MemorySystem, Served},
};
use crate::{access::Supplier, signal::CoreSignal};

/// What a request below the L1 came back with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    pub ready: u64,
    /// What the cache above may do with it: [`SHARED`], [`EXCLUSIVE`] or [`MODIFIED`].
    pub state: u8,
    pub supplier: Supplier,
    /// When the L2 had looked it up.
    pub answered: u64,
    /// The L2 did not have it.
    pub missed: bool,
}

/// Cycles from an atomic operation's reading of a line to its writing: the operation, its retirement and the store.
const READ_TO_WRITE: u64 = 4;

impl MemorySystem {
    /// A load, store, walk or prefetch of a translated line.
    #[inline]
    pub(super) fn data(&mut self, core: usize, line: u64, at: u64, origin: LineOrigin) -> Served {
        let side = &mut self.cores[core];
        let cycle = side.cycle_fs;
        let asked = side.cycles.floor(at);
        let store = origin == LineOrigin::Store;
        let start = if store { side.lanes.store(asked) } else { side.lanes.load(asked) };
        let start = at.max(start * cycle);
        let cycles = if store { 1 } else { u64::from(self.l1.latency) };
        if let Some(served) = side.use_departing(line, start, cycles) {
            return served;
        }
        let Some(slot) = side.l1.find(line) else {
            side.stats.l1.demand_misses += 1;
            return self.miss(core, line, start, origin, false);
        };
        let entry = side.l1.touched(slot);
        let (state, arrives) = (entry.state(), entry.ready());
        if state & PREFETCHED != 0 {
            entry.set_state(state & STATE);
            side.stats.l1.prefetch_used += 1;
            side.next_line.used_prefetched = true;
            if origin == LineOrigin::Load && arrives > start {
                // From now on somebody waits for this buffer.
                self.watcher.note_span(core, CoreSignal::FillBuffers.into(), start, arrives);
            }
        }
        if arrives > start {
            side.stats.l1.demand_pending += 1;
        } else {
            side.stats.l1.demand_hits += 1;
        }
        if store {
            if state & STATE == SHARED {
                side.stats.upgrades += 1;
                return self.miss(core, line, start, origin, true);
            }
            entry.set_state(MODIFIED);
        }
        let supplier = if arrives > start { Supplier::FillBuffer } else { Supplier::L1 };
        Served { ready: arrives.max(start + cycles * cycle), accepted: start, supplier }
    }

    /// What an atomic operation reads. It asks to own the line at once, and keeps it until it has written: one that another core has
    /// been granted must stay long enough for both, or it is asked for again.
    pub(super) fn data_to_own(&mut self, core: usize, line: u64, at: u64) -> Served {
        let side = &mut self.cores[core];
        let latency = u64::from(self.l1.latency) * side.cycle_fs;
        if side.departing.goes_within(line, at, latency + READ_TO_WRITE * side.cycle_fs) {
            side.departing.forget(line);
        }
        let served = self.data(core, line, at, LineOrigin::Store);
        Served { ready: served.ready.max(at + latency), ..served }
    }

    /// Takes a fill buffer and goes to the L2, for the line or (`upgrade`) only for the right to write it.
    fn miss(&mut self, core: usize, line: u64, start: u64, origin: LineOrigin, upgrade: bool) -> Served {
        let side = &mut self.cores[core];
        let (buffer, accepted) = side.fill_buffers.acquire(start);
        if accepted > start {
            side.stats.fill_buffer_waits += 1;
            side.stats.fill_buffer_wait_fs += accepted - start;
            self.watcher.note(core, CoreSignal::FillBufferRefusals, start);
        }
        side.stats.rfos += u64::from(origin == LineOrigin::Store);
        let below = self.level_two(core, line, accepted, origin, upgrade);
        let state = if origin == LineOrigin::Store { MODIFIED } else { below.state };
        let until = match upgrade {
            true => self.upgrade_level_one(core, line, state, below.ready),
            false => self.fill_level_one(core, line, state, below.ready),
        };
        self.cores[core].fill_buffers.hold(buffer, until);
        if origin == LineOrigin::Load {
            self.watcher.note_span(core, CoreSignal::FillBuffers.into(), accepted, below.ready);
        }
        self.train_level_two(core, line, origin, &below);
        let mut ready = below.ready;
        if origin == LineOrigin::Store {
            // It went through the cache once to ask; it goes again to write.
            let side = &mut self.cores[core];
            ready = ready.max(side.lanes.store(side.cycles.floor(ready)) * side.cycle_fs);
        }
        Served { ready, accepted, supplier: below.supplier }
    }

    /// A prefetch into the L1: nothing waits, and without a free fill buffer, or beside many misses, it is dropped.
    pub(super) fn prefetch_level_one(&mut self, core: usize, line: u64, at: u64) {
        let side = &mut self.cores[core];
        if side.l1.find(line).is_some() {
            return;
        }
        // It stands back while many misses are in progress (Intel optimization manual, data prefetching of Sandy Bridge).
        // How many is not said: half of the buffers are assumed, as for the streamer and the superqueue.
        let many = self.l1.misses_in_flight.div_ceil(2) as usize;
        let (free, held) = side.fill_buffers.look(at);
        let Some(buffer) = free.filter(|_| held < many) else {
            side.stats.l1.prefetch_dropped += 1;
            return;
        };
        side.stats.l1.prefetch_fills += 1;
        let below = self.level_two(core, line, at, LineOrigin::L1Prefetch, false);
        let until = self.fill_level_one(core, line, below.state | PREFETCHED, below.ready);
        self.cores[core].fill_buffers.hold(buffer, until);
        self.train_level_two(core, line, LineOrigin::L1Prefetch, &below);
    }

    /// Gives a line in the L1 its new state, or puts it in if somebody took it away on the way.
    fn upgrade_level_one(&mut self, core: usize, line: u64, state: u8, ready: u64) -> u64 {
        let l1 = &mut self.cores[core].l1;
        let Some(slot) = l1.find(line) else {
            return self.fill_level_one(core, line, state, ready);
        };
        let entry = l1.entry_mut(slot);
        *entry = LevelEntry::new(entry.ready().max(ready), state);
        ready
    }

    /// Puts a line into the L1 when its data comes; returns when the cache is done with it.
    #[inline(always)]
    fn fill_level_one(&mut self, core: usize, line: u64, state: u8, ready: u64) -> u64 {
        let side = &mut self.cores[core];
        // The line is written when it arrives; a load has its data a hit's latency after that.
        let cycle = side.cycles.floor(ready);
        let cycle = cycle.saturating_sub(self.l1.latency.into());
        let filled = side.lanes.all(cycle, self.l1.fill_cycles);
        let until = ready.max(filled * side.cycle_fs);
        side.stats.l1.fills += 1;
        self.watcher.note(core, CoreSignal::L1LinesIn, ready);
        let Some(gone) = side.l1.put(line, state, ready) else {
            return until;
        };
        if gone.state & PREFETCHED != 0 {
            side.stats.l1.prefetch_unused += 1;
        }
        if gone.state & STATE == MODIFIED {
            side.stats.l1.evictions_modified += 1;
            let sent = side.lanes.all(cycle, self.l1.evict_cycles) * side.cycle_fs;
            self.watcher.note(core, CoreSignal::L1WriteBacks, ready);
            self.write_back_to_level_two(core, gone.line, ready);
            return until.max(sent);
        }
        side.stats.l1.evictions_clean += 1;
        if self.filtered {
            self.forget_if_gone(core, gone.line);
        }
        until
    }

    /// What a line in the L2 allows the L1 above it.
    pub(super) fn grant(state_below: u8) -> u8 {
        if state_below & STATE == SHARED { SHARED } else { EXCLUSIVE }
    }
}
