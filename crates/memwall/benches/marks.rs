//! What marking a region costs: nanoseconds for a beginning and an end, without memwall, under `memwall record` and under
//! `memwall count --per-region`; the share of a program's time that marks take with regions of 100 µs; and LIKWID's marks beside
//! it, where they run.
//!
//! `cargo bench -p memwall --bench marks`. Needs a C compiler.

use std::{fs, path::Path, process::Command};

/// Prints nanoseconds per pair of marks; with a number, milliseconds of regions of 100 µs of work, marked or not.
const TEXT: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef WITH_LIKWID
#include <likwid-marker.h>
#define BEGIN(name) LIKWID_MARKER_START(name)
#define END(name) LIKWID_MARKER_STOP(name)
#else
#include <memwall.h>
#define BEGIN(name) memwall_begin(name)
#define END(name) memwall_end(name)
#endif
static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}
static int by_size(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}
static void work(long turns) {
    for (volatile long i = 0; i < turns; i++) {}
}
int main(int argc, char **argv) {
#ifdef WITH_LIKWID
    LIKWID_MARKER_INIT;
    LIKWID_MARKER_REGISTER("region");
#endif
    if (argc > 1) {
        double began = now(CLOCK_THREAD_CPUTIME_ID);
        long turns = 1;
        while (work(turns), now(CLOCK_THREAD_CPUTIME_ID) - began < 2e7) turns = turns * 5 / 4 + 1, began = now(CLOCK_THREAD_CPUTIME_ID);
        turns /= 200;
        double took[2][20];
        // Marked one after the other, as in a program: what counting may take is saved up where nothing is marked.
        for (int round = 0; round < 40; round++) {
            int marked = round >= 10 && round < 30;
            began = now(CLOCK_THREAD_CPUTIME_ID);
            for (int visit = 0; visit < 500; visit++) {
                if (marked) BEGIN("region");
                work(turns);
                if (marked) END("region");
            }
            took[marked][marked ? round - 10 : round % 20] = now(CLOCK_THREAD_CPUTIME_ID) - began;
        }
        // Medians: of marked rounds the shortest would be one in which little was counted.
        for (int marked = 0; marked < 2; marked++) qsort(took[marked], 20, sizeof took[0][0], by_size);
        printf("%.3f\n", (took[1][10] / took[0][10] - 1) * 100);
    } else {
        double best = 1e18;
        for (int round = 0; round < 50; round++) {
            double began = now(CLOCK_MONOTONIC);
            for (int pair = 0; pair < 1000; pair++) {
                BEGIN("region");
                END("region");
            }
            double took = (now(CLOCK_MONOTONIC) - began) / 1000;
            if (took < best) best = took;
            struct timespec rest = {0, 20000000};
            nanosleep(&rest, NULL);
        }
        printf("%.1f\n", best);
    }
#ifdef WITH_LIKWID
    LIKWID_MARKER_CLOSE;
#endif
}
"#;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("marks.c");
    fs::write(&source, TEXT).expect("written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let build = |name: &str, more: &[&str]| {
        let program = folder.path().join(name);
        let mut command = Command::new("cc");
        command.args(["-O2", "-o"]).arg(&program).arg(&source).args(more);
        command.output().is_ok_and(|output| output.status.success()).then_some(program)
    };
    let Some(own) = build("own", &["-I", &include.display().to_string()]) else {
        println!("no C compiler here");
        return;
    };
    let said = |mut command: Command| {
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8_lossy(&output.stdout).lines().last()?.trim().parse::<f64>().ok()
    };
    let alone = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        said(command)
    };
    let under = |words: &[&str], program: &Path, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.current_dir(folder.path()).args(words).arg("--").arg(program).args(arguments);
        said(command)
    };
    let watched = |program: &Path, arguments: &[&str]| {
        under(&["record", "--no-probe", "-o", "a.sqlite"], program, arguments)
    };
    // Events of this kernel; where there are counters, cycles and instructions beside them.
    let events = "task-clock,page-faults,context-switches,cycles,instructions";
    let counted = |program: &Path, arguments: &[&str]| {
        under(&["count", "-e", events, "--per-region"], program, arguments)
    };
    let shown =
        |value: Option<f64>| value.map_or("not measured".to_owned(), |value| format!("{value:.1} ns"));
    println!("a beginning and an end, without memwall: {}", shown(alone(&own, &[])));
    println!("under memwall record:                    {}", shown(watched(&own, &[])));
    let share =
        watched(&own, &["regions"]).map_or("not measured".to_owned(), |share| format!("{share:.2} %"));
    println!("regions of 100 µs become slower by:      {share}");
    println!("under memwall count --per-region:        {}", shown(counted(&own, &[])));
    let share =
        counted(&own, &["regions"]).map_or("not measured".to_owned(), |share| format!("{share:.2} %"));
    println!("regions of 100 µs become slower by:      {share}");
    let likwid = build("likwid", &["-DWITH_LIKWID", "-DLIKWID_PERFMON", "-llikwid"]);
    match likwid.and_then(|program| {
        let mut command = Command::new("likwid-perfctr");
        command.args(["-C", "0", "-g", "CLOCK", "-m"]).arg(program);
        said(command)
    }) {
        Some(ns) => println!("LIKWID's, under likwid-perfctr -m:       {ns:.1} ns"),
        None => println!("LIKWID's marks do not run here (no liblikwid-dev, or no counters)"),
    }
}
