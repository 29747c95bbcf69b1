//! What a program lost when cache or bandwidth was taken from it.

use machine::{
    Bytes, CpuSet,
    profile::Estimate,
    squeezing::{Interference, KnownPattern, SqueezeKind},
};
use serde::{Deserialize, Serialize};

use crate::{predict::BestMapping, run::Ending};

/// The schema of [`SqueezeRun`].
pub const SCHEMA: &str = "memwall.squeeze/1";

/// The schema of [`SqueezeSeries`].
pub const SERIES_SCHEMA: &str = "memwall.squeeze-series/1";

/// A program squeezed several times: by how many of its processes share the cache, or by its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeSeries {
    /// `memwall.squeeze-series/1`.
    pub schema: String,
    /// What ran, as it was typed.
    pub program: String,
    /// What differs between the runs: `processes`, or the name that the command line gave.
    pub varied: String,
    /// In the order asked for.
    pub members: Vec<SeriesMember>,
    /// Of several mappings the best, and why.
    pub best: Option<BestMapping>,
    /// What else has to be said.
    pub remarks: Vec<String>,
}

/// One of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesMember {
    /// What was put in.
    pub value: String,
    /// Time alone, nanoseconds, the middle of all runs; none if no run ended well.
    pub alone_ns: Option<f64>,
    /// What came of it; none if it could not be run.
    pub run: Option<SqueezeRun>,
    /// Why not.
    pub failed: Option<String>,
}

/// A program under interference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeRun {
    /// `memwall.squeeze/1`.
    pub schema: String,
    /// What ran, as it was typed.
    pub program: String,
    /// The model that was simulated; `None` of a real machine.
    pub simulated: Option<String>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// What was taken as its time.
    pub timed_by: TimedBy,
    /// A slowdown beyond this share is harm.
    pub harm: f64,
    /// CPUs the program had.
    pub cpus: CpuSet,
    /// CPUs of the interference, at most.
    pub spare: CpuSet,
    /// Processes of the program that share the cache.
    pub processes: usize,
    /// Seconds that were allowed; none: as many as it took.
    pub budget_s: Option<f64>,
    /// Seconds spent.
    pub spent_s: f64,
    /// Why it ended.
    pub ended: SqueezeEnd,
    /// Against room in the cache.
    pub storage: SqueezeCurve,
    /// Against bandwidth.
    pub bandwidth: SqueezeCurve,
    /// What kind of program it is.
    pub class: ProgramClass,
    /// What that rests on, in sentences.
    pub evidence: Vec<String>,
    /// Programs of known need that it behaves like a mixture of; empty if none explains it. What is missing to all of its time
    /// nothing slows.
    #[serde(default)]
    pub parts: Vec<ProgramPart>,
    /// Runs that did not end well.
    pub crashes: Vec<SqueezeCrash>,
    /// Every run, in order.
    pub runs: Vec<SqueezedRun>,
    /// What else has to be said.
    pub remarks: Vec<String>,
}

impl SqueezeRun {
    /// The curve of a kind.
    pub fn curve(&self, kind: SqueezeKind) -> &SqueezeCurve {
        match kind {
            SqueezeKind::Storage => &self.storage,
            SqueezeKind::Bandwidth => &self.bandwidth,
        }
    }
}

/// What was taken as a program's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedBy {
    /// From its start to its end.
    Wall,
    /// Between the marks it wrote.
    Marks,
    /// One over the rate that it printed.
    PrintedRate(String),
    /// The time that it printed.
    PrintedTime(String),
    /// Of this region, in simulated time.
    Region(String),
    /// All of a scenario, in simulated time.
    Simulated,
}

/// Why measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqueezeEnd {
    /// All that was to be told is told.
    Told,
    /// The budget is spent.
    Budget,
    /// As many rounds as make sense, and still something is open.
    Rounds,
    /// Ctrl-C.
    Interrupted,
}

/// Slowdown against what was left of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeCurve {
    /// What was taken.
    pub kind: SqueezeKind,
    /// All there is, bytes or bytes per second.
    pub whole: Option<f64>,
    /// Most left first.
    pub points: Vec<SlowdownPoint>,
    /// What each process uses.
    pub bounds: Option<UseBounds>,
    /// Why there is no curve.
    pub refused: Option<String>,
}

/// Slowdown under one strength.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowdownPoint {
    /// What ran beside the program.
    pub interference: Interference,
    /// What that leaves, bytes or bytes per second, as calibrated.
    pub left: Estimate,
    /// Time over the time alone; `samples` are rounds.
    pub slowdown: Estimate,
    /// Part of that loss that comes from what the interference takes of the other resource, by the other curve.
    #[serde(default)]
    pub elsewhere: f64,
    /// What follows.
    pub verdict: HarmVerdict,
}

/// Whether a strength slows the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HarmVerdict {
    /// The whole interval is below the threshold.
    Harmless,
    /// The whole interval is above it.
    Harmful,
    /// The interval holds the threshold, or there is none.
    Open,
}

/// Bounds on what each process uses (casas2017 §5.2): the last harmless and the first harmful strength.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UseBounds {
    /// It uses more than was left by the first harmful strength; none if nothing harmed it.
    pub at_least: Option<f64>,
    /// It uses no more than was left by the last harmless strength; none if everything harmed it.
    pub at_most: Option<f64>,
}

/// What kind of program it is (casas2017 §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramClass {
    /// Needs neither: it lives in caches of its own.
    LivesAbove,
    /// Needs neither: its data overflows the cache, and memory is fast enough.
    Overflows,
    /// Needs neither; which of the two is not known.
    Insensitive,
    /// Slower with less cache only.
    CacheSensitive,
    /// Slower with less bandwidth only.
    BandwidthSensitive,
    /// Slower with less of either.
    Both,
    /// Slower with less cache; whether with less bandwidth is not known.
    LosesToCache,
    /// Slower with less bandwidth; whether with less cache is not known.
    LosesToBandwidth,
    /// Not slower with less cache; whether with less bandwidth is not known.
    CacheHarmless,
    /// Not slower with less bandwidth; whether with less cache is not known.
    BandwidthHarmless,
    /// Too noisy or too few runs of both kinds.
    Undecided,
}

/// A part of a program's time that it spends like a known program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramPart {
    /// How it goes over its data.
    pub pattern: KnownPattern,
    /// Data it goes over again and again.
    pub size: Bytes,
    /// Lines it goes over when nothing is taken, bytes per second.
    pub bytes_per_s: f64,
    /// Share of the time alone.
    pub share: f64,
    /// Whether its lines come from memory.
    pub overflows: bool,
}

/// A run that did not end well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeCrash {
    /// What ran beside it; none: nothing.
    pub interference: Option<Interference>,
    /// How it ended.
    pub ending: Ending,
    /// In words, where there is more to say.
    pub reason: Option<String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezedRun {
    /// What ran beside it; none: nothing.
    pub interference: Option<Interference>,
    /// Runs of one round are compared with each other.
    pub round: usize,
    /// Its time, nanoseconds; none if it did not end well.
    pub ns: Option<f64>,
}
