use record::{
    ids::ModuleId,
    run::{Ending, ModuleKind, Usage},
};

use super::*;
use crate::findings::*;

fn run(wall_ns: u64, functions: &[(&str, u64, f64)]) -> Findings {
    let split = |samples: u64, loads: f64| Split {
        samples,
        loads,
        stores: 0.0,
        atomics: 0.0,
        divides: 0.0,
        chains: 0.0,
        branches: 0.0,
        executing: 1.0 - loads,
        undecided: 0.0,
    };
    let samples: u64 = functions.iter().map(|&(_, samples, _)| samples).sum();
    let loads: f64 = functions.iter().map(|&(_, samples, loads)| samples as f64 * loads).sum();
    let share = |value| TimeShare { value, low: value, high: value };
    let missing = || "not asked".to_owned();
    Findings {
        schema: String::new(),
        about: FindingSubject {
            memwall: String::new(),
            command: vec!["app".to_owned()],
            attached: None,
            started_at: 0,
            machine: "m".to_owned(),
            elapsed_ns: KnownLimits::Value(wall_ns),
            ending: Ending::Exited(0),
            usage: KnownLimits::Value(Usage { user_ns: wall_ns, ..Usage::default() }),
            samples,
            lost_samples: KnownLimits::Value(0),
            period_ns: 1e6,
            processes: 1,
            threads: 1,
        },
        verdict: Verdict {
            held_back: HeldBack::Unknown,
            memory: None,
            loads: None,
            largest: None,
            largest_share: None,
            nature: KnownLimits::Missing(missing()),
            trust: KnownLimits::Missing(missing()),
            consulted: Vec::new(),
            confidence: Confidence::Low,
            reasons: Vec::new(),
        },
        overall: (samples > 0).then(|| split(samples, loads / samples as f64)),
        account: Account {
            user_ns: wall_ns as f64,
            kernel_ns: KnownLimits::Missing(missing()),
            blocked_ns: KnownLimits::Missing(missing()),
            preempted_ns: KnownLimits::Missing(missing()),
            estimated: Estimated::default(),
        },
        threads: Vec::new(),
        symbols: functions
            .iter()
            .map(|&(name, samples, loads)| SymbolFinding {
                name: name.to_owned(),
                function: None,
                symbol: None,
                module: "app".to_owned(),
                module_id: ModuleId(0),
                module_kind: ModuleKind::File,
                user_share: share(0.5),
                split: split(samples, loads),
                flagged_share: 0.0,
                top: Vec::new(),
            })
            .collect(),
        instructions: Vec::new(),
        timeline: Timeline { interval_ns: 1, threshold: 0.5, measured_here: false, intervals: Vec::new() },
        limits: LimitFindings {
            levels: KnownLimits::Missing(missing()),
            streams: KnownLimits::Missing(missing()),
            running_threads: KnownLimits::Missing(missing()),
        },
        loads: KnownLimits::Missing("nobody asked for them".to_owned()),
        advice: Vec::new(),
        remarks: Vec::new(),
    }
}

fn row<'a>(rows: &'a [CompareRow], name: &str) -> &'a CompareRow {
    rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn a_function_that_doubled_stands_out_and_one_that_jittered_does_not() {
    let before = run(2_000_000_000, &[("probe", 1000, 0.8), ("build", 1000, 0.1)]);
    let after = run(3_000_000_000, &[("probe", 2000, 0.8), ("build", 1010, 0.1)]);
    let result = compare(&[before], &[after]);
    assert_eq!(result.functions[0].name, "probe");
    let beyond = |name| row(&result.functions, name).change.unwrap().is_beyond_noise();
    assert_eq!((beyond("probe"), beyond("build")), (Some(true), Some(false)));
    let loads = row(&result.whole, "waiting on loads").change.unwrap();
    assert!((loads.ns - 0.8e9).abs() < 0.02e9 && loads.is_beyond_noise() == Some(true));
    // One run a side says nothing of the noise of wall time.
    assert_eq!(row(&result.whole, "wall time").change.unwrap().is_beyond_noise(), None);
    assert!(result.remarks[0].contains("One run"));
    assert_eq!(result.regressions(0.05).len(), 2);
    assert!(result.regressions(0.6).is_empty());
}

#[test]
fn the_same_program_that_varies_is_no_regression() {
    let side = |times: [u64; 4]| times.map(|ms| run(ms * 1_000_000, &[("work", ms, 0.5)])).to_vec();
    let noisy = compare(&side([1000, 1200, 900, 1100]), &side([1100, 1250, 1000, 1180]));
    assert!(noisy.regressions(0.05).is_empty(), "{noisy:?}");
    let slower = compare(&side([1000, 1010, 990, 1005]), &side([1100, 1110, 1090, 1105]));
    assert_eq!(slower.regressions(0.05).len(), 2, "{slower:?}");
    let faster = compare(&side([1100, 1110, 1090, 1105]), &side([1000, 1010, 990, 1005]));
    assert!(faster.regressions(0.05).is_empty());
}

#[test]
fn a_function_seen_on_one_side_only_was_without_samples_on_the_other() {
    let result =
        compare(&[run(1_000_000_000, &[("old", 500, 0.0)])], &[run(1_000_000_000, &[("new", 500, 0.0)])]);
    let old = row(&result.functions, "old");
    assert_eq!((old.before_ns, old.after_ns), (Some(5e8), Some(0.0)));
    assert_eq!(old.change.unwrap().is_beyond_noise(), Some(true));
}

#[test]
fn without_samples_only_clocks_are_compared() {
    let result = compare(&[run(1_000_000_000, &[])], &[run(2_000_000_000, &[("work", 10, 0.0)])]);
    assert!(row(&result.whole, "wall time").change.is_some());
    let work = row(&result.functions, "work");
    assert_eq!((work.before_ns, work.change), (None, None));
    assert!(result.remarks.iter().any(|remark| remark.contains("no samples")));
}
