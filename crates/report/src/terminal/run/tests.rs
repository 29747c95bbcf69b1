//! Findings made by hand, in several widths.

use analysis::findings::{
    AccessPattern, Account, Confidence, Estimated, FindingSubject, Findings, HeldBack, InstructionFinding,
    KnownLimits, LevelFindings, LevelLimit, LevelPart, LimitFindings, Nature, Pattern, Rate, SCHEMA,
    SourceLine, Split, StreamLimit, SymbolFinding, ThreadActivity, ThreadFinding, TimeShare, Timeline,
    TimelineInterval, Verdict, WaitLevel,
};
use machine::profile::LevelName;
use record::{
    ids::{FunctionId, ModuleId, ThreadId},
    run::{Ending, ModuleKind, Usage},
};

use super::{Detail, text};
use crate::layout::prose::width;

fn share(value: f64) -> TimeShare {
    TimeShare { value, low: value - 0.02, high: value + 0.02 }
}

fn split(samples: u64, loads: f64) -> Split {
    let executing = 0.9 - loads;
    Split {
        samples,
        loads,
        stores: 0.04,
        atomics: 0.0,
        divides: 0.0,
        chains: 0.02,
        first_cache: 0.0,
        other_threads: 0.0,
        branches: 0.01,
        executing,
        undecided: 0.03,
    }
}

fn account(user_ns: f64) -> Account {
    Account {
        user_ns,
        kernel_ns: KnownLimits::Value(4e7),
        blocked_ns: KnownLimits::Value(1.2e9),
        preempted_ns: KnownLimits::Missing("the kernel gave no context-switch records".to_owned()),
        estimated: Estimated::default(),
    }
}

#[test]
fn times_that_are_estimates_are_marked() {
    let estimated = |running, waiting| Account { estimated: Estimated { running, waiting }, ..account(1e9) };
    let sentence = |account: &Account| super::account::sentence(account);
    assert!(!sentence(&account(1e9)).contains('~'));
    assert_eq!(sentence(&estimated(false, true)).matches('~').count(), 1, "of blocked time alone");
    assert_eq!(sentence(&estimated(true, true)).matches('~').count(), 3);
}

fn symbol(name: &str, user: f64, loads: f64, top: Vec<usize>) -> SymbolFinding {
    SymbolFinding {
        name: name.to_owned(),
        function: Some(FunctionId(0)),
        symbol: Some(name.to_owned()),
        module: "/opt/app/bin/join".to_owned(),
        module_id: ModuleId(0),
        module_kind: ModuleKind::File,
        user_share: share(user),
        split: split(1000, loads),
        flagged_share: 0.9,
        top,
    }
}

