//! Known work. One description gives machine code, truth and blocks, so that what a kernel does is known by
//! construction wherever it runs.
//!
//! - [`description`]: a kernel as data; [`parse`] reads it from a file, [`catalogue`] holds those that come
//!   with memwall.
//! - [`program`]: the machine code of one thread; [`truth`]: what it does; [`walk`]: the order and the
//!   addresses in which it does it.
//! - [`scenario`]: small programs made of kernels; [`job`]: one kernel as such a program of one step.
//! - [`generate`]: kernels drawn at random.
//! - [`workload`]: a plan on this machine, in pinned threads, on placed buffers.
#![deny(unsafe_code)]

pub mod catalogue;
pub mod cycle;
pub mod description;
pub mod draw;
mod emit;
pub mod executable;
mod forms;
pub mod generate;
pub mod geometry;
pub mod job;
pub mod kernel;
mod lower;
pub mod memory;
pub mod numbers;
pub mod parse;
pub mod program;
pub mod scenario;
pub mod team;
pub mod traffic;
pub mod truth;
pub mod walk;
pub mod workload;

pub use catalogue::KernelCatalogue;
pub use job::{Job, JobError};
pub use kernel::Kernel;
pub use lower::assemble;
pub use memory::PagePolicy;
pub use workload::Workload;
