//! Regions that the program marked: each read as if it were all of the run.

use std::collections::HashSet;

use machine::profile::Profile;
use record::{
    ids::ThreadId,
    regions::{RegionCounts, RegionId, Regions},
    relief::ReliefRecord,
    run::{Run, Samples},
};
use serde::{Deserialize, Serialize};

use crate::{
    findings::{Confidence, HeldBack, Split, TimeShare, Verdict, WaitLevel},
    objects,
    timer::{self, Tally, TimerOptions},
};

/// Regions that are read one by one, those with most samples first; of others only times are told.
const MOST_READ: usize = 24;

/// Functions listed of each.
const SYMBOLS: usize = 3;

/// What a region does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionFinding {
    /// As the program called it, or as its code is called.
    pub name: String,
    /// A parallel region of OpenMP that nobody marked.
    pub is_parallel: bool,
    /// How often it was entered, by all threads together.
    pub visits: u64,
    /// Of these, so many had not ended when the recording did.
    pub unended: u64,
    /// From beginnings to ends, of all threads together; what lies within other regions counts in both.
    pub wall_ns: u64,
    /// Thread by thread, those with most time first.
    pub threads: Vec<RegionThread>,
    /// Of that, waiting for other threads at barriers; none where nobody tells.
    pub waits_ns: Option<u64>,
    /// What the kernel counted; none if no visit was counted.
    pub counts: Option<RegionCounts>,
    /// How much of the longest thread's time, without that at barriers, the others lack on average; none of a region with one
    /// thread.
    pub imbalance: Option<f64>,
    /// Samples of it, without those of regions within.
    pub samples: u64,
    /// Share of the samples of all threads.
    pub user_share: f64,
    /// What its samples say; none if there are too few of them.
    pub waiting: Option<RegionWaiting>,
}

/// One thread in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionThread {
    /// Which one of the recording.
    pub id: ThreadId,
    /// Its number.
    pub tid: u32,
    /// How often it entered.
    pub visits: u64,
    /// For how long it was there.
    pub wall_ns: u64,
    /// Of that, waiting for other threads at barriers; none where nobody tells.
    pub waits_ns: Option<u64>,
    /// What the kernel counted of it there; none if no visit was counted.
    pub counts: Option<RegionCounts>,
}

impl RegionThread {
    /// For how long it was there and did not wait for others.
    fn busy_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.waits_ns.unwrap_or(0))
    }
}

/// What the samples of a region say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionWaiting {
    /// Whether memory holds it back.
    pub held_back: HeldBack,
    /// The share of its user time that waits for memory.
    pub memory: Option<TimeShare>,
    /// The same of the time that does not wait for other threads, which the answer goes by; none where none waits for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_of_work: Option<TimeShare>,
    /// How sure that is.
    pub confidence: Confidence,
    /// Its user time.
    pub split: Split,
    /// Where most of the waiting is, if that is known.
    pub level: Option<WaitLevel>,
    /// The data with most of the waiting on loads, if it has a name.
    pub object: Option<String>,
    /// Functions with most of its samples, each with its share of them.
    pub symbols: Vec<(String, f64)>,
}

/// All regions, those with most samples first.
pub(crate) fn regions(run: &Run, profile: Option<&Profile>, options: &TimerOptions) -> Vec<RegionFinding> {
    let Regions { list, of_samples, .. } = &run.regions;
    let mut samples = vec![0_u64; list.len()];
    of_samples.iter().flatten().for_each(|region| samples[region.index()] += 1);
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(samples[*index]));
    let mut inner = (!list.is_empty()).then(|| frame(run));
    let found = order.into_iter().enumerate().map(|(rank, index)| {
        let region = RegionId(u32::try_from(index).unwrap_or(u32::MAX));
        let is_read = rank < MOST_READ && samples[index] >= Verdict::FEWEST_SAMPLES;
        let waiting = inner.as_mut().filter(|_| is_read).and_then(|inner| {
            fill(inner, run, region);
            waiting(inner, profile, options)
        });
        finding(run, region, samples[index], waiting)
    });
    found.collect()
}

