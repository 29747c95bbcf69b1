//! A program as a mixture of programs of known need.
//!
//! If a program spends some of its time like this known program and some like that one, its slowdown beside any strength is
//! the mean of theirs, weighted with time. Every working set and every rate of a stream is tried: those with which some mixture
//! explains all that was measured are what the program may use, the others are ruled out. That is casas2017 §5.2 without two of
//! its assumptions: that harm begins where need and room cross, and that a program is in one phase all the time.

mod columns;
mod least_squares;

use machine::{
    profile::Estimate,
    squeezing::{KnownProgram, SqueezeKind},
};
use record::squeeze::{HarmVerdict, ProgramPart, UseBounds};

pub use columns::is_sharp;
use columns::{Candidate, Columns, TriedValue};
use least_squares::nonnegative;

/// A part of a program that takes less than this share of its time is not looked for.
const LEAST_SHARE: f64 = 0.10;
/// How far a mixture of known programs may be off beside a program of its own kind: of time alone, and of what is lost.
const MISFIT: f64 = 0.006;
const MISFIT_OF_LOSS: f64 = 0.05;
/// Shares may sum up to a little more than all of the time.
const SUM_OFF: f64 = 0.02;
/// Cores hold a pace in steps: a rate is told no better than this.
const RATE_OFF: f64 = 0.03;
/// A mixture is ruled out by squares, in units of what it may be off, of more than so many times those of the best, and so much more.
const RULED_OUT_TIMES: f64 = 2.0;
const RULED_OUT: f64 = 4.0;
/// Beyond this mean square even the best mixture explains nothing.
const UNEXPLAINED: f64 = 9.0;

/// A strength that the program was measured beside.
#[derive(Clone, Copy, Debug)]
pub struct MixturePoint<'a> {
    /// What it takes.
    pub kind: SqueezeKind,
    /// Slowdown of every known program.
    pub known: &'a [f64],
    /// Of the program.
    pub slowdown: Estimate,
}

/// What the mixtures that are left say together.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureAnswer {
    /// The best mixture; what is missing to all of the time is not slowed by anything.
    pub parts: Vec<ProgramPart>,
    /// Working set.
    pub cache: Option<UseBounds>,
    /// Rate of its stream.
    pub bandwidth: Option<UseBounds>,
    /// For each point, loss for want of what the strength takes: in the best mixture, least and most.
    pub losses: Vec<Estimate>,
}

impl MixtureAnswer {
    /// Whether that loss is harm.
    pub fn verdict(&self, point: usize, harm: f64) -> HarmVerdict {
        match self.losses.get(point) {
            Some(loss) if loss.low > harm => HarmVerdict::Harmful,
            Some(loss) if loss.high < harm => HarmVerdict::Harmless,
            _ => HarmVerdict::Open,
        }
    }
}

/// One hypothesis that was tried.
#[derive(Clone, Debug)]
struct TriedMixture {
    set: Option<usize>,
    stream: Option<usize>,
    squares: f64,
    shares: Vec<(Candidate, f64)>,
}

impl TriedMixture {
    /// Share of time of some of its programs.
    fn share(&self, of: fn(&Candidate) -> bool) -> f64 {
        self.shares.iter().filter(|(one, _)| of(one)).map(|(_, share)| share).sum()
    }
}

