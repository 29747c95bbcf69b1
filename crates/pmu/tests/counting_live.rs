//! Counting on the running kernel: events that need no hardware counters.
#![allow(clippy::unwrap_used)]

mod held;

use std::{
    env,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use events::{
    Count, CountRequest, CountShare, CountedPlace, Counting, Event, Instrument, Missing, Scope, Signal,
    TooMany, Value,
};
use held::Held;
use machine::Source;
use pmu::{Live, PerfEvents};
use rustix::mm::{Advice, MapFlags, ProtFlags};

const PAGE_FAULTS: u64 = 2;
const CONTEXT_SWITCHES: u64 = 3;
const TASK_CLOCK: u64 = 1;

fn here() -> PerfEvents<'static> {
    PerfEvents::new(&Live, Source::live())
}

fn request(events: Vec<Event>, scope: Scope) -> CountRequest {
    CountRequest { events, scope, too_many: TooMany::Multiplex, share: CountShare::Together }
}

fn software(name: &str, number: u64) -> Event {
    Event::new(name, Signal::Software(number))
}

/// What a machine lacks on which a request is refused.
fn wanted(request: &CountRequest) -> prerequisites::Need<'static> {
    if matches!(request.scope, Scope::Cpus(_)) {
        return prerequisites::Need::Root;
    }
    let watches = |event: &Event| matches!(event.signal, Signal::Breakpoint { .. });
    match request.events.iter().any(watches) {
        true => prerequisites::Need::Breakpoint,
        false => prerequisites::Need::PerfEvent,
    }
}

/// `None`, said aloud, where this user may not count.
fn open<'a>(here: &'a PerfEvents<'_>, request: &CountRequest) -> Option<Box<dyn Counting + 'a>> {
    match here.open(request) {
        Ok(counting) => Some(counting),
        Err(refusal) => {
            let words = refusal.to_string();
            assert!(
                ["EACCES", "EPERM", "ENOSYS", "ENOSPC"].iter().any(|name| words.contains(name)),
                "{words}"
            );
            prerequisites::skip(wanted(request), words);
            None
        }
    }
}

fn raw(counts: &[Count], event: usize) -> u64 {
    match &counts[event].value {
        Value::Counted { raw, .. } => *raw,
        Value::Missing(missing) => panic!("{missing:?}"),
    }
}

fn writes_to(cell: &AtomicU64) -> Event {
    let signal = Signal::Breakpoint {
        address: ptr::from_ref(cell) as u64,
        length: 8,
        read: false,
        write: true,
        execute: false,
    };
    let mut event = Event::new("writes", signal);
    event.modifiers.user = true;
    event
}

fn write(cell: &AtomicU64, times: u64) {
    for value in 0..times {
        black_box(cell).store(value, Ordering::Relaxed);
    }
}

#[test]
fn a_cell_written_n_times_counts_n() {
    let (here, cell) = (here(), AtomicU64::new(0));
    let Some(mut counting) = open(&here, &request(vec![writes_to(&cell)], Scope::ThisThread)) else {
        return;
    };
    write(&cell, 50);
    counting.start().unwrap();
    write(&cell, 1234);
    counting.stop().unwrap();
    write(&cell, 50);
    let counts = counting.read().unwrap();
    assert_eq!(raw(&counts, 0), 1234);
    assert_eq!(counts[0].value.exact(), Some(1234));
    counting.start().unwrap();
    write(&cell, 6);
    assert_eq!(raw(&counting.read().unwrap(), 0), 1240, "counted from the first start on");
}

/// Touches every page of fresh memory that the kernel gives in small pages.
fn touch(pages: usize) {
    let length = pages * rustix::param::page_size();
    if length == 0 {
        return;
    }
    // SAFETY: the mapping is new and ours, written within its length, and unmapped when nothing points to it.
    unsafe {
        let start = rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
        .unwrap();
        // Not an error where the kernel knows no huge pages.
        let _ = rustix::mm::madvise(start, length, Advice::LinuxNoHugepage);
        for page in 0..pages {
            start.cast::<u8>().add(page * rustix::param::page_size()).write_volatile(1);
        }
        rustix::mm::munmap(start, length).unwrap();
    }
}

