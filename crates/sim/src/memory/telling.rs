//! What the memory system tells: only what is asked for, where it happens.

use events::Unit;

use super::{
    level::{MODIFIED, STATE},
    link::Load,
    pages,
    system::{LineOrigin, MemorySystem},
};
use crate::{
    access::Supplier,
    signal::{BoxNumbers, BoxSignal, CoreSignal, Number, OffcoreAnswer, OffcoreRequest},
};

/// A request that left an L2, with its moments.
#[derive(Clone, Copy)]
pub(super) struct LeavingLine {
    pub origin: LineOrigin,
    /// When it left.
    pub at: u64,
    /// When its data came.
    pub ready: u64,
    /// When its entry of the superqueue was free.
    pub free: u64,
    pub supplier: Supplier,
}

fn request(origin: LineOrigin) -> OffcoreRequest {
    match origin {
        LineOrigin::Store => OffcoreRequest::Rfo,
        LineOrigin::Fetch => OffcoreRequest::Fetch,
        LineOrigin::L2Prefetch | LineOrigin::L2PrefetchToOwn => OffcoreRequest::Prefetch,
        LineOrigin::Load | LineOrigin::Walk | LineOrigin::SoftwarePrefetch | LineOrigin::L1Prefetch => {
            OffcoreRequest::Read
        }
    }
}

impl MemorySystem {
    /// A request of the L2 and in which state it found its line, if it did.
    #[inline(always)]
    pub(super) fn tell_lookup(&mut self, core: usize, origin: LineOrigin, found: Option<u8>, at: u64) {
        if self.watcher.is_active() {
            self.note_lookup(core, origin, found, at);
        }
    }

    #[cold]
    fn note_lookup(&mut self, core: usize, origin: LineOrigin, found: Option<u8>, at: u64) {
        use CoreSignal as S;
        let modified = found.map(|state| state & STATE == MODIFIED);
        let signal = match (request(origin), modified) {
            (OffcoreRequest::Rfo, Some(true)) => S::L2RfoHitsModified,
            (OffcoreRequest::Rfo, Some(false)) => S::L2RfoHits,
            (OffcoreRequest::Rfo, None) => S::L2RfoMisses,
            (OffcoreRequest::Fetch, Some(_)) => S::L2FetchHits,
            (OffcoreRequest::Fetch, None) => S::L2FetchMisses,
            (OffcoreRequest::Prefetch, Some(true)) => S::L2PrefetchHitsModified,
            (OffcoreRequest::Prefetch, Some(false)) => S::L2PrefetchHits,
            (OffcoreRequest::Prefetch, None) => S::L2PrefetchMisses,
            (_, Some(true)) => S::L2ReadHitsModified,
            (_, Some(false)) => S::L2ReadHits,
            (_, None) => S::L2ReadMisses,
        };
        self.watcher.note(core, signal, at);
    }

    /// A request that left the L2 and was answered.
    #[inline(always)]
    pub(super) fn tell_left(&mut self, core: usize, left: LeavingLine) {
        if self.watcher.is_active() {
            self.note_left(core, left);
        }
    }

    #[cold]
    fn note_left(&mut self, core: usize, left: LeavingLine) {
        use CoreSignal as S;
        let request = request(left.origin);
        let pending = match request {
            OffcoreRequest::Rfo => S::OffcorePendingRfos,
            OffcoreRequest::Fetch => S::OffcorePendingFetches,
            OffcoreRequest::Prefetch => S::OffcorePendingPrefetches,
            _ => S::OffcorePendingReads,
        };
        self.watcher.note_span(core, pending.into(), left.at, left.ready);
        self.watcher.note_span(core, S::SuperqueueEntries.into(), left.at, left.free);
        let answer = OffcoreAnswer::of(left.supplier);
        self.watcher.note_span(core, Number::offcore(request, answer), left.ready, left.ready);
        self.watcher.note(core, S::L3References, left.at);
        if matches!(
            answer,
            OffcoreAnswer::LocalMemory
                | OffcoreAnswer::RemoteMemory
                | OffcoreAnswer::RemoteModified
                | OffcoreAnswer::RemoteClean
        ) {
            self.watcher.note(core, S::L3Misses, left.at);
        }
    }

    /// A request that left the L2 and to which no data comes back.
    #[inline(always)]
    pub(super) fn tell_sent(&mut self, core: usize, request: OffcoreRequest, at: u64, free: u64) {
        if self.watcher.is_active() {
            self.watcher.note_span(core, CoreSignal::SuperqueueEntries.into(), at, free);
            self.watcher.note_span(core, Number::offcore(request, OffcoreAnswer::NoData), free, free);
        }
    }

