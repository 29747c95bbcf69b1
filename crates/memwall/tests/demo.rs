//! `memwall demo` as a newcomer types it. How right it is depends on the machine; that it says so does not.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn demo(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-profiles"));
    command
        .env_remove("COLUMNS")
        .arg("demo")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("memwall starts")
}

#[test]
fn it_reports_and_says_how_close_it_came() {
    let output = demo(&["--seconds", "0.2"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for wanted in ["Held back by memory", "How close is that?", "Right within what it says of itself:"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // Each phase is named beside what was measured of it and what is said of it.
    for phase in ["chase_through_memory", "walk_and_compute", "sum_in_first_cache"] {
        let has_row = |line: &str| {
            line.contains(phase) && ["right", "wrong", "left open"].iter().any(|word| line.contains(word))
        };
        assert!(said.lines().any(has_row), "{phase}: {said}");
    }
}

#[test]
fn its_truth_is_that_of_the_work() {
    let output = demo(&["--seconds", "0.2", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(found["schema"], "memwall.demo/1");
    assert_eq!(found["report"]["schema"], "memwall.run/1");
    let phases = found["phases"].as_array().expect("phases");
    // Missing where the machine was too busy to know.
    let truth = |at: usize| phases[at]["truth"]["value"]["value"].as_f64();
    assert!(truth(0).is_none_or(|share| share > 0.7), "a chase through 128 MiB waits: {}", phases[0]);
    assert!(truth(2).is_none_or(|share| share < 0.3), "a sum of 16 KiB does not: {}", phases[2]);
    assert!(phases.iter().all(|phase| phase["truth"] != Value::Null && phase["answer"] != Value::Null));
}
