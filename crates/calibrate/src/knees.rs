//! Where a latency curve leaves one level of the hierarchy for the next.
//!
//! Pure: points in, rises out. Nothing is assumed about how many levels there are or how large they claim to
//! be.
//!
//! **What is looked for.** A chase over a random cycle of `S` bytes takes `L(S) = h·l_in + (1 - h)·l_out` per
//! load, where `h` is the share of loads that the level still answers. While the data fit, `h` is 1 and the
//! curve flat. With strict LRU `h` falls to 0 just beyond the capacity `C`; with random replacement it falls
//! like `C/S`. Real caches lie between. The two have one thing in common: `h` starts to fall at `C`. The
//! usable capacity is therefore defined by a share of misses, the same on every machine: **the largest data
//! set of which at most one load in ten leaves the level**, `L(S) = l_in + 0.1·(l_out - l_in)`. For LRU that
//! is `C`, for random replacement `C / 0.9`: the definition costs at most 11 %. A step so large that another
//! level may be hidden in it counts as [`MOST_RISE`], so the latency at the capacity is never more than 40 %
//! above the level's own.
//!
//! **How.**
//! 1. A larger data set is never faster, so the curve is replaced by the nearest one that never falls
//!    (isotonic regression). Disturbance only adds, so points that contradict each other count with their
//!    lower quartile: a spike counts no more than any other point, and vanishes.
//! 2. In logarithms, the rise per octave is taken over a sliding octave. Flat stretches are its dips,
//!    transitions its peaks. A peak counts if it stands [`PROMINENCE`] above the dips at both sides; a dip
//!    need not be zero, so levels that blur into each other are still told apart.
//! 3. The latency of a level is the median over its dip; the threshold between two neighbouring dips follows
//!    from the definition; where the curve crosses it is interpolated between the two sizes around it, in
//!    logarithms.

use machine::{Bytes, profile::Estimate};

/// Share of loads that may leave a level which still counts as holding the data.
pub const MISS_SHARE: f64 = 0.1;

/// Neighbouring caches differ by at most about this factor. Where a step is larger, a level that others have
/// taken away may be hidden in it (a guest's share of the last level comes and goes); counting with no more
/// than this keeps the capacity of the level before it where it is.
pub const MOST_RISE: f64 = 5.0;

/// How much the rise per octave (natural logarithm of latency) must stand out: two latencies that are each
/// wrong by a tenth differ by 0.2, so less could be noise; neighbouring levels differ by a factor of two
/// (0.7) and more.
pub const PROMINENCE: f64 = 0.25;

/// What counts as near a transition: a quarter to each side.
pub const NEIGHBOURHOOD: f64 = 1.25;

/// Sizes asked for are multiples of this: a chase takes lines in groups of sixteen.
const GRAIN: f64 = 1024.0;

/// Grid of the sliding octave.
const STEPS_PER_OCTAVE: usize = 8;

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Data set.
    pub size: Bytes,
    /// Nanoseconds per dependent load.
    pub latency_ns: f64,
}

/// A transition from one level to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// Data set at which one load in ten leaves the inner level. `low` and `high` are the measured sizes
    /// around it, `samples` how often those two were measured.
    pub capacity: Estimate,
    /// Latency of the inner level.
    pub inner_ns: f64,
    /// Latency of the outer level.
    pub outer_ns: f64,
    /// Most loads leave the level within [`NEIGHBOURHOOD`]: there is little room for error.
    pub sharp: bool,
}

/// The transitions of a latency curve, innermost first. The points may come in any order, sizes more than
/// once.
pub fn rises(points: &[CurvePoint]) -> Vec<Rise> {
    let curve = never_falling(points);
    if curve.len() < 3 {
        return Vec::new();
    }
    let grid = Grid::new(&curve);
    let turns = turns(&grid.rise_per_octave);
    let plateaus = plateaus(&grid, &turns);
    plateaus
        .windows(2)
        .filter_map(|pair| {
            let (inner_ns, outer_ns) = (pair[0], pair[1]);
            let beyond_ns = outer_ns.min(MOST_RISE * inner_ns);
            let at_share = |share: f64| inner_ns + share * (beyond_ns - inner_ns);
            let capacity = crossing(points, &curve, at_share(MISS_SHARE))?;
            let nearby_ns = interpolate(&curve, (capacity.value * NEIGHBOURHOOD).log2()).exp();
            Some(Rise { capacity, inner_ns, outer_ns, sharp: nearby_ns >= at_share(0.5) })
        })
        .collect()
}

