//! Every kind of perf.data that the perf at hand can make, against what `perf script` says of it: how many samples there
//! are, and of each one its process, thread, time, period, event and instruction pointer; in the file and, as far as a
//! recording has them, in the recording.
#![allow(clippy::unwrap_used)]

mod work;

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use import::{
    EventAttributes, ImageFolders, ImportRequest, SeekableInput,
    perf_data::{self, RecordConsumer},
};
use pmu::sampling::{FileSample, RingRecord};
use tempfile::TempDir;

/// A sample as `perf script` prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    time_ns: u64,
    pid: i32,
    tid: i32,
    period: u64,
    event: String,
    ip: u64,
}

#[derive(Default)]
struct Rows(Vec<Row>);

impl RecordConsumer for Rows {
    fn sample(&mut self, events: &[EventAttributes], event: usize, sample: &FileSample<'_>) {
        let (pid, tid) = sample.task.expect("a thread");
        self.0.push(Row {
            time_ns: sample.time_ns.unwrap_or(0),
            pid,
            tid,
            period: sample.period.expect("a period"),
            event: events[event].name(),
            ip: sample.ip.expect("an instruction pointer"),
        });
    }

    fn beside(&mut self, _: &[EventAttributes], _: u64, _: RingRecord<'_>) {}
}

/// `  7622/7622  37078.728908943:     250000 cpu-clock:      7f4d7866362a`
fn row(line: &str, has_time: bool) -> Row {
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or_else(|| panic!("a field is missing: {line}"));
    let task = next();
    // Wide numbers of processes are printed apart from their thread.
    let (pid, tid) = task.split_once('/').expect("process and thread");
    let tid = if tid.is_empty() { next() } else { tid };
    let time = if has_time { next().trim_end_matches(':') } else { "0.000000000" };
    let (seconds, fraction) = time.split_once('.').expect("a time");
    assert_eq!(fraction.len(), 9, "nanoseconds: {line}");
    let period = next();
    let event = next();
    Row {
        time_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap(),
        pid: pid.parse().unwrap(),
        tid: tid.parse().unwrap(),
        period: period.parse().unwrap(),
        event: event.strip_suffix(':').expect("an event").to_owned(),
        ip: u64::from_str_radix(next(), 16).unwrap(),
    }
}

fn told_by_perf(file: &Path) -> Vec<Row> {
    let ask = |fields: &str| {
        let mut command = Command::new("perf");
        command.args(["script", "-G", "--ns", "-F", fields, "-i"]).arg(file);
        command.output().expect("perf starts")
    };
    let mut told = ask("pid,tid,time,period,event,ip");
    let has_time = !String::from_utf8_lossy(&told.stderr).contains("do not have TIME attribute");
    if !has_time {
        told = ask("pid,tid,period,event,ip");
    }
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let text = String::from_utf8_lossy(&told.stdout);
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| row(line, has_time)).collect()
}

fn read(file: &Path) -> Vec<Row> {
    let mut rows = Rows::default();
    let mut input = SeekableInput(File::open(file).unwrap());
    let outcome = perf_data::read(&mut input, &file.display().to_string(), &mut rows).unwrap();
    assert_eq!((outcome.cut_short, outcome.malformed, outcome.late), (None, 0, 0), "{}", file.display());
    rows.0
}

/// Fields of the recording: those of the file but the instruction pointer, which it has in terms of modules.
fn recorded(file: &Path, folder: &Path, has_time: bool) -> Vec<Row> {
    let output = folder.join("imported.sqlite");
    let _ = std::fs::remove_file(&output);
    let outcome = import::import(&ImportRequest {
        files: vec![file.to_owned()],
        output: output.clone(),
        trust: None,
        cpu_id: None,
        folders: ImageFolders::default(),
        memwall: "test".to_owned(),
    })
    .unwrap();
    let run = record::file::read(&output).unwrap();
    let origin_ns = outcome.record.files[0].origin_ns.unwrap_or(0);
    let samples = record::file::imported_samples(&output).unwrap();
    let row = |found: &record::file::EventSample| {
        let thread = run.thread(found.sample.thread).unwrap();
        Row {
            time_ns: if has_time { found.sample.time_ns + origin_ns } else { 0 },
            pid: run.process(thread.process).unwrap().pid.cast_signed(),
            tid: thread.tid.cast_signed(),
            period: found.period.unwrap(),
            event: outcome.record.events[found.event as usize].name.clone(),
            ip: 0,
        }
    };
    samples.iter().map(row).collect()
}

