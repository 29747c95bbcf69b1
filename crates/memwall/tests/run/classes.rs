//! The right class and the right function for every example.

use serde_json::Value;

use super::place::{Recorded, can_sample, example, functions, number};

/// What an example must show, as shares of user time.
struct Expected {
    command: &'static str,
    function: &'static str,
    /// Waits of these kinds together take at least the share.
    at_least: (&'static [&'static str], f64),
    /// The largest wait, unless others may be as large.
    largest: Option<&'static str>,
    /// How the hottest access walks.
    pattern: Option<&'static str>,
}

const fn expect(
    command: &'static str,
    function: &'static str,
    at_least: (&'static [&'static str], f64),
    largest: Option<&'static str>,
    pattern: Option<&'static str>,
) -> Expected {
    Expected { command, function, at_least, largest, pattern }
}

const LOADS: &[&str] = &["loads"];

const EXAMPLES: [Expected; 16] = [
    expect("chase", "chase", (LOADS, 0.6), Some("loads"), Some("pointer_chasing")),
    expect("chase --size L3", "chase", (LOADS, 0.6), Some("loads"), Some("pointer_chasing")),
    expect("chase --size L2", "chase", (LOADS, 0.5), Some("loads"), Some("pointer_chasing")),
    expect("chase --size L1", "chase", (LOADS, 0.5), Some("loads"), None),
    expect("chase --muls 24", "chase_dependent_24", (LOADS, 0.5), Some("loads"), None),
    expect("chase --muls 24 --size L1", "chase_dependent_24", (&["chains"], 0.6), Some("chains"), None),
    expect("chase --muls 24 --independent", "chase_independent_24", (LOADS, 0.5), Some("loads"), None),
    expect("stream", "triad", (&["loads", "stores"], 0.3), None, Some("streaming")),
    expect("store_stream", "write_buffer", (&["stores"], 0.4), Some("stores"), Some("streaming")),
    expect("multiply", "multiply_chain", (&["chains"], 0.6), Some("chains"), None),
    expect("divide", "divide_chain", (&["divides"], 0.5), Some("divides"), None),
    expect("branches", "count_heads", (&["branches"], 0.15), Some("branches"), None),
    expect("atomics", "add_atomically", (&["atomics"], 0.6), Some("atomics"), None),
    expect("hash_join", "probe", (LOADS, 0.4), Some("loads"), Some("random")),
    expect("chase_rs", "walk", (LOADS, 0.5), Some("loads"), Some("pointer_chasing")),
    expect("hash_join_rs", "hash_join_rs::probe", (LOADS, 0.4), Some("loads"), Some("random")),
];

/// Records an example for about so long.
fn record(command: &str, seconds: &str) -> Value {
    let mut words = command.split(' ');
    let program = example(words.next().expect("a program"));
    let arguments: Vec<&str> = words.chain(["--seconds", seconds]).collect();
    let recorded = Recorded::new(&[], &program, &arguments);
    assert!(recorded.output.status.success(), "{command}: {}", recorded.stderr());
    recorded.findings()
}

fn shares(findings: &Value, waits: &[&str]) -> f64 {
    waits.iter().map(|wait| number(findings, &format!("/overall/{wait}"))).sum()
}

/// The walk of the function's hottest instruction that has one.
fn pattern(findings: &Value) -> Option<&str> {
    let top = findings["symbols"][0]["top"].as_array()?.iter();
    let mut walks = top
        .filter_map(|index| findings["instructions"][index.as_u64()? as usize]["access"]["pattern"].as_str());
    walks.next()
}

