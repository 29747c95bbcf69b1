//! Recordings to findings. Values in, values out: nothing here reads a file, a clock or the machine.
//!
//! [`timer`] reads a run of the timer instrument; what it finds is a [`findings::Findings`].
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

/// What the analysis and the decoder behind it are made of: it changes with every change of theirs.
pub const RULES: &str = env!("MEMWALL_RULES");

pub mod compare;
mod event_names;
pub mod findings;
pub mod hybrid;
pub mod import;
pub mod listing;
mod loads;
pub mod lower_clock;
pub mod marking;
pub mod methods;
pub mod objects;
pub mod patterns;
pub mod phase_check;
pub mod ranks;
pub mod reading;
pub mod regions;
pub mod relief;
mod runtimes;
pub mod scaling;
mod statistics;
pub mod surroundings;
pub mod timer;
pub mod views;
mod wait_code;
pub mod work;
