//! Between a package's L2s: the shared cache with its directory, or the snoop filter.

use events::Unit;

use super::{
    coherence::{Keep, OwnerFound},
    filter::Held,
    home::FromHome,
    level::{EXCLUSIVE, MODIFIED, SHARED},
    level_one::Below,
    slices::{DIRTY, ELSEWHERE, LineLeft, Located, OWNED, PREFETCHED, SliceEntry},
    system::{Cluster, LineOrigin, MemorySystem, Spans},
};
use crate::{access::Supplier, signal::BoxSignal};

/// A request on its way through the uncore.
#[derive(Clone, Copy)]
struct UncoreRequest {
    socket: usize,
    bit: u64,
    line: u64,
    located: Located,
    /// When the slice, or the bus, looks at it.
    start: u64,
    store: bool,
    prefetch: bool,
    /// The cluster has the line and only wants to write it.
    holds: bool,
}

/// A line that had to come from its home.
struct Missed {
    from: FromHome,
    /// When the slice had an entry for it.
    taken: u64,
    /// The entry of its slice.
    entry: Option<usize>,
}

/// The answer, at the slice.
struct UncoreAnswer {
    at: u64,
    state: u8,
    supplier: Supplier,
}

impl MemorySystem {
    /// Times from an L2 to a slice of its package and back.
    pub(super) fn way(&self, number: usize) -> (u64, u64) {
        let spans = &self.clusters[number].spans;
        (spans.there, spans.back)
    }

    /// A request that leaves an L2 at `at`. With `holds` the cluster has the line and wants to own it.
    pub(super) fn uncore(
        &mut self,
        number: usize,
        line: u64,
        at: u64,
        origin: LineOrigin,
        holds: bool,
    ) -> Below {
        let Cluster { socket, bit, spans: Spans { there, back, .. }, .. } = self.clusters[number];
        self.disturb(socket, at);
        let package = &mut self.sockets[socket];
        let store = origin.owns();
        match origin {
            LineOrigin::Store => package.stats.rfos += 1,
            LineOrigin::L1Prefetch | LineOrigin::L2Prefetch | LineOrigin::L2PrefetchToOwn => {
                package.stats.prefetches += 1;
            }
            _ => package.stats.reads += 1,
        }
        let (located, start) = match &mut package.l3 {
            Some(l3) => {
                let located = l3.locate(line);
                (located, l3.serve(located, at + there))
            }
            None => (Located::nowhere(line), at + there),
        };
        let prefetch = origin.is_prefetch();
        let asked = UncoreRequest { socket, bit, line, located, start, store, prefetch, holds };
        let signal = if store { BoxSignal::LookupRfos } else { BoxSignal::LookupReads };
        self.tell_slice(socket, line, signal, start);
        let answer = match self.filtered {
            true => self.answer_by_filter(&asked),
            false => self.answer_inclusive(&asked),
        };
        if !store {
            self.tell_read_miss(socket, line, answer.supplier, start, answer.at);
        }
        Below {
            ready: answer.at + back,
            state: answer.state,
            supplier: answer.supplier,
            answered: at,
            missed: true,
        }
    }