/// In a process of its own: a fork of another test would make our pages fault again.
#[test]
fn page_faults_of_a_fresh_buffer_are_its_pages() {
    assert!(again("page faults", 0).status().unwrap().success());
}

fn page_faults() {
    let here = here();
    let Some(mut counting) =
        open(&here, &request(vec![software("page-faults", PAGE_FAULTS)], Scope::ThisThread))
    else {
        return;
    };
    let mut before = 0;
    for (round, pages) in [8, 1, 64, 1000].into_iter().enumerate() {
        counting.start().unwrap();
        touch(pages);
        counting.stop().unwrap();
        let counted = raw(&counting.read().unwrap(), 0);
        // Everything that this loop itself touches is there after the first round.
        assert!(round == 0 || counted - before == pages as u64, "{} faults, {pages} pages", counted - before);
        before = counted;
    }
}

#[test]
fn what_was_never_started_is_missing_and_not_zero() {
    let here = here();
    let events = vec![software("page-faults", PAGE_FAULTS), software("context-switches", CONTEXT_SWITCHES)];
    let Some(mut counting) = open(&here, &request(events, Scope::ThisThread)) else {
        return;
    };
    for count in counting.read().unwrap() {
        assert_eq!(count.value, Value::Missing(Missing::NeverEnabled));
    }
}

#[test]
fn kernel_events_in_user_mode_are_refused_not_zero() {
    let mut event = software("context-switches", CONTEXT_SWITCHES);
    event.modifiers.user = true;
    let refusal = here().open(&request(vec![event], Scope::ThisThread)).err().unwrap().to_string();
    assert!(refusal.contains("never count in user mode"), "{refusal}");
}

/// This test binary again, in a role of [`role`].
fn again(role: &str, pages: usize) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "role", "--nocapture", "--test-threads=1"]);
    command.env("COUNTING_ROLE", role).env("COUNTING_PAGES", pages.to_string()).stdout(Stdio::null());
    command
}

/// What the programs under measurement do; nothing when run as a test.
#[test]
fn role() {
    let Ok(role) = env::var("COUNTING_ROLE") else {
        return;
    };
    let pages = env::var("COUNTING_PAGES").unwrap().parse().unwrap();
    match role.as_str() {
        "touch" => touch(pages),
        "family" => family(pages),
        "busy" => busy(),
        "page faults" => page_faults(),
        other => panic!("no role {other}"),
    }
}

const THREADS: usize = 8;
const FORKS: usize = 100;

/// Eight threads, a hundred forks and a program, each touching `pages`.
fn family(pages: usize) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| touch(pages));
        }
    });
    forks(&|| touch(pages));
    assert!(again("touch", pages).status().unwrap().success());
}

/// Forks children one after the other; each does `work` and ends.
fn forks(work: &dyn Fn()) {
    for _ in 0..FORKS {
        // SAFETY: the child allocates nothing, takes no lock, and leaves without unwinding or running destructors.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            work();
            // SAFETY: ends the child and nothing else.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for our own child, without asking for its status.
        assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), 0) }, pid);
    }
}

#[test]
fn threads_forks_and_an_exec_add_up() {
    let here = here();
    let faults = |pages: usize| {
        let held = Held::new(again("family", pages)).unwrap();
        let request = request(vec![software("page-faults", PAGE_FAULTS)], Scope::Child(held.pid()));
        let mut counting = open(&here, &request)?;
        counting.start().unwrap();
        assert!(held.release().unwrap().wait().unwrap().success());
        Some(raw(&counting.read().unwrap(), 0))
    };
    // Enough to drown the few faults by which one fork differs from the next.
    let pages = 4000;
    let (Some(without), Some(with)) = (faults(0), faults(pages)) else {
        return;
    };
    let (counted, truth) = ((with - without) as f64, ((THREADS + FORKS + 1) * pages) as f64);
    assert!((counted / truth - 1.0).abs() < 0.01, "{counted} page faults, of which {truth} are known");
}

