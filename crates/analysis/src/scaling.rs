//! What a program makes of more threads: the part of patterns that one run cannot show (roehl2016 §2.2).
//!
//! Ratios are taken within rounds, whose runs came right after each other, so that what drifts reaches both alike. The interval
//! is from the smallest to the largest of the rounds.

use record::scaling::{Scaling, ScalingRun};
use serde::{Deserialize, Serialize};

use crate::{
    findings::Confidence,
    patterns::{IndicatorValue, Indicators},
    statistics::median,
};

/// Fewer rounds tell nothing of noise.
const FEWEST_ROUNDS: usize = 2;

/// A series of runs with different numbers of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingFindings {
    /// CPUs that the program could use.
    pub cpus: u32,
    /// Cores that these belong to; none where that is not known.
    pub cores: Option<u32>,
    /// By number of threads, fewest first.
    pub points: Vec<ScalingPoint>,
    /// Two numbers of threads that tell how it scales; none where nothing can be said.
    pub compared: Option<ScalingStep>,
    /// What has to be known beside it, in whole sentences.
    pub remarks: Vec<String>,
}

/// All runs with one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// Threads asked for.
    pub threads: u32,
    /// Runs of it.
    pub runs: usize,
    /// Of these, so many were disturbed.
    pub spoilt: usize,
    /// From beginning to end.
    pub elapsed_ns: ScalingSpread,
    /// How many times as fast as with the fewest threads.
    pub speedup: Option<ScalingSpread>,
    /// The same over how many times as many threads there are: 1 is all one can have.
    pub efficiency: Option<ScalingSpread>,
    /// User time of all threads, of that with the fewest.
    pub user_growth: Option<ScalingSpread>,
    /// Share of user time that waits for memory.
    pub memory: Option<ScalingSpread>,
    /// Share of user time that waits for other threads, beyond what uneven work explains.
    pub synchronising: Option<ScalingSpread>,
    /// Of the longest thread's useful work, what the others lack on average.
    pub imbalance: Option<ScalingSpread>,
    /// What streams of all threads moved together.
    pub stream_bytes_per_s: Option<ScalingSpread>,
}

/// From the fewest threads to the most that have a CPU each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingStep {
    /// Fewest threads.
    pub few: u32,
    /// Most threads with a CPU each.
    pub many: u32,
    /// Rounds in which both were run.
    pub rounds: usize,
    /// Disturbed runs are among them, for want of others: patterns are not judged by it.
    pub is_disturbed: bool,
    /// Threads share cores at the most: each is slower for that alone.
    pub shares_cores: bool,
    /// Speed with many over speed with few, over how many times as many threads there are.
    pub efficiency: ScalingSpread,
    /// User time of all threads with many, of that with few.
    pub user_growth: Option<ScalingSpread>,
    /// User time outside of code that waits for other threads, likewise.
    pub useful_growth: Option<ScalingSpread>,
    /// What waiting for memory takes more, of the user time with few.
    pub memory_added: Option<ScalingSpread>,
    /// By how much the share of user time that waits for other threads grew.
    pub synchronising_growth: Option<ScalingSpread>,
}

/// The middle and both ends of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingSpread {
    /// Median.
    pub value: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

impl ScalingSpread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self { value: median(&sorted)?, low: *sorted.first()?, high: *sorted.last()? })
    }
}

/// Two runs of one round.
type Pair<'a> = (&'a ScalingRun, &'a ScalingRun);

