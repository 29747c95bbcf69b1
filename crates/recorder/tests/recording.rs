//! Real programs recorded by a real process: what passes through, what is kept, and what is left behind.
#![allow(clippy::unwrap_used)]

mod samples;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use record::{
    file::read,
    run::{Ending, ModuleKind, Run},
};
use samples::samples_in;
use tempfile::TempDir;

/// Spins in `hot` for about as many milliseconds of processor time as its argument says, then ends with code 37.
const SPIN: &str = "
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void hot(unsigned long *a, unsigned long n) {
    unsigned long i = 0;
    while (n--) i = a[i];
    sink = i;
}
int main(int argc, char **argv) {
    static unsigned long a[4096];
    for (int i = 0; i < 4096; i++) a[i] = (i * 5 + 7) % 4096;
    double ms = argc > 1 ? atof(argv[1]) : 300;
    while (clock() < ms * CLOCKS_PER_SEC / 1000) hot(a, 100000);
    return 37;
}";

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("a.mw")
    }

    fn read(&self) -> Run {
        read(&self.file()).unwrap()
    }

    fn compile(&self, name: &str, source: &Path) -> PathBuf {
        let program = self.path(name);
        let status = Command::new("cc")
            .args(["-O2", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-ldl")
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{} compiles", source.display());
        program
    }

    fn spin(&self) -> PathBuf {
        let source = self.path("spin.c");
        fs::write(&source, SPIN).unwrap();
        self.compile("spin", &source)
    }

    /// One of the programs in `examples/odd`.
    fn odd(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/odd");
        self.compile(name, &folder.join(format!("{name}.c")))
    }

    fn record(&self, arguments: &[&str]) -> Output {
        self.recorder(arguments).output().unwrap()
    }

    fn recorder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(recorder());
        command.arg(self.file()).args(arguments).stdin(Stdio::null());
        command
    }
}

/// The example beside this test.
fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let recorder = test.parent().and_then(Path::parent).unwrap().join("examples/record");
    assert!(recorder.exists(), "build the example with 'cargo build -p memwall-recorder --example record'");
    recorder
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_is_recorded_and_passes_through() {
    let place = Place::new();
    let spin = place.spin();
    let output = place.record(&["--", spin.to_str().unwrap(), "400"]);
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(37), 0, 0));
    let run = place.read();
    assert_eq!(run.about.ending, Ending::Exited(37));
    assert_eq!(run.about.command[1..], ["400"]);
    assert_eq!(run.processes.len(), 1);
    assert_eq!(run.processes[0].executable.as_deref(), spin.to_str());
    let all = run.samples.place.len();
    let usage = run.about.usage.unwrap();
    assert!(usage.user_ns > 300_000_000, "{usage:?}");
    // One sample stands for one period of user time, give or take the ends.
    let sampled_ns = all as f64 * run.about.period_ns;
    assert!(sampled_ns > 0.5 * usage.user_ns as f64 && sampled_ns < 1.5 * usage.user_ns as f64, "{all}");
    assert!(samples_in(&run, "hot") * 10 > all * 8, "{} of {all}", samples_in(&run, "hot"));
    let hot = run.functions.iter().find(|function| function.name == "hot").unwrap();
    assert_eq!(hot.code.as_ref().unwrap().len() as u64, hot.end - hot.start);
    assert!(run.files.iter().any(|file| file.ends_with("spin.c")), "{:?}", run.files);
    // Bursts tell how fast the loop turns: samples that lie far closer than the others, and are counted among them nowhere.
    let close = run.bursts.time_ns.windows(2).filter(|pair| pair[1] - pair[0] < 150_000).count();
    assert!(close * 2 > run.bursts.time_ns.len() && close >= 20, "{close} of {}", run.bursts.time_ns.len());
    // `hot` waits for `a[i]`: most samples have its address, all within the array of 32 KiB.
    let addresses: Vec<u64> = run.samples.address.iter().flatten().map(|address| address.get()).collect();
    assert!(addresses.len() * 2 > all, "{} of {all}", addresses.len());
    let mut sorted = addresses.clone();
    sorted.sort_unstable();
    let (low, high) = (sorted[sorted.len() / 10], sorted[sorted.len() * 9 / 10]);
    assert!(high - low <= 32 << 10, "{low:#x} to {high:#x}");
    let running: u64 = run.slices.iter().map(|slice| slice.running_ns).sum();
    let used = usage.user_ns + usage.system_ns;
    assert!(running > used / 2 && running < used * 2, "{running} of {used}");
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 3, "source, program, recording");
}

