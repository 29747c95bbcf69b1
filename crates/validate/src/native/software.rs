//! Events of the kernel that need no hardware counter, against work that causes a known number of them.
//!
//! Where others may cause some besides (a thread is pushed off its CPU, a page of our own is touched), the truth is what the kernel's
//! accounts of the thread say, which are kept apart from its events.

use std::{
    fs,
    hint::black_box,
    ptr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use events::{CountRequest, CountShare, Event, Instrument as _, Scope, Signal, TooMany};
use kernels::{
    PagePolicy,
    memory::{Buffer, Placement},
};
use machine::{Bytes, Source, Topology};
use pmu::PerfEvents;
use rustix::thread::{CpuSet as Affinity, sched_getaffinity, sched_getcpu, sched_setaffinity};
use trust::{Evidence, Flaw, Indicator, Judged, Purpose, Trust};

/// Pages touched for the first time.
const PAGES: u64 = 256;
/// Times a word is written.
const WRITES: u64 = 1000;
/// Times the thread goes to sleep.
const SLEEPS: u64 = 20;
/// Times the thread goes to another CPU and back.
const MOVES: u64 = 20;
/// How long it is busy.
const BUSY: Duration = Duration::from_millis(60);
/// Farther than this from the truth is wrong.
const CLOSE: f64 = 0.05;
/// Each is tried this often, and the one that is furthest off is quoted.
const TRIES: u32 = 3;

/// Work that causes a known number of events.
struct CausedEvents<'a> {
    /// Makes ready, before anything is counted.
    before: &'a dyn Fn(),
    /// Does it, and says how many it caused.
    run: &'a dyn Fn() -> f64,
    /// Puts things back when nothing is counted any more.
    after: &'a dyn Fn(),
}

impl<'a> CausedEvents<'a> {
    fn by(run: &'a dyn Fn() -> f64) -> Self {
        Self { before: &|| (), run, after: &|| () }
    }
}

/// Judges all.
pub fn judge() -> Vec<Judged> {
    let cell = AtomicU64::new(0);
    let faults = || {
        let before = ThreadAccount::read();
        touch();
        before.zip(ThreadAccount::read()).map_or(PAGES as f64, |(before, after)| after.faults - before.faults)
    };
    let writes = || {
        (0..WRITES).for_each(|value| black_box(&cell).store(value, Ordering::Relaxed));
        WRITES as f64
    };
    let both = || {
        (0..WRITES).for_each(|value| {
            black_box(&cell).store(value, Ordering::Relaxed);
            black_box(black_box(&cell).load(Ordering::Relaxed));
        });
        2.0 * WRITES as f64
    };
    let calls = || {
        (0..WRITES).for_each(|value| {
            black_box(black_box(step as fn(u64) -> u64)(value));
        });
        WRITES as f64
    };
    let (faults, writes) = (CausedEvents::by(&faults), CausedEvents::by(&writes));
    let (both, calls) = (CausedEvents::by(&both), CausedEvents::by(&calls));
    let (sleeps, busy) = (CausedEvents::by(&sleep), CausedEvents::by(&busy));
    let cpus = two_cpus();
    let allowed = sched_getaffinity(None).ok();
    let moves = CausedEvents {
        before: &|| {
            let _ = cpus.is_some_and(|[one, _]| pin(one));
        },
        run: &|| cpus.map_or(0.0, migrate),
        // What cannot be put back stays on a CPU that it may use.
        after: &|| {
            let _ = allowed.map(|allowed| sched_setaffinity(None, &allowed));
        },
    };
    let event = Indicator::event;
    vec![
        one(event("page-faults"), "pages touched first", Signal::Software(2), &faults),
        one(event("minor-faults"), "pages touched first", Signal::Software(5), &faults),
        one(event("context-switches"), "times the thread left its CPU", Signal::Software(3), &sleeps),
        one(event("task-clock"), "nanoseconds on a CPU", Signal::Software(1), &busy),
        one(event("cpu-clock"), "nanoseconds on a CPU", Signal::Software(0), &busy),
        one(event("cpu-migrations"), "moves to another CPU", Signal::Software(4), &moves),
        one(Indicator::WatchedWrites, "writes to a word", watch(&cell, false), &writes),
        one(Indicator::WatchedAccesses, "accesses to a word", watch(&cell, true), &both),
        one(Indicator::WatchedCalls, "calls of a function", executed(step), &calls),
    ]
}