    /// A page walk.
    pub(super) fn tell_walk(&mut self, core: usize, origin: LineOrigin, from: u64, until: u64) {
        use CoreSignal as S;
        let (walks, pending) = match origin {
            LineOrigin::Fetch => {
                self.watcher.note(core, S::CodeWalks, from);
                return;
            }
            LineOrigin::Store => (S::StoreWalks, S::StoreWalkPending),
            _ => (S::LoadWalks, S::LoadWalkPending),
        };
        self.watcher.note(core, walks, from);
        self.watcher.note_span(core, pending.into(), from, until);
    }

    /// Something in the slice of a line.
    #[inline(always)]
    pub(super) fn tell_slice(&mut self, socket: usize, line: u64, signal: BoxSignal, at: u64) {
        if self.watcher.is_active()
            && self.watcher.counts(signal)
            && let Some(l3) = &self.sockets[socket].l3
        {
            self.watcher.count(Unit::Slice, socket, l3.locate(line).slice, signal, at);
        }
    }

    /// A read that the shared cache did not have, from its slice to its data.
    #[inline(always)]
    pub(super) fn tell_read_miss(
        &mut self,
        socket: usize,
        line: u64,
        supplier: Supplier,
        from: u64,
        until: u64,
    ) {
        if self.watcher.is_active() {
            self.count_read_miss(socket, line, supplier, from, until);
        }
    }

    #[cold]
    fn count_read_miss(&mut self, socket: usize, line: u64, supplier: Supplier, from: u64, until: u64) {
        let (signal, pending) = match supplier {
            Supplier::LocalMemory => (BoxSignal::ReadMissesLocal, BoxSignal::ReadMissesLocalPending),
            Supplier::RemoteMemory => (BoxSignal::ReadMissesRemote, BoxSignal::ReadMissesRemotePending),
            Supplier::RemoteCacheModified | Supplier::RemoteCacheClean if pages::home(line) == socket => {
                (BoxSignal::ReadMissesLocal, BoxSignal::ReadMissesLocalPending)
            }
            Supplier::RemoteCacheModified | Supplier::RemoteCacheClean => {
                (BoxSignal::ReadMissesRemote, BoxSignal::ReadMissesRemotePending)
            }
            _ => return,
        };
        self.tell_slice(socket, line, signal, from);
        if self.watcher.counts(pending)
            && let Some(l3) = &self.sockets[socket].l3
        {
            let ticks = until.saturating_sub(from) / self.uncore_fs.max(1);
            self.watcher.add(Unit::Slice, socket, l3.locate(line).slice, pending, from, ticks);
        }
    }

    /// Something at the home agent of a package.
    #[inline(always)]
    pub(super) fn tell_home(&mut self, home: usize, signal: BoxSignal, at: u64) {
        self.watcher.count(Unit::HomeAgent, home, 0, signal, at);
    }

    /// A line that a home agent has read from or written to memory.
    #[inline(always)]
    pub(super) fn tell_channel(&mut self, home: usize, line: u64, signal: BoxSignal, at: u64) {
        if self.watcher.is_active() && self.watcher.counts(signal) {
            self.tell_home(home, signal, at);
            let channel = self.sockets[home].memory.channel(line);
            self.watcher.count(Unit::MemoryController, home, channel, signal, at);
        }
    }

    /// Sends something over a link; returns when it has arrived.
    pub(super) fn send(&mut self, from: usize, to: usize, line: u64, load: Load, at: u64) -> u64 {
        if from != to && self.watcher.is_active() {
            let (sent, came) = match load {
                Load::Line => (BoxSignal::LinesOut, BoxSignal::LinesIn),
                Load::Message => (BoxSignal::MessagesOut, BoxSignal::MessagesIn),
            };
            if self.watcher.counts(sent) || self.watcher.counts(came) {
                let (here, there) = self.links.boxes(from, to, line);
                self.watcher.count(Unit::Link, from, here, sent, at);
                self.watcher.count(Unit::Link, to, there, came, at);
            }
        }
        self.links.send(from, to, line, load, at)
    }

    /// Boxes that have counters.
    pub(super) fn box_numbers(model: &machine::model::Model) -> BoxNumbers {
        let others = model.sockets.saturating_sub(1);
        BoxNumbers {
            packages: model.sockets,
            slices: model.l3.as_ref().map_or(0, |l3| l3.slices.max(1)),
            channels: model.memory.channels.max(1),
            links: others * model.link.as_ref().map_or(0, |link| link.links.max(1)),
        }
    }

    /// Clocks of the boxes.
    pub(super) fn box_hz(model: &machine::model::Model) -> [(Unit, u64); 4] {
        [
            (Unit::Slice, model.clock.uncore_hz),
            (Unit::HomeAgent, model.clock.uncore_hz),
            // Two transfers of eight bytes per cycle.
            (Unit::MemoryController, model.memory.channel_bytes_per_s / 16),
            // A flit of eight bytes per cycle.
            (Unit::Link, model.link.as_ref().map_or(0, |link| link.bytes_per_s / 8)),
        ]
    }
}
