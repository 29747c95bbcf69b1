//! Shares of the cycles as a group of events has them, against time (molka2017 §4.3, Fig. 10).
//!
//! What a kernel takes beyond the same kernel in the L1 it waits for memory. A chase waits for latency: its next load needs
//! the data. A stream waits for bandwidth: its next loads or stores are known. In the L1 a stream executes in every cycle; a chain
//! executes once for each of its instructions, and otherwise waits for something that is not memory.

use events::groups::Chosen;
use record::validate::Observation;
use trust::{Errors, Evidence, Flaw, Indicator, Judged, KernelPlace, Purpose, Trust};

use super::{
    execution::{executing, is_chain, is_plain},
    points::median,
};
use crate::roles::{JudgingKernels, Role};

/// The group whose shares are tried.
pub const GROUP: &str = "STALLS";
/// Points that a share may be off anywhere.
const CLOSE: f64 = 0.10;
/// Points up to which it still tells which is larger.
const ROUGHLY: f64 = 0.25;

/// Where the cycles of a kernel went, by time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CycleUse {
    /// None where it is not known whether something executes, as on a path that is thrown away.
    productive: Option<f64>,
    latency: f64,
    bandwidth: f64,
}

impl CycleUse {
    /// By the name of a metric; none if it is not known, or no such share.
    fn share(&self, metric: &str) -> Option<f64> {
        let memory = self.latency + self.bandwidth;
        match metric {
            "productive" => self.productive,
            "memory bound" => Some(memory),
            "latency bound" => Some(self.latency),
            "bandwidth bound" => Some(self.bandwidth),
            // In this order nothing is left where memory is all that is waited for.
            "other stalls" => Some(1.0 - self.productive? - memory),
            _ => None,
        }
    }
}

/// Loads and stores, or what stands for one step of the work.
fn steps(observation: &Observation) -> f64 {
    let truth = &observation.truth;
    if truth.chain > 0.0 { truth.chain } else { truth.loads + truth.stores }
}

fn cycles_per_step(observation: &Observation) -> Option<f64> {
    let steps = steps(observation);
    (steps > 0.0).then_some(observation.truth.cycles? / steps)
}

/// Of one experiment; none if its kernel says nothing of it, or was not timed in the L1.
fn cycle_use(one: &Observation, all: &[Observation], known: &JudgingKernels) -> Option<CycleUse> {
    let (kernel, place) = (&one.experiment.kernel, one.experiment.place);
    let cycles = one.truth.cycles.filter(|cycles| *cycles > 0.0)?;
    let role = known.role(kernel)?;
    let executes = (executing(one) / cycles).min(1.0);
    if matches!(role, Role::Idle | Role::WaitsElsewhere { .. }) {
        return Some(CycleUse { productive: is_chain(role).then_some(executes), ..CycleUse::default() });
    }
    let in_first = all.iter().filter(|other| {
        is_plain(other) && other.experiment.kernel == *kernel && other.experiment.place == KernelPlace::L1
    });
    let near: Vec<f64> = in_first.filter_map(cycles_per_step).collect();
    let alone = (median(&near)? / cycles_per_step(one)?).min(1.0);
    let waits = if place == KernelPlace::L1 { 0.0 } else { 1.0 - alone };
    match role {
        Role::Chase(_) => Some(CycleUse { productive: Some(executes), latency: waits, bandwidth: 0.0 }),
        role if role.moves_one() => {
            Some(CycleUse { productive: Some(alone), latency: 0.0, bandwidth: waits })
        }
        _ => None,
    }
}

/// One experiment: what is true of a share, and what was computed.
struct ShareReading {
    kernel: String,
    experiment: String,
    truth: f64,
    found: f64,
    cut_off: f64,
    /// For something that is neither memory nor a result.
    waits_elsewhere: bool,
}

/// Judges every share of a group.
pub fn judge(chosen: &Chosen<'_>, observations: &[Observation], known: &JudgingKernels) -> Vec<Judged> {
    let idle = CycleUse { productive: Some(0.0), ..CycleUse::default() };
    let shares = chosen.metrics.iter().filter(|metric| idle.share(&metric.name).is_some());
    shares.map(|metric| one(chosen, &metric.name, observations, known)).collect()
}