fn finding(run: &Run, region: RegionId, samples: u64, waiting: Option<RegionWaiting>) -> RegionFinding {
    let mut threads: Vec<RegionThread> = run
        .regions
        .visits
        .iter()
        .filter(|one| one.region == region)
        .map(|one| RegionThread {
            id: one.thread,
            tid: run.thread(one.thread).map_or(0, |thread| thread.tid),
            visits: one.visits,
            wall_ns: one.wall_ns,
            waits_ns: one.waits_ns,
            counts: one.counts,
        })
        .collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.wall_ns));
    let own = run.regions.visits.iter().filter(|one| one.region == region);
    let named = &run.regions.list[region.index()];
    RegionFinding {
        name: named.name.clone(),
        is_parallel: named.is_parallel,
        visits: threads.iter().map(|thread| thread.visits).sum(),
        unended: own.map(|one| one.unended).sum(),
        wall_ns: threads.iter().map(|thread| thread.wall_ns).sum(),
        waits_ns: threads.iter().filter_map(|thread| thread.waits_ns).reduce(|a, b| a + b),
        counts: threads.iter().filter_map(|thread| thread.counts).reduce(|a, b| a.and(&b)),
        imbalance: imbalance(&threads),
        threads,
        samples,
        user_share: samples as f64 / run.samples.place.len().max(1) as f64,
        waiting,
    }
}

/// Of the longest thread's time, what the others lack on average.
fn imbalance(threads: &[RegionThread]) -> Option<f64> {
    let busy = || threads.iter().map(|thread| thread.busy_ns() as f64);
    let longest = busy().reduce(f64::max).filter(|longest| threads.len() > 1 && *longest > 0.0)?;
    let mean = busy().sum::<f64>() / threads.len() as f64;
    Some(1.0 - mean / longest)
}

fn waiting(inner: &Run, profile: Option<&Profile>, options: &TimerOptions) -> Option<RegionWaiting> {
    let tally = Tally::new(inner, profile);
    let (findings, ranks) = timer::findings(inner, &tally, profile, options);
    let (objects, _) = objects::assign(inner, &tally, &ranks, &findings);
    let object = objects.objects.first().filter(|object| object.load_waiting.value > 0.0);
    Some(RegionWaiting {
        held_back: findings.verdict.held_back,
        memory: findings.verdict.memory,
        memory_of_work: findings.verdict.memory_of_work,
        confidence: findings.verdict.confidence,
        split: findings.overall?,
        level: findings.levels.value().and_then(|levels| Some(levels.most()?.level)),
        object: object.map(|object| object.name.clone()),
        symbols: findings
            .symbols
            .iter()
            .take(SYMBOLS)
            .map(|symbol| (symbol.name.clone(), symbol.user_share.value))
            .collect(),
    })
}

/// A run without samples: what those of every region are put into.
fn frame(run: &Run) -> Run {
    Run {
        about: run.about.clone(),
        processes: run.processes.clone(),
        threads: run.threads.clone(),
        modules: run.modules.clone(),
        functions: run.functions.clone(),
        files: run.files.clone(),
        lines: run.lines.clone(),
        inlined: run.inlined.clone(),
        places: run.places.clone(),
        samples: Samples::default(),
        bursts: Samples::default(),
        passes: Samples::default(),
        loads: record::loads::LoadSamples::NotAsked,
        relief: match &run.relief {
            ReliefRecord::Tried { .. } => run.relief.clone(),
            _ => ReliefRecord::NotAsked,
        },
        regions: Regions::default(),
        probes: run.probes.clone(),
        import: None,
        scaling: None,
        sampled: record::sampled::SampledEvents::default(),
        stacks: Vec::new(),
        data: run.data.clone(),
        slices: Vec::new(),
        remarks: Vec::new(),
    }
}

