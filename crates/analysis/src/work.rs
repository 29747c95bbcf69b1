//! Useful work of threads: user time outside of code that only waits for other threads.
//!
//! A thread that spins retires instructions and takes processor time without doing what the program is for, so neither
//! says how work is divided (roehl2016 §2.2.2).

use std::collections::{BTreeMap, BTreeSet};

use record::{ids::ThreadId, regions::RegionId, run::Run};
use serde::{Deserialize, Serialize};

use crate::{
    findings::{Findings, KnownLimits, ObjectSharing, Objects, ThreadActivity, TimeShare, Verdict},
    reading::SampleActivities,
    wait_code::WaitCode,
};

/// A thread with less of the most useful work than this does something else.
const WORKER: f64 = 0.02;

/// How the threads of a program share its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkFindings {
    /// Each thread with samples, the one with most useful work first.
    pub threads: Vec<ThreadWork>,
    /// Of the longest thread's useful work, what the others lack on average, over parallel regions where there are any, else
    /// over code that several threads run.
    pub imbalance: KnownLimits<TimeShare>,
    /// Where it is most uneven: a region or a function.
    pub uneven: Option<String>,
    /// Share of the user time of all threads that waits for other threads. Of a program with a CPU for each thread, spinning while no
    /// other of them runs is only in its upper end: the others may have lost their CPUs to other programs, or have not begun.
    pub synchronising: KnownLimits<TimeShare>,
    /// The part of it that uneven work makes them wait, as a share of the user time of all threads.
    pub waits_for_uneven: f64,
    /// Where it waits most.
    pub waits_in: Option<String>,
}

/// One thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadWork {
    /// As the recording tells it apart.
    pub id: ThreadId,
    /// Its number.
    pub tid: u32,
    /// User time outside of code that waits for others.
    pub useful_ns: f64,
    /// User time in code that waits for others.
    pub synchronising_ns: f64,
}

/// Samples of one thread in one stretch of the program.
type WorkSums = BTreeMap<ThreadId, f64>;

/// A stretch of the program of which threads have parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stretch {
    Region(RegionId),
    Function(usize),
}

#[derive(Default)]
struct WorkTally {
    threads: BTreeMap<ThreadId, (f64, f64)>,
    stretches: BTreeMap<Stretch, WorkSums>,
    /// Waiting for others, by symbol.
    waits: BTreeMap<usize, f64>,
    in_regions: f64,
    /// Spinning while nobody else of the program ran.
    alone: f64,
}

/// How threads share the work; `parts` has what samples mean, by place.
pub(crate) fn work(
    run: &Run,
    findings: &Findings,
    objects: &Objects,
    parts: &[Vec<(usize, SampleActivities)>],
) -> WorkFindings {
    let tally = tally(run, findings, objects, parts);
    let period = findings.about.period_ns;
    let mut threads: Vec<ThreadWork> = tally
        .threads
        .iter()
        .map(|(&id, &(useful, synchronising))| ThreadWork {
            id,
            tid: run.thread(id).map_or(0, |thread| thread.tid),
            useful_ns: useful * period,
            synchronising_ns: synchronising * period,
        })
        .collect();
    threads.sort_by(|a, b| b.useful_ns.total_cmp(&a.useful_ns));
    let samples: f64 = tally.threads.values().map(|(useful, waiting)| useful + waiting).sum();
    let waiting: f64 = tally.threads.values().map(|(_, waiting)| waiting).sum();
    let waits_in = tally.waits.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, sum)| **sum > 0.0);
    let waits_in = waits_in.and_then(|(&symbol, _)| Some(findings.symbols.get(symbol)?.name.clone()));
    let Uneven { imbalance, place: uneven, lacking } = imbalance(run, findings, &tally);
    let synchronising = match tally.threads.len() {
        0 | 1 => KnownLimits::Missing("only one thread ran in user mode".to_owned()),
        _ => {
            let alone = if is_crowded(run, &tally) { 0.0 } else { tally.alone };
            let share = crate::statistics::share(waiting - alone, samples);
            let share = share.map(|share| TimeShare { high: share.high.max(waiting / samples), ..share });
            share.map_or_else(|| KnownLimits::Missing("no sample was taken".to_owned()), KnownLimits::Value)
        }
    };
    let waits_for_uneven = lacking.min(waiting) / samples.max(1.0);
    WorkFindings { threads, imbalance, uneven, synchronising, waits_for_uneven, waits_in }
}