fn one(chosen: &Chosen<'_>, metric: &str, observations: &[Observation], known: &JudgingKernels) -> Judged {
    let readings = readings(chosen, metric, observations, known);
    let inputs = chosen.metrics.iter().filter(|one| one.name == metric).flat_map(|one| one.formula.names());
    let evidence = readings.iter().map(|one| Evidence {
        experiment: one.experiment.clone(),
        truth: Some(one.truth),
        counted: Some(one.found),
        error: Some(one.found - one.truth),
        note: match one.cut_off.abs() {
            cut if cut > SHOWN => format!("of all cycles; {:+.0} points were cut off", one.cut_off * 100.0),
            _ => "of all cycles".to_owned(),
        },
    });
    Judged {
        events: inputs.filter_map(|input| chosen.event(input)).map(str::to_owned).collect(),
        evidence: evidence.collect(),
        errors: Errors::of(readings.iter().map(|one| (one.kernel.as_str(), one.found - one.truth))),
        ..Judged::new(
            Indicator::share(&chosen.group.name, metric),
            Purpose::CycleShare,
            &format!("{metric} cycles, by time"),
            "stalls",
            verdict(&readings),
        )
    }
}

/// Points that are cut off without a word.
const SHOWN: f64 = 0.02;

fn readings(
    chosen: &Chosen<'_>,
    metric: &str,
    observations: &[Observation],
    known: &JudgingKernels,
) -> Vec<ShareReading> {
    let reading = |one: &Observation| {
        let truth = cycle_use(one, observations, known)?.share(metric)?;
        let input = |name: &str| one.count(chosen.events.iter().find(|(input, _)| *input == name)?.1);
        let values = chosen.values(&input, Some(one.elapsed_ns / 1e9));
        let found = values.into_iter().find(|(found, _)| found.name == metric)?.1.ok()?;
        let place = match one.experiment.place {
            KernelPlace::Registers => String::new(),
            place => format!(" in {}", place.name()),
        };
        Some(ShareReading {
            kernel: one.experiment.kernel.clone(),
            experiment: format!("{}{place}", one.experiment.kernel),
            truth,
            found: found.value / 100.0,
            cut_off: found.cut_off / 100.0,
            waits_elsewhere: known.is(&one.experiment.kernel, |role| {
                matches!(role, Role::WaitsElsewhere { serial: false, .. })
            }),
        })
    };
    let mut all: Vec<ShareReading> = Vec::new();
    for found in observations.iter().filter(|one| is_plain(one)).filter_map(reading) {
        // The worst of several runs stands for them.
        match all.iter_mut().find(|known| known.experiment == found.experiment) {
            Some(known) if off(&found) > off(known) => *known = found,
            Some(_) => {}
            None => all.push(found),
        }
    }
    all
}

fn off(reading: &ShareReading) -> f64 {
    (reading.found - reading.truth).abs()
}

fn verdict(readings: &[ShareReading]) -> Trust {
    let Some(worst) = readings.iter().max_by(|one, other| off(one).total_cmp(&off(other))) else {
        return Trust::Untested {
            missing: "its events were not counted together, or no clock is known".to_owned(),
        };
    };
    let moves =
        readings.iter().any(|one| one.truth > ROUGHLY) && readings.iter().any(|one| one.truth < CLOSE);
    if !moves {
        return Trust::Untested { missing: "no kernel here has much of it and another little".to_owned() };
    }
    let [truth, found] = [worst.truth, worst.found].map(|share| share * 100.0);
    // Fooled by kernels that wait for something else, and right where memory is waited for.
    let (elsewhere, others): (Vec<&ShareReading>, Vec<&ShareReading>) =
        readings.iter().partition(|one| one.waits_elsewhere);
    let right = others.iter().map(|one| off(one)).fold(0.0, f64::max);
    if right <= CLOSE && off(worst) > CLOSE && elsewhere.len() < others.len() {
        return Trust::Qualitative {
            tells: format!(
                "this share to {:.0} points where nothing but memory and results are waited for",
                right * 100.0
            ),
            misses: format!(
                "what it is worth otherwise: {found:.0} instead of {truth:.0} % in {}",
                worst.experiment
            ),
        };
    }
    match off(worst) {
        error if error <= CLOSE => Trust::Trusted { error },
        error if error <= ROUGHLY => Trust::Qualitative {
            tells: "roughly how large this share is".to_owned(),
            misses: format!("it to 10 points: {found:.0} instead of {truth:.0} % in {}", worst.experiment),
        },
        error => Trust::Broken {
            flaw: Flaw::DoesNotFollow { worst: error },
            why: format!("is {found:.0} % where time says {truth:.0} %"),
            shown_by: worst.experiment.clone(),
        },
    }
}