    /// An inclusive cache: its own tags say who has what.
    fn answer_inclusive(&mut self, asked: &UncoreRequest) -> UncoreAnswer {
        let package = &mut self.sockets[asked.socket];
        let Some(slot) = package.l3.as_ref().and_then(|l3| l3.find(asked.located)) else {
            let missed = self.miss_shared(asked);
            let from = missed.from;
            let mut flags = if from.modified { DIRTY } else { 0 };
            flags |= if from.shared { ELSEWHERE } else { OWNED };
            self.install_missed(asked, &missed, flags, asked.bit);
            let state = Self::granted(from.shared, asked.store);
            return UncoreAnswer { at: from.at, state, supplier: from.supplier };
        };
        package.stats.hits += 1;
        let Some(l3) = &mut package.l3 else {
            return UncoreAnswer { at: asked.start, state: SHARED, supplier: Supplier::L3 };
        };
        l3.touch(slot);
        let flags = l3.entry(slot).flags() & !PREFETCHED;
        let others = l3.entry(slot).holders & !asked.bit;
        let snoop_fs = l3.snoop_fs;
        let mut at = asked.start.max(l3.entry(slot).ready());
        let (mut found, mut having) = (OwnerFound::Nothing, others);
        if others != 0 && (asked.store || flags & OWNED != 0) {
            let keep = if asked.store { Keep::Nothing } else { Keep::Shared };
            at = at.max(self.confirmed(asked.socket, others, asked.line));
            let until = Some(at + snoop_fs / 2);
            (found, having) = self.snoop_all(asked.socket, others, asked.line, keep, until);
            at += snoop_fs;
        }
        if asked.store && flags & ELSEWHERE != 0 {
            at = at.max(self.own_everywhere(asked.socket, asked.line, asked.start));
        }
        let alone = asked.store || (having == 0 && flags & ELSEWHERE == 0);
        let dirty = flags & DIRTY | if found == OwnerFound::Modified { DIRTY } else { 0 };
        let rest = if asked.store { 0 } else { flags & ELSEWHERE };
        if let Some(l3) = &mut self.sockets[asked.socket].l3 {
            l3.entry_mut(slot).set_flags(dirty | rest | if alone { OWNED } else { 0 });
            l3.entry_mut(slot).holders = asked.bit | if asked.store { 0 } else { having };
        }
        let state = if alone { EXCLUSIVE } else { SHARED };
        UncoreAnswer { at, state, supplier: self.transferred(asked.socket, found, Supplier::L3) }
    }

    /// A victim cache or none: the filter says who has what.
    #[inline(never)]
    fn answer_by_filter(&mut self, asked: &UncoreRequest) -> UncoreAnswer {
        let UncoreRequest { socket, line, store, start, .. } = *asked;
        let package = &mut self.sockets[socket];
        let held = package.filter.as_ref().map_or(Held::default(), |filter| filter.get(line));
        let slot = package.l3.as_ref().and_then(|l3| l3.find(asked.located));
        let others = held.by & !asked.bit;
        if others == 0 && slot.is_none() && !(asked.holds && held.by != 0) {
            let from = self.miss_shared(asked).from;
            let state = if from.modified { MODIFIED } else { Self::granted(from.shared, store) };
            self.note_holder(asked, 0, state, from.shared);
            return UncoreAnswer { at: from.at, state, supplier: from.supplier };
        }
        package.stats.hits += 1;
        let snoop_fs = package.l3.as_ref().map_or(0, |l3| l3.snoop_fs);
        let (mut at, mut found, mut having) = (start, OwnerFound::Nothing, others);
        let mut supplier = Supplier::L3;
        if others != 0 && (store || held.owned || slot.is_none()) {
            let keep = if store { Keep::Nothing } else { Keep::Shared };
            let sent = start.max(self.confirmed(socket, others, line));
            (found, having) = self.snoop_all(socket, others, line, keep, Some(sent + snoop_fs / 2));
            at = self.carried(socket, line, sent + snoop_fs, asked.holds);
            supplier = self.transferred(socket, found, supplier);
        }
        let mut elsewhere = held.elsewhere;
        let mut modified = found == OwnerFound::Modified;
        if let Some(slot) = slot {
            let entry = self.use_victim(socket, slot, store || having == 0);
            at = at.max(entry.ready());
            elsewhere |= entry.flags() & ELSEWHERE != 0;
            modified |= (store || having == 0) && entry.flags() & DIRTY != 0;
        }
        if store && elsewhere {
            at = at.max(self.own_everywhere(socket, line, start));
            elsewhere = false;
        }
        let state = match (store || (having == 0 && !elsewhere), modified) {
            (true, true) => MODIFIED,
            (true, false) => EXCLUSIVE,
            (false, _) => SHARED,
        };
        if state == SHARED && modified {
            self.put_by(socket, asked.located, DIRTY | if elsewhere { ELSEWHERE } else { 0 }, at);
        }
        self.note_holder(asked, if store { 0 } else { having }, state, elsewhere);
        UncoreAnswer { at, state, supplier }
    }

    /// A hit in a victim cache: its only user takes the line with it; others leave it for the next.
    fn use_victim(&mut self, socket: usize, slot: usize, only: bool) -> SliceEntry {
        let package = &mut self.sockets[socket];
        let Some(l3) = &mut package.l3 else { return SliceEntry::default() };
        let entry = *l3.entry(slot);
        if only {
            l3.take(slot);
            package.stats.removals += 1;
        } else {
            l3.touch(slot);
        }
        entry
    }

