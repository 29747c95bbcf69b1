//! Decisions under real noise: recorded times of a program that computes, replayed.
//!
//! `recorded/crowded.json` holds wall times, in microseconds, of 700 runs one after the other of
//! `taskset -c 0 awk 'BEGIN{s=0;for(i=0;i<700000;i++)s=s*1.0000001+1}'` on a guest of two CPUs on which six compilers ran
//! meanwhile: a quarter of them lie 15 % or more below the median or 26 % or more above it. In the order in which they came, runs side
//! by side are disturbed alike; in random orders they are not, and it takes several times as many.
//!
//! `recorded/busy.json` holds 2400 of shorter runs (350000 steps) while up to ten compilers ran: a quarter of them lie 18 % or more
//! below the median or 36 % or more above it.

use kernels::draw::SplitMix;
use machine::{
    Bytes, CpuSet,
    profile::Estimate,
    squeezing::{
        Interference, KnownPattern, KnownProgram, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile,
    },
};
use record::squeeze::{HarmVerdict, ProgramClass, SqueezeEnd, SqueezeRun, TimedBy};
use squeeze::{
    SqueezeError,
    judge::CpusDo,
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

/// The same machine, on which programs of known need were run beside both strengths: their verdicts are then those of mixtures.
fn known_profile() -> SqueezeProfile {
    let one = |pattern, mib: u64, line_ns: f64| KnownProgram {
        pattern,
        size: Bytes::mib(mib),
        threads: 1,
        lines: 4,
        line_ns,
    };
    // Beside half of the cache, and beside half of the bandwidth.
    let known = [
        (one(KnownPattern::Private, 1, 2.0), 1.0, 1.0),
        (one(KnownPattern::Chase, 4, 15.0), 1.0, 1.0),
        (one(KnownPattern::Chase, 8, 15.0), 1.1, 1.0),
        (one(KnownPattern::Chase, 14, 15.0), 3.0, 1.0),
        (one(KnownPattern::Chase, 18, 15.0), 4.0, 1.0),
        (one(KnownPattern::Chase, 80, 80.0), 1.0, 1.3),
        (one(KnownPattern::Stream, 80, 32.0), 1.0, 1.05),
        (one(KnownPattern::Stream, 80, 4.0), 1.03, 1.2),
        (one(KnownPattern::Stream, 80, 2.0), 1.05, 1.9),
    ];
    let mut profile = profile();
    profile.known = known.iter().map(|(program, ..)| *program).collect();
    profile.storage[1].known = known.iter().map(|(_, storage, _)| *storage).collect();
    profile.bandwidths[1].known = known.iter().map(|(.., bandwidth)| *bandwidth).collect();
    profile
}

fn squeezed(times: &[f64], at: usize, planted: f64, seed: u64, profile: &SqueezeProfile) -> SqueezeRun {
    let facts = SubjectFacts {
        program: "recorded".to_owned(),
        simulated: None,
        timed_by: TimedBy::Wall,
        cpus: CpuSet::default(),
        processes: 1,
        threads: None,
        cpus_do: CpusDo::InTurn,
    };
    let plan = SessionPlan {
        harm: 0.05,
        budget_s: Some(BUDGET_S),
        seed,
        kinds: SqueezeKind::ALL.to_vec(),
        whole_curves: false,
    };
    let mut subject = Replayed { times, at, planted, clock_s: 0.0 };
    squeeze::session::squeeze(&mut subject, &facts, profile, &plan, &mut |_| {}).expect("a result")
}

fn recorded(text: &str) -> Vec<f64> {
    serde_json::from_str(text).expect("recorded times")
}

fn crowded() -> Vec<f64> {
    recorded(include_str!("recorded/crowded.json"))
}

/// Twenty sessions, each from a place of its own on in the order in which the times came.
fn in_order(times: &[f64], planted: f64, profile: &SqueezeProfile) -> Vec<SqueezeRun> {
    let at = |seed: usize| seed * times.len() / 20;
    (0..20).map(|seed| squeezed(times, at(seed), planted, seed as u64, profile)).collect()
}

/// Twenty sessions, each in an order of its own: what happens in one says nothing of the others.
fn shuffled(planted: f64, profile: &SqueezeProfile) -> Vec<SqueezeRun> {
    let session = |seed: u64| {
        let (mut times, mut random) = (crowded(), SplitMix::new(1000 + seed));
        for last in (1..times.len()).rev() {
            times.swap(last, random.below(last as u64 + 1) as usize);
        }
        squeezed(&times, 0, planted, seed, profile)
    };
    (0..20).map(session).collect()
}

fn harmed(run: &SqueezeRun, kind: SqueezeKind) -> bool {
    run.curve(kind).points.iter().any(|point| point.verdict == HarmVerdict::Harmful)
}

fn all_replays(planted: f64) -> Vec<(&'static str, Vec<SqueezeRun>)> {
    vec![
        ("in order", in_order(&crowded(), planted, &profile())),
        ("in any order", shuffled(planted, &profile())),
        ("in order, by mixtures", in_order(&crowded(), planted, &known_profile())),
        ("in any order, by mixtures", shuffled(planted, &known_profile())),
    ]
}

#[test]
fn nothing_is_called_what_it_is_not_however_busy_the_machine() {
    let times = recorded(include_str!("recorded/busy.json"));
    let many = |planted: f64, of: fn(&SqueezeRun) -> bool| {
        in_order(&times, planted, &profile()).iter().filter(|run| of(run)).count()
    };
    let any = |run: &SqueezeRun| SqueezeKind::ALL.iter().any(|kind| harmed(run, *kind));
    let harmless =
        |run: &SqueezeRun| run.storage.points.iter().all(|one| one.verdict == HarmVerdict::Harmless);
    assert!(many(0.0, any) <= 1 && many(0.10, harmless) <= 1);
    // What stays open is the lesser part.
    let found = |run: &SqueezeRun| harmed(run, SqueezeKind::Storage);
    let insensitive = |run: &SqueezeRun| run.class == ProgramClass::Insensitive;
    let (right, found) = (many(0.0, insensitive), many(0.10, found));
    assert!(right > 10 && found > 10, "{right} and {found} of 20");
}

#[test]
fn a_program_that_computes_is_called_insensitive() {
    for (how, runs) in all_replays(0.0) {
        let right = runs.iter().filter(|run| run.class == ProgramClass::Insensitive).count();
        let all: Vec<_> = runs.iter().map(|run| (run.class, run.ended, run.runs.len())).collect();
        assert!(right >= 19, "{how}: {right} of 20: {all:?}");
        assert!(runs.iter().all(|run| run.spent_s <= BUDGET_S));
    }
}

#[test]
fn a_planted_tenth_is_found() {
    for (how, runs) in all_replays(0.10) {
        let right = runs.iter().filter(|run| harmed(run, SqueezeKind::Storage)).count();
        let all: Vec<_> = runs.iter().map(|run| (run.class, run.ended, run.runs.len())).collect();
        assert!(right >= 18, "{how}: {right} of 20: {all:?}");
        let missed =
            |run: &&SqueezeRun| matches!(run.class, ProgramClass::Insensitive | ProgramClass::CacheHarmless);
        assert!(runs.iter().filter(missed).count() <= 1, "{how}: {all:?}");
        // It is found where it was planted only.
        assert!(runs.iter().filter(|run| harmed(run, SqueezeKind::Bandwidth)).count() <= 1, "{how}: {all:?}");
    }
}

#[test]
fn what_cannot_be_told_stays_open() {
    // Just at the threshold, nothing is to be decided but by chance.
    let times = crowded();
    let runs: Vec<SqueezeRun> =
        (0..20).map(|part| squeezed(&times, part * 35, 0.05, part as u64, &profile())).collect();
    let open = |run: &&SqueezeRun| run.storage.points.iter().all(|point| point.verdict == HarmVerdict::Open);
    assert!(runs.iter().filter(open).count() >= 15);
    assert!(runs.iter().all(|run| run.ended != SqueezeEnd::Interrupted));
}
