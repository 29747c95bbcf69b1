//! Events of the kernel that need no hardware counter, against work that causes a known number of them.

use std::{
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
/// Each is tried this often, and the best counts: what others cause meanwhile only adds.
const TRIES: u32 = 3;

/// What a work did: the truth, and how far above it an honest count may be.
struct Known {
    truth: f64,
    spare: f64,
}

/// Judges all.
pub fn judge() -> Vec<Judged> {
    let cell = AtomicU64::new(0);
    let faults = || {
        touch();
        Known { truth: PAGES as f64, spare: 8.0 }
    };
    let writes = || {
        (0..WRITES).for_each(|value| black_box(&cell).store(value, Ordering::Relaxed));
        Known { truth: WRITES as f64, spare: 0.0 }
    };
    let both = || {
        (0..WRITES).for_each(|value| {
            black_box(&cell).store(value, Ordering::Relaxed);
            black_box(black_box(&cell).load(Ordering::Relaxed));
        });
        Known { truth: 2.0 * WRITES as f64, spare: 0.0 }
    };
    let calls = || {
        (0..WRITES).for_each(|value| {
            black_box(black_box(step as fn(u64) -> u64)(value));
        });
        Known { truth: WRITES as f64, spare: 0.0 }
    };
    vec![
        one(Indicator::event("page-faults"), "pages touched first", Signal::Software(2), &faults),
        one(Indicator::event("minor-faults"), "pages touched first", Signal::Software(5), &faults),
        one(Indicator::event("context-switches"), "times the thread slept", Signal::Software(3), &sleep),
        one(Indicator::event("task-clock"), "nanoseconds on a CPU", Signal::Software(1), &busy),
        one(Indicator::event("cpu-clock"), "nanoseconds on a CPU", Signal::Software(0), &busy),
        one(Indicator::event("cpu-migrations"), "moves to another CPU", Signal::Software(4), &migrate),
        one(Indicator::WatchedWrites, "writes to a word", watch(&cell, false), &writes),
        one(Indicator::WatchedAccesses, "accesses to a word", watch(&cell, true), &both),
        one(Indicator::WatchedCalls, "calls of a function", executed(step), &calls),
    ]
}

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

/// Goes back and forth between two CPUs, and may then run where it might before.
fn migrate() -> Known {
    let cpus: Vec<usize> = Topology::read(&Source::live())
        .usable_cpus()
        .iter()
        .filter_map(|cpu| usize::try_from(cpu).ok())
        .take(2)
        .collect();
    let before = sched_getaffinity(None);
    let mut moves = 0;
    if let (&[one, other], Ok(before)) = (cpus.as_slice(), before) {
        for cpu in (0..MOVES).flat_map(|_| [one, other]) {
            let mut only = Affinity::new();
            only.set(cpu);
            let from = sched_getcpu();
            moves += u64::from(sched_setaffinity(None, &only).is_ok() && from != cpu);
        }
        // What cannot be put back stays on a CPU that it may use.
        let _ = sched_setaffinity(None, &before);
    }
    Known { truth: moves as f64, spare: 2.0 }
}

/// Touches fresh small pages.
fn touch() {
    let placement = Placement { pages: PagePolicy::Small, node: None };
    if let Ok(mut buffer) = Buffer::allocate(Bytes(PAGES * 4096), placement) {
        buffer.touch();
        black_box(&mut buffer);
    }
}

fn sleep() -> Known {
    (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_micros(200)));
    // Others may push the thread off its CPU besides.
    Known { truth: SLEEPS as f64, spare: SLEEPS as f64 }
}

/// Time on the CPU, by the clock of the thread.
fn busy() -> Known {
    let cpu = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let (before, began) = (cpu(), Instant::now());
    while began.elapsed() < BUSY {
        black_box(0);
    }
    Known { truth: cpu() - before, spare: 0.0 }
}

fn one(indicator: Indicator, purpose: &str, signal: Signal, work: &dyn Fn() -> Known) -> Judged {
    let mut event = Event::new(indicator.name(), signal);
    event.modifiers.user = matches!(event.signal, Signal::Breakpoint { .. });
    let tried: Result<Vec<(Known, f64)>, String> = (0..TRIES).map(|_| counted(&event, work)).collect();
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

fn counted(event: &Event, work: &dyn Fn() -> Known) -> Result<(Known, f64), String> {
    let here = PerfEvents::new(&pmu::Live, Source::live());
    let request = CountRequest {
        events: vec![event.clone()],
        scope: Scope::ThisThread,
        too_many: TooMany::Refuse,
        share: CountShare::Together,
    };
    let mut counting = here.open(&request).map_err(|refusal| refusal.to_string())?;
    counting.start().map_err(|refusal| refusal.to_string())?;
    let known = work();
    counting.stop().map_err(|refusal| refusal.to_string())?;
    let counts = counting.read().map_err(|refusal| refusal.to_string())?;
    let value = counts.first().map(|count| &count.value);
    let estimate = value.and_then(events::Value::estimate);
    estimate.map(|count| (known, count)).ok_or_else(|| format!("it has no value: {value:?}"))
}

/// By the try that came closest.
fn verdict(name: &str, purpose: &str, tries: &[(Known, f64)]) -> (Trust, Vec<Evidence>) {
    let error = |(known, count): &(Known, f64)| {
        let above = (count - known.truth - known.spare).max(0.0);
        let below = (known.truth - count).max(0.0);
        above.max(below) / known.truth.max(1.0)
    };
    let least = tries.iter().map(error).fold(f64::INFINITY, f64::min);
    let evidence: Vec<Evidence> = tries
        .iter()
        .map(|(known, count)| Evidence {
            experiment: purpose.to_owned(),
            truth: Some(known.truth),
            counted: Some(*count),
            note: String::new(),
        })
        .collect();
    if tries.iter().all(|(known, _)| known.truth == 0.0) {
        let missing = "nothing here causes it: there is one CPU, or a thread may not be moved".to_owned();
        return (Trust::Untested { missing }, evidence);
    }
    let silent = tries.iter().all(|(_, count)| *count == 0.0);
    let trust = if least <= CLOSE {
        Trust::Trusted { error: least }
    } else {
        let flaw = if silent { Flaw::Silent } else { Flaw::DoesNotFollow { worst: least } };
        let why = format!("off by {:.0} % at best, in {TRIES} tries", least * 100.0);
        Trust::Broken { flaw, why, shown_by: format!("{name}: {purpose}") }
    };
    (trust, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_events_are_trusted_or_say_what_is_missing() {
        for judged in judge() {
            println!("{}: {:?} {:?}", judged.name, judged.trust, judged.evidence);
            match &judged.trust {
                Trust::Trusted { error } => assert!(*error <= CLOSE),
                Trust::Untested { missing } => assert!(!missing.is_empty()),
                other => panic!("{}: {other:?}", judged.name),
            }
        }
    }

    #[test]
    fn a_count_that_is_too_small_or_silent_is_caught() {
        let known = || Known { truth: 100.0, spare: 5.0 };
        let flaw = |count: f64| match verdict("x", "y", &[(known(), count)]).0 {
            Trust::Broken { flaw, .. } => Some(flaw),
            _ => None,
        };
        assert_eq!(flaw(0.0), Some(Flaw::Silent));
        assert!(matches!(flaw(80.0), Some(Flaw::DoesNotFollow { .. })));
        assert!(matches!(flaw(130.0), Some(Flaw::DoesNotFollow { .. })));
        assert_eq!(flaw(104.0), None);
    }
}
