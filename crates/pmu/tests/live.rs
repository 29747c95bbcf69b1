//! What the running kernel does with events that need no hardware counters.
#![allow(clippy::unwrap_used)]

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use pmu::{Errno, EventTarget, KernelEvent, Live, OpenCounter, bindings, event::Sampling};

/// `None` where this user may not open events at all: then there is nothing to test but the refusal.
fn open(event: &KernelEvent, wanted: prerequisites::Need<'_>) -> Option<OpenCounter<'static>> {
    match OpenCounter::open(&Live, event, EventTarget::ThisThread) {
        Ok(counter) => Some(counter),
        Err(errno) => {
            assert!(errno.is_permission() || errno == Errno(libc::ENOSYS), "unexpected refusal: {errno}");
            prerequisites::skip(wanted, errno);
            None
        }
    }
}

#[test]
fn a_cell_written_n_times_counts_n() {
    let cell = AtomicU64::new(0);
    let Some(counter) =
        open(&KernelEvent::writes_to(&raw const cell as u64), prerequisites::Need::Breakpoint)
    else {
        return;
    };
    for n in [1, 100, 1234] {
        let before = counter.read().unwrap().value;
        counter.start().unwrap();
        for i in 0..n {
            black_box(&cell).store(i, Ordering::Relaxed);
        }
        counter.stop().unwrap();
        let after = counter.read().unwrap();
        assert!(after.running_ns > 0);
        assert_eq!(after.value - before, n);
    }
}

#[test]
fn a_clock_fills_a_ring() {
    let sampling =
        Sampling { period: 100_000, precise: 0, fields: bindings::PERF_SAMPLE_IP.into(), user_registers: 0 };
    let clock = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK).sampled(sampling);
    let Some(counter) = open(&clock, prerequisites::Need::PerfEvent) else {
        return;
    };
    let ring = counter.map(8).unwrap();
    counter.start().unwrap();
    let mut samples = Vec::new();
    while samples.is_empty() {
        black_box((0..100_000u64).fold(1, |a, b| black_box(a ^ b)));
        samples = ring.take_records().samples().map(|sample| sample.words().collect::<Vec<_>>()).collect();
    }
    counter.stop().unwrap();
    assert!(samples.iter().all(|words| words.len() == 1 && words[0] != 0));
    assert!(counter.map(3).is_err(), "a ring is a power of two long");
}

#[test]
fn a_type_no_kernel_has_is_refused_by_name() {
    let errno =
        OpenCounter::open(&Live, &KernelEvent::new(0x7fff_ffff, 0), EventTarget::ThisThread).err().unwrap();
    assert!(errno.name().is_some(), "{errno}");
}
