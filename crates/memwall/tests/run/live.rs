//! The example programs, watched while they run. What is asserted holds however busy the machine is: they end as they do
//! alone, and the function that does the work is among those that were seen.

use serde_json::Value;

use super::{
    expected::{EXAMPLES, IN_FIRST_CACHE},
    place::{Recorded, can_sample, example, functions},
};

/// Records an example for about so long.
fn record(command: &str, seconds: &str) -> Value {
    let mut words = command.split(' ');
    let program = example(words.next().expect("a program"));
    let arguments: Vec<&str> = words.chain(["--seconds", seconds]).collect();
    let recorded = Recorded::new(&[], &program, &arguments);
    assert!(recorded.output.status.success(), "{command}: {}", recorded.stderr());
    let found = recorded.findings();
    assert_eq!(found["about"]["ending"]["exited"], 0, "{command}");
    found
}

fn has(found: &Value, function: &str) -> bool {
    functions(found).iter().any(|name| name.contains(function))
}

#[test]
fn each_example_is_recorded_and_its_function_seen() {
    if !can_sample() {
        return;
    }
    for expected in &EXAMPLES {
        let found = record(expected.command, "0.3");
        assert!(has(&found, expected.function), "{}: {}", expected.command, found["symbols"]);
        // Shares of the same whole, whatever they are.
        let overall = found["overall"].as_object().expect("a split").iter();
        let parts = overall.filter(|(key, _)| *key != "samples").filter_map(|(_, part)| part.as_f64());
        assert!((parts.sum::<f64>() - 1.0).abs() < 1e-6, "{}: {}", expected.command, found["overall"]);
    }
    for (_, command) in IN_FIRST_CACHE {
        assert!(!functions(&record(command, "0.2")).is_empty(), "{command}");
    }
}

#[test]
fn each_thread_and_phase_of_an_example_is_seen() {
    if !can_sample() {
        return;
    }
    for (command, wanted) in [
        ("false_sharing", &["count_left", "count_right"][..]),
        ("spinlock", &["lock_spin"]),
        ("imbalance", &["multiply_rows"]),
        ("allocator", &["churn"]),
        ("phases", &["waiting_phase", "compute_phase"]),
    ] {
        let found = record(command, "1");
        for function in wanted {
            assert!(has(&found, function), "{command}, {function}: {}", found["symbols"]);
        }
    }
}
