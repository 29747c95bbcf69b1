//! The way of a request through the L2: array, tags, superqueue; and what leaves it.

use super::{
    level::{EXCLUSIVE, MODIFIED, PREFETCHED, SHARED, STATE},
    level_one::Below,
    system::{CoreSide, LineOrigin, MemorySystem, Served},
    telling::LeavingLine,
};
use crate::{
    access::Supplier,
    signal::{CoreSignal, OffcoreRequest},
};

impl CoreSide {
    /// When an L2 of its own drops a line, the L1 keeps it and takes over its state (`None`); else the state to send on is
    /// returned.
    #[inline]
    fn take_over(&mut self, line: u64, state: u8) -> Option<u8> {
        let Some(slot) = self.l1.find(line) else {
            return Some(state);
        };
        if state == MODIFIED {
            let entry = self.l1.entry_mut(slot);
            entry.set_state(entry.state() & PREFETCHED | MODIFIED);
        }
        None
    }
}

impl MemorySystem {
    /// Instruction bytes that the core's own cache has not.
    pub(super) fn instructions(&mut self, core: usize, line: u64, at: u64) -> Served {
        let below = self.level_two(core, line, at, LineOrigin::Fetch, false);
        self.train_level_two(core, line, LineOrigin::Fetch, &below);
        Served { ready: below.ready, accepted: at, supplier: below.supplier }
    }

    /// A request of an L1. With `upgrade` the L1 has the line and wants to write it. When the L1 has the answer,
    /// [`MemorySystem::train_level_two`] must follow; not before, as a prefetch may take the line away again.
    pub(super) fn level_two(
        &mut self,
        core: usize,
        line: u64,
        at: u64,
        origin: LineOrigin,
        upgrade: bool,
    ) -> Below {
        let number = self.cores[core].cluster;
        let cluster = &mut self.clusters[number];
        let answered = cluster.array.reserve(at, cluster.spans.serve) + cluster.spans.latency;
        let store = origin == LineOrigin::Store;
        let (sibling, answered) = match cluster.is_shared() {
            true => self.ask_siblings(core, line, store, answered),
            false => (0, answered),
        };
        let l2 = &self.clusters[number].l2;
        let found = l2.find(line);
        let usable = found.filter(|&slot| !store || l2.entry(slot).state() & STATE != SHARED);
        let state = usable.map(|slot| l2.entry(slot).state());
        self.tell_lookup(core, origin, state, answered);
        let mut below = match usable {
            Some(slot) => self.hit_level_two(core, slot, answered, origin),
            None => self.miss_level_two(core, line, answered, origin, (found.is_some(), upgrade)),
        };
        if store {
            below.state = MODIFIED;
        } else if sibling != 0 {
            below.state = SHARED;
        }
        if sibling == MODIFIED && usable.is_some() {
            below.supplier = Supplier::OtherCoreModified;
        }
        below.answered = answered;
        below
    }

    fn hit_level_two(&mut self, core: usize, slot: usize, answered: u64, origin: LineOrigin) -> Below {
        let side = &mut self.cores[core];
        let l2 = &mut self.clusters[side.cluster].l2;
        let entry = l2.touched(slot);
        let (state, arrives) = (entry.state(), entry.ready());
        if !origin.is_prefetch() {
            if state & PREFETCHED != 0 {
                entry.set_state(state & STATE);
                side.stats.l2.prefetch_used += 1;
            }
            if arrives > answered {
                side.stats.l2.demand_pending += 1;
            } else {
                side.stats.l2.demand_hits += 1;
            }
        }
        Below {
            ready: arrives.max(answered),
            state: Self::grant(state),
            supplier: Supplier::L2,
            answered,
            missed: false,
        }
    }

