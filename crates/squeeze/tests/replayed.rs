//! Decisions under real noise: recorded times of a program that computes, replayed in the order in which they came.
//!
//! `recorded/crowded.json` holds wall times, in microseconds, of 700 runs one after the other of
//! `taskset -c 0 awk 'BEGIN{s=0;for(i=0;i<700000;i++)s=s*1.0000001+1}'` on a guest of two CPUs on which six compilers ran
//! meanwhile: a quarter of them lie 15 % or more below the median or 26 % or more above it.

use machine::{
    Bytes, CpuSet,
    profile::Estimate,
    squeezing::{Interference, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile},
};
use record::squeeze::{HarmVerdict, ProgramClass, SqueezeEnd, SqueezeRun, TimedBy};
use squeeze::{
    SqueezeError,
    session::{SessionPlan, SqueezeSubject, SubjectFacts, SubjectRun},
};

/// The default of the command.
const BUDGET_S: f64 = 300.0;

/// Each run takes the next recorded time; beside cache interference so much longer.
struct Replayed<'a> {
    times: &'a [f64],
    at: usize,
    planted: f64,
    clock_s: f64,
}

impl SqueezeSubject for Replayed<'_> {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        let mut us = self.times[self.at % self.times.len()];
        self.at += 1;
        if interference.is_some_and(|one| one.kind == SqueezeKind::Storage) {
            us *= 1.0 + self.planted;
        }
        self.clock_s += us / 1e6;
        Ok(SubjectRun::Timed(us * 1e3))
    }

    fn now_s(&mut self) -> f64 {
        self.clock_s
    }
}

/// One strength of each kind, which leaves half.
fn profile() -> SqueezeProfile {
    let exact = |value: f64| Estimate { value, low: value, high: value, samples: 1 };
    let point = |kind: SqueezeKind, taken: bool| SqueezePoint {
        interference: taken.then_some(Interference {
            kind,
            form: SqueezeForm::Paper,
            threads: 5,
            bytes_each: Bytes::mib(4),
            pause: 0,
            left: None,
        }),
        cache_left: Some(exact(if taken && kind == SqueezeKind::Storage { 1e7 } else { 2e7 })),
        bandwidth_left: Some(exact(if taken && kind == SqueezeKind::Bandwidth { 2e10 } else { 4e10 })),
        ..SqueezePoint::default()
    };
    let points = |kind| vec![point(kind, false), point(kind, true)];
    SqueezeProfile {
        seed: 1,
        level: 3,
        claimed: Bytes::mib(20),
        domain: (0..8).collect(),
        spare: (3..8).collect(),
        bandwidth: 4e10,
        storage: points(SqueezeKind::Storage),
        bandwidths: points(SqueezeKind::Bandwidth),
        storage_orthogonal: 2,
        bandwidth_orthogonal: 2,
        ..SqueezeProfile::default()
    }
}

fn squeezed(times: &[f64], at: usize, planted: f64) -> SqueezeRun {
    let facts = SubjectFacts {
        program: "recorded".to_owned(),
        simulated: None,
        timed_by: TimedBy::Wall,
        cpus: CpuSet::default(),
        processes: 1,
        threads: None,
    };
    let plan = SessionPlan {
        harm: 0.05,
        budget_s: Some(BUDGET_S),
        seed: at as u64,
        kinds: SqueezeKind::ALL.to_vec(),
        whole_curves: false,
    };
    let mut subject = Replayed { times, at, planted, clock_s: 0.0 };
    squeeze::session::squeeze(&mut subject, &facts, &profile(), &plan, &mut |_| {}).expect("a result")
}

fn recorded() -> Vec<f64> {
    serde_json::from_str(include_str!("recorded/crowded.json")).expect("recorded times")
}

#[test]
fn a_program_that_computes_is_called_insensitive() {
    let times = recorded();
    let runs: Vec<SqueezeRun> = (0..20).map(|part| squeezed(&times, part * 35, 0.0)).collect();
    let right = runs.iter().filter(|run| run.class == ProgramClass::Insensitive).count();
    assert!(
        right >= 19,
        "{right} of 20: {:?}",
        runs.iter().map(|run| (run.class, run.ended)).collect::<Vec<_>>()
    );
    assert!(runs.iter().all(|run| run.spent_s <= BUDGET_S));
}

#[test]
fn a_planted_tenth_is_found() {
    let times = recorded();
    let runs: Vec<SqueezeRun> = (0..20).map(|part| squeezed(&times, part * 35, 0.10)).collect();
    let found =
        |run: &&SqueezeRun| run.storage.points.iter().any(|point| point.verdict == HarmVerdict::Harmful);
    let right = runs.iter().filter(found).count();
    assert!(right >= 18, "{right} of 20");
    // It is found where it was planted only.
    assert!(
        runs.iter()
            .filter(|run| run.bandwidth.points.iter().any(|p| p.verdict == HarmVerdict::Harmful))
            .count()
            <= 1
    );
}

#[test]
fn what_cannot_be_told_stays_open() {
    // Just at the threshold, nothing is to be decided but by chance.
    let times = recorded();
    let runs: Vec<SqueezeRun> = (0..20).map(|part| squeezed(&times, part * 35, 0.05)).collect();
    let open = |run: &&SqueezeRun| run.storage.points.iter().all(|point| point.verdict == HarmVerdict::Open);
    assert!(runs.iter().filter(open).count() >= 15);
    assert!(runs.iter().all(|run| run.ended != SqueezeEnd::Interrupted));
}
