use proptest::prelude::*;
use record::squeeze::{HarmVerdict, ProgramClass};

use super::*;
use crate::rungs::tests::profile;

/// A program that takes a second alone, and so much longer beside what leaves less than it needs.
struct Imagined {
    profile: SqueezeProfile,
    cache: f64,
    bandwidth: f64,
    loss: f64,
    /// Factors of each run, over and over.
    noise: Vec<f64>,
    exact: bool,
    runs: usize,
    crash: Option<(SqueezeKind, f64)>,
    interrupt_after: Option<usize>,
    clock_s: f64,
}

impl Imagined {
    fn needing(cache: f64, bandwidth: f64) -> Self {
        Self {
            profile: profile(),
            cache,
            bandwidth,
            loss: 0.5,
            noise: vec![1.0],
            exact: true,
            runs: 0,
            crash: None,
            interrupt_after: None,
            clock_s: 0.0,
        }
    }

    fn left(&self, interference: &Interference) -> f64 {
        let rungs = rungs(&self.profile, interference.kind);
        rungs.iter().find(|rung| rung.interference == *interference).expect("a known strength").left.value
    }

    fn squeeze(&mut self, plan: &SessionPlan) -> SqueezeRun {
        let facts = SubjectFacts {
            program: "imagined".to_owned(),
            simulated: None,
            timed_by: TimedBy::Wall,
            cpus: (0..3).collect(),
            processes: 1,
            threads: None,
            cpus_do: CpusDo::InTurn,
        };
        let profile = self.profile.clone();
        squeeze(self, &facts, &profile, plan, &mut |_| {}).expect("a result")
    }
}

impl SqueezeSubject for Imagined {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        self.runs += 1;
        if self.interrupt_after.is_some_and(|runs| self.runs > runs) {
            return Ok(SubjectRun::Interrupted);
        }
        let mut time = self.noise[self.runs % self.noise.len()];
        if let Some(interference) = interference {
            let left = self.left(interference);
            if self.crash.is_some_and(|(kind, below)| kind == interference.kind && left < below) {
                return Ok(SubjectRun::Crashed(Ending::Signalled(11), None));
            }
            let need = if interference.kind == SqueezeKind::Storage { self.cache } else { self.bandwidth };
            if left < need {
                time *= 1.0 + self.loss;
            }
        }
        self.clock_s += time;
        Ok(SubjectRun::Timed(time * 1e9))
    }

    fn is_exact(&self) -> bool {
        self.exact
    }

    fn now_s(&mut self) -> f64 {
        self.clock_s
    }
}

fn plan() -> SessionPlan {
    SessionPlan { harm: 0.05, budget_s: None, seed: 1, kinds: SqueezeKind::ALL.to_vec(), whole_curves: false }
}

#[test]
fn what_needs_nothing_is_soon_told() {
    let mut neither = Imagined::needing(0.0, 0.0);
    let found = neither.squeeze(&plan());
    assert_eq!((found.class, found.ended, neither.runs), (ProgramClass::Insensitive, SqueezeEnd::Told, 3));
    assert_eq!(found.bandwidth.bounds.expect("bounds").at_most, Some(10e9));
}

#[test]
fn what_no_known_program_explains_gets_no_bounds() {
    let mut program = Imagined::needing(9e6, 0.0);
    assert!(program.squeeze(&plan()).storage.bounds.is_some(), "by §5.2's rule where none is known");
    // One that nothing slows, while the program loses half.
    let pattern = machine::squeezing::KnownPattern::Private;
    let known = machine::squeezing::KnownProgram {
        pattern,
        size: machine::Bytes::kib(64),
        threads: 1,
        lines: 0,
        line_ns: 1.0,
    };
    program.profile.known.push(known);
    for kind in SqueezeKind::ALL {
        let points = if kind == SqueezeKind::Storage {
            &mut program.profile.storage
        } else {
            &mut program.profile.bandwidths
        };
        points.iter_mut().skip(1).for_each(|point| point.known = vec![1.0]);
    }
    let found = program.squeeze(&plan());
    assert!(found.storage.points.iter().any(|point| point.slowdown.value > 1.4) && found.parts.is_empty());
    assert_eq!((found.storage.bounds, found.bandwidth.bounds), (None, None));
}

#[test]
fn a_kind_that_cannot_be_squeezed_is_left_out() {
    let mut program = Imagined::needing(9e6, 0.0);
    program.profile.refusals.push((SqueezeKind::Bandwidth, "too few spare cores".to_owned()));
    let found = program.squeeze(&plan());
    assert_eq!(found.bandwidth.refused.as_deref(), Some("too few spare cores"));
    assert!(found.bandwidth.points.is_empty() && found.storage.bounds.is_some());
    assert_eq!(found.class, ProgramClass::LosesToCache);
}

