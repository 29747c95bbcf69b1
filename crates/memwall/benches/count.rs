//! What counting costs a program: against `perf stat` on the same program and events.
//!
//! `cargo bench -p memwall --bench count`. Rounds are interleaved, so that all see the same noise.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use host::statistics;

const ROUNDS: usize = 41;

const EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults,minor-faults,major-faults";

/// Computes for a while, in as many short-lived threads as asked for: each inherits all events.
const WORK: &str = "
#include <pthread.h>
#include <stdlib.h>
static long steps;
static void *work(void *unused) {
    for (volatile long k = 0; k < steps; k++) {}
    return unused;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    steps = atol(argv[2]);
    for (int t = 0; t < threads; t++) {
        pthread_t one;
        pthread_create(&one, NULL, work, NULL);
        pthread_join(one, NULL);
    }
    return argc > 3;
}";

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let (program, source) = (folder.path().join("work"), folder.path().join("work.c"));
    fs::write(&source, WORK).unwrap();
    let built = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    println!("six software events, {ROUNDS} interleaved rounds, medians");
    compare("a program that does nothing", &program, ["0", "0"]);
    compare("one thread that computes", &program, ["1", "50000000"]);
    compare("500 threads, one after the other", &program, ["500", "100000"]);
}

fn timed(mut command: Command, program: &Path, arguments: [&str; 2]) -> f64 {
    command.arg(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    assert!(command.status().unwrap().success());
    begin.elapsed().as_secs_f64() * 1e3
}

fn compare(what: &str, program: &Path, arguments: [&str; 2]) {
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(["count", "-e", EVENTS, "--"]);
        command
    };
    let perf = || {
        let mut command = Command::new("perf");
        command.args(["stat", "-e", EVENTS, "--"]);
        command
    };
    let has_perf = perf().arg("true").output().is_ok_and(|output| output.status.success());
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(timed(Command::new("env"), program, arguments));
        times[1].push(timed(ours(), program, arguments));
        if has_perf {
            times[2].push(timed(perf(), program, arguments));
        }
    }
    let [bare, ours, perf] = times.map(|times| statistics::median(&times));
    let (bare, ours) = (bare.unwrap(), ours.unwrap());
    print!("{what}: {bare:.2} ms; memwall adds {:.2} ms", ours - bare);
    match perf {
        Some(perf) => println!(
            ", perf stat {:.2} ms; memwall / perf: {:.2} of what is added, {:.3} of the whole",
            perf - bare,
            (ours - bare) / (perf - bare),
            ours / perf
        ),
        None => println!("; perf stat: not to be had here"),
    }
}