    /// Goes outward. The line may be here, or above (`here`, `above`), and only the right to write it be missing.
    fn miss_level_two(
        &mut self,
        core: usize,
        line: u64,
        at: u64,
        origin: LineOrigin,
        (here, above): (bool, bool),
    ) -> Below {
        let side = &mut self.cores[core];
        let number = side.cluster;
        let queue = &mut self.clusters[number].queue;
        // A prefetch for the L3 that is still on its way becomes this request; its entry serves both.
        let (entry, left) = match queue.holding(line, at) {
            Some(entry) => (entry, at),
            None => queue.acquire(at),
        };
        let stats = &mut side.stats;
        if left > at {
            stats.superqueue_waits += 1;
            stats.superqueue_wait_fs += left - at;
        }
        stats.l2.demand_misses += u64::from(!origin.is_prefetch());
        match origin {
            LineOrigin::Store => stats.offcore_rfos += 1,
            LineOrigin::Fetch => stats.offcore_fetches += 1,
            LineOrigin::L1Prefetch | LineOrigin::L2Prefetch | LineOrigin::L2PrefetchToOwn => {
                stats.offcore_prefetches += 1;
            }
            LineOrigin::Load | LineOrigin::Walk | LineOrigin::SoftwarePrefetch => stats.offcore_reads += 1,
        }
        let below = self.uncore(number, line, left, origin, here || above);
        let l2 = &mut self.clusters[number].l2;
        // It may have been taken away meanwhile, but nothing has brought it.
        let free = match here.then(|| l2.find(line)).flatten() {
            Some(slot) => {
                l2.entry_mut(slot).set_state(below.state);
                below.ready
            }
            None => self.fill_level_two(core, line, below.state, below.ready),
        };
        self.clusters[number].queue.hold_for(entry, free, line);
        self.cores[core].stats.superqueue_held_fs += free - left;
        self.tell_left(
            core,
            LeavingLine { origin, at: left, ready: below.ready, free, supplier: below.supplier },
        );
        Below { state: Self::grant(below.state), missed: true, ..below }
    }

    /// A prefetch into the L2, or only into the L3 where the superqueue is busy. False if it was dropped.
    pub(super) fn prefetch_level_two(
        &mut self,
        core: usize,
        line: u64,
        at: u64,
        origin: LineOrigin,
        l3_only_above: usize,
    ) -> bool {
        let number = self.cores[core].cluster;
        let cluster = &mut self.clusters[number];
        let here = cluster.l2.find(line).map(|slot| cluster.l2.entry(slot).state());
        let l1 = &self.cores[core].l1;
        if let Some(state) = here.or_else(|| l1.find(line).map(|slot| l1.entry(slot).state())) {
            self.tell_lookup(core, origin, Some(state), at);
            return true;
        }
        let (entry, held) = cluster.queue.look(at);
        let Some(entry) = entry else {
            self.cores[core].stats.l2.prefetch_dropped += 1;
            return false;
        };
        if self.sockets[cluster.socket].l3.is_some() && held >= l3_only_above {
            let done = self.prefetch_shared(number, line, at, origin.owns());
            let stats = &mut self.cores[core].stats;
            stats.offcore_prefetches += 1;
            stats.offcore_prefetches_l3_only += 1;
            stats.superqueue_held_fs += done - at;
            self.clusters[number].queue.hold_for(entry, done, line);
            self.tell_lookup(core, origin, None, at);
            self.tell_sent(core, OffcoreRequest::PrefetchL3, at, done);
            return true;
        }
        let stats = &mut self.cores[core].stats;
        stats.offcore_prefetches += 1;
        stats.l2.prefetch_fills += 1;
        let below = self.uncore(number, line, at, origin, false);
        let free = self.fill_level_two(core, line, below.state | PREFETCHED, below.ready);
        self.clusters[number].queue.hold_for(entry, free, line);
        self.cores[core].stats.superqueue_held_fs += free - at;
        self.tell_lookup(core, origin, None, at);
        self.tell_left(core, LeavingLine { origin, at, ready: below.ready, free, supplier: below.supplier });
        true
    }

