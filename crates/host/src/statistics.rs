//! Medians, their confidence intervals, and spread, without assuming any distribution.
//!
//! Times on a shared machine are skewed: disturbance only ever adds. Hence the median, an interval from order
//! statistics (exact for every continuous distribution), and the median absolute deviation.

use machine::profile::Estimate;

/// How often a 95 % interval may miss the true median.
const MISS: f64 = 0.05;

/// Below this many samples even the whole range misses the median more often than one time in twenty.
pub const LEAST_SAMPLES: usize = 6;

/// The median; `None` of no samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples))
}

/// The median and its 95 % confidence interval; `None` of no samples.
///
/// Below [`LEAST_SAMPLES`] no such interval exists: `low` and `high` are then the extremes, and
/// [`has_interval`] says no.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    let sorted = sorted(samples);
    let value = median_of_sorted(&sorted)?;
    let skip = skipped_ranks(sorted.len()).unwrap_or(0);
    Some(Estimate { value, low: sorted[skip], high: sorted[sorted.len() - 1 - skip], samples: sorted.len() })
}

/// Whether `low` and `high` of an estimate are a 95 % interval rather than just the extremes.
pub fn has_interval(estimate: &Estimate) -> bool {
    estimate.samples >= LEAST_SAMPLES
}

/// Median absolute deviation over the median; `None` of fewer than two samples or a median of zero.
pub fn spread(samples: &[f64]) -> Option<f64> {
    let middle = median(samples).filter(|&middle| samples.len() > 1 && middle != 0.0)?;
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    median(&deviations).map(|deviation| deviation / middle.abs())
}

/// Applies a decreasing or increasing function to an estimate: the median maps to the median, the ends to the
/// ends.
pub fn map_estimate(estimate: &Estimate, function: impl Fn(f64) -> f64) -> Estimate {
    let (a, b) = (function(estimate.low), function(estimate.high));
    Estimate { value: function(estimate.value), low: a.min(b), high: a.max(b), samples: estimate.samples }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// How many samples at each end lie outside the interval: the most that keeps its coverage at 95 %.
///
/// The number of samples below the true median is binomial(n, ½); an interval that leaves out `k` at each end
/// misses when that number is at most `k` or at least `n - k`.
fn skipped_ranks(n: usize) -> Option<usize> {
    // In logarithms: 2^-n underflows for the sample counts of a long run.
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = log_probability.exp();
    if 2.0 * tail > MISS {
        return None;
    }
    let mut skip = 0;
    while skip + 1 < n.div_ceil(2) {
        log_probability += ((n - skip) as f64).ln() - ((skip + 1) as f64).ln();
        tail += log_probability.exp();
        if 2.0 * tail > MISS {
            break;
        }
        skip += 1;
    }
    Some(skip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_of_published_tables() {
        // Order-statistic intervals for the median as tabulated in statistics textbooks (1-based lower rank).
        for (n, lower_rank) in
            [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)]
        {
            assert_eq!(skipped_ranks(n), Some(lower_rank - 1), "n = {n}");
        }
        for n in 0..LEAST_SAMPLES {
            assert_eq!(skipped_ranks(n), None);
        }
    }

    #[test]
    fn few_samples_give_their_range() {
        let few = estimate(&[3.0, 1.0, 2.0]).expect("samples");
        assert_eq!((few.low, few.value, few.high, has_interval(&few)), (1.0, 2.0, 3.0, false));
        assert_eq!(estimate(&[]), None);
        assert_eq!(spread(&[1.0]), None);
    }

    #[test]
    fn long_runs_do_not_underflow() {
        let skip = skipped_ranks(100_000).expect("an interval");
        // Normal approximation: n/2 - 0.98 sqrt(n).
        assert!((skip as f64 - (50_000.0 - 0.98 * 100_000f64.sqrt())).abs() < 3.0, "{skip}");
    }

    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        // A skewed distribution (exponential) whose median is ln 2, drawn by a small generator.
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            -(((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln()
        };
        let trials = 2000;
        let covered = (0..trials)
            .filter(|_| {
                let samples: Vec<f64> = (0..21).map(|_| draw()).collect();
                let found = estimate(&samples).expect("samples");
                (found.low..=found.high).contains(&std::f64::consts::LN_2)
            })
            .count();
        assert!((1860..=1980).contains(&covered), "{covered} of {trials}");
    }

    /// The binomial tail by adding up Pascal's triangle.
    fn naive_skip(n: usize) -> Option<usize> {
        let mut row = vec![1.0f64];
        for _ in 0..n {
            let mut next = vec![1.0; row.len() + 1];
            for i in 1..row.len() {
                next[i] = row[i - 1] + row[i];
            }
            row = next;
        }
        let total = 2f64.powi(n as i32);
        (0..n.div_ceil(2)).rev().find(|&k| 2.0 * row[..=k].iter().sum::<f64>() / total <= MISS)
    }

    proptest! {
        #[test]
        fn ranks_match_pascals_triangle(n in 1usize..200) {
            prop_assert_eq!(skipped_ranks(n), naive_skip(n));
        }

        #[test]
        fn half_the_samples_lie_on_each_side(samples in proptest::collection::vec(-1e6..1e6f64, 1..60)) {
            let found = estimate(&samples).expect("samples");
            let below = samples.iter().filter(|&&s| s < found.value).count();
            let above = samples.iter().filter(|&&s| s > found.value).count();
            prop_assert!(below <= samples.len() / 2 && above <= samples.len() / 2);
            prop_assert!(found.low <= found.value && found.value <= found.high);
        }

        #[test]
        fn spread_ignores_scale(samples in proptest::collection::vec(1.0..2.0f64, 2..40), factor in 0.1..10.0f64) {
            let scaled: Vec<f64> = samples.iter().map(|s| s * factor).collect();
            let (a, b) = (spread(&samples).expect("spread"), spread(&scaled).expect("spread"));
            prop_assert!((a - b).abs() < 1e-9);
        }
    }
}
