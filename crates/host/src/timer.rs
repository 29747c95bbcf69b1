//! The timer instrument on known work: kernels sampled by the clock.

pub mod sampled;
pub mod skid;

use std::sync::OnceLock;

use machine::{Profile, Source, Topology, profile::Timer};
use pmu::Kernel;

/// What to believe of the skid where it cannot be measured: the sample lies just behind the instruction waited for.
pub const USUAL_SKID: u32 = 1;

/// The skid of this machine: by its profile, or measured now, once per process.
///
/// A chase that shares its CPU with others may leave too few samples behind; [`USUAL_SKID`] is taken then.
pub fn skid_for(profile: Option<&Profile>, kernel: &dyn Kernel) -> u32 {
    let known = profile.and_then(|profile| profile.timer.as_ref());
    known.or_else(|| measured(kernel)).map_or(USUAL_SKID, |timer| timer.skid_instructions)
}

/// Measured on the first CPU this process may use; none if the clock cannot be sampled, or gave too few samples.
pub fn measured(kernel: &dyn Kernel) -> Option<&'static Timer> {
    static MEASURED: OnceLock<Option<Timer>> = OnceLock::new();
    const SEED: u64 = 1;
    let measure = || {
        let cpu = Topology::read(&Source::live()).usable_cpus().iter().next()?;
        skid::measure(kernel, cpu, SEED).ok()
    };
    MEASURED.get_or_init(measure).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skid_is_measured_once_or_taken_to_be_the_usual_one() {
        let first = skid_for(None, &pmu::Live);
        assert_eq!(skid_for(None, &pmu::Live), first);
        match measured(&pmu::Live) {
            Some(timer) => assert_eq!(timer.skid_instructions, first),
            None => assert_eq!(first, USUAL_SKID),
        }
    }
}
