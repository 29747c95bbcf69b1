//! The timer instrument on known work: kernels recorded as a user's program is.

pub mod recorded;
pub mod skid;

use std::sync::OnceLock;

use machine::{Profile, Source, Topology, profile::Timer};
use pmu::LinuxKernel;

/// What to believe of the skid where it cannot be measured: the sample lies just behind the instruction waited for.
pub const USUAL_SKID: u32 = 1;

/// The skid of this machine: by its profile, or measured now, once per process.
///
/// A chase that shares its CPU with others may leave too few samples behind; [`USUAL_SKID`] is taken then.
pub fn skid_for(profile: Option<&Profile>, kernel: &dyn LinuxKernel) -> u32 {
    skid_of(profile.and_then(|profile| profile.timer.as_ref()), || measured(kernel))
}

/// A skid that is known, or else measured, or else the usual one.
fn skid_of<'a>(known: Option<&'a Timer>, measure: impl FnOnce() -> Option<&'a Timer>) -> u32 {
    known.or_else(measure).map_or(USUAL_SKID, |timer| timer.skid_instructions)
}

/// Measured on the first CPU this process may use; none if the clock cannot be sampled, or gave too few samples.
pub fn measured(kernel: &dyn LinuxKernel) -> Option<&'static Timer> {
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
    fn a_known_skid_saves_measuring_and_without_either_it_is_the_usual_one() {
        let timer = |skid_instructions| Timer { skid_instructions, landed: 0.9, samples: 500 };
        let (known, seen) = (timer(3), timer(0));
        assert_eq!(skid_of(Some(&known), || panic!("measured all the same")), 3);
        assert_eq!(skid_of(None, || Some(&seen)), 0);
        assert_eq!(skid_of(None, || None), USUAL_SKID);
    }
}
