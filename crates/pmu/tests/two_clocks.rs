//! A clock that can be slowed down: two of them, of which one is closed.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use pmu::{
    Errno, EventTarget, Scope,
    sampling::{Jitter, Sampler, SamplerRequest, SamplingPace, Sideband},
    scripted::{Behaviour, Scripted},
};

const SLOW_NS: u64 = 40_000_000;

/// What was opened: tells of switches, tells of mappings, its period.
type Opened = Arc<Mutex<Vec<(bool, bool, u64)>>>;

fn kernel() -> (Scripted, Opened) {
    let opened = Opened::default();
    let list = opened.clone();
    let kernel = Scripted::new(move |asked| {
        assert!(matches!(asked.target, EventTarget::ThreadOnCpu { tid: 7, .. }));
        let attr = asked.event.attr();
        assert_eq!((attr.disabled(), attr.enable_on_exec(), attr.inherit()), (1, 1, 1));
        let stream = asked.event.stream;
        assert!(stream.mmap == stream.comm && stream.mmap == stream.task, "of one kind or the other");
        list.lock().unwrap().push((stream.switches, stream.mmap, attr.sample_period));
        Ok(Behaviour::samples(&[]))
    });
    (kernel, opened)
}

fn request(pace: SamplingPace, share: f64) -> SamplerRequest {
    SamplerRequest {
        pace,
        slower: Some(SLOW_NS),
        jitter: Some(Jitter { share, seed: 3 }),
        sideband: Sideband { switches: true, ..Sideband::for_symbols() },
        ..SamplerRequest::clock(Scope::Child(7), "0-1".parse().unwrap())
    }
}

#[test]
fn both_together_keep_the_pace_and_one_of_them_goes() {
    let (kernel, opened) = kernel();
    let mut sampler = Sampler::open(&kernel, &request(SamplingPace::PerSecond(1000), 0.0)).unwrap();
    assert_eq!((sampler.events(), kernel.open_events()), (4, 4));
    // A thousandth and a fortieth of it less: 1 / (1000 - 25).
    let (slower, faster) = ((false, true, SLOW_NS), (true, false, 1_025_641));
    assert_eq!(*opened.lock().unwrap(), [slower, faster, slower, faster]);
    let near =
        |found: Option<f64>, expected: f64| found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-4);
    assert!(near(sampler.mean_period(), 1e6), "{:?}", sampler.mean_period());
    let counted = sampler.slow_down();
    assert!(near(counted, 1.0 / 40.0), "{counted:?}");
    assert!(near(sampler.mean_period(), SLOW_NS as f64), "{:?}", sampler.mean_period());
    assert_eq!((sampler.events(), kernel.open_events()), (2, 2), "the faster one is closed");
    assert_eq!(sampler.slow_down(), None, "there is nothing left to be slowed down");
}

#[test]
fn a_clock_that_is_slow_already_is_one() {
    let (kernel, opened) = kernel();
    let mut sampler = Sampler::open(&kernel, &request(SamplingPace::PerSecond(20), 0.0)).unwrap();
    assert_eq!(*opened.lock().unwrap(), [(true, true, 50_000_000); 2]);
    assert_eq!((sampler.slow_down(), sampler.events()), (None, 2));
}

#[test]
fn where_descriptors_are_short_there_is_one() {
    let room = 3;
    let open = Arc::new(Mutex::new(0));
    let kernel = Scripted::new(move |asked| {
        let mut open = open.lock().unwrap();
        // What was opened for two clocks is closed when one of them is refused.
        *open = if asked.event.stream.mmap && asked.event.stream.switches { 0 } else { *open + 1 };
        if *open > room { Err(Errno(libc::EMFILE)) } else { Ok(Behaviour::samples(&[])) }
    });
    let sampler = Sampler::open(&kernel, &request(SamplingPace::PerSecond(1000), 0.0)).unwrap();
    assert_eq!((sampler.events(), kernel.open_events()), (2, 2));
    assert!((sampler.mean_period().unwrap() / 1e6 - 1.0).abs() < 1e-6);
}

#[test]
fn the_slower_one_gets_new_periods_when_it_is_alone() {
    let (kernel, _) = kernel();
    let mut sampler = Sampler::open(&kernel, &request(SamplingPace::Period(1_000_000), 0.1)).unwrap();
    sampler.redraw_periods().unwrap();
    sampler.slow_down().unwrap();
    let before = sampler.mean_period().unwrap();
    sampler.redraw_periods().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let after = sampler.mean_period().unwrap();
    assert!((after / SLOW_NS as f64 - 1.0).abs() < 0.1 && after != before, "{before} {after}");
}
