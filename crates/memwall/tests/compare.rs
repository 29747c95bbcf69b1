//! `memwall compare` of programs that it runs itself, as CI types it.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn compare(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-profiles"));
    command
        .env_remove("COLUMNS")
        .arg("compare")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("memwall starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether others spoilt so many runs that memwall refuses to judge, as it should.
fn is_spoilt(output: &Output) -> bool {
    let said = text(&output.stderr);
    let is_spoilt = said.contains("too few runs are undisturbed");
    if is_spoilt {
        prerequisites::skip(prerequisites::Need::Quiet, said);
    }
    is_spoilt
}

#[test]
fn two_programs_are_run_in_turn_and_the_slower_one_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (json, page, comment) =
        (format!("--json={}", at("a.json")), at("a.html"), format!("--markdown={}", at("a.md")));
    let kept = at("kept");
    let words = ["--runs", "3", "--fail-on", "20%", "--keep", &kept, &json, "--html", &page, &comment, "--"];
    let output = compare(&[&words[..], &["sleep", "0.02", "--", "sleep", "0.5"]].concat());
    if is_spoilt(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("wall time grew by"), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&fs::read(at("a.json")).expect("a file")).expect("JSON");
    assert!(found["judgement"]["slower"]["ratio"].as_f64() > Some(1.0), "{}", found["judgement"]);
    assert_eq!((&found["before"], &found["after"]), (&"sleep 0.02".into(), &"sleep 0.5".into()));
    // It sleeps: whatever was added, the core did not do it.
    assert_eq!(found["causes"][0]["cause"], "blocked", "{}", found["causes"]);
    assert!(found["itself"].as_f64().is_some(), "it was compared with itself");
    let comment = fs::read_to_string(at("a.md")).expect("a file");
    assert!(
        comment.starts_with("**") && comment.contains("slower") && comment.contains("blocked"),
        "{comment}"
    );
    assert!(fs::read_to_string(&page).expect("a page").contains("blocked off the CPU"));
    // Two to warm up, two pairs of the first against itself, three pairs.
    assert_eq!(fs::read_dir(&kept).expect("a folder").count(), 2 + 4 + 6);
}

#[test]
fn the_same_program_is_no_slower_and_its_output_disturbs_nobody() {
    let output = compare(&["--runs", "2", "--fail-on", "400%", "--", "echo", "x", "--", "echo", "x"]);
    if is_spoilt(&output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).lines().any(|line| line == "x"), "{}", text(&output.stdout));
}

#[test]
fn a_program_that_fails_is_not_compared() {
    let output = compare(&["--runs", "2", "--", "true", "--", "false"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("false ended with exit code 1"), "{}", text(&output.stderr));
    for words in [&["--runs", "2", "--", "true"][..], &["a.sqlite"], &["a", "b", "c"]] {
        assert_eq!(compare(words).status.code(), Some(2), "{words:?}");
    }
}
