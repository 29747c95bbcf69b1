//! Which indicators can be believed: known work under every candidate, and the trust each earns.
//!
//! [`plan`] says which experiments are made, a [`bench::Bench`] makes them, [`judge`] turns what was observed into verdicts
//! without touching anything. Observations are handed to the caller as they come, so that an interrupted validation goes
//! on where it stopped.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
pub mod claims;
pub mod consult;
pub mod judge;
pub mod keep;
pub mod native;
pub mod plan;
pub mod quantity;
pub mod roles;
mod session;
pub mod simulated;
pub mod unseen;

use std::{cmp::Ordering, collections::HashMap, sync::atomic::AtomicBool};

use events::{Catalogue, MetricGroup, Signal, names};
use machine::profile::Fingerprint;
use record::validate::Observation;
use trust::{
    Indicator, Judged, Purpose, Quantity, SCHEMA, Sweep, Trust, UnseenCase, Validation,
    ValidationStep as Done,
};

use bench::Bench;
use claims::Candidate;
use judge::latency::{Formula, SAMPLED};
use plan::{Extent, Step};
use quantity::KnownQuantity as _;
use roles::{JudgingKernels, Role};
use session::Made;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Fewer experiments.
    pub quick: bool,
    /// Repetitions of the accuracy step.
    pub runs: u32,
    /// Also events that nothing is claimed of.
    pub all_events: bool,
    /// Random kernels to try; natively only.
    pub random_kernels: u64,
    /// Random kernels to sample and relieve, on a real machine that allows it.
    pub relieved_kernels: u64,
    /// Seconds since 1970; 0 of a simulated machine.
    pub now: u64,
    /// The model that is simulated.
    pub simulated: Option<String>,
    /// The machine.
    pub fingerprint: Fingerprint,
}

/// Whoever watches.
pub trait Observer {
    /// How far it is, from 0 to 1.
    fn progress(&mut self, step: &str, fraction: f64);
    /// An experiment was made.
    fn keep(&mut self, observation: &Observation);
    /// An experiment that was made before, by its key.
    fn kept(&mut self, key: &str) -> Option<Observation>;
    /// A random kernel was tried.
    fn keep_case(&mut self, _case: &UnseenCase) {}
    /// Random kernels that were tried on this machine before.
    fn kept_cases(&mut self) -> Vec<UnseenCase> {
        Vec::new()
    }
}

