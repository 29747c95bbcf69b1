//! Samples of the software clock, taken by the running kernel.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    io::Write,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use machine::CpuSet;
use pmu::{
    Errno, Live, Scope,
    sampling::{Fields, Jitter, Mode, RingRecord, Sampler, SamplerRequest, SamplingStart, Sideband},
};

const RIP: u32 = 8;

fn online() -> CpuSet {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap()
}

/// `None` where this user may not sample at all: then there is nothing to test but the refusal.
fn open(request: &SamplerRequest) -> Option<Sampler<'static>> {
    match Sampler::open(&Live, request) {
        Ok(sampler) => Some(sampler),
        Err(failure) => {
            let errno = failure.trouble.errno;
            assert!(errno.is_permission() || errno == Errno(libc::ENOSYS), "unexpected refusal: {failure}");
            prerequisites::skip(prerequisites::Need::PerfEvent, failure);
            None
        }
    }
}

/// A shell that waits for a line before it becomes `program`.
fn held(program: &str) -> Child {
    let script = format!("read line; exec {program}");
    Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

fn release(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

/// Reads until everybody is gone.
fn follow(sampler: &mut Sampler<'_>, mut each: impl FnMut(&RingRecord<'_>)) {
    while sampler.wait(Duration::from_millis(200)).unwrap().more_to_come() {
        sampler.drain(|record| each(&record));
    }
    sampler.drain_all(|record| each(&record));
}

fn spin(milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        black_box((0..10_000u64).fold(1, |a, b| black_box(a ^ b)));
    }
}

/// User time of this thread so far.
fn user_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure it is given, and zeroes are valid before that.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    Duration::from_secs(usage.ru_utime.tv_sec as u64) + Duration::from_micros(usage.ru_utime.tv_usec as u64)
}

fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[test]
fn a_child_is_followed_from_its_exec() {
    let mut child = held("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec true'");
    let pid = child.id() as i32;
    let sideband = Sideband { switches: true, ..Sideband::for_symbols() };
    let request =
        SamplerRequest { sideband, ..SamplerRequest::clock(Scope::Child(pid.cast_unsigned()), online()) };
    let Some(mut sampler) = open(&request) else {
        drop(child.stdin.take());
        child.wait().unwrap();
        return;
    };
    release(&mut child);
    let mut names = Vec::new();
    let mut maps: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    let (mut samples, mut inside, mut exits, mut switches, mut last, mut backwards) = (0, 0, 0, [0, 0], 0, 0);
    follow(&mut sampler, |record| match record {
        RingRecord::Comm { pid: whose, name, exec: true, .. } if *whose == pid => names.push(name.to_vec()),
        RingRecord::Mmap(mmap) => maps.push((mmap.start, mmap.start + mmap.length, mmap.path.to_vec())),
        RingRecord::Exit { pid: whose, .. } => exits += usize::from(*whose == pid),
        RingRecord::Switch { out, .. } => switches[usize::from(*out)] += 1,
        RingRecord::Sample(sample) => {
            samples += 1;
            assert_eq!((sample.pid, sample.mode), (pid, Mode::User));
            backwards += usize::from(sample.time_ns < last);
            last = sample.time_ns;
            let (ip, registers) = (sample.ip.unwrap(), sample.registers.unwrap());
            assert_eq!(registers.get(RIP), Some(ip));
            inside += usize::from(maps.iter().any(|(start, end, _)| (*start..*end).contains(&ip)));
        }
        RingRecord::Malformed { .. } => panic!("{record:?}"),
        _ => (),
    });
    child.wait().unwrap();
    assert_eq!(names, [b"sh".to_vec(), b"true".to_vec()]);
    assert!(maps.iter().any(|(_, _, path)| path.ends_with(b"libc.so.6") || path.starts_with(b"/")));
    assert_eq!(exits, 1);
    assert!(switches[0] > 0 && switches[1] > 0, "{switches:?}");
    assert!(samples > 5, "{samples}");
    // A CPU may be taken away between a record's time and its writing.
    assert!(backwards * 20 <= samples, "{backwards} of {samples} out of order");
    assert!(inside * 10 >= samples * 9, "{inside} of {samples} inside a mapping");
}

