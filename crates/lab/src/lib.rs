//! Experiments on a machine: what can be measured on it, how fast known work runs, and its profile.
//!
//! What is measured goes through one trait ([`host::Host`]): this machine ([`native`]) and simulated ones
//! ([`simulated`]) implement it, and tests that script one need no time and meet no noise.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
pub mod calibrate;
pub mod clock;
pub mod count;
pub mod doctor;
pub mod host;
#[cfg(test)]
mod imagined;
pub mod meter;
pub mod native;
pub mod noise;
mod program;
pub mod repeat;
pub mod request_check;
pub mod run;
pub mod scenario;
pub mod simulated;
pub mod sizes;
pub mod statistics;
pub mod timer;
pub mod validate;
mod work_truth;
