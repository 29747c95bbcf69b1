//! How far a program is from what its machine was measured to give.

use machine::profile::LevelName;
use serde::{Deserialize, Serialize};

use super::{KnownLimits, WaitLevel};

/// The program beside the machine's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitFindings {
    /// The machine's levels; missing without a profile.
    pub levels: KnownLimits<Vec<LevelLimit>>,
    /// Bandwidth of the streams seen in the samples against the machine's; missing if nothing streamed.
    pub streams: KnownLimits<StreamLimit>,
    /// Mean number of threads that ran at once.
    pub running_threads: KnownLimits<f64>,
}

/// One level of the machine as its profile has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelLimit {
    /// Which one.
    pub name: LevelName,
    /// What one core can use of it; none if unknown or unlimited.
    pub usable_bytes: Option<f64>,
    /// Of a dependent load.
    pub latency_ns: Option<f64>,
    /// Loads of one core.
    pub one_core_bytes_per_s: Option<f64>,
    /// Loads of all cores together.
    pub all_cores_bytes_per_s: Option<f64>,
}

/// A rate with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Median.
    pub bytes_per_s: f64,
    /// Lower quartile.
    pub low: f64,
    /// Upper quartile.
    pub high: f64,
    /// Pairs of samples behind it.
    pub pairs: u64,
}

/// Streams seen in the samples, against the profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamLimit {
    /// What one thread moves while it streams, all its streams together.
    pub per_thread: Rate,
    /// The level their data comes from; none without a profile.
    #[serde(default)]
    pub level: Option<WaitLevel>,
    /// The same times the number of threads that run at once.
    pub together_bytes_per_s: f64,
    /// What that level gave that many threads, for that mix of loads and stores; missing without a profile.
    pub limit_bytes_per_s: KnownLimits<f64>,
    /// `together` over the limit: 1 is all this machine gave when it was measured.
    pub of_limit: Option<f64>,
    /// The same should the core read lines that strings overwrite whole, which is not known; none where that makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_limit_at_most: Option<f64>,
}
