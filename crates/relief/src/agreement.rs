//! What several stretches of one loop say together.

use record::relief::{Bounded, ReliefBarrier, ReliefRefusal, ReliefStretch, TurnTiming};

/// One stretch with all that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// As it is recorded.
    pub stretch: ReliefStretch,
    /// Code that a turn executes, in addresses of the process.
    pub ranges: Vec<(u64, u64)>,
    /// How far the time in the first cache may be off, as a part of it.
    pub near_open: f64,
    /// How far the time in the program may be off, as a part of it.
    pub turn_open: f64,
    /// How much less it may be beside that, as a part of it: what beginning and ending a pass takes in a copy is no turn's.
    pub turn_less: f64,
    /// See [`RelievedLoop::has_wild_branches`](record::relief::RelievedLoop::has_wild_branches).
    pub has_wild_branches: bool,
    /// See [`RelievedLoop::has_atomics`](record::relief::RelievedLoop::has_atomics).
    pub has_atomics: bool,
}

impl Measured {
    pub(crate) fn at(time_ns: u64) -> Self {
        Self {
            stretch: ReliefStretch {
                time_ns,
                turns: 0,
                lines: 0,
                near_ns: None,
                turn_ns: None,
                timing: None,
                pause_ns: 0,
                refusal: None,
            },
            ranges: Vec::new(),
            near_open: 0.0,
            turn_open: 0.0,
            turn_less: 0.0,
            has_wild_branches: false,
            has_atomics: false,
        }
    }

    fn near(&self) -> Option<(f64, f64)> {
        self.stretch.near_ns.filter(|near| *near > 0.0).map(|near| (near, self.near_open))
    }

    fn turn(&self) -> Option<(f64, f64)> {
        self.stretch.turn_ns.filter(|turn| *turn > 0.0).map(|turn| (turn, self.turn_open))
    }
}

/// A loop, relieved, in addresses of its process.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopRelief {
    /// Code that a turn executes.
    pub ranges: Vec<(u64, u64)>,
    /// Each stretch.
    pub stretches: Vec<ReliefStretch>,
    /// A turn with its data in the first cache.
    pub near_ns: Option<Bounded>,
    /// A turn in the program.
    pub turn_ns: Option<Bounded>,
    /// The share of waiting.
    pub share: Option<Bounded>,
    /// What is waited for is memory or branches.
    pub has_wild_branches: bool,
    /// What contention costs is not in it.
    pub has_atomics: bool,
    /// Why there is no share.
    pub refusal: Option<ReliefRefusal>,
}

/// Fewer say nothing.
const FEWEST: usize = 2;

/// Shares further apart disagree.
const APART: f64 = 0.15;

/// What a time in the program that was found only once leaves open beside what it says itself.
const LONE: f64 = 0.06;

/// Puts stretches together.
pub fn agree(all: Vec<Measured>) -> LoopRelief {
    let mut relief = LoopRelief {
        ranges: all.iter().find(|one| !one.ranges.is_empty()).map_or_else(Vec::new, |one| one.ranges.clone()),
        stretches: all.iter().map(|one| one.stretch.clone()).collect(),
        near_ns: None,
        turn_ns: None,
        share: None,
        has_wild_branches: all.iter().any(|one| one.has_wild_branches),
        has_atomics: all.iter().any(|one| one.has_atomics),
        refusal: None,
    };
    let nears = undisturbed(all.iter().filter_map(Measured::near).collect());
    let turns = without_outlier(turns(&all));
    if nears.len() < FEWEST || turns.is_empty() {
        relief.refusal = Some(why_none(&all));
        return relief;
    }
    let lone = if turns.len() < FEWEST { LONE } else { 0.0 };
    let turns: Vec<(f64, f64)> = turns.into_iter().map(|(turn, open)| (turn, open + lone)).collect();
    (relief.near_ns, relief.turn_ns) = (bounded(&nears), bounded(&turns));
    let less =
        highest(&all.iter().filter(|one| one.turn().is_some()).map(|one| one.turn_less).collect::<Vec<_>>());
    if let Some(turn) = &mut relief.turn_ns {
        turn.low = (turn.low - turn.value * less).max(0.0);
    }
    let Some((near, turn)) = relief.near_ns.zip(relief.turn_ns) else { return relief };
    let shares: Vec<f64> = nears
        .iter()
        .map(|(found, _)| share(*found, turn.value))
        .chain(turns.iter().map(|(found, _)| share(near.value, *found)))
        .collect();
    let (least, most) = (lowest(&shares), highest(&shares));
    if most - least > APART {
        let words = format!("from {:.0} % to {:.0} %", least * 100.0, most * 100.0);
        relief.refusal = Some(ReliefRefusal::new(ReliefBarrier::Disagreement, words));
        return relief;
    }
    let value = share(near.value, turn.value);
    let (low, high) = quotient_bounds(&near, &turn);
    relief.share = Some(Bounded { value, low: low.min(least).min(value), high: high.max(most).max(value) });
    relief
}

