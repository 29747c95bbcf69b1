//! `memwall scenario` as a user types it.

use assert_cmd::Command;
use predicates::{prelude::PredicateBooleanExt, str::contains};

fn memwall() -> Command {
    let mut command = Command::cargo_bin("memwall").expect("the program");
    command.arg("scenario");
    command
}

const MINE: &str = r#"
name = "mine"
about = "reads and computes"
threads = 1

[set]
size = "256K"

[[buffer]]
name = "data"
size = "$size"

[[region]]
name = "outer"
repeat = 3

[[region.region]]
name = "read"

[[region.region.step]]
kernel = "load"
buffer = "data"
passes = 10

[[region.region]]
name = "compute"

[[region.region.step]]
kernel = "fma-lanes"
passes = 20
"#;

fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a name").to_owned();
    (folder, path)
}

#[test]
fn the_list_names_all() {
    memwall().arg("--list").assert().success().stdout(
        contains("bandwidth-compute").and(contains("false-sharing")).and(contains("3 : 1 load imbalance")),
    );
}

#[test]
fn a_file_runs() {
    let (_folder, path) = file(MINE);
    memwall()
        .arg(&path)
        .assert()
        .success()
        .stdout(contains("reads and computes").and(contains("size=256K")).and(contains("  compute")));
}

#[test]
fn json_holds_every_entry_and_the_truth() {
    let (_folder, path) = file(MINE);
    let output = memwall().args([&path, "--json", "--set", "size=128K"]).output().expect("a run");
    let run: record::scenario::ScenarioRun = serde_json::from_slice(&output.stdout).expect("a run's JSON");
    assert_eq!((run.schema.as_str(), run.scenario.as_str(), run.scale), ("memwall.scenario/1", "mine", 1));
    let paths: Vec<_> = run.regions.iter().map(|region| (region.path.as_str(), region.depth)).collect();
    assert_eq!(paths, [("outer", 0), ("outer/read", 1), ("outer/compute", 1)]);
    let read = &run.regions[1].threads[0];
    assert_eq!((read.entries.len(), read.truth.data), (3, machine::Bytes::kib(128)));
    let streamed = 3.0 * 10.0 * (128 << 10) as f64;
    assert!((streamed..streamed * 1.01).contains(&read.truth.work.program_bytes));
}

#[test]
fn shipped_ones_run_small_on_the_cpus_there_are() {
    for name in ["imbalance", "producer-consumer", "working-set"] {
        memwall()
            .args([name, "--scale", "64", "--set", "rounds=2", "--oversubscribe"])
            .assert()
            .success()
            .stdout(contains("1/64 of the data").and(contains("rounds=2")));
    }
}

