//! What disturbs a measurement: time stolen by the hypervisor, and threads pushed off their CPU.

use machine::profile::Noise;
pub use machine::steal::StealWatch;

use crate::{repeat::Repeated, statistics};

/// The noise of one repeated measurement.
pub fn of_repeated(repeated: &Repeated, steal_ns: Option<f64>) -> Noise {
    Noise {
        wall_ns: repeated.wall_ns,
        steal_ns,
        involuntary_switches: repeated.involuntary_switches,
        spread: statistics::spread(&repeated.samples_ns),
    }
}
