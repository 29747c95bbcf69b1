//! What some tests need and not every machine has: other programs, rights to count, a second CPU.
//!
//! A test that cannot run says so here and returns. Where it has to run, that is a failure: [`MUST_RUN`] names what must
//! not be missing, separated by spaces, and `scripts/test` sets it to what it found; of programs the tests see for themselves
//! whether they are there. What was skipped stands in the file that [`SKIPS`] names, which `scripts/test` shows at its end.
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
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// The environment variable that names what must not be missing.
pub const MUST_RUN: &str = "MEMWALL_MUST_RUN";
/// The environment variable that names the file to which skips are added, a line each.
pub const SKIPS: &str = "MEMWALL_TEST_SKIPS";

/// What a test may need. Each has one word, by which [`MUST_RUN`] names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// A program of this name on the path. Where it is there and [`MUST_RUN`] is set, it need not be named.
    Program(&'a str),
    /// The right to count and sample software events.
    PerfEvent,
    /// The right to see with perf what the kernel does, by name.
    KernelSamples,
    /// The kernel's own memory, for perf.
    Kcore,
    /// Watching an address for writes.
    Breakpoint,
    /// The rights of the superuser.
    Root,
    /// The right to make namespaces.
    Namespaces,
    /// Two cores that this process may use.
    TwoCpus,
    /// A machine that others leave alone for long enough.
    Quiet,
    /// Passes of a loop timed in copies of a running program.
    Relief,
    /// Filters of system calls.
    Seccomp,
    /// LLVM's OpenMP.
    Libomp,
    /// GCC's OpenMP.
    Libgomp,
    /// A compiler and a kernel for programs of 32 bits.
    NarrowPrograms,
    /// A compiler whose programs check their addresses.
    AddressSanitizer,
    /// One of the allocators that people preload.
    OtherAllocator,
    /// A linker that writes build ids.
    BuildIds,
    /// A C library of its own file.
    SharedLibc,
    /// The kernel's code in every process.
    Vdso,
    /// Room beside the stack of a thread.
    StackRoom,
    /// A `/tmp` that all may write to.
    SharedTmp,
}

impl<'a> Need<'a> {
    /// The word that names it.
    pub fn word(self) -> &'a str {
        match self {
            Self::Program(name) => name,
            Self::PerfEvent => "perf_event",
            Self::KernelSamples => "kernel_samples",
            Self::Kcore => "kcore",
            Self::Breakpoint => "breakpoint",
            Self::Root => "root",
            Self::Namespaces => "namespaces",
            Self::TwoCpus => "two_cpus",
            Self::Quiet => "quiet",
            Self::Relief => "relief",
            Self::Seccomp => "seccomp",
            Self::Libomp => "libomp",
            Self::Libgomp => "libgomp",
            Self::NarrowPrograms => "narrow_programs",
            Self::AddressSanitizer => "address_sanitizer",
            Self::OtherAllocator => "allocators",
            Self::BuildIds => "build_ids",
            Self::SharedLibc => "shared_libc",
            Self::Vdso => "vdso",
            Self::StackRoom => "stack_room",
            Self::SharedTmp => "shared_tmp",
        }
    }

    /// Whether a test that needs it must not be skipped.
    fn must_be_there(self) -> bool {
        let Ok(must) = env::var(MUST_RUN) else { return false };
        let is_installed = matches!(self, Self::Program(name) if found(name).is_some());
        is_installed || must.split_whitespace().any(|word| word == self.word())
    }
}

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
    let found = found(program);
    if found.is_none() {
        skip(Need::Program(program), "it is not installed");
    }
    found
}

fn found(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Says that a test, or a part of it, is skipped for want of something: in the file that [`SKIPS`] names, else on stderr.
///
/// # Panics
/// If that must be there.
pub fn skip(wanted: Need<'_>, why: impl Display) {
    let (word, why) = (wanted.word(), why.to_string().replace('\n', " "));
    assert!(
        !wanted.must_be_there(),
        "{MUST_RUN} says that {word} is there, and a test would be skipped: {why}"
    );
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("{test} was skipped for want of {word}: {}\n", why.trim());
    // What is printed by a macro is shown of tests that fail only.
    let written = match env::var_os(SKIPS) {
        Some(file) => OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(line.as_bytes())),
        None => io::stderr().write_all(line.as_bytes()),
    };
    written.expect("somewhere to say it");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// In processes of their own: the environment belongs to all tests of this one. What it said was skipped, if it passed.
    fn skipped(must: Option<&str>, role: &str) -> Option<String> {
        let file = env::temp_dir().join(format!("memwall-skips-{}-{role}", std::process::id()));
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "tests::role", "--ignored"]).env("ROLE", role).env(SKIPS, &file);
        match must {
            Some(must) => command.env(MUST_RUN, must),
            None => command.env_remove(MUST_RUN),
        };
        let passed = command.output().expect("it starts").status.success();
        let said = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        passed.then_some(said)
    }

    #[test]
    #[ignore = "what the processes of `a_silent_skip_fails_where_it_must_run` do"]
    fn role() {
        match env::var("ROLE").as_deref() {
            Ok("absent") => assert!(!needs("no-such-program-anywhere")),
            Ok("present") => assert!(needs("sh")),
            Ok("unused") => skip(Need::Program("sh"), "it is there,\nand not used"),
            Ok("refused") => skip(Need::PerfEvent, "EACCES"),
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
        let absent = Some(
            "tests::role was skipped for want of no-such-program-anywhere: it is not installed\n".to_owned(),
        );
        assert_eq!(skipped(None, "absent"), absent);
        assert_eq!(skipped(Some("perf valgrind"), "absent"), absent);
        assert_eq!(skipped(Some("perf no-such-program-anywhere"), "absent"), None);
        assert_eq!(skipped(Some("sh"), "present").as_deref(), Some(""));
        assert!(skipped(Some("perf"), "refused").is_some(), "a part of the word is not the word");
        assert_eq!(skipped(Some("perf perf_event"), "refused"), None);
    }

    #[test]
    fn of_what_is_installed_no_skip_is_taken_though_nobody_named_it() {
        let said = skipped(None, "unused").expect("nothing must run");
        assert!(said.ends_with("want of sh: it is there, and not used\n"), "{said}");
        assert_eq!(skipped(Some(""), "unused"), None);
    }

    /// A word that no test says would be asked for in vain.
    #[test]
    fn scripts_name_what_they_ask_for_by_its_word() {
        let script = include_str!("../../../scripts/test");
        let words: Vec<&str> =
            script.split("must_run+=\" ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(words.len() > 5, "{words:?}");
        let file = include_str!("lib.rs");
        for word in words {
            assert!(file.contains(&format!("=> \"{word}\",")), "{word}");
        }
    }
}