    /// Without a shared cache, lines between L2s go over the bus, unless only the right to write is asked for.
    fn carried(&mut self, socket: usize, line: u64, at: u64, holds: bool) -> u64 {
        let package = &mut self.sockets[socket];
        match (&package.l3, holds) {
            (Some(_), _) => at,
            (None, true) => at + package.memory.idle_fs(),
            (None, false) => package.memory.carry(line, at),
        }
    }

    fn note_holder(&mut self, asked: &UncoreRequest, others: u64, state: u8, elsewhere: bool) {
        if let Some(filter) = &mut self.sockets[asked.socket].filter {
            filter.set(asked.line, Held { by: others | asked.bit, owned: state != SHARED, elsewhere });
        }
    }

    /// Who supplied, after a snoop; counts transfers.
    fn transferred(&mut self, socket: usize, found: OwnerFound, otherwise: Supplier) -> Supplier {
        let stats = &mut self.sockets[socket].stats;
        match found {
            OwnerFound::Nothing => otherwise,
            OwnerFound::Clean => {
                stats.clean_transfers += 1;
                Supplier::OtherCoreClean
            }
            OwnerFound::Modified => {
                stats.modified_transfers += 1;
                Supplier::OtherCoreModified
            }
        }
    }

    /// A line that nobody in the package has: from its home, through an entry of the slice.
    fn miss_shared(&mut self, asked: &UncoreRequest) -> Missed {
        let package = &mut self.sockets[asked.socket];
        package.stats.misses += 1;
        package.stats.prefetch_misses += u64::from(asked.prefetch);
        let slice = asked.located.slice;
        let entry = package.l3.as_mut().map(|l3| l3.misses[slice].acquire(asked.start));
        let left = entry.map_or(asked.start, |(_, left)| left);
        package.stats.miss_waits += u64::from(left > asked.start);
        let from = self.ask_home(asked.socket, asked.line, left, asked.store, asked.prefetch);
        if let (Some((entry, _)), Some(l3)) = (entry, &mut self.sockets[asked.socket].l3) {
            l3.misses[slice].hold(entry, from.at);
            if l3.inclusive {
                l3.serve(asked.located, from.at);
            }
        }
        Missed { from, taken: left, entry: entry.map(|(entry, _)| entry) }
    }

    /// Puts a line that missed into the shared cache. Its entry also sees to a modified line that goes, until its home
    /// has it.
    #[inline]
    fn install_missed(&mut self, asked: &UncoreRequest, missed: &Missed, flags: u8, holders: u64) {
        let free = self.install(asked.socket, asked.located, flags, holders, missed.from.at);
        if let (Some(entry), Some(l3)) = (missed.entry, &mut self.sockets[asked.socket].l3) {
            l3.misses[asked.located.slice].hold(entry, free);
        }
    }

    /// A prefetch into the shared cache only, which leaves the L2 at `at`; returns when the L2 hears that the slice has
    /// taken it on. No data will come, so there is nothing else to wait for.
    pub(super) fn prefetch_shared(&mut self, number: usize, line: u64, at: u64, owns: bool) -> u64 {
        let Cluster { socket, bit, spans: Spans { there, back, .. }, .. } = self.clusters[number];
        self.disturb(socket, at);
        let package = &mut self.sockets[socket];
        let Some(l3) = &mut package.l3 else { return at };
        let located = l3.locate(line);
        let start = l3.serve(located, at + there);
        package.stats.prefetches += 1;
        if self.watcher.is_active() {
            let signal = if owns { BoxSignal::LookupOwningPrefetches } else { BoxSignal::LookupPrefetches };
            self.watcher.count(Unit::Slice, socket, located.slice, signal, start);
        }
        let held = package.filter.as_ref().map_or(0, |filter| filter.get(line).by);
        if held != 0 || l3.find(located).is_some() {
            package.stats.hits += 1;
            return start + back;
        }
        let asked =
            UncoreRequest { socket, bit, line, located, start, store: owns, prefetch: true, holds: false };
        let signal = if owns { BoxSignal::OwningPrefetchMisses } else { BoxSignal::PrefetchMisses };
        self.tell_slice(socket, line, signal, start);
        let missed = self.miss_shared(&asked);
        let from = missed.from;
        let flags =
            PREFETCHED | if from.modified { DIRTY } else { 0 } | if from.shared { ELSEWHERE } else { 0 };
        self.install_missed(&asked, &missed, flags, 0);
        missed.taken + back
    }

