//! The example programs, built.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The folder with the example programs; what is up to date is not built again.
pub fn examples() -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/build");
    if Command::new(build).arg(&folder).status()?.success() {
        Ok(folder)
    } else {
        Err(io::Error::other("the examples could not be built"))
    }
}

/// The number behind `before` in what an example says about its pace:
/// `NAME: N rounds in S s (C s of CPU time), X ns per STEP`.
pub fn number_behind(text: &str, before: &str) -> Option<f64> {
    let (_, rest) = text.split_once(before)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A command that prints nothing: what a program prints would stand between the rows of a table.
#[allow(dead_code)]
pub fn silent(command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let shell = ["sh", "-c", "exec \"$@\" >/dev/null 2>&1", "sh"].map(OsString::from);
    shell.into_iter().chain(command).collect()
}

/// An example and its arguments, with as many rounds as it does in about so many seconds.
#[allow(dead_code)]
pub fn fixed_work(program: &str, examples: &Path, seconds: f64) -> Vec<OsString> {
    let mut words = program.split(' ').map(OsString::from);
    let mut command = vec![examples.join(words.next().unwrap()).into_os_string()];
    command.extend(words);
    let trial = Command::new(&command[0])
        .args(&command[1..])
        .args(["--seconds", &seconds.to_string()])
        .stdin(Stdio::null())
        .output();
    let text = String::from_utf8_lossy(&trial.unwrap().stderr).into_owned();
    // `phases` says when each of its phases began, before it says how many rounds there were.
    let rounds = text.lines().rev().find_map(|line| number_behind(line, ": "));
    let rounds = rounds.unwrap_or_else(|| panic!("{program}: no rounds in {text:?}"));
    command.extend(["--rounds".into(), rounds.max(1.0).to_string().into()]);
    command
}
