//! This machine with a validation that was written down: other commands must follow it.

use std::{fs, path::Path};

use machine::{Source, profile::Fingerprint, store::Store};
use serde_json::Value;
use trust::{Flaw, Indicator, Judged, OutOfSample, Purpose, SCHEMA, Threshold, Trust, Validation};
use validate::keep::Files;

use crate::{json, words};

const SHARES: Indicator = Indicator::ShareOfWaiting;

fn judged(name: Indicator, trust: Trust) -> Judged {
    Judged::new(name, Purpose::Software, "what it says", "software", trust)
}

fn broken() -> Trust {
    let flaw = Flaw::Factor { ratio: 2.0 };
    Trust::Broken { flaw, why: "counts everything twice".to_owned(), shown_by: "256 pages".to_owned() }
}

fn validation(fingerprint: Fingerprint, indicators: Vec<Judged>) -> Validation {
    Validation {
        schema: SCHEMA.to_owned(),
        fingerprint,
        simulated: None,
        instrument: "perf_event".to_owned(),
        measured_at: 1_700_000_000,
        memwall: "0".to_owned(),
        quick: false,
        runs: 1,
        complete: true,
        steps: Vec::new(),
        best: Vec::new(),
        indicators,
        thresholds: vec![Threshold {
            indicator: SHARES,
            value: 0.33,
            unit: "share".to_owned(),
            means: "half".to_owned(),
            how: "by hand".to_owned(),
        }],
        unseen: None,
        unseen_with_relief: None,
        sweeps: Vec::new(),
    }
}

fn here() -> Fingerprint {
    Fingerprint::read(&Source::live())
}

fn keep(home: &Path, id: &str, validation: &Validation) {
    let store = Store::at(home.join("memwall/profiles"));
    Files::beside(&store, id).save(validation).unwrap();
}

/// A data directory with a validation of this machine.
fn validated(indicators: Vec<Judged>) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    keep(home.path(), &here().id, &validation(here(), indicators));
    home
}

/// A program that computes for a while, under `memwall run`.
fn recorded(home: &Path) -> Value {
    let busy = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    json(home, &["run", "--json", "--", "sh", "-c", busy])
}

#[test]
fn a_kernel_event_found_broken_is_withheld_under_any_of_its_names() {
    let home = validated(vec![
        judged(Indicator::event("page-faults"), broken()),
        judged(Indicator::event("task-clock"), Trust::Trusted { error: 0.01 }),
    ]);
    let text = words(home.path(), &["count", "-e", "faults,task-clock,cpu-migrations", "--", "true"]);
    assert!(text.contains("withheld") && text.contains("counts everything twice"), "{text}");
    assert!(text.contains("trusted, 1.0 %") && text.contains("untested: cpu-migrations"), "{text}");
    assert!(text.contains("2023-11-14"), "the date of the validation: {text}");
}

#[test]
fn a_run_uses_the_threshold_of_this_machine_and_its_error_on_random_kernels() {
    let home = validated(vec![judged(SHARES, Trust::Trusted { error: 0.02 })]);
    let found = recorded(home.path());
    assert_eq!(found["timeline"]["threshold"], 0.33);
    assert_eq!(found["timeline"]["measured_here"], true);
    assert_eq!(found["verdict"]["trust"]["value"]["trust"], "trusted");
    // Files of before say how right shares are on kernels that rules were made on: that makes nobody sure.
    let reasons = found["verdict"]["reasons"].to_string();
    assert!(found["overall"].is_null() || reasons.contains("tried no random kernels"), "{reasons}");
    assert_ne!(found["verdict"]["confidence"], "high");
    let mut unseen = OutOfSample::flawless();
    unseen.parts.iter_mut().for_each(|one| one.errors.within = Some(0.07));
    let kept = Validation { unseen: Some(unseen), ..validation(here(), Vec::new()) };
    keep(home.path(), &here().id, &kept);
    let found = recorded(home.path());
    let reasons = found["verdict"]["reasons"].to_string();
    assert!(found["overall"].is_null() || reasons.contains("right to 7 points"), "{reasons}");
}

#[test]
fn an_instrument_that_failed_here_gives_no_verdict() {
    let home = validated(vec![judged(SHARES, broken())]);
    let found = recorded(home.path());
    assert_eq!(found["verdict"]["held_back"], "unknown");
    assert_eq!(found["verdict"]["confidence"], "low");
}

#[test]
fn without_a_validation_the_general_threshold_holds_and_that_is_said() {
    let home = tempfile::tempdir().unwrap();
    let found = recorded(home.path());
    assert_eq!(found["timeline"]["measured_here"], false);
    assert!(found["verdict"]["trust"]["missing"].as_str().unwrap().contains("'memwall validate'"));
    assert!(found["remarks"].to_string().contains("was not tried here"), "{}", found["remarks"]);
}

#[test]
fn the_validation_of_another_machine_is_not_used_and_that_is_said() {
    let home = tempfile::tempdir().unwrap();
    let other = Fingerprint { id: "0123456789abcdef".to_owned(), kernel: "0.0.1".to_owned(), ..here() };
    keep(
        home.path(),
        &other.id,
        &validation(other.clone(), vec![judged(Indicator::event("page-faults"), broken())]),
    );
    let counts = json(home.path(), &["count", "-e", "page-faults", "--json", "--", "true"]);
    assert_eq!(counts["validation"]["state"], "missing");
    let reason = counts["validation"]["reason"].as_str().unwrap();
    assert!(reason.contains("kernel was '0.0.1'") && reason.contains("'memwall validate'"), "{reason}");
    assert!(counts["runs"][0]["counts"][0]["value"]["counted"].is_object(), "{counts}");
    let text = words(home.path(), &["doctor"]);
    assert!(text.contains("is not of this machine as it is now"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_stops_nothing() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("memwall/trust");
    fs::create_dir_all(&folder).unwrap();
    let file = format!("{}.json", here().id);
    fs::write(folder.join(&file), "{\"schema\": 7}").unwrap();
    for arguments in
        [&["count", "-e", "page-faults", "--", "true"][..], &["doctor"], &["events", "page-faults"]]
    {
        let text = words(home.path(), arguments);
        assert!(text.contains(&file) && text.contains("cannot read"), "{text}");
    }
}

#[test]
fn an_old_validation_is_said_to_be_old() {
    let home = validated(vec![judged(Indicator::event("page-faults"), Trust::Trusted { error: 0.0 })]);
    let text = words(home.path(), &["doctor"]);
    assert!(text.contains("days ago") && text.contains("it is old; run 'memwall validate' again"), "{text}");
}
