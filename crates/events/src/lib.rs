//! Events and metrics as data, their names and encodings, and what an instrument that counts them offers.
//!
//! An [`Event`] is a name with what must be programmed for it. An [`Instrument`] opens a set of them: perf_event and
//! the PMU of a simulated machine both do, and no caller knows which one it has. A [`Catalogue`] holds the events of
//! a microarchitecture, [`names`] understands what people type, and [`groups`] put events and formulas together.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bound;
pub mod catalogue;
mod data_file;
pub mod event;
mod field;
pub mod formula;
pub mod groups;
mod identity;
pub mod instrument;
pub mod libpfm;
pub mod names;
pub mod placement;
pub mod value;

pub use bound::{BoundedValue, ValueBound};
pub use catalogue::{Catalogue, Entry};
pub use event::{Encoding, Event, Modifiers, Signal, Unit};
pub use formula::Formula;
pub use groups::{Metric, MetricGroup};
pub use identity::SignalId;
pub use instrument::{CountRefusal, CountRequest, CountShare, Counting, Instrument, Offer, Scope, TooMany};
pub use placement::{Conflict, Demand, PmuResources};
pub use value::{Count, CountedPlace, EventRefusal, Missing, Value};
