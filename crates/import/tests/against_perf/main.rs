//! Every kind of perf.data that the perf at hand can make, against what `perf script` says of it: how many samples there
//! are, and of each one its process, thread, time, period, event and instruction pointer; in the file and, as far as a
//! recording has them, in the recording.
#![allow(clippy::unwrap_used)]

mod chains;
mod others;
mod rows;
mod work;

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use import::{ImageFolders, ImportRequest};
use tempfile::TempDir;

use rows::{Row, read, told_by_perf};

/// To import one file, with what this machine has.
fn request(file: &Path, output: &Path) -> ImportRequest {
    ImportRequest {
        files: vec![file.to_owned()],
        output: output.to_owned(),
        trust: None,
        cpu_id: None,
        folders: ImageFolders::default(),
        memwall: "test".to_owned(),
    }
}

/// Fields of the recording: those of the file but the instruction pointer, which it has in terms of modules.
fn recorded(file: &Path, folder: &Path, has_time: bool) -> Vec<Row> {
    let output = folder.join("imported.sqlite");
    let _ = std::fs::remove_file(&output);
    let outcome = import::import(&request(file, &output)).unwrap();
    let run = record::file::read(&output).unwrap();
    let origin_ns = outcome.record.files[0].origin_ns.unwrap_or(0);
    let samples = record::file::imported_samples(&output).unwrap();
    let row = |found: &record::file::EventSample| {
        let thread = run.thread(found.sample.thread).unwrap();
        Row {
            time_ns: if has_time { found.sample.time_ns + origin_ns } else { 0 },
            pid: run.process(thread.process).unwrap().pid.cast_signed(),
            tid: thread.tid.cast_signed(),
            period: found.period.unwrap_or(0),
            event: outcome.record.events[found.event as usize].name.clone(),
            ip: 0,
        }
    };
    samples.iter().map(row).collect()
}

/// Field by field, in the order of perf.
fn compare(name: &str, file: &Path, folder: &Path) -> usize {
    let mut told = told_by_perf(file).unwrap_or_else(|why| panic!("{name}: {why}")).rows;
    let (mut read, outcome) = read(file).unwrap();
    assert_eq!((outcome.cut_short, outcome.malformed), (None, 0), "{}", file.display());
    // Where all CPUs are busy perf may write a sample down after its round: each reader then has it where it found it.
    if outcome.late > 0 {
        read.sort();
        told.sort();
    }
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
    let done = run_perf(options, whom, file);
    let said = String::from_utf8_lossy(&done.stderr);
    let refused = [
        "Permission",
        "not supported",
        "No permission",
        "Operation not permitted",
        "unknown option",
        "kcore is not readable",
    ];
    match done.status.success() && file.metadata().is_ok_and(|about| about.is_dir() || about.len() > 16) {
        true => Some(()),
        false if refused.iter().any(|word| said.contains(word)) || said.contains("can't access trace") => {
            None
        }
        false => panic!("perf record {options:?}: {said}"),
    }
}

fn run_perf(options: &[&str], whom: Whom, file: &Path) -> Output {
    let mut command = Command::new("perf");
    // A store of its own: perfs of other tests write meanwhile.
    command.arg("--buildid-dir").arg(file.with_extension("build-ids")).arg("record").args(options);
    let pipe = matches!(whom, Whom::ThroughPipe);
    let mut waiting = None;
    match whom {
        Whom::ThroughPipe => {
            command.args(["-o", "-"]).stdout(File::create(file).unwrap()).arg("--").args(work::command());
        }
        Whom::Program => {
            command.arg("-o").arg(file).arg("--").args(work::command());
        }
        Whom::Process => {
            let child = work::start().stdin(Stdio::piped()).spawn().expect("work starts");
            command.arg("-o").arg(file).arg("-p").arg(child.id().to_string());
            waiting = Some(child);
        }
    }
    if !pipe {
        command.stdout(Stdio::null());
    }
    let perf = command.stderr(Stdio::piped()).spawn().expect("perf starts");
    if let Some(child) = &mut waiting {
        // It waits for a line, so that perf is there first.
        wait_until_it_counts(perf.id());
        let _ = child.stdin.take().expect("a pipe").write_all(b"go\n");
    }
    let done = perf.wait_with_output().expect("perf ends");
    if let Some(mut child) = waiting {
        let _ = child.wait();
    }
    done
}

/// Waits until a perf has mapped its rings, which it does behind opening all events, or is gone.
fn wait_until_it_counts(pid: u32) {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    while !read("maps").contains("[perf_event]") {
        // One that has ended is there until it is waited for.
        let has_ended =
            read("stat").rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'));
        if has_ended {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Then they are switched on.
    std::thread::sleep(std::time::Duration::from_millis(300));
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
    ("a folder of threads", &["--threads", "-e", "cpu-clock,page-faults"], Whom::Program),
    ("threads, system wide, compressed", &["--threads", "-z", "-a", "-e", "cpu-clock"], Whom::Program),
    ("a folder with the kernel's code", &["--kcore", "-e", "cpu-clock"], Whom::Program),
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
        let _ = std::fs::remove_dir_all(&file);
        if record(options, *whom, &file).is_none() {
            // The kernel's own memory is closed to root as well on some machines.
            let wanted = if options.contains(&"--kcore") {
                prerequisites::Need::Kcore
            } else {
                prerequisites::Need::PerfEvent
            };
            prerequisites::skip(wanted, format!("perf may not record {name}"));
            continue;
        }
        let count = compare(name, &file, folder.path());
        println!("{name}: {count} samples");
        (files, samples) = (files + 1, samples + count);
    }
    println!("{files} files, {samples} samples, {} fields compared", 6 * samples + 5 * samples);
    assert!(files > 0, "perf could record nothing");
}

#[test]
fn perf_reads_files_of_the_other_byte_order_as_we_do() {
    if !prerequisites::needs("perf") {
        return;
    }
    use import::scripted::{ScriptedEvent, ScriptedFile, ScriptedSample};
    use pmu::bindings as b;
    let fields = b::PERF_SAMPLE_IP | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_PERIOD;
    let event = ScriptedEvent {
        name: "cycles".to_owned(),
        kind: b::PERF_TYPE_HARDWARE,
        pace: 1000,
        sample_type: u64::from(fields | b::PERF_SAMPLE_ID | b::PERF_SAMPLE_CPU),
        id: 5,
        ..ScriptedEvent::default()
    };
    let mut made = ScriptedFile::of(vec![event]);
    // Without a host perf takes all such sections for broken.
    made.say(3, "far");
    made.say(6, "s390x");
    made.execute((70, 70), 900, "far");
    for turn in 0..50 {
        let sample = ScriptedSample {
            ip: 0x40_0000 + turn,
            task: (70, 71),
            time_ns: 1000 + 7 * turn,
            cpu: 3,
            period: 1000 + turn,
            ..ScriptedSample::default()
        };
        made.sample(0, b::PERF_RECORD_MISC_USER as u16, &sample);
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("perf.data");
    std::fs::write(&file, made.file_of_other_order()).unwrap();
    assert_eq!(compare("the other byte order", &file, folder.path()), 50);
}