/// Puts the samples of one region in place of those of another: all else stays, and there may be much of it.
fn fill(inner: &mut Run, run: &Run, region: RegionId) {
    let those = |samples: &Samples, is_inside: &dyn Fn(usize) -> bool| {
        let mut found = Samples::default();
        for index in (0..samples.time_ns.len()).filter(|&index| is_inside(index)) {
            found.time_ns.push(samples.time_ns[index]);
            found.thread.push(samples.thread[index]);
            found.cpu.push(samples.cpu[index]);
            found.place.push(samples.place[index]);
            found.address.push(samples.address[index]);
        }
        found
    };
    let chosen = |samples: &Samples, of: &[Option<RegionId>]| {
        those(samples, &|index| of.get(index).is_some_and(|inside| *inside == Some(region)))
    };
    inner.samples = chosen(&run.samples, &run.regions.of_samples);
    inner.bursts = chosen(&run.bursts, &run.regions.of_bursts);
    let taken = |samples: &Samples, index: usize| (samples.thread[index], samples.time_ns[index]);
    let inside: HashSet<_> = match run.passes.time_ns.is_empty() {
        true => HashSet::new(),
        false => (0..inner.samples.time_ns.len()).map(|index| taken(&inner.samples, index)).collect(),
    };
    inner.passes = those(&run.passes, &|index| inside.contains(&taken(&run.passes, index)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::regions::{Region, RegionVisits};

    /// mov r8,[r8]; jmp -5; add rax,1; jmp -6: a chase and a loop that only counts.
    const TWO_LOOPS: [u8; 11] = [0x4d, 0x8b, 0x00, 0xeb, 0xfb, 0x48, 0x83, 0xc0, 0x01, 0xeb, 0xfa];

    fn run() -> Run {
        let scattered =
            |index: u64| 0x7000_0000_0000 + (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) / 64 * 64;
        let chased = (0..300).map(|index| (3, Some(scattered(index))));
        let counted = (0..100).map(|index| (5 + 4 * (index % 2), None));
        let samples: Vec<_> = chased.chain(counted).collect();
        let mut run = timer::tests::run(&TWO_LOOPS, &samples);
        let region = |name: &str| Region { name: name.to_owned(), is_parallel: false };
        let visits = |region: u32, wall_ns: u64| RegionVisits {
            region: RegionId(region),
            thread: ThreadId(0),
            visits: 2,
            unended: 0,
            wall_ns,
            waits_ns: None,
            counts: None,
        };
        run.regions = Regions {
            list: vec![region("count"), region("walk"), region("never sampled")],
            of_samples: (0..400).map(|index| Some(RegionId(u32::from(index < 300)))).collect(),
            of_bursts: Vec::new(),
            visits: vec![visits(0, 100), visits(1, 300)],
            events: None,
        };
        run
    }

    #[test]
    fn each_region_is_judged_by_its_own_samples() {
        let found = regions(&run(), None, &TimerOptions::unlimited());
        let names: Vec<&str> = found.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["walk", "count", "never sampled"]);
        let held = |index: usize| found[index].waiting.as_ref().map(|waiting| waiting.held_back);
        assert_eq!(held(0), Some(HeldBack::Yes));
        assert_eq!(held(1), Some(HeldBack::No));
        assert_eq!(held(2), None);
        assert_eq!((found[0].samples, found[0].visits, found[0].wall_ns), (300, 2, 300));
        assert!((found[0].user_share - 0.75).abs() < 1e-9);
        assert_eq!(found[2].visits, 0);
    }

    #[test]
    fn imbalance_is_what_the_others_lack() {
        let waiting = |wall_ns: u64, waits_ns: Option<u64>| RegionThread {
            id: ThreadId(0),
            tid: 1,
            visits: 1,
            wall_ns,
            waits_ns,
            counts: None,
        };
        let thread = |wall_ns: u64| waiting(wall_ns, None);
        assert_eq!(imbalance(&[thread(100)]), None);
        assert_eq!(imbalance(&[thread(100), thread(100)]), Some(0.0));
        assert_eq!(imbalance(&[thread(100), thread(50)]), Some(0.25));
        assert_eq!(imbalance(&[thread(0), thread(0)]), None);
        // Both are there as long, and one of them waits for the other.
        assert_eq!(imbalance(&[waiting(100, Some(0)), waiting(100, Some(50))]), Some(0.25));
    }
}
