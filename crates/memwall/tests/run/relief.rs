//! `--relief` as a user types it. Whether it measures depends on the machine; that it says what it did, and leaves the
//! program as it is, does not.

use serde_json::Value;

use super::place::{Recorded, can_sample, example};

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
