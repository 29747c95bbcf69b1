//! A short probe: how fast the last cache and memory answer just now.
//!
//! `calibrate` takes some and keeps them in the profile; `run` takes one before the program and one after it, of the same
//! sizes, so that like is compared with like.

use serde::{Deserialize, Serialize};

use crate::profile::{LevelName, Profile};

/// The most of a cache that is probed: more would take too long.
const MOST_OF_CACHE: f64 = (24u64 << 20) as f64;

/// Memory that is read from: more than most last caches give one core.
const MEMORY_BYTES: u64 = 64 << 20;

/// What to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// The outermost cache that was seen.
    pub level: Option<u32>,
    /// Parts of it to chase through, ascending.
    pub cache_bytes: Vec<u64>,
    /// Memory to chase through and to read.
    pub memory_bytes: u64,
}

impl ProbePlan {
    /// For a machine with this profile: what its own probes did, or else all, half and a quarter of its last cache.
    pub fn of(profile: &Profile) -> Self {
        if let Some(first) = profile.probes.first() {
            let cache_bytes = first.chases.iter().map(|chase| chase.bytes).collect();
            return Self { level: first.level, cache_bytes, memory_bytes: first.memory.bytes };
        }
        let last = profile.levels.iter().rev().find_map(|level| match level.name {
            LevelName::Cache(number) => Some((number, level.usable?.value)),
            LevelName::Memory { .. } => None,
        });
        let parts = |usable: f64| [4.0, 2.0, 1.0].map(|part| (usable.min(MOST_OF_CACHE) / part) as u64 & !63);
        Self {
            level: last.map(|(number, _)| number),
            cache_bytes: last.map_or_else(Vec::new, |(_, usable)| parts(usable).to_vec()),
            memory_bytes: MEMORY_BYTES,
        }
    }

    /// Memory it takes at most, with what it writes down beside the data.
    pub fn needed_bytes(&self) -> u64 {
        let largest = self.cache_bytes.iter().copied().max().unwrap_or(0);
        self.memory_bytes.max(largest + largest / 8)
    }
}

/// A chase through so much data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbedChase {
    /// Data set.
    pub bytes: u64,
    /// Per dependent load.
    pub latency_ns: f64,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReading {
    /// The outermost cache that was seen when the profile was made.
    pub level: Option<u32>,
    /// Through parts of that cache, ascending.
    pub chases: Vec<ProbedChase>,
    /// Through lines that no cache had.
    pub memory: ProbedChase,
    /// Reading on through that memory, bytes per second.
    pub load_bytes_per_s: f64,
    /// How long the probe took.
    pub took_ns: f64,
}
