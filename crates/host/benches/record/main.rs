//! What recording costs: against `perf record` on the same program and rate, in memory, and when reading back.
//!
//! `cargo bench -p memwall-host --bench record` prints all of it, `-- overhead`, `-- memory`, `-- reading` a part,
//! `-- overhead NAME ROUNDS` one program. Fails where recording costs more than it may.
#![allow(clippy::unwrap_used)]

#[path = "../built/mod.rs"]
mod built;
mod memory;
mod overhead;
mod reading;
mod timed;

use std::{
    env,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use machine::Source;
use recorder::{RecordRequest, RecordTarget, record};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("--record") => return recorder(&arguments[1], arguments[2..].to_vec()),
        Some("--timed") => return timed::child(&arguments[1..]),
        _ => {}
    }
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_wanted = |part: &str| words.first().is_none_or(|first| first == part);
    let folder = tempfile::tempdir().unwrap();
    let examples = built::examples().unwrap();
    let mut broken = 0;
    if is_wanted("overhead") {
        broken += overhead::table(&examples, folder.path(), words.get(1..).unwrap_or_default());
    }
    if is_wanted("memory") {
        broken += memory::growth(&examples, folder.path());
    }
    if is_wanted("reading") {
        broken += reading::time(&examples, folder.path());
    }
    println!("{broken} bounds broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What this program is when it runs as the recorder; says its own peak memory and the number of samples at the end.
fn recorder(file: &OsString, command: Vec<OsString>) -> ExitCode {
    let rate_hz = env::var("RATE_HZ").map_or(1000, |rate| rate.parse().unwrap());
    let request = RecordRequest { rate_hz, ..RecordRequest::new(RecordTarget::Launch(command), file) };
    let outcome = record(&request, &pmu::Live, &Source::live()).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    eprintln!("peak {} samples {}", peak.split_whitespace().nth(1).unwrap(), outcome.samples.unwrap_or(0));
    ExitCode::from(outcome.exit_code())
}

/// This program as the recorder.
fn ours(file: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("--record").arg(file);
    command
}
