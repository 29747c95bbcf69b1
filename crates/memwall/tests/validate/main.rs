//! `memwall validate`, and what other commands make of its result, as a user types them.
#![allow(clippy::unwrap_used)]

mod consulted;
mod found;
mod relieved;
mod scripted;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    sync::OnceLock,
};

use serde_json::Value;

fn memwall(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(arguments).env("XDG_DATA_HOME", home).env("COLUMNS", "120");
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    memwall(home, arguments).output().unwrap()
}

/// Standard output and error of a command that succeeds, words apart by one blank wherever lines break.
fn words(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(both).unwrap();
    assert!(output.status.success(), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(home: &Path, arguments: &[&str]) -> Value {
    let output = run(home, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A data directory in which the tiny machine was validated, once for all tests, and what was kept of it.
fn tiny() -> &'static (tempfile::TempDir, Value) {
    static TINY: OnceLock<(tempfile::TempDir, Value)> = OnceLock::new();
    TINY.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let page = home.path().join(PAGE);
        let validate = ["validate", "--on", "sim:tiny", "--quick", "--html", page.to_str().unwrap()];
        fs::write(home.path().join(TEXT), words(home.path(), &validate)).unwrap();
        let mut kept = fs::read_dir(home.path().join("memwall/trust")).unwrap();
        let validation = serde_json::from_slice(&fs::read(kept.next().unwrap().unwrap().path()).unwrap());
        (home, validation.unwrap())
    })
}

/// Files in the directory of [`tiny`]: the page it wrote, and the words it printed.
const PAGE: &str = "page.html";
const TEXT: &str = "words.txt";
