//! Programs nobody here wrote: the short form of `scripts/programs`, which runs each alone and under memwall.

use std::{path::Path, process::Command};

#[test]
fn programs_that_are_here_do_what_they_do_alone() {
    if !["bash", "perl", "timeout"].into_iter().all(prerequisites::needs) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/programs");
    let mut command = Command::new(script);
    let output =
        command.arg("--short").env("MEMWALL", env!("CARGO_BIN_EXE_memwall")).output().expect("it starts");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    for row in table.lines().map(cells).filter(|row| row.get(2).is_some_and(|cell| cell == "not installed")) {
        assert!(!prerequisites::needs(&row[1]), "{table}");
    }
    assert!(table.contains("| sort | yes | yes |"), "{table}");
}
