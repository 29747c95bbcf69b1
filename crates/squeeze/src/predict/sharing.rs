//! Programs that share a cache and its way to memory.

use machine::{
    Bytes,
    profile::Estimate,
    squeezing::{KnownPattern, SqueezeKind, SqueezeProfile},
};
use record::{
    predict::{BestMapping, PredictAnswer},
    squeeze::{ProgramPart, SqueezeCurve, SqueezeRun},
};

use super::{PredictRefusal, answer, footprint, loss, socket::KnownMachine, whole};

/// A mapping that loses less than this is as good as one that loses nothing.
const AS_GOOD: f64 = 0.03;

/// How far simulated slowdowns of two on a socket were off at most, of time alone and of what is lost (docs/squeeze.md).
const MODEL_OFF: f64 = 0.06;
const MODEL_OFF_OF_LOSS: f64 = 0.06;

/// Rounds after which two that slow each other agree.
const SETTLING: usize = 12;

/// Losses that may differ by more than this share of the time cannot be told: a set is then at the edge of what the cache holds.
const EDGE: f64 = 0.20;

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

/// What `run` loses beside others. `profile`: the machine that they share, with its known programs.
fn beside(
    run: &SqueezeRun,
    others: &[(&SqueezeRun, usize)],
    profile: Option<&SqueezeProfile>,
    what: String,
) -> PredictAnswer {
    let explained = !run.parts.is_empty() && others.iter().all(|(other, _)| !other.parts.is_empty());
    let machine = profile.and_then(KnownMachine::of).filter(|_| explained);
    let losses = match &machine {
        Some(machine) => by_parts(machine, run, others),
        None => SqueezeKind::ALL
            .into_iter()
            .map(|kind| by_bounds(run, others, kind).map(|loss| (kind, loss)))
            .collect(),
    };
    let mut found = answer(what, losses);
    if machine.is_some() && others.iter().any(|(_, many)| *many > 0) {
        found.slowdown = found.slowdown.map(widened);
    }
    found
}

/// An interval of what the sizes of sets leave open, widened by what the model itself was off.
fn widened(slowdown: Estimate) -> Estimate {
    let off = |value: f64| MODEL_OFF + MODEL_OFF_OF_LOSS * (value - 1.0).max(0.0);
    let low = (slowdown.low - off(slowdown.low)).max(1.0).min(slowdown.value);
    Estimate { low, high: slowdown.high + off(slowdown.high), ..slowdown }
}

/// From the known programs that each behaves like.
fn by_parts(
    machine: &KnownMachine<'_>,
    run: &SqueezeRun,
    others: &[(&SqueezeRun, usize)],
) -> Result<Vec<(SqueezeKind, Estimate)>, PredictRefusal> {
    let parts: Vec<(&[ProgramPart], usize)> =
        others.iter().map(|(other, many)| (other.parts.as_slice(), *many)).collect();
    let unknown = || PredictRefusal::NoCurve {
        kind: SqueezeKind::Storage,
        why: "no known program of its kind was tried".to_owned(),
    };
    let likely = machine.loss(&run.parts, &parts, false).ok_or_else(unknown)?;
    let mut all = vec![likely.cache];
    // With everything in the cache at the beginning, and with sets as small and as large as bounds allow.
    for (own_end, other_end) in ENDS {
        let own = sized(run, own_end);
        let theirs: Vec<Vec<ProgramPart>> = others.iter().map(|(other, _)| sized(other, other_end)).collect();
        let theirs: Vec<(&[ProgramPart], usize)> =
            theirs.iter().zip(others).map(|(parts, (_, many))| (parts.as_slice(), *many)).collect();
        for warm in [false, true] {
            all.push(machine.loss(&own, &theirs, warm).ok_or_else(unknown)?.cache);
        }
    }
    let (least, most) =
        all.iter().fold((likely.cache, likely.cache), |(a, b), one| (a.min(*one), b.max(*one)));
    if most - least > EDGE {
        return Err(PredictRefusal::Edge { least: 1.0 + least, most: 1.0 + most });
    }
    let samples = run.storage.points.iter().map(|point| point.slowdown.samples).min().unwrap_or(0);
    let cache = Estimate { value: likely.cache, low: least, high: most, samples };
    Ok(vec![
        (SqueezeKind::Storage, cache),
        (SqueezeKind::Bandwidth, by_draw(run, others, &parts, likely.bandwidth)?),
    ])
}

