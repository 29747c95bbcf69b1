//! Programs that share a cache and its way to memory.

use machine::squeezing::SqueezeKind;
use record::{
    predict::{BestMapping, PredictAnswer},
    squeeze::{SqueezeCurve, SqueezeRun},
};

use super::{PredictRefusal, answer, loss, whole};

/// A mapping that loses less than this is as good as one that loses nothing.
const AS_GOOD: f64 = 0.03;

/// What a program uses of a resource, at least and at most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ResourceUse {
    low: f64,
    high: f64,
}

fn use_of(curve: &SqueezeCurve) -> Result<ResourceUse, PredictRefusal> {
    let whole = whole(curve)?;
    let Some(bounds) = curve.bounds else {
        return Err(PredictRefusal::NoCurve {
            kind: curve.kind,
            why: "its runs left open how much it uses".to_owned(),
        });
    };
    Ok(ResourceUse { low: bounds.at_least.unwrap_or(0.0), high: bounds.at_most.unwrap_or(whole).min(whole) })
}

/// What is left to one of a resource when others use so much: cache in proportion to use, as a cache that drops the line
/// unused for longest gives it; bandwidth what others do not draw, or its part if all want more than there is.
fn left_to(own: f64, others: f64, whole: f64) -> f64 {
    if own + others <= whole { whole - others } else { whole * own / (own + others) }
}

/// The least, the likely and the most that is left. `alike`: the others are copies, and use as much as this one does.
fn range_left(own: ResourceUse, others: ResourceUse, whole: f64, alike: bool) -> [f64; 3] {
    let middle = |used: ResourceUse| (used.low + used.high) / 2.0;
    let likely = left_to(middle(own), middle(others), whole);
    let (a, b) = match alike {
        true => (left_to(own.low, others.low, whole), left_to(own.high, others.high, whole)),
        false => (left_to(own.low, others.high, whole), left_to(own.high, others.low, whole)),
    };
    [a.min(b).min(likely), likely, a.max(b).max(likely)]
}

fn sum(uses: impl Iterator<Item = ResourceUse>) -> ResourceUse {
    uses.fold(ResourceUse { low: 0.0, high: 0.0 }, |sum, one| ResourceUse {
        low: sum.low + one.low,
        high: sum.high + one.high,
    })
}

fn beside(run: &SqueezeRun, others: &[(&SqueezeRun, usize)], what: String) -> PredictAnswer {
    let of_kind = |kind: SqueezeKind| {
        let curve = run.curve(kind);
        let own = use_of(curve)?;
        let mut theirs = Vec::new();
        for (other, many) in others {
            let one = use_of(other.curve(kind))?;
            theirs.push(ResourceUse { low: one.low * *many as f64, high: one.high * *many as f64 });
        }
        let alike = others.iter().all(|(other, _)| std::ptr::eq(*other, run));
        let left = range_left(own, sum(theirs.into_iter()), whole(curve)?, alike);
        loss(curve, left).map(|loss| (kind, loss))
    };
    answer(what, SqueezeKind::ALL.into_iter().map(of_kind).collect())
}

/// How much slower each of two programs is when they share a socket.
pub fn side_by_side(one: &SqueezeRun, other: &SqueezeRun) -> [PredictAnswer; 2] {
    let what = |run: &SqueezeRun, beside: &SqueezeRun| format!("{} beside {}", run.program, beside.program);
    [beside(one, &[(other, 1)], what(one, other)), beside(other, &[(one, 1)], what(other, one))]
}

/// How much slower each process is with so many of them on a socket, and which of these mappings is best: the most on a
/// socket that lose nothing.
pub fn best_mapping(run: &SqueezeRun, mappings: &[usize]) -> (Vec<PredictAnswer>, Option<BestMapping>) {
    let answers: Vec<PredictAnswer> = mappings
        .iter()
        .map(|&many| {
            let what = format!("{} with {many} on a socket", run.program);
            beside(run, &[(run, many.saturating_sub(1))], what)
        })
        .collect();
    let lost = |index: usize| answers[index].slowdown.map(|slowdown| slowdown.value - 1.0);
    let mut order: Vec<usize> = (0..mappings.len()).collect();
    order.sort_by_key(|index| mappings[*index]);
    let good = order.iter().rev().copied().find(|index| lost(*index).is_some_and(|lost| lost <= AS_GOOD));
    let least = || {
        let told = order.iter().copied().filter(|index| lost(*index).is_some());
        told.min_by(|a, b| lost(*a).unwrap_or(f64::INFINITY).total_cmp(&lost(*b).unwrap_or(f64::INFINITY)))
    };
    let best = good.or_else(least).map(|index| {
        let next = order.iter().copied().find(|other| mappings[*other] > mappings[index]);
        let next = next.filter(|next| answers[*next].slowdown.is_some() || answers[*next].refused.is_some());
        let cause = next.and_then(|next| answers[next].cause).or(answers[index].cause);
        let why = match (next, next.and_then(lost)) {
            (Some(next), Some(lost)) => format!(
                "{} on a socket would make each {:.0} % slower{}",
                mappings[next],
                lost * 100.0,
                cause.map_or(String::new(), |kind| format!(", for want of {kind}"))
            ),
            (Some(next), None) => {
                format!("what {} on a socket lose is outside what was measured", mappings[next])
            }
            (None, _) => "no more than that were asked for".to_owned(),
        };
        BestMapping { per_socket: mappings[index], cause, why }
    });
    (answers, best)
}
