//! From measured curves to machines with less, and to programs side by side.
//!
//! What is taken of cache and of bandwidth costs separately (casas2017 §3.3), so losses add up. Nothing is said beyond the
//! strengths that were measured.

mod footprint;
mod sharing;
mod socket;

use machine::{Bytes, profile::Estimate, squeezing::SqueezeKind};
use record::{
    predict::{PredictAnswer, PredictRange},
    squeeze::{SqueezeCurve, SqueezeRun},
};

use crate::slowdown::loss_at;

pub use sharing::{best_mapping, side_by_side};

/// A loss below this has no cause worth naming.
const NO_LOSS: f64 = 0.02;

/// What is more than there was by this much is more, and not the same measured again.
const MORE: f64 = 1.02;

/// How much of a resource there would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes, or bytes per second.
    Absolute(f64),
    /// Of what there was.
    Share(f64),
}

/// A machine with less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SmallerMachine {
    /// Cache; as much as measured if none.
    pub cache: Option<Amount>,
    /// Bandwidth; as much as measured if none.
    pub bandwidth: Option<Amount>,
}

/// Why a curve says nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictRefusal {
    /// There is no curve.
    #[error("{kind} was not measured: {why}")]
    NoCurve {
        /// Of what.
        kind: SqueezeKind,
        /// Why not.
        why: String,
    },
    /// A little more or less changes all.
    #[error(
        "it takes {least:.2} to {most:.2} times as long: its working set is about as large as what the other leaves, and a little \
             more or less of it changes all"
    )]
    Edge {
        /// Time over the time alone, at least.
        least: f64,
        /// At most.
        most: f64,
    },
    /// More than there was when it was measured.
    #[error("{} of {kind} is more than there was: {} at most was measured", in_units(*.kind, *.asked), in_units(*.kind, *.most))]
    More {
        /// Of what.
        kind: SqueezeKind,
        /// What was asked for.
        asked: f64,
        /// All there was.
        most: f64,
    },
    /// Less than was ever left.
    #[error("{} of {kind} is outside what was measured: squeezing left {} at least", in_units(*.kind, *.asked), in_units(*.kind, *.least))]
    Beyond {
        /// Of what.
        kind: SqueezeKind,
        /// What was asked for.
        asked: f64,
        /// The least that was measured.
        least: f64,
    },
}

fn in_units(kind: SqueezeKind, value: f64) -> String {
    match kind {
        SqueezeKind::Storage => Bytes(value as u64).to_string(),
        SqueezeKind::Bandwidth => machine::units::gb_per_s(value),
    }
}

/// Time on a machine with less, over the time as measured.
pub fn on_smaller(run: &SqueezeRun, machine: SmallerMachine) -> PredictAnswer {
    let what = |kind: SqueezeKind, amount: Option<Amount>| {
        amount.map(|amount| match amount {
            Amount::Absolute(value) => format!("{} of {kind}", in_units(kind, value)),
            Amount::Share(share) => format!("{:.0} % of the {kind}", share * 100.0),
        })
    };
    let asked = [what(SqueezeKind::Storage, machine.cache), what(SqueezeKind::Bandwidth, machine.bandwidth)];
    let asked: Vec<String> = asked.into_iter().flatten().collect();
    let losses = [(SqueezeKind::Storage, machine.cache), (SqueezeKind::Bandwidth, machine.bandwidth)]
        .into_iter()
        .filter_map(|(kind, amount)| Some((kind, amount?)))
        .map(|(kind, amount)| loss_of(run, kind, amount));
    answer(format!("{} with {}", run.program, asked.join(" and ")), losses.collect())
}