/// Field by field, in the order of perf.
fn compare(name: &str, file: &Path, folder: &Path) -> usize {
    let told = told_by_perf(file);
    let read = read(file);
    assert_eq!(read.len(), told.len(), "{name}: samples");
    for (at, (read, told)) in read.iter().zip(&told).enumerate() {
        assert_eq!(read, told, "{name}: sample {at}");
    }
    let blind = |row: &Row| Row { ip: 0, ..row.clone() };
    let mut expected: Vec<Row> = told.iter().map(blind).collect();
    let has_time = told.iter().any(|row| row.time_ns > 0);
    let mut recorded = recorded(file, folder, has_time);
    expected.sort();
    recorded.sort();
    assert_eq!(recorded.len(), expected.len(), "{name}: samples of the recording");
    for (recorded, told) in recorded.iter().zip(&expected) {
        assert_eq!(recorded, told, "{name}: in the recording");
    }
    assert!(!told.is_empty(), "{name}: perf took no sample");
    told.len()
}

/// Records the work; `None`: perf may not, or cannot here.
fn record(options: &[&str], whom: Whom, file: &Path) -> Option<()> {
    let mut command = Command::new("perf");
    command.arg("record").args(options);
    let pipe = matches!(whom, Whom::ThroughPipe);
    let mut attached = None;
    match whom {
        Whom::ThroughPipe => {
            command.args(["-o", "-"]).stdout(File::create(file).unwrap()).arg("--").args(work::command());
        }
        Whom::Program => {
            command.arg("-o").arg(file).arg("--").args(work::command());
        }
        Whom::Process => {
            let mut child = work::start().stdin(Stdio::piped()).spawn().expect("work starts");
            command.arg("-o").arg(file).arg("-p").arg(child.id().to_string());
            // It waits for a line, so that perf is there first.
            let mut input = child.stdin.take().expect("a pipe");
            attached = Some(std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(500));
                let _ = input.write_all(b"go\n");
                child.wait()
            }));
        }
    }
    if !pipe {
        command.stdout(Stdio::null());
    }
    let done = command.stderr(Stdio::piped()).output().expect("perf starts");
    if let Some(waiter) = attached {
        let _ = waiter.join();
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let refused =
        ["Permission", "not supported", "No permission", "Operation not permitted", "unknown option"];
    match done.status.success() && file.metadata().is_ok_and(|about| about.len() > 16) {
        true => Some(()),
        false if refused.iter().any(|word| said.contains(word)) || said.contains("can't access trace") => {
            None
        }
        false => panic!("perf record {options:?}: {said}"),
    }
}

#[derive(Clone, Copy)]
enum Whom {
    Program,
    Process,
    ThroughPipe,
}

