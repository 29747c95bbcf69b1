//! How much slower: the pseudomedian of paired ratios and its interval, without assuming how times are spread.
//!
//! Each squeezed run is divided by the run alone of its round. If both are disturbed alike, the logarithm of that ratio
//! lies symmetrically around that of the true slowdown, whatever the disturbance: the interval of Wilcoxon's signed
//! ranks is then exact, and narrower than one of order statistics.

use machine::profile::Estimate;
use record::squeeze::HarmVerdict;

/// Below this many ratios there is no 95 % interval.
pub const LEAST_SHOWN: usize = 6;

/// Below this many ratios nothing is decided.
pub const LEAST_ROUNDS: usize = 8;

/// Probability that the true value lies below the interval that is shown, and that it lies above.
const TAIL: f64 = 0.025;

/// The same of the interval that decides. Narrower chances, as it is looked at several times.
const DECIDING_TAIL: f64 = 0.005;

/// Up to so many ratios the means of all pairs are written down.
const WRITTEN_DOWN: usize = 200;

/// Halvings that find one of more: to the last bits of a logarithm.
const HALVINGS: u32 = 60;

/// Above this the number of signed ranks is taken to be normally distributed.
const EXACT: usize = 40;

/// The slowdown of these ratios, with its 95 % interval; below [`LEAST_SHOWN`] their range. `None` of no ratios, or if one is
/// no positive number.
pub fn slowdown(ratios: &[f64]) -> Option<Estimate> {
    within(ratios, TAIL)
}

fn within(ratios: &[f64], tail: f64) -> Option<Estimate> {
    if ratios.is_empty() || ratios.iter().any(|ratio| !(*ratio > 0.0 && ratio.is_finite())) {
        return None;
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let means = PairMeans::of(logs);
    let many = means.many();
    let middle = (means.at((many - 1) / 2) + means.at(many / 2)) / 2.0;
    let skip = skipped(ratios.len(), tail).unwrap_or(0);
    Some(Estimate {
        value: middle.exp(),
        low: means.at(skip).exp(),
        high: means.at(many - 1 - skip).exp(),
        samples: ratios.len(),
    })
}

/// Means of all pairs of some values, each value with itself too, in order.
enum PairMeans {
    /// All of them.
    All(Vec<f64>),
    /// Too many to be written down: the values in order.
    Of(Vec<f64>),
}

impl PairMeans {
    fn of(mut values: Vec<f64>) -> Self {
        if values.len() > WRITTEN_DOWN {
            values.sort_by(f64::total_cmp);
            return Self::Of(values);
        }
        let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
        for (index, a) in values.iter().enumerate() {
            means.extend(values[index..].iter().map(|b| (a + b) / 2.0));
        }
        means.sort_by(f64::total_cmp);
        Self::All(means)
    }

    fn many(&self) -> usize {
        match self {
            Self::All(means) => means.len(),
            Self::Of(values) => values.len() * (values.len() + 1) / 2,
        }
    }

    /// The one with so many before it.
    fn at(&self, before: usize) -> f64 {
        let values = match self {
            Self::All(means) => return means[before],
            Self::Of(values) => values,
        };
        let (mut low, mut high) = (values[0], values[values.len() - 1]);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if pairs_up_to(values, middle) > before { high = middle } else { low = middle }
        }
        (low + high) / 2.0
    }
}

/// Pairs of values, which are in order, whose mean is no more than this.
fn pairs_up_to(values: &[f64], most: f64) -> usize {
    // As the first of a pair grows, the last that goes with it falls.
    let (mut pairs, mut end) = (0, values.len());
    for (index, value) in values.iter().enumerate() {
        while end > index && value + values[end - 1] > 2.0 * most {
            end -= 1;
        }
        if end <= index {
            break;
        }
        pairs += end - index;
    }
    pairs
}

/// Loss where so much is left, between the nearest of some points of what was left and lost, and nothing lost where all
/// there is was left. Below the least of them the loss there.
pub fn loss_at(points: impl IntoIterator<Item = (f64, f64)>, whole: f64, left: f64) -> f64 {
    let mut line: Vec<(f64, f64)> = points.into_iter().chain([(whole, 0.0)]).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (line[0], line[line.len() - 1]);
    if left <= first.0 {
        return first.1;
    }
    if left >= last.0 {
        return last.1.min(0.0);
    }
    let after = line.iter().position(|point| point.0 >= left).unwrap_or(line.len() - 1).max(1);
    let (a, b) = (line[after - 1], line[after]);
    if b.0 <= a.0 { b.1 } else { a.1 + (b.1 - a.1) * (left - a.0) / (b.0 - a.0) }
}

/// What follows from ratios. `exact`: they repeat to the bit, one tells all.
pub fn verdict(ratios: &[f64], harm: f64, exact: bool) -> HarmVerdict {
    let threshold = 1.0 + harm;
    match within(ratios, DECIDING_TAIL) {
        Some(found) if exact || found.samples >= LEAST_ROUNDS => {
            if found.low > threshold {
                HarmVerdict::Harmful
            } else if found.high < threshold {
                HarmVerdict::Harmless
            } else {
                HarmVerdict::Open
            }
        }
        _ => HarmVerdict::Open,
    }
}

