//! perf_event opened, tried and explained.
//!
//! Events are plain values ([`KernelEvent`]), and everything that reaches the kernel goes through the small trait
//! [`LinuxKernel`]: [`Live`] makes the system calls, [`scripted::Scripted`] answers as a test tells it to. A refusal is
//! an [`Errno`], kept with its name.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod counting;
pub mod errno;
pub mod event;
pub mod field;
pub mod kernel;
mod live;
pub mod mapping;
pub mod pmus;
pub mod record;
pub mod refusal;
pub mod sampling;
pub mod scripted;

pub use counting::{
    AtMarks, MarkedForm, MarkedPlan, NamedSampling, PerfCounting, PerfEvents, SamplingForm, ThreadAccount,
};
pub use errno::Errno;
pub use event::{EventTarget, KernelEvent};
pub use events::Scope;
pub use kernel::{CounterReading, LinuxKernel, OpenCounter};
pub use live::Live;
pub use mapping::Mapping;
pub use perf_event_open_sys::bindings;
pub use pmus::Pmu;