/// Times in the program, each as often as it was measured: what the clock's samples say is one time, however many stretches have
/// no other.
fn turns(all: &[Measured]) -> Vec<(f64, f64)> {
    let is_sampled = |one: &&Measured| one.stretch.timing == Some(TurnTiming::Samples);
    let sampled = all.iter().filter(is_sampled).filter_map(Measured::turn).next_back();
    all.iter().filter(|one| !is_sampled(one)).filter_map(Measured::turn).chain(sampled).collect()
}

/// Between which shares two times leave it. They are measured apart, one in a copy and one mostly in the program: that both are off
/// by all they may, each to the other side, is as unlikely as for any two errors that do not know of each other.
fn quotient_bounds(near: &Bounded, turn: &Bounded) -> (f64, f64) {
    let part = |of: f64, whole: f64| of / whole.max(f64::MIN_POSITIVE);
    let (near_up, near_down) = (part(near.high, near.value) - 1.0, 1.0 - part(near.low, near.value));
    let (turn_up, turn_down) = (1.0 - part(turn.value, turn.high), part(turn.value, turn.low) - 1.0);
    let quotient = part(near.value, turn.value);
    let low = 1.0 - quotient * (1.0 + near_up.hypot(turn_down));
    let high = 1.0 - quotient * (1.0 - near_down.hypot(turn_up)).max(0.0);
    (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0))
}

/// Neighbours on the same core or cache only ever add to what a turn takes in the first cache: where more than half lie close
/// above the least, those count.
fn undisturbed(mut all: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    const CLOSE: f64 = 1.25;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = all.first().map_or(0.0, |(near, _)| *near);
    let close = all.iter().filter(|(near, _)| *near <= CLOSE * least).count();
    if 2 * close > all.len() && close >= FEWEST {
        all.truncate(close);
    }
    all
}

/// Of four or more values the one furthest from the median may be left out.
fn without_outlier(mut all: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    const ENOUGH: usize = 4;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    if all.len() >= ENOUGH {
        let middle = all[all.len() / 2].0;
        let is_last_further = all[all.len() - 1].0 - middle > middle - all[0].0;
        all.remove(if is_last_further { all.len() - 1 } else { 0 });
    }
    all
}

fn share(near: f64, turn: f64) -> f64 {
    (1.0 - near / turn).clamp(0.0, 1.0)
}

