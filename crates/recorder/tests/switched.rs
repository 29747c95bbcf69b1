//! A program that is switched so often that sampling would slow it down.
#![allow(clippy::unwrap_used)]

mod samples;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use record::file::read;

use samples::samples_in;

/// Hands a byte to a child and back for so many milliseconds of its time, then has another child execute it to compute for as long.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile double sink;
__attribute__((noinline)) void late(long turns) {
    double sum = 0;
    for (long turn = 0; turn < turns; turn++) sum += turn * 0.5;
    sink = sum;
}
static double spent(void) { return clock() * 1000.0 / CLOCKS_PER_SEC; }
int main(int count, char **words) {
    double most = atof(words[1]);
    if (count > 2) {
        while (spent() < most) late(100000);
        return 0;
    }
    int there[2], back[2], status;
    char byte = 0;
    if (pipe(there) != 0 || pipe(back) != 0) return 1;
    if (fork() == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {}
        _exit(0);
    }
    while (spent() < most)
        for (int turn = 0; turn < 100; turn++)
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 2;
    close(there[1]);
    wait(&status);
    if (fork() == 0) execl("/proc/self/exe", "late", words[1], "late", (char *)NULL);
    wait(&status);
    return 37;
}"#;

fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let recorder = test.parent().and_then(Path::parent).unwrap().join("examples/record");
    assert!(recorder.exists(), "build the example with 'cargo build -p memwall-recorder --example record'");
    recorder
}

/// Whatever clock goes on: who starts later is known, and samples stand for as much time as before.
#[test]
fn a_program_that_is_switched_often_is_sampled_more_rarely() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program, file) =
        (folder.path().join("a.c"), folder.path().join("a"), folder.path().join("a.mw"));
    fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("cc").args(["-O1", "-g", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("a C compiler").success());
    let mut recorded = Command::new(recorder());
    let output =
        recorded.arg(&file).arg("--").arg(&program).arg("1000").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(37), "{output:?}");
    let run = read(&file).unwrap();
    let late = samples_in(&run, "late");
    let in_late_ns = late as f64 * run.about.period_ns;
    assert!((0.2e9..1.8e9).contains(&in_late_ns), "{late} samples of a second: {:?}", run.remarks);
    let Some(slowed) = run.about.slowed else {
        println!("switches cost little on this machine: sampled as ever");
        return;
    };
    assert!(run.about.period_ns > 3e6, "{}", run.about.period_ns);
    assert!(run.bursts.time_ns.iter().all(|time| *time <= slowed.from_ns), "bursts end");
    let of_late: Vec<_> = run.processes.iter().filter(|process| process.began_ns > slowed.from_ns).collect();
    let [process] = of_late[..] else { panic!("{:?}", run.processes) };
    assert!(process.executable.as_deref() == program.to_str() && process.ended_ns.is_some(), "{process:?}");
    let threads: Vec<_> =
        run.threads.iter().map(|thread| run.processes[thread.process.index()].pid).collect();
    let asked = run.slices.iter().filter(|slice| threads[slice.thread.index()] == process.pid);
    let running_ns: u64 = asked.map(|slice| slice.running_ns).sum();
    assert!((300_000_000..2_000_000_000).contains(&running_ns), "{running_ns}");
    assert!(run.remarks.iter().any(|remark| remark.contains("left the CPU")), "{:?}", run.remarks);
}