/// What a series says.
pub fn scaling(series: &Scaling) -> ScalingFindings {
    let mut threads: Vec<u32> = series.runs.iter().map(|run| run.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let points = threads.iter().filter_map(|&threads| point(series, threads));
    let mut found = ScalingFindings {
        cpus: series.cpus,
        cores: series.cores,
        points: points.collect(),
        compared: None,
        remarks: Vec::new(),
    };
    found.compared = match fitting(series, &threads) {
        Ok((few, many)) => step(series, few, many),
        Err(why) => {
            found.remarks.push(why);
            None
        }
    };
    found.remarks.extend(remarks(series, &threads, found.compared.as_ref()));
    found
}

/// The fewest threads, and the most that have a CPU each; or why there are no two.
fn fitting(series: &Scaling, threads: &[u32]) -> Result<(u32, u32), String> {
    let mut seen: Vec<Option<u32>> = series.runs.iter().map(|run| run.seen).collect();
    seen.sort_unstable();
    seen.dedup();
    if let ([Some(seen)], true) = (&seen[..], threads.len() > 1) {
        return Err(format!(
            "The program ran with {seen} {} whatever it was asked for: it takes its number neither from OMP_NUM_THREADS and its \
             like nor from an argument; write {{threads}} where the argument has the number.",
            if *seen == 1 { "thread" } else { "threads" }
        ));
    }
    let few = threads.first().copied().unwrap_or(0);
    match threads.iter().rfind(|&&many| many <= series.cpus && many > few) {
        Some(&many) => Ok((few, many)),
        None => Err(format!(
            "How it scales cannot be told: at least two numbers of threads up to the {} CPUs it could use are needed.",
            series.cpus
        )),
    }
}

fn of(series: &Scaling, threads: u32) -> impl Iterator<Item = &ScalingRun> {
    series.runs.iter().filter(move |run| run.threads == threads)
}

/// Runs of the same round, those that nobody disturbed if there are enough; and whether there are not.
fn pairs(series: &Scaling, few: u32, many: u32) -> (Vec<Pair<'_>>, bool) {
    let all: Vec<Pair<'_>> = of(series, few)
        .filter_map(|one| Some((one, of(series, many).find(|other| other.round == one.round)?)))
        .collect();
    let is_calm = |(one, other): &&Pair<'_>| one.spoilt.is_none() && other.spoilt.is_none();
    let calm: Vec<Pair<'_>> = all.iter().filter(is_calm).copied().collect();
    if calm.len() >= FEWEST_ROUNDS { (calm, false) } else { (all, true) }
}

fn point(series: &Scaling, threads: u32) -> Option<ScalingPoint> {
    let few = series.runs.iter().map(|run| run.threads).min()?;
    let (pairs, _) = pairs(series, few, threads);
    let factor = f64::from(threads) / f64::from(few);
    let own = || pairs.iter().map(|(_, run)| *run);
    let share = |of: fn(&ScalingRun) -> Option<f64>| {
        ScalingSpread::of(own().filter_map(|run| Some(of(run)? / run.user_ns?)))
    };
    Some(ScalingPoint {
        threads,
        runs: of(series, threads).count(),
        spoilt: of(series, threads).filter(|run| run.spoilt.is_some()).count(),
        elapsed_ns: ScalingSpread::of(own().map(|run| run.elapsed_ns as f64))?,
        speedup: ScalingSpread::of(speedups(&pairs)),
        efficiency: ScalingSpread::of(speedups(&pairs).map(|speedup| speedup / factor)),
        user_growth: growth(&pairs, |run| run.user_ns),
        memory: share(|run| run.memory_ns),
        synchronising: share(|run| run.synchronising_ns),
        imbalance: ScalingSpread::of(own().filter_map(|run| run.imbalance)),
        stream_bytes_per_s: ScalingSpread::of(own().filter_map(|run| run.stream_bytes_per_s)),
    })
}

fn speedups(pairs: &[Pair<'_>]) -> impl Iterator<Item = f64> {
    pairs.iter().map(|(one, other)| one.elapsed_ns as f64 / other.elapsed_ns as f64)
}

fn growth(pairs: &[Pair<'_>], of: impl Fn(&ScalingRun) -> Option<f64>) -> Option<ScalingSpread> {
    ScalingSpread::of(pairs.iter().filter_map(|(one, other)| Some(of(other)? / of(one)?)))
}

fn step(series: &Scaling, few: u32, many: u32) -> Option<ScalingStep> {
    let (pairs, is_disturbed) = pairs(series, few, many);
    if pairs.len() < FEWEST_ROUNDS {
        return None;
    }
    let factor = f64::from(many) / f64::from(few);
    let shares = |run: &ScalingRun| -> Option<f64> {
        Some(run.synchronising_ns? / run.user_ns.filter(|user| *user > 0.0)?)
    };
    let added = |(one, other): &Pair<'_>| {
        Some((other.memory_ns? - one.memory_ns?) / one.user_ns.filter(|user| *user > 0.0)?)
    };
    Some(ScalingStep {
        few,
        many,
        rounds: pairs.len(),
        is_disturbed,
        shares_cores: series.cores.is_none_or(|cores| many > cores),
        efficiency: ScalingSpread::of(speedups(&pairs).map(|speedup| speedup / factor))?,
        user_growth: growth(&pairs, |run| run.user_ns),
        useful_growth: growth(&pairs, |run| run.useful_ns),
        memory_added: ScalingSpread::of(pairs.iter().filter_map(added)),
        synchronising_growth: ScalingSpread::of(
            pairs.iter().filter_map(|(one, other)| Some(shares(other)? - shares(one)?)),
        ),
    })
}

fn remarks(series: &Scaling, threads: &[u32], step: Option<&ScalingStep>) -> Vec<String> {
    let mut all = Vec::new();
    let spoilt: Vec<&String> = series.runs.iter().filter_map(|run| run.spoilt.as_ref()).collect();
    if let Some(reason) = spoilt.first() {
        let used = if step.is_some_and(|step| step.is_disturbed) {
            "shown all the same, since too few others are left; patterns are not judged by them"
        } else {
            "left out"
        };
        all.push(format!(
            "{} of {} runs were disturbed and are {used}: {reason}.",
            spoilt.len(),
            series.runs.len()
        ));
    }
    if threads.last().is_some_and(|most| *most > series.cpus) {
        all.push(format!(
            "Runs with more threads than the {} CPUs say nothing of how it scales: threads take turns there.",
            series.cpus
        ));
    }
    if step.is_some_and(|step| step.shares_cores) {
        let cores = series.cores.map_or("as far as known".to_owned(), |cores| format!("there are {cores}"));
        all.push(format!("Threads share cores ({cores}): each is slower for that alone."));
    }
    all
}

/// What is known of how a program scales, by the names that signatures use.
pub(crate) fn indicators(found: &ScalingFindings, into: &mut Indicators) {
    // What others did to its threads must neither be held against the program nor speak for it.
    let Some(step) = found.compared.filter(|step| !step.is_disturbed) else { return };
    let (few, many) = (step.few, step.many);
    let mut put = |name: &str, about: String, spread: Option<ScalingSpread>| {
        if let Some(ScalingSpread { value, low, high }) = spread {
            into.put(name, IndicatorValue::new(about, value, Confidence::Medium).between(low, high));
        }
    };
    put(
        "scaling_efficiency",
        format!("speedup from {few} to {many} threads, of what {many} could have"),
        Some(step.efficiency),
    );
    put(
        "user_growth",
        format!("user time of {many} threads together, times that of {few}"),
        step.user_growth,
    );
    // Threads that share a core are slower for that alone: nothing can be said of the work itself then.
    put(
        "useful_growth",
        format!("useful user time of {many} threads together, times that of {few}"),
        step.useful_growth.filter(|_| !step.shares_cores),
    );
    put(
        "memory_added",
        format!("what waiting for memory takes more with {many} threads, of the user time with {few}"),
        step.memory_added,
    );
    put(
        "synchronising_growth",
        format!("more of user time waits for other threads with {many} than with {few}"),
        step.synchronising_growth,
    );
}

/// Names that [`indicators`] may put in.
pub(crate) const INDICATORS: [&str; 5] =
    ["scaling_efficiency", "user_growth", "useful_growth", "memory_added", "synchronising_growth"];

#[cfg(test)]
mod tests;
