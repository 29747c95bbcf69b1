//! Known programs as columns of what they lose, and those in between.

use machine::{
    Bytes,
    profile::Estimate,
    squeezing::{KnownPattern, KnownProgram, SqueezeKind},
};
use record::squeeze::ProgramPart;

use super::{MISFIT, MISFIT_OF_LOSS, MixturePoint, SUM_OFF};

/// What lives in a core's own cache may be off by this share of what it loses: which of its lines go with those of the shared
/// cache is chance.
const PRIVATE_OFF: f64 = 0.3;
/// Sizes and rates between two that were tried.
const BETWEEN: usize = 2;

/// One column: a known program, or one between two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub pattern: KnownPattern,
    /// Indices into what is known, and how far from the first to the second it lies.
    first: usize,
    second: usize,
    part: f64,
    /// Whether it is one that the cache can hold, or a paced stream, that the hypothesis is about.
    chosen: bool,
}

impl Candidate {
    /// Whether it is a working set.
    pub fn is_set(&self) -> bool {
        self.chosen && matches!(self.pattern, KnownPattern::Chase | KnownPattern::Random)
    }

    /// Whether no cache holds its data, though it is no stream.
    pub fn overflows(&self) -> bool {
        !self.chosen && matches!(self.pattern, KnownPattern::Chase | KnownPattern::Random)
    }

    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        self.chosen && self.pattern == KnownPattern::Stream
    }
}

/// A set or a rate, and whether a known program has just that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TriedValue {
    pub value: f64,
    pub tried: bool,
}

/// What was measured, and all that may explain it.
pub(super) struct Columns {
    known: Vec<KnownProgram>,
    points: Vec<(SqueezeKind, Vec<f64>, Estimate)>,
    deviations: Vec<f64>,
    /// Working sets that are tried, bytes, smallest first, with their candidates.
    pub sets: Vec<TriedValue>,
    set_candidates: Vec<Vec<Candidate>>,
    /// Rates of streams that are tried, bytes per second, slowest first.
    pub streams: Vec<TriedValue>,
    stream_candidates: Vec<Candidate>,
    /// Those that are always there: what overflows, and what lives above.
    always: Vec<Candidate>,
}