/// What the kernel has put down for this thread, apart from its events.
struct ThreadAccount {
    /// Pages that were not there.
    faults: f64,
    /// Times it left its CPU, willingly or not.
    switches: f64,
}

impl ThreadAccount {
    /// None where `/proc` does not say.
    fn read() -> Option<Self> {
        let status = fs::read_to_string("/proc/thread-self/status").ok()?;
        let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
        Self::parse(&status, &stat)
    }

    fn parse(status: &str, stat: &str) -> Option<Self> {
        let line = |name: &str| -> Option<f64> {
            status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        // The name of the program may hold anything, a closing parenthesis included.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Self {
            faults: field(MINOR_FAULTS)? + field(MAJOR_FAULTS)?,
            switches: line("voluntary_ctxt_switches:")? + line("nonvoluntary_ctxt_switches:")?,
        })
    }
}

/// Fields of `/proc/PID/stat` behind the name, from 0.
const MINOR_FAULTS: usize = 7;
const MAJOR_FAULTS: usize = 9;

fn watch(cell: &AtomicU64, read: bool) -> Signal {
    let address = ptr::from_ref(cell) as u64;
    Signal::Breakpoint { address, length: 8, read, write: true, execute: false }
}

fn executed(function: fn(u64) -> u64) -> Signal {
    let address = function as usize as u64;
    Signal::Breakpoint { address, length: 8, read: false, write: false, execute: true }
}

/// Something to call.
#[inline(never)]
fn step(value: u64) -> u64 {
    black_box(value) + 1
}

/// Two CPUs to move between; none if there is one.
fn two_cpus() -> Option<[usize; 2]> {
    let topology = Topology::read(&Source::live());
    let cpus: Vec<usize> =
        topology.usable_cpus().iter().filter_map(|cpu| usize::try_from(cpu).ok()).take(2).collect();
    cpus.try_into().ok()
}

fn pin(cpu: usize) -> bool {
    let mut only = Affinity::new();
    only.set(cpu);
    sched_setaffinity(None, &only).is_ok()
}

/// Goes back and forth between two CPUs, from the first on; it may run on one at a time only, so that nobody else moves it.
fn migrate([one, other]: [usize; 2]) -> f64 {
    let turns = (0..MOVES).flat_map(|_| [other, one]);
    turns.filter(|&cpu| sched_getcpu() != cpu && pin(cpu)).count() as f64
}

/// Touches fresh small pages.
fn touch() {
    let placement = Placement { pages: PagePolicy::Small, node: None };
    if let Ok(mut buffer) = Buffer::allocate(Bytes(PAGES * 4096), placement) {
        buffer.touch();
        black_box(&mut buffer);
    }
}

/// Others may push the thread off its CPU besides.
fn sleep() -> f64 {
    let before = ThreadAccount::read();
    (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_micros(200)));
    before
        .zip(ThreadAccount::read())
        .map_or(SLEEPS as f64, |(before, after)| after.switches - before.switches)
}

/// Time on the CPU, by the clock of the thread.
fn busy() -> f64 {
    let cpu = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let (before, began) = (cpu(), Instant::now());
    while began.elapsed() < BUSY {
        black_box(0);
    }
    cpu() - before
}

fn one(indicator: Indicator, purpose: &str, signal: Signal, work: &CausedEvents<'_>) -> Judged {
    let mut event = Event::new(indicator.name(), signal);
    event.modifiers.user = matches!(event.signal, Signal::Breakpoint { .. });
    let tried: Result<Vec<(f64, f64)>, String> = (0..TRIES).map(|_| counted(&event, work)).collect();
    let (trust, evidence) = match tried {
        Err(missing) => (Trust::Untested { missing }, Vec::new()),
        Ok(tries) => verdict(indicator.name(), purpose, &tries),
    };
    let signals = vec![match event.signal {
        // Where the word lay does not matter.
        Signal::Breakpoint { read, write, execute, length, .. } => {
            Signal::Breakpoint { address: 0, length, read, write, execute }
        }
        signal => signal,
    }];
    Judged { evidence, signals, ..Judged::new(indicator, Purpose::Software, purpose, "software", trust) }
}

