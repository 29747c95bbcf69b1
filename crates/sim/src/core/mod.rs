//! The core: front end, out-of-order window, ports, store buffer.
//!
//! Each µop is looked at once, in program order, and is given the cycles at which it is dispatched, starts on a port,
//! completes and retires. Resources are reserved in time: ports in a [`timeline`] of busy cycles (so that a younger
//! µop can start before an older one), buffers by the time at which their oldest entry becomes free.
//!
//! What is simplified, on purpose:
//! - A load is never repeated because it went past a store that it needed. Where a model names no confidence, loads know
//!   beforehand which stores they need, and never wait for the address of another.
//! - µops of a mispredicted path take ports and touch no memory; what lies behind a call or a return there is taken to be like
//!   the code before the branch, and a division keeps its port alone.
//! - Targets of direct branches are always known (no branch target buffer to miss).
//! - All fences order loads and stores alike; a flush of a line is executed and moves nothing.
//! - An operation whose repeat time is above one cycle, and an access wider than its port, keep the port; a division
//!   keeps the divider, of which a core has one.
//! - A microcoded instruction costs the switch to microcode and the µops of its sketch.

mod access;
pub mod branch;
mod capacity;
mod clock;
mod fetch;
pub(crate) mod hardware;
mod hoisting;
mod operation;
mod pace;
mod path;
mod retirement;
mod scheduler;
pub mod statistics;
mod stores;
pub(crate) mod table;
pub(crate) mod thread;
pub mod timeline;
mod wrong_path;

pub use clock::CoreClock;
pub use statistics::Statistics;

use machine::model::OpClass;

/// Why a program cannot be run on a core model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The calendar has no room for so many.
    #[error("the core has {ports} ports, at most {most} can be simulated; merge ports that do the same")]
    TooManyPorts {
        /// Ports of the model.
        ports: usize,
        /// The limit.
        most: usize,
    },
    /// The code needs a unit that no port of the model has.
    #[error(
        "the instruction at {address:#x} needs {class:?}, which no port of this core runs; add it to a port"
    )]
    NoPort {
        /// Address of the instruction.
        address: u64,
        /// What it needs.
        class: OpClass,
    },
    /// The code needs an operation whose latency the model does not give.
    #[error(
        "the instruction at {address:#x} needs the latency of {class:?}; add it to the model's operations"
    )]
    NoLatency {
        /// Address of the instruction.
        address: u64,
        /// What it needs.
        class: OpClass,
    },
}
