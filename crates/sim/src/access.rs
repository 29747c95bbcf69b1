//! What a core asks of the memory system, and what it hears back.

pub use crate::supplier::{Supplier, Translation};

use crate::{
    signal::{BoxCounts, CounterTurns, SignalNote, SignalWatch},
    time::Time,
};

/// A request of one core. It touches one line: the core splits what crosses a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// Which core.
    pub core: usize,
    /// What for.
    pub kind: RequestKind,
    /// Virtual address; pages are placed by the memory system.
    pub address: u64,
    /// When the core asks.
    pub at: Time,
    /// Address of the instruction, for prefetchers that look at it.
    pub instruction: u64,
}

/// What a core asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A load.
    Load,
    /// The load of an atomic operation, which will write: the line must be owned.
    LoadToOwn,
    /// A store that leaves the store buffer: the line must be owned.
    Store,
    /// A store that has asked before and lost the line to another core before it could write.
    StoreAgain,
    /// A store past the caches.
    StoreNonTemporal,
    /// A software prefetch: nothing waits for it.
    Prefetch,
    /// Instruction bytes.
    Fetch,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// When the data can be used, or the store is done.
    pub ready: Time,
    /// When the request left the queue it had to wait in; `at` if it did not wait.
    pub accepted: Time,
    /// When its address was translated; `at` if that took no time. The first cache looks from then on.
    pub translated: Time,
    /// Who had it.
    pub supplier: Supplier,
    /// How the address was translated.
    pub translation: Translation,
}

/// The memory system as a core sees it. Requests of one core come in program order of their making, with times that may
/// go back a little; requests of several cores come within a bounded skew.
pub trait MemoryPort {
    /// Does the access and says when it is done.
    fn access(&mut self, request: &MemoryRequest) -> Response;

    /// How often other cores have taken a line from this one. When this grows, stores that have not yet written must see
    /// whether they still can: [`MemoryPort::writable`].
    fn lines_taken(&self, _core: usize) -> u64 {
        0
    }

    /// The first moment, at or after `at`, at which a core can write a line it has asked for before; `None` if it has to
    /// ask again because another core has taken the line.
    fn writable(&mut self, _core: usize, _address: u64, at: Time) -> Option<Time> {
        Some(at)
    }

    /// A core's instruction TLB has no translation of `address`; gives the moment from which it has.
    fn translate_code(&mut self, _core: usize, _address: u64, at: Time) -> Time {
        at
    }

    /// Sends what a core has gathered for writing past the caches; gives the moment when memory has all of it.
    fn drain_write_combining(&mut self, _core: usize, at: Time) -> Time {
        at
    }

    /// Tells from now on what is asked for; sets of counters take turns as said, in femtoseconds.
    fn watch(&mut self, _watch: SignalWatch, _turns: CounterTurns) {}

    /// Tells no longer; what its boxes counted in a run from one moment to another.
    fn unwatch(&mut self, _from: Time, _until: Time) -> BoxCounts {
        BoxCounts::default()
    }

    /// Moves what it has to tell of a core.
    fn take_notes(&mut self, _core: usize, _into: &mut Vec<SignalNote>) {}

    /// A core runs at another clock from `at` on. Caches that run at that clock must follow.
    fn core_clock_changed(&mut self, _core: usize, _hz: u64, _at: Time) {}
}
