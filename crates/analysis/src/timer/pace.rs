//! How fast a loop turns, from the addresses of all its streams together.
//!
//! Operands that only move by constants say in which turn a sample was taken. Each of them alone may be seen so seldom
//! that the loop has begun again between two of its samples; all of them together are seen with every sample. Where
//! the loop begins again between samples all the same, the speed is the one at which most distances fit.

use std::{collections::HashMap, f64::consts::TAU};

use record::ids::ThreadId;

use super::burst_pace::BurstSteps;
use crate::{findings::Rate, statistics::quantile};

/// Steps needed for a speed.
const FEWEST: usize = 8;

/// Share of steps that must go the same way for a walk to be steady.
pub(crate) const STEADY: f64 = 0.8;

/// How fast a loop turns, and to which part of that it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoopSpeed {
    pub rate: Rate,
    pub error: f64,
}

impl LoopSpeed {
    /// What a turn takes.
    pub fn turn_ns(&self) -> f64 {
        1e9 / self.rate.bytes_per_s
    }

    /// What another way to the same speed leaves of it. How far places go between samples leaves out what the samples
    /// themselves and others take, up to a part; beyond that one of the two is wrong.
    pub fn beside(self, other: Option<Self>) -> Self {
        const USUAL: f64 = 0.15;
        let apart = other.map_or(0.0, |other| (other.rate.bytes_per_s / self.rate.bytes_per_s - 1.0).abs());
        if apart > USUAL { Self { error: self.error + apart, ..self } } else { self }
    }

    /// Of a line through distances, with two standard errors on both sides.
    fn of_line(rate: Rate) -> Self {
        Self { rate, error: (rate.high - rate.low) / (2.0 * rate.bytes_per_s) }
    }

    /// Of a median between its quartiles.
    fn of_quartiles(rate: Rate) -> Self {
        // Quartiles of a normal distribution are 1.35 standard deviations apart; the standard error of a median is 1.25 of
        // those of a mean, and twice that is on each side.
        const TWO_ERRORS: f64 = 2.0 * 1.25 / 1.35;
        let apart = (rate.high - rate.low) / rate.bytes_per_s;
        Self { rate, error: TWO_ERRORS * apart / (rate.pairs.max(1) as f64).sqrt() }
    }
}

/// How far the turns of a loop advance between samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopTurns {
    /// Where each thread was last: time, time it had run, and turn.
    last: HashMap<ThreadId, (u64, f64, f64)>,
    /// Turns onward, negative if back, and the nanoseconds they took.
    steps: Vec<(f64, f64)>,
    /// The same where something else had the processor between.
    delayed: Vec<(f64, f64)>,
    /// Where each thread was last in a burst, and the steps of bursts.
    last_in_burst: HashMap<ThreadId, (u64, f64)>,
    burst_steps: BurstSteps,
    /// Turns from one beginning to the next.
    length: f64,
}

impl LoopTurns {
    /// A sample of a thread in turn `turn` of at least `length`, by when it had run for about `ran_ns`.
    pub(crate) fn push(&mut self, thread: ThreadId, (time_ns, ran_ns): (u64, f64), turn: f64, length: f64) {
        // Enough for quantiles; a long run adds nothing.
        const KEPT: usize = 4096;
        // Periods are drawn from a twentieth on both sides; the rest is what samples take.
        const AT_ONCE: f64 = 1.2;
        self.length = self.length.max(length);
        if let Some((time, ran, before)) = self.last.insert(thread, (time_ns, ran_ns, turn))
            && time_ns > time
        {
            let ns = (time_ns - time) as f64;
            let steps = if ns > AT_ONCE * (ran_ns - ran) { &mut self.delayed } else { &mut self.steps };
            if steps.len() < KEPT {
                steps.push((turn - before, ns));
            }
        }
    }

    /// Leaves out steps during which something else had the processor, if enough others are left: their time is not the loop's.
    fn settle(&mut self) {
        if self.steps.len() < FEWEST.max(self.delayed.len() / 4) {
            self.steps.append(&mut self.delayed);
        }
    }

