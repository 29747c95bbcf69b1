//! `memwall bench`, `kernels`, `calibrate` and `profile` as a user types them. Nothing here asserts a time.

use std::{fs, path::Path};

use assert_cmd::{Command, assert::Assert};
use predicates::{prelude::PredicateBooleanExt, str::contains};
use serde_json::Value;

fn memwall(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("memwall").expect("the program");
    command.args(args);
    command
}

/// One clear line on stderr, nothing on stdout.
fn refused(args: &[&str], code: i32, expected: &str) -> Assert {
    let assert = memwall(args).assert().code(code).stdout("").stderr(contains(expected));
    let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
    assert
}

fn json(args: &[&str]) -> Value {
    let assert = memwall(args).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

#[test]
fn a_size_gives_a_table() {
    memwall(&["bench", "load", "--size", "16K", "--repeat", "7"])
        .assert()
        .success()
        .stdout(contains("16 KiB").and(contains("GB/s")).and(contains("\u{1b}").not()));
}

#[test]
fn json_holds_every_sample() {
    let bench = json(&["bench", "copy", "--size", "16K,32K", "--repeat", "8", "--json"]);
    assert_eq!(bench["schema"], "memwall.bench/1");
    let points = bench["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["samples_ns"].as_array().expect("samples").len(), 8);
        assert_eq!(point["stopped"], "repeats");
        let work = &point["work"];
        let program = work["program_bytes"].as_f64().expect("a number");
        // A copy loads and stores each byte once, and its stores bring their lines in first.
        assert_eq!(program, point["size"].as_f64().expect("a number"));
        assert_eq!(work["memory_bytes"].as_f64().expect("a number"), 1.5 * program);
    }
}

#[test]
fn csv_has_a_row_per_size() {
    let assert =
        memwall(&["bench", "sum", "--size", "16K..64K", "--repeat", "3", "--csv"]).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn every_kernel_runs() {
    let kernels = json(&["kernels", "--json"]);
    let kernels = kernels["kernels"].as_array().expect("kernels");
    assert!(kernels.len() > 30);
    let cpus = json(&["topology", "--json"])["cpus"].as_array().expect("cpus").len();
    for kernel in kernels {
        let name = kernel["name"].as_str().expect("a name");
        if !kernel["runs_here"].as_bool().expect("a bool")
            || kernel["threads"].as_u64().unwrap_or(1) > cpus as u64
        {
            continue;
        }
        let bench = json(&["bench", name, "--size", "96K", "--repeat", "1", "--json"]);
        let time = bench["points"][0]["time_ns"]["value"].as_f64().expect("a time");
        assert!(time > 0.0, "{name}");
    }
}

#[test]
fn bad_requests_are_said_in_one_line() {
    refused(&["bench", "load", "--size", "0"], 2, "size 0");
    refused(&["bench", "load", "--size", "sixteen"], 2, "is not a size");
    refused(&["bench", "load", "--size", "900000G"], 2, "memory");
    refused(&["bench", "lod", "--size", "16K"], 2, "unknown kernel 'lod'");
    refused(&["bench", "load", "--size", "16K", "--cpus", "100000"], 2, "100000");
    refused(&["bench", "load", "--size", "16K", "--node", "77"], 2, "77");
    refused(&["bench", "chase", "--size", "16K", "--width", "avx512"], 2, "has no avx512 version");
    refused(&["bench", "chase", "--size", "64"], 2, "at least 1 KiB");
    refused(&["bench", "chase", "--set", "muls=2"], 2, "no parameter 'muls'");
    refused(&["bench", "chase-dependent", "--set", "muls"], 2, "NAME=NUMBER");
    refused(&["bench", "load", "--precision", "7"], 2, "precision");
    refused(&["bench", "load", "--time", "0"], 2, "is no time");
    refused(&["bench", "load", "--kernel-file", "/nonexistent/k.toml"], 2, "cannot read kernel file");
    refused(&["calibrate", "--cpus", "100000", "--dry-run"], 2, "100000");
}

#[test]
fn an_unknown_width_is_bad_usage() {
    memwall(&["bench", "load", "--width", "mmx"]).assert().code(2).stderr(contains("unknown width 'mmx'"));
}

#[test]
fn a_kernel_file_is_used_and_its_errors_have_a_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mine.toml");
    let text = "[[kernel]]\nname = \"scale\"\nabout = \"A[i] = c * B[i]\"\nstreams = [\"A\", \"B\"]\n\
                constants = { c = 3.0 }\nbody = [\"x = mul c, [B]\", \"store A, x\"]\n";
    fs::write(&path, text).expect("written");
    let file = path.to_str().expect("a path");
    let bench = json(&["bench", "scale", "--kernel-file", file, "--size", "32K", "--repeat", "2", "--json"]);
    assert_eq!(bench["kernel"], "scale");
    fs::write(&path, text.replace("[B]", "[C]")).expect("written");
    refused(&["bench", "scale", "--kernel-file", file], 2, "mine.toml:6:22: there is no stream 'C'");
    refused(&["kernels", "--kernel-file", file], 2, "mine.toml:6:22");
}

/// The profile is kept where XDG says, shown again, and a changed machine is noticed.
#[test]
fn calibrate_keeps_a_profile_that_profile_shows() {
    let data = tempfile::tempdir().expect("a directory");
    let with_data = |args: &[&str]| {
        let mut command = memwall(args);
        command.env("XDG_DATA_HOME", data.path());
        command
    };
    with_data(&["profile"]).assert().code(1).stderr(contains("memwall calibrate"));
    with_data(&["calibrate", "--quick"]).assert().success().stdout(contains("L1").and(contains("claimed")));
    let shown = with_data(&["profile", "--json"]).assert().success();
    let profile: Value = serde_json::from_slice(&shown.get_output().stdout).expect("JSON");
    assert_eq!(profile["schema"], "memwall.profile/1");
    assert_eq!(profile["extent"]["complete"], true);
    assert_eq!(profile["validation"]["state"], "missing");
    assert!(profile["changed"].as_array().expect("a list").is_empty());
    memory_is_slower_than_the_first_level(&profile);
    // A program gets its probes now, of the sizes of the profile's own.
    // Six, or two on a machine that is too busy for more.
    assert!(profile["probes"].as_array().is_some_and(|probes| probes.len() >= 2), "{}", profile["probes"]);
    let ran = with_data(&["run", "--json", "--", "true"]).assert().success();
    let found: Value = serde_json::from_slice(&ran.get_output().stdout).expect("JSON");
    for moment in ["before", "after"] {
        let compared = &found["surroundings"][moment]["compared"];
        assert!(compared["memory_ns"]["now"].as_f64() > Some(0.0), "{}", found["surroundings"]);
    }
    with_data(&["profile"]).assert().success().stdout(contains("changed since").not());
    pretend_another_kernel(data.path());
    with_data(&["profile"])
        .assert()
        .success()
        .stdout(contains("has changed since").and(contains("kernel was '1.2.3'")));
}

#[test]
fn why_there_is_no_probe_is_said() {
    let data = tempfile::tempdir().expect("a directory");
    let surroundings = |args: &[&str]| {
        let ran = memwall(args).env("XDG_DATA_HOME", data.path()).assert().success();
        let found: Value = serde_json::from_slice(&ran.get_output().stdout).expect("JSON");
        found["surroundings"]["before"]["missing"].as_str().map(str::to_owned)
    };
    let reason = surroundings(&["run", "--json", "--", "true"]);
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("no profile")), "{reason:?}");
    assert_eq!(
        surroundings(&["run", "--no-probe", "--json", "--", "true"]).as_deref(),
        Some("not asked for")
    );
    memwall(&["run", "--verbose", "--", "true"])
        .env("XDG_DATA_HOME", data.path())
        .assert()
        .success()
        .stderr(contains("Probe before the program").and(contains("no profile")));
}