#[test]
fn odd_programs_end_as_they_would_alone() {
    let place = Place::new();
    for name in ["exits", "crashes", "execs", "deletes_itself", "jit", "forks"] {
        let program = place.odd(name);
        let mut arguments = vec!["--", program.to_str().unwrap()];
        arguments.extend((name == "jit").then_some("--map"));
        let output = place.record(&arguments);
        let run = place.read();
        let remarks = &run.remarks;
        match name {
            "exits" => assert_eq!((output.status.code(), run.about.ending), (Some(37), Ending::Exited(37))),
            "crashes" => {
                assert_eq!((output.status.code(), run.about.ending), (Some(139), Ending::Signalled(11)))
            }
            "forks" => assert!(run.processes.len() >= 1000, "{} {remarks:?}", run.processes.len()),
            _ => assert_eq!(run.about.ending, Ending::Exited(0), "{name} {remarks:?}"),
        }
        assert!(run.processes.iter().all(|process| process.ended_ns.is_some()), "{name} {remarks:?}");
        if name == "jit" {
            let generated =
                run.modules.iter().position(|module| module.kind == ModuleKind::Anonymous).unwrap();
            let function =
                run.functions.iter().find(|function| function.module.index() == generated).unwrap();
            assert!(function.code.is_some() && function.name == "jitted_chase", "{function:?}");
            // The program leaves it, as compilers do.
            fs::remove_file(format!("/tmp/perf-{}.map", run.processes[0].pid)).unwrap();
        }
        if name == "deletes_itself" {
            assert!(samples_in(&run, "work_step") > 0, "{:?}", run.modules);
        }
    }
}

#[test]
fn programs_that_cannot_be_started_leave_nothing_behind() {
    let place = Place::new();
    assert_eq!(place.record(&["--", "no-such-program-anywhere"]).status.code(), Some(127));
    assert_eq!(place.record(&["--", "./no/such/path"]).status.code(), Some(127));
    assert_eq!(place.record(&["--", "/etc/passwd"]).status.code(), Some(126));
    assert_eq!(place.record(&["--", "/"]).status.code(), Some(126));
    let garbage = place.path("garbage");
    fs::write(&garbage, b"\x7fELF but not really").unwrap();
    Command::new("chmod").arg("+x").arg(&garbage).status().unwrap();
    assert!(matches!(place.record(&["--", garbage.to_str().unwrap()]).status.code(), Some(126 | 127 | 2)));
    fs::remove_file(&garbage).unwrap();
    let left: Vec<_> =
        fs::read_dir(place.folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty() || left == [place.file()], "{left:?}");
    assert_eq!(place.record(&["--pid", "2147480000"]).status.code(), Some(1));
    assert_eq!(place.record(&["--rate", "0", "--", "true"]).status.code(), Some(1));
}

