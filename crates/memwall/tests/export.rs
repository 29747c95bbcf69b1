//! Recordings in the forms of other tools, on the real binary.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

fn memwall(arguments: &[&str]) -> Output {
    Command::new(cargo_bin("memwall")).args(arguments).output().unwrap()
}

#[test]
fn a_recording_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sqlite");
    let file = file.to_str().unwrap();
    let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done";
    let recorded = memwall(&["record", "-o", file, "--", "sh", "-c", spin]);
    assert_eq!(recorded.stdout, b"done\n");
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    let samples: u64 = said.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    if said.contains("without samples") {
        prerequisites::skip(prerequisites::Need::PerfEvent, said);
        return;
    }
    let folded = memwall(&["report", file, "--folded", "-"]);
    let text = String::from_utf8(folded.stdout).unwrap();
    let counts = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), samples);
    assert!(text.lines().all(|line| line.starts_with("sh-")), "{text}");

    let profile = folder.path().join("profile.json");
    let written = memwall(&["report", file, "--firefox", profile.to_str().unwrap()]);
    assert!(written.status.success() && written.stdout.is_empty());
    let profile: serde_json::Value = serde_json::from_slice(&std::fs::read(profile).unwrap()).unwrap();
    let lengths =
        profile["threads"].as_array().unwrap().iter().map(|thread| thread["samples"]["length"].as_u64());
    assert_eq!(lengths.map(Option::unwrap).sum::<u64>(), samples);

    let refused = memwall(&["report", file, "--firefox", "/no/such/folder/x"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/no/such/folder/x"));
}