/// Validates by counting. Without a catalogue there are no events, and only what needs none is left.
pub fn validate(
    bench: &mut dyn Bench,
    catalogue: &Catalogue,
    known: &JudgingKernels,
    request: &Request,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Validation {
    let candidates = claims::candidates(catalogue, request.all_events);
    let formulas = formulas(catalogue);
    let mut events: Vec<String> = candidates.iter().flat_map(|one| one.events.clone()).collect();
    events.extend(formulas.iter().flat_map(|one| one.above.iter().chain(&one.below).cloned()));
    events.extend(group_events(catalogue));
    events.retain(|event| event != SAMPLED);
    events.sort();
    events.dedup();
    let (mut signals, mut refused) = (HashMap::new(), Vec::new());
    for event in &events {
        match bench.probe(event) {
            Ok(signal) => drop(signals.insert(event.clone(), signal)),
            Err(refusal) => refused.push((event.clone(), bench::reason(&refusal))),
        }
    }
    events.retain(|event| signals.contains_key(event));
    let extent = Extent { quick: request.quick, runs: request.runs };
    let machine = bench.machine().clone();
    let plan = Step::ALL.map(|step| (step, plan::experiments(step, &machine, extent, known)));
    let Made { observations, swept, steps } = session::make(bench, &plan, &events, observer, interrupt);
    let mut indicators = judge_all(&candidates, &formulas, &refused, &observations, &steps, known);
    if let Some(group) = MetricGroup::named(judge::shares::GROUP) {
        let chosen = group.choose(&|event| signals.contains_key(event));
        let shares = judge::shares::judge(&chosen, &observations, known);
        indicators.extend(shares.into_iter().filter(|_| !chosen.events.is_empty()));
    }
    for one in &mut indicators {
        let known: Option<Vec<Signal>> = one.events.iter().map(|event| signals.get(event).cloned()).collect();
        one.signals = known.unwrap_or_default();
    }
    let best = judge::best::best(&candidates, &indicators, &observations, &claims::papers(catalogue), known);
    Validation {
        schema: SCHEMA.to_owned(),
        fingerprint: request.fingerprint.clone(),
        simulated: request.simulated.clone(),
        instrument: bench.name(),
        measured_at: request.now,
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
        quick: request.quick,
        runs: request.runs,
        complete: steps.iter().all(|step| step.done),
        steps,
        best,
        indicators,
        thresholds: judge::latency::thresholds(&formulas, &observations, known),
        unseen: None,
        unseen_with_relief: None,
        sweeps: sweeps(&candidates, &swept),
    }
}

/// Events of the group whose shares are tried, those that this machine has.
fn group_events(catalogue: &Catalogue) -> impl Iterator<Item = String> {
    let inputs = MetricGroup::named(judge::shares::GROUP).into_iter().flat_map(|group| &group.inputs);
    let context = names::Context { catalogue: Some(catalogue), pmus: &[], libpfm: false };
    let known = move |event: &&String| names::is_known(event, &context);
    inputs.filter_map(move |(_, events)| events.iter().find(known).cloned())
}

/// Events per access of every volume, by kernel.
fn sweeps(candidates: &[Candidate], swept: &[Observation]) -> Vec<Sweep> {
    let mut kernels: Vec<&str> = swept.iter().map(|one| one.experiment.kernel.as_str()).collect();
    kernels.dedup();
    let volumes = || candidates.iter().filter(|one| matches!(one.purpose, Purpose::Volume(_)));
    let all = kernels.iter().flat_map(|kernel| volumes().map(move |candidate| (*kernel, candidate)));
    let sweep = |(kernel, candidate): (&str, &Candidate)| {
        let here = swept.iter().filter(|one| one.experiment.kernel == kernel);
        let points = here.filter_map(|one| {
            let accesses = one.truth.loads + one.truth.stores;
            Some((one.experiment.size, judge::count(candidate, one)? / accesses.max(1.0)))
        });
        Sweep { kernel: kernel.to_owned(), indicator: candidate.name.clone(), points: points.collect() }
    };
    all.map(sweep).filter(|sweep| !sweep.points.is_empty()).collect()
}

/// The latencies of helm2019 §6.2, as this machine can count them.
fn formulas(catalogue: &Catalogue) -> Vec<Formula> {
    let event = |meaning: &str| catalogue.meaning(meaning).next().map(|entry| entry.name.clone());
    let mut all =
        vec![Formula { name: Indicator::SampledLatency, above: vec![SAMPLED.to_owned()], below: Vec::new() }];
    if let (Some(pending), Some(miss)) = (event("l1d_pending"), event("loads_l1_miss")) {
        let name = Indicator::L1MissLatency;
        all.push(Formula { name, above: vec![pending.clone()], below: vec![miss.clone()] });
        if let Some(on_its_way) = event("loads_fill_buffer_hit") {
            let name = Indicator::LoadMissRealLatency;
            all.push(Formula { name, above: vec![pending], below: vec![miss, on_its_way] });
        }
    }
    all
}

fn judge_all(
    candidates: &[Candidate],
    formulas: &[Formula],
    refused: &[(String, String)],
    observations: &[Observation],
    steps: &[Done],
    work: &JudgingKernels,
) -> Vec<Judged> {
    let known: Vec<Observation> = observations
        .iter()
        .filter(|one| {
            work.is(&one.experiment.kernel, Role::knows_lines)
                || one.experiment.place == trust::KernelPlace::Registers
        })
        .cloned()
        .collect();
    let mut judged: Vec<Judged> = Vec::new();
    for candidate in candidates {
        let mut verdict = match candidate.purpose {
            Purpose::Stall => judge::stalls::judge(candidate, observations, work),
            Purpose::NoExecution => judge::execution::judge(candidate, observations, work),
            _ => judge::volume::judge(candidate, &known, work),
        };
        let why = refused.iter().find(|(event, _)| candidate.events.contains(event));
        if let Some((_, why)) = why {
            verdict.trust = Trust::Untested { missing: why.clone() };
        } else if let (Trust::Untested { missing }, Some(step)) =
            (&mut verdict.trust, steps.iter().find(|step| !step.done))
        {
            *missing += &format!(" (step '{}' was interrupted)", step.name);
        }
        if let Some(ratio) = unbalanced(candidate, observations) {
            verdict.remarks.push(format!("Of a load of 3 : 1 on two cores it shows {ratio:.2} : 1."));
        }
        if !candidate.errata.is_empty() {
            verdict.remarks.push(format!("The maker lists errata of it: {}.", candidate.errata.join(", ")));
        }
        verdict.remarks.extend(candidate.note.iter().map(|note| format!("Its catalogue notes: {note}.")));
        judged.push(verdict);
    }
    let served: Vec<Judged> =
        differences(candidates, &judged).iter().map(|one| judge::volume::judge(one, &known, work)).collect();
    judged.extend(served);
    judged.extend(formulas.iter().map(|formula| judge::latency::judge(formula, observations, work)));
    encodings(candidates, &mut judged);
    judged
}

/// What a level serves itself, as the difference of two trusted indicators: of what passes above it and below it.
fn differences(candidates: &[Candidate], judged: &[Judged]) -> Vec<Candidate> {
    let trusted = |quantity: Quantity| {
        let fits = |one: &&Judged| {
            one.tried_for == Purpose::Volume(quantity) && matches!(one.trust, Trust::Trusted { .. })
        };
        let error = |one: &Judged| if let Trust::Trusted { error } = one.trust { error } else { 1.0 };
        let closest = judged.iter().filter(fits).min_by(|one, other| error(one).total_cmp(&error(other)))?;
        candidates.iter().find(|candidate| candidate.name == closest.name.name())
    };
    let levels = [
        (Quantity::L1In, Quantity::L2In, Quantity::L2Served),
        (Quantity::L2In, Quantity::L3In, Quantity::L3Served),
    ];
    let difference = |(above, below, served)| {
        let (above, below) = (trusted(above)?, trusted(below)?);
        let purpose = Purpose::Volume(served);
        Some(Candidate {
            events: above.events.clone(),
            less: below.events.clone(),
            per_core: above.per_core && below.per_core,
            ..Candidate::event(&format!("{} - {}", above.name, below.name), purpose)
        })
    };
    levels.into_iter().filter_map(difference).collect()
}

/// What an event makes of the triangle's imbalance, if it counts what is unbalanced.
fn unbalanced(candidate: &Candidate, observations: &[Observation]) -> Option<f64> {
    let Purpose::Volume(quantity) = candidate.purpose else { return None };
    let unbalanced = [Quantity::Flops, Quantity::Loads, Quantity::Instructions, Quantity::L1In];
    if !unbalanced.contains(&quantity) && !quantity.is_arithmetic() {
        return None;
    }
    let event = candidate.events.first().filter(|_| candidate.events.len() == 1)?;
    let ratios: Vec<f64> = observations
        .iter()
        .filter_map(|one| one.imbalance.iter().find(|(name, _)| name == event))
        .map(|(_, ratio)| *ratio)
        .collect();
    judge::median(&ratios)
}

/// Where sources disagree, says which encoding was honest. Of one that could not be tried nothing is said but that.
fn encodings(candidates: &[Candidate], judged: &mut [Judged]) {
    for (at, candidate) in candidates.iter().enumerate() {
        let Some(original) = &candidate.instead_of else { continue };
        let same = |one: &Judged| one.name.name() == original && one.tried_for == candidate.purpose;
        let Some(first) = judged.iter().position(same) else { continue };
        let sentence = beside((original, &judged[first].trust), (&candidate.name, &judged[at].trust));
        for one in [at, first] {
            if !judged[one].remarks.contains(&sentence) {
                judged[one].remarks.push(sentence.clone());
            }
        }
    }
}

/// Two encodings of an event, in a sentence.
fn beside((original, first): (&str, &Trust), (other, second): (&str, &Trust)) -> String {
    const BROKEN: f64 = 2.0;
    let rank = |trust: &Trust| match trust {
        Trust::Trusted { error } => Some(*error),
        Trust::Qualitative { .. } => Some(1.0),
        Trust::Broken { .. } => Some(BROKEN),
        Trust::Untested { .. } => None,
    };
    let trusted = |trust: &Trust| matches!(trust, Trust::Trusted { .. });
    match (rank(first), rank(second)) {
        (None, None) => format!("Neither {original} nor {other} could be tried here."),
        (Some(_), None) => format!("{other}, another source's encoding, could not be tried here."),
        (None, Some(_)) => {
            format!("{other} is another source's encoding; {original} could not be tried here.")
        }
        // Errors of two that are believed are what noise made of each.
        _ if trusted(first) && trusted(second) => {
            format!("{original} and {other} cannot be told apart here.")
        }
        (Some(theirs), Some(mine)) => match mine.total_cmp(&theirs) {
            _ if mine.min(theirs) >= BROKEN => format!("Neither {original} nor {other} is honest here."),
            Ordering::Equal => format!("{original} and {other} cannot be told apart here."),
            Ordering::Less => format!("{other} is the honest encoding, not {original}."),
            Ordering::Greater => format!("{original} is the honest encoding, not {other}."),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_that_nobody_tried_is_not_called_dishonest() {
        let trusted = Trust::Trusted { error: 0.01 };
        let untested = Trust::Untested { missing: "refused".to_owned() };
        let broken = Trust::Broken {
            flaw: trust::Flaw::Silent,
            why: "counts nothing".to_owned(),
            shown_by: "store in L2".to_owned(),
        };
        for known in [&trusted, &broken] {
            for (first, second) in [(known, &untested), (&untested, known), (&untested, &untested)] {
                let said = beside(("EVENT", first), ("EVENT@other", second));
                assert!(said.contains("could be tried") || said.contains("could not be tried"), "{said}");
                assert!(!said.contains("honest"), "{said}");
            }
        }
        let said = beside(("EVENT", &broken), ("EVENT@other", &trusted));
        assert_eq!(said, "EVENT@other is the honest encoding, not EVENT.");
        assert!(beside(("EVENT", &broken), ("EVENT@other", &broken)).starts_with("Neither"));
    }

    #[test]
    fn of_two_trusted_encodings_neither_is_called_dishonest() {
        let [near, nearer] = [0.01, 0.001].map(|error| Trust::Trusted { error });
        for (first, second) in [(&near, &nearer), (&nearer, &near), (&near, &near)] {
            let said = beside(("EVENT", first), ("EVENT@other", second));
            assert_eq!(said, "EVENT and EVENT@other cannot be told apart here.");
        }
    }
}
