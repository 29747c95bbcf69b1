use record::{
    ids::{FunctionId, ModuleId, PlaceId},
    run::{Ending, Function, LineRange, Module, ModuleKind, Place, Usage},
};

use super::*;
use crate::findings::*;

/// A run whose functions have no more than names.
fn run(wall_ns: u64, functions: &[(&str, u64, f64)]) -> ComparedRun {
    let findings = findings(wall_ns, functions);
    ComparedRun::of(&crate::timer::tests::run(&[0xc3], &[]), findings)
}

fn findings(wall_ns: u64, functions: &[(&str, u64, f64)]) -> Findings {
    let split = |samples: u64, loads: f64| Split {
        samples,
        loads,
        stores: 0.0,
        atomics: 0.0,
        divides: 0.0,
        chains: 0.0,
        first_cache: 0.0,
        other_threads: 0.0,
        branches: 0.0,
        executing: 1.0 - loads,
        undecided: 0.0,
    };
    let samples: u64 = functions.iter().map(|&(_, samples, _)| samples).sum();
    let loads: f64 = functions.iter().map(|&(_, samples, loads)| samples as f64 * loads).sum();
    let share = |value| TimeShare { value, low: value, high: value };
    let missing = || "not asked".to_owned();
    Findings {
        levels: KnownLimits::Missing(missing()),
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
            memory_of_work: None,
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
        relief: crate::findings::ReliefFindings::default(),
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
    // Nor may it fail by what it does not know.
    assert!(matches!(result.gate(0.05), CompareGate::CannotTell(_)), "{:?}", result.gate(0.05));
    assert!(matches!(result.judgement, CompareJudgement::Unknown(_)), "{:?}", result.judgement);
}

#[test]
fn two_programs_are_not_told_to_be_of_one_command() {
    let [before, mut after] = [run(2_000_000_000, &[]), run(3_000_000_000, &[])];
    after.findings.about.command = vec!["another".to_owned()];
    let (before, after) = ([before], [after]);
    let is_told = |found: &Comparison| found.remarks.iter().any(|remark| remark.contains("the same command"));
    assert!(is_told(&compare(&before, &after)));
    let found = compare_programs(&before, &after, ["app", "another"].map(str::to_owned));
    assert!(!is_told(&found), "{:?}", found.remarks);
    assert_eq!((found.before.as_deref(), found.after.as_deref()), (Some("app"), Some("another")));
}

/// Runs of so many milliseconds, all of one function.
fn side(times: &[u64], function: &str, loads: f64) -> Vec<ComparedRun> {
    times.iter().map(|ms| run(ms * 1_000_000, &[(function, *ms, loads)])).collect()
}

#[test]
fn a_change_has_a_cause() {
    // 1000 ms of which 500 wait become 1120 of which 620 do.
    let result =
        compare(&side(&[1000, 1001, 999], "probe", 0.5), &side(&[1120, 1121, 1119], "probe", 620.0 / 1120.0));
    let CompareJudgement::Slower { ratio, resolution } = result.judgement else {
        panic!("{:?}", result.judgement)
    };
    assert!((ratio - 0.12).abs() < 1e-3 && resolution < 0.01, "{ratio} {resolution}");
    let first = &result.causes[0];
    let function = "probe".to_owned();
    assert_eq!(first.cause, ChangeCause::Activity { activity: ThreadActivity::Loads, function });
    assert!((first.share - 1.0).abs() < 0.02, "{:?}", result.causes);
}

#[test]
fn what_the_program_differs_from_itself_cannot_be_told() {
    let (before, after) = (side(&[1000, 1001, 999], "work", 0.5), side(&[1030, 1031, 1029], "work", 0.5));
    let mut result = compare(&before, &after);
    assert!(matches!(result.judgement, CompareJudgement::Slower { .. }), "{:?}", result.judgement);
    result.know_itself(&compare(&before, &side(&[1050, 1049, 1051], "work", 0.5)));
    assert!(matches!(result.judgement, CompareJudgement::Same { .. }), "{:?}", result.judgement);
    assert!((result.judgement.resolution().unwrap() - 0.05).abs() < 1e-3);
    assert!(matches!(result.gate(0.01), CompareGate::CannotTell(_)), "{:?}", result.gate(0.01));
    assert_eq!(result.gate(0.1), CompareGate::Kept);
}

#[test]
fn a_run_that_the_hypervisor_took_time_from_is_spoilt() {
    let mut run = crate::timer::tests::run(&[0xc3], &[]);
    assert_eq!(spoilt(&run), None);
    let noise = |steal_ns| {
        Some(machine::profile::Noise { wall_ns: 1e9, steal_ns, involuntary_switches: None, spread: None })
    };
    run.about.noise = noise(Some(1e7));
    assert_eq!(spoilt(&run), None);
    run.about.noise = noise(Some(5e7));
    assert!(spoilt(&run).unwrap().contains("5.0 %"));
    run.about.noise = noise(None);
    assert_eq!(spoilt(&run), None);
}

#[test]
fn the_same_program_that_varies_is_no_regression() {
    let side = |times: [u64; 4]| times.map(|ms| run(ms * 1_000_000, &[("work", ms, 0.5)])).to_vec();
    let noisy = compare(&side([1000, 1200, 900, 1100]), &side([1100, 1250, 1000, 1180]));
    assert!(!matches!(noisy.gate(0.05), CompareGate::Exceeded(_)), "{noisy:?}");
    let slower = compare(&side([1000, 1010, 990, 1005]), &side([1100, 1110, 1090, 1105]));
    let CompareGate::Exceeded(rows) = slower.gate(0.05) else { panic!("{slower:?}") };
    assert_eq!(rows.len(), 2, "{slower:?}");
    let faster = compare(&side([1100, 1110, 1090, 1105]), &side([1000, 1010, 990, 1005]));
    assert_eq!(faster.gate(0.05), CompareGate::Kept);
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

/// A build of a program with functions called `work`: where each begins, in which source file, how many samples it has.
struct BuiltProgram {
    path: &'static str,
    build: &'static str,
    works: Vec<(u64, Option<&'static str>, u64)>,
}

impl BuiltProgram {
    fn run(&self) -> ComparedRun {
        let mut run = crate::timer::tests::run(&[0x90, 0xc3], &[]);
        let build_id = Some(self.build.to_owned());
        run.modules = vec![Module { path: self.path.to_owned(), build_id, ..run.modules[0].clone() }];
        let first = run.functions[0].clone();
        (run.functions, run.places) = (Vec::new(), Vec::new());
        (run.lines, run.files) = (Vec::new(), Vec::new());
        for (index, &(start, file, samples)) in self.works.iter().enumerate() {
            run.functions.push(Function { start, end: start + 2, name: "work".into(), ..first.clone() });
            let function = Some(FunctionId::of(index));
            run.places.push(Place { module: ModuleId(0), address: start + 1, function });
            if file.is_some() {
                let range =
                    LineRange { module: ModuleId(0), start, end: start + 2, file: index as u32, line: 1 };
                run.lines.push(range);
            }
            run.files.push(file.unwrap_or("none").to_owned());
            for _ in 0..samples {
                run.samples.time_ns.push(run.samples.time_ns.len() as u64 * 1_000_000);
                run.samples.thread.push(record::ids::ThreadId(0));
                run.samples.cpu.push(0);
                run.samples.place.push(PlaceId::of(index));
                run.samples.address.push(None);
            }
        }
        run.functions.iter_mut().for_each(|function| function.symbol = Some("work".into()));
        let findings = crate::timer::analyse(&run, None, &crate::timer::TimerOptions::default());
        ComparedRun::of(&run, findings)
    }
}

/// Samples before and after of each row, the largest change first.
fn samples(result: &Comparison) -> Vec<(f64, f64)> {
    let samples = |ns: Option<f64>| (ns.unwrap() / 1e6).round();
    result.functions.iter().map(|row| (samples(row.before_ns), samples(row.after_ns))).collect()
}

fn compared(before: BuiltProgram, after: BuiltProgram) -> Comparison {
    compare(&[before.run()], &[after.run()])
}

#[test]
fn two_static_functions_of_one_name_in_two_files_are_two_rows() {
    let works = |a, b| vec![(0x1000, Some("/s/a.c"), a), (0x2000, Some("/s/b.c"), b)];
    let before = BuiltProgram { path: "/p", build: "01", works: works(100, 500) };
    let moved = vec![(0x1800, Some("/s/a.c"), 400), (0x2800, Some("/s/b.c"), 490)];
    let after = BuiltProgram { path: "/p", build: "02", works: moved };
    let result = compared(before, after);
    assert_eq!(samples(&result), [(100.0, 400.0), (500.0, 490.0)]);
    let file = |row: &CompareRow| row.function.as_ref().unwrap().file.clone().unwrap();
    assert_eq!(result.functions.iter().map(file).collect::<Vec<_>>(), ["/s/a.c", "/s/b.c"]);
}

#[test]
fn a_function_of_another_file_is_not_the_one_that_is_gone() {
    let one =
        |build, file, samples| BuiltProgram { path: "/p", build, works: vec![(0x1000, Some(file), samples)] };
    let result = compared(one("01", "/s/a.c", 300), one("02", "/s/b.c", 200));
    assert_eq!(samples(&result), [(300.0, 0.0), (0.0, 200.0)]);
}

#[test]
fn in_one_build_the_address_tells_functions_of_one_file_apart() {
    let build = |a, b| BuiltProgram {
        path: "/p",
        build: "01",
        works: vec![(0x1000, Some("/s/inline.h"), a), (0x2000, Some("/s/inline.h"), b)],
    };
    let result = compared(build(100, 500), build(400, 500));
    assert_eq!(samples(&result), [(100.0, 400.0), (500.0, 500.0)]);
    assert_eq!(result.functions[0].function.as_ref().unwrap().address, Some(0x1000));
    assert!(!result.remarks.iter().any(|remark| remark.contains("together")), "{:?}", result.remarks);
}

#[test]
fn what_two_builds_do_not_tell_apart_is_taken_together_and_said() {
    let build =
        |build, a, b| BuiltProgram { path: "/p", build, works: vec![(0x1000, None, a), (0x2000, None, b)] };
    let result = compared(build("01", 100, 500), build("02", 400, 500));
    assert_eq!(samples(&result), [(600.0, 900.0)]);
    assert!(result.remarks.iter().any(|remark| remark.contains("together")), "{:?}", result.remarks);
}

#[test]
fn a_program_built_in_another_folder_is_the_same_program() {
    let works = |a, b| vec![(0x1000, Some("/old/a.c"), a), (0x2000, Some("/old/b.c"), b)];
    let before = BuiltProgram { path: "/old/app", build: "01", works: works(100, 500) };
    let moved = vec![(0x1800, Some("/new/a.c"), 400), (0x2800, Some("/new/b.c"), 490)];
    let after = BuiltProgram { path: "/new/app", build: "02", works: moved };
    assert_eq!(samples(&compared(before, after)), [(100.0, 400.0), (500.0, 490.0)]);
}

#[test]
fn debug_information_on_one_side_alone_makes_no_other_function() {
    let one = |build, file, samples| BuiltProgram { path: "/p", build, works: vec![(0x1000, file, samples)] };
    let result = compared(one("01", None, 300), one("02", Some("/s/a.c"), 200));
    assert_eq!(samples(&result), [(300.0, 200.0)]);
}
