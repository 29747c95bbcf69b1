//! What is printed where, and what is kept.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::place::{
    Recorded, can_sample, children_of, eventually, example, findings, functions, memwall, signal,
    start_recording, user_ticks,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn output_and_exit_code_pass_through_and_the_report_goes_to_stderr() {
    let exits = example("odd/exits");
    let plain = Command::new(&exits).args(["--rounds", "40"]).output().expect("it starts");
    let output =
        memwall().args(["run", "--"]).arg(&exits).args(["--rounds", "40"]).output().expect("memwall");
    assert_eq!((output.status.code(), plain.status.code()), (Some(37), Some(37)));
    assert_eq!(text(&output.stdout), text(&plain.stdout));
    let report = text(&output.stderr);
    // Where a line breaks depends on how long the path of the program is.
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Held back by memory:") && words.contains("exit code 37"), "{report}");
    assert!(!report.contains('\u{1b}'), "colours in a pipe: {report:?}");
}

#[test]
fn json_has_a_schema_and_goes_to_a_file_if_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.json");
    let mut command = memwall();
    command.args(["run", "--json", "--to"]).arg(&file).arg("--");
    let output = command.arg(example("odd/exits")).args(["--rounds", "40"]).output().expect("memwall");
    assert_eq!(text(&output.stdout).lines().count(), 1, "only the program's own line");
    let found: Value = serde_json::from_slice(&fs::read(&file).expect("the file")).expect("JSON");
    assert_eq!(found["schema"], "memwall.run/1");
    for key in ["about", "verdict", "account", "threads", "symbols", "instructions", "timeline", "limits"] {
        assert!(!found[key].is_null(), "{key}");
    }
    if can_sample() {
        let overall = found["overall"].as_object().expect("a split");
        let parts = overall.iter().filter(|(key, _)| *key != "samples").filter_map(|(_, part)| part.as_f64());
        assert!((parts.sum::<f64>() - 1.0).abs() < 1e-6, "{overall:?}");
    }
}

#[test]
fn a_text_report_goes_to_a_file_if_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.txt");
    let mut command = memwall();
    command.args(["--color", "always", "run", "--to"]).arg(&file).args(["--", "true"]);
    let output = command.output().expect("memwall");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = fs::read_to_string(&file).expect("the file");
    assert!(report.contains("Held back by memory:") && !report.contains('\u{1b}'), "{report}");
}

#[test]
fn a_program_that_does_not_exist_gives_one_line_and_exit_code_2() {
    let output = memwall().args(["run", "--", "./no-such-program"]).output().expect("memwall");
    assert_eq!(output.status.code(), Some(2));
    let line = text(&output.stderr);
    assert!(line.contains("no-such-program") && line.trim_end().lines().count() == 1, "{line}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_process_that_does_not_exist_gives_one_line_and_exit_code_2() {
    let output = memwall().args(["run", "--pid", "999999999"]).output().expect("memwall");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr).trim_end().lines().count(), 1, "{}", text(&output.stderr));
}

/// One line that names the file, and exit code 1.
fn refused(file: &Path) {
    let output = memwall().arg("report").arg(file).output().expect("memwall");
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    assert!(line.contains(file.file_name().expect("a name").to_string_lossy().as_ref()), "{line}");
}

#[test]
fn what_is_no_recording_is_refused_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = folder.path().join("garbage.sqlite");
    fs::write(&garbage, b"this is no recording, whatever its name says").expect("written");
    refused(&garbage);
    fs::write(&garbage, b"").expect("written");
    refused(&garbage);
    refused(&folder.path().join("missing.sqlite"));
    let recorded = Recorded::new(&[], &example("odd/exits"), &["--rounds", "40"]);
    let whole = fs::read(recorded.file()).expect("the recording");
    let truncated = folder.path().join("truncated.sqlite");
    fs::write(&truncated, &whole[..whole.len() / 3]).expect("written");
    refused(&truncated);
}

