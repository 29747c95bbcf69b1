//! Patterns by samples, on recordings of the examples: each is found where it was made, with the place and the evidence, and not in what
//! looks like it.

use serde_json::Value;

use super::place::{findings, recording};

/// A recording, what it has, the sign that says so and how much of it there is at least, and where.
struct Has {
    recording: &'static str,
    pattern: &'static str,
    sign: &'static str,
    at_least: f64,
    place: &'static str,
}

const fn has(
    recording: &'static str,
    pattern: &'static str,
    (sign, at_least): (&'static str, f64),
    place: &'static str,
) -> Has {
    Has { recording, pattern, sign, at_least, place }
}

const FOUND: [Has; 10] = [
    has("false_sharing", "false-sharing", ("false_sharing", 0.5), "allocate_counters"),
    has("imbalance", "load-imbalance", ("imbalance", 0.2), "multiply_rows"),
    has("spinlock", "synchronisation", ("synchronising", 0.2), "lock_spin"),
    has("spinlock", "true-sharing", ("true_sharing", 0.5), "lock"),
    has("branches", "control-flow", ("branch_waiting", 0.4), "count_heads"),
    has("chase", "latency-bound", ("latency_waiting", 0.6), "chase.c"),
    has("hash_join", "latency-bound", ("latency_waiting", 0.6), "probe"),
    has("false_sharing_padded", "instruction-throughput", ("core_bound", 0.8), "count_"),
    has("multiply", "instruction-throughput", ("core_bound", 0.8), "multiply_chain"),
    has("divide", "instruction-throughput", ("core_bound", 0.8), "divide_chain"),
];

/// What a recording has, and all else is absent or cannot be judged.
const NOTHING_ELSE: [(&str, &[&str]); 9] = [
    ("false_sharing", &["false-sharing"]),
    ("false_sharing_padded", &["instruction-throughput"]),
    ("imbalance", &["load-imbalance", "instruction-throughput"]),
    ("spinlock", &["true-sharing", "synchronisation", "load-imbalance"]),
    ("short_loops_clang", &["synchronisation"]),
    ("branches", &["control-flow"]),
    ("chase", &["latency-bound"]),
    ("stream", &[]),
    ("sum_dot", &["instruction-throughput"]),
];

fn pattern<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut all = found["patterns"].as_array().expect("patterns").iter();
    all.find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} is known"))
}

fn sign(pattern: &Value, name: &str) -> Option<f64> {
    let mut signs = pattern["evidence"].as_array()?.iter();
    signs.find(|sign| sign["indicator"] == name)?["value"].as_f64()
}

impl Has {
    /// What is not as it should be.
    fn problem(&self) -> Option<String> {
        let found = findings(&recording(self.recording));
        let one = pattern(&found, self.pattern);
        let is_there = one["state"] == "found"
            && sign(one, self.sign).is_some_and(|value| value >= self.at_least)
            && one["place"].as_str().is_some_and(|place| place.contains(self.place));
        (!is_there).then(|| format!("{}: {} by {}: {one}", self.recording, self.pattern, self.sign))
    }
}

#[test]
fn each_is_found_where_it_was_made() {
    let problems: Vec<String> = FOUND.iter().filter_map(Has::problem).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn nothing_else_is_found_there() {
    let mut problems = Vec::new();
    for (name, has) in NOTHING_ELSE {
        let found = findings(&recording(name));
        let all = found["patterns"].as_array().expect("patterns").iter();
        let mut shown: Vec<_> =
            all.filter(|one| one["state"] == "found").filter_map(|one| one["name"].as_str()).collect();
        let mut expected = has.to_vec();
        shown.sort_unstable();
        expected.sort_unstable();
        if shown != expected {
            problems.push(format!("{name}: {shown:?}, not {expected:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A recording, what it has not, the sign that says so and how much of it there is at most.
const ABSENT: [(&str, &str, &str, f64); 9] = [
    ("false_sharing_padded", "false-sharing", "false_sharing", 0.05),
    ("false_sharing_padded", "true-sharing", "true_sharing", 0.05),
    ("false_sharing_padded", "synchronisation", "synchronising", 0.05),
    ("spinlock", "false-sharing", "false_sharing", 0.05),
    ("chase", "control-flow", "branch_waiting", 0.1),
    ("branches", "latency-bound", "latency_waiting", 0.1),
    ("stream", "latency-bound", "latency_waiting", 0.1),
    ("stream", "excess-volume", "stride_waiting", 0.1),
    ("chase", "excess-volume", "stride_waiting", 0.1),
];

#[test]
fn what_looks_like_it_has_a_value_that_speaks_against_it() {
    let mut problems = Vec::new();
    for (name, wanted, by, at_most) in ABSENT {
        let found = findings(&recording(name));
        let one = pattern(&found, wanted);
        if one["state"] != "absent" || sign(one, by).is_none_or(|value| value > at_most) {
            problems.push(format!("{name}: {one}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Streams wait, and whether they move all that the machine gives nobody knows who has no profile of it.
#[test]
fn what_cannot_be_judged_says_what_it_takes() {
    let stream = findings(&recording("stream"));
    let bandwidth = pattern(&stream, "bandwidth-saturation");
    assert_eq!(bandwidth["state"], "unknown", "{bandwidth}");
    let chase = findings(&recording("chase"));
    assert_eq!(pattern(&chase, "bandwidth-saturation")["state"], "absent", "no stream waits there");
    for (name, needs) in [
        ("bandwidth-saturation", "memwall calibrate"),
        ("tlb-thrashing", "memwall calibrate"),
        ("numa-placement", "which node each CPU belongs to"),
        ("load-imbalance", "threads that share work"),
        ("synchronisation", "several threads"),
    ] {
        let one = pattern(&stream, name);
        assert_eq!(one["state"], "unknown", "{one}");
        assert!(one["needs"].to_string().contains(needs), "{name}: {}", one["needs"]);
    }
}
