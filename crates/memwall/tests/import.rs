//! `memwall import` on the real binary, on what the perf at hand records and counts.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// A shell that counts: a handful of functions, again and again.
const SPIN: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"];

fn memwall(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(cargo_bin("memwall")).args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Records into a file with perf, with a store of build ids of its own.
fn run_perf(folder: &Path, options: &[&str], file: &str, program: &[&str]) -> Output {
    let mut command = Command::new("perf");
    command.arg("--buildid-dir").arg(folder.join("build-ids")).arg("record").args(options);
    command.args(["-o", file, "--"]).args(program).current_dir(folder).stdout(Stdio::null());
    command.output().unwrap()
}

/// Records with perf; false if it may not.
fn perf_record(folder: &Path, options: &[&str], file: &str) -> bool {
    let done = run_perf(folder, options, file, &SPIN);
    if !done.status.success() {
        prerequisites::skip(prerequisites::Need::PerfEvent, said(&done));
    }
    done.status.success()
}

fn document(folder: &Path, recording: &str) -> Value {
    let told = memwall(folder, &["report", recording, "--json"]);
    assert!(told.status.success(), "{}", said(&told));
    serde_json::from_slice(&told.stdout).unwrap()
}

/// Share of user time of each function.
fn shares(document: &Value) -> BTreeMap<String, f64> {
    let symbols = document["symbols"].as_array().unwrap();
    let name = |symbol: &Value| format!("{} {}", symbol["name"], symbol["module"]);
    symbols.iter().map(|symbol| (name(symbol), symbol["user_share"]["value"].as_f64().unwrap())).collect()
}

#[test]
fn perf_and_memwall_name_the_same_functions() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    if !perf_record(here, &["-e", "cpu-clock:u", "-F", "1000"], "perf.data") {
        return;
    }
    let imported = memwall(here, &["import", "perf.data", "-o", "perf.sqlite"]);
    assert!(imported.status.success(), "{}", said(&imported));
    let recorded = memwall(here, &[&["record", "--no-probe", "-o", "own.sqlite", "--"], &SPIN[..]].concat());
    assert!(recorded.status.success(), "{}", said(&recorded));
    let [by_perf, own] = ["perf.sqlite", "own.sqlite"].map(|file| document(here, file));
    let [of_perf, of_own] = [&by_perf, &own].map(shares);
    let samples = |document: &Value| document["about"]["samples"].as_f64().unwrap();
    let [by_perf, by_own] = [samples(&by_perf), samples(&own)];
    assert!(by_perf.min(by_own) > 50.0, "too few samples: {by_perf} and {by_own}");
    let mut compared = 0;
    for name in of_perf.keys().chain(of_own.keys()) {
        let [perf, own] = [&of_perf, &of_own].map(|shares| shares.get(name).copied().unwrap_or(0.0));
        // Two shares of so many samples differ by chance: four standard deviations of the difference, and single samples.
        let share = (perf * by_perf + own * by_own) / (by_perf + by_own);
        let noise =
            4.0 * (share * (1.0 - share) * (1.0 / by_perf + 1.0 / by_own)).sqrt() + 4.0 / by_perf.min(by_own);
        assert!((perf - own).abs() < noise, "{name}: {perf} by perf, {own} by memwall, noise {noise}");
        compared += u32::from(perf.min(own) > 0.05);
    }
    assert!(compared > 0, "{of_perf:?}");
}

#[test]
fn every_view_works_on_an_import_and_says_that_it_is_untested() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    if !perf_record(here, &["-g", "-e", "cpu-clock,page-faults"], "perf.data") {
        return;
    }
    let counted = Command::new("perf")
        .args(["stat", "-x,", "-o", "counts.csv", "-e", "task-clock,page-faults", "--"])
        .args(SPIN)
        .current_dir(here)
        .status()
        .unwrap();
    assert!(counted.success());
    let imported = memwall(here, &["import", "perf.data", "counts.csv", "-o", "a.sqlite"]);
    assert!(imported.status.success() && imported.stdout.is_empty(), "{}", said(&imported));
    assert!(said(&imported).contains("(untested)") && said(&imported).contains("samples of cpu-clock"));
    let mode = fs::metadata(here.join("a.sqlite")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "arguments may hold passwords");
    let text = String::from_utf8(memwall(here, &["report", "a.sqlite"]).stdout).unwrap();
    for words in ["Trust: untested", "perf.data", "page-faults", "task-clock"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let told = document(here, "a.sqlite");
    // The file may come from anywhere: nothing is said of the machine at hand, nor of options that perf does not have.
    let verbose = String::from_utf8(memwall(here, &["report", "a.sqlite", "--verbose"]).stdout).unwrap();
    for words in ["this machine", "This machine", "--rate", "memwall calibrate", "--no-heap"] {
        for said in [&text, &verbose, &told.to_string()] {
            assert!(!said.contains(words), "{words}: {said}");
        }
    }
    assert_eq!(told["import"]["was_validated"], false);
    assert_eq!(told["import"]["counts"][0]["events"].as_array().unwrap().len(), 2);
    assert!(
        told["verdict"]["confidence"] != "high",
        "nothing of that machine was tried: {}",
        told["verdict"]
    );
    let events = told["import"]["events"].as_array().unwrap();
    assert_eq!(events[1]["name"], "page-faults");
    assert!(!events[1]["functions"].as_array().unwrap().is_empty());
    let page = memwall(here, &["report", "a.sqlite", "--html", "a.html"]);
    assert!(page.status.success());
    let page_text = fs::read_to_string(here.join("a.html")).unwrap();
    assert!(page_text.contains("Trust: untested") && page_text.contains("Its machine"));
    assert!(!page_text.contains("This machine") && !page_text.contains("No hardware counter"));
    let folded = memwall(here, &["report", "a.sqlite", "--folded", "-"]);
    assert!(!folded.stdout.is_empty());
    assert!(memwall(here, &["compare", "a.sqlite", "a.sqlite"]).status.success());
    // The older one is kept, as `record` does.
    let again = memwall(here, &["import", "perf.data", "-o", "a.sqlite"]);
    assert!(again.status.success() && said(&again).contains("a.sqlite.old"), "{}", said(&again));
}