    /// The same of a sample of a burst.
    pub(crate) fn push_burst(&mut self, thread: ThreadId, time_ns: u64, turn: f64, length: f64) {
        self.length = self.length.max(length);
        if let Some((time, before)) = self.last_in_burst.insert(thread, (time_ns, turn))
            && time_ns > time
        {
            self.burst_steps.push(turn - before, (time_ns - time) as f64);
        }
    }

    /// Turns per second: median, lower and upper quartile, or from bursts. `fastest_per_s` is what the core could do at most.
    pub(crate) fn per_s(mut self, fastest_per_s: f64) -> Option<LoopSpeed> {
        self.settle();
        let far = || self.by_far_steps(fastest_per_s).map(LoopSpeed::of_quartiles);
        // Where a pass lies between two samples, those that lie closer tell more.
        let bursts = || self.burst_steps.per_s(self.length, fastest_per_s).map(LoopSpeed::of_line);
        let folded = || self.by_folded_steps(fastest_per_s).map(LoopSpeed::of_quartiles);
        far().or_else(bursts).or_else(folded)
    }

    /// Where a whole pass cannot lie between two samples: each distance means what it seems to mean.
    fn by_far_steps(&self, fastest_per_s: f64) -> Option<Rate> {
        let (onward, back) = (self.toward(1.0), self.toward(-1.0));
        if self.steps.len() < FEWEST || onward + back == 0 {
            return None;
        }
        let sign = if onward >= back { 1.0 } else { -1.0 };
        let is_slow = self.length / fastest_per_s * 1e9 > 1.2 * self.usual_ns()?;
        let is_steady = onward.max(back) as f64 >= STEADY * (onward + back) as f64;
        let speeds = self.steps.iter().map(|(turns, ns)| turns * sign / ns).filter(|speed| *speed > 0.0);
        if is_slow && is_steady { rate(speeds) } else { None }
    }

    /// Where it can: the speed at which most distances fit.
    fn by_folded_steps(&self, fastest_per_s: f64) -> Option<Rate> {
        if self.steps.len() < FEWEST {
            return None;
        }
        let speed = self.fit(fastest_per_s / 1e9, self.usual_ns()?)?;
        let whole = |turns: f64, ns: f64| self.length * ((speed * ns - turns) / self.length).round();
        rate(self.steps.iter().map(|&(turns, ns)| (turns + whole(turns, ns)) / ns))
    }

    /// From one sample to the next, mostly.
    fn usual_ns(&self) -> Option<f64> {
        let mut times: Vec<f64> = self.steps.iter().map(|(_, ns)| *ns).collect();
        times.sort_by(f64::total_cmp);
        quantile(&times, 0.5)
    }

    fn toward(&self, sign: f64) -> usize {
        self.steps.iter().filter(|(turns, _)| turns * sign > 0.0).count()
    }

    /// Turns per nanosecond at which most distances fit, whole lengths left out; none if no speed fits well, or
    /// several do: samples come at even intervals, so two speeds that differ by a length per interval look the same.
    /// Steps take `usual_ns`. Onward only: a loop that goes back this fast is rare, and looks like another that goes onward.
    fn fit(&self, fastest: f64, usual_ns: f64) -> Option<f64> {
        // Speeds tried, as parts of a length per step.
        const FINE: f64 = 0.05;
        const MOST_TRIED: f64 = 4096.0;
        // The mean cosine of a normal spread of a sixth of a length.
        const GOOD: f64 = 0.55;
        const RIVAL: f64 = 0.8;
        let distance = FINE * self.length / usual_ns;
        let tried = fastest / distance;
        if !(1.0..=MOST_TRIED).contains(&tried) {
            return None;
        }
        let score = |speed: f64| {
            let fits = self.steps.iter().map(|(turns, ns)| ((turns - speed * ns) / self.length * TAU).cos());
            fits.sum::<f64>() / self.steps.len() as f64
        };
        let tried = tried as i64;
        let scores: Vec<(i64, f64)> = (1..=tried).map(|at| (at, score(at as f64 * distance))).collect();
        let &(best, most) = scores.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        // Whatever lies within half a length of the best is the same peak.
        let width = (0.5 / FINE) as i64;
        let has_rival = scores.iter().any(|&(at, score)| (at - best).abs() > width && score > RIVAL * most);
        (most >= GOOD && !has_rival).then_some(best as f64 * distance)
    }
}