/// How thoroughly transitions are to be looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thoroughness {
    /// The two sizes around a transition are at most this factor apart (1.06: 6 %).
    pub finest: f64,
    /// So many sizes are measured within [`NEIGHBOURHOOD`] of one that is not sharp, each in memory of its
    /// own: which pages a buffer gets shifts such a transition, and several together do so less.
    pub neighbours: usize,
}

/// The size to measure next; `None` when every transition is known as thoroughly as asked.
///
/// Inner levels come first. The two sizes around a transition are brought together by halving. A disturbed
/// measurement just above the plateau would lead that to the wrong place, and disturbance only adds: so the
/// upper size is measured a second time before it is believed. So is the largest of all: no larger size could
/// correct it.
pub fn next_size(points: &[CurvePoint], asked: &Thoroughness) -> Option<Bytes> {
    let once = |size: Bytes| points.iter().filter(|point| point.size == size).count() < 2;
    let rises = rises(points);
    let largest = points.iter().map(|point| point.size).max().filter(|&size| !rises.is_empty() && once(size));
    largest.or_else(|| {
        rises.iter().find_map(|rise| {
            let (low, high) = (rise.capacity.low, rise.capacity.high);
            if once(Bytes(high as u64)) {
                return Some(Bytes(high as u64));
            }
            let middle = whole_grains((low * high).sqrt());
            if high / low > asked.finest && middle > low && middle < high {
                return Some(Bytes(middle as u64));
            }
            if rise.sharp { None } else { neighbour(points, rise.capacity.value, asked.neighbours) }
        })
    })
}

/// The middle of the widest gap near a transition, unless there are enough points or no size lies in between.
fn neighbour(points: &[CurvePoint], capacity: f64, enough: usize) -> Option<Bytes> {
    let (from, to) = (capacity / NEIGHBOURHOOD, capacity * NEIGHBOURHOOD);
    let mut near: Vec<f64> = points.iter().map(|point| point.size.0 as f64).collect();
    near.retain(|size| (from..=to).contains(size));
    if near.len() >= enough {
        return None;
    }
    near.extend([from, to]);
    near.sort_by(f64::total_cmp);
    let widest = near.windows(2).max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])))?;
    let middle = whole_grains((widest[0] * widest[1]).sqrt());
    (middle > widest[0] && middle < widest[1]).then_some(Bytes(middle as u64))
}

fn whole_grains(size: f64) -> f64 {
    (size / GRAIN).round() * GRAIN
}

/// Sizes ascending, each once, with latencies that never fall: the nearest such curve to the points.
///
/// Neighbouring sizes whose latencies fall are pooled and share their lower quartile.
fn never_falling(points: &[CurvePoint]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.size.0 > 0 && point.latency_ns.is_finite() && point.latency_ns > 0.0)
        .map(|point| (point.size.0 as f64, point.latency_ns))
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut pools: Vec<Pool> = Vec::new();
    for same in sorted.chunk_by(|a, b| a.0 == b.0) {
        let mut pool = Pool::new(vec![same[0].0], same.iter().map(|point| point.1).collect());
        while let Some(before) = pools.pop_if(|before| before.quartile >= pool.quartile) {
            pool =
                Pool::new([before.sizes, pool.sizes].concat(), [before.latencies, pool.latencies].concat());
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|pool| pool.sizes.iter().map(|&size| (size, pool.quartile))).collect()
}

/// Sizes that share one latency.
struct Pool {
    sizes: Vec<f64>,
    latencies: Vec<f64>,
    quartile: f64,
}

impl Pool {
    fn new(sizes: Vec<f64>, mut latencies: Vec<f64>) -> Self {
        latencies.sort_by(f64::total_cmp);
        let quartile = latencies[(latencies.len() - 1) / 4];
        Self { sizes, latencies, quartile }
    }
}

/// The curve on an even grid in log size.
struct Grid {
    log_latency: Vec<f64>,
    rise_per_octave: Vec<f64>,
}

