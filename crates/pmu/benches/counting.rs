//! Opening and reading six software events on eight waiting threads, beside `perf stat`; and what one read costs.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    process::{Command, Stdio, id},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use events::{CountRequest, CountShare, Event, Instrument, Scope, TooMany};
use machine::Source;
use pmu::{Live, PerfEvents};

const EVENTS: [&str; 6] =
    ["task-clock", "context-switches", "cpu-migrations", "page-faults", "minor-faults", "major-faults"];
const THREADS: usize = 8;
const REPEATS: usize = 21;
const READS: u32 = 200;

fn main() {
    let done = Arc::new(Barrier::new(THREADS + 1));
    let waiting: Vec<_> = (0..THREADS)
        .map(|_| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                done.wait();
            })
        })
        .collect();
    let ours = median(|| once(&EVENTS));
    println!("six events on {} threads: opened, started, read, closed in {}", THREADS + 1, shown(ours));
    match (perf(&EVENTS), perf(&EVENTS[..1])) {
        (Some(perf), Some(one)) => {
            println!(
                "perf stat, the same: {}, its own start included; ratio {:.2}",
                shown(perf),
                ratio(ours, perf)
            );
            let beyond = perf.saturating_sub(one);
            println!("perf stat, what five of the six events add: {}", shown(beyond));
        }
        _ => println!("perf stat: not to be had here"),
    }
    done.wait();
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    for count in [1, 6] {
        let cost = read_cost(&EVENTS[..count]);
        println!("one read of {count} events of this thread, by system call: {:.0} ns", cost.as_nanos());
    }
}

fn request(here: &PerfEvents<'_>, names: &[&str], scope: Scope) -> CountRequest {
    let events: Vec<Event> = names.iter().map(|name| here.resolve(name).unwrap()).collect();
    CountRequest { events, scope, too_many: TooMany::Multiplex, share: CountShare::Together }
}

/// Everything from nothing, as a program that starts would do it.
fn once(names: &[&str]) {
    let here = PerfEvents::new(&Live, Source::live());
    let mut counting = here.open(&request(&here, names, Scope::Process(id()))).unwrap();
    counting.start().unwrap();
    counting.stop().unwrap();
    assert_eq!(counting.read().unwrap().len(), names.len());
}

fn perf(names: &[&str]) -> Option<Duration> {
    let run = || {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", &names.join(","), "-p", &id().to_string(), "true"]);
        perf.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    run().then(|| median(|| assert!(run())))
}

fn read_cost(names: &[&str]) -> Duration {
    let here = PerfEvents::new(&Live, Source::live());
    let mut counting = here.open(&request(&here, names, Scope::ThisThread)).unwrap();
    counting.start().unwrap();
    median(|| {
        for _ in 0..READS {
            assert_eq!(counting.read().unwrap().len(), names.len());
        }
    }) / READS
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..REPEATS)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}

fn shown(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
