//! Cycle accounting and the choice of methods, as a user types them, on simulated machines.

use std::process::{Command, Output};

use record::{
    count::{CountedMetric, Counts},
    methods::{MethodState, MethodsAnswer},
};

fn memwall(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", home.path()).args(arguments).output().expect("memwall starts")
}

fn counts(arguments: &[&str]) -> Counts {
    let output = memwall(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn metric<'a>(counts: &'a Counts, name: &str) -> &'a CountedMetric {
    let mut all = counts.metrics.iter().flat_map(|group| &group.metrics);
    all.find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn value(counts: &Counts, name: &str) -> f64 {
    *metric(counts, name)
        .values
        .first()
        .unwrap_or_else(|| panic!("{name}: {:?}", metric(counts, name).missing))
}

const CORE: [&str; 5] = ["--on", "sim:core2-e5430", "count", "-g", "ACCOUNTING"];
const NEHALEM: [&str; 5] = ["--on", "sim:nehalem-ep-x5570", "count", "-g", "ACCOUNTING"];

/// What each kernel is made for is the largest cause that the accounting names.
#[test]
fn each_kernel_shows_what_it_is_made_for() {
    let branches = counts(&[&CORE[..], &["--kernel", "branch-miss"]].concat());
    assert_eq!(branches.metrics[0].group, "ACCOUNTING_CORE");
    assert!(value(&branches, "non-retiring share") > 15.0);
    assert!((value(&branches, "all three") - 100.0).abs() < 3.0);
    assert!(metric(&branches, "mispredicted branches").advice.is_some());
    let plain = counts(&[&CORE[..], &["--kernel", "add-chain"]].concat());
    assert!(value(&plain, "non-retiring share") < 1.0);
    let chase = counts(&[&CORE[..], &["--kernel", "chase", "--size", "24M"]].concat());
    assert!(value(&chase, "stalled share") > 90.0);
    assert!(value(&chase, "L2 misses of counted stalls") > 50.0);
    let divides = counts(&[&NEHALEM[..], &["--kernel", "div-chain"]].concat());
    assert_eq!(divides.metrics[0].group, "ACCOUNTING_NEHALEM");
    assert!(value(&divides, "divides and square roots of counted stalls") > 90.0);
    let code =
        counts(&[&NEHALEM[..], &["--kernel", "long-code", "--size", "16K", "--set", "adds=1024"]].concat());
    assert!(value(&code, "L2 fetch miss rate") < 10.0, "the L2 holds it");
    let near =
        counts(&[&NEHALEM[..], &["--kernel", "long-code", "--size", "16K", "--set", "adds=64"]].concat());
    assert!(value(&code, "CPI") > 1.5 * value(&near, "CPI"));
}

#[test]
fn a_page_has_bars_and_reference_graphs() {
    let output = memwall(&[&CORE[..], &["--kernel", "branch-miss", "--html", "-"]].concat());
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.starts_with("<!doctype html>"), "{}", String::from_utf8_lossy(&output.stderr));
    for words in ["cycles at execution", "class=\"stacked\"", "class=\"reference\"", "non-retiring"] {
        assert!(page.contains(words), "{words}");
    }
}

/// molka2017 §4.3: of a phase of loads and one of stores the larger counts, and the rest is not seen.
#[test]
fn phases_of_loads_and_of_stores_are_underestimated_together() {
    let phases = counts(&[
        "--on",
        "sim:haswell-ep-e5-2680v3/16",
        "count",
        "-g",
        "STALLS",
        "--scenario",
        "load-store-phases",
        "--scale",
        "8",
    ]);
    let (seen, most) = (value(&phases, "memory bound"), value(&phases, "memory bound, one after the other"));
    assert!(seen < 0.85 * most, "{seen} of {most} % of cycles");
    assert!(most > 50.0 && most <= 100.0, "{most}");
}

#[test]
fn passes_are_witnessed() {
    let spread = counts(&[&NEHALEM[..], &["--kernel", "load", "--size", "64K", "--several-passes"]].concat());
    assert!(spread.witnesses.len() > 5, "43 events on four counters: {}", spread.witnesses.len());
    let cycles: Vec<Option<f64>> = spread.witnesses.iter().map(|witness| witness.cycles).collect();
    assert!(cycles.iter().all(|cycles| cycles.is_some_and(|cycles| cycles > 0.0)), "{cycles:?}");
    assert!(
        spread.remarks.iter().any(|remark| remark.starts_with("Cycles differed by")),
        "{:?}",
        spread.remarks
    );
    let once = counts(&[&NEHALEM[..], &["--kernel", "load", "--size", "64K"]].concat());
    assert!(once.witnesses.is_empty());
}

#[test]
fn methods_are_chosen_and_named() {
    let ask = |purpose: &str| -> MethodsAnswer {
        let output =
            memwall(&["--on", "sim:haswell-ep-e5-2680v3", "methods", "--purpose", purpose, "--json"]);
        serde_json::from_slice(&output.stdout).expect("an answer")
    };
    let exact = ask("exact");
    let chosen: Vec<_> = exact.questions.iter().map(|question| question.chosen.as_deref()).collect();
    assert_eq!(chosen[0], Some("controllers"), "{chosen:?}");
    assert_eq!(ask("diagnose").questions[0].chosen.as_deref(), Some("real-latency"));
    // No program runs there, so that nothing can sample one.
    let timer =
        exact.questions[2].methods.iter().find(|method| method.key == "timer-code").expect("a method");
    assert!(matches!(timer.state, MethodState::Missing { .. }));
    let by_rule = counts(&[
        "--on",
        "sim:haswell-ep-e5-2680v3/16",
        "count",
        "--about",
        "bandwidth",
        "--purpose",
        "exact",
        "--kernel",
        "load",
        "--size",
        "4M",
    ]);
    assert_eq!(by_rule.metrics[0].group, "MEM");
    let said =
        by_rule.remarks.iter().any(|remark| remark.starts_with("Counted by memory-controller counters"));
    assert!(said, "{:?}", by_rule.remarks);
    let text = memwall(&["--on", "sim:haswell-ep-e5-2680v3", "methods"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("Does memory bandwidth hold the program back?"), "{text}");
    // On this machine, whatever it allows.
    assert!(memwall(&["methods"]).status.success());
}
