//! Known work on a machine, and the experiments that need little more: timing it, counting it, running scenarios.
//!
//! What is measured goes through one trait ([`Host`]): this machine ([`native`]) and simulated ones
//! ([`simulated`]) implement it, and tests that script one need no time and meet no noise.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
mod beside;
pub mod clock;
pub mod count;
mod host;
pub mod imagined;
pub mod meter;
pub mod native;
pub mod noise;
pub mod probing;
pub mod repeat;
pub mod request_check;
pub mod scenario;
pub mod simulated;
pub mod sizes;
pub mod statistics;
pub mod timer;
mod work_truth;

pub use beside::{BesideTraffic, VictimLength, VictimLoads, VictimReading};
pub use host::{Host, HostError, Loaded, Measured, PlanRun, PreparedPlan, RegionEntry, work_of};
