//! The timer instrument: clock samples to findings.
//!
//! When a core waits, the sample lies just behind the instruction that could not retire. [`analyse`] decodes the
//! functions that samples landed in, blames each sample on an instruction, and calls waiting only what exceeds the
//! baseline of executing. What was tried on known kernels, and how close it comes, is in docs/methodology.md.

mod account;
mod advice;
mod blame;
mod bounds;
mod bubble;
mod burst_pace;
mod consult;
mod deciding;
mod entries;
mod facts;
mod fetch;
pub(crate) mod levels;
mod limits;
pub(crate) mod origin;
mod pace;
mod passes;
mod pattern;
mod pool;
mod program;
mod ranges;
mod relief;
mod remarks;
mod sightings;
mod speeds;
mod streams;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod verdict;
mod views;

use machine::profile::Profile;
use record::run::Run;
use trust::{Basis, Indicator, LevelScore, OutOfSample, Standing, TrustCatalogue};

use crate::{
    findings::{FindingSubject, Findings, KnownLimits, SCHEMA},
    loads,
};
pub(crate) use advice::advice;
use consult::Consulted;
pub(crate) use facts::writes_memory;
use origin::RunOrigin;
pub(crate) use tally::{AccessKind, BlamedWaits, SplitTally, Tally};
pub(crate) use views::Ranks;

/// What to find out.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerOptions {
    /// Intervals of the time line, at most.
    pub intervals: usize,
    /// Length of an interval, instead of dividing the run into `intervals`.
    pub interval_ns: Option<u64>,
    /// Waiting on loads above this share of an interval's user time flags it.
    pub threshold: f64,
    /// The threshold was measured on the machine of the recording.
    pub measured_here: bool,
    /// How far shares of waiting can be believed on that machine, or why that is not known.
    pub trust: KnownLimits<Standing>,
    /// How right such shares were on random kernels of that machine, class by class and level by level, or why that is not
    /// known.
    pub unseen: KnownLimits<OutOfSample>,
    /// The same where hot loops were relieved as well; none if none were.
    pub unseen_with_relief: Option<OutOfSample>,
    /// Cycles above which loads that miss wait for bandwidth on that machine (helm2019 §7), or why that is not known.
    pub latency_threshold: KnownLimits<f64>,
    /// Hottest instructions listed with each function.
    pub top: usize,
}

impl Default for TimerOptions {
    /// The threshold is where half the time of a chase with some work beside it goes to misses in the second cache
    /// or beyond; a machine's own comes from validating it.
    fn default() -> Self {
        Self {
            intervals: 60,
            interval_ns: None,
            threshold: 0.4,
            measured_here: false,
            trust: KnownLimits::Missing("no validation was consulted".to_owned()),
            unseen: KnownLimits::Missing("no validation was consulted".to_owned()),
            unseen_with_relief: None,
            latency_threshold: KnownLimits::Missing("no validation was consulted".to_owned()),
            top: 5,
        }
    }
}

impl TimerOptions {
    /// The indicator whose trust and threshold count.
    pub const INDICATOR: Indicator = Indicator::ShareOfWaiting;

    /// With the trust and the threshold that validation gave a machine.
    pub fn on(catalogue: &TrustCatalogue) -> Self {
        let general = Self::default();
        let own = catalogue.threshold(&Self::INDICATOR);
        let trust = match (catalogue.indicator(&Self::INDICATOR), catalogue.basis()) {
            (Some(standing), _) => KnownLimits::Value(standing),
            (None, Basis::Missing { reason }) => KnownLimits::Missing(reason.clone()),
            (None, Basis::Validated { .. }) => {
                KnownLimits::Missing("the last validation did not try clock samples".to_owned())
            }
        };
        Self {
            threshold: own.map_or(general.threshold, |own| own.value),
            measured_here: own.is_some(),
            trust,
            unseen: match (catalogue.unseen(), catalogue.basis()) {
                (Some(unseen), _) => KnownLimits::Value(unseen.clone()),
                (None, Basis::Missing { reason }) => KnownLimits::Missing(reason.clone()),
                (None, Basis::Validated { .. }) => KnownLimits::Missing(
                    "the last validation tried no random kernels; 'memwall validate' does".to_owned(),
                ),
            },
            unseen_with_relief: catalogue.unseen_with_relief().cloned(),
            latency_threshold: latency_threshold(catalogue),
            ..general
        }
    }

