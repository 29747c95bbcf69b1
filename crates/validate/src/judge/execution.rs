//! Which events count cycles in which nothing executes, whatever is waited for (molka2017 §4.3: `CYCLES_NO_EXECUTE`).
//!
//! In a chain of instructions that wait for each other each executes in a cycle of its own, so that all other cycles of
//! the time it takes are without execution. That holds for chases at every level, with and without work between their
//! loads, for chains of slow operations, and for one of fast ones, which leaves no cycle idle.

use record::validate::Observation;
use trust::{Errors, Evidence, Flaw, Indicator, Judged, KernelPlace, Purpose, Trust};

use super::points::{count, median};
use crate::{
    claims::Candidate,
    roles::{JudgingKernels, Role},
};

/// What it is judged as.
const PURPOSE: &str = "cycles in which nothing executes";
/// Of all cycles: a count that is never farther off can be believed.
const CLOSE: f64 = 0.05;
/// Of all cycles: one that is never farther off still tells more from less.
const ROUGHLY: f64 = 0.2;
/// Instructions of a turn of a loop that control it, and execute beside the others: an addition and a branch.
const CONTROL: f64 = 2.0;

/// Cycles in which a chain executes: one for each of its instructions.
pub(super) fn executing(observation: &Observation) -> f64 {
    let truth = &observation.truth;
    truth.instructions - CONTROL * truth.branches
}

/// Whether every instruction of a kernel waits for another, or has a cycle of its own.
pub(super) fn is_chain(role: &Role) -> bool {
    matches!(role, Role::Chase(_) | Role::Idle | Role::WaitsElsewhere { serial: true, .. })
}

/// Experiments of one core under plain circumstances.
pub(super) fn is_plain(observation: &Observation) -> bool {
    let experiment = &observation.experiment;
    experiment.cores == 1
        && !experiment.siblings
        && experiment.prefetch
        && !experiment.remote
        && experiment.width.is_none()
}

/// One experiment in shares of its cycles.
struct IdleShare {
    kernel: String,
    experiment: String,
    truth: f64,
    counted: f64,
}

impl IdleShare {
    fn error(&self) -> f64 {
        (self.counted - self.truth).abs()
    }
}

/// Judges an event that claims to count cycles without execution.
pub fn judge(candidate: &Candidate, observations: &[Observation], known: &JudgingKernels) -> Judged {
    let shares = shares(candidate, observations, known);
    let evidence = shares.iter().map(|one| Evidence {
        experiment: one.experiment.clone(),
        truth: Some(one.truth),
        counted: Some(one.counted),
        error: Some(one.counted - one.truth),
        note: "of all cycles".to_owned(),
    });
    let errors = Errors::of(shares.iter().map(|one| (one.kernel.as_str(), one.counted - one.truth)));
    Judged {
        events: candidate.events.clone(),
        evidence: evidence.collect(),
        errors,
        ..Judged::new(
            Indicator::event(&candidate.name),
            Purpose::NoExecution,
            PURPOSE,
            "stalls",
            verdict(&shares),
        )
    }
}

fn shares(candidate: &Candidate, observations: &[Observation], known: &JudgingKernels) -> Vec<IdleShare> {
    let chains =
        observations.iter().filter(|one| is_plain(one) && known.is(&one.experiment.kernel, is_chain));
    let share = |one: &Observation| {
        let cycles = one.truth.cycles.filter(|cycles| *cycles > 0.0)?;
        let counted = count(candidate, one)? / cycles;
        let truth = (1.0 - executing(one) / cycles).clamp(0.0, 1.0);
        let place = match one.experiment.place {
            KernelPlace::Registers => String::new(),
            place => format!(" in {}", place.name()),
        };
        let kernel = one.experiment.kernel.clone();
        Some(IdleShare { experiment: format!("{kernel}{place}"), kernel, truth, counted })
    };
    chains.filter_map(share).collect()
}

fn verdict(shares: &[IdleShare]) -> Trust {
    let by_error = |one: &&IdleShare, other: &&IdleShare| one.error().total_cmp(&other.error());
    let Some(worst) = shares.iter().max_by(by_error) else {
        return Trust::Untested { missing: "it was counted in no chain, or no clock is known".to_owned() };
    };
    let idle: Vec<f64> = shares.iter().map(|one| one.truth).collect();
    // Where nothing or everything is idle, any constant would do.
    if median(&idle).is_none_or(|middle| !(0.01..1.0).contains(&middle)) || shares.len() < 3 {
        return Trust::Untested { missing: "too few chains were tried".to_owned() };
    }
    let [truth, counted] = [worst.truth, worst.counted].map(|share| share * 100.0);
    match worst.error() {
        error if error <= CLOSE => Trust::Trusted { error },
        error if error <= ROUGHLY => Trust::Qualitative {
            tells: "that nothing executes, and roughly how long".to_owned(),
            misses: format!(
                "how long exactly: {counted:.0} instead of {truth:.0} % of the cycles of {}",
                worst.experiment
            ),
        },
        error => Trust::Broken {
            flaw: Flaw::DoesNotFollow { worst: error },
            why: format!("counts {counted:.0} % of the cycles where nothing executes in {truth:.0} %"),
            shown_by: worst.experiment.clone(),
        },
    }
}
