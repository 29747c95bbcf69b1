//! Timed known work.

use machine::{
    Bytes, CpuSet, Width,
    profile::{Clock, Estimate, Noise},
};
use serde::{Deserialize, Serialize};

/// The result of `memwall bench`: one point per data set size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// `memwall.bench/1`.
    pub schema: String,
    /// The simulated machine it ran on; `None` if it ran on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
    /// Kernel name.
    pub kernel: String,
    /// What the kernel does, in words.
    pub summary: String,
    /// Width of its vector operations.
    pub width: Width,
    /// Values of the kernel's parameters.
    pub parameters: Vec<(String, u64)>,
    /// One thread on each.
    pub cpus: CpuSet,
    /// Node the buffers were bound to, if any.
    pub node: Option<u32>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The core clock, if it could be estimated.
    pub clock: Option<Clock>,
    /// One per size, in the order measured.
    pub points: Vec<Point>,
    /// Stopped by the user before all sizes were done.
    pub interrupted: bool,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Data set asked for, all streams and threads together.
    pub asked: Bytes,
    /// Data set used: rounded so that every thread has whole iterations.
    pub size: Bytes,
    /// Pages the buffers got; `None` where the system does not say.
    pub pages: Option<BackingPages>,
    /// Why it stopped repeating.
    pub stopped: Stopped,
    /// Wall time of each sample divided by its passes.
    pub samples_ns: Vec<f64>,
    /// Median of the above.
    pub time_ns: Estimate,
    /// Work of one pass over all threads, from the kernel's truth.
    pub work: Work,
    /// What disturbed it.
    pub noise: Noise,
}

/// What one pass does, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Instructions retired.
    pub instructions: f64,
    /// Loads and stores, each counted once.
    pub accesses: f64,
    /// Bytes the program loads and stores.
    pub program_bytes: f64,
    /// Bytes the memory system moves when nothing is cached: write-allocates and write-backs included.
    pub memory_bytes: f64,
    /// Floating point operations.
    pub flops: f64,
    /// Steps that wait for each other in one thread (loads of a chase, divisions of a chain); 0 if none.
    pub chain: f64,
}

/// Why a point stopped repeating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// The confidence interval of the median became as narrow as asked.
    Precise,
    /// The time was up first.
    TimeUp,
    /// The asked number of repeats was done.
    Repeats,
    /// The user interrupted.
    Interrupted,
    /// Simulated: every repeat would take the very same time.
    Simulated,
}

/// Pages behind the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackingPages {
    /// Bytes on huge pages, as the kernel reports after first touch.
    pub huge: Bytes,
    /// All bytes mapped.
    pub total: Bytes,
}

impl Point {
    /// Bytes per second as the program sees it.
    pub fn program_bytes_per_s(&self) -> f64 {
        self.work.program_bytes / self.time_ns.value * 1e9
    }

    /// Bytes per second as the memory system sees it when nothing is cached.
    pub fn memory_bytes_per_s(&self) -> f64 {
        self.work.memory_bytes / self.time_ns.value * 1e9
    }

    /// Nanoseconds per access of one thread: per dependent step for a chain, per load or store otherwise.
    pub fn ns_per_access(&self, threads: usize) -> Option<f64> {
        let per_thread = if self.work.chain > 0.0 { self.work.chain } else { self.work.accesses };
        (per_thread > 0.0).then(|| self.time_ns.value * threads as f64 / per_thread)
    }
}
