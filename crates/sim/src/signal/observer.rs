//! What a core tells of itself while it runs, and to whom.

use super::{CoreSignal, Retirement, SignalNote};
use crate::supplier::{Supplier, Translation};

/// Hears what one hardware thread does. Cycles are those of its core; they may go back a little.
pub(crate) trait CoreObserver {
    /// A value from one cycle up to another.
    fn span(&mut self, signal: CoreSignal, from: u64, until: u64);

    /// Something that happens in a cycle.
    fn pulse(&mut self, signal: CoreSignal, cycle: u64, times: u64);

    /// A slot of the right path is dispatched.
    fn dispatch(&mut self, waits: &ObservedWaits);

    /// A branch went wrong.
    fn wrong_path(&mut self, detour: &Detour);

    /// A µop starts on a port.
    fn start(&mut self, dispatched: u64, at: u64);

    /// A µop of a wrong path waited and never started.
    fn abandon(&mut self, dispatched: u64, until: u64);

    /// A load has been given its times.
    fn load(&mut self, load: &WatchedLoad);

    /// A store of the right path has its address.
    fn store(&mut self, cycle: u64, instruction: u64, address: u64);

    /// A slot retires.
    fn retire(&mut self, cycle: u64, retirement: &Retirement, block: u64);

    /// Where what memory tells of the core is to be put.
    fn notes(&mut self) -> &mut Vec<SignalNote>;

    /// The core has dispatched up to a cycle: what memory told so far is in `notes`.
    fn follow(&mut self, dispatched: u64);
}

/// Why the next slot waits before it is dispatched, as cycles up to which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedWaits {
    /// It could have been dispatched then.
    pub from: u64,
    /// The front end delivers it then.
    pub delivered: u64,
    pub window: u64,
    pub loads: u64,
    pub stores: u64,
    pub scheduler: u64,
    /// Dispatched.
    pub at: u64,
    /// Slots taken of the cycle `from`.
    pub used: u64,
    pub width: u64,
}

/// What a wrong guess made of a stretch of cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detour {
    /// Slots of the wrong path are dispatched from here on, as many as the width in each cycle.
    pub from: u64,
    pub slots: u64,
    pub width: u64,
    /// The branch is resolved.
    pub resolved: u64,
    /// The first slot of the right path can be delivered.
    pub recovered: u64,
}

/// A load, as it went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedLoad {
    pub instruction: u64,
    pub address: u64,
    pub dispatched: u64,
    pub started: u64,
    /// Its address was translated: the first cache looks from then on.
    pub translated: u64,
    pub complete: u64,
    pub supplier: Supplier,
    pub translation: Translation,
    pub forwarded: bool,
    /// Cycles from its translation until the first and the second cache know that they have it not.
    pub lookups: [u64; 2],
}
