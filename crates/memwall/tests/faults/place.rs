//! A folder to work in, compilers, and memwall as a user calls it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A folder with a data directory for memwall in it.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command in the folder, with memwall's data there too.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("XDG_DATA_HOME", self.path("data")).env_remove("COLUMNS");
        command.stdin(Stdio::null());
        command
    }

    pub fn memwall(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(memwall());
        command.args(arguments);
        command
    }

    /// Has a shell run `script`, in which `$memwall` is memwall.
    pub fn shell(&self, script: &str) -> Output {
        self.command("bash").args(["-c", script]).env("memwall", memwall()).output().expect("bash starts")
    }

    /// Builds `source` with `compiler`; `None` where there is no such compiler.
    pub fn build(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let ending = if compiler == "c++" { "cc" } else { "c" };
        let code = self.path(&format!("{name}.{ending}"));
        fs::write(&code, source).expect("written");
        let program = self.path(name);
        let mut command = self.command(compiler);
        command.args(["-O1", "-fno-builtin", "-o"]).arg(&program).arg(&code).args(flags);
        let built = command.output().ok()?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(program)
    }

    /// Runs a program alone and under `memwall run`: its output and exit code must be the same. Gives the report.
    pub fn same_as_alone(&self, command: &[&str]) -> String {
        let alone = self.command(command[0]).args(&command[1..]).output().expect("it starts");
        let arguments = [&["run", "--verbose", "--to", "report.txt", "--"], command].concat();
        let with = self.memwall(&arguments).output().expect("memwall starts");
        assert_eq!(
            (said(&with.stdout), said(&with.stderr), with.status.code()),
            (said(&alone.stdout), said(&alone.stderr), shell_code(&alone)),
            "{command:?}"
        );
        fs::read_to_string(self.path("report.txt")).expect("a report")
    }
}

pub fn memwall() -> &'static str {
    env!("CARGO_BIN_EXE_memwall")
}

/// The exit code as a shell has it.
fn shell_code(output: &Output) -> Option<i32> {
    output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal))
}

pub fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Permission bits of a file or folder.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

/// Waits until something is so; panics if it never is.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
