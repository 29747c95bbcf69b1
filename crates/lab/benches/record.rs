//! What recording costs: against `perf record` on the same program and rate, in memory, and when reading back.
//!
//! `cargo bench -p memwall-lab --bench record`. Rounds are interleaved, so that all see the same noise.
#![allow(clippy::unwrap_used)]

use std::{
    env,
    ffi::OsString,
    fs,
    num::NonZeroU64,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use lab::{
    run::{Request, Target, record},
    statistics,
};
use machine::Source;
use record::{
    file::{read, write},
    run::{Module, ModuleKind, Place, Process, Run, Samples, Thread},
};

const ROUNDS: usize = 7;

/// Fixed work on every CPU: a walk through 8 MiB per thread. Prints the processor time it took in microseconds.
const WORK: &str = "
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { N = 1 << 20 };
static volatile unsigned long sink;
static long steps;
static void *walk(void *unused) {
    unsigned long *a = malloc(N * sizeof *a), i = 0;
    for (unsigned long k = 0; k < N; k++) a[k] = (k * 1664525 + 1013904223) % N;
    for (long k = 0; k < steps; k++) i = a[i] ^ (k & 1);
    sink = i;
    return unused;
}
int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    steps = atol(argv[2]);
    pthread_t all[64];
    for (int t = 0; t < threads; t++) pthread_create(&all[t], NULL, walk, NULL);
    for (int t = 0; t < threads; t++) pthread_join(all[t], NULL);
    printf(\"%ld\\n\", (long)clock());
    return argc > 3;
}";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "--record") {
        return recorder(&arguments[2], arguments[3..].to_vec());
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("work");
    let source = folder.path().join("work.c");
    fs::write(&source, WORK).unwrap();
    let built = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    overhead(&program, folder.path());
    memory(&program, folder.path());
    reading(folder.path());
    ExitCode::SUCCESS
}

/// What this program is when it runs as the recorder; says its own peak memory at the end.
fn recorder(file: &OsString, command: Vec<OsString>) -> ExitCode {
    let rate_hz = env::var("RATE_HZ").map_or(1000, |rate| rate.parse().unwrap());
    let request = Request { rate_hz, ..Request::new(Target::Launch(command), file) };
    let outcome = record(&request, &pmu::Live, &Source::live()).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    eprintln!("{} {}", peak.split_whitespace().nth(1).unwrap(), outcome.samples);
    ExitCode::from(outcome.exit_code())
}

/// Wall seconds, and the processor seconds the program says it took.
fn timed(mut command: Command) -> (f64, f64) {
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    let wall = begin.elapsed().as_secs_f64();
    let micros: f64 = String::from_utf8_lossy(&output.stdout).lines().next().unwrap().parse().unwrap();
    (wall, micros / 1e6)
}

fn ours(file: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("--record").arg(file);
    command
}

fn overhead(program: &Path, folder: &Path) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let with = |mut command: Command| {
        command.arg(program).args([&threads.to_string(), "20000000"]);
        command
    };
    let perf_file = folder.join("perf.data");
    let perf = || {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-e", "cpu-clock:u", "-c", "1000000", "-o"]).arg(&perf_file).arg("--");
        command
    };
    let has_perf = perf().arg("true").output().is_ok_and(|output| output.status.success());
    let mut times: [Vec<(f64, f64)>; 3] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(timed(with(Command::new("env"))));
        times[1].push(timed(with(ours(&folder.join("a.mw")))));
        if has_perf {
            times[2].push(timed(with(perf())));
        }
    }
    println!("{threads} threads of fixed work, {ROUNDS} interleaved rounds, 1000 samples/s, medians");
    let median = |values: Vec<f64>| statistics::median(&values).unwrap_or(f64::NAN);
    let wall = |index: usize| median(times[index].iter().map(|time| time.0).collect());
    let cpu = |index: usize| median(times[index].iter().map(|time| time.1).collect());
    for (index, name) in
        ["alone", "memwall", "perf record"].into_iter().enumerate().take(2 + usize::from(has_perf))
    {
        println!(
            "  {name:12} wall {:.3} s ({:+.2} %)  processor time of the program {:.3} s ({:+.2} %)",
            wall(index),
            (wall(index) / wall(0) - 1.0) * 100.0,
            cpu(index),
            (cpu(index) / cpu(0) - 1.0) * 100.0,
        );
    }
    if has_perf {
        println!(
            "  memwall / perf record: wall {:.3}, processor time {:.3}",
            wall(1) / wall(2),
            cpu(1) / cpu(2)
        );
    }
}

