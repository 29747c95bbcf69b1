//! The first things people type, before they have read anything.

use std::{
    fs::OpenOptions,
    io::Read as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

fn memwall(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-profiles"));
    command.args(words).stdin(Stdio::null()).output().expect("memwall starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Flags that memwall has too, and dashes: all of them the program's.
const ECHO: [&str; 5] = ["/bin/echo", "--json", "-o", "--", "x"];

#[test]
fn a_program_and_its_flags_need_no_dashes_before_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let file = file.to_str().expect("a name");
    for before in [
        &[][..],
        &["run"],
        &["run", "--no-heap"],
        &["run", "--"],
        &["record", "-o", file],
        &["count", "-e", "page-faults"],
    ] {
        let output = memwall(&[before, &ECHO].concat());
        assert_eq!(text(&output.stdout), "--json -o -- x\n", "{before:?}: {}", text(&output.stderr));
        assert!(output.status.success(), "{before:?}: {}", text(&output.stderr));
    }
    assert!(Path::new(file).exists());
}

#[test]
fn what_is_no_program_and_no_command_is_answered_in_words() {
    for (words, wanted) in [
        (&["recrod", "/bin/true"][..], "'record'"),
        (&["no-such-program-anywhere"], "neither a command"),
        (&["./no-such-program", "-x"], "no such program; check the path"),
        (&["count", "./no-such-program"], "no such program; check the path"),
        (&["stat", "-e", "cycles", "/bin/true"], "memwall count"),
        (&["record", "-g", "/bin/true"], "--call-graph"),
        (&["run", "--json", "app.json", "/bin/true"], "--json=app.json"),
        (&["predict", "a.json", "--on", "sim:tiny", "--cache", "8M"], "leave --cache"),
        (&["predict", "a.json", "--machine", "sim:tiny", "--cache", "8M"], "leave --cache"),
    ] {
        let output = memwall(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(wanted) && output.stdout.is_empty(), "{words:?}: {said}");
    }
}

/// As everywhere: `--on`, and what it was called here.
#[test]
fn a_machine_is_predicted_for_by_the_flag_that_names_machines() {
    for flag in ["--on", "--machine"] {
        let said = text(&memwall(&["predict", "a.json", flag, "sim:tiny"]).stderr);
        assert!(said.contains("'memwall squeeze --calibrate --on sim:tiny'"), "{flag}: {said}");
        assert!(text(&memwall(&["predict", "a.json", flag, "tiny"]).stderr).contains("no such machine"));
    }
}

/// How often we said that the program's output goes elsewhere.
fn told(output: &Output) -> usize {
    text(&output.stderr).matches("goes to stderr").count()
}

#[test]
fn json_on_stdout_is_one_document_and_the_program_prints_beside_it() {
    for (words, schema) in [
        (&["run", "--json", "/bin/echo", "hello"][..], "memwall.run/1"),
        (&["count", "-e", "page-faults", "--runs", "2", "--json", "/bin/echo", "hello"], "memwall.count/1"),
    ] {
        let output = memwall(words);
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", text(&output.stdout)));
        assert_eq!(found["schema"], schema);
        assert!(text(&output.stderr).lines().any(|line| line == "hello"), "{}", text(&output.stderr));
        assert_eq!(told(&output), 1, "{}", text(&output.stderr));
    }
    let output = memwall(&["count", "-e", "page-faults", "--csv", "/bin/echo", "hello"]);
    assert!(!text(&output.stdout).contains("hello") && told(&output) == 1, "{}", text(&output.stdout));
}

#[test]
fn json_in_a_file_leaves_both_streams_to_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.json");
    let json = format!("--json={}", file.display());
    for words in [
        &["run", &json, "/bin/echo", "hello"][..],
        &["count", "-e", "page-faults", &json, "/bin/echo", "hello"],
    ] {
        let output = memwall(words);
        assert_eq!(text(&output.stdout), "hello\n", "{words:?}");
        assert_eq!(told(&output), 0, "{words:?}: {}", text(&output.stderr));
        serde_json::from_slice::<Value>(&std::fs::read(&file).expect("the file")).expect("one document");
    }
}

/// What appears on a terminal while memwall runs there.
fn on_a_terminal(words: &[&str]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("a name");
    let other_end = OpenOptions::new().read(true).write(true).open(name).expect("its other end");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-profiles"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(other_end);
    let mut running = command.spawn().expect("memwall starts");
    drop(command);
    let (mut seen, mut screen) = (Vec::new(), std::fs::File::from(terminal));
    // Ends with an error when nobody has the other end any more.
    let _ = screen.read_to_end(&mut seen);
    running.wait().expect("it ends");
    text(&seen)
}

#[test]
fn a_long_recording_tells_how_long_it_has_gone_on_and_a_short_one_nothing() {
    let seen = on_a_terminal(&["run", "sleep", "3.2"]);
    let told = seen.split_once("memwall: recording, ").and_then(|(_, rest)| rest.split_once(" s"));
    assert!(
        told.is_some_and(|(seconds, _)| seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0)),
        "{seen:?}"
    );
    // Gone before the report.
    let (last, report) = (seen.rfind("memwall: recording"), seen.find("Held back by memory"));
    assert!(last < report && seen.contains("\r\u{1b}[2K\r"), "{seen:?}");
    assert!(!on_a_terminal(&["run", "true"]).contains("memwall: recording"));
}

#[test]
fn a_long_recording_tells_what_it_has_come_to_so_far() {
    if !prerequisites::needs("sh") {
        return;
    }
    if !sampling_is_possible() {
        return prerequisites::skip(prerequisites::Need::PerfEvent, "nothing can be sampled");
    }
    // Busy for long enough that a second moment is looked at on a busy machine.
    let seen = on_a_terminal(&["run", "timeout", "8", "sh", "-c", "while :; do :; done"]);
    assert!(seen.contains(" s: so far ") && seen.contains("waits for memory"), "{seen:?}");
}

fn sampling_is_possible() -> bool {
    let output = memwall(&["run", "--need-samples", "true"]);
    output.status.success()
}