    /// Puts a line into the L2 when its data comes, and sends away the one that has to go. Returns when the entry that
    /// brought the line is free: it also sees to a modified line that goes, until the next level has taken it.
    fn fill_level_two(&mut self, core: usize, line: u64, state: u8, ready: u64) -> u64 {
        let number = self.cores[core].cluster;
        let cluster = &mut self.clusters[number];
        // A line passes the array on its way up; a load has its data a hit's latency after that.
        let passes = ready.saturating_sub(cluster.spans.latency);
        cluster.array.reserve(passes, cluster.spans.fill);
        let side = &mut self.cores[core];
        side.stats.l2.fills += 1;
        self.watcher.note(core, CoreSignal::L2LinesIn, ready);
        let Some(gone) = cluster.l2.put(line, state, ready) else {
            return ready;
        };
        side.stats.l2.prefetch_unused += u64::from(gone.state & PREFETCHED != 0);
        let above = match cluster.is_shared() {
            true => Some(self.take_away_above(number, gone.line, gone.state & STATE)),
            false => side.take_over(gone.line, gone.state & STATE),
        };
        let state = above.unwrap_or(0);
        let stats = &mut self.cores[core].stats;
        if state != MODIFIED {
            stats.l2.evictions_clean += 1;
            self.watcher.note(core, CoreSignal::L2OutClean, ready);
            if self.filtered && state != 0 {
                self.drop_out(number, gone.line, ready);
            }
            return ready;
        }
        stats.l2.evictions_modified += 1;
        stats.offcore_writebacks += 1;
        self.watcher.note(core, CoreSignal::L2OutModified, ready);
        self.tell_sent(core, OffcoreRequest::WriteBack, ready, ready);
        let cluster = &mut self.clusters[number];
        cluster.array.reserve(passes, cluster.spans.evict);
        self.write_out(number, gone.line, ready)
    }

    /// When a shared L2 drops a line, the L1s above give it up; returns the state to send on.
    #[inline(never)]
    fn take_away_above(&mut self, number: usize, line: u64, mut state: u8) -> u8 {
        for core in self.clusters[number].cores.clone() {
            let side = &mut self.cores[core];
            if let Some(gone) = side.l1.take(line) {
                side.stats.l1.invalidations += 1;
                state = state.max(gone.state & STATE);
            }
        }
        state
    }

    /// A modified line that leaves an L1.
    pub(super) fn write_back_to_level_two(&mut self, core: usize, line: u64, at: u64) {
        let cluster = &mut self.clusters[self.cores[core].cluster];
        match cluster.l2.find(line) {
            Some(slot) => {
                cluster.array.reserve(at, cluster.spans.fill);
                cluster.l2.touched(slot).set_state(MODIFIED);
            }
            None => _ = self.fill_level_two(core, line, MODIFIED, at),
        }
    }

    /// What the other L1s above a shared L2 have of a line: a state, or 0; and when they have answered. They give up the
    /// right to write it, and for a `store` the line itself; modified data goes to the L2.
    #[inline(never)]
    fn ask_siblings(&mut self, core: usize, line: u64, store: bool, at: u64) -> (u8, u64) {
        let cores = self.clusters[self.cores[core].cluster].cores.clone();
        let (mut strongest, mut answered) = (0, at);
        for sibling in cores.filter(|&sibling| sibling != core) {
            let side = &mut self.cores[sibling];
            let Some(slot) = side.l1.find(line) else { continue };
            let (state, came) = (side.l1.entry(slot).state() & STATE, side.l1.entry(slot).ready());
            strongest = strongest.max(state);
            side.stats.snoops += 1;
            if state != SHARED {
                // It confirms that the line came, which takes as long as asking for it.
                answered = answered.max(came + u64::from(self.l2.latency) * side.cycle_fs);
                side.departing.note(line, came, answered);
            }
            side.l1.entry_mut(slot).set_state(SHARED);
            if store {
                side.l1.take(line);
                side.stats.l1.invalidations += 1;
            }
            if state == MODIFIED {
                side.stats.snoops_modified += 1;
                self.write_back_to_level_two(sibling, line, at);
                let socket = self.clusters[self.cores[core].cluster].socket;
                self.sockets[socket].stats.modified_transfers += 1;
            }
        }
        (strongest, answered)
    }

    /// Whether an L2 or an L1 above it holds a line.
    pub(super) fn cluster_holds(&self, number: usize, line: u64) -> bool {
        let cluster = &self.clusters[number];
        cluster.l2.find(line).is_some()
            || cluster.cores.clone().any(|core| self.cores[core].l1.find(line).is_some())
    }

    /// A state as granted to an L2 that asked, from what others still have.
    pub(super) fn granted(shared: bool, store: bool) -> u8 {
        if shared && !store { SHARED } else { EXCLUSIVE }
    }
}