pub(crate) fn findings() -> Findings {
    Findings {
        levels: KnownLimits::Value(LevelFindings {
            parts: vec![
                LevelPart { level: WaitLevel::Memory, share: 0.61 },
                LevelPart { level: WaitLevel::Cache(3), share: 0.14 },
            ],
            unknown: 0.01,
            or: None,
            by_time: None,
            perhaps: None,
            earned: None,
        }),
        schema: SCHEMA.to_owned(),
        about: FindingSubject {
            memwall: "0.1.0".to_owned(),
            command: ["./join", "--size", "two words"].map(str::to_owned).to_vec(),
            attached: None,
            started_at: 1_700_000_000,
            machine: "abc".to_owned(),
            elapsed_ns: KnownLimits::Value(3_020_000_000),
            ending: Ending::Exited(0),
            usage: KnownLimits::Value(Usage::default()),
            samples: 2987,
            lost_samples: KnownLimits::Value(0),
            period_ns: 1e6,
            processes: 1,
            threads: 2,
        },
        verdict: Verdict {
            held_back: HeldBack::Yes,
            memory: Some(share(0.78)),
            memory_of_work: None,
            loads: Some(share(0.74)),
            largest: Some(ThreadActivity::Loads),
            largest_share: Some(share(0.74)),
            nature: KnownLimits::Value(Nature::Latency),
            trust: KnownLimits::Missing("not validated".to_owned()),
            consulted: Vec::new(),
            confidence: Confidence::High,
            reasons: vec!["2987 samples, 3 % of them undecided".to_owned()],
        },
        overall: Some(split(2987, 0.74)),
        account: account(2.987e9),
        threads: vec![
            ThreadFinding {
                id: ThreadId(0),
                tid: 41,
                pid: 41,
                name: "join".to_owned(),
                user_share: 0.75,
                split: Some(split(2240, 0.8)),
                account: account(2.2e9),
            },
            ThreadFinding {
                id: ThreadId(1),
                tid: 42,
                pid: 41,
                name: "evil\u{1b}[31m".to_owned(),
                user_share: 0.25,
                split: None,
                account: account(0.7e9),
            },
        ],
        symbols: vec![
            symbol("probe_table", 0.81, 0.85, vec![0]),
            symbol(
                "std::collections::HashMap<std::string, long, my::hash>::find(std::string const&)",
                0.1,
                0.3,
                vec![1],
            ),
            symbol("main", 0.05, 0.01, vec![]),
        ],
        instructions: vec![
            InstructionFinding {
                symbol: 0,
                address: 0x1234,
                text: Some("mov rax,[rdi+rax*8]".to_owned()),
                source: Some(SourceLine::new("/src/join.c", 31)),
                activity: ThreadActivity::Loads,
                waiting_samples: 2000.0,
                executing_samples: 30.0,
                undecided_samples: 0.0,
                user_share: share(0.68),
                access: Some(AccessPattern {
                    pattern: Pattern::Random,
                    addresses: 2000,
                    next_address: false,
                    span: Some((0x1000, 0x9000_0000)),
                    stride_bytes: None,
                    advance: None,
                }),
            },
            InstructionFinding {
                symbol: 1,
                address: 0x2234,
                text: None,
                source: None,
                activity: ThreadActivity::Undecided,
                waiting_samples: 0.0,
                executing_samples: 0.0,
                undecided_samples: 90.0,
                user_share: share(0.03),
                access: None,
            },
        ],
        timeline: Timeline {
            interval_ns: 100_000_000,
            threshold: 0.5,
            measured_here: false,
            intervals: (0..30)
                .map(|index| TimelineInterval {
                    start_ns: index * 100_000_000,
                    samples: if index == 5 { 0 } else { 100 },
                    loads: (index != 5).then_some(index as f64 / 30.0),
                    memory: (index != 5).then_some(index as f64 / 29.0),
                    running_threads: Some(1.0),
                    flagged: index > 15,
                })
                .collect(),
        },
        limits: LimitFindings {
            levels: KnownLimits::Value(vec![
                LevelLimit {
                    name: LevelName::Cache(1),
                    usable_bytes: Some(32768.0),
                    latency_ns: Some(1.2),
                    one_core_bytes_per_s: Some(2e11),
                    all_cores_bytes_per_s: None,
                },
                LevelLimit {
                    name: LevelName::Memory { node: 0, local: true },
                    usable_bytes: None,
                    latency_ns: Some(121.0),
                    one_core_bytes_per_s: Some(1.4e10),
                    all_cores_bytes_per_s: Some(2.1e10),
                },
            ]),
            streams: KnownLimits::Value(StreamLimit {
                level: Some(WaitLevel::Memory),
                per_thread: Rate { bytes_per_s: 9.8e9, low: 9.1e9, high: 1.02e10, pairs: 410 },
                together_bytes_per_s: 1.9e10,
                limit_bytes_per_s: KnownLimits::Value(2.1e10),
                of_limit: Some(0.9),
                of_limit_at_most: None,
            }),
            running_threads: KnownLimits::Value(1.9),
        },
        loads: KnownLimits::Missing("nobody asked for them".to_owned()),
        relief: analysis::findings::ReliefFindings::default(),
        advice: vec![
            "Make the data of probe_table smaller or nearer: its loads land all over it.".to_owned(),
        ],
        remarks: vec!["The program ran for 3 s; a longer run gives narrower intervals.".to_owned()],
    }
}

fn plain(findings: &Findings, detail: Detail, columns: usize) -> String {
    anstream::adapter::strip_str(&text(findings, None, detail, columns)).to_string()
}

#[test]
fn on_an_ordinary_terminal() {
    insta::assert_snapshot!("run", plain(&findings(), Detail::default(), 100));
}

#[test]
fn with_everything() {
    insta::assert_snapshot!("run_verbose", plain(&findings(), Detail { verbose: true, top: None }, 100));
}

#[test]
fn on_a_narrow_terminal() {
    insta::assert_snapshot!("run_narrow", plain(&findings(), Detail::default(), 44));
}

