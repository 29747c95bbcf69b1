//! Findings over time.

use serde::{Deserialize, Serialize};

/// A run cut into intervals of the same length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of an interval.
    pub interval_ns: u64,
    /// An interval is flagged if waiting on loads is above this share of its user time.
    pub threshold: f64,
    /// The threshold was measured on the machine of the recording; otherwise it is the one of machines in general.
    pub measured_here: bool,
    /// In order and without gaps.
    pub intervals: Vec<TimelineInterval>,
}

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineInterval {
    /// Since the start of the recording.
    pub start_ns: u64,
    /// Samples in it.
    pub samples: u64,
    /// Waiting on loads, as a share of the samples in it; none without samples.
    pub loads: Option<f64>,
    /// Waiting on loads, stores, atomics and fences, as a share of the samples in it; none without samples.
    pub memory: Option<f64>,
    /// Threads running at once on average; none without context-switch records.
    pub running_threads: Option<f64>,
    /// Waiting on loads is above the threshold, with enough samples to say so.
    pub flagged: bool,
}

impl Timeline {
    /// Whether a moment, counted from the start of the recording, lies in a flagged interval.
    pub fn is_flagged(&self, time_ns: u64) -> bool {
        let index = usize::try_from(time_ns / self.interval_ns.max(1)).unwrap_or(usize::MAX);
        self.intervals.get(index).is_some_and(|interval| interval.flagged)
    }
}
