//! The same program run with different numbers of threads.

use serde::{Deserialize, Serialize};

/// A series of runs that differ in their number of threads only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// CPUs that the program could use.
    pub cpus: u32,
    /// Cores that these belong to; none where that is not known.
    pub cores: Option<u32>,
    /// Each run, in the order they were made. Numbers of threads take turns within a round.
    pub runs: Vec<ScalingRun>,
}

/// One run, as its recording was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingRun {
    /// Threads that the program was asked to use.
    pub threads: u32,
    /// Threads that were seen to run in user mode; none without samples.
    pub seen: Option<u32>,
    /// Runs of one round came right after each other.
    pub round: u32,
    /// From beginning to end.
    pub elapsed_ns: u64,
    /// User time of all threads; none without samples, as all that follow.
    pub user_ns: Option<f64>,
    /// Of that, outside of code that waits for other threads.
    pub useful_ns: Option<f64>,
    /// Of user time, waiting for memory.
    pub memory_ns: Option<f64>,
    /// Of user time, waiting for other threads, beyond what uneven work explains.
    pub synchronising_ns: Option<f64>,
    /// Of the longest thread's useful work, what the others lack on average.
    pub imbalance: Option<f64>,
    /// What streams of all threads moved together.
    pub stream_bytes_per_s: Option<f64>,
    /// What disturbed it.
    pub spoilt: Option<String>,
}