/// Memory answers later than the first level. (Levels between may be disturbed while other tests run; that each
/// is later than the one before it is tested on imagined machines.)
fn memory_is_slower_than_the_first_level(profile: &Value) {
    let latencies: Vec<f64> = profile["levels"]
        .as_array()
        .expect("levels")
        .iter()
        .filter_map(|level| level["latency_ns"]["value"].as_f64())
        .collect();
    assert!(latencies.len() >= 2, "{latencies:?}");
    assert!(latencies.first() < latencies.last(), "{latencies:?}");
}

fn pretend_another_kernel(data: &Path) {
    let profiles = data.join("memwall/profiles");
    let path =
        fs::read_dir(&profiles).expect("a directory").next().expect("a profile").expect("an entry").path();
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(&path).expect("text")).expect("JSON");
    profile["fingerprint"]["kernel"] = "1.2.3".into();
    profile["fingerprint"]["id"] = "0123456789abcdef".into();
    fs::write(profiles.join("0123456789abcdef.json"), profile.to_string()).expect("written");
    fs::remove_file(path).expect("removed");
}

#[test]
fn an_unwritable_data_directory_is_said_before_measuring() {
    let directory = tempfile::tempdir().expect("a directory");
    // A file where the directory should be stops even root.
    let file = directory.path().join("occupied");
    fs::write(&file, "").expect("written");
    memwall(&["calibrate"])
        .env("XDG_DATA_HOME", &file)
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("occupied").and(contains("XDG_DATA_HOME")));
    assert_eq!(fs::read_to_string(&file).expect("still there"), "", "nothing was half-written");
}

#[test]
fn a_damaged_profile_is_kept_and_named() {
    let data = tempfile::tempdir().expect("a directory");
    let profiles = data.path().join("memwall/profiles");
    fs::create_dir_all(&profiles).expect("made");
    let topology = memwall(&["topology", "--json"]).assert().success();
    assert!(!topology.get_output().stdout.is_empty());
    let damaged = profiles.join("feedfacefeedface.json");
    fs::write(&damaged, "{ not json").expect("written");
    memwall(&["profile"]).env("XDG_DATA_HOME", data.path()).assert().code(1);
    assert_eq!(fs::read_to_string(&damaged).expect("still there"), "{ not json");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_measured() {
    use std::{
        process::{Command as Process, Stdio},
        thread::sleep,
        time::{Duration, Instant},
    };
    let data = tempfile::tempdir().expect("a directory");
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("memwall"))
        .args(["calibrate", "--json"])
        .env("XDG_DATA_HOME", data.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    // Interrupt as soon as the first step was kept.
    let profiles = data.path().join("memwall/profiles");
    let began = Instant::now();
    let kept = || {
        fs::read_dir(&profiles).is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "json"))
            })
        })
    };
    while !kept() && began.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(20));
    }
    let status = Process::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
    let mut output = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().expect("piped"), &mut output).expect("text");
    assert!(child.wait().expect("ends").success());
    let profile: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(profile["extent"]["complete"], false);
    assert!(profile["overheads"].is_object(), "the first step was kept");
    memwall(&["profile"])
        .env("XDG_DATA_HOME", data.path())
        .assert()
        .success()
        .stdout(contains("not measured").or(contains("Not measured")));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::{Command as Process, Stdio};
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("memwall"))
        .arg("kernels")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn help_has_examples() {
    for command in ["bench", "calibrate", "profile", "kernels", "doctor", "topology"] {
        memwall(&[command, "--help"]).assert().success().stdout(contains("Examples:"));
    }
}
