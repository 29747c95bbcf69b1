//! How far a simulation has come, for whoever watches it from another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Instructions that a run will take, and those taken so far.
#[derive(Debug, Default)]
pub struct SimulationProgress {
    planned: AtomicU64,
    done: AtomicU64,
}

impl SimulationProgress {
    /// A run of so many instructions, all threads together, begins.
    pub(super) fn begin(&self, planned: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.planned.store(planned, Ordering::Relaxed);
    }

    /// So many more are done.
    pub(super) fn add(&self, instructions: u64) {
        self.done.fetch_add(instructions, Ordering::Relaxed);
    }

    /// The share of the present run that is done; none before one has begun.
    pub fn share(&self) -> Option<f64> {
        self.untrimmed().map(|share| share.min(1.0))
    }

    /// The same where more may be done than was planned.
    pub(super) fn untrimmed(&self) -> Option<f64> {
        let [planned, done] = [&self.planned, &self.done].map(|count| count.load(Ordering::Relaxed));
        (planned > 0).then(|| done as f64 / planned as f64)
    }
}