fn lowest(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The median of values, and bounds that hold each of them with what it leaves open.
fn bounded(sorted: &[(f64, f64)]) -> Option<Bounded> {
    let middle = sorted.len() / 2;
    let value = match sorted.len() {
        0 => return None,
        count if count.is_multiple_of(2) => (sorted[middle - 1].0 + sorted[middle].0) / 2.0,
        _ => sorted[middle].0,
    };
    let open = highest(&sorted.iter().map(|(_, open)| *open).collect::<Vec<_>>());
    let (low, high) = (sorted[0].0, sorted[sorted.len() - 1].0);
    Some(Bounded { value, low: low.min(value * (1.0 - open)), high: high.max(value * (1.0 + open)) })
}

/// The reason most stretches have.
fn why_none(all: &[Measured]) -> ReliefRefusal {
    let refusals: Vec<&ReliefRefusal> = all.iter().filter_map(|one| one.stretch.refusal.as_ref()).collect();
    let common = refusals
        .iter()
        .max_by_key(|refusal| refusals.iter().filter(|other| other.barrier == refusal.barrier).count());
    common.map_or_else(
        || ReliefRefusal::new(ReliefBarrier::OutOfTime, format!("{} stretches were had", all.len())),
        |refusal| (*refusal).clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(near_ns: f64, turn_ns: f64) -> Measured {
        let mut one = Measured::at(0);
        (one.stretch.near_ns, one.stretch.turn_ns) = (Some(near_ns), Some(turn_ns));
        (one.near_open, one.turn_open) = (0.05, 0.05);
        one
    }

    fn refused(barrier: ReliefBarrier) -> Measured {
        let mut one = Measured::at(0);
        one.stretch.refusal = Some(barrier.into());
        one
    }

    #[test]
    fn stretches_that_agree_have_a_share_and_bounds_around_it() {
        let relief = agree(vec![measured(1.0, 4.0), measured(1.1, 4.2), measured(0.9, 4.1)]);
        let share = relief.share.unwrap();
        assert!((share.value - (1.0 - 1.0 / 4.1)).abs() < 1e-9, "{share:?}");
        assert!(share.low < 0.735 && share.high > 0.78, "{share:?}");
        assert_eq!(relief.refusal, None);
    }

    #[test]
    fn errors_of_two_times_add_as_those_that_do_not_know_of_each_other() {
        let exact = |value: f64| Bounded { value, low: value, high: value };
        let (low, high) = quotient_bounds(&exact(1.0), &exact(4.0));
        assert!((low - 0.75).abs() < 1e-9 && (high - 0.75).abs() < 1e-9, "{low} {high}");
        let near = Bounded { value: 1.0, low: 0.97, high: 1.03 };
        let (low, high) = quotient_bounds(&near, &exact(1.0));
        assert!((high - 0.03).abs() < 1e-9 && low == 0.0, "{low} {high}");
        // 3 and 4 in 100 make 5, not 7.
        let turn = Bounded { value: 1.0, low: 1.0 / 1.04, high: 1.0 / 0.96 };
        let (_, high) = quotient_bounds(&near, &turn);
        assert!((high - 0.05).abs() < 1e-9, "{high}");
    }

    #[test]
    fn stretches_that_disagree_show_both_and_no_share() {
        let relief = agree(vec![measured(1.0, 4.0), measured(3.0, 4.0)]);
        assert_eq!(relief.share, None);
        let refusal = relief.refusal.unwrap();
        assert_eq!(refusal.barrier, ReliefBarrier::Disagreement);
        assert_eq!(refusal.detail, "from 25 % to 75 %");
        assert_eq!(relief.stretches.len(), 2);
    }

    #[test]
    fn one_stretch_is_not_enough_and_the_commonest_reason_counts() {
        let relief = agree(vec![
            measured(1.0, 4.0),
            refused(ReliefBarrier::NotThere),
            refused(ReliefBarrier::SystemCall),
            refused(ReliefBarrier::SystemCall),
        ]);
        assert_eq!(relief.share, None);
        assert_eq!(relief.refusal.unwrap().barrier, ReliefBarrier::SystemCall);
        assert_eq!(agree(vec![measured(1.0, 4.0)]).refusal.unwrap().barrier, ReliefBarrier::OutOfTime);
    }

    #[test]
    fn one_of_four_may_be_disturbed() {
        let all = [1.0, 1.02, 3.0, 1.01].map(|near| measured(near, 4.0));
        let share = agree(all.to_vec()).share.unwrap();
        assert!((share.value - 0.7475).abs() < 1e-9, "{share:?}");
        let all = [1.0, 2.4, 2.9, 1.05, 1.1, 1.02].map(|near| measured(near, 4.0));
        assert!(agree(all.to_vec()).share.is_some(), "four of six");
        let all = [1.0, 1.02, 3.0, 3.1].map(|near| measured(near, 4.0));
        assert_eq!(agree(all.to_vec()).share, None, "two are not");
    }

    #[test]
    fn a_time_in_the_program_found_once_leaves_more_open() {
        let mut without = measured(1.0, 4.0);
        without.stretch.turn_ns = None;
        let lone = agree(vec![measured(1.0, 4.0), without]).share.unwrap();
        let both = agree(vec![measured(1.0, 4.0), measured(1.0, 4.0)]).share.unwrap();
        assert!(lone.low < both.low && lone.high > both.high, "{lone:?} {both:?}");
    }

    /// Of four stretches three had the time that samples gave, and one its own, twice as long: those are two times, not four, and
    /// the one is no outlier.
    #[test]
    fn a_time_from_samples_counts_once_however_many_stretches_have_it() {
        let sampled = |turn_ns: f64| {
            let mut one = measured(1.0, turn_ns);
            one.stretch.timing = Some(TurnTiming::Samples);
            one
        };
        let relief = agree(vec![measured(1.0, 2.2), sampled(1.04), sampled(1.04), sampled(1.04)]);
        assert_eq!(relief.share, None, "{relief:?}");
        assert_eq!(relief.refusal.unwrap().barrier, ReliefBarrier::Disagreement);
        assert!(agree(vec![measured(1.0, 2.2), sampled(2.1), sampled(2.1)]).share.is_some());
    }

    #[test]
    fn what_beginning_a_pass_takes_may_be_most_of_a_short_one() {
        let short = |less: f64| {
            let mut one = measured(1.8, 3.0);
            one.turn_less = less;
            agree(vec![one.clone(), one]).share.unwrap()
        };
        let (long, short) = (short(0.0), short(0.5));
        assert!(long.low > 0.3 && short.low == 0.0, "{long:?} {short:?}");
        assert_eq!((short.value, short.high), (long.value, long.high));
    }

    #[test]
    fn a_loop_that_is_faster_than_in_the_first_cache_does_not_wait() {
        let relief = agree(vec![measured(1.02, 1.0), measured(1.0, 1.0)]);
        let share = relief.share.unwrap();
        assert_eq!((share.value, share.low), (0.0, 0.0));
        assert!(share.high > 0.0);
    }
}