#[test]
fn no_line_exceeds_the_columns() {
    for columns in 40..140 {
        for line in plain(&findings(), Detail { verbose: true, top: None }, columns).lines() {
            assert!(width(line) <= columns, "{columns}: {line}");
        }
    }
}

/// Runs as they come: with and without a profile, threads, phases, names and remarks.
#[test]
fn the_answer_fits_a_screen() {
    let usual = findings();
    let mut without_profile = findings();
    let missing = || "this machine has no profile; run `memwall calibrate`".to_owned();
    without_profile.limits.levels = KnownLimits::Missing(missing());
    without_profile.limits.streams = KnownLimits::Missing(missing());
    without_profile.advice.push(
        "Run `memwall calibrate` once, to see how far this is from what the machine can do.".to_owned(),
    );
    let mut long = findings();
    long.about.command = vec!["/a/rather/long/path/to/some/program".to_owned(); 4];
    long.verdict.confidence = Confidence::Medium;
    long.verdict.reasons =
        vec!["The interval of the share reaches far over a limit between two verdicts.".to_owned()];
    long.advice = vec!["One load waits for another in probe_table (join.c:31): lay nodes out in the order they are visited, or follow several chains at once.".to_owned(); 5];
    long.remarks = vec!["12 samples (0.4 % of all) were lost; a lower --rate loses fewer.".to_owned(); 6];
    long.symbols = (0..40).map(|index| symbol(&format!("function_{index}"), 0.02, 0.3, vec![])).collect();
    for (name, found) in [("usual", usual), ("without a profile", without_profile), ("long", long)] {
        let shown = plain(&found, Detail::default(), 80);
        let lines = shown.lines().count();
        assert!(lines <= 24, "{name}: {lines} lines:\n{shown}");
        for word in [
            "Held back by memory",
            "confidence",
            "waiting on loads",
            "Waits at",
            "function",
            "Limits",
            "Try",
            "--verbose",
        ] {
            assert!(shown.contains(word), "{name}: no {word} in\n{shown}");
        }
    }
}

#[test]
fn names_from_programs_cannot_steer_the_terminal() {
    assert!(!plain(&findings(), Detail { verbose: true, top: None }, 100).contains('\u{1b}'));
    let mut hostile = findings();
    hostile.symbols[0].name = "\u{1b}]0;owned\u{7}".to_owned();
    hostile.about.command = vec!["\u{1b}[2J".to_owned()];
    let shown = text(&hostile, None, Detail::default(), 100);
    assert!(!shown.contains("\u{1b}]") && !shown.contains("\u{1b}[2J"));
}

#[test]
fn few_samples_give_no_bar_and_no_table() {
    let mut few = findings();
    few.overall = Some(split(29, 0.74));
    few.advice.clear();
    for verbose in [false, true] {
        let shown = plain(&few, Detail { verbose, top: None }, 80);
        for word in ["█", "probe_table"] {
            assert!(!shown.contains(word), "{word} of 29 samples:\n{shown}");
        }
        few.overall = Some(split(30, 0.74));
        assert!(plain(&few, Detail { verbose, top: None }, 80).contains("probe_table"));
        few.overall = Some(split(29, 0.74));
    }
}

#[test]
fn without_samples_nothing_is_made_up() {
    let mut empty = findings();
    empty.overall = None;
    empty.symbols.clear();
    empty.instructions.clear();
    empty.threads.clear();
    empty.timeline.intervals.clear();
    empty.verdict = Verdict {
        held_back: HeldBack::Unknown,
        memory: None,
        memory_of_work: None,
        loads: None,
        largest: None,
        largest_share: None,
        nature: KnownLimits::Missing("no sample was taken".to_owned()),
        trust: KnownLimits::Missing("not validated".to_owned()),
        consulted: Vec::new(),
        confidence: Confidence::Low,
        reasons: vec!["perf_event was refused".to_owned()],
    };
    let missing = || KnownLimits::Missing("no sample was taken".to_owned());
    empty.limits = LimitFindings {
        levels: KnownLimits::Missing("this machine has no profile: run memwall calibrate".to_owned()),
        streams: KnownLimits::Missing("no sample was taken".to_owned()),
        running_threads: missing(),
    };
    let shown = plain(&empty, Detail::default(), 80);
    assert!(shown.contains("cannot be told") && shown.contains("perf_event was refused"), "{shown}");
    assert!(!shown.contains("NaN") && !shown.contains(" %"), "{shown}");
}