/// What was true, and what was counted.
fn counted(event: &Event, work: &CausedEvents<'_>) -> Result<(f64, f64), String> {
    let here = PerfEvents::new(&pmu::Live, Source::live());
    let request = CountRequest {
        events: vec![event.clone()],
        scope: Scope::ThisThread,
        too_many: TooMany::Refuse,
        share: CountShare::Together,
    };
    let mut counting = here.open(&request).map_err(|refusal| refusal.to_string())?;
    (work.before)();
    let started = counting.start();
    let truth = (work.run)();
    let stopped = counting.stop();
    (work.after)();
    started.and(stopped).map_err(|refusal| refusal.to_string())?;
    let counts = counting.read().map_err(|refusal| refusal.to_string())?;
    let value = counts.first().map(|count| &count.value);
    let estimate = value.and_then(events::Value::estimate);
    estimate.map(|count| (truth, count)).ok_or_else(|| format!("it has no value: {value:?}"))
}

/// By the try that is furthest off.
fn verdict(name: &str, purpose: &str, tries: &[(f64, f64)]) -> (Trust, Vec<Evidence>) {
    let error = |(truth, count): &(f64, f64)| (count - truth) / truth.max(1.0);
    let worst = tries.iter().map(|one| error(one).abs()).fold(0.0, f64::max);
    let evidence: Vec<Evidence> = tries
        .iter()
        .map(|one| Evidence {
            experiment: purpose.to_owned(),
            truth: Some(one.0),
            counted: Some(one.1),
            error: Some(error(one)),
            note: String::new(),
        })
        .collect();
    if tries.iter().all(|(truth, _)| *truth == 0.0) {
        let missing = "nothing here causes it: there is one CPU, or a thread may not be moved".to_owned();
        return (Trust::Untested { missing }, evidence);
    }
    let silent = tries.iter().all(|(_, count)| *count == 0.0);
    let middle = crate::judge::median(&tries.iter().map(error).collect::<Vec<f64>>()).unwrap_or(worst);
    let trust = if worst <= CLOSE {
        Trust::Trusted { error: worst }
    } else if middle.abs() <= CLOSE {
        let misses = format!("it every time: off by {:.0} % in one of {} tries", worst * 100.0, tries.len());
        Trust::Qualitative { tells: "how many, in the middle of several tries".to_owned(), misses }
    } else {
        let flaw = if silent { Flaw::Silent } else { Flaw::DoesNotFollow { worst } };
        let why = format!("is off by {:.0} % in {} tries", worst * 100.0, tries.len());
        Trust::Broken { flaw, why, shown_by: format!("{name}: {purpose}") }
    };
    (trust, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_events_are_believed_or_say_what_is_missing() {
        for judged in judge() {
            println!("{}: {:?} {:?}", judged.name, judged.trust, judged.evidence);
            match &judged.trust {
                Trust::Trusted { error } => {
                    let shown = judged.evidence.iter().filter_map(|one| one.error).map(f64::abs);
                    assert_eq!(shown.fold(0.0, f64::max), *error, "the error printed is the error shown");
                }
                Trust::Qualitative { .. } => {}
                Trust::Untested { missing } => assert!(!missing.is_empty()),
                other => panic!("{}: {other:?}", judged.name),
            }
        }
    }

    #[test]
    fn a_count_that_is_too_small_too_large_or_silent_is_caught_in_any_try() {
        let trust = |counts: &[f64]| {
            let tries: Vec<(f64, f64)> = counts.iter().map(|count| (20.0, *count)).collect();
            verdict("x", "y", &tries).0
        };
        let flaw = |count: f64| match trust(&[count]) {
            Trust::Broken { flaw, .. } => Some(flaw),
            _ => None,
        };
        assert_eq!(flaw(0.0), Some(Flaw::Silent));
        for wrong in [16.0, 22.0, 40.0] {
            assert!(matches!(flaw(wrong), Some(Flaw::DoesNotFollow { .. })), "{wrong}");
        }
        assert_eq!(trust(&[20.0, 21.0, 20.0]), Trust::Trusted { error: 0.05 });
        // The best of three is not what a user gets.
        assert!(matches!(trust(&[20.0, 40.0, 20.0]), Trust::Qualitative { .. }));
    }

    #[test]
    fn the_account_of_a_thread_is_read_whatever_its_program_is_called() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 150 0 2 0 1 1 0 0 20 0 1";
        let account = ThreadAccount::parse(status, stat).unwrap();
        assert_eq!((account.faults, account.switches), (152.0, 15.0));
        assert!(ThreadAccount::parse("", stat).is_none());
    }
}
