//! Relief beside a recording: the report's own analysis chooses loops from the samples, a thread of ours relieves them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use analysis::relief::hot_blocks;
use machine::{Profile, Source, Topology, topology::CacheKind};
use record::{
    ids::ModuleId,
    relief::{ReliefBarrier, ReliefRecord, ReliefRefusal, RelievedLoop},
};
use recorder::{CopiesOfProgram, Onlooker, SampledMoment, program::signals::CaughtSignals};
use relief::{FirstCache, LoopRelief, ReliefOptions, ReliefSeries, ReliefTarget, SHORTEST_RUN};

/// Loops that are relieved at most; none with less than a tenth of the time is hot.
const MOST_LOOPS: usize = 4;

/// How often we look whether something is to be done.
const TICK: Duration = Duration::from_millis(20);

/// See the module.
pub struct Relieving {
    copies: CopiesOfProgram,
    moments: Option<Sender<SampledMoment>>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<ReliefRecord>>,
}

/// Which loop it is: its module, where it begins there, and what to add to its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoopKey {
    module: ModuleId,
    start: u64,
    bias: u64,
}

impl Relieving {
    /// For a program that begins now, on a machine with this profile.
    pub fn begin(profile: Option<Profile>) -> Self {
        let copies = CopiesOfProgram::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (moments, received) = channel();
        let options = ReliefOptions {
            cache: first_cache(),
            numbers: Arc::clone(&copies),
            stop: Arc::clone(&stop),
            ..ReliefOptions::default()
        };
        let began = Instant::now();
        let halted = Arc::clone(&stop);
        // A thread that lets signals in would take those meant for the program, and end us.
        let blocked = CaughtSignals::catch();
        let worker = std::thread::Builder::new()
            .name("relief".to_owned())
            .spawn(move || work(&received, &halted, options, profile.as_ref(), began))
            .ok();
        drop(blocked);
        Self { copies, moments: Some(moments), stop, worker }
    }
}

impl Onlooker for Relieving {
    fn copies(&self) -> CopiesOfProgram {
        Arc::clone(&self.copies)
    }

    fn look(&mut self, moment: SampledMoment) {
        if let Some(moments) = &self.moments {
            // Nobody listens any more only if the thread is gone, which finish() finds out.
            let _ = moments.send(moment);
        }
    }

    fn finish(&mut self) -> ReliefRecord {
        self.stop.store(true, Ordering::Relaxed);
        self.moments = None;
        let found = self.worker.take().and_then(|worker| worker.join().ok());
        found.unwrap_or_else(|| {
            ReliefRecord::Refused(ReliefRefusal::new(ReliefBarrier::Trouble, "its thread failed"))
        })
    }
}

fn work(
    moments: &Receiver<SampledMoment>,
    stop: &AtomicBool,
    options: ReliefOptions,
    profile: Option<&Profile>,
    began: Instant,
) -> ReliefRecord {
    let mut series = ReliefSeries::new(options, began);
    while !stop.load(Ordering::Relaxed) {
        match moments.recv_timeout(TICK) {
            Ok(moment) => list(&mut series, &moment, profile),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if began.elapsed() >= SHORTEST_RUN {
            series.go_on();
        }
    }
    if began.elapsed() < SHORTEST_RUN {
        return ReliefRecord::Refused(ReliefBarrier::ShortRun.into());
    }
    if series.is_empty() {
        return ReliefRecord::Refused(ReliefBarrier::NoHotLoop.into());
    }
    let (loops, cost) = series.finish();
    let loops = loops.into_iter().map(|(key, target, relief)| recorded(key, &target, relief)).collect();
    ReliefRecord::Tried { loops, cost }
}

/// Lists what is hot now.
fn list(series: &mut ReliefSeries<LoopKey>, moment: &SampledMoment, profile: Option<&Profile>) {
    let hot_now = hot_blocks(&moment.run, profile);
    let is_hot = |key: &LoopKey| hot_now.iter().any(|hot| (hot.module, hot.start) == (key.module, key.start));
    for hot in &hot_now {
        let Some(thread) = moment.run.thread(hot.thread) else { continue };
        let Some(process) = moment.run.processes.get(thread.process.index()) else { continue };
        let (Ok(pid), Ok(tid)) = (i32::try_from(process.pid), i32::try_from(thread.tid)) else { continue };
        let Some(&bias) = moment.biases.get(&(pid, hot.module)) else { continue };
        let key = LoopKey { module: hot.module, start: hot.start, bias };
        let (mark, end) = (hot.start.wrapping_add(bias), hot.end.wrapping_add(bias));
        if !series.has(&key) && !series.holds(pid, mark) && series.len() >= MOST_LOOPS {
            series.forget_one(is_hot);
        }
        if !series.has(&key) && (series.holds(pid, mark) || series.len() >= MOST_LOOPS) {
            continue;
        }
        series.list(
            key,
            ReliefTarget {
                pid,
                tid,
                mark,
                hot: (mark, end),
                writes: hot.writes,
                sampled_turn_ns: hot.turn_ns,
            },
        );
    }
}

fn recorded(key: LoopKey, target: &ReliefTarget, relief: LoopRelief) -> RelievedLoop {
    // Code of other modules that a turn runs through has no address in this one.
    const FAR: u64 = 1 << 30;
    let own = |&(start, end): &(u64, u64)| (start.wrapping_sub(key.bias), end.wrapping_sub(key.bias));
    let mut ranges: Vec<(u64, u64)> =
        relief.ranges.iter().map(own).filter(|range| range.0.abs_diff(key.start) < FAR).collect();
    if ranges.is_empty() {
        ranges.push(own(&target.hot));
    }
    RelievedLoop {
        module: key.module,
        ranges,
        tid: target.tid.cast_unsigned(),
        stretches: relief.stretches,
        near_ns: relief.near_ns,
        turn_ns: relief.turn_ns,
        share: relief.share,
        has_wild_branches: relief.has_wild_branches,
        has_atomics: relief.has_atomics,
        refusal: relief.refusal,
    }
}

/// As the machine claims it; what it does not claim is as small as on any core of today.
fn first_cache() -> FirstCache {
    let topology = Topology::read(&Source::live());
    let is_first = |cache: &&machine::topology::Cache| cache.level == 1 && cache.kind == CacheKind::Data;
    let Some(cache) = topology.caches.iter().find(is_first) else { return FirstCache::default() };
    let size = cache.size.and_then(|size| usize::try_from(size.0).ok());
    let ways = cache.ways.and_then(|ways| usize::try_from(ways).ok()).filter(|ways| *ways > 0);
    size.zip(ways).map_or_else(FirstCache::default, |(bytes, ways)| FirstCache { lines: bytes / 64, ways })
}