/// Whether to look at so many ratios: the more there are, the more come before the next look, as each look is another
/// chance to be wrong.
pub fn worth_a_look(rounds: usize) -> bool {
    let mut next = LEAST_ROUNDS;
    while next < rounds {
        next += next / 2;
    }
    next == rounds
}

/// How many of the ordered means at each end lie outside the interval: the largest k with P(T ≤ k) ≤ `tail`, T being the
/// sum of positive signed ranks. `None` if even the whole range misses more often.
fn skipped(n: usize, tail: f64) -> Option<usize> {
    if n > EXACT {
        let n = n as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let quantile = if tail < TAIL { 2.576 } else { 1.96 };
        return Some((mean - quantile * deviation).floor().max(0.0) as usize);
    }
    let most = n * (n + 1) / 2;
    // Ways to get each sum: every rank is in or out.
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2f64.powi(n as i32);
    let mut below = 0.0;
    let mut skip = None;
    for (sum, ways) in ways.iter().enumerate() {
        below += ways / all;
        if below > tail {
            break;
        }
        skip = Some(sum);
    }
    skip
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::draw::SplitMix;

    #[test]
    fn ranks_of_published_tables() {
        // Two-sided 5 % critical values of Wilcoxon's signed-rank statistic, as tabulated in textbooks.
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            assert_eq!(skipped(n, TAIL), Some(critical), "n = {n}");
        }
        for n in 0..LEAST_SHOWN {
            assert_eq!(skipped(n, TAIL), None, "n = {n}");
        }
        // Where the normal distribution takes over there is no step: the exact value of 40 is 264.
        assert!((264..=300).contains(&skipped(41, TAIL).expect("an interval")), "{:?}", skipped(41, TAIL));
    }

    #[test]
    fn nothing_from_nothing() {
        assert_eq!(slowdown(&[]), None);
        assert_eq!(slowdown(&[1.0, 0.0]), None);
        assert_eq!(slowdown(&[1.0, f64::NAN]), None);
        let one = slowdown(&[1.25]).expect("a value");
        assert_eq!((one.low, one.high), (one.value, one.value));
        assert_eq!(verdict(&[1.25], 0.05, false), HarmVerdict::Open);
        assert_eq!(verdict(&[1.25], 0.05, true), HarmVerdict::Harmful);
        let steady = [1.2; LEAST_ROUNDS];
        assert_eq!(verdict(&steady, 0.05, false), HarmVerdict::Harmful);
        assert_eq!(verdict(&steady[1..], 0.05, false), HarmVerdict::Open);
    }

    #[test]
    fn means_of_many_pairs_are_found_without_writing_them_down() {
        let mut random = SplitMix::new(5);
        let values: Vec<f64> = (0..150).map(|_| time(&mut random).ln()).collect();
        let all = PairMeans::of(values.clone());
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let found = PairMeans::Of(sorted);
        assert_eq!((found.many(), all.many()), (150 * 151 / 2, 150 * 151 / 2));
        for before in [0, 1, 77, 5000, 11_000, 150 * 151 / 2 - 1] {
            let (found, expected) = (found.at(before), all.at(before));
            assert!((found - expected).abs() < 1e-12, "{before}: {found} {expected}");
        }
    }

    #[test]
    fn looks_grow_rare() {
        let looks: Vec<usize> = (0..100).filter(|rounds| worth_a_look(*rounds)).collect();
        assert_eq!(looks, [8, 12, 18, 27, 40, 60, 90]);
    }

    #[test]
    fn losses_between_points() {
        let points = [(10.0, 0.5), (15.0, 0.1)];
        assert_eq!(loss_at(points, 20.0, 5.0), 0.5);
        assert_eq!(loss_at(points, 20.0, 25.0), 0.0);
        assert!((loss_at(points, 20.0, 12.5) - 0.3).abs() < 1e-9);
        assert!((loss_at(points, 20.0, 19.0) - 0.02).abs() < 1e-9);
        assert_eq!(loss_at([], 20.0, 5.0), 0.0);
    }

    /// A time with a tail: what disturbs only adds.
    fn time(random: &mut SplitMix) -> f64 {
        let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        1.0 - 0.04 * (1.0 - uniform).ln()
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = SplitMix::new(11);
        let trials = 2000;
        let held = (0..trials)
            .filter(|_| {
                let ratios: Vec<f64> = (0..9).map(|_| 1.1 * time(&mut random) / time(&mut random)).collect();
                let found = slowdown(&ratios).expect("ratios");
                (found.low..=found.high).contains(&1.1)
            })
            .count();
        assert!((1870..=1970).contains(&held), "{held} of {trials}");
    }
}