#[test]
fn a_crash_is_reported_with_its_strength_and_the_rest_goes_on() {
    let mut program = Imagined::needing(0.0, 21e9);
    (program.crash, program.exact) = (Some((SqueezeKind::Storage, 1.0)), false);
    let found = program.squeeze(&plan());
    assert!(!found.crashes.is_empty());
    assert!(found.crashes.iter().all(|crash| {
        crash.ending == Ending::Signalled(11)
            && crash.interference.is_some_and(|one| one.kind == SqueezeKind::Storage)
    }));
    let bounds = found.bandwidth.bounds.expect("bounds");
    assert_eq!((bounds.at_least, bounds.at_most), (Some(16e9), Some(22e9)));
    assert!(found.runs.iter().any(|run| run.ns.is_none()));
}

#[test]
fn a_strength_that_no_run_stands_is_given_up_and_the_next_is_tried() {
    let mut program = Imagined::needing(0.0, 0.0);
    // Beside a cache squeezed to 8 MB and less it ends badly.
    (program.crash, program.exact) = (Some((SqueezeKind::Storage, 9e6)), false);
    let found = program.squeeze(&plan());
    // 12 MB are what it was seen to live with.
    assert_eq!(found.crashes.len(), 3 * MOST_BAD);
    assert_eq!(found.storage.points.iter().map(|point| point.left.value).collect::<Vec<_>>(), [12e6]);
    assert_eq!(found.storage.bounds.expect("bounds").at_most, Some(12e6));
    assert!(found.runs.len() < 60, "{}", found.runs.len());
}

#[test]
fn nothing_runs_beside_any_interference() {
    let mut program = Imagined::needing(0.0, 0.0);
    (program.crash, program.exact) = (Some((SqueezeKind::Storage, f64::INFINITY)), false);
    let found = program.squeeze(&plan());
    assert_eq!(found.crashes.len(), 5 * MOST_BAD, "each strength as often as it takes");
    assert_eq!(found.class, ProgramClass::BandwidthHarmless);
}

#[test]
fn a_program_that_never_ends_well_is_given_up() {
    struct Broken(usize);
    impl SqueezeSubject for Broken {
        fn run(&mut self, _: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
            self.0 += 1;
            Ok(SubjectRun::Crashed(Ending::Exited(3), None))
        }
        fn now_s(&mut self) -> f64 {
            0.0
        }
    }
    let facts = SubjectFacts {
        program: String::new(),
        simulated: None,
        timed_by: TimedBy::Wall,
        cpus: CpuSet::default(),
        processes: 1,
        threads: None,
        cpus_do: CpusDo::InTurn,
    };
    let mut broken = Broken(0);
    let found = squeeze(&mut broken, &facts, &profile(), &plan(), &mut |_| {}).expect("a result");
    assert_eq!((found.class, broken.0), (ProgramClass::Undecided, 9));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let mut program = Imagined::needing(9e6, 21e9);
    (program.exact, program.interrupt_after) = (false, Some(31));
    let found = program.squeeze(&plan());
    assert_eq!((found.ended, found.runs.len()), (SqueezeEnd::Interrupted, 31));
    assert_eq!(found.class, ProgramClass::Both);
    assert!(found.storage.bounds.expect("bounds").at_least.is_some());
}

#[test]
fn a_budget_is_kept() {
    let mut program = Imagined::needing(9e6, 21e9);
    (program.exact, program.noise) = (false, vec![1.0, 1.3, 0.9, 1.1, 1.2]);
    let found = program.squeeze(&SessionPlan { budget_s: Some(40.0), ..plan() });
    assert_eq!(found.ended, SqueezeEnd::Budget);
    assert!(found.spent_s <= 40.0, "{}", found.spent_s);
}

#[test]
fn whole_curves_have_every_strength() {
    let mut program = Imagined::needing(9e6, 0.0);
    let found = program.squeeze(&SessionPlan { whole_curves: true, ..plan() });
    assert_eq!(found.storage.points.len(), 5);
    // What does not matter is not measured further.
    assert_eq!(found.bandwidth.points.len(), 1);
    assert!(found.storage.points.iter().all(|point| point.verdict != HarmVerdict::Open));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bounds_hold_the_need(cache in 0.1e6f64..19.9e6, bandwidth in 10.1e9f64..39.9e9) {
        let found = Imagined::needing(cache, bandwidth).squeeze(&plan());
        for (kind, need, step) in [(SqueezeKind::Storage, cache, 4e6), (SqueezeKind::Bandwidth, bandwidth, 6e9)] {
            let bounds = found.curve(kind).bounds.expect("bounds");
            let (low, high) = (bounds.at_least.unwrap_or(0.0), bounds.at_most.unwrap_or(40e9));
            prop_assert!((low..=high).contains(&need), "{kind}: {low} {need} {high}");
            prop_assert!(bounds.at_most.is_none() || high - low <= step + 1.0);
        }
    }
}
