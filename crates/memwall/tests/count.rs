//! `memwall count` as a user types it, on this machine.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use record::count::{Counts, Total, total};

/// Writes a cell that lies in the file, so that starting the program does not write it too.
const WRITER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long cell __attribute__((aligned(8))) = 1;
static long writes;

static void *work(void *unused) {
    for (long i = 0; i < writes; i++) cell = i;
    return unused;
}

int main(int count, char **words) {
    if (count < 2) { printf("%p\n", (void *)&cell); return 0; }
    writes = atol(words[1]);
    if (count < 3) { work(0); return 0; }
    if (!strcmp(words[2], "family")) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
        for (int i = 0; i < 100; i++) {
            if (fork() == 0) { work(0); _exit(0); }
            wait(0);
        }
        char *again[] = {words[0], words[1], 0};
        execv("/proc/self/exe", again);
        return 1;
    }
    /* "busy": begins when its input ends, then alternates between work and sleep. Says how often it was switched. */
    char byte;
    while (read(0, &byte, 1) > 0) {}
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 300; i++) {
        for (volatile long spin = 0; spin < writes; spin++) {}
        usleep(100);
    }
    getrusage(RUSAGE_SELF, &after);
    printf("%ld\n", after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw);
    return 0;
}
"#;

/// On a machine that nobody validated.
fn memwall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/unvalidated"));
    command
}

fn count(arguments: &[&str]) -> Output {
    memwall().arg("count").args(arguments).output().expect("a run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(arguments: &[&str]) -> Counts {
    let output = memwall().args(["count", "--json"]).args(arguments).output().expect("a run");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn value(counts: &Counts, event: usize) -> Option<f64> {
    match total(&counts.runs[0].counts, event, |_| true)? {
        Total::Counted { estimate, .. } => Some(estimate),
        Total::Missing { .. } => None,
    }
}

/// The writer, not position independent, and the address of its cell.
fn writer() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("writer.c"), folder.path().join("writer"));
    fs::write(&source, WRITER).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-no-pie", "-fno-pie", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().expect("the compiler that links Rust programs").success());
    let address = Command::new(&program).output().expect("a run").stdout;
    let address = text(&address).trim().to_owned();
    (folder, program.to_str().expect("a name").to_owned(), address)
}

/// Debug registers may be out of reach, as in some containers; then it must be said in words.
fn has_breakpoints(event: &str) -> bool {
    let output = count(&["-e", event, "--", "true"]);
    let words = text(&output.stderr);
    assert!(output.status.success() || words.contains("breakpoint at 0x"), "{words}");
    if !output.status.success() {
        prerequisites::skip(prerequisites::Need::Breakpoint, words);
    }
    output.status.success()
}

