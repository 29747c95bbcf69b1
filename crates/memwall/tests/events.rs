//! `memwall events`, and `memwall count` on simulated machines, as a user types them.

use std::process::{Command, Output};

use record::count::{Counts, Total, total};
use serde_json::Value;

/// On a machine that nobody validated.
fn memwall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/unvalidated"));
    command.args(arguments).output().expect("a run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn counted(arguments: &[&str]) -> Counts {
    let output = memwall(&[&["--on", "sim:tiny", "count", "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn value(counts: &Counts, name: &str) -> f64 {
    let event = counts.events.iter().position(|event| event.name == name).expect("the event");
    match total(&counts.runs[0].counts, event, |_| true) {
        Some(Total::Counted { estimate, .. }) => estimate,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_list_says_what_can_be_counted() {
    let output = memwall(&["events", "page-faults"]);
    assert!(output.status.success());
    let list = text(&output.stdout);
    assert!(list.contains("page-faults") && list.contains("perf_event: "), "{list}");
    let output = memwall(&["events", "no such event at all"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'memwall events' lists all"));
}

#[test]
fn json_has_every_event_with_the_reason_it_is_refused_for() {
    let list =
        |arguments: &[&str]| -> Value { serde_json::from_slice(&memwall(arguments).stdout).expect("JSON") };
    let all = list(&["events", "faults", "--json"]);
    assert_eq!(all["schema"], "memwall.events/1");
    let events = all["events"].as_array().expect("events");
    assert!(events.iter().all(|event| event["name"].is_string() && event["origin"].is_string()));
    let available = list(&["events", "faults", "--available", "--json"]);
    assert!(available["events"].as_array().expect("events").iter().all(|event| event["refused"].is_null()));
}

#[test]
fn a_simulated_machine_lists_its_own() {
    let output = memwall(&["events", "l1d", "--on", "sim:haswell-ep-e5-2680v3"]);
    let list = text(&output.stdout);
    assert!(list.contains("L1D.REPLACEMENT") && list.contains("simulated haswell-ep-e5-2680v3"), "{list}");
}

#[test]
fn counts_of_a_simulated_kernel_are_its_truth() {
    let events = "INST_RETIRED.ANY,MEM_UOPS_RETIRED.ALL_LOADS,MEM_UOPS_RETIRED.ALL_STORES,L1D.REPLACEMENT";
    let kernel = |passes| ["-e", events, "--kernel", "load", "--size", "64K", "--passes", passes];
    let (two, four) = (counted(&kernel("2")), counted(&kernel("4")));
    let added = |name: &str| value(&four, name) - value(&two, name);
    // 64 KiB are 1024 lines, more than the L1 holds: every pass brings each of them in, with two loads of 32 bytes.
    assert_eq!((added("L1D.REPLACEMENT"), added("MEM_UOPS_RETIRED.ALL_LOADS")), (2048.0, 4096.0));
    assert_eq!(added("MEM_UOPS_RETIRED.ALL_STORES"), 0.0);
    // Beside that a start-up constant, whatever the number of passes: four loads, of two lines.
    let beside = |name: &str, each: f64| value(&two, name) - 2.0 * each;
    assert_eq!((beside("MEM_UOPS_RETIRED.ALL_LOADS", 2048.0), beside("L1D.REPLACEMENT", 1024.0)), (4.0, 2.0));
    // Pass by pass, the same.
    let passes = counted(&[&["--several-passes"], &kernel("2")[..]].concat());
    assert_eq!(value(&passes, "L1D.REPLACEMENT"), value(&two, "L1D.REPLACEMENT"));
}

#[test]
fn a_group_has_metrics_and_turns_are_said_to_be_turns() {
    let output = memwall(&["--on", "sim:tiny", "count", "-g", "L2", "--kernel", "load", "--size", "64K"]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("L2 bandwidth"), "{table}");
    let groups = ["-g", "L2", "-g", "L3", "-g", "STALLS", "-g", "BRANCH"];
    let kernel = ["--kernel", "load", "--size", "1M", "--multiplex"];
    let counts = counted(&[&groups[..], &kernel[..]].concat());
    let shares: Vec<f64> =
        counts.runs[0].counts.iter().filter_map(|count| count.value.running_share()).collect();
    assert!(shares.iter().any(|share| *share < 0.99), "more events than counters: {shares:?}");
}

#[test]
fn scenarios_are_counted_with_flaws_or_without() {
    for flaws in ["on", "off"] {
        let counts = counted(&[
            "-e",
            "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM",
            "--scenario",
            "producer-consumer",
            "--scale",
            "64",
            "--flaws",
            flaws,
        ]);
        assert!(value(&counts, "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM") > 0.0);
    }
}

#[test]
fn what_a_simulated_machine_cannot_do_is_said() {
    let wrong = |arguments: &[&str], code: i32, words: &str| {
        let output = memwall(&[&["--on", "sim:tiny", "count"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    wrong(&["-e", "L1D.REPLACEMNT", "--kernel", "load", "--size", "64K"], 2, "L1D.REPLACEMENT");
    wrong(&["-e", "page-faults", "--kernel", "load", "--size", "64K"], 1, "no operating system");
    wrong(&["-g", "L2", "--kernel", "load"], 2, "--size");
    wrong(&["-g", "L2", "--", "true"], 2, "runs kernels and scenarios");
    wrong(&["-g", "L2"], 2, "count what?");
}
