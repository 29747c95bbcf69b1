//! The timer instrument against time: shares of waiting, skid, addresses.
//!
//! The time a kernel waits for memory is its time beyond that of the same kernel in the L1, stretch by stretch in turn, so
//! that what disturbs the machine disturbs both.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{Catalogue, Kernel, Workload};
use machine::{Bytes, Isa};
use record::{
    run::Run,
    validate::{Evidence, Flaw, Judged, Trust},
};

use crate::{
    timer::{sampled::Sampled, skid},
    validate::Observer,
};

/// What the timer instrument makes of a recording: shares of the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Waiting for memory.
    pub memory: f64,
    /// Nobody knows.
    pub undecided: f64,
    /// The largest cause of waiting, in words.
    pub largest: String,
}

/// The analysis under test.
pub type Analyse<'a> = dyn Fn(&Run) -> Option<Waiting> + 'a;

/// What came of it.
pub struct Outcome {
    /// Verdicts.
    pub indicators: Vec<Judged>,
    /// It ran to its end.
    pub done: bool,
    /// Why not, or what was left out.
    pub missing: Option<String>,
    /// How many experiments.
    pub experiments: usize,
}

/// Data that stays in the first cache.
const NEAR: Bytes = Bytes::kib(16);
/// Data in memory, past any cache a guest is given.
const FAR: Bytes = Bytes::kib(128 << 10);
/// From one sample to the next.
const PERIOD_NS: u64 = 250_000;
/// One stretch.
const STRETCH_NS: f64 = 30e6;
/// Stretches of each kernel.
const STRETCHES: u32 = 12;
/// Points by which a share may be off and still be believed.
const CLOSE: f64 = 0.12;
/// Points by which it may be off and still tell much from little.
const ROUGH: f64 = 0.30;
/// Share of the addresses that must lie in the data.
const RIGHT: f64 = 0.95;
/// Addresses that make a judgement.
const ENOUGH: usize = 50;

/// Kernels, parameters and data.
const CASES: &[(&str, u64, Bytes)] = &[
    ("chase", 0, FAR),
    ("chase-dependent", 24, FAR),
    ("load", 0, FAR),
    ("copy", 0, FAR),
    ("ddot", 0, NEAR),
    ("triad", 0, NEAR),
];

/// Judges the instrument on one CPU.
pub fn judge(
    cpu: u32,
    quick: bool,
    analyse: &Analyse<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Outcome {
    let mut outcome = Outcome { indicators: Vec::new(), done: true, missing: None, experiments: 0 };
    let mut shares = Vec::new();
    let mut addresses = (0, 0, 0);
    let cases = if quick { &CASES[..4] } else { CASES };
    for (at, &(name, muls, size)) in cases.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            (outcome.done, outcome.missing) = (false, Some("interrupted".to_owned()));
            break;
        }
        observer.progress(&format!("clock samples of {name} over {size}"), at as f64 / cases.len() as f64);
        match case(cpu, name, muls, size, quick, analyse) {
            Ok(found) => {
                outcome.experiments += 1;
                addresses =
                    (addresses.0 + found.samples, addresses.1 + found.addresses, addresses.2 + found.right);
                shares.push((format!("{name} over {size}"), found));
            }
            Err(why) => outcome.missing = Some(why),
        }
    }
    outcome.indicators.push(share_verdict(&shares, outcome.missing.as_deref()));
    outcome.indicators.push(address_verdict(addresses, outcome.missing.as_deref()));
    outcome.indicators.push(skid_verdict(cpu));
    outcome
}

struct Found {
    truth: f64,
    waiting: Waiting,
    samples: usize,
    addresses: usize,
    right: usize,
}

fn prepare(cpu: u32, kernel: &Kernel, size: Bytes) -> Result<(Sampled<'static>, u64), String> {
    let width = kernel.width_on(&Isa::native(), None).map_err(|error| error.to_string())?;
    let pages = kernels::PagePolicy::default();
    let request = kernels::Request { kernel, width, size, cpus: &[cpu], node: None, pages, seed: 1 };
    let workload = Workload::prepare(&request).map_err(|error| error.to_string())?;
    let mut sampled = Sampled::open(&pmu::Live, workload, PERIOD_NS).map_err(|error| error.to_string())?;
    let passes = sampled.passes_for(STRETCH_NS).map_err(|error| error.to_string())?;
    Ok((sampled, passes))
}

