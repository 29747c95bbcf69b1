//! Programs that trouble a profiler, and troubles of the profiler itself: the recording is readable, nothing hangs, and
//! nobody is left behind.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
    thread::sleep,
    time::Duration,
};

use super::place::{
    Recorded, can_sample, children_of, ended, eventually, example, findings, functions, memwall, signal,
    start_recording,
};

/// Runs an odd program watched and not; output and exit code must be the same.
fn same(name: &str, arguments: &[&str]) -> Recorded {
    let program = example(name);
    let plain = Command::new(&program).args(arguments).output().expect("it starts");
    let recorded = Recorded::new(&[], &program, arguments);
    assert_eq!(recorded.stdout(), String::from_utf8_lossy(&plain.stdout), "{name}: {}", recorded.stderr());
    let code = plain.status.code();
    assert!(code.is_none() || recorded.output.status.code() == code, "{name}: {}", recorded.stderr());
    recorded
}

/// Whether a process is there and no zombie.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_thousand_forks_are_counted() {
    let recorded = same("odd/forks", &["--steps", "1000"]);
    let found = recorded.findings();
    assert!(!can_sample() || found["about"]["processes"].as_u64() > Some(900), "{}", found["about"]);
}

#[test]
fn a_program_that_becomes_another_is_followed() {
    let recorded = same("odd/execs", &["--rounds", "40"]);
    assert_eq!(recorded.stdout().matches("ended on line").count(), 2);
    assert_eq!(recorded.findings()["about"]["ending"]["exited"], 0);
}

#[test]
fn a_library_that_comes_and_goes_keeps_its_names() {
    let recorded = same("odd/dlopens", &["--rounds", "12"]);
    let found = recorded.findings();
    let is_seen = found["about"]["samples"].as_u64() > Some(50);
    assert!(!is_seen || functions(&found).iter().any(|name| name == "hot_function"), "{}", found["symbols"]);
}

#[test]
fn a_program_that_drops_its_privileges_is_recorded_on() {
    // Its folder must be open to whom it becomes, as anybody's would be.
    let recorded = same("odd/drops_privileges", &["--rounds", "60"]);
    assert_eq!(recorded.findings()["about"]["ending"]["exited"], 0);
}

#[test]
fn a_deleted_executable_is_recorded_and_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("deletes_itself");
    prerequisites::copy_program(&example("odd/deletes_itself"), &copy);
    let recorded = Recorded::new(&[], &copy, &["--rounds", "60"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    assert!(recorded.stdout().contains("ended on line") && !copy.exists());
    let found = recorded.findings();
    assert_eq!(found["about"]["ending"]["exited"], 0);
    let is_seen = found["symbols"].to_string().contains("deletes_itself");
    let said = found["remarks"].to_string();
    assert!(!is_seen || said.contains("deletes_itself"), "{said}");
}

#[test]
fn a_crash_is_passed_on_and_said() {
    let recorded = same("odd/crashes", &["--rounds", "40"]);
    assert_eq!(recorded.output.status.code(), Some(128 + 11));
    let found = recorded.findings();
    assert_eq!(found["about"]["ending"]["signalled"], 11, "{}", found["about"]);
    let report = memwall().arg("report").arg(recorded.file()).output().expect("memwall");
    assert!(String::from_utf8_lossy(&report.stdout).contains("signal"), "{:?}", report.stdout);
}

/// A long recording of a program, with the number of that program.
fn long_recording(file: &Path, program: &str) -> (Child, u32) {
    let recording = start_recording(file, program, &["--seconds", "60"]);
    let program = children_of(recording.id())[0];
    sleep(Duration::from_millis(1500));
    (recording, program)
}

#[test]
fn a_program_killed_outright_ends_the_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let (mut recording, program) = long_recording(&file, "multiply");
    signal("-KILL", program);
    assert_eq!(recording.wait().expect("it ends").code(), Some(128 + 9));
    assert_eq!(findings(&file)["about"]["ending"]["signalled"], 9);
    assert!(!is_alive(program));
}

#[test]
fn memwall_killed_outright_leaves_the_program_alone_and_a_readable_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let (mut recording, program) = long_recording(&file, "multiply");
    recording.kill().expect("killed");
    recording.wait().expect("it ends");
    let goes_on = is_alive(program);
    signal("-KILL", program);
    assert!(goes_on, "the program goes on");
    let found = findings(&file);
    assert_eq!(found["about"]["ending"], "unknown", "{}", found["about"]);
    assert!(found["remarks"].to_string().contains("ends early"), "{}", found["remarks"]);
    assert!(eventually(|| !is_alive(program)));
}

#[test]
fn signals_that_the_program_ignores_end_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let recording = start_recording(&file, "odd/ignores_signals", &["--seconds", "2"]);
    sleep(Duration::from_millis(600));
    for name in ["-INT", "-TERM", "-HUP"] {
        signal(name, recording.id());
    }
    let (code, said) = ended(recording, &file);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(findings(&file)["about"]["ending"]["exited"], 0);
}

/// Where perf_event is refused, the program runs all the same, and the report says why it knows so little.
#[test]
fn without_perf_event_the_rest_is_recorded_and_the_reason_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let mut command = Command::new(example("odd/denied"));
    command.arg(env!("CARGO_BIN_EXE_memwall")).args(["record", "-o"]).arg(&file).arg("--");
    let output = command.arg(example("odd/exits")).args(["--rounds", "60"]).output().expect("it starts");
    if output.status.code() == Some(125) {
        prerequisites::skip(prerequisites::Need::Seccomp, String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(37), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("recorded without samples: EACCES"));
    let found = findings(&file);
    assert_eq!(found["verdict"]["held_back"], "unknown");
    assert!(found["remarks"].to_string().contains("the kernel refused them"), "{}", found["remarks"]);
    assert!(found["account"]["user_ns"].as_f64() > Some(0.0), "{}", found["account"]);
    let mut command = Command::new(example("odd/denied"));
    command.arg(env!("CARGO_BIN_EXE_memwall")).args(["run", "--need-samples", "--", "true"]);
    assert_eq!(command.output().expect("it starts").status.code(), Some(1));
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.sqlite");
    let script = "ulimit -f 600; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", env!("CARGO_BIN_EXE_memwall"), "record", "--rate", "20000", "-o"]);
    command.arg(&file).arg("--").arg(example("odd/exits")).args(["--seconds", "3"]);
    let output = command.output().expect("bash starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(37), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ended on line"));
    let found = findings(&file);
    // A machine too busy for samples fills no disk.
    if said.contains("the recording stopped early") {
        assert!(
            found["remarks"].to_string().contains("stopped before the program did"),
            "{}",
            found["remarks"]
        );
        let kept = found["about"]["samples"].as_u64().expect("a number");
        assert!(said.contains(&format!("{kept} samples in")), "{kept}: {said}");
    }
}