#[test]
fn signal_mask_and_ignored_signals_are_inherited() {
    let place = Place::new();
    let status = |prefix: &str| {
        let script =
            format!("trap '' USR1 PIPE; exec {prefix} grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let prefix = format!("{} {} --", recorder().display(), place.file().display());
    assert_eq!(status(&prefix), status(""));
    // And SIGPIPE, which Rust ignores for itself, is not ignored where nobody asked for it.
    let plain = |command: &mut Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
    let arguments = ["-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"];
    let alone = plain(Command::new("sh").args(arguments));
    assert_eq!(plain(place.recorder(&["--", "sh"]).args(arguments)), alone);
}

#[test]
fn a_signal_to_the_recorder_reaches_the_program() {
    let place = Place::new();
    let ready = place.path("ready");
    let script = format!("trap 'exit 5' TERM; : > {}; while :; do sleep 0.02; done", ready.display());
    let mut recorder = place.recorder(&["--", "sh", "-c", &script]).spawn().unwrap();
    until("the program is ready", || ready.exists());
    kill(&recorder, "-TERM");
    assert_eq!(recorder.wait().unwrap().code(), Some(5));
    assert_eq!(place.read().about.ending, Ending::Exited(5));
}

fn kill(child: &Child, signal: &str) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

#[test]
fn killing_the_recorder_leaves_the_program_and_a_readable_file() {
    let place = Place::new();
    let spin = place.spin();
    let finished = place.path("finished");
    let script = format!("{} 2500; : > {}", spin.display(), finished.display());
    let mut recorder = place.recorder(&["--", "sh", "-c", &script]).spawn().unwrap();
    until("samples are committed", || read(&place.file()).is_ok_and(|run| run.samples.place.len() > 100));
    kill(&recorder, "-KILL");
    recorder.wait().unwrap();
    assert!(!finished.exists());
    let mut run = place.read();
    assert_eq!((run.about.ending, run.about.elapsed_ns), (Ending::Unknown, None));
    assert!(run.samples.place.len() > 100);
    assert_eq!(samples_in(&run, "hot"), 0);
    recorder::complete(&mut run);
    assert!(samples_in(&run, "hot") * 10 > run.samples.place.len() * 8);
    until("the program goes on and ends by itself", || finished.exists());
}

#[test]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    let place = Place::new();
    let spin = place.spin();
    place.record(&["--", "true"]);
    let blocks = fs::metadata(place.file()).unwrap().len() / 512 + 1024;
    let (recorder, file) = (recorder(), place.file());
    let script = format!(
        "ulimit -f {blocks}; exec {} {} --rate 20000 -- {} 2500",
        recorder.display(),
        file.display(),
        spin.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(37), "{words}");
    assert!(words.contains("recording"), "{words}");
    let run = place.read();
    assert_eq!(run.about.ending, Ending::Exited(37));
    assert!(!run.samples.place.is_empty());
    assert!(samples_in(&run, "hot") > 0, "there was room for the code");
    assert!(
        run.remarks.iter().any(|remark| remark.contains("stopped before the program")),
        "{:?}",
        run.remarks
    );
}

#[test]
fn without_samples_there_is_still_an_account() {
    let place = Place::new();
    let spin = place.spin();
    let output = place.record(&["--refused", "--", spin.to_str().unwrap(), "400"]);
    assert_eq!(output.status.code(), Some(37));
    assert!(String::from_utf8_lossy(&output.stderr).contains("EACCES"));
    let run = place.read();
    assert!(run.samples.place.is_empty());
    assert_eq!(run.about.lost_samples, None);
    assert!(run.about.usage.unwrap().user_ns > 300_000_000);
    let running: u64 = run.slices.iter().map(|slice| slice.running_ns).sum();
    assert!(running > 100_000_000, "{running}");
    assert!(run.remarks.iter().any(|remark| remark.contains("no samples")), "{:?}", run.remarks);
}

#[test]
fn a_running_process_is_attached_to_and_left_alone() {
    let place = Place::new();
    let mut program = Command::new(place.spin()).arg("60000").spawn().unwrap();
    let pid = program.id().to_string();
    let output = place.record(&["--pid", &pid, "--duration", "1"]);
    let is_alive = program.try_wait().unwrap().is_none();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(is_alive);
    let run = place.read();
    assert_eq!((run.about.ending, run.about.attached), (Ending::Detached, Some(program.id())));
    assert!(run.about.elapsed_ns.unwrap() >= 900_000_000);
    assert!(samples_in(&run, "hot") > 10, "{:?}", run.remarks);
}

#[test]
fn a_part_of_a_run_can_be_recorded() {
    let place = Place::new();
    let spin = place.spin();
    let arguments = ["--delay", "0.2", "--duration", "0.3", "--", spin.to_str().unwrap(), "1000"];
    assert_eq!(place.record(&arguments).status.code(), Some(37));
    let run = place.read();
    assert_eq!((run.about.ending, run.about.usage), (Ending::Detached, None));
    let elapsed_ns = run.about.elapsed_ns.unwrap();
    assert!(elapsed_ns >= 250_000_000, "{elapsed_ns}");
    assert!(run.samples.time_ns.iter().all(|time| *time <= elapsed_ns));
}

#[test]
fn a_bug_of_the_recorder_costs_the_program_nothing() {
    let place = Place::new();
    let spin = place.spin();
    let output = place.record(&["--faulty", "--", spin.to_str().unwrap(), "400"]);
    assert_eq!(output.status.code(), Some(37), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a planted bug") && said.contains("a fault of memwall itself"), "{said}");
    let run = place.read();
    assert_eq!((run.about.ending, run.about.lost_samples), (Ending::Exited(37), None));
    assert!(run.remarks.iter().any(|text| text.contains("a fault of memwall itself")), "{:?}", run.remarks);
}
