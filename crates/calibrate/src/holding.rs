//! How much a level holds, as an interval: what it held at worst and at best, however pages fell and whatever neighbours
//! did.
//!
//! Pure: points in, an interval out. Every point is a **try**: a chase over memory of its own, at a time of its own. A
//! try *fits* where at most [`MISS_SHARE`] of its loads left the level.
//!
//! - **Lower end.** Of the data of a try that fits, at least nine tenths were held, so the level holds as much. The end is
//!   nine tenths of the largest size below all those that did not fit. One that did not fit and stands alone was disturbed.
//! - **Upper end.** Disturbance, neighbours and unlucky pages only take away, so the best try counts: the level may hold
//!   more than the largest try that ever fitted, and less than a size beyond it at which tries failed so often that
//!   chance explains it one time in twenty. How often a try fails by chance is seen just below the largest that fitted.
//! - **Pages** that lie anywhere fill some sets of a cache and leave others empty, however often one tries. How much that
//!   costs follows from the number of ways ([`share_by_chance`]), and the upper end is the capacity that would explain it.
//! - **A private cache** that seems smaller than it claims is more likely held by the other thread of its core than
//!   missing: the upper end is at least the claim.

use machine::profile::Estimate;

use super::knees::{CurvePoint, MISS_SHARE, MOST_RISE, Rise};

/// How often the upper end may be too low by chance.
const CHANCE: f64 = 0.05;

/// Tries within this factor below the best one tell how often a try fails by chance.
const JUST_BELOW: f64 = 1.6;

/// Two tries within this factor that do not fit confirm each other.
const ALONE: f64 = 1.25;

/// Tries beyond the best one that are asked for at most, however often tries fail.
const MOST_BEYOND: f64 = 12.0;

/// Ways of a cache that does not say; most private ones have eight or more.
const USUAL_WAYS: u32 = 8;

/// Bytes of a page that may lie anywhere.
const PAGE: f64 = 4096.0;

/// What is known of a cache besides its curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheKnowledge {
    /// What it claims to hold.
    pub claimed: Option<f64>,
    /// Its ways.
    pub ways: Option<u32>,
    /// It belongs to one core.
    pub private: bool,
    /// Pages lie anywhere to the hardware.
    pub scattered: bool,
}

