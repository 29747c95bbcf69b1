//! Two threads, made by hand: what each does, and what only waits.

use record::{
    ids::ThreadId,
    regions::{Region, RegionVisits, Regions},
    run::{RecordedThread, Run},
};

use super::*;
use crate::{
    reading::Reading,
    timer::{TimerOptions, tests::run},
};

/// add rax,1; jmp -6: it only counts.
const COUNTING: [u8; 6] = [0x48, 0x83, 0xc0, 0x01, 0xeb, 0xfa];

/// A run in which the first of two threads has `first` of 1000 samples; `name` is its function.
fn shared(first: usize, name: &str) -> Run {
    let samples: Vec<_> = (0..1000).map(|index| (4 * (index % 2), None)).collect();
    let mut run = run(&COUNTING, &samples);
    run.threads.push(RecordedThread { tid: run.threads[0].tid + 1, ..run.threads[0].clone() });
    run.samples.thread = (0..1000).map(|index| ThreadId(u32::from(index >= first))).collect();
    run.functions[0].name = name.into();
    run
}

fn work_of(run: &Run) -> WorkFindings {
    Reading::of(run, None, &TimerOptions::default()).work
}

fn value(share: &KnownLimits<TimeShare>) -> f64 {
    share.value().unwrap().value
}

#[test]
fn threads_that_share_code_unevenly_lack_work() {
    let even = work_of(&shared(500, "solve"));
    assert!(value(&even.imbalance) < 0.01, "{even:?}");
    let uneven = work_of(&shared(750, "solve"));
    // 3 : 1, so that the other lacks two thirds, and on average both a third.
    assert!((value(&uneven.imbalance) - 1.0 / 3.0).abs() < 0.01, "{uneven:?}");
    assert_eq!(uneven.uneven.as_deref(), Some("solve"));
    assert_eq!(value(&uneven.synchronising), 0.0);
}

#[test]
fn what_waits_for_others_is_no_work_however_much_it_retires() {
    let waiting = work_of(&shared(750, "pthread_mutex_lock"));
    assert_eq!(value(&waiting.synchronising), 1.0);
    assert!(waiting.imbalance.missing().is_some(), "{waiting:?}");
}

#[test]
fn spinning_counts_only_while_another_thread_runs() {
    let mut run = shared(500, "anything");
    run.modules[0].path = "/usr/lib/libgomp.so.1".into();
    run.samples.cpu = (0..1000).map(|index| index % 2).collect();
    // One after the other on two CPUs: whoever spins does so because the other has none, and nobody knows why.
    let alone = work_of(&run).synchronising;
    assert!(value(&alone) < 0.01 && alone.value().unwrap().high == 1.0, "{alone:?}");
    // On one CPU they take it from each other.
    run.samples.cpu = vec![0; 1000];
    assert_eq!(value(&work_of(&run).synchronising), 1.0);
    run.samples.cpu = (0..1000).map(|index| index % 2).collect();
    run.samples.thread = (0..1000).map(|index| ThreadId(index % 2)).collect();
    assert_eq!(value(&work_of(&run).synchronising), 1.0);
}

#[test]
fn waiting_for_the_longest_is_told_from_waiting_in_general() {
    // A third of the samples: the second thread waits at the end of a region in which it has half of the first one's work.
    let mut run = shared(500, "solve");
    let mut second = run.functions[0].clone();
    (second.name, second.start, second.end) = ("pthread_barrier_wait".into(), 0x2000, 0x2006);
    run.functions.push(second);
    run.places.push(record::run::Place {
        module: record::ids::ModuleId(0),
        address: 0x2000,
        function: Some(record::ids::FunctionId(1)),
    });
    let waiting = record::ids::PlaceId::of(run.places.len() - 1);
    (750..1000).for_each(|index| run.samples.place[index] = waiting);
    let found = work_of(&run);
    assert!((value(&found.synchronising) - 0.25).abs() < 0.01, "{found:?}");
    assert!((value(&found.imbalance) - 0.25).abs() < 0.01, "{found:?}");
    assert!((found.waits_for_uneven - 0.25).abs() < 0.01, "{found:?}");
}

#[test]
fn one_thread_has_nobody_to_share_with() {
    let alone = work_of(&shared(1000, "solve"));
    assert!(alone.imbalance.missing().is_some() && alone.synchronising.missing().is_some(), "{alone:?}");
}

#[test]
fn in_a_parallel_region_idle_threads_count_and_serial_code_does_not() {
    let mut run = shared(800, "solve");
    let visits = |thread: u32| RegionVisits {
        region: RegionId(0),
        thread: ThreadId(thread),
        visits: 1,
        unended: 0,
        wall_ns: 1,
        waits_ns: None,
        counts: None,
    };
    // The first thread's first 600 samples are before the region: within, both have 200.
    run.regions = Regions {
        list: vec![Region { name: "loop".to_owned(), is_parallel: true }],
        of_samples: (0..1000).map(|index| (index >= 600).then_some(RegionId(0))).collect(),
        of_bursts: Vec::new(),
        visits: vec![visits(0), visits(1)],
        events: None,
    };
    assert!(value(&work_of(&run).imbalance) < 0.01);
    // All of the region's samples are of one thread; the other was there and did nothing.
    run.samples.thread = vec![ThreadId(0); 1000];
    let idle = work_of(&run);
    assert!((value(&idle.imbalance) - 0.5).abs() < 0.01, "{idle:?}");
    assert_eq!(idle.uneven.as_deref(), Some("loop"));
}
