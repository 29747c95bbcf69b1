//! `--relief` as a user types it. Whether it measures depends on the machine; that it says what it did, and leaves the
//! program as it is, does not.

use serde_json::Value;

use super::place::{Recorded, can_sample, eventually, example, memwall, signal};

#[test]
fn a_short_program_gets_none_and_is_told_so() {
    let recorded = Recorded::new(&["--relief"], std::path::Path::new("/bin/true"), &[]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let said = recorded.findings()["relief"]["refusal"].as_str().map(str::to_owned);
    assert_eq!(said.as_deref(), Some("the program ran for less than two seconds"));
}

#[test]
fn nobody_asked_and_nothing_is_said_of_a_short_run() {
    let recorded = Recorded::new(&[], std::path::Path::new("/bin/true"), &[]);
    assert_eq!(recorded.findings()["relief"], Value::Null);
}

#[test]
fn a_hot_loop_is_listed_with_a_share_or_a_reason() {
    if !can_sample() {
        return;
    }
    let recorded = Recorded::new(&["--relief"], &example("chase"), &["--seconds", "5"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let found = recorded.findings();
    let relief = &found["relief"];
    let loops = relief["loops"].as_array().cloned().unwrap_or_default();
    assert!(!loops.is_empty() || relief["refusal"].is_string(), "{relief}");
    for one in loops {
        let is_told = one["by_relief"].is_object() || one["refusal"].is_string();
        assert!(is_told, "{one}");
    }
    // Copies are no processes of the program.
    assert_eq!(found["about"]["processes"], 1);
    assert_eq!(found["about"]["ending"]["exited"], 0);
}

/// Relief has a thread of its own, which must not take signals that are the program's.
#[test]
fn a_signal_that_the_program_ignores_ends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ready");
    let script = format!("trap '' TERM; touch {}; sleep 1; echo went on", mark.display());
    let mut command = memwall();
    command.args(["run", "--relief", "sh", "-c", &script]).stdout(std::process::Stdio::piped());
    let running = command.stderr(std::process::Stdio::null()).spawn().expect("memwall starts");
    assert!(eventually(|| mark.exists()));
    signal("-TERM", running.id());
    let output = running.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "went on\n");
}
