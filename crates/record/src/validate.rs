//! Known work under counters: what ran, what it did, and what was counted.

use machine::{Bytes, Width};
use serde::{Deserialize, Serialize};
use trust::KernelPlace;

/// Known work under known circumstances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The kernel.
    pub kernel: String,
    /// Its parameters that are not at their defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(String, u64)>,
    /// Where its data lies.
    pub place: KernelPlace,
    /// How much, all threads together.
    pub size: Bytes,
    /// Width of its vectors; the widest if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
    /// How many cores run it.
    pub cores: usize,
    /// Its data lies in memory of another package.
    #[serde(default)]
    pub remote: bool,
    /// Two threads of each core run it, and share its caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub siblings: bool,
    /// Prefetchers are on.
    pub prefetch: bool,
    /// Which repetition; another seed, or just again.
    pub run: u32,
}

impl Experiment {
    /// In a few words: `copy in L3 (32 KiB), 2 cores, prefetchers off`.
    pub fn label(&self) -> String {
        let mut text = self.kernel.clone();
        for (name, value) in &self.parameters {
            text += &format!(" {name}={value}");
        }
        if self.place != KernelPlace::Registers {
            text += &format!(" in {} ({})", self.place.name(), self.size);
        }
        if let Some(width) = self.width {
            text += &format!(", {}", width.name());
        }
        if self.cores > 1 {
            text += &format!(", {} cores", self.cores);
        }
        if self.siblings {
            text += ", two threads each";
        }
        if self.remote {
            text += ", remote";
        }
        if !self.prefetch {
            text += ", prefetchers off";
        }
        text
    }

    /// The same for the same experiment, repetition included.
    pub fn key(&self) -> String {
        format!("{} #{}", self.label(), self.run)
    }
}

/// Lines that cross below a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Towards the core because of loads.
    pub read: f64,
    /// Towards the core because a store must own its line (RFO).
    pub owned: f64,
    /// Away from the core: write-backs.
    pub out: f64,
    /// Past the caches.
    pub past: f64,
}

/// What the work did, by construction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Instructions.
    pub instructions: f64,
    /// Of the busiest thread over that of the idlest.
    pub imbalance: f64,
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
    /// Branches.
    pub branches: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// They are of single precision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single: bool,
    /// Threads write to the same lines: how often they take them from each other nobody knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contended: bool,
    /// Core cycles of all threads: time by the known clock; absent where no clock is known.
    pub cycles: Option<f64>,
    /// Below the first, second and third cache.
    pub below: [Lines; 3],
    /// Steps that wait for each other.
    pub chain: f64,
    /// Lines one thread wrote and another read.
    pub handed_over: f64,
}

/// A value, or why there is none.
pub type Counted = Result<f64, String>;

/// One experiment with what was counted in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// What ran.
    pub experiment: Experiment,
    /// How long.
    pub elapsed_ns: f64,
    /// What it did.
    pub truth: Truth,
    /// Events, summed over all places, and their counts.
    pub counts: Vec<(String, Counted)>,
    /// Counts of the busiest place over those of the idlest, of events kept apart by core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imbalance: Vec<(String, f64)>,
}

impl Observation {
    /// What an event counted.
    pub fn count(&self, event: &str) -> Option<f64> {
        let found = self.counts.iter().find(|(name, _)| name == event)?;
        found.1.as_ref().ok().copied()
    }
}