fn loss_of(
    run: &SqueezeRun,
    kind: SqueezeKind,
    amount: Amount,
) -> Result<(SqueezeKind, Estimate), PredictRefusal> {
    let curve = run.curve(kind);
    let whole = whole(curve)?;
    let left = match amount {
        Amount::Absolute(value) => value,
        Amount::Share(share) => share * whole,
    };
    if left > MORE * whole {
        return Err(PredictRefusal::More { kind, asked: left, most: whole });
    }
    let measured = loss(curve, [left; 3])?;
    if kind == SqueezeKind::Storage || run.parts.is_empty() {
        return Ok((kind, measured));
    }
    // Interference also makes memory answer later, which a machine with less bandwidth need not: what streams want more than
    // there is tells, and the curve is the most that may be lost.
    let value = footprint::lost_by_rate(&run.parts, left);
    Ok((kind, Estimate { value, low: value.min(measured.low), high: measured.high.max(value), ..measured }))
}

/// What a program was measured with, by kind.
pub fn ranges(run: &SqueezeRun) -> Vec<PredictRange> {
    let range = |kind: SqueezeKind| {
        let curve = run.curve(kind);
        let least = curve.points.iter().map(|point| point.left.value).min_by(f64::total_cmp)?;
        Some(PredictRange { program: run.program.clone(), kind, least, whole: curve.whole? })
    };
    SqueezeKind::ALL.into_iter().filter_map(range).collect()
}

/// Adds up losses of both kinds.
fn answer(what: String, losses: Result<Vec<(SqueezeKind, Estimate)>, PredictRefusal>) -> PredictAnswer {
    let losses = match losses {
        Ok(losses) => losses,
        Err(refusal) => {
            // How much is not known, but what for is.
            let cause = matches!(refusal, PredictRefusal::Edge { .. }).then_some(SqueezeKind::Storage);
            return PredictAnswer { what, slowdown: None, cause, refused: Some(refusal.to_string()) };
        }
    };
    let sum = |part: fn(&Estimate) -> f64| 1.0 + losses.iter().map(|(_, loss)| part(loss)).sum::<f64>();
    let slowdown = Estimate {
        value: sum(|loss| loss.value),
        low: sum(|loss| loss.low),
        high: sum(|loss| loss.high),
        samples: losses.iter().map(|(_, loss)| loss.samples).min().unwrap_or(0),
    };
    let most = losses.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let cause = most.filter(|(_, loss)| loss.value > NO_LOSS).map(|(kind, _)| *kind);
    PredictAnswer { what, slowdown: Some(slowdown), cause, refused: None }
}

fn whole(curve: &SqueezeCurve) -> Result<f64, PredictRefusal> {
    let missing = || PredictRefusal::NoCurve {
        kind: curve.kind,
        why: curve.refused.clone().unwrap_or_else(|| "no strength was tried".to_owned()),
    };
    if curve.points.is_empty() {
        return Err(missing());
    }
    curve.whole.ok_or_else(missing)
}

/// Share of time that is lost when so much is left: the least, the likely and the most.
fn loss(curve: &SqueezeCurve, [low, likely, high]: [f64; 3]) -> Result<Estimate, PredictRefusal> {
    let whole = whole(curve)?;
    let least = curve.points.iter().map(|point| point.left.value).fold(f64::INFINITY, f64::min);
    if likely < least * 0.999 {
        return Err(PredictRefusal::Beyond { kind: curve.kind, asked: likely, least });
    }
    let at = |left: f64, x: fn(&Estimate) -> f64, y: fn(&Estimate) -> f64| {
        let points =
            curve.points.iter().map(|point| (x(&point.left), y(&point.slowdown) - 1.0 - point.elsewhere));
        loss_at(points, whole, left).max(0.0)
    };
    let value = at(likely, |left| left.value, |slowdown| slowdown.value);
    // Less was left than thought, or more: the curve lies further left or right.
    let worst = at(low, |left| left.high, |slowdown| slowdown.high);
    let best = at(high, |left| left.low, |slowdown| slowdown.low);
    let samples = curve.points.iter().map(|point| point.slowdown.samples).min().unwrap_or(0);
    Ok(Estimate { value, low: best.min(value), high: worst.max(value), samples })
}

#[cfg(test)]
mod tests;