#[test]
fn a_program_keeps_its_output_and_exit_code() {
    let output =
        count(&["-e", "page-faults,context-switches", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    let table = text(&output.stderr);
    assert!(table.starts_with("err\n"), "{table}");
    for word in ["page-faults", "context-switches", "perf_event", "sh -c"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

#[test]
fn the_default_is_what_works_everywhere() {
    let counts = json(&["--", "true"]);
    assert_eq!(counts.schema, "memwall.count/1");
    assert!(counts.events.iter().any(|event| event.name == "task-clock"), "{:?}", counts.events);
    assert!(counts.metrics.iter().any(|group| group.group == "SOFTWARE"));
    assert!(value(&counts, 0).is_some(), "{counts:?}");
}

#[test]
fn repetitions_show_their_spread() {
    let output = count(&["-e", "page-faults", "--runs", "3", "--", "true"]);
    let table = text(&output.stderr);
    assert!(output.status.success() && table.contains("3 runs") && table.contains('±'), "{table}");
    assert_eq!(json(&["-e", "page-faults", "--runs", "3", "--", "true"]).runs.len(), 3);
}

#[test]
fn intervals_add_up_and_are_shown_while_it_runs() {
    let command =
        ["-e", "page-faults", "--interval", "50", "--", "sh", "-c", "sleep 0.2; ls >/dev/null; sleep 0.1"];
    let counts = json(&command);
    let run = &counts.runs[0];
    assert!(run.intervals.len() >= 2, "{}", run.intervals.len());
    let sum: f64 = run.intervals.iter().filter_map(|interval| interval.counts[0].value.estimate()).sum();
    assert_eq!(Some(sum), value(&counts, 0));
    let shown = text(&count(&command).stderr);
    assert!(shown.lines().filter(|line| line.ends_with("page-faults")).count() >= 2, "{shown}");
}

#[test]
fn a_breakpoint_counts_every_write_of_threads_forks_and_an_exec() {
    let (_folder, program, address) = writer();
    let event = format!("mem:{address}/8:w");
    if !has_breakpoints(&event) {
        return;
    }
    assert_eq!(value(&json(&["-e", &event, "--", &program, "1000"]), 0), Some(1000.0));
    // 8 threads, 100 forked children, and the program once more after its exec.
    let counts = json(&["-e", &event, "--", &program, "50", "family"]);
    assert_eq!(value(&counts, 0), Some(50.0 * (8 + 100 + 1) as f64));
}

/// Until a process has perf events open.
fn wait_for_events(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_event = |entry: PathBuf| {
        fs::read_link(entry).is_ok_and(|link| link.to_string_lossy().contains("[perf_event]"))
    };
    while Instant::now() < deadline {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        if entries.filter(|entry| is_event(entry.path())).count() >= 2 {
            // Opened, and switched on once it sleeps: it has nothing left to do but wait.
            while !(0..3).all(|_| {
                std::thread::sleep(Duration::from_millis(20));
                sleeps(pid)
            }) {}
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Whether a process waits for something; one that is kept off the CPU by others does not.
fn sleeps(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| !rest.trim_start().starts_with(['R', 'D']))
}

fn attach(mut command: Command) -> Option<Child> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    if wait_for_events(child.id()) {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[test]
fn a_process_attached_to_counts_as_perf_stat_does() {
    let (_folder, program, _) = writer();
    let mut busy = Command::new(&program);
    busy.args(["200000", "busy"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut busy = busy.spawn().expect("a program");
    let pid = busy.id().to_string();
    let events = "context-switches,task-clock";
    let mut ours = memwall();
    ours.args(["count", "--json", "-e", events, "--pid", &pid]);
    let ours = attach(ours).expect("memwall attaches");
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x,", "-e", events, "-p", &pid]);
    let perf = if prerequisites::needs("perf") { Some(attach(perf).expect("perf attaches")) } else { None };
    drop(busy.stdin.take());
    let busy = busy.wait_with_output().expect("an end");
    assert!(busy.status.success());
    let ours = ours.wait_with_output().expect("counts").stdout;
    let ours: Counts = serde_json::from_slice(&ours).expect("JSON");
    let (switches, clock) = (value(&ours, 0).expect("switches"), value(&ours, 1).expect("a clock"));
    // Where there is no perf, the kernel's own account is all there is: a sleep that is over at once is no switch.
    let own: f64 = text(&busy.stdout).trim().parse().expect("a number");
    assert!(own > 0.0 && switches >= own, "{switches}, by its own account {own}");
    let Some(perf) = perf else { return };
    let theirs = text(&perf.wait_with_output().expect("counts").stderr);
    let field = |event: &str| -> f64 {
        let line = theirs.lines().find(|line| line.contains(event)).expect("a line of perf's");
        line.split(',').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
    assert!(near(switches, field("context-switches")), "{switches} {theirs}");
    assert!(near(clock / 1e6, field("task-clock")), "{clock} ns, {theirs}");
}

#[test]
fn places_are_kept_apart_and_csv_has_a_line_each() {
    let output = count(&["--csv", "-e", "cpu-clock", "--all-cpus", "--per-place", "--duration", "0.1"]);
    let table = text(&output.stdout);
    if !output.status.success() {
        assert!(text(&output.stderr).contains("perf_event_paranoid"), "{}", text(&output.stderr));
        prerequisites::skip(prerequisites::Need::Root, "whole CPUs may not be counted");
        return;
    }
    let mut lines = table.lines();
    assert_eq!(
        lines.next(),
        Some("run,end_ns,event,place,count,raw,enabled_ns,running_ns,missing,trust,error")
    );
    let cpus = machine::Topology::read(&machine::Source::live()).cpus.len();
    assert_eq!(lines.filter(|line| line.starts_with("0,,cpu-clock,cpu ")).count(), cpus, "{table}");
}

#[test]
fn threads_of_a_process_have_rows_of_their_own() {
    let mut child = Command::new("sleep").arg("20").spawn().expect("a program");
    let pid = child.id().to_string();
    let output = count(&["-e", "context-switches", "--pid", &pid, "--per-place", "--duration", "0.1"]);
    child.kill().expect("it still runs");
    child.wait().expect("an end");
    assert!(output.status.success());
    let table = text(&output.stdout);
    assert!(table.contains("thread") && table.contains(&pid), "{table}");
}

#[test]
fn what_this_machine_lacks_is_not_counted_with_a_reason() {
    // This name opens nowhere: the kernel has no such tracepoint.
    let lacking = "sched:sched_no_such_thing";
    let output = count(&["-e", &format!("page-faults,{lacking}"), "--", "true"]);
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert!(table.contains("not counted") && table.contains("page-faults"), "{table}");
    assert!(table.contains("tracefs") || table.contains("tracepoint"), "{table}");
    let counts = json(&["-e", lacking, "-e", "page-faults", "--", "true"]);
    assert_eq!((value(&counts, 0), value(&counts, 1).is_some()), (None, true));
    let output = count(&["-e", lacking, "--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn mistakes_are_answered_in_words() {
    let wrong = |arguments: &[&str], code: i32, words: &str| {
        let output = count(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    wrong(&["-e", "page-fautls", "--", "true"], 2, "did you mean page-faults");
    wrong(&["-g", "NO_SUCH", "--", "true"], 2, "there are CYCLES");
    wrong(&["-e", "page-faults"], 2, "give a program, or --pid");
    wrong(&["-e", "page-faults", "--", "/no/such/program"], 2, "no such program");
    wrong(&["-e", "page-faults", "--cgroup", "no/such/group", "--", "true"], 1, "no/such/group");
    wrong(&["-e", "page-faults", "--pid", "4194305"], 1, "no such process");
    wrong(&["-e", "mem:0x1001/8:w", "--", "true"], 1, "multiple of the length");
    wrong(&["--kernel", "load", "--size", "64K"], 2, "--on sim:NAME");
    wrong(&["--runs", "0", "--", "true"], 2, "--runs 0");
    wrong(&["--per-region", "--runs", "2", "--", "true"], 2, "one run of a program");
    wrong(&["--per-region", "-e", "cpu-migrations", "--", "true"], 1, "memwall run --event cpu-migrations");
    wrong(&["--per-region", "--", "/no/such/program"], 2, "no such program");
}

#[test]
fn an_interrupt_prints_what_was_counted() {
    let mut command = memwall();
    command.args(["count", "-e", "task-clock,page-faults", "--runs", "5", "--", "sleep", "60"]);
    let child = attach(command).expect("it counts");
    // As the terminal does, to the process we started.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
    let output = child.wait_with_output().expect("an end");
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{table}");
    assert!(table.contains("interrupted") && table.contains("page-faults"), "{table}");
}

#[test]
fn narrow_and_wide_tables_stay_within_their_columns() {
    for columns in ["50", "80"] {
        let mut command = memwall();
        command.env("COLUMNS", columns).args(["count", "-g", "SOFTWARE", "-e", "cycles,instructions"]);
        let output = command.args(["--runs", "2", "--", "true"]).output().expect("a run");
        let limit: usize = columns.parse().expect("a number");
        for line in text(&output.stderr).lines() {
            assert!(line.chars().count() <= limit, "{columns}: {line}");
        }
    }
}

/// Touches as many pages as its argument says, naps fifty times, and computes, each in a region of its own; the last in two threads.
const REGIONS: &str = r#"
#include <memwall.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static void *burn(void *unused) {
    struct timespec now;
    memwall_begin("burn");
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); while (now.tv_sec == 0 && now.tv_nsec < 60000000);
    memwall_end("burn");
    return unused;
}
int main(int count, char **words) {
    long pages = atol(words[count - 1]);
    char *block = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, pages * 4096, MADV_NOHUGEPAGE);
    memwall_begin("touch");
    for (long page = 0; page < pages; page++) block[page * 4096] = 1;
    memwall_end("touch");
    memwall_begin("nap");
    struct timespec moment = {0, 100000};
    for (int nap = 0; nap < 50; nap++) nanosleep(&moment, 0);
    memwall_end("nap");
    pthread_t thread;
    pthread_create(&thread, 0, burn, 0);
    burn(0);
    pthread_join(thread, 0);
    return 5;
}"#;

#[test]
fn regions_of_a_program_are_counted_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("regions.c"), folder.path().join("regions"));
    fs::write(&source, REGIONS).expect("written");
    let include = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut compile = Command::new("cc");
    compile.arg("-O1").arg("-o").arg(&program).arg(&source).arg("-I").arg(include).arg("-pthread");
    assert!(compile.status().expect("cc").success());
    let program = program.to_str().expect("text");
    let events = "page-faults,context-switches,task-clock,cycles,cpu-migrations";
    let arguments = ["count", "-e", events, "--per-region", "--json", "--", program, "3000"];
    let output = memwall().args(arguments).output().expect("a run");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let counts: Counts = serde_json::from_slice(&output.stdout).expect("a document");
    if counts.regions.is_empty() {
        prerequisites::skip(prerequisites::Need::PerfEvent, counts.remarks.join(" "));
        return;
    }
    let names: Vec<&str> = counts.regions.iter().map(|region| region.path.as_str()).collect();
    assert_eq!(names, ["touch", "nap", "burn"]);
    let of = |region: usize, event: usize| {
        total(&counts.regions[region].counts, event, |_| true).and_then(|total| total.estimate())
    };
    let whole = |event: usize| value(&counts, event).expect("counted as a whole");
    let faults = of(0, 0).expect("counted");
    // Every page once, and what the kernel needs for its own tables.
    assert!((3000.0..3020.0).contains(&faults), "{faults}");
    assert!(faults + of(1, 0).expect("counted") + of(2, 0).expect("counted") <= whole(0) + 20.0);
    let naps = of(1, 1).expect("counted");
    assert!(naps >= 25.0 && naps <= whole(1), "{naps} of {}", whole(1));
    // Two threads took sixty milliseconds each, less what they took before; nothing else took much.
    let burnt = of(2, 2).expect("counted");
    assert!(burnt > 0.6 * whole(2) && burnt <= whole(2), "{burnt} of {}", whole(2));
    assert!(of(1, 2).expect("counted") < 0.3 * burnt);
    assert_eq!(of(2, 4), None, "not readable at marks, and not 0");
    // Threads have values of their own.
    let arguments =
        ["count", "-e", "task-clock", "--per-region", "--per-place", "--json", "--", program, "10"];
    let output = memwall().args(arguments).output().expect("a run");
    let counts: Counts = serde_json::from_slice(&output.stdout).expect("a document");
    let burn = counts.regions.iter().find(|region| region.path == "burn").expect("a region");
    assert_eq!(burn.counts.len(), 2, "{burn:?}");
    let table =
        text(&count(&["-e", "task-clock,cpu-migrations", "--per-region", "--", program, "10"]).stderr);
    for words in ["by region", "touch", "burn", "not counted", "memwall run --event cpu-migrations"] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

/// Raised by the kernel where a process would handle SIGTERM itself: bit 14 of the caught signals.
fn catches_termination(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & (1 << 14) != 0)
}

/// A minute of simulation at least, and twice that by region: it ends at the first signal, and what was counted is kept.
#[test]
fn a_long_count_ends_when_it_is_asked_to() {
    let mut command = memwall();
    let line = "--on sim:haswell-ep-e5-2680v3 count -e cycles --per-region --scenario bandwidth-compute --set rounds=5000 \
                --cpus 0-11 --json";
    command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("memwall starts");
    while !catches_termination(child.id()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    let output = child.wait_with_output().expect("an end");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert_eq!(said["interrupted"], true);
    assert_eq!(said["runs"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(said["regions"].as_array().map_or(0, Vec::len), 0);
    let remarks = said["remarks"].to_string();
    assert!(remarks.contains("stopped before its regions were counted"), "{remarks}");
}