fn case(
    cpu: u32,
    name: &str,
    muls: u64,
    size: Bytes,
    quick: bool,
    analyse: &Analyse<'_>,
) -> Result<Found, String> {
    let catalogue = Catalogue::builtin().map_err(|error| error.to_string())?;
    let mut kernel = catalogue.get(name).map_err(|error| error.to_string())?;
    if muls > 0 {
        kernel = kernel.with("muls", muls).map_err(|error| error.to_string())?;
    }
    let (mut far, far_passes) = prepare(cpu, &kernel, size)?;
    let (mut near, near_passes) = prepare(cpu, &kernel, NEAR)?;
    let (mut far_samples, mut near_samples) = (0, 0);
    for _ in 0..if quick { STRETCHES / 3 } else { STRETCHES } {
        far_samples += far.stretch(far_passes).map_err(|error| error.to_string())?;
        near_samples += near.stretch(near_passes).map_err(|error| error.to_string())?;
    }
    // Samples are time on the CPU: what others take is in neither.
    let per_byte = |samples: u64, passes: u64, sampled: &Sampled<'_>| {
        samples as f64 / (passes as f64 * sampled.workload().size().0.max(1) as f64)
    };
    let busy = per_byte(near_samples, near_passes, &near) / per_byte(far_samples, far_passes, &far);
    let bases = far.workload().arguments(0).bases;
    let geometry = far.workload().geometry(0).clone();
    let streams = kernel.description().streams.len().min(bases.len());
    let inside = |address: u64| {
        bases[..streams].iter().any(|&base| (base..base + geometry.allocate.max(1)).contains(&address))
    };
    let run = far.into_run();
    let known: Vec<u64> = run.samples.address.iter().flatten().map(|address| address.get()).collect();
    let right = known.iter().filter(|&&address| inside(address)).count();
    let waiting = analyse(&run).ok_or_else(|| "no sample was taken".to_owned())?;
    let truth = (1.0 - busy).clamp(0.0, 1.0);
    Ok(Found { truth, waiting, samples: run.samples.place.len(), addresses: known.len(), right })
}

fn judged(name: &str, purpose: &str, trust: Trust, evidence: Vec<Evidence>) -> Judged {
    Judged {
        name: name.to_owned(),
        events: vec!["cpu-clock".to_owned()],
        purpose: purpose.to_owned(),
        quantity: "timer".to_owned(),
        step: "timer".to_owned(),
        trust,
        without_prefetch: None,
        errors: None,
        sees_owned: None,
        sees_out: None,
        remarks: Vec::new(),
        evidence,
    }
}

fn share_verdict(shares: &[(String, Found)], missing: Option<&str>) -> Judged {
    let evidence = shares.iter().map(|(label, found)| Evidence {
        experiment: label.clone(),
        truth: Some(found.truth),
        counted: Some(found.waiting.memory),
        note: format!(
            "{} samples, {:.0} % undecided, mostly {}",
            found.samples,
            found.waiting.undecided * 100.0,
            found.waiting.largest
        ),
    });
    let evidence: Vec<Evidence> = evidence.collect();
    let by_error = |one: &&(String, Found), other: &&(String, Found)| {
        let error = |found: &Found| (found.waiting.memory - found.truth).abs();
        error(&one.1).total_cmp(&error(&other.1))
    };
    let trust = match shares.iter().max_by(by_error) {
        None => Trust::Untested { missing: missing.unwrap_or("no kernel was sampled").to_owned() },
        Some((label, found)) => {
            let error = (found.waiting.memory - found.truth).abs();
            let points = error * 100.0;
            if error <= CLOSE {
                Trust::Trusted { error }
            } else if error <= ROUGH {
                Trust::Qualitative {
                    tells: "whether much or little of the time waits for memory".to_owned(),
                    misses: format!("the share itself: off by {points:.0} points in {label}"),
                }
            } else {
                let why = format!("is off by {points:.0} points of the time that waits");
                Trust::Broken { flaw: Flaw::DoesNotFollow { worst: error }, why, shown_by: label.clone() }
            }
        }
    };
    judged("timer: share of waiting", "share of time waiting for memory, in points", trust, evidence)
}

