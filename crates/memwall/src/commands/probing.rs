//! Short probes before and after a program: whether others use cache and memory.

use std::path::Path;

use host::probing::{ProbeCircumstances, take};
use machine::{Profile, Topology, probe::ProbePlan};
use record::{
    file,
    probe::{ProbeOutcome, Probes},
    run::Ending,
};
use recorder::RecordOutcome;

use crate::output;

/// The first is taken, the second is to come.
pub struct Probing {
    plan: Result<ProbePlan, String>,
    before: ProbeOutcome,
}

impl Probing {
    /// Probes before the program starts; all memory is given back on return.
    pub fn begin(machine: &Topology, profile: Option<&Profile>, attached: bool) -> Self {
        let plan = ProbeCircumstances::here(machine, profile, attached).plan();
        let before = take(&plan, 1);
        Self { plan, before }
    }

    /// Probes after the program ended, and adds both to the recording.
    pub fn end(self, recording: &Path, outcome: &RecordOutcome) {
        let goes_on = outcome.left_behind.is_some()
            || !matches!(outcome.ending, Ending::Exited(_) | Ending::Signalled(_));
        let after = match &self.plan {
            Ok(_) if goes_on => ProbeOutcome::LeftOut("the program, or a process of it, goes on".to_owned()),
            plan => take(plan, 2),
        };
        if outcome.samples.is_some() {
            let probes = Probes { before: self.before, after };
            // The recording is whole without them.
            if let Err(error) = file::add_probes(recording, &probes) {
                output::say(&format!("what probes found is not in the recording: {error}"));
            }
        }
    }
}