/// Name, options, whom.
const KINDS: &[(&str, &[&str], Whom)] = &[
    ("cpu-clock", &["-e", "cpu-clock"], Whom::Program),
    ("cpu-clock:u", &["-e", "cpu-clock:u", "-F", "2000"], Whom::Program),
    ("task-clock, fixed period", &["-e", "task-clock", "-c", "500000"], Whom::Program),
    ("page-faults", &["-e", "page-faults", "-c", "1"], Whom::Program),
    ("page-faults with addresses", &["-e", "page-faults", "-c", "1", "-d"], Whom::Program),
    ("a tracepoint", &["-e", "sched:sched_switch"], Whom::Program),
    ("tracepoints", &["-e", "raw_syscalls:sys_enter,raw_syscalls:sys_exit"], Whom::Program),
    ("call graphs by frame pointer", &["-g", "-e", "cpu-clock"], Whom::Program),
    ("call graphs by DWARF", &["--call-graph", "dwarf,4096", "-e", "cpu-clock"], Whom::Program),
    ("compressed", &["-z", "-e", "cpu-clock", "-F", "5000"], Whom::Program),
    ("compressed well, with call graphs", &["-z22", "-g", "-e", "cpu-clock"], Whom::Program),
    ("compressed faults", &["-z", "-e", "page-faults", "-c", "1", "-d"], Whom::Program),
    ("a pipe", &["-e", "cpu-clock"], Whom::ThroughPipe),
    ("a pipe with tracepoints", &["-e", "raw_syscalls:sys_enter"], Whom::ThroughPipe),
    ("a compressed pipe of several events", &["-z", "-e", "cpu-clock,page-faults"], Whom::ThroughPipe),
    ("several events", &["-e", "cpu-clock,page-faults,context-switches"], Whom::Program),
    (
        "several events of different fields",
        &["-e", "cpu-clock/call-graph=fp/,page-faults/call-graph=no/"],
        Whom::Program,
    ),
    ("a clock and a tracepoint", &["-e", "cpu-clock,raw_syscalls:sys_enter"], Whom::Program),
    ("a group", &["-e", "{cpu-clock,page-faults}"], Whom::Program),
    ("a group read with its leader", &["-e", "{cpu-clock,page-faults}:S"], Whom::Program),
    ("per thread, without times", &["--per-thread", "-e", "cpu-clock"], Whom::Program),
    ("per thread", &["--per-thread", "-T", "-e", "cpu-clock"], Whom::Program),
    ("system wide", &["-a", "-e", "cpu-clock"], Whom::Program),
    ("system wide, several events", &["-a", "-g", "-e", "cpu-clock,page-faults"], Whom::Program),
    ("attached", &["-e", "cpu-clock"], Whom::Process),
    ("attached, with call graphs", &["-g", "-e", "cpu-clock,page-faults"], Whom::Process),
    ("context switches", &["--switch-events", "-e", "cpu-clock"], Whom::Program),
    ("system wide with switches", &["-a", "--switch-events", "-e", "cpu-clock"], Whom::Program),
    ("counts of threads", &["-s", "-e", "cpu-clock"], Whom::Program),
    ("registers", &["--user-regs=ip,sp,ax,bx", "-I", "-e", "cpu-clock"], Whom::Program),
    ("pages", &["--data-page-size", "--code-page-size", "-d", "-e", "page-faults", "-c", "1"], Whom::Program),
    ("weights that the clock has not", &["-W", "-e", "cpu-clock"], Whom::Program),
    ("CPUs and periods", &["--sample-cpu", "-P", "-e", "cpu-clock"], Whom::Program),
    ("another clock", &["-k", "CLOCK_MONOTONIC", "-e", "cpu-clock"], Whom::Program),
    ("build ids with mappings", &["--buildid-mmap", "-e", "cpu-clock"], Whom::Program),
    ("no build ids", &["-B", "-e", "cpu-clock"], Whom::Program),
    ("namespaces and control groups", &["--namespaces", "--all-cgroups", "-e", "cpu-clock"], Whom::Program),
    ("small rings", &["-m", "1", "-F", "20000", "-e", "cpu-clock"], Whom::Program),
    ("kernel only", &["--all-kernel", "-e", "cpu-clock"], Whom::Program),
];

#[test]
fn every_sample_of_every_kind_of_file_is_that_of_perf_script() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (mut files, mut samples) = (0, 0);
    for (name, options, whom) in KINDS {
        let file: PathBuf = folder.path().join("perf.data");
        let _ = std::fs::remove_file(&file);
        if record(options, *whom, &file).is_none() {
            prerequisites::skip(prerequisites::PERF_EVENT, format!("perf may not record {name}"));
            continue;
        }
        let count = compare(name, &file, folder.path());
        println!("{name}: {count} samples");
        (files, samples) = (files + 1, samples + count);
    }
    println!("{files} files, {samples} samples, {} fields compared", 6 * samples + 5 * samples);
    assert!(files > 0, "perf could record nothing");
}