    /// How often levels were named right on random kernels, where some were asked.
    fn levels_earned(&self) -> Option<LevelScore> {
        self.unseen.value().map(|unseen| unseen.levels).filter(|levels| levels.kernels > 0)
    }

    /// As if everything had been tried and nothing were ever off: what an answer is worth by itself.
    pub fn unlimited() -> Self {
        Self { unseen: KnownLimits::Value(OutOfSample::flawless()), ..Self::default() }
    }
}

fn latency_threshold(catalogue: &TrustCatalogue) -> KnownLimits<f64> {
    match (catalogue.threshold(&Indicator::LoadMissRealLatency), catalogue.basis()) {
        (Some(found), _) => KnownLimits::Value(found.value),
        (None, Basis::Missing { reason }) => KnownLimits::Missing(reason.clone()),
        (None, Basis::Validated { .. }) => KnownLimits::Missing(
            "the validation found none: its machine lacks the events, or they told nothing".to_owned(),
        ),
    }
}

/// What a run says; beside the machine's profile, if there is one.
pub fn analyse(run: &Run, profile: Option<&Profile>, options: &TimerOptions) -> Findings {
    findings(run, &Tally::new(run, profile), profile, options).0
}

/// What samples that were blamed say, and where in it each of them is found.
pub(crate) fn findings(
    run: &Run,
    tally: &Tally,
    profile: Option<&Profile>,
    options: &TimerOptions,
) -> (Findings, Ranks) {
    let overall = tally.split_of(run.samples.place.iter().copied());
    let timeline = timeline::timeline(run, tally, options);
    let (symbols, instructions, ranks) = views::symbols(run, tally, &timeline, options);
    let account = account::overall(run);
    let limits = limits::limits(run, tally, profile);
    let samples = run.samples.place.len() as u64;
    let bounds = tally.memory_bounds(samples);
    let memory = overall.as_ref().and_then(|split| verdict::memory_share(split, bounds));
    let origin = RunOrigin::of(run);
    let relieved = options.unseen_with_relief.as_ref().filter(|_| relief::decides(run, tally));
    let relieved = relieved.cloned().map(KnownLimits::Value);
    let unseen = relieved.as_ref().unwrap_or(&options.unseen);
    let consulted = Consulted::of(tally, samples, memory, (unseen, &options.trust), origin);
    let mut verdict =
        verdict::verdict(run, overall.as_ref(), bounds, &instructions, &limits, (&options.trust, consulted));
    let relief = relief::findings(run, tally);
    relief::weigh(&mut verdict, &relief);
    let mut findings = Findings {
        schema: SCHEMA.to_owned(),
        about: subject(run),
        verdict,
        overall,
        account,
        threads: views::threads(run, tally),
        symbols,
        instructions,
        timeline,
        levels: levels::levels(run, tally, profile, options.levels_earned()),
        limits,
        loads: loads::loads(run),
        relief,
        advice: Vec::new(),
        remarks: remarks::remarks(run, tally, overall.as_ref(), &options.trust),
    };
    findings.advice = advice(&findings, Vec::new(), origin);
    (findings, ranks)
}

fn subject(run: &Run) -> FindingSubject {
    let about = &run.about;
    let missing = |reason: &str| reason.to_owned();
    FindingSubject {
        memwall: about.memwall.clone(),
        command: about.command.clone(),
        attached: about.attached,
        started_at: about.started_at,
        machine: about.fingerprint.id.clone(),
        elapsed_ns: about.elapsed_ns.map_or_else(
            || {
                KnownLimits::Missing(missing(match run.import {
                    Some(_) => "the imported files do not say how long it took",
                    None => "the recording was cut off before its end",
                }))
            },
            KnownLimits::Value,
        ),
        ending: about.ending,
        usage: about.usage.map_or_else(
            || KnownLimits::Missing(missing("only a program that memwall itself started is accounted to it")),
            KnownLimits::Value,
        ),
        samples: run.samples.place.len() as u64,
        lost_samples: about.lost_samples.map_or_else(
            || KnownLimits::Missing(missing("the kernel did not say how many were lost")),
            KnownLimits::Value,
        ),
        period_ns: account::sample_ns(run),
        processes: run.processes.len() as u64,
        threads: run.threads.len() as u64,
    }
}