#[test]
fn a_pipe_is_imported_while_it_is_written() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut perf = Command::new("perf");
    perf.args(["record", "-B", "-e", "cpu-clock", "-o", "-", "--"]).args(SPIN);
    let mut perf = perf.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut memwall = Command::new(cargo_bin("memwall"));
    memwall.args(["import", "-", "-o", "a.sqlite"]).current_dir(folder.path());
    let imported = memwall.stdin(perf.stdout.take().unwrap()).output().unwrap();
    if !perf.wait().unwrap().success() {
        return prerequisites::skip(prerequisites::Need::PerfEvent, "perf may not record");
    }
    assert!(imported.status.success(), "{}", said(&imported));
    assert!(document(folder.path(), "a.sqlite")["about"]["samples"].as_u64().unwrap() > 0);
}

#[test]
fn what_cannot_be_imported_is_told_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("notes.txt"), "hello\n").unwrap();
    fs::write(here.join("cut.data"), [&b"PERFILE2"[..], &104u64.to_ne_bytes()].concat()).unwrap();
    fs::create_dir(here.join("threads")).unwrap();
    for (file, code, words) in [
        ("missing.data", 2, "no such file"),
        ("notes.txt", 2, "neither perf.data nor"),
        ("threads", 2, "--threads"),
        ("cut.data", 1, "damaged perf.data"),
    ] {
        let refused = memwall(here, &["import", file, "-o", "a.sqlite"]);
        assert_eq!(refused.status.code(), Some(code), "{file}: {}", said(&refused));
        assert!(said(&refused).contains(words) && said(&refused).lines().count() == 1, "{}", said(&refused));
        assert!(!here.join("a.sqlite").exists() && !here.join("a.sqlite.part").exists());
    }
    let counts = "5,,page-faults,7,100.00,,\n";
    fs::write(here.join("counts.csv"), counts).unwrap();
    let occupied = memwall(here, &["import", "counts.csv", "-o", "notes.txt"]);
    assert_eq!(occupied.status.code(), Some(1), "{}", said(&occupied));
    assert_eq!(fs::read_to_string(here.join("notes.txt")).unwrap(), "hello\n");
    assert_eq!(memwall(here, &["import"]).status.code(), Some(2));
}

#[test]
fn kernel_functions_are_named_by_the_kernel_that_runs() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // Reading and writing goes through the kernel.
    let copy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=3000"];
    let done = run_perf(here, &["-e", "cpu-clock"], "perf.data", &copy);
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_secret = symbols.lines().take(5).all(|line| line.starts_with("0000000000000000"));
    if !done.status.success() || is_secret {
        return prerequisites::skip(prerequisites::Need::KernelSamples, "perf may not see the kernel");
    }
    let imported = memwall(here, &["import", "perf.data", "-o", "a.sqlite"]);
    assert!(imported.status.success() && !said(&imported).contains("have no names"), "{}", said(&imported));
    let told = document(here, "a.sqlite");
    let event = &told["import"]["events"][0];
    if event["in_kernel"].as_u64().unwrap() < 10 {
        return prerequisites::skip(prerequisites::Need::KernelSamples, "no sample fell into the kernel");
    }
    let functions = event["functions"].as_array().unwrap();
    let known = |name: &str| symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(name));
    let named = functions
        .iter()
        .filter(|function| function["module"] == "[kernel]")
        .filter(|function| known(function["name"].as_str().unwrap()));
    assert!(named.count() > 0, "{functions:?}");
}

/// Kernels mark records of mappings for everybody as soon as somebody asks for build ids with them.
#[test]
fn a_perf_that_watches_beside_memwall_goes_on() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let memwall = cargo_bin("memwall");
    let watched = [&[memwall.to_str().unwrap(), "record", "-o", "a.sqlite", "--"][..], &SPIN].concat();
    let done = run_perf(here, &["-e", "cpu-clock"], "perf.data", &watched);
    if said(&done).contains("Permission") || said(&done).contains("not permitted") {
        return prerequisites::skip(prerequisites::Need::PerfEvent, said(&done));
    }
    assert!(done.status.success(), "{}", said(&done));
}
