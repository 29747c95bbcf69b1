//! What some tests need and not every machine has: other programs, rights to count, a second CPU.
//!
//! A test that cannot run says so here and returns. Where it has to run, that is a failure: [`MUST_RUN`] names what must
//! not be missing, separated by spaces, and `scripts/test` sets it to what it found or could install.
//!
//! ```
//! fn counts_are_those_of_cachegrind() {
//!     if !prerequisites::needs("valgrind") {
//!         return;
//!     }
//! }
//! ```
#![deny(unsafe_code)]

use std::{
    env,
    ffi::OsStr,
    fmt::Display,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The environment variable that names what must not be missing.
pub const MUST_RUN: &str = "MEMWALL_MUST_RUN";
/// The right to count and sample software events.
pub const PERF_EVENT: &str = "perf_event";
/// Watching an address for writes.
pub const BREAKPOINT: &str = "breakpoint";
/// The rights of the superuser.
pub const ROOT: &str = "root";
/// Two CPUs that this process may use.
pub const TWO_CPUS: &str = "two_cpus";

/// Whether a program is installed; if not, says that a test is skipped.
///
/// # Panics
/// If it must be there.
pub fn needs(program: &str) -> bool {
    installed(program).is_some()
}

/// Where a program is installed; if nowhere, says that a test is skipped.
///
/// # Panics
/// If it must be there.
pub fn installed(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        skip(program, "it is not installed");
    }
    found
}

/// Says that a test, or a part of it, is skipped for want of something.
///
/// # Panics
/// If that must be there.
pub fn skip(wanted: &str, why: impl Display) {
    let must = env::var(MUST_RUN).unwrap_or_default();
    assert!(!names(&must, wanted), "{MUST_RUN} names {wanted}, and a test would be skipped: {why}");
    println!("skipped for want of {wanted}: {why}");
}

/// Copies a program to where a test wants to start it, for everybody.
///
/// Another process does it: a file that is open for writing cannot be started, and a descriptor of this process would
/// live on for a moment in whatever another test has just forked.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    install(from.as_os_str(), "", to);
}

/// Writes a script that a test wants to start, for everybody; see [`copy_program`].
///
/// # Panics
/// If it cannot be written.
pub fn write_script(text: &str, to: &Path) {
    install(OsStr::new("/dev/stdin"), text, to);
}

fn install(from: &OsStr, input: &str, to: &Path) {
    let mut command = Command::new("install");
    command.args(["-m", "755", "--"]).arg(from).arg(to).stdin(Stdio::piped());
    let mut child = command.spawn().expect("coreutils are installed");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    assert!(child.wait().expect("our child").success(), "{} was not written", to.display());
}

fn names(must: &str, wanted: &str) -> bool {
    must.split_whitespace().any(|name| name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In processes of their own: the environment belongs to all tests of this one.
    fn with(must: &str, role: &str) -> bool {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "tests::role", "--ignored"]).env(MUST_RUN, must).env("ROLE", role);
        command.output().expect("it starts").status.success()
    }

    #[test]
    #[ignore = "what the processes of `a_silent_skip_fails_where_it_must_run` do"]
    fn role() {
        match env::var("ROLE").as_deref() {
            Ok("absent") => assert!(!needs("no-such-program-anywhere")),
            Ok("present") => assert!(needs("sh")),
            Ok("refused") => skip(PERF_EVENT, "EACCES"),
            role => panic!("{role:?}"),
        }
    }

    /// Fails within a few rounds where the copy is made by this process.
    #[test]
    fn copies_start_while_other_threads_start_programs() {
        let folder = env::temp_dir().join(format!("memwall-prerequisites-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let this = &env::current_exe().expect("this program");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (program, script) =
                    (folder.join(format!("p{thread}")), folder.join(format!("s{thread}")));
                scope.spawn(move || {
                    for _ in 0..20 {
                        copy_program(this, &program);
                        write_script("#!/bin/sh\nexit 0\n", &script);
                        for started in [&program, &script] {
                            let output = Command::new(started).arg("--list").output();
                            assert!(output.expect("it starts").status.success());
                        }
                    }
                });
            }
        });
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_silent_skip_fails_where_it_must_run() {
        assert!(with("", "absent") && with("perf valgrind", "absent"));
        assert!(!with("perf no-such-program-anywhere", "absent"));
        assert!(with("sh", "present"));
        assert!(with("perf", "refused"), "a part of the name is not the name");
        assert!(!with("perf perf_event", "refused"));
    }
}