fn address_verdict((samples, known, right): (usize, usize, usize), missing: Option<&str>) -> Judged {
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    let evidence = vec![Evidence {
        experiment: "all kernels".to_owned(),
        truth: Some(known as f64),
        counted: Some(right as f64),
        note: format!("{:.0} % of {samples} samples gave an address", share(known, samples) * 100.0),
    }];
    let wrong = 1.0 - share(right, known);
    let trust = if known < ENOUGH {
        let few = format!("only {known} addresses came back");
        Trust::Untested { missing: missing.map_or(few, str::to_owned) }
    } else if wrong <= 1.0 - RIGHT {
        Trust::Trusted { error: wrong }
    } else {
        let why = format!("{:.0} % of the addresses lie outside the data", wrong * 100.0);
        let flaw = Flaw::DoesNotFollow { worst: wrong };
        Trust::Broken { flaw, why, shown_by: "all kernels".to_owned() }
    };
    judged("timer: addresses", "effective addresses that lie in the data", trust, evidence)
}

fn skid_verdict(cpu: u32) -> Judged {
    let purpose = "instructions from the one waited for to the sample";
    match skid::measure(&pmu::Live, cpu, 1) {
        Err(error) => {
            judged("timer: skid", purpose, Trust::Untested { missing: error.to_string() }, Vec::new())
        }
        Ok(timer) => {
            let evidence = vec![Evidence {
                experiment: "chase-dependent".to_owned(),
                truth: Some(1.0),
                counted: Some(f64::from(timer.skid_instructions)),
                note: format!("{:.0} % of {} samples landed there", timer.landed * 100.0, timer.samples),
            }];
            let trust = if timer.landed >= 0.5 {
                Trust::Qualitative {
                    tells: format!(
                        "samples land {} behind the instruction waited for",
                        timer.skid_instructions
                    ),
                    misses: format!("{:.0} % of the samples land elsewhere", (1.0 - timer.landed) * 100.0),
                }
            } else {
                let why =
                    format!("no place holds most samples; the fullest has {:.0} %", timer.landed * 100.0);
                let flaw = Flaw::DoesNotFollow { worst: 1.0 - timer.landed };
                Trust::Broken { flaw, why, shown_by: "chase-dependent".to_owned() }
            };
            judged("timer: skid", purpose, trust, evidence)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(truth: f64, memory: f64) -> (String, Found) {
        let waiting = Waiting { memory, undecided: 0.0, largest: "loads".to_owned() };
        ("chase".to_owned(), Found { truth, waiting, samples: 100, addresses: 90, right: 90 })
    }

    #[test]
    fn shares_are_judged_by_the_one_that_is_furthest_off() {
        let verdict = |shares: &[(String, Found)]| share_verdict(shares, None).trust;
        assert!(matches!(verdict(&[found(0.9, 0.95), found(0.0, 0.1)]), Trust::Trusted { .. }));
        assert!(matches!(verdict(&[found(0.9, 0.95), found(0.0, 0.2)]), Trust::Qualitative { .. }));
        assert!(matches!(verdict(&[found(0.9, 0.4)]), Trust::Broken { .. }));
        assert!(matches!(verdict(&[]), Trust::Untested { .. }));
    }

    #[test]
    fn addresses_outside_the_data_are_wrong_and_few_are_no_answer() {
        let verdict = |known, right| address_verdict((200, known, right), None).trust;
        assert!(matches!(verdict(100, 100), Trust::Trusted { .. }));
        assert!(matches!(verdict(100, 50), Trust::Broken { .. }));
        assert!(matches!(verdict(10, 10), Trust::Untested { .. }));
    }
}