fn rate(speeds: impl Iterator<Item = f64>) -> Option<Rate> {
    let mut speeds: Vec<f64> = speeds.map(|per_ns| per_ns * 1e9).collect();
    speeds.sort_by(f64::total_cmp);
    Some(Rate {
        bytes_per_s: quantile(&speeds, 0.5)?,
        low: quantile(&speeds, 0.25)?,
        high: quantile(&speeds, 0.75)?,
        pairs: speeds.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a loop of `length` turns at a speed, about every 1000 ns.
    fn turns(length: f64, per_ns: f64) -> LoopTurns {
        let mut turns = LoopTurns::default();
        let mut time: u64 = 0;
        for index in 0..300u64 {
            time += 990 + index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20;
            let at = (time, 1000.0 * index as f64);
            turns.push(ThreadId(0), at, (time as f64 * per_ns).rem_euclid(length), length);
        }
        turns
    }

    #[test]
    fn the_speed_is_found_whether_or_not_the_loop_begins_again_between_samples() {
        for (length, per_ns) in [(1e9, 1.0), (1e9, -1.0), (8000.0, -1.0), (8000.0, 1.0), (3000.0, 1.0)] {
            let found = turns(length, per_ns).per_s(2.5e9).map(|speed| speed.rate.bytes_per_s);
            assert!(
                found.is_some_and(|found| (found / 1e9 - 1.0).abs() < 0.02),
                "{length} {per_ns} {found:?}"
            );
        }
    }

    /// Two of three times another program has the processor for a while between two samples.
    #[test]
    fn what_others_take_of_the_processor_is_not_the_loops_time() {
        let mut turns = LoopTurns::default();
        let (mut wall, mut ran): (u64, u64) = (0, 0);
        for index in 0..300u64 {
            ran += 1000;
            wall += 1000 + if index % 3 == 0 { 0 } else { 400 + 40 * (index % 17) };
            turns.push(ThreadId(0), (wall, ran as f64), ran as f64, 1e9);
        }
        let found = turns.per_s(2.5e9).map(|speed| speed.rate.bytes_per_s / 1e9);
        assert!(found.is_some_and(|found| (found - 1.0).abs() < 0.02), "{found:?}");
    }

    #[test]
    fn two_ways_to_a_speed_that_are_far_apart_leave_it_open() {
        let speed = |per_s: f64| LoopSpeed {
            rate: Rate { bytes_per_s: per_s, low: per_s, high: per_s, pairs: 9 },
            error: 0.01,
        };
        assert!((speed(1e9).beside(None).error - 0.01).abs() < 1e-9);
        assert!((speed(1e9).beside(Some(speed(1.1e9))).error - 0.01).abs() < 1e-9, "samples take their part");
        assert!(speed(1e9).beside(Some(speed(2e9))).error > 0.9);
    }

    #[test]
    fn a_loop_that_may_have_gone_round_once_or_twice_has_no_speed() {
        assert_eq!(turns(700.0, 1.0).per_s(2.5e9), None);
    }

    #[test]
    fn places_without_order_have_no_speed() {
        let mut turns = LoopTurns::default();
        for index in 0..300u64 {
            let place = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
            let at = (index * 1000 + index % 7 * 31, 1000.0 * index as f64);
            turns.push(ThreadId(0), at, place as f64, 1024.0);
        }
        assert_eq!(turns.per_s(2.5e9), None);
    }
}