/// What a program loses by what others draw. At least what streams lose that share in proportion; at most what its curve says
/// beside threads that write as much as the others draw once they are slowed as well. Memory that serves readers lies between.
fn by_draw(
    run: &SqueezeRun,
    others: &[(&SqueezeRun, usize)],
    parts: &[(&[ProgramPart], usize)],
    waiting: f64,
) -> Result<Estimate, PredictRefusal> {
    let curve = &run.bandwidth;
    let whole = whole(curve)?;
    let shared = footprint::lost_beside(&run.parts, parts, whole) + waiting;
    let at = |curve: &SqueezeCurve, drawn: f64| {
        let least = curve.points.iter().map(|point| point.left.value).fold(f64::INFINITY, f64::min);
        loss(curve, [(whole - drawn).max(least); 3])
    };
    let drawn = footprint::drawn_by(parts);
    let own = footprint::drawn_by(&[(run.parts.as_slice(), 1)]);
    let (mut slowest, mut theirs) = (at(curve, drawn)?, 0.0);
    for _ in 0..SETTLING {
        slowest = at(curve, drawn / (1.0 + theirs))?;
        if let [(other, _)] = others {
            let rest = drawn - drawn / others[0].1.max(1) as f64;
            theirs = (theirs + at(&other.bandwidth, own / (1.0 + slowest.value) + rest)?.value) / 2.0;
        }
    }
    let (low, high) = (shared.min(slowest.value), shared.max(slowest.value));
    Ok(Estimate { value: (low + high) / 2.0, low, high, ..slowest })
}

/// Which end of its bounds a set is taken to be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetEnd {
    Least,
    Likely,
    Most,
}

/// Own set and those of others.
const ENDS: [(SetEnd, SetEnd); 3] =
    [(SetEnd::Likely, SetEnd::Likely), (SetEnd::Least, SetEnd::Least), (SetEnd::Most, SetEnd::Most)];

/// Parts with the set as small or as large as bounds on it allow.
fn sized(run: &SqueezeRun, end: SetEnd) -> Vec<ProgramPart> {
    let bounds = run.storage.bounds;
    let end = match end {
        SetEnd::Least => bounds.and_then(|bounds| bounds.at_least),
        SetEnd::Likely => None,
        SetEnd::Most => bounds.and_then(|bounds| bounds.at_most),
    };
    let is_set = |part: &ProgramPart| !part.overflows && part.pattern != KnownPattern::Private;
    let resized = |part: &ProgramPart| match end {
        Some(bytes) if is_set(part) => ProgramPart { size: Bytes(bytes.max(1.0) as u64), ..*part },
        _ => *part,
    };
    run.parts.iter().map(resized).collect()
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

/// How much slower each of two programs is when they share a socket of a machine.
pub fn side_by_side(
    one: &SqueezeRun,
    other: &SqueezeRun,
    profile: Option<&SqueezeProfile>,
) -> [PredictAnswer; 2] {
    let of = |run: &SqueezeRun, next: &SqueezeRun| {
        beside(run, &[(next, 1)], profile, format!("{} beside {}", run.program, next.program))
    };
    [of(one, other), of(other, one)]
}

/// How much slower each process is with so many of them on a socket, and which of these mappings is best: the most on a
/// socket that lose nothing.
pub fn best_mapping(
    run: &SqueezeRun,
    mappings: &[usize],
    profile: Option<&SqueezeProfile>,
) -> (Vec<PredictAnswer>, Option<BestMapping>) {
    let answers: Vec<PredictAnswer> = mappings
        .iter()
        .map(|&many| {
            let what = format!("{} with {many} on a socket", run.program);
            beside(run, &[(run, many.saturating_sub(1))], profile, what)
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
            (Some(next), None) => match (cause, &answers[next].refused) {
                (Some(kind), Some(refused)) => {
                    format!(
                        "{} on a socket run out of {kind}, how far cannot be told: {refused}",
                        mappings[next]
                    )
                }
                _ => format!("what {} on a socket lose is outside what was measured", mappings[next]),
            },
            (None, _) => "no more than that were asked for".to_owned(),
        };
        BestMapping { per_socket: mappings[index], cause, why }
    });
    (answers, best)
}
