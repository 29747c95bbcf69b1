//! Experiments on a machine: what can be measured on it, how fast known work runs, and its profile.
//!
//! What is measured goes through small traits ([`rig::Rig`], [`repeat::Executor`]), so that scheduling and
//! reading of curves are tested on imagined machines, in no time and without noise. A simulated machine
//! ([`simulated`]) is one more rig.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
pub mod calibrate;
pub mod clock;
pub mod count;
#[cfg(test)]
mod imagined;
pub mod native;
pub mod noise;
pub mod repeat;
pub mod request_check;
pub mod rig;
pub mod scenario;
pub mod simulated;
pub mod sizes;
pub mod statistics;
pub mod timer;
pub mod validate;