fn memory(program: &Path, folder: &Path) {
    println!(
        "peak memory of the recorder, 8 threads, 20000 samples/s so that a short run has as many as a long one"
    );
    let mut points = Vec::new();
    for steps in ["5000000", "20000000", "80000000"] {
        let mut command = ours(&folder.join("m.mw"));
        command.env("RATE_HZ", "20000");
        let output = command.arg(program).args(["8", steps]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut words = text.split_whitespace().map(|word| word.parse::<f64>().unwrap());
        let (kib, samples) = (words.next().unwrap(), words.next().unwrap());
        let file = fs::metadata(folder.join("m.mw")).unwrap().len();
        println!("  {samples:8} samples: {:6.1} MB, file {:6.1} MB", kib / 1024.0, file as f64 / 1e6);
        points.push((samples, kib));
    }
    // From the second point on caches are full.
    let ((first, low), (last, high)) = (points[1], points[points.len() - 1]);
    let per_sample = (high - low) * 1024.0 / (last - first);
    let hour = 8.0 * 3600.0 * 1000.0;
    println!(
        "  growth {per_sample:.2} B per sample; an hour of 8 busy threads: at most {:.1} MB",
        (low * 1024.0 + per_sample.max(0.0) * hour) / 1e6
    );
}

fn reading(folder: &Path) {
    const SAMPLES: usize = 5_000_000;
    let run = synthetic(SAMPLES, folder);
    let path = folder.join("large.mw");
    let begin = Instant::now();
    write(&path, &run).unwrap();
    let written = begin.elapsed();
    let best = (0..3)
        .map(|_| {
            let begin = Instant::now();
            let run = read(&path).unwrap();
            let findings = analysis::timer::analyse(&run, None, &analysis::timer::Options::default());
            assert_eq!(findings.about.samples, SAMPLES as u64);
            begin.elapsed()
        })
        .min()
        .unwrap_or(Duration::ZERO);
    println!(
        "{SAMPLES} samples: written in {:.2} s, read and analysed in {:.2} s, {:.1} bytes each",
        written.as_secs_f64(),
        best.as_secs_f64(),
        fs::metadata(&path).unwrap().len() as f64 / SAMPLES as f64
    );
}

fn synthetic(samples: usize, folder: &Path) -> Run {
    let small = folder.join("small.mw");
    let request = Request::new(Target::Launch(vec!["true".into()]), &small);
    record(&request, &pmu::Live, &Source::live()).unwrap();
    let mut run = read(&small).unwrap();
    run.slices.clear();
    run.functions.clear();
    run.lines.clear();
    run.processes = vec![Process {
        pid: 1,
        parent: None,
        name: "x".into(),
        executable: None,
        began_ns: 0,
        ended_ns: None,
    }];
    let thread = |tid| Thread { tid, process: 0, name: "x".into(), began_ns: 0, ended_ns: None };
    run.threads = (0..8).map(thread).collect();
    run.modules = vec![Module { path: "/x".into(), kind: ModuleKind::File, build_id: None, problem: None }];
    run.places = (0..5000).map(|n| Place { module: 0, address: 0x40_0000 + 4 * n, function: None }).collect();
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    run.samples = Samples {
        time_ns: (0..samples as u64).map(|n| n * 125_000).collect(),
        thread: (0..samples).map(|n| n as u32 % 8).collect(),
        cpu: (0..samples).map(|n| n as u16 % 8).collect(),
        place: (0..samples).map(|_| random() as u32 % 5000).collect(),
        address: (0..samples).map(|_| NonZeroU64::new(0x7f00_0000_0000 + random())).collect(),
        stack: Vec::new(),
    };
    run
}
