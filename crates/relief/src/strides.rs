//! The natural time of a turn from the program itself: its thread is asked twice where it is, and a register that each
//! turn moves by the same tells how many turns lay between.

use std::time::{Duration, Instant};

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{operands::general, program::ProgramThread, stretch::Stretch};

/// Pairs asked for, and those needed.
const PAIRS: usize = 20;
const FEWEST: usize = 7;

/// Pairs that are tried in all.
const TRIED: usize = 60;

/// A register that each turn moves by the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnRegister {
    pub index: usize,
    pub step: i64,
}

/// One that counts turns in a stretch; the stack pointer is none.
pub(crate) fn turn_register(stretch: &Stretch) -> Option<TurnRegister> {
    const STACK_POINTER: usize = 4;
    const FEWEST_TURNS: usize = 4;
    let distance =
        |pair: &[[u64; 16]], index: usize| pair[1][index].wrapping_sub(pair[0][index]).cast_signed();
    (0..16).filter(|index| *index != STACK_POINTER && stretch.at_turn.len() > FEWEST_TURNS).find_map(
        |index| {
            let step = distance(&stretch.at_turn[..2], index);
            let is_even = stretch.at_turn.windows(2).all(|pair| distance(pair, index) == step);
            (step != 0 && is_even).then_some(TurnRegister { index, step })
        },
    )
}

/// How far apart a thread is asked, and what that may cost.
pub(crate) struct StrideRequest<'a> {
    pub thread: ProgramThread,
    pub register: TurnRegister,
    /// Code of the loop.
    pub ranges: &'a [(u64, u64)],
    /// What a pass takes, if that is known: beyond it the loop has begun again.
    pub pass_ns: Option<f64>,
    /// Time between two questions; half of it every other time.
    pub apart: Duration,
    /// The program may stand still for so long in all.
    pub allowed: Duration,
}

/// What strides showed: nanoseconds of a turn, how far the pairs differ, and for how long the program stood still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StrideTimes {
    pub turn_ns: f64,
    pub spread: f64,
    pub paused: Duration,
}

/// Asks.
pub(crate) fn measure(request: &StrideRequest<'_>) -> Result<StrideTimes, ReliefRefusal> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut paused = Duration::ZERO;
    for tried in 0..TRIED {
        if points.len() >= PAIRS || paused > request.allowed {
            break;
        }
        let apart = if tried % 2 == 0 { request.apart } else { request.apart / 2 };
        match pair(request, apart) {
            Ok((point, pause)) => {
                paused += pause;
                points.extend(point);
            }
            Err(refused) if refused.barrier == ReliefBarrier::NotThere => std::thread::sleep(apart),
            Err(refused) => return Err(refused),
        }
    }
    if points.len() < FEWEST {
        let detail = format!("{} pairs of stops lay within one pass", points.len());
        return Err(ReliefRefusal::new(ReliefBarrier::NoTurnTime, detail));
    }
    let (turn_ns, spread) = slope(&points).ok_or(ReliefBarrier::NoTurnTime)?;
    Ok(StrideTimes { turn_ns, spread, paused })
}

type PairPoint = (Option<(f64, f64)>, Duration);

fn pair(request: &StrideRequest<'_>, apart: Duration) -> Result<PairPoint, ReliefRefusal> {
    let is_inside = |at: u64| request.ranges.iter().any(|range| (range.0..range.1).contains(&at));
    let (before, began_ns, first) = request.thread.spot()?;
    let asked = Instant::now();
    std::thread::sleep(apart);
    // Far too late means that the pass is over.
    let is_late = asked.elapsed() > 3 * apart + Duration::from_millis(1);
    let (after, ended_ns, second) = request.thread.spot()?;
    let TurnRegister { index, step } = request.register;
    let moved = general(&after)[index].wrapping_sub(general(&before)[index]).cast_signed();
    let turns = moved as f64 / step as f64;
    let spent = ended_ns.saturating_sub(began_ns) as f64;
    let is_within = request.pass_ns.is_none_or(|pass_ns| spent < 0.7 * pass_ns);
    let is_good = is_within && !is_late && is_inside(before.rip) && is_inside(after.rip) && turns > 0.0;
    Ok((is_good.then_some((turns, spent)), first + second))
}

/// The slope through points, as the median over pairs of points, and the distance between its quartiles as a part of it. What
/// a stop itself takes falls out.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let range = sorted.last()?.0 - sorted.first()?.0;
    let mut slopes: Vec<f64> = Vec::new();
    for (index, low) in sorted.iter().enumerate() {
        let far = sorted[index..].iter().filter(|high| high.0 - low.0 > range * 0.3);
        slopes.extend(far.map(|high| (high.1 - low.1) / (high.0 - low.0)));
    }
    slopes.sort_by(f64::total_cmp);
    let at = |part: usize| slopes.get(slopes.len() * part / 4).copied();
    let (low, middle, high) = (at(1)?, at(2)?, at(3)?);
    (middle > 0.0).then_some((middle, (high - low) / middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stop_takes_falls_out_of_the_slope() {
        // 20 µs for the stops, 1.5 ns a turn, some noise, and a pass that began again.
        let mut points: Vec<(f64, f64)> = (1..=20)
            .map(|index| {
                let turns = 10_000.0 * f64::from(index % 2 + 1) + 37.0 * f64::from(index);
                (turns, 20_000.0 + 1.5 * turns + f64::from(index * 7919 % 13) * 10.0)
            })
            .collect();
        points.push((200.0, 60_000.0));
        let (turn_ns, spread) = slope(&points).unwrap();
        assert!((turn_ns - 1.5).abs() < 0.05, "{turn_ns}");
        assert!(spread < 0.1, "{spread}");
        assert_eq!(slope(&[]), None);
    }
}
