//! Ranks of an MPI program, recorded each by itself and read together.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// Debian's Open MPI, with more ranks than there are cores, also as root and in containers.
fn mpirun(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "3"]);
    command.arg(env!("CARGO_BIN_EXE_memwall")).args(words).current_dir(folder);
    command.env("XDG_DATA_HOME", folder).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    command.output().expect("mpirun starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn example(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/build");
    let output = Command::new(build).arg(&folder).output().expect("examples/build starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder.join(name)
}

#[test]
fn every_rank_keeps_its_recording_and_all_are_read_together() {
    if !prerequisites::needs("mpirun") || !prerequisites::needs("mpicc") {
        return;
    }
    let ranks = example("odd/ranks");
    let ranks = ranks.to_str().expect("a name");
    for (output, names) in [
        // One name for all of them.
        ("run.sqlite", ["run.0.sqlite", "run.1.sqlite", "run.2.sqlite"]),
        ("rank-%q{OMPI_COMM_WORLD_RANK}.sqlite", ["rank-0.sqlite", "rank-1.sqlite", "rank-2.sqlite"]),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = mpirun(folder.path(), &["record", "--no-probe", "-o", output, ranks, "--rounds", "60"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("ranks: 3 of them"), "{}", text(&output.stdout));
        let mut report = Command::new(env!("CARGO_BIN_EXE_memwall"));
        // In any order.
        report.args(["report", "--json", names[2], names[0], names[1]]).current_dir(folder.path());
        let report = report.output().expect("memwall starts");
        assert!(report.status.success(), "{}", text(&report.stderr));
        let found: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        assert_eq!(found["schema"], "memwall.ranks/1");
        let rank = |index: usize| &found["ranks"][index];
        for (index, name) in names.iter().enumerate() {
            assert_eq!((&rank(index)["rank"], &rank(index)["recording"]), (&index.into(), &(*name).into()));
        }
        assert_eq!(found["nodes"][0]["ranks"], 3, "{}", found["nodes"]);
    }
}
