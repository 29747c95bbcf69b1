//! A deterministic, cycle-approximate multicore. What it achieves emerges from its mechanisms: model files hold
//! geometry, widths, queue sizes, latencies and clocks, never a result.
//!
//! Time-stamp simulation: each µop and each memory request is given the moments at which things happen to it;
//! shared resources are reserved in time. Nothing is stepped cycle by cycle.
#![deny(unsafe_code)]

pub mod access;
pub mod core;
mod divider;
pub mod engine;
pub mod memory;
pub mod plan_source;
pub mod pmu;
pub mod scripted_memory;
pub mod signal;
pub mod source;
pub mod supplier;
pub mod time;