impl Grid {
    fn new(curve: &[(f64, f64)]) -> Self {
        let first = curve[0].0.log2();
        let last = curve[curve.len() - 1].0.log2();
        let steps = ((last - first) * STEPS_PER_OCTAVE as f64).ceil() as usize + 1;
        let log_latency: Vec<f64> = (0..steps)
            .map(|step| interpolate(curve, (first + step as f64 / STEPS_PER_OCTAVE as f64).min(last)))
            .collect();
        let half = STEPS_PER_OCTAVE / 2;
        let rise_per_octave = (0..steps)
            .map(|step| log_latency[(step + half).min(steps - 1)] - log_latency[step.saturating_sub(half)])
            .collect();
        Self { log_latency, rise_per_octave }
    }
}

/// Log latency at `log2_size`, straight between the points in log-log.
fn interpolate(curve: &[(f64, f64)], log2_size: f64) -> f64 {
    let after = curve.partition_point(|point| point.0.log2() < log2_size).clamp(1, curve.len() - 1);
    let ((x0, y0), (x1, y1)) = (curve[after - 1], curve[after]);
    let share = ((log2_size - x0.log2()) / (x1.log2() - x0.log2())).clamp(0.0, 1.0);
    y0.ln() + share * (y1.ln() - y0.ln())
}

/// Grid positions of alternating dips and peaks, beginning and ending with a dip; neighbours differ by at
/// least [`PROMINENCE`]. Positions at even indices are dips.
fn turns(values: &[f64]) -> Vec<usize> {
    let mut turns = Vec::new();
    let mut dip = 0;
    let mut peak = None::<usize>;
    for here in 0..values.len() {
        match peak {
            None if values[here] <= values[dip] => dip = here,
            None if values[here] >= values[dip] + PROMINENCE => {
                turns.push(dip);
                peak = Some(here);
            }
            None => {}
            Some(top) if values[here] > values[top] => peak = Some(here),
            Some(top) if values[here] <= values[top] - PROMINENCE => {
                turns.push(top);
                (dip, peak) = (here, None);
            }
            Some(_) => {}
        }
    }
    match peak {
        // Still rising at the largest size: the level beyond was not reached, its latency is at least this.
        Some(top) => turns.extend([top, values.len() - 1]),
        None => turns.push(dip),
    }
    turns
}

/// Latency of each level: the median over the part of the grid between two peaks that is nearly as flat as
/// its dip.
fn plateaus(grid: &Grid, turns: &[usize]) -> Vec<f64> {
    let last = grid.log_latency.len() - 1;
    (0..turns.len())
        .step_by(2)
        .map(|turn| {
            let from = if turn == 0 { 0 } else { turns[turn - 1] };
            let to = turns.get(turn + 1).copied().unwrap_or(last);
            let dip = turns[turn];
            let flat = grid.rise_per_octave[dip] + PROMINENCE / 4.0;
            let on_plateau: Vec<f64> = (from..=to)
                .filter(|&step| step == dip || grid.rise_per_octave[step] <= flat)
                .map(|step| grid.log_latency[step].exp())
                .collect();
            host::statistics::median(&on_plateau).unwrap_or_else(|| grid.log_latency[dip].exp())
        })
        .collect()
}