/// Whether more threads work or wait than there are CPUs that they were seen on: then they take the CPUs from each other.
fn is_crowded(run: &Run, tally: &WorkTally) -> bool {
    let all = || tally.threads.values().map(|(useful, waiting)| useful + waiting);
    let most = all().fold(0.0, f64::max);
    let cpus: BTreeSet<_> = run.samples.cpu.iter().collect();
    all().filter(|sum| *sum >= WORKER * most).count() > cpus.len()
}

fn tally(
    run: &Run,
    findings: &Findings,
    objects: &Objects,
    parts: &[Vec<(usize, SampleActivities)>],
) -> WorkTally {
    let waits_in: Vec<WaitCode> =
        findings.symbols.iter().map(|symbol| WaitCode::of(&symbol.name, &symbol.module)).collect();
    let neighbours = SampleNeighbours::of(run, findings.about.period_ns);
    let polls = polled(objects);
    let parallel: BTreeSet<RegionId> = run
        .regions
        .list
        .iter()
        .enumerate()
        .filter(|(_, region)| region.is_parallel)
        .map(|(index, _)| RegionId(u32::try_from(index).unwrap_or(u32::MAX)))
        .collect();
    let mut tally = WorkTally::default();
    for (index, (&thread, &place)) in run.samples.thread.iter().zip(&run.samples.place).enumerate() {
        let line = run.samples.address[index].map(|address| address.get() / LINE);
        let region = run.regions.of_samples.get(index).copied().flatten();
        for (instruction, activities) in parts.get(place.index()).into_iter().flatten() {
            let Some(symbol) = findings.instructions.get(*instruction).map(|found| found.symbol) else {
                continue;
            };
            let whole: f64 = activities.iter().map(|part| f64::from(*part)).sum();
            let is_polling = line.is_some_and(|line| polls.contains(&(thread, line, symbol)));
            let spinning = f64::from(activities[ThreadActivity::OtherThreads as usize]);
            let kind = waits_in.get(symbol).copied().unwrap_or(WaitCode::None);
            let waiting = match kind != WaitCode::None || is_polling {
                true => whole,
                false => spinning + f64::from(activities[ThreadActivity::Atomics as usize]),
            };
            if neighbours.is_alone(index) {
                tally.alone += if is_polling { waiting } else { spinning };
            }
            let useful = whole - waiting;
            let sums = tally.threads.entry(thread).or_default();
            (sums.0, sums.1) = (sums.0 + useful, sums.1 + waiting);
            *tally.waits.entry(symbol).or_default() += waiting;
            if let Some(region) = region.filter(|region| parallel.contains(region)) {
                tally.in_regions += whole;
                *tally.stretches.entry(Stretch::Region(region)).or_default().entry(thread).or_default() +=
                    useful;
            }
            *tally.stretches.entry(Stretch::Function(symbol)).or_default().entry(thread).or_default() +=
                useful;
        }
    }
    tally
}

/// Bytes of a line.
const LINE: u64 = 64;

/// Who reads which lines again and again until another thread writes them: the line is shared truly, and this thread's
/// function only reads it.
fn polled(objects: &Objects) -> BTreeSet<(ThreadId, u64, usize)> {
    let mut found = BTreeSet::new();
    for line in objects.shared_lines.iter().filter(|line| line.sharing == ObjectSharing::True) {
        for reader in line.uses.iter().filter(|at| !at.writes) {
            let writes_too = |other: &&crate::findings::LineUse| {
                other.thread == reader.thread && other.symbol == reader.symbol && other.writes
            };
            if !line.uses.iter().any(|other| writes_too(&other)) {
                found.insert((reader.thread, line.address / LINE, reader.symbol));
            }
        }
    }
    found
}

/// Samples in the order of time, to see who else ran.
struct SampleNeighbours<'a> {
    run: &'a Run,
    order: Vec<usize>,
    rank: Vec<usize>,
    /// A thread that runs is sampled at least once within so much time, give or take.
    near_ns: u64,
}

