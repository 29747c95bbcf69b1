//! How often a cache of a given capacity should hit when a kernel draws from a table.

use std::num::NonZeroU64;

use super::{DrawRun, DrawTable};

/// Far more steps than Newton's method takes from where it starts.
const STEPS: u32 = 1000;

impl DrawTable {
    /// Expected hit rate by casas2017 eq. 4: capacity · Σ f(i)², capacity in elements.
    ///
    /// This is the paper's formula as it stands. It counts an element once for each of the last accesses that
    /// touched it, so it overestimates, most where the distribution is steep, and it may exceed 1: it is not
    /// clamped, so that a reader sees where it has left its range. [`DrawTable::hit_rate_che`] has not this fault.
    pub fn hit_rate_casas(&self, capacity_elements: u64) -> f64 {
        let squares: f64 =
            self.runs(NonZeroU64::MIN).iter().map(|run| run.lines * run.probability.powi(2)).sum();
        capacity_elements as f64 * squares
    }

    /// Expected hit rate of a fully associative LRU cache under independent draws (Che's approximation).
    ///
    /// `granule` is the number of elements in a line; the cache holds `capacity_elements` / `granule` lines. A
    /// line stays for the characteristic time T, in accesses, for which the expected number of distinct lines
    /// touched is the capacity: Σ (1 − e^(−pT)) = C. The hit rate is then Σ p (1 − e^(−pT)).
    pub fn hit_rate_che(&self, capacity_elements: u64, granule: NonZeroU64) -> f64 {
        let runs = self.runs(granule);
        let capacity = capacity_elements as f64 / granule.get() as f64;
        let lines: f64 = runs.iter().map(|run| run.lines).sum();
        if capacity >= lines {
            return 1.0;
        }
        let time = characteristic_time(&runs, capacity);
        runs.iter().map(|run| run.lines * run.probability * touched(run, time)).sum()
    }
}

/// Probability that a line of the run is touched within `time` accesses.
fn touched(run: &DrawRun, time: f64) -> f64 {
    -(-run.probability * time).exp_m1()
}

/// Solves Σ (1 − e^(−pT)) = `capacity` for T; `capacity` is below the number of lines.
///
/// The left side is concave and rises with slope 1 at first, so T is at least the capacity, and Newton's steps
/// from there climb to the solution without passing it.
fn characteristic_time(runs: &[DrawRun], capacity: f64) -> f64 {
    let mut time = capacity;
    for _ in 0..STEPS {
        let (mut held, mut slope) = (0.0, 0.0);
        for run in runs {
            held += run.lines * touched(run, time);
            slope += run.lines * run.probability * (-run.probability * time).exp();
        }
        let step = (capacity - held) / slope;
        // Also ends on a slope of 0, where the last lines are held but for rounding.
        if step.is_nan() || step.is_infinite() || step <= 1e-12 * time {
            break;
        }
        time += step;
    }
    time
}
