//! Where the examples are, and how memwall is called.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// The example programs, built once per test process; what is up to date is not built again.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/build");
        let output = Command::new(build).arg(&folder).output().expect("examples/build starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder
    });
    folder.join(name)
}

/// A recording that is kept beside this file; `recordings/make` makes them.
pub fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings").join(name).with_extension("sqlite")
}

/// memwall itself, without a profile of its user: what it says must not depend on one.
pub fn memwall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-profiles"));
    command.env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Whether the clock may be sampled here; says so if not.
pub fn can_sample() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.sqlite");
        let mut command = memwall();
        command.args(["record", "--need-samples", "-o"]).arg(file).args(["--", "true"]);
        let output = command.output().expect("memwall starts");
        if !output.status.success() {
            prerequisites::skip(prerequisites::Need::PerfEvent, String::from_utf8_lossy(&output.stderr));
        }
        output.status.success()
    })
}

/// A folder with one recording.
pub struct Recorded {
    folder: TempDir,
    /// What the program and memwall printed, and the exit code.
    pub output: Output,
}

impl Recorded {
    /// Runs `memwall record ARGUMENTS -o FILE -- PROGRAM`.
    pub fn new(arguments: &[&str], program: &Path, program_arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = memwall();
        command.arg("record").args(arguments).arg("-o").arg(folder.path().join("a.sqlite"));
        command.arg("--").arg(program).args(program_arguments);
        let output = command.output().expect("memwall starts");
        Self { folder, output }
    }

    /// The recording.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("a.sqlite")
    }

    /// What it says.
    pub fn findings(&self) -> Value {
        findings(&self.file())
    }

    /// What the program printed.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// What memwall, and the program, said beside.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// What a recording says, by `memwall report --json`.
pub fn findings(file: &Path) -> Value {
    let output = memwall().arg("report").arg(file).arg("--json").output().expect("memwall starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The number at a path of the JSON.
pub fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// Names of the functions that samples fell on, the hottest first.
pub fn functions(findings: &Value) -> Vec<String> {
    let symbols = findings["symbols"].as_array().expect("symbols").iter();
    symbols.map(|symbol| symbol["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until `done`, at most half a minute; false if it never was.
pub fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        if done() {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

/// Where a recording that was started puts what it says.
fn said_by(file: &Path) -> PathBuf {
    file.with_extension("said")
}

/// Waits for a recording that was started: its exit code, and what it said.
pub fn ended(mut recording: Child, file: &Path) -> (Option<i32>, String) {
    let code = recording.wait().expect("it ends").code();
    (code, fs::read_to_string(said_by(file)).expect("what it said"))
}

/// A recording of an example that has started.
pub fn start_recording(file: &Path, program: &str, arguments: &[&str]) -> Child {
    let said = fs::File::create(said_by(file)).expect("a file");
    let mut command = memwall();
    command.args(["record", "-o"]).arg(file).arg("--").arg(example(program)).args(arguments);
    let recording = command.stdout(Stdio::null()).stderr(said).spawn().expect("memwall");
    assert!(eventually(|| children_of(recording.id()).len() == 1), "the program started");
    recording
}

/// Sends a signal as a user would.
pub fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill starts");
    assert!(status.success(), "kill {name} {pid}");
}

/// Processes whose parent is `pid`.
pub fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// User time of a process so far, in ticks of 10 ms; none of it before it runs.
pub fn user_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}