#[test]
fn threads_and_forks_are_followed() {
    let here = std::process::id() as i32;
    let Some(mut sampler) = open(&SamplerRequest::clock(Scope::Process(here.cast_unsigned()), online()))
    else {
        return;
    };
    let threads: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                let before = user_time();
                spin(150);
                (tid(), user_time() - before)
            })
        })
        .collect();
    let threads: BTreeMap<_, _> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut children = BTreeSet::new();
    let mut samples: BTreeMap<i32, u64> = BTreeMap::new();
    let (mut forked, mut exited) = (BTreeSet::new(), BTreeSet::new());
    let mut take = |record: RingRecord<'_>| match record {
        RingRecord::Sample(sample) => *samples.entry(sample.tid).or_default() += 1,
        RingRecord::Fork { pid, .. } => {
            forked.insert(pid);
        }
        RingRecord::Exit { pid, .. } => {
            exited.insert(pid);
        }
        _ => (),
    };
    for _ in 0..100 {
        let mut child = Command::new("true").spawn().unwrap();
        children.insert(child.id() as i32);
        child.wait().unwrap();
        sampler.drain(&mut take);
    }
    sampler.stop().unwrap();
    sampler.drain_all(&mut take);
    assert_eq!(sampler.lost(), 0);
    assert!(children.is_subset(&forked), "{} of 100 forks", children.intersection(&forked).count());
    assert!(children.is_subset(&exited), "{} of 100 exits", children.intersection(&exited).count());
    // A sample per millisecond of user time, ±10 % by the jitter; the kernel's own accounting is coarse.
    let expected: f64 = threads.values().map(|time| time.as_secs_f64() * 1000.0).sum();
    let taken: u64 = threads.keys().map(|tid| samples.get(tid).copied().unwrap_or(0)).sum();
    assert!(taken as f64 > expected * 0.5 && (taken as f64) < expected * 1.5, "{taken} for {expected} ms");
}

#[test]
fn nothing_before_the_start_and_nothing_after_the_stop() {
    let here = std::process::id() as i32;
    let request = SamplerRequest {
        start: SamplingStart::ByHand,
        ..SamplerRequest::clock(Scope::Process(here.cast_unsigned()), online())
    };
    let Some(mut sampler) = open(&request) else {
        return;
    };
    let me = tid();
    let mut mine = 0;
    let mut count = |record: RingRecord<'_>| {
        if let RingRecord::Sample(sample) = record {
            mine += usize::from(sample.tid == me);
        }
    };
    spin(20);
    sampler.drain_all(&mut count);
    sampler.start().unwrap();
    let started = Instant::now();
    let mut seen = 0;
    while seen == 0 && started.elapsed() < Duration::from_secs(20) {
        spin(20);
        sampler.drain(|record| {
            seen += usize::from(matches!(record, RingRecord::Sample(sample) if sample.tid == me))
        });
    }
    sampler.stop().unwrap();
    sampler.drain_all(|_| ());
    spin(20);
    sampler.drain_all(&mut count);
    assert!(seen > 0);
    assert_eq!(mine, 0, "samples while stopped");
}

/// Spins until a sample comes. Gives the period it states.
fn stated_period(sampler: &mut Sampler<'_>) -> Option<u64> {
    let began = Instant::now();
    let mut period = None;
    while period.is_none() && began.elapsed() < Duration::from_secs(20) {
        spin(5);
        sampler.drain(|record| {
            if let RingRecord::Sample(sample) = record {
                period = sample.period;
            }
        });
    }
    period
}

#[test]
fn periods_are_drawn_and_redrawn() {
    let here = std::process::id() as i32;
    let jitter = Some(Jitter { share: 0.1, seed: 3 });
    let request =
        SamplerRequest { jitter, ..SamplerRequest::clock(Scope::Process(here.cast_unsigned()), online()) };
    let Some(mut sampler) = open(&request) else {
        return;
    };
    for _ in 0..3 {
        let period = stated_period(&mut sampler).unwrap();
        assert!((900_000..=1_100_000).contains(&period), "{period}");
        assert_ne!(period, 1_000_000, "drawn, not as asked");
        sampler.redraw_periods().unwrap();
    }
}

#[test]
fn call_chains_and_other_fields() {
    let here = std::process::id() as i32;
    let fields = Fields { call_chain: Some(16), id: true, ..Fields::clock() };
    let request =
        SamplerRequest { fields, ..SamplerRequest::clock(Scope::Process(here.cast_unsigned()), online()) };
    let Some(mut sampler) = open(&request) else {
        return;
    };
    let started = Instant::now();
    let mut seen = 0;
    while seen == 0 && started.elapsed() < Duration::from_secs(20) {
        spin(20);
        sampler.drain(|record| {
            if let RingRecord::Sample(sample) = record {
                seen += 1;
                let chain: Vec<_> = sample.call_chain.unwrap().addresses().collect();
                assert_eq!(chain.first().copied(), sample.ip);
                assert!(chain.len() <= 16 && sample.id.is_some());
            }
        });
    }
    assert!(seen > 0);
}

#[test]
fn a_process_that_is_gone_is_refused_in_words() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    child.wait().unwrap();
    let request = SamplerRequest::clock(Scope::Process(pid.cast_unsigned()), online());
    let failure = Sampler::open(&Live, &request).err().unwrap();
    assert_eq!(failure.trouble.errno, Errno(libc::ESRCH));
    assert!(failure.to_string().contains("the process is gone"), "{failure}");
}
