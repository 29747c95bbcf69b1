//! Whether a program may have a probe before and after it, and the probe.
//!
//! The probe ends, and its memory is given back, before the program starts. It is left out where it could do harm or
//! would say nothing.

use machine::{Bytes, Profile, Topology, probe::ProbePlan};
use record::probe::ProbeOutcome;
use rustix::process::{Resource, getrlimit};

use crate::native::probe;

/// A probe takes at most this part of the memory that we may use: what others keep there is not pushed out.
const PART_OF_MEMORY: u64 = 8;

/// What a probe depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeCircumstances<'a> {
    /// The machine's profile.
    pub profile: Option<&'a Profile>,
    /// The program runs already.
    pub attached: bool,
    /// Memory that we may use.
    pub memory: Option<Bytes>,
    /// Address space that we may use (`ulimit -v`).
    pub address_space: Option<Bytes>,
}

impl<'a> ProbeCircumstances<'a> {
    /// Of this process on this machine.
    pub fn here(machine: &Topology, profile: Option<&'a Profile>, attached: bool) -> Self {
        let address_space = getrlimit(Resource::As).current.map(Bytes);
        Self { profile, attached, memory: machine.memory_for_us(), address_space }
    }

    /// What to probe, or why not to.
    pub fn plan(&self) -> Result<ProbePlan, String> {
        if self.attached {
            // Beside a running program it would measure that program, and take cache and bandwidth from it.
            return Err("the program runs already, and would be the neighbour that is seen".to_owned());
        }
        let profile =
            self.profile.ok_or("there is no profile of this machine; 'memwall calibrate' makes one")?;
        if profile.probes.is_empty() {
            return Err(
                "the profile was made without probes; 'memwall calibrate' makes one with them".to_owned()
            );
        }
        let plan = ProbePlan::of(profile);
        let most = |limit: Bytes| Bytes(limit.0 / PART_OF_MEMORY);
        let needed = Bytes(plan.needed_bytes());
        for (limit, what) in [(self.memory, "memory"), (self.address_space, "address space (ulimit -v)")] {
            if let Some(limit) = limit.filter(|&limit| most(limit) < needed) {
                return Err(format!(
                    "{what} is short: {limit} may be used, and it takes {needed} for a moment"
                ));
            }
        }
        Ok(plan)
    }
}

/// Probes this machine on this thread.
pub fn take(plan: &Result<ProbePlan, String>, seed: u64) -> ProbeOutcome {
    match plan {
        Err(reason) => ProbeOutcome::LeftOut(reason.clone()),
        Ok(plan) => match probe::measure(plan, seed) {
            Ok(reading) => ProbeOutcome::Reading(reading),
            Err(error) => ProbeOutcome::LeftOut(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::probe::{ProbeReading, ProbedChase};

    fn profile(with_probes: bool) -> Profile {
        let chase = |bytes| ProbedChase { bytes, latency_ns: 20.0 };
        let reading = ProbeReading {
            level: Some(3),
            chases: vec![chase(2 << 20), chase(4 << 20)],
            memory: chase(64 << 20),
            load_bytes_per_s: 1e10,
            took_ns: 4e7,
        };
        Profile { probes: if with_probes { vec![reading] } else { Vec::new() }, ..Profile::unmeasured() }
    }

    #[test]
    fn left_out_with_the_reason() {
        let with = profile(true);
        let fine = ProbeCircumstances {
            profile: Some(&with),
            attached: false,
            memory: Some(Bytes::gib(8)),
            address_space: None,
        };
        let plan = fine.plan().expect("a plan");
        assert_eq!((plan.cache_bytes, plan.memory_bytes), (vec![2 << 20, 4 << 20], 64 << 20));
        let without = profile(false);
        for (circumstances, word) in [
            (ProbeCircumstances { profile: None, ..fine }, "no profile"),
            (ProbeCircumstances { profile: Some(&without), ..fine }, "without probes"),
            (ProbeCircumstances { attached: true, ..fine }, "runs already"),
            (ProbeCircumstances { memory: Some(Bytes::mib(256)), ..fine }, "memory is short: 256 MiB"),
            (ProbeCircumstances { address_space: Some(Bytes::mib(500)), ..fine }, "ulimit -v"),
        ] {
            let reason = circumstances.plan().expect_err(word);
            assert!(reason.contains(word), "{reason}");
            assert_eq!(take(&circumstances.plan(), 1), ProbeOutcome::LeftOut(reason));
        }
    }
}