#[test]
fn mistakes_in_a_file_are_bad_usage_with_their_place() {
    for (from, to, expected) in [
        ("\"load\"", "\"lod\"", "mine.toml:21:11: unknown kernel 'lod'"),
        ("repeat = 3", "repeat = x", "mine.toml:15:10: "),
        ("passes = 20", "pases = 20", "mine.toml:30:1: unknown field `pases`"),
    ] {
        let (_folder, path) = file(&MINE.replace(from, to));
        let output =
            memwall().arg(&path).assert().code(2).stdout("").stderr(contains(expected)).get_output().clone();
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn what_cannot_be_is_bad_usage() {
    let (_folder, path) = file(&MINE.replace("threads = 1", "threads = 1000"));
    memwall()
        .arg(&path)
        .assert()
        .code(2)
        .stderr(contains("needs 1000 threads").and(contains("--oversubscribe")));
    memwall()
        .arg("nonesuch")
        .assert()
        .code(2)
        .stderr(contains("no scenario 'nonesuch'").and(contains("neither")));
    memwall().arg("./nonesuch.toml").assert().code(2).stderr(contains("cannot read scenario file"));
    memwall().arg("/dev/zero").assert().code(2).stderr(contains("not a regular file"));
    memwall()
        .args(["neither", "--set", "w=8M"])
        .assert()
        .code(2)
        .stderr(contains("no value 'w' to set; it has rounds"));
    memwall().args(["neither", "--set", "rounds"]).assert().code(2).stderr(contains("write NAME=VALUE"));
    memwall().args(["neither", "--scale", "0"]).assert().code(2).stderr(contains("a scale of 0"));
    memwall().args(["neither", "--cpus", "99999"]).assert().code(2).stderr(contains("no CPU 99999"));
    memwall().assert().code(2);
}

/// Whether the process catches SIGINT yet.
fn listens(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn an_interrupt_keeps_what_was_finished() {
    let (_folder, path) = file(&MINE.replace("repeat = 3", "repeat = 100000"));
    let program = assert_cmd::cargo::cargo_bin("memwall");
    let run = std::process::Command::new(program)
        .args(["scenario", &path])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a run");
    while !listens(run.id()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let sent = std::process::Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    let output = run.wait_with_output().expect("its end");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // On a slow machine it may not have come to the end of its first region.
    let kept = output.status.success() && out.contains("warning: interrupted") && out.contains("/100000");
    assert!(kept || err.contains("stopped before the first region"), "{out}{err}");
}

#[test]
fn help_has_examples() {
    memwall().arg("--help").assert().success().stdout(contains("memwall scenario stream-rate --set b=5GB/s"));
}

#[test]
fn a_simulated_scenario_becomes_a_recording_whose_regions_have_the_cycles_they_took() {
    let (folder, path) = file(MINE);
    let json = |words: &[&str]| -> serde_json::Value {
        let mut command = Command::cargo_bin("memwall").expect("the program");
        let output = command.env("XDG_DATA_HOME", folder.path()).args(words).output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    let recording = folder.path().join("mine.sqlite");
    let recording = recording.to_str().expect("a name");
    json(&["--on", "sim:tiny", "scenario", &path, "-o", recording]);
    let views = &json(&["report", recording, "--json"])["views"];
    let cycles = views["cycles"].as_u64().expect("cycles") as usize;
    assert_eq!(views["events"][cycles]["name"], "cycles");
    let timed = json(&["--on", "sim:tiny", "scenario", &path, "--json"]);
    let wall_ns = timed["wall_ns"].as_f64().expect("a time");
    for (name, kernel) in
        [("outer/read", "load in outer/read"), ("outer/compute", "fma-lanes in outer/compute")]
    {
        let regions = views["by_region"].as_array().expect("regions");
        let region = regions.iter().find(|region| region["name"] == name).expect("the region");
        let share = region["shares"][cycles].as_f64().expect("a share");
        let runs = timed["regions"].as_array().expect("regions");
        let entries =
            runs.iter().find(|run| run["path"] == name).expect("it ran")["threads"][0]["entries"].clone();
        let busy: f64 = entries
            .as_array()
            .expect("entries")
            .iter()
            .map(|entry| entry["end_ns"].as_f64().unwrap_or(0.0) - entry["start_ns"].as_f64().unwrap_or(0.0))
            .sum();
        assert!(
            (share - busy / wall_ns).abs() < 0.03,
            "{name}: {share} of cycles, {} of time",
            busy / wall_ns
        );
        let table = &region["tables"].as_array().expect("tables")[0];
        let symbol = table["rows"][0]["symbol"].as_u64().expect("a symbol") as usize;
        assert_eq!(views["symbols"][symbol]["signature"], kernel);
    }
    // A real machine runs programs, which 'record' samples.
    memwall().args([&path, "-o", recording]).assert().code(2).stderr(contains("--on sim:NAME"));
}

#[test]
fn what_is_recorded_is_given_in_every_form_too() {
    let (folder, path) = file(MINE);
    let told = |more: &[&str]| {
        let mut command = memwall();
        let words = [&[&path[..], "--on", "sim:tiny", "--set", "size=16K"], more].concat();
        command.current_dir(folder.path()).args(words).assert().success().get_output().stdout.clone()
    };
    let document = |text: &[u8]| -> serde_json::Value { serde_json::from_slice(text).expect("JSON") };
    let timed = document(&told(&["--json"]));
    // The older spelling too.
    for output in ["-o", "--record"] {
        assert_eq!(document(&told(&[output, "a.sqlite", "--json", "--text", "a.txt"])), timed, "{output}");
        let text = std::fs::read_to_string(folder.path().join("a.txt")).expect("the text");
        assert!(text.contains("  compute "), "{text}");
    }
    assert!(String::from_utf8_lossy(&told(&["-o", "a.sqlite"])).contains("  compute "));
}

#[test]
fn threads_that_share_a_cpu_are_refused_in_the_same_words_with_a_recording() {
    let (folder, path) = file(&MINE.replace("threads = 1", "threads = 100"));
    for more in [&[][..], &["-o", "a.sqlite"]] {
        let mut command = memwall();
        command.current_dir(folder.path()).args([&path, "--on", "sim:tiny", "--oversubscribe"]).args(more);
        command.assert().code(2).stderr(contains("on a simulated machine each thread needs a CPU"));
    }
}