/// Where the curve crosses `threshold_ns`, with the measured sizes at both sides.
fn crossing(points: &[CurvePoint], curve: &[(f64, f64)], threshold_ns: f64) -> Option<Estimate> {
    let above = curve.partition_point(|point| point.1 <= threshold_ns);
    if above == 0 || above == curve.len() {
        return None;
    }
    let ((x0, y0), (x1, y1)) = (curve[above - 1], curve[above]);
    let share = ((threshold_ns.ln() - y0.ln()) / (y1.ln() - y0.ln())).clamp(0.0, 1.0);
    let value = (x0.ln() + share * (x1.ln() - x0.ln())).exp().clamp(x0, x1);
    let samples = points.iter().filter(|point| [x0, x1].contains(&(point.size.0 as f64))).count();
    Some(Estimate { value, low: x0, high: x1, samples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve_models::{Model, Replacement};
    use proptest::prelude::*;

    fn capacities(points: &[CurvePoint]) -> Vec<f64> {
        rises(points).iter().map(|rise| rise.capacity.value).collect()
    }

    const THOROUGH: Thoroughness = Thoroughness { finest: 1.06, neighbours: 12 };

    /// Relative error above which a capacity counts as not recovered.
    const TOLERANCE: f64 = 0.15;

    fn assert_recovers(model: &Model, found: &[f64], context: &str) {
        assert_eq!(found.len(), model.capacities.len(), "{context}: {found:?} of {:?}", model.capacities);
        for (found, truth) in found.iter().zip(&model.capacities) {
            assert!((found / truth - 1.0).abs() <= TOLERANCE, "{context}: {found} instead of {truth}");
        }
    }

    #[test]
    fn ideal_machines_of_two_to_four_levels() {
        for model in
            [Model::two_levels(), Model::three_levels(), Model::four_levels(), Model::small_share_of_l3()]
        {
            for replacement in [Replacement::Lru, Replacement::Random] {
                let model = model.clone().with(replacement);
                let points = model.explore(&THOROUGH, 0);
                assert_recovers(&model, &capacities(&points), &format!("{replacement:?}"));
            }
        }
    }

    #[test]
    fn noise_and_spikes_do_not_move_a_capacity() {
        for seed in 1..=150 {
            let model = Model::three_levels().with(Replacement::Lru).noisy();
            let points = model.explore(&THOROUGH, seed);
            assert_recovers(&model, &capacities(&points), &format!("seed {seed}"));
        }
    }

    #[test]
    fn latencies_are_those_of_the_plateaus() {
        let model = Model::three_levels().noisy();
        let found = rises(&model.explore(&THOROUGH, 3));
        for (rise, truth) in found.iter().zip(model.latencies.windows(2)) {
            assert!((rise.inner_ns / truth[0] - 1.0).abs() < 0.1, "{rise:?}");
            assert!((rise.outer_ns / truth[1] - 1.0).abs() < 0.1, "{rise:?}");
        }
    }

    #[test]
    fn a_level_that_comes_and_goes_does_not_move_the_one_inside() {
        let with = Model::small_share_of_l3().with(Replacement::Random);
        let mut without = with.clone();
        without.capacities.pop();
        without.latencies.remove(2);
        let (with, without) = (with.explore(&THOROUGH, 0), without.explore(&THOROUGH, 0));
        let (with, without) = (capacities(&with), capacities(&without));
        assert_eq!((with.len(), without.len()), (3, 2));
        for (a, b) in without.iter().zip(&with) {
            assert!((a / b - 1.0).abs() < TOLERANCE, "{a} and {b}");
        }
    }

    #[test]
    fn a_flat_curve_has_no_levels() {
        let flat: Vec<CurvePoint> =
            (12..26).map(|shift| CurvePoint { size: Bytes(1 << shift), latency_ns: 1.5 }).collect();
        assert_eq!(rises(&flat), []);
        assert_eq!(rises(&flat[..2]), []);
        assert_eq!(next_size(&flat, &THOROUGH), None);
    }

    #[test]
    fn a_curve_cut_off_in_the_rise_still_shows_it() {
        let model = Model::two_levels();
        let cut: Vec<CurvePoint> =
            model.explore(&THOROUGH, 0).into_iter().filter(|p| p.size <= Bytes::kib(96)).collect();
        assert_eq!(rises(&cut).len(), 1);
    }

    #[test]
    fn a_spike_at_the_knee_is_measured_again() {
        let mut points = Model::two_levels().explore(&THOROUGH, 0);
        let low = rises(&points)[0].capacity.low;
        let spike = Bytes((low * 0.8) as u64 / 64 * 64);
        points.retain(|point| (point.size.0 as f64) < low * 0.75 || point.size.0 as f64 > low * 1.2);
        points.push(CurvePoint { size: spike, latency_ns: 500.0 });
        // Sooner or later the planner comes back to the spike or goes between it and the next size.
        assert!(next_size(&points, &THOROUGH).is_some());
    }

    proptest! {
        #[test]
        fn refining_ends(seed in 0u64..1000, finest in 1.02..1.5f64, neighbours in 0usize..24) {
            let points = Model::four_levels().noisy().explore(&Thoroughness { finest, neighbours }, seed);
            prop_assert!(points.len() < 160, "{} points", points.len());
        }

        #[test]
        fn no_curve_panics(raw in proptest::collection::vec((0u64..1 << 40, -1.0..1e6f64), 0..40)) {
            let points: Vec<CurvePoint> =
                raw.iter().map(|&(size, latency_ns)| CurvePoint { size: Bytes(size), latency_ns }).collect();
            for rise in rises(&points) {
                prop_assert!(rise.capacity.low <= rise.capacity.value && rise.capacity.value <= rise.capacity.high);
            }
            let _ = next_size(&points, &THOROUGH);
        }
    }
}