impl Columns {
    pub fn of(known: &[KnownProgram], points: &[MixturePoint<'_>], threads: Option<usize>) -> Self {
        let largest = largest_set(known);
        let overflows = |one: &KnownProgram| largest.is_none_or(|most| one.size > most);
        let is_set = |one: &KnownProgram| {
            matches!(one.pattern, KnownPattern::Chase | KnownPattern::Random) && !overflows(one)
        };
        let always = (0..known.len())
            .filter(|&index| {
                let one = &known[index];
                one.pattern == KnownPattern::Private
                    || (matches!(one.pattern, KnownPattern::Chase | KnownPattern::Random) && overflows(one))
            })
            .map(|index| Candidate {
                pattern: known[index].pattern,
                first: index,
                second: index,
                part: 0.0,
                chosen: false,
            })
            .collect();
        let mut columns = Self {
            known: known.to_vec(),
            points: points.iter().map(|one| (one.kind, one.known.to_vec(), one.slowdown)).collect(),
            deviations: points.iter().map(|one| deviation(&one.slowdown)).collect(),
            sets: Vec::new(),
            set_candidates: Vec::new(),
            streams: Vec::new(),
            stream_candidates: Vec::new(),
            always,
        };
        let chases =
            steps(known, |one| is_set(one) && one.pattern == KnownPattern::Chase, |one| one.size.0 as f64);
        let randoms =
            steps(known, |one| is_set(one) && one.pattern == KnownPattern::Random, |one| one.size.0 as f64);
        for (size, chase) in chases {
            let alike = randoms.iter().find(|(other, _)| *other == size).map(|(_, candidate)| *candidate);
            columns.sets.push(TriedValue { value: size, tried: chase.part == 0.0 });
            columns.set_candidates.push(std::iter::once(chase).chain(alike).collect());
        }
        // The fastest of each stream goes as fast as it can: nothing lies between it and one that is paced.
        let fastest = |lines: u64| {
            let those = known.iter().filter(|one| one.pattern == KnownPattern::Stream && one.lines == lines);
            those.map(KnownProgram::bytes_per_s).fold(0.0, f64::max)
        };
        let busy = threads.map(|threads| nearest_threads(known, threads));
        let streams = steps(
            known,
            |one| one.pattern == KnownPattern::Stream && busy.is_none_or(|busy| one.threads == busy),
            KnownProgram::bytes_per_s,
        );
        let is_paced = |one: &Candidate| {
            one.part == 0.0
                || columns.known[one.first].bytes_per_s().max(columns.known[one.second].bytes_per_s())
                    < fastest(columns.known[one.first].lines)
        };
        let streams: Vec<(f64, Candidate)> = streams.into_iter().filter(|(_, one)| is_paced(one)).collect();
        let value = |(value, one): &(f64, Candidate)| TriedValue { value: *value, tried: one.part == 0.0 };
        columns.streams = streams.iter().map(value).collect();
        columns.stream_candidates = streams.into_iter().map(|(_, one)| one).collect();
        columns
    }

    /// None, and every set.
    pub fn set_choices(&self) -> impl Iterator<Item = Option<usize>> + use<> {
        std::iter::once(None).chain((0..self.sets.len()).map(Some))
    }

    /// None, and every stream.
    pub fn stream_choices(&self) -> impl Iterator<Item = Option<usize>> + use<> {
        std::iter::once(None).chain((0..self.streams.len()).map(Some))
    }

    pub fn candidates(&self, set: Option<usize>, stream: Option<usize>) -> Vec<Candidate> {
        let mut all = self.always.clone();
        all.extend(set.into_iter().flat_map(|set| self.set_candidates[set].iter().copied()));
        all.extend(stream.map(|stream| self.stream_candidates[stream]));
        all
    }

    fn loss(&self, candidate: &Candidate, point: usize) -> f64 {
        let known = &self.points[point].1;
        let (first, second) = (known[candidate.first], known[candidate.second]);
        first + (second - first) * candidate.part - 1.0
    }

    /// Columns and what they are to come to, less what is given, each in units of what it may be off; the last row is the sum
    /// of all shares, with a column for the time that nothing slows.
    pub fn weighted(
        &self,
        candidates: &[Candidate],
        given: &[(Candidate, f64)],
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let rows = 0..self.points.len();
        let weighted = |value: f64, row: usize| value / self.deviations[row];
        let mut matrix: Vec<Vec<f64>> = candidates
            .iter()
            .map(|one| {
                rows.clone().map(|row| weighted(self.loss(one, row), row)).chain([1.0 / SUM_OFF]).collect()
            })
            .collect();
        matrix.push(rows.clone().map(|_| 0.0).chain([1.0 / SUM_OFF]).collect());
        let sum: f64 = given.iter().map(|(_, share)| share).sum();
        let lost = |row: usize| given.iter().map(|(one, share)| share * self.loss(one, row)).sum::<f64>();
        let target = rows.map(|row| weighted(self.points[row].2.value - 1.0 - lost(row), row));
        (matrix, target.chain([(1.0 - sum) / SUM_OFF]).collect())
    }

    /// How far a mixture is off, in squares of what it may be.
    pub fn squares(&self, shares: &[(Candidate, f64)]) -> f64 {
        let off = |row: usize| {
            let lost: f64 = shares.iter().map(|(one, share)| share * self.loss(one, row)).sum();
            let unlike: f64 = shares.iter().map(|(one, share)| (share * self.unlike(one, row)).powi(2)).sum();
            let allowed = self.deviations[row].powi(2) + unlike;
            (self.points[row].2.value - 1.0 - lost).powi(2) / allowed
        };
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        (0..self.points.len()).map(off).sum::<f64>() + ((sum - 1.0).max(0.0) / SUM_OFF).powi(2)
    }

    /// How far a program may lie from what it is taken for. One between two that are known: anywhere between them, as harm may
    /// begin anywhere there. What a core's own cache holds: as much as it holds of the part that is lost with the shared one.
    fn unlike(&self, candidate: &Candidate, point: usize) -> f64 {
        let known = &self.points[point].1;
        if candidate.pattern == KnownPattern::Private {
            return PRIVATE_OFF * self.loss(candidate, point);
        }
        candidate.part * (1.0 - candidate.part) * (known[candidate.second] - known[candidate.first])
    }

    /// Loss for want of what a point takes: of cache, that of working sets; of bandwidth, that of all which goes to memory.
    pub fn loss_for_want(&self, shares: &[(Candidate, f64)], point: usize) -> f64 {
        let wants = |one: &Candidate| match self.points[point].0 {
            SqueezeKind::Storage => one.is_set(),
            SqueezeKind::Bandwidth => !one.is_set() && one.pattern != KnownPattern::Private,
        };
        shares.iter().filter(|(one, _)| wants(one)).map(|(one, share)| share * self.loss(one, point)).sum()
    }

    pub fn samples(&self, point: usize) -> usize {
        self.points[point].2.samples
    }

    /// For people and predictions.
    pub fn parts(&self, shares: &[(Candidate, f64)]) -> Vec<ProgramPart> {
        let between = |one: &Candidate, of: fn(&KnownProgram) -> f64| {
            let (first, second) = (of(&self.known[one.first]), of(&self.known[one.second]));
            first + (second - first) * one.part
        };
        shares
            .iter()
            .filter(|(_, share)| *share > 0.005)
            .map(|(one, share)| ProgramPart {
                pattern: one.pattern,
                size: Bytes(between(one, |known| known.size.0 as f64) as u64),
                bytes_per_s: between(one, KnownProgram::bytes_per_s),
                share: share.min(1.0),
                overflows: one.is_stream() || (!one.chosen && one.pattern != KnownPattern::Private),
            })
            .collect()
    }
}

/// The largest that is no overflow: the last but one of its pattern.
fn largest_set(known: &[KnownProgram]) -> Option<Bytes> {
    let mut sizes: Vec<Bytes> =
        known.iter().filter(|one| one.pattern == KnownPattern::Chase).map(|one| one.size).collect();
    sizes.sort();
    sizes.pop();
    sizes.pop()
}

fn nearest_threads(known: &[KnownProgram], threads: usize) -> usize {
    let counts = known.iter().filter(|one| one.pattern == KnownPattern::Stream).map(|one| one.threads);
    counts.min_by_key(|count| count.abs_diff(threads)).unwrap_or(threads)
}

/// Programs of a kind by a value, smallest first, with some between each two that do alike.
fn steps(
    known: &[KnownProgram],
    of_kind: impl Fn(&KnownProgram) -> bool,
    value: impl Fn(&KnownProgram) -> f64,
) -> Vec<(f64, Candidate)> {
    let alike = |one: &KnownProgram| (one.threads, one.lines);
    let mut those: Vec<usize> = (0..known.len()).filter(|index| of_kind(&known[*index])).collect();
    those.sort_by(|a, b| {
        let (a, b) = (&known[*a], &known[*b]);
        alike(a).cmp(&alike(b)).then(value(a).total_cmp(&value(b)))
    });
    let mut all = Vec::new();
    for (index, &first) in those.iter().enumerate() {
        let next = those.get(index + 1).copied().filter(|next| alike(&known[*next]) == alike(&known[first]));
        let second = next.unwrap_or(first);
        let (low, high) = (value(&known[first]), value(&known[second]));
        for step in 0..=if next.is_some() { BETWEEN } else { 0 } {
            let part = step as f64 / (BETWEEN + 1) as f64;
            let pattern = known[first].pattern;
            all.push((low + (high - low) * part, Candidate { pattern, first, second, part, chosen: true }));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// What a value may be off: its own noise, and what a mixture of known programs may miss.
fn deviation(slowdown: &Estimate) -> f64 {
    noise(slowdown).hypot(misfit(slowdown))
}

fn noise(slowdown: &Estimate) -> f64 {
    (slowdown.high - slowdown.low) / 4.0
}

fn misfit(slowdown: &Estimate) -> f64 {
    MISFIT + MISFIT_OF_LOSS * (slowdown.value - 1.0).abs()
}

/// Whether a slowdown is known so well that what mixtures miss is most of what it may be off.
pub fn is_sharp(slowdown: &Estimate) -> bool {
    2.0 * noise(slowdown) <= misfit(slowdown)
}