impl<'a> SampleNeighbours<'a> {
    fn of(run: &'a Run, period_ns: f64) -> Self {
        let mut order: Vec<usize> = (0..run.samples.time_ns.len()).collect();
        order.sort_by_key(|index| run.samples.time_ns[*index]);
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, index)| rank[*index] = place);
        Self { run, order, rank, near_ns: (1.2 * period_ns) as u64 }
    }

    /// No other thread was sampled about then.
    fn is_alone(&self, index: usize) -> bool {
        let (times, threads) = (&self.run.samples.time_ns, &self.run.samples.thread);
        let is_near = |other: &&usize| times[**other].abs_diff(times[index]) <= self.near_ns;
        let is_other = |other: &usize| threads[*other] != threads[index];
        let rank = self.rank[index];
        let before = self.order[..rank].iter().rev().take_while(is_near);
        let after = self.order[rank..].iter().take_while(is_near);
        !before.chain(after).any(is_other)
    }
}

/// How uneven work is.
struct Uneven {
    imbalance: KnownLimits<TimeShare>,
    place: Option<String>,
    /// Samples that all threads together lack to the longest.
    lacking: f64,
}

impl Uneven {
    fn unknown(why: &str) -> Self {
        Self { imbalance: KnownLimits::Missing(why.to_owned()), place: None, lacking: 0.0 }
    }
}

/// Over parallel regions if a quarter of the samples is in them, else over functions that several threads run.
fn imbalance(run: &Run, findings: &Findings, tally: &WorkTally) -> Uneven {
    let samples = run.samples.place.len().max(1) as f64;
    let by_region = tally.in_regions >= 0.25 * samples;
    let chosen = tally.stretches.iter().filter(|(stretch, _)| match stretch {
        Stretch::Region(_) => by_region,
        Stretch::Function(_) => !by_region,
    });
    let mut all = WorkSums::new();
    let (mut longest, mut mean, mut worst) = (0.0, 0.0, None::<(f64, Stretch)>);
    for (stretch, sums) in chosen {
        let mut sums = sums.clone();
        if let Stretch::Region(region) = stretch {
            // Threads that were there and did nothing useful count.
            let there = run.regions.visits.iter().filter(|one| one.region == *region);
            there.for_each(|one| {
                sums.entry(one.thread).or_default();
            });
        }
        let Some((most, average)) = spread(&sums).filter(|_| sums.len() > 1) else { continue };
        if worst.is_none_or(|(lost, _)| most - average > lost) {
            worst = Some((most - average, *stretch));
        }
        if by_region {
            (longest, mean) = (longest + most, mean + average);
        }
        sums.iter().for_each(|(thread, sum)| *all.entry(*thread).or_default() += sum);
    }
    if !by_region {
        // Functions follow each other without anyone waiting: what counts is all that a thread does of them.
        let most = all.values().copied().fold(0.0, f64::max);
        all.retain(|_, sum| *sum >= WORKER * most);
        (longest, mean) = spread(&all).unwrap_or((0.0, 0.0));
    }
    let place = worst.and_then(|(_, stretch)| match stretch {
        Stretch::Region(region) => Some(run.regions.list.get(region.index())?.name.clone()),
        Stretch::Function(symbol) => Some(findings.symbols.get(symbol)?.name.clone()),
    });
    if all.len() < 2 {
        return Uneven::unknown("no code was run by several threads");
    }
    if longest < Verdict::FEWEST_SAMPLES as f64 {
        return Uneven::unknown("too few samples tell how threads share the work");
    }
    // A thread's samples are a draw: by chance the longest has more and the others less.
    let chance = 2.0 * longest.sqrt();
    let part = |longest: f64| (1.0 - mean / longest.max(mean)).clamp(0.0, 1.0);
    let share = TimeShare { value: part(longest), low: part(longest - chance), high: part(longest + chance) };
    Uneven {
        imbalance: KnownLimits::Value(share),
        place,
        lacking: (longest - mean).max(0.0) * all.len() as f64,
    }
}

/// The most of one thread, and the mean of all.
fn spread(sums: &WorkSums) -> Option<(f64, f64)> {
    let most = sums.values().copied().fold(0.0, f64::max);
    (!sums.is_empty()).then(|| (most, sums.values().sum::<f64>() / sums.len() as f64))
}

#[cfg(test)]
mod tests;
