//! Small recordings in other forms.
#![allow(clippy::unwrap_used)]

use analysis::timer::{TimerOptions, analyse};
use machine::profile::Fingerprint;
use record::{
    data::Data,
    ids::{FunctionId, ModuleId, PlaceId, ProcessId, ThreadId},
    run::{About, Ending, Function, Module, ModuleKind, Place, Process, RecordedThread, Run, Samples},
};

use super::*;

fn function(name: &str, start: u64) -> Function {
    Function { module: ModuleId(0), symbol: None, name: name.into(), start, end: start + 16, code: None }
}

fn thread(tid: u32, name: &str) -> RecordedThread {
    RecordedThread { tid, process: ProcessId(0), name: name.into(), began_ns: 0, ended_ns: Some(9_000_000) }
}

/// Two threads; `main` calls `work;er`, and one sample lies in code of which nothing is known.
fn run() -> Run {
    let place = |address, function| Place { module: ModuleId(0), address, function };
    Run {
        about: About {
            memwall: "0".into(),
            command: vec!["./app".into(), "-x".into()],
            attached: None,
            started_at: 1_800_000_000,
            fingerprint: Fingerprint::default(),
            rate_hz: 1000.0,
            period_ns: 1e6,
            skid_instructions: 1,
            elapsed_ns: Some(9_000_000),
            ending: Ending::Exited(0),
            usage: None,
            slowed: None,
            clock_hz: None,
            lost_samples: Some(0),
            noise: None,
            slice_ns: 100_000_000,
        },
        processes: vec![Process {
            pid: 70,
            parent: None,
            name: "app".into(),
            executable: None,
            began_ns: 0,
            ended_ns: None,
        }],
        threads: vec![thread(70, "app"), thread(71, "odd\nname")],
        modules: vec![Module {
            path: "/bin/app".into(),
            kind: ModuleKind::File,
            build_id: None,
            problem: None,
        }],
        functions: vec![function("main", 0x1000), function("work;er", 0x2000)],
        files: Vec::new(),
        lines: Vec::new(),
        inlined: Default::default(),
        places: vec![
            place(0x1004, Some(FunctionId(0))),
            place(0x2004, Some(FunctionId(1))),
            place(0x9000, None),
        ],
        samples: Samples {
            time_ns: vec![1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000],
            thread: [0, 0, 1, 0, 1].map(ThreadId).to_vec(),
            cpu: vec![0; 5],
            place: [1, 1, 1, 2, 0].map(PlaceId).to_vec(),
            address: vec![None; 5],
            stack: vec![Some(0), Some(0), Some(0), None, None],
        },
        bursts: Samples::default(),
        passes: Samples::default(),
        regions: Default::default(),
        loads: Default::default(),
        relief: record::relief::ReliefRecord::NotAsked,
        probes: Default::default(),
        import: None,
        scaling: None,
        sampled: record::sampled::SampledEvents::default(),
        stacks: vec![vec![PlaceId(1), PlaceId(0)]],
        data: Data::default(),
        slices: Vec::new(),
        remarks: Vec::new(),
    }
}

#[test]
fn folded_stacks_add_up_to_the_samples() {
    let run = run();
    let text = folded(&run);
    let expected = "app-70;app-70;[app] 1\n\
                    app-70;app-70;main;work:er 2\n\
                    app-70;odd name-71;main 1\n\
                    app-70;odd name-71;main;work:er 1\n";
    assert_eq!(text, expected);
    let sum: u64 = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, run.samples.place.len() as u64);
}

#[test]
fn without_chains_each_function_stands_alone() {
    let mut run = run();
    run.samples.stack = Vec::new();
    let text = folded(&run);
    assert!(text.contains("app-70;app-70;work:er 2\n"), "{text}");
    run.samples = Samples::default();
    assert_eq!(folded(&run), "");
}

#[test]
fn firefox_has_threads_samples_stacks_and_categories() {
    let run = run();
    let findings = analyse(&run, None, &TimerOptions::default());
    let profile = serde_json::to_value(firefox(&run, &findings)).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    let samples = |thread: &serde_json::Value| thread["samples"]["length"].as_u64().unwrap();
    assert_eq!(threads.iter().map(samples).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(threads[1]["name"], "odd\nname");
    let categories: Vec<&str> = profile["meta"]["categories"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|category| category["name"].as_str())
        .collect();
    assert!(categories.contains(&"waiting on loads"), "{categories:?}");
    assert!(profile.to_string().contains("work;er"));
    assert_eq!(profile["meta"]["product"], "./app -x");
    assert_eq!(profile["meta"]["interval"], 1.0);
}

/// A chase that waits for memory and a loop that does not, both called `work`.
#[test]
fn firefox_colours_functions_of_one_name_each_by_its_own() {
    // mov r8,[r8]; mov r8,[r8]; add rax,1; cmp rax,rsi; jb 0; ret
    const CHASE: [u8; 16] =
        [0x4d, 0x8b, 0x00, 0x4d, 0x8b, 0x00, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf1, 0xc3];
    let mut run = run();
    for (function, code) in run.functions.iter_mut().zip([&CHASE[..], &[0x90; 16]]) {
        (function.name, function.code) = ("work".to_owned(), Some(code.to_vec()));
    }
    run.places = (0..18u64)
        .map(|at| Place {
            module: ModuleId(0),
            address: if at < 2 { 0x1003 + at * 3 } else { 0x2000 + at - 2 },
            function: Some(FunctionId(u32::from(at >= 2))),
        })
        .collect();
    let places: Vec<PlaceId> =
        (0..640).map(|at| PlaceId(if at < 320 { at % 2 } else { 2 + at % 16 })).collect();
    run.stacks.clear();
    run.samples = Samples {
        time_ns: (0..640).map(|at| at * 1_000_000).collect(),
        thread: vec![ThreadId(0); 640],
        cpu: vec![0; 640],
        address: (0..640u64)
            .map(|at| std::num::NonZeroU64::new(0x7000_0000 + at * 7919 % 640 * 4096))
            .collect(),
        stack: Vec::new(),
        place: places,
    };
    let findings = analyse(&run, None, &TimerOptions::default());
    let mostly: Vec<(f64, f64)> =
        findings.symbols.iter().map(|symbol| (symbol.split.loads, symbol.split.executing)).collect();
    assert!(mostly[0].0 > 0.9 && mostly[1].1 > 0.9, "{mostly:?}");
    let profile = serde_json::to_value(firefox(&run, &findings)).unwrap();
    let names = profile["meta"]["categories"].as_array().unwrap();
    let frames = profile["threads"][0]["frameTable"]["category"].as_array().unwrap().iter();
    let mut colours: Vec<&str> =
        frames.map(|category| names[category.as_u64().unwrap() as usize]["name"].as_str().unwrap()).collect();
    colours.sort_unstable();
    assert_eq!(colours, ["executing", "waiting on loads"]);
}
