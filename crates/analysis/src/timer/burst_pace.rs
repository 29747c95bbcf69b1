//! How fast a loop turns, from samples that were taken close together.
//!
//! A loop of `length` turns is at `turn` of it when a sample is taken; until the next it moves on by `speed · (time − cost)`,
//! where `cost` is what taking the sample took, and begins again any number of times. Distances of all sizes are there, so one speed
//! alone makes all of them agree. What samples cost turns every distance by the same angle, and so does not disturb the
//! search.

use std::f64::consts::TAU;

use crate::{findings::Rate, statistics::quantile};

/// Fewer distances agree by chance.
const FEWEST: usize = 48;

/// More add nothing.
const MOST: usize = 1024;

/// Distances in time that tell. What is shorter may lie within the taking of the sample before, which was found to take
/// 12 µs on a guest; what is longer lies between two bursts.
const SHORTEST_NS: f64 = 20_000.0;
const LONGEST_NS: f64 = 200_000.0;

/// Speeds tried, as parts of a length per longest distance.
const FINE: f64 = 0.1;
const MOST_TRIED: f64 = 8192.0;

/// The mean cosine of a normal spread of a sixth of a length.
const GOOD: f64 = 0.55;

/// Another speed that fits nearly as well.
const RIVAL: f64 = 0.8;

/// What the kernel takes for a sample at most, with a hypervisor below it.
const MOST_COST_NS: f64 = 40_000.0;

/// The speed must be known to this part of itself.
const KNOWN: f64 = 0.05;

/// Turns onward and the nanoseconds from one sample of a burst to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct BurstSteps(Vec<(f64, f64)>);

impl BurstSteps {
    pub fn push(&mut self, turns: f64, ns: f64) {
        if self.0.len() < MOST && (SHORTEST_NS..=LONGEST_NS).contains(&ns) {
            self.0.push((turns, ns));
        }
    }

    /// Turns per second of a loop of `length` turns, which turns `fastest_per_s` times at most; none if no speed fits
    /// well, or several do.
    pub fn per_s(&self, length: f64, fastest_per_s: f64) -> Option<Rate> {
        let longest_ns = self.0.iter().map(|(_, ns)| *ns).fold(0.0, f64::max);
        let distance = FINE * length / longest_ns;
        let tried = fastest_per_s / 1e9 / distance;
        if self.0.len() < FEWEST || !(0.0..=MOST_TRIED).contains(&tried) {
            return None;
        }
        let tried = tried.ceil() as i64;
        let fits: Vec<(i64, f64)> = (-tried..=tried)
            .filter(|&at| at != 0)
            .map(|at| (at, self.agreement(at as f64 * distance, length)))
            .collect();
        let &(best, most) = fits.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        // Whatever lies within a length of the best is the same peak.
        let width = (1.0 / FINE) as i64;
        let has_rival = fits.iter().any(|&(at, fit)| (at - best).abs() > width && fit > RIVAL * most);
        if most < GOOD || has_rival {
            return None;
        }
        let mut speed = best as f64 * distance;
        for finer in [0.1, 0.01, 0.001] {
            let near = (-12..=12).map(|at| speed + f64::from(at) * finer * distance);
            let rated = near.map(|near| (near, self.agreement(near, length)));
            speed = rated.max_by(|a, b| a.1.total_cmp(&b.1))?.0;
        }
        self.slope(speed, length)
    }

    /// The sum of all distances as angles, less what a speed makes of their times.
    fn sum(&self, speed: f64, length: f64) -> (f64, f64) {
        let angles = self.0.iter().map(|(turns, ns)| (turns - speed * ns) / length * TAU);
        angles.fold((0.0, 0.0), |(x, y), angle| (x + angle.cos(), y + angle.sin()))
    }

    /// 1 if every distance agrees with the speed, whatever samples cost.
    fn agreement(&self, speed: f64, length: f64) -> f64 {
        let (x, y) = self.sum(speed, length);
        x.hypot(y) / self.0.len() as f64
    }