/// Explains points. `threads`: CPUs that its streams keep busy, if that is known. `None` if no mixture explains them, or no known program was tried beside them.
pub fn explain(
    known: &[KnownProgram],
    points: &[MixturePoint<'_>],
    threads: Option<usize>,
) -> Option<MixtureAnswer> {
    let usable = points.iter().all(|point| point.known.len() == known.len());
    if known.is_empty() || points.is_empty() || !usable {
        return None;
    }
    let columns = Columns::of(known, points, threads);
    let mut tried = Vec::new();
    for set in columns.set_choices() {
        for stream in columns.stream_choices() {
            tried.push(best_of(&columns, set, stream));
        }
    }
    let least = tried.iter().map(|one| one.squares).fold(f64::INFINITY, f64::min);
    if least > UNEXPLAINED * points.len() as f64 {
        return None;
    }
    let limit = RULED_OUT_TIMES * least + RULED_OUT;
    tried.retain(|one| one.squares <= limit);
    // Nothing that need not be there; of as many parts the best.
    let parts = |one: &TriedMixture| usize::from(one.set.is_some()) + usize::from(one.stream.is_some());
    let simpler =
        |a: &&TriedMixture, b: &&TriedMixture| parts(a).cmp(&parts(b)).then(a.squares.total_cmp(&b.squares));
    let best = plainest(&columns, tried.iter().min_by(simpler)?, limit);
    let mut cache = bounds(&columns.sets, tried.iter().map(|one| one.set));
    // A set that a stream drives out in turn is mostly met in memory, and looks like what overflows: it may be of any size.
    if streams_better(&tried) && best.share(Candidate::overflows) >= LEAST_SHARE {
        cache = cache
            .map(|bounds| UseBounds { at_most: None, ..bounds })
            .filter(|bounds| bounds.at_least.is_some());
    }
    Some(MixtureAnswer {
        parts: columns.parts(&best.shares),
        cache,
        bandwidth: bounds(&columns.streams, tried.iter().map(|one| one.stream)).map(|bounds| UseBounds {
            at_least: bounds.at_least.map(|low| low * (1.0 - RATE_OFF)),
            at_most: bounds.at_most.map(|high| high * (1.0 + RATE_OFF)),
        }),
        losses: (0..points.len()).map(|point| loss(&columns, &best, &tried, point)).collect(),
    })
}

/// Whether the runs are explained better with a stream than without, by more than chance makes of one part more.
fn streams_better(tried: &[TriedMixture]) -> bool {
    let least = |with: bool| {
        let those = tried.iter().filter(|one| one.stream.is_some() == with);
        those.map(|one| one.squares).fold(f64::INFINITY, f64::min)
    };
    least(true) + 1.0 < least(false)
}

/// The best mixture with this set and this stream, each with at least its share.
fn best_of(columns: &Columns, set: Option<usize>, stream: Option<usize>) -> TriedMixture {
    let candidates = columns.candidates(set, stream);
    let free = solve(columns, &candidates, &[]);
    let share = |of: fn(&Candidate) -> bool| {
        free.iter().filter(|(one, _)| of(one)).map(|(_, share)| share).sum::<f64>()
    };
    let short_set = set.is_some() && share(Candidate::is_set) < LEAST_SHARE;
    let short_stream = stream.is_some() && share(Candidate::is_stream) < LEAST_SHARE;
    let of_set: Vec<Option<Candidate>> = match short_set {
        true => candidates.iter().copied().filter(Candidate::is_set).map(Some).collect(),
        false => vec![None],
    };
    let of_stream = short_stream.then(|| candidates.iter().copied().find(Candidate::is_stream)).flatten();
    let all = of_set.into_iter().map(|forced| {
        let forced: Vec<Candidate> = forced.into_iter().chain(of_stream).collect();
        let shares = if forced.is_empty() { free.clone() } else { solve(columns, &candidates, &forced) };
        TriedMixture { set, stream, squares: columns.squares(&shares), shares }
    });
    all.min_by(|a, b| a.squares.total_cmp(&b.squares)).unwrap_or(TriedMixture {
        set,
        stream,
        squares: f64::INFINITY,
        shares: Vec::new(),
    })
}

/// The same hypothesis with as few known programs as explain the runs no worse than `limit` allows: what overflows the cache, and
/// a second way to go over a set, are not taken in for the last hair.
fn plainest(columns: &Columns, best: &TriedMixture, limit: f64) -> TriedMixture {
    let chosen: Vec<Candidate> = columns
        .candidates(best.set, best.stream)
        .into_iter()
        .filter(|one| one.is_set() || one.is_stream())
        .collect();
    let of_set: Vec<Candidate> = chosen.iter().copied().filter(Candidate::is_set).collect();
    let stream: Vec<Candidate> = chosen.iter().copied().filter(Candidate::is_stream).collect();
    let single = of_set.iter().map(|one| std::iter::once(*one).chain(stream.clone()).collect::<Vec<_>>());
    let fewer = single.chain((of_set.is_empty()).then(|| stream.clone())).map(|candidates| {
        let shares = solve(columns, &candidates, &[]);
        TriedMixture { squares: columns.squares(&shares), shares, ..best.clone() }
    });
    let enough = |one: &TriedMixture| {
        one.squares <= limit
            && (best.set.is_none() || one.share(Candidate::is_set) >= LEAST_SHARE)
            && (best.stream.is_none() || one.share(Candidate::is_stream) >= LEAST_SHARE)
    };
    fewer.filter(enough).min_by(|a, b| a.squares.total_cmp(&b.squares)).unwrap_or_else(|| best.clone())
}

/// Shares of each candidate, `forced` ones with at least the least share.
fn solve(columns: &Columns, candidates: &[Candidate], forced: &[Candidate]) -> Vec<(Candidate, f64)> {
    let given: Vec<(Candidate, f64)> = forced.iter().map(|one| (*one, LEAST_SHARE)).collect();
    let (matrix, target) = columns.weighted(candidates, &given);
    let mut shares: Vec<(Candidate, f64)> =
        candidates.iter().copied().zip(nonnegative(&matrix, &target)).collect();
    for (one, share) in &mut shares {
        *share += given.iter().filter(|(forced, _)| forced == one).map(|(_, share)| share).sum::<f64>();
    }
    shares
}

/// What the hypotheses that are left say of one of the two, to the next that was really tried. `values`: in order.
fn bounds(values: &[TriedValue], left: impl Iterator<Item = Option<usize>>) -> Option<UseBounds> {
    let left: Vec<Option<usize>> = left.collect();
    let (least, most) = (left.iter().flatten().min(), left.iter().flatten().max());
    let real = |value: &&TriedValue| value.tried;
    let above = |index: usize| values[index + 1..].iter().find(real).map(|value| value.value);
    let below = |index: usize| values[..index].iter().rev().find(real).map_or(0.0, |value| value.value);
    let at_most = match most {
        Some(most) => above(*most),
        None => values.first().map(|value| value.value),
    };
    let at_least = least.filter(|_| !left.contains(&None)).map(|least| below(*least));
    (at_least.is_some() || at_most.is_some()).then_some(UseBounds { at_least, at_most })
}

/// What a point's strength costs for want of what it takes.
fn loss(columns: &Columns, best: &TriedMixture, left: &[TriedMixture], point: usize) -> Estimate {
    let of = |one: &TriedMixture| columns.loss_for_want(&one.shares, point);
    let all = left.iter().map(of);
    let value = of(best);
    Estimate {
        value,
        low: all.clone().fold(value, f64::min),
        high: all.fold(value, f64::max),
        samples: columns.samples(point),
    }
}

#[cfg(test)]
mod tests;