#[test]
fn a_running_process_is_attached_to_and_left_alone() {
    let mut program = Command::new(example("chase"))
        .args(["--size", "L2", "--seconds", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut command = memwall();
    command.args(["run", "--json", "--duration", "0.5", "--pid", &program.id().to_string()]);
    let output = command.output().expect("memwall");
    let goes_on = program.try_wait().expect("its state").is_none();
    program.kill().and_then(|()| program.wait()).expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(goes_on, "the program was left alone");
    // Whom, and how to end it.
    let said = text(&output.stderr);
    let whom = format!("recording process {} (chase) for 0.5 s, or until Ctrl-C", program.id());
    assert!(said.contains(&whom), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["about"]["attached"], program.id());
    assert_eq!(found["about"]["ending"], "detached");
    if can_sample() {
        assert!(functions(&found).iter().any(|name| name == "chase"), "{}", found["symbols"]);
    }
}

#[test]
fn a_duration_ends_the_recording_and_not_the_program() {
    let arguments = ["--size", "L2", "--seconds", "2"];
    let recorded = Recorded::new(&["--duration", "0.2"], &example("chase"), &arguments);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    assert!(recorded.stdout().contains("chase:"), "the program went on to its end");
    let found = recorded.findings();
    let last = found["timeline"]["intervals"].as_array().and_then(|intervals| {
        intervals.iter().rev().find(|interval| interval["samples"].as_u64() > Some(0))?["start_ns"].as_u64()
    });
    // The program alone takes two seconds.
    assert!(last < Some(1_500_000_000), "a sample at {last:?} ns");
    assert!(!can_sample() || last.is_some(), "no sample at all");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let mut recording = start_recording(&file, "chase", &["--size", "L2", "--seconds", "60"]);
    let program = children_of(recording.id())[0];
    assert!(eventually(|| user_ticks(program) >= 20), "it runs");
    signal("-INT", recording.id());
    let status = recording.wait().expect("it ends");
    // memwall passes it on, and the program dies of it.
    assert_eq!(status.code(), Some(130));
    let found = findings(&file);
    assert_eq!(found["about"]["ending"]["signalled"], 2, "{}", found["about"]);
    assert!(!can_sample() || found["about"]["samples"].as_u64() > Some(20), "{}", found["about"]);
}

#[test]
fn comparing_fails_only_beyond_the_limit_that_was_set() {
    let [little, much] = ["60", "1200"]
        .map(|rounds| [0; 3].map(|_| Recorded::new(&[], &example("odd/exits"), &["--rounds", rounds])));
    let compare = |arguments: &[&str]| {
        let mut command = memwall();
        command.arg("compare").arg("--before").args(little.iter().map(Recorded::file));
        command.arg("--after").args(much.iter().map(Recorded::file)).args(arguments);
        command.output().expect("memwall")
    };
    let told = compare(&[]);
    assert!(told.status.success() && !told.stdout.is_empty(), "{}", text(&told.stderr));
    assert!(compare(&["--fail-on", "1000000%"]).status.success());
    assert_eq!(compare(&["--fail-on", "much"]).status.code(), Some(2));
    let json: Value = serde_json::from_slice(&compare(&["--json"]).stdout).expect("JSON");
    assert_eq!(json["schema"], "memwall.compare/1");
    let slower = compare(&["--fail-on", "20%"]);
    let grown = json["judgement"]["slower"]["ratio"].as_f64();
    if slower.status.success() {
        // Others took so much that twenty times the work cannot be told from noise.
        assert!(
            grown.is_none() && text(&slower.stdout).contains("can be told here"),
            "{}",
            text(&slower.stdout)
        );
        return prerequisites::skip(prerequisites::Need::Quiet, text(&slower.stdout));
    }
    assert!(grown.is_none_or(|grown| grown > 0.2), "{}", json["judgement"]);
    assert_eq!(slower.status.code(), Some(1), "{}", text(&slower.stdout));
    assert!(text(&slower.stderr).contains("grew by"), "{}", text(&slower.stderr));
}

/// Whatever one run a side seems to say, nobody knows how much the program varies.
#[test]
fn one_run_on_a_side_fails_nothing() {
    let [little, much] =
        ["60", "400"].map(|rounds| Recorded::new(&[], &example("odd/exits"), &["--rounds", rounds]));
    let compare = |arguments: &[&str]| {
        let mut command = memwall();
        command.arg("compare").arg(little.file()).arg(much.file()).args(arguments);
        command.output().expect("memwall")
    };
    let told = compare(&["--fail-on", "20%"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    assert!(text(&told.stderr).contains("cannot be told"), "{}", text(&told.stderr));
    assert!(text(&told.stdout).starts_with("Whether it changed cannot be told"), "{}", text(&told.stdout));
    assert_eq!(compare(&["--fail-on", "20%", "--fail-on-unknown"]).status.code(), Some(3));
}

#[test]
fn narrow_terminals_are_kept_to() {
    let recorded = Recorded::new(&[], &example("odd/exits"), &["--rounds", "60"]);
    for columns in [40usize, 60, 100] {
        let mut command = memwall();
        command.arg("report").arg(recorded.file()).env("COLUMNS", columns.to_string());
        let report = text(&command.output().expect("memwall").stdout);
        let widest = report.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        // The command and single long words are never cut.
        let wide = report.lines().skip(1).filter(|line| line.chars().count() > columns);
        assert!(wide.count() <= 1, "{widest} in {columns}:\n{report}");
    }
}
