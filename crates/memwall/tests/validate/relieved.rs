//! Random kernels in a process of their own. Whether relief measures depends on the machine; that it is tried on what is
//! recorded as a program is, and said, does not.

use std::{io::Write as _, process::Stdio};

use super::{memwall, run};

/// A gather over some 64 MiB: its addresses all come of generated code.
const SEED: &str = "106";

#[test]
fn a_kernel_runs_until_its_input_ends_and_is_timed_before_and_after() {
    let home = tempfile::tempdir().unwrap();
    let mut command = memwall(home.path(), &["validate", "--be-kernel", SEED, "--on-cpu", "0"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().flush().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    let truths: Vec<f64> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert!(truths.len() == 2 && truths.iter().all(|truth| (0.0..=1.0).contains(truth)), "{told}");
}

#[test]
fn a_relieved_kernel_is_recorded_with_its_addresses() {
    let home = tempfile::tempdir().unwrap();
    let keep = home.path().to_str().unwrap();
    let asked =
        ["validate", "--develop", "1", "--develop-from", SEED, "--develop-relief", "--develop-keep", keep];
    let output = run(home.path(), &asked);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    if !said.is_empty() {
        // It is said of which kernel, and why.
        assert!(said.contains("random kernel 106: "), "{said}");
        prerequisites::skip(prerequisites::Need::Relief, said);
        return;
    }
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("their loops relieved as well") && shown.contains("gathers"), "{shown}");
    let recording = home.path().join("106.sqlite");
    let found = super::json(home.path(), &["report", recording.to_str().unwrap(), "--json"]);
    let relief = &found["relief"];
    assert!(relief["loops"].as_array().is_some_and(|loops| !loops.is_empty()), "{relief}");
    // Of code that no file holds the operands are found as well.
    let remarks = found.to_string();
    assert!(!remarks.contains("Only 0 % of the samples of memory instructions"), "{remarks}");
}
