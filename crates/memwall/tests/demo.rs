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
fn its_document_has_a_truth_and_an_answer_for_each_phase() {
    let output = demo(&["--seconds", "0.2", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(found["schema"], "memwall.demo/1");
    assert_eq!(found["report"]["schema"], "memwall.run/1");
    let phases = found["phases"].as_array().expect("phases");
    // Whatever else runs here: a share within its bounds, or the reason why there is none.
    for (phase, side) in phases.iter().flat_map(|phase| [(phase, "truth"), (phase, "answer")]) {
        let [low, value, high] = ["low", "value", "high"].map(|end| phase[side]["value"][end].as_f64());
        let is_share =
            low.is_some_and(|low| low >= 0.0) && low <= value && value <= high && high <= Some(1.0);
        assert!(is_share || phase[side]["missing"].is_string(), "{side}: {phase}");
    }
}