#[test]
fn a_process_attached_to_counts_in_every_thread_and_child() {
    static CELL: AtomicU64 = AtomicU64::new(0);
    let here = here();
    // Two waiting threads that exist before, and others that come later.
    let (begin, wait) = std::sync::mpsc::sync_channel::<()>(0);
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let early: Vec<_> = (0..2)
        .map(|_| {
            let wait = std::sync::Arc::clone(&wait);
            thread::spawn(move || {
                wait.lock().unwrap().recv().unwrap();
                write(&CELL, 100);
            })
        })
        .collect();
    let request = request(vec![writes_to(&CELL)], Scope::Process(std::process::id()));
    let counting = open(&here, &request);
    if let Some(mut counting) = counting {
        counting.start().unwrap();
        for _ in 0..2 {
            begin.send(()).unwrap();
        }
        early.into_iter().for_each(|thread| thread.join().unwrap());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| write(&CELL, 100));
            }
        });
        forks(&|| write(&CELL, 10));
        counting.stop().unwrap();
        let truth = (2 + THREADS) as u64 * 100 + FORKS as u64 * 10;
        assert_eq!(raw(&counting.read().unwrap(), 0), truth, "{:?}", counting.notes());
    }
}

#[test]
fn a_cpu_counts_apart_from_the_others() {
    let here = here();
    let cpus: machine::CpuSet = [0].into_iter().collect();
    let request = CountRequest {
        share: CountShare::Each,
        ..request(
            vec![software("cpu-clock", 0), software("context-switches", CONTEXT_SWITCHES)],
            Scope::Cpus(cpus),
        )
    };
    let Some(mut counting) = open(&here, &request) else {
        return;
    };
    counting.start().unwrap();
    thread::sleep(Duration::from_millis(20));
    counting.stop().unwrap();
    let counts = counting.read().unwrap();
    assert!(counts.iter().all(|count| count.place == CountedPlace::Cpu(0)), "{counts:?}");
    assert!(raw(&counts, 0) >= 20_000_000, "the clock of a CPU passes whatever runs there");
}

/// Sleeps and computes in turn: about a thousand context switches and a good stretch of task clock.
fn busy() {
    for _ in 0..1000 {
        thread::sleep(Duration::from_micros(20));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(400) {
            black_box(begun);
        }
    }
}

#[test]
fn perf_stat_counts_the_same() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("perf.csv");
    let again = again("busy", 0);
    // The same process is counted by both at once: perf from the shell's start, we from the exec that follows.
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x,", "-e", "context-switches,task-clock", "-o"]).arg(&report);
    perf.args(["sh", "-c", "echo $$; read go; exec \"$0\" \"$@\" >/dev/null"]).arg(again.get_program());
    perf.args(again.get_args()).envs(again.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = perf.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let Ok(pid) = line.trim().parse() else {
        child.wait().unwrap();
        prerequisites::skip(
            prerequisites::Need::Program("perf"),
            format!("it does not start programs: {line}"),
        );
        return;
    };
    let here = here();
    let events = vec![software("context-switches", CONTEXT_SWITCHES), software("task-clock", TASK_CLOCK)];
    let counting = open(&here, &request(events, Scope::Child(pid)));
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let Some(mut counting) = counting else {
        return;
    };
    let (ours, report) = (counting.read().unwrap(), std::fs::read_to_string(report).unwrap());
    for (event, name, unit) in [(0, "context-switches", 1.0), (1, "task-clock", 1e6)] {
        let line = report.lines().find(|line| line.contains(name)).unwrap();
        let Ok(theirs) = line.split(',').next().unwrap().parse::<f64>() else {
            prerequisites::skip(prerequisites::Need::Program("perf"), line);
            continue;
        };
        let ratio = raw(&ours, event) as f64 / (theirs * unit);
        assert!((0.99..1.01).contains(&ratio), "{name}: {ratio} of perf's {theirs}");
    }
}

#[test]
fn a_process_that_is_gone_is_said_to_be() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let here = here();
    let refusal = here.open(&request(vec![software("task-clock", TASK_CLOCK)], Scope::Process(child.id())));
    let words = refusal.err().unwrap().to_string();
    assert!(words.contains("no such process") || words.contains("ended"), "{words}");
}