    /// The line through all distances, whole lengths added as the speed demands; how far it may be off, by their scatter.
    fn slope(&self, speed: f64, length: f64) -> Option<Rate> {
        let (x, y) = self.sum(speed, length);
        let offset = y.atan2(x) / TAU * length;
        let off = |turns: f64, ns: f64| {
            let rest = turns - speed * ns - offset;
            rest - length * (rest / length).round()
        };
        let all = self.0.iter().map(|&(turns, ns)| (ns, off(turns, ns)));
        let mut near: Vec<(f64, f64)> = all.filter(|(_, off)| off.abs() < length / 6.0).collect();
        let mut line = StepLine::through(&near)?;
        // Now and then something else takes time between two samples.
        for _ in 0..3 {
            let mut far: Vec<f64> = near.iter().map(|pair| line.distance(pair).abs()).collect();
            far.sort_by(f64::total_cmp);
            let usual = quantile(&far, 0.5)?;
            near.retain(|pair| line.distance(pair).abs() <= 3.0 * usual);
            line = StepLine::through(&near)?;
        }
        let exact = speed + line.slope;
        let error = line.error(&near);
        // Where a pass takes longer than that, what a sample cost is known; a loop that seems to go on meanwhile is none.
        let cost_ns = -(offset + line.at(0.0)) / exact;
        let is_possible = length / exact.abs() < 2.0 * MOST_COST_NS
            || (-MOST_COST_NS / 10.0..=MOST_COST_NS).contains(&cost_ns);
        let is_known = 2.0 * error <= KNOWN * exact.abs() && near.len() >= FEWEST / 2;
        (is_possible && is_known).then(|| Rate {
            bytes_per_s: exact.abs() * 1e9,
            low: (exact.abs() - 2.0 * error) * 1e9,
            high: (exact.abs() + 2.0 * error) * 1e9,
            pairs: near.len() as u64,
        })
    }
}

/// A line through steps: time, and how far it lies beside the speed.
#[derive(Clone, Copy, Debug)]
struct StepLine {
    mean_ns: f64,
    mean: f64,
    slope: f64,
    spread: f64,
}

impl StepLine {
    /// The line of least squares; none through one point in time.
    fn through(steps: &[(f64, f64)]) -> Option<Self> {
        let count = steps.len() as f64;
        let mean_ns = steps.iter().map(|(ns, _)| ns).sum::<f64>() / count;
        let mean = steps.iter().map(|(_, off)| off).sum::<f64>() / count;
        let spread: f64 = steps.iter().map(|(ns, _)| (ns - mean_ns).powi(2)).sum();
        let both: f64 = steps.iter().map(|(ns, off)| (ns - mean_ns) * (off - mean)).sum();
        (spread > 0.0).then(|| Self { mean_ns, mean, slope: both / spread, spread })
    }

    fn at(&self, ns: f64) -> f64 {
        self.mean + self.slope * (ns - self.mean_ns)
    }

    fn distance(&self, (ns, off): &(f64, f64)) -> f64 {
        off - self.at(*ns)
    }

    /// The standard error of the slope.
    fn error(&self, steps: &[(f64, f64)]) -> f64 {
        let left: f64 = steps.iter().map(|step| self.distance(step).powi(2)).sum();
        (left / (steps.len() as f64 - 2.0) / self.spread).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of `length` turns at `per_ns`, sampled by clocks of these periods; each sample takes `cost_ns`.
    fn steps(length: f64, per_ns: f64, cost_ns: f64, periods_ns: &[f64]) -> BurstSteps {
        let mut steps = BurstSteps::default();
        for burst in 0..8 {
            let mut times: Vec<f64> = periods_ns
                .iter()
                .enumerate()
                .flat_map(|(clock, period)| {
                    let first = period * (0.37 + 0.21 * burst as f64 + 0.4 * clock as f64).fract();
                    (0..33).map(move |at| first + period * f64::from(at))
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let mut at = 0.123 * length * f64::from(burst);
            for pair in times.windows(2) {
                let ns = pair[1] - pair[0];
                let onward = per_ns * (ns - cost_ns).max(0.0);
                let next = (at + onward).rem_euclid(length);
                steps.push(next - at.rem_euclid(length), ns);
                at = next;
            }
        }
        steps
    }

    const CLOCKS: [f64; 2] = [89_000.0, 127_000.0];

    #[test]
    fn the_speed_is_found_however_often_the_loop_begins_again() {
        // From two microseconds a pass to a thousand.
        for length in [2_000.0, 5_000.0, 23_000.0, 89_000.0, 300_000.0, 1e6] {
            for (per_ns, cost_ns) in [(1.0, 0.0), (1.0, 2_000.0), (0.4, 12_000.0), (-1.0, 2_000.0)] {
                let found = steps(length, per_ns, cost_ns, &CLOCKS).per_s(length, 2.5e9);
                let found = found.map(|rate| rate.bytes_per_s / 1e9 / f64::abs(per_ns));
                assert!(
                    found.is_some_and(|found| (found - 1.0).abs() < 0.03),
                    "{length} {per_ns} {cost_ns}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn one_clock_alone_leaves_several_speeds() {
        assert_eq!(steps(5_000.0, 1.0, 0.0, &CLOCKS[..1]).per_s(5_000.0, 2.5e9), None);
    }

    #[test]
    fn places_without_order_have_no_speed() {
        let mut steps = BurstSteps::default();
        for index in 0..500u64 {
            let random = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            steps.push((random % 8192) as f64 - 4096.0, (random / 8192 * 40) as f64);
        }
        assert_eq!(steps.per_s(8192.0, 2.5e9), None);
    }
}
