//! Programs that share a cache and its way to memory.

use machine::{
    profile::Estimate,
    squeezing::{KnownPattern, SqueezeKind},
};
use record::{
    predict::{BestMapping, PredictAnswer},
    squeeze::{ProgramPart, SqueezeCurve, SqueezeRun},
};

use super::{PredictRefusal, answer, footprint, loss, whole};

/// A mapping that loses less than this is as good as one that loses nothing.
const AS_GOOD: f64 = 0.03;

/// Rounds after which what is lost and how fast sets are gone over agree.
const SETTLING: usize = 8;

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
    let explained = !run.parts.is_empty() && others.iter().all(|(other, _)| !other.parts.is_empty());
    let of_kind = |kind: SqueezeKind| {
        let loss = if explained { by_parts(run, others, kind) } else { by_bounds(run, others, kind) };
        loss.map(|loss| (kind, loss))
    };
    answer(what, SqueezeKind::ALL.into_iter().map(of_kind).collect())
}

/// From the known programs that each behaves like.
fn by_parts(
    run: &SqueezeRun,
    others: &[(&SqueezeRun, usize)],
    kind: SqueezeKind,
) -> Result<Estimate, PredictRefusal> {
    let curve = run.curve(kind);
    let whole = whole(curve)?;
    let parts: Vec<(&[ProgramPart], usize)> =
        others.iter().map(|(other, many)| (other.parts.as_slice(), *many)).collect();
    if kind == SqueezeKind::Bandwidth {
        let value = footprint::lost_beside(&run.parts, &parts, whole);
        // The curve knows what waiting costs as well, beside threads that write.
        let left = (whole - footprint::drawn_by(&parts)).max(0.0);
        let measured = loss(curve, [left; 3])?;
        let value = value.max(measured.low);
        return Ok(Estimate {
            value,
            low: measured.low.min(value),
            high: measured.high.max(value),
            ..measured
        });
    }
    let spread = set_spread(others);
    let room = |own: &[ProgramPart], times: f64| footprint::room(own, &parts, whole, times);
    // A chase that is driven out goes on more slowly, and is driven out the more for it; copies of it are so too.
    let mut own = run.parts.clone();
    let mut found = loss(curve, [room(&own, spread.1), room(&own, 1.0), room(&own, spread.0)])?;
    let alike = others.iter().all(|(other, _)| std::ptr::eq(*other, run));
    for _ in 0..if alike { 0 } else { SETTLING } {
        own = slowed(&run.parts, found.value);
        found = loss(curve, [room(&own, spread.1), room(&own, 1.0), room(&own, spread.0)])?;
    }
    Ok(found)
}

/// Its parts when all of a loss is that of its sets. Accesses that do not wait for each other keep their rate.
fn slowed(parts: &[ProgramPart], lost: f64) -> Vec<ProgramPart> {
    let is_set = |part: &ProgramPart| !part.overflows && part.pattern != KnownPattern::Private;
    let in_sets: f64 = parts.iter().filter(|part| is_set(part)).map(|part| part.share).sum();
    let times = if in_sets > 0.0 { 1.0 + lost / in_sets } else { 1.0 };
    let slower = |part: &ProgramPart| ProgramPart { bytes_per_s: part.bytes_per_s / times, ..*part };
    let waits = |part: &ProgramPart| is_set(part) && part.pattern == KnownPattern::Chase;
    parts.iter().map(|part| if waits(part) { slower(part) } else { *part }).collect()
}

/// How much smaller and larger the sets of others may be than in their parts.
fn set_spread(others: &[(&SqueezeRun, usize)]) -> (f64, f64) {
    let mut spread = (1.0f64, 1.0f64);
    for (other, _) in others {
        let set = other.parts.iter().find(|part| !part.overflows && part.pattern != KnownPattern::Private);
        let Some((set, bounds)) = set.zip(other.storage.bounds) else { continue };
        let times = |end: Option<f64>| end.map_or(1.0, |end| end / (set.size.0 as f64).max(1.0));
        spread = (spread.0.min(times(bounds.at_least)), spread.1.max(times(bounds.at_most)));
    }
    spread
}

/// From bounds on what each uses.
fn by_bounds(
    run: &SqueezeRun,
    others: &[(&SqueezeRun, usize)],
    kind: SqueezeKind,
) -> Result<Estimate, PredictRefusal> {
    let curve = run.curve(kind);
    let own = use_of(curve)?;
    let mut theirs = Vec::new();
    for (other, many) in others {
        let one = use_of(other.curve(kind))?;
        theirs.push(ResourceUse { low: one.low * *many as f64, high: one.high * *many as f64 });
    }
    let alike = others.iter().all(|(other, _)| std::ptr::eq(*other, run));
    loss(curve, range_left(own, sum(theirs.into_iter()), whole(curve)?, alike))
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