/// What a level holds, by all tries. The value is the rise's own capacity.
pub fn held(tries: &[CurvePoint], rise: &Rise, known: &CacheKnowledge) -> Estimate {
    let mut sorted: Vec<(f64, f64)> =
        tries.iter().map(|point| (point.size.0 as f64, point.latency_ns)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at_share = |outer_ns: f64| rise.inner_ns + MISS_SHARE * (outer_ns - rise.inner_ns);
    // A level that neighbours took away may hide in a large step: the ends differ in what they take the next one to be.
    let low = held_at_worst(&sorted, at_share(rise.outer_ns.min(MOST_RISE * rise.inner_ns)));
    // Tries of one size follow each other closely and meet the same neighbours: the best of them stands for all.
    let mut once = sorted.clone();
    once.dedup_by(|later, kept| {
        kept.1 = if later.0 == kept.0 { kept.1.min(later.1) } else { kept.1 };
        later.0 == kept.0
    });
    let beyond = held_at_best(&once, at_share(rise.outer_ns)).max(rise.capacity.high);
    let high = explained(beyond, known);
    let low = low.min(rise.capacity.low);
    let near = |size: f64| (low..=high).contains(&size);
    let samples = sorted.iter().filter(|(size, _)| near(*size)).count();
    Estimate { value: rise.capacity.value.clamp(low, high), low, high, samples }
}

/// Nine tenths of the largest size below all that did not fit, those left out that stand alone.
fn held_at_worst(sorted: &[(f64, f64)], threshold_ns: f64) -> f64 {
    let failed: Vec<f64> =
        sorted.iter().filter(|(_, ns)| *ns > threshold_ns).map(|(size, _)| *size).collect();
    let confirmed = failed.windows(2).find(|pair| pair[1] <= pair[0] * ALONE);
    let Some(first) = confirmed.map(|pair| pair[0]).or(failed.last().copied()) else {
        return sorted.last().map_or(0.0, |(size, _)| *size);
    };
    let below = sorted.iter().rev().find(|(size, _)| *size < first);
    (1.0 - MISS_SHARE) * below.map_or(first, |(size, _)| *size)
}

/// A size beyond the largest that ever fitted: too large, except by a chance of [`CHANCE`].
fn held_at_best(sorted: &[(f64, f64)], threshold_ns: f64) -> f64 {
    let fits = |point: &&(f64, f64)| point.1 <= threshold_ns;
    let smallest = sorted.first().map_or(0.0, |(size, _)| *size);
    let best = sorted.iter().rev().find(fits).map_or(smallest, |(size, _)| *size);
    let just_below: Vec<&(f64, f64)> =
        sorted.iter().filter(|(size, _)| (best / JUST_BELOW..=best).contains(size)).collect();
    let failed = just_below.iter().filter(|point| point.1 > threshold_ns).count();
    // Few tries do not show how often they fail: by the rule of succession.
    let failing = (failed as f64 + 1.0) / (just_below.len() as f64 + 2.0);
    let needed = (CHANCE.ln() / failing.ln()).ceil().min(MOST_BEYOND);
    let beyond = sorted.iter().filter(|(size, _)| *size > best).take(needed as usize);
    beyond.map(|(size, _)| *size).last().unwrap_or(best)
}

/// The upper end: where pages or a private cache explain more than was ever seen, that.
fn explained(beyond: f64, known: &CacheKnowledge) -> f64 {
    let ways = known.ways.filter(|&ways| ways > 0).unwrap_or(USUAL_WAYS);
    let by_chance = beyond / share_by_chance(ways);
    let has_colours = by_chance > f64::from(ways) * PAGE;
    let mut high = if known.scattered && has_colours { by_chance } else { beyond };
    if let Some(claimed) = known.claimed {
        // What pages explain is no reason to believe in more than is claimed.
        high = if claimed > beyond { high.min(claimed) } else { beyond };
        if known.private {
            high = high.max(claimed);
        }
    }
    high
}

/// Share of a cache that can be used where pages lie anywhere in it.
///
/// Pages fall on its colours by chance, λ on each in the mean, and one with more pages than ways loses all of them
/// to replacement of the line unused for longest. The share of pages in such colours is P(N ≥ ways) of a Poisson
/// distribution with mean λ. Sought is the λ at which that is [`MISS_SHARE`], as a share of the ways.
pub fn share_by_chance(ways: u32) -> f64 {
    let (mut fits, mut fails) = (0.0, f64::from(ways));
    for _ in 0..40 {
        let middle = (fits + fails) / 2.0;
        if at_least(ways, middle) <= MISS_SHARE {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits / f64::from(ways)
}

/// P(N ≥ `count`) of a Poisson distribution.
fn at_least(count: u32, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for n in 0..count {
        below += term;
        term *= mean / f64::from(n + 1);
    }
    1.0 - below
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Bytes;

    fn points(tries: &[(u64, f64)]) -> Vec<CurvePoint> {
        tries.iter().map(|&(kib, latency_ns)| CurvePoint { size: Bytes::kib(kib), latency_ns }).collect()
    }

    fn rise(kib: f64) -> Rise {
        let value = kib * 1024.0;
        let capacity = Estimate { value, low: value, high: value, samples: 2 };
        Rise { capacity, inner_ns: 1.0, outer_ns: 4.0, sharp: true }
    }

    fn ends_kib(held: Estimate) -> (f64, f64) {
        (held.low / 1024.0, held.high / 1024.0)
    }

    #[test]
    fn a_sharp_edge_is_held_between_two_sizes() {
        let sizes = (8..=64).map(|kib| (kib, if kib <= 31 { 1.0 } else { 4.0 }));
        let tries = points(&sizes.collect::<Vec<_>>());
        let (low, high) = ends_kib(held(&tries, &rise(31.0), &CacheKnowledge::default()));
        assert!((low - 27.9).abs() < 1e-6 && high <= 33.0, "{low} to {high}");
    }

    #[test]
    fn neighbours_widen_it_to_both_sides() {
        // Every other try between 16 and 32 KiB fails: beyond the best one, five are needed to be sure.
        let sizes = (8..=64).map(|kib| (kib, if kib <= 16 || kib % 2 == 1 && kib <= 31 { 1.0 } else { 4.0 }));
        let tries = points(&sizes.collect::<Vec<_>>());
        assert_eq!(ends_kib(held(&tries, &rise(25.0), &CacheKnowledge::default())), (15.3, 36.0));
    }

    #[test]
    fn few_tries_leave_more_open() {
        let tries = points(&[(8, 1.0), (16, 1.0), (30, 1.0), (33, 4.0), (36, 4.0), (64, 4.0)]);
        let (low, high) = ends_kib(held(&tries, &rise(31.0), &CacheKnowledge::default()));
        assert!(low <= 27.0 && high >= 64.0, "{low} to {high}");
    }

    #[test]
    fn one_disturbed_try_does_not_count() {
        let disturbed = |kib: u64| if kib == 12 || kib > 31 { 4.0 } else { 1.0 };
        let tries =
            points(&(8..=64).step_by(4).chain(29..35).map(|kib| (kib, disturbed(kib))).collect::<Vec<_>>());
        let (low, high) = ends_kib(held(&tries, &rise(31.0), &CacheKnowledge::default()));
        assert!(low > 25.0 && high < 36.0, "{low} to {high}");
    }

    #[test]
    fn a_private_cache_may_have_all_that_it_claims() {
        let sizes = (8..=64).map(|kib| (kib, if kib <= 14 { 1.0 } else { 4.0 }));
        let tries = points(&sizes.collect::<Vec<_>>());
        let known =
            CacheKnowledge { claimed: Some(48.0 * 1024.0), private: true, ..CacheKnowledge::default() };
        assert_eq!(ends_kib(held(&tries, &rise(14.0), &known)), (12.6, 48.0));
        let shared = CacheKnowledge { private: false, ..known };
        assert!(ends_kib(held(&tries, &rise(14.0), &shared)).1 < 18.0);
    }

    #[test]
    fn pages_that_lie_anywhere_explain_a_larger_cache_up_to_its_claim() {
        let up_to = |most: u64| {
            (1..=128).map(move |n| n * most / 32).map(move |kib| (kib, if kib <= most { 1.0 } else { 4.0 }))
        };
        let tries = points(&up_to(600).collect::<Vec<_>>());
        let contiguous = CacheKnowledge { ways: Some(8), ..CacheKnowledge::default() };
        let known = CacheKnowledge { scattered: true, ..contiguous };
        let (_, beyond) = ends_kib(held(&tries, &rise(600.0), &contiguous));
        let (_, high) = ends_kib(held(&tries, &rise(600.0), &known));
        assert!(
            beyond < 650.0 && (high / beyond - 1.0 / share_by_chance(8)).abs() < 1e-6,
            "{beyond}, {high}"
        );
        let claimed = CacheKnowledge { claimed: Some(800.0 * 1024.0), ..known };
        assert_eq!(ends_kib(held(&tries, &rise(600.0), &claimed)).1, 800.0);
        // All pages of a small cache are of one colour.
        let small = points(&up_to(32).collect::<Vec<_>>());
        assert!(ends_kib(held(&small, &rise(32.0), &CacheKnowledge { ways: Some(16), ..known })).1 < 36.0);
    }

    #[test]
    fn chance_leaves_the_share_that_drawing_pages_leaves() {
        let mut random = crate::curve_models::Random::of(5);
        for ways in [4u32, 8, 12, 16, 20] {
            let (colours, share) = (4096, share_by_chance(ways));
            let mut counts = vec![0u32; colours];
            for _ in 0..(share * f64::from(ways) * colours as f64) as usize {
                counts[(random.uniform() * colours as f64) as usize] += 1;
            }
            let lost: u32 = counts.iter().filter(|&&count| count > ways).sum();
            let of: u32 = counts.iter().sum();
            let lost = f64::from(lost) / f64::from(of);
            assert!((lost - MISS_SHARE).abs() < 0.02, "{ways} ways: {lost}");
        }
    }
}
