//! The performance monitoring unit of the simulated machine.
//!
//! **Signals** ([`crate::signal`]) are quantities of a hardware thread with a value in every cycle, and sums of the boxes around
//! the cores. Only those are produced that an open event needs.
//!
//! **What an event means** ([`SignalMeaning`]) is data: files beside this crate's source give, for the codes and masks of a
//! microarchitecture, the signals behind them. A code without a mechanism is refused.
//!
//! **A counter** adds a value up, or with threshold, inversion and edge ([`shape`]) counts cycles; for those the values
//! of signals are kept cycle by cycle on a [`tape`] until nothing can change in a cycle any more.
//!
//! **The instrument** ([`SimulatedPmu`]) opens events as perf_event does: counters and filter registers are limited, sets that do
//! not fit take turns, or all are counted at once because it is a simulation.
//!
//! Flaws of real counters mostly come by themselves: retired loads know nothing of prefetches, an answer for a prefetch
//! into the shared cache never comes to the core, a load is pending from its dispatch on. Errata without a mechanism are
//! entries of the files, see [`Flaws`]. Tests plant a [`Lie`] in an event and see whether it is caught.

mod bank;
mod instrument;
mod lie;
mod meaning;
mod opened;
mod probe;
pub mod recipe;
mod sample;
pub mod shape;
pub mod tape;

pub use bank::SharedBank;
pub use instrument::{NoEvents, SampleRequest, SampledEvent, SimulatedPmu};
pub use lie::Lie;
pub use meaning::{Flaws, SignalMeaning};
pub use opened::{CountedPart, PartCounts};
pub use sample::{LoadSample, SimulatedSample};

pub(crate) use probe::Probe;