fn problem(expected: &Expected, findings: &Value) -> Option<String> {
    let top = functions(findings).into_iter().next().unwrap_or_default();
    if !top.contains(expected.function) {
        return Some(format!("the hottest function is {top}"));
    }
    let (waits, least) = expected.at_least;
    let found = shares(findings, waits);
    if found < least {
        return Some(format!("{waits:?} take {found:.2} of user time"));
    }
    let largest = findings["verdict"]["largest"].as_str();
    if expected.largest.is_some() && largest != expected.largest {
        return Some(format!("the largest wait is {largest:?}"));
    }
    let walk = pattern(findings);
    if expected.pattern.is_some() && walk != expected.pattern {
        return Some(format!("the walk is {walk:?}"));
    }
    let undecided = shares(findings, &["undecided"]);
    (undecided > 0.3).then(|| format!("{undecided:.2} of user time is undecided"))
}

#[test]
fn each_example_shows_its_class_and_function() {
    if !can_sample() {
        return;
    }
    let mut problems = Vec::new();
    for expected in &EXAMPLES {
        let findings = record(expected.command, "0.6");
        if let Some(problem) = problem(expected, &findings) {
            problems.push(format!("{}: {problem}; {}", expected.command, findings["overall"]));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn code_that_lives_in_the_first_cache_does_not_wait_on_loads() {
    if !can_sample() {
        return;
    }
    for command in ["sum", "sum --dot", "chase --muls 24 --independent --size L1", "stream --size L1"] {
        let findings = record(command, "0.5");
        assert!(shares(&findings, LOADS) < 0.2, "{command}: {}", findings["overall"]);
    }
}

#[test]
fn a_stream_looks_like_bandwidth_and_a_chase_like_latency() {
    if !can_sample() {
        return;
    }
    for (command, nature) in [("stream", "bandwidth"), ("chase", "latency")] {
        let findings = record(command, "0.6");
        assert_eq!(findings["verdict"]["held_back"], "yes", "{command}: {}", findings["overall"]);
        assert!(findings["verdict"]["nature"].to_string().contains(nature), "{}", findings["verdict"]);
    }
}

/// Two free cores would show more; without them only who ran is certain.
#[test]
fn programs_of_several_threads_are_followed() {
    if !can_sample() {
        return;
    }
    let shared = record("false_sharing", "0.6");
    for function in ["count_left", "count_right"] {
        assert!(functions(&shared).iter().any(|name| name == function), "{}", shared["symbols"]);
    }
    let spinning = record("spinlock", "0.6");
    assert!(functions(&spinning).iter().take(4).any(|name| name == "lock_spin"), "{}", spinning["symbols"]);
    let uneven = record("imbalance", "1");
    assert_eq!(functions(&uneven)[0], "multiply_rows");
    let threads = uneven["threads"].as_array().expect("threads").iter();
    let mut times: Vec<f64> = threads.map(|thread| number(thread, "/account/user_ns")).collect();
    times.sort_by(f64::total_cmp);
    let [.., less, most] = times.as_slice() else { panic!("{}", uneven["threads"]) };
    // 1 to 3 by construction.
    assert!(*most > less * 1.6, "{times:?}");
}

#[test]
fn the_c_library_is_named_where_it_takes_the_time() {
    if !can_sample() {
        return;
    }
    let findings = record("allocator", "0.6");
    let symbols = findings["symbols"].as_array().expect("symbols");
    let in_library = symbols.iter().filter(|symbol| symbol["module"].to_string().contains("libc"));
    let share: f64 = in_library.map(|symbol| number(symbol, "/user_share/value")).sum();
    assert!(share > 0.2, "{}", findings["symbols"]);
    assert!(functions(&findings).iter().any(|name| name.contains("malloc") || name.contains("free")));
}

#[test]
fn only_the_phases_that_wait_are_flagged() {
    if !can_sample() {
        return;
    }
    let findings = record("phases", "2");
    let flagged = |name: &str| {
        let symbols = findings["symbols"].as_array().expect("symbols");
        let symbol = symbols.iter().find(|symbol| symbol["name"] == name).expect("the phase");
        number(symbol, "/flagged_share")
    };
    let (waiting, computing) = (flagged("waiting_phase"), flagged("compute_phase"));
    assert!(waiting > 0.5 && computing < 0.5 && waiting > computing + 0.3, "{waiting} {computing}");
}