    /// Puts a line into the shared cache and sends away the one that has to go; returns when both are done.
    pub(super) fn install(&mut self, socket: usize, line: Located, flags: u8, holders: u64, at: u64) -> u64 {
        let package = &mut self.sockets[socket];
        let Some(l3) = &mut package.l3 else { return at };
        l3.expect_after(line);
        package.stats.fills += 1;
        match l3.put(line, flags, holders, at) {
            Some(left) => self.leave(socket, left, at),
            None => at,
        }
    }

    /// A line that makes room in the shared cache; an inclusive one takes it from the private caches too.
    fn leave(&mut self, socket: usize, left: LineLeft, at: u64) -> u64 {
        let mut dirty = left.flags & DIRTY != 0;
        if left.holders != 0 {
            let (found, having) = self.snoop_all(socket, left.holders, left.line, Keep::Nothing, None);
            self.sockets[socket].stats.back_invalidations += u64::from(having.count_ones());
            dirty |= found == OwnerFound::Modified;
        }
        let victim = match (dirty, left.flags & (OWNED | ELSEWHERE) == OWNED) {
            (true, _) => BoxSignal::VictimsModified,
            (false, true) => BoxSignal::VictimsExclusive,
            (false, false) => BoxSignal::VictimsShared,
        };
        self.tell_slice(socket, left.line, victim, at);
        if dirty {
            self.sockets[socket].stats.evictions_modified += 1;
            self.write_home(socket, left.line, at)
        } else {
            self.sockets[socket].stats.evictions_clean += 1;
            at
        }
    }

    /// Puts data beside those who share it: into the shared cache if there is one, else into memory.
    fn put_by(&mut self, socket: usize, line: Located, flags: u8, at: u64) {
        let Some(l3) = &mut self.sockets[socket].l3 else {
            self.write_home(socket, line.line, at);
            return;
        };
        match l3.find(line) {
            Some(slot) => {
                let entry = l3.entry_mut(slot);
                entry.set_flags(entry.flags() | flags);
                l3.touch(slot);
            }
            None => _ = self.install(socket, line, flags, 0, at),
        }
    }

    /// A modified line that leaves an L2; returns when the L2 hears that it was taken.
    pub(super) fn write_out(&mut self, number: usize, line: u64, at: u64) -> u64 {
        let (socket, bit) = (self.clusters[number].socket, self.clusters[number].bit);
        let (there, back) = self.way(number);
        let held = self.forget(number, line);
        let package = &mut self.sockets[socket];
        package.stats.writebacks += 1;
        let Some(l3) = &mut package.l3 else {
            return self.write_home(socket, line, at);
        };
        let located = l3.locate(line);
        l3.expect_after(located);
        let at = l3.serve(located, at + there);
        if self.watcher.is_active() {
            self.watcher.count(Unit::Slice, socket, located.slice, BoxSignal::LookupWriteBacks, at);
        }
        match (l3.inclusive, l3.find(located)) {
            (true, Some(slot)) => {
                let entry = l3.entry_mut(slot);
                entry.set_flags((entry.flags() | DIRTY) & !OWNED);
                entry.holders &= !bit;
            }
            // Cannot be while inclusion holds; the data must not be lost if it did.
            (true, None) => _ = self.write_home(socket, line, at),
            (false, _) => {
                self.put_by(socket, located, DIRTY | if held.elsewhere { ELSEWHERE } else { 0 }, at)
            }
        }
        at + back
    }

    /// An unmodified line that leaves an L2: only a victim cache hears of it.
    #[inline(never)]
    pub(super) fn drop_out(&mut self, number: usize, line: u64, at: u64) {
        let socket = self.clusters[number].socket;
        let held = self.forget(number, line);
        let (there, _) = self.way(number);
        if let (0, Some(l3)) = (held.by, &mut self.sockets[socket].l3) {
            let line = l3.locate(line);
            let at = l3.serve(line, at + there);
            self.put_by(socket, line, if held.elsewhere { ELSEWHERE } else { 0 }, at);
        }
    }
}
