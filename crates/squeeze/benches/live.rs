//! Decisions under the noise of this machine: a program that computes, squeezed again and again, and the same with a tenth planted
//! beside cache interference. `cargo bench -p memwall-squeeze --bench live` prints how many of 20 were called right, at the default
//! budget; `-- 5` of 5. No interference runs, as on a busy machine even an idle loop takes processor time from the program: all harm is
//! what was planted.

use std::{
    error::Error,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use machine::{
    Bytes, CpuSet, Source, Topology,
    profile::Estimate,
    squeezing::{Interference, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile},
};
use record::squeeze::{HarmVerdict, ProgramClass, SqueezeRun, TimedBy};
use squeeze::{
    SqueezeError,
    judge::CpusDo,
    session::{SessionPlan, SqueezeSubject, SubjectFacts, SubjectRun},
};

/// The default of the command.
const BUDGET_S: f64 = 300.0;
const RUNS: u64 = 20;
const PLANTED: f64 = 0.10;
/// How long a run is to take.
const RUN: Duration = Duration::from_millis(60);

/// This benchmark again, as the program: so many steps on a CPU.
struct Computing {
    cpu: u32,
    steps: u64,
    planted: f64,
    started: Instant,
}

impl SqueezeSubject for Computing {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        let harmed = interference.is_some_and(|one| one.kind == SqueezeKind::Storage);
        let steps = self.steps as f64 * if harmed { 1.0 + self.planted } else { 1.0 };
        let system = |source| SqueezeError::System { what: "run this benchmark again", source };
        let program = std::env::current_exe().map_err(system)?;
        let began = Instant::now();
        let words = ["compute".to_owned(), self.cpu.to_string(), (steps as u64).to_string()];
        let status = Command::new(program).args(words).status().map_err(system)?;
        let ns = began.elapsed().as_nanos() as f64;
        assert!(status.success());
        Ok(SubjectRun::Timed(ns))
    }

    fn now_s(&mut self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

fn compute(steps: u64) {
    let mut value = 1.0f64;
    for _ in 0..steps {
        value = black_box(value * 1.000_000_1 + 1e-9);
    }
    black_box(value);
}

/// One strength of each kind, which is said to leave half.
fn profile(domain: CpuSet) -> SqueezeProfile {
    let exact = |value: f64| Estimate { value, low: value, high: value, samples: 1 };
    let point = |kind: SqueezeKind, taken: bool| SqueezePoint {
        interference: taken.then_some(Interference {
            kind,
            form: SqueezeForm::Shared,
            threads: 1,
            bytes_each: Bytes::kib(64),
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
        domain,
        bandwidth: 4e10,
        storage: points(SqueezeKind::Storage),
        bandwidths: points(SqueezeKind::Bandwidth),
        storage_orthogonal: 2,
        bandwidth_orthogonal: 2,
        ..SqueezeProfile::default()
    }
}

fn squeezed(
    subject: &mut Computing,
    profile: &SqueezeProfile,
    seed: u64,
) -> Result<SqueezeRun, SqueezeError> {
    let facts = SubjectFacts {
        program: "compute".to_owned(),
        simulated: None,
        timed_by: TimedBy::Wall,
        cpus: std::iter::once(subject.cpu).collect(),
        processes: 1,
        threads: Some(1),
        cpus_do: CpusDo::InTurn,
    };
    let plan = SessionPlan {
        harm: 0.05,
        budget_s: Some(BUDGET_S),
        seed,
        kinds: SqueezeKind::ALL.to_vec(),
        whole_curves: false,
    };
    subject.started = Instant::now();
    squeeze::session::squeeze(subject, &facts, profile, &plan, &mut |_| {})
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo's own words are not ours.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [mode, cpu, steps] = words.as_slice()
        && mode == "compute"
    {
        let mut own = rustix::thread::CpuSet::new();
        own.set(cpu.parse()?);
        rustix::thread::sched_setaffinity(None, &own)?;
        compute(steps.parse()?);
        return Ok(());
    }
    let many = words.iter().find_map(|word| word.parse().ok()).unwrap_or(RUNS);
    let cpus = Topology::read(&Source::live()).usable_cpus();
    let cpu = cpus.first().ok_or("no CPU may be used")?;
    let profile = profile(std::iter::once(cpu).collect());
    let began = Instant::now();
    compute(1_000_000);
    let steps = (1e6 * RUN.as_secs_f64() / began.elapsed().as_secs_f64()) as u64;
    let harmful = |run: &SqueezeRun, kind| {
        run.curve(kind).points.iter().any(|point| point.verdict == HarmVerdict::Harmful)
    };
    for planted in [0.0, PLANTED] {
        let (mut right, mut runs, mut longest_s) = (0, Vec::new(), 0.0f64);
        for seed in 1..=many {
            let mut subject = Computing { cpu, steps, planted, started: began };
            let run = squeezed(&mut subject, &profile, seed)?;
            right += u64::from(match planted > 0.0 {
                true => harmful(&run, SqueezeKind::Storage) && !harmful(&run, SqueezeKind::Bandwidth),
                false => run.class == ProgramClass::Insensitive,
            });
            longest_s = longest_s.max(run.spent_s);
            runs.push(run.runs.len());
        }
        runs.sort_unstable();
        let what = if planted > 0.0 { "a planted tenth found, and only there" } else { "called insensitive" };
        println!(
            "{what}: {right} of {many}; {} to {} runs each, {longest_s:.0} s at most",
            runs.first().unwrap_or(&0),
            runs.last().unwrap_or(&0)
        );
    }
    Ok(())
}
