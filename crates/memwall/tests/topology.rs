//! `memwall topology` as a user types it.

#[path = "../../machine/tests/trees/mod.rs"]
mod trees;

use assert_cmd::Command;
use predicates::{prelude::PredicateBooleanExt, str::contains};

fn memwall() -> Command {
    let mut command = Command::cargo_bin("memwall").expect("the program");
    command.arg("topology");
    command
}

#[test]
fn this_machine_is_drawn() {
    memwall().assert().success().stdout(contains("└─ ").and(contains("Left to us")));
}

#[test]
fn a_captured_machine_is_drawn() {
    let tree = trees::haswell_ep();
    memwall()
        .arg("--root")
        .arg(tree.root())
        .assert()
        .success()
        .stdout(contains("2 sockets · 24 cores · 48 threads").and(contains("\u{1b}").not()))
        .stderr("");
}

#[test]
fn without_a_terminal_lines_have_at_most_80_columns() {
    let tree = trees::epyc();
    let output = memwall().arg("--root").arg(tree.root()).output().expect("a run");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("8 × L3 32 MiB"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn json_carries_its_schema() {
    let tree = trees::guest();
    let output = memwall().arg("--json").arg("--root").arg(tree.root()).output().expect("a run");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema"], "memwall.topology/1");
    assert_eq!(json["hypervisor"], "KVM");
    assert_eq!(json["limits"]["memory"], 2u64 << 30);
    let topology: machine::Topology = serde_json::from_value(json).expect("a topology");
    assert_eq!(topology, tree.read());
}

#[test]
fn a_root_that_is_no_machine_is_bad_usage() {
    let empty = tempfile::tempdir().expect("a directory");
    let file = empty.path().join("file");
    let missing = empty.path().join("missing");
    memwall().arg("--root").arg(empty.path()).assert().code(2).stderr(contains("neither sys nor proc"));
    memwall()
        .arg("--root")
        .arg(&missing)
        .assert()
        .code(2)
        .stdout("")
        .stderr(contains("missing: No such file"));
    std::fs::write(&file, "").expect("a file");
    memwall().arg("--root").arg(&file).assert().code(2).stderr(contains("not a directory"));
    for error in [&missing, &file] {
        let output = memwall().arg("--root").arg(error).output().expect("a run");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn help_has_an_example() {
    memwall().arg("--help").assert().success().stdout(contains("memwall topology --root captured/"));
}
