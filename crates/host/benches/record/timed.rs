//! A program's own times, whoever started it.
//!
//! # Safety
//! `getrusage` writes into a local value that is as large as it wants it.
#![allow(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fs,
    mem::MaybeUninit,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

/// Seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Of the program, from its start to its end.
    pub wall: f64,
    /// Processor time of the program alone, in user mode and in the kernel.
    pub program: f64,
    /// Processor time of the program and of whoever watched it.
    pub all: f64,
}

/// Runs `watcher PROGRAM ARGUMENTS...`, and this program in between, which takes the times.
pub fn run(mut watcher: Command, program: &[OsString], folder: &Path) -> Times {
    let file = folder.join("times");
    let before = of_children();
    let output = watcher
        .arg(env::current_exe().unwrap())
        .arg("--timed")
        .arg(&file)
        .args(program)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{watcher:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&file).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().unwrap());
    Times { wall: numbers.next().unwrap(), program: numbers.next().unwrap(), all: of_children() - before }
}

/// What this program is when it stands between a watcher and the program.
pub fn child(arguments: &[OsString]) -> ExitCode {
    let begin = Instant::now();
    let status = Command::new(&arguments[1]).args(&arguments[2..]).status().unwrap();
    let wall = begin.elapsed().as_secs_f64();
    fs::write(&arguments[0], format!("{wall} {}", of_children())).unwrap();
    ExitCode::from(status.code().map_or(1, |code| (code & 0xff) as u8))
}

/// Processor seconds of all children that have ended.
fn of_children() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the value outlives the call, and zeros are a valid usage.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
