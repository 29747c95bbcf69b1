//! What an indicator counted in each experiment, beside what was true.

use record::validate::Observation;
use trust::{Evidence, KernelPlace, Quantity};

use crate::{claims::Candidate, quantity::KnownQuantity as _};

/// Below this share of the lines touched, a truth is none.
const NOTHING: f64 = 0.02;

/// One experiment, all its repetitions together.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Of the first repetition.
    pub observation: &'a Observation,
    /// What was true.
    pub truth: f64,
    /// What was counted, without what others did meanwhile; the median over repetitions.
    pub count: f64,
    /// As it was counted.
    pub raw: f64,
    /// Lines touched, or the truth where it is not about lines.
    pub scale: f64,
    /// How far each repetition is off: of the truth, or of the lines touched where there is none.
    pub errors: Vec<f64>,
    /// Truth and count of the repetition that is furthest off.
    pub furthest: (f64, f64),
}

impl Point<'_> {
    /// Counted over true; none where nothing should be counted.
    pub fn ratio(&self) -> Option<f64> {
        (self.truth > NOTHING * self.scale).then(|| self.count / self.truth)
    }

    /// Counted where nothing should be, by the lines touched.
    pub fn stray(&self) -> Option<f64> {
        (self.truth <= NOTHING * self.scale && self.scale > 0.0).then(|| self.count / self.scale)
    }

    /// How far its middle is off, with and without a truth alike.
    pub fn error(&self) -> f64 {
        self.ratio().map_or_else(|| self.stray().unwrap_or(0.0), |ratio| ratio - 1.0)
    }

    /// How far the repetition that is furthest off is, by its size.
    pub fn worst(&self) -> f64 {
        self.errors.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(0.0)
    }

    /// As a line of proof: the repetition that is furthest off.
    pub fn evidence(&self) -> Evidence {
        let mut note = match (self.ratio(), self.stray()) {
            (Some(_), _) => format!("{:.2} counted per true one", 1.0 + self.worst()),
            (None, Some(_)) => format!("{:.2} per line touched, none expected", self.worst()),
            _ => String::new(),
        };
        if self.errors.len() > 1 {
            note += &format!(", the furthest of {} runs", self.errors.len());
        }
        if (self.raw - self.count).abs() > NOTHING * self.scale {
            note += &format!("; {:.0} taken off for what others did meanwhile", self.raw - self.count);
        }
        let (truth, counted) = self.furthest;
        Evidence {
            experiment: self.observation.experiment.label(),
            truth: Some(truth),
            counted: Some(counted),
            error: (!self.errors.is_empty()).then(|| self.worst()),
            note,
        }
    }
}

/// The sum of a candidate's events, less those that are taken off; none if one of them has no value.
pub fn count(candidate: &Candidate, observation: &Observation) -> Option<f64> {
    let sum = |events: &[String]| events.iter().map(|event| observation.count(event)).sum::<Option<f64>>();
    Some(sum(&candidate.events)? - sum(&candidate.less)?)
}

/// What a candidate counts per nanosecond while nobody touches memory: traffic of others. What a core counts for our threads alone
/// is nobody else's: if that ticks, it is wrong.
pub fn background(candidate: &Candidate, observations: &[Observation]) -> f64 {
    if candidate.per_core {
        return 0.0;
    }
    let idle = observations
        .iter()
        .filter(|one| one.experiment.place == KernelPlace::Registers && one.elapsed_ns > 0.0);
    let rates: Vec<f64> = idle.filter_map(|one| Some(count(candidate, one)? / one.elapsed_ns)).collect();
    median(&rates).unwrap_or(0.0)
}

/// All experiments of an indicator held against a quantity.
pub fn points<'a>(
    candidate: &Candidate,
    quantity: Quantity,
    observations: &'a [Observation],
) -> Vec<Point<'a>> {
    let idle = if quantity.is_lines() { background(candidate, observations) } else { 0.0 };
    let mut labels: Vec<(String, Vec<&Observation>)> = Vec::new();
    for one in observations.iter().filter(|one| one.experiment.place != KernelPlace::Registers) {
        let label = one.experiment.label();
        match labels.iter_mut().find(|(known, _)| *known == label) {
            Some((_, group)) => group.push(one),
            None => labels.push((label, vec![one])),
        }
    }
    labels.iter().filter_map(|(_, group)| point(candidate, quantity, group, idle)).collect()
}

fn point<'a>(
    candidate: &Candidate,
    quantity: Quantity,
    group: &[&'a Observation],
    idle_per_ns: f64,
) -> Option<Point<'a>> {
    let (mut counts, mut raws, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for one in group {
        let (Some(raw), Some(truth)) = (count(candidate, one), quantity.of(one)) else { continue };
        counts.push(raw - idle_per_ns * one.elapsed_ns);
        raws.push(raw);
        truths.push(truth);
    }
    let observation = *group.first()?;
    let (truth, scale) = (median(&truths)?, quantity.scale(observation)?);
    let error = |(truth, count): (&f64, &f64)| match *truth > NOTHING * scale {
        true => Some(count / truth - 1.0),
        false => (scale > 0.0).then(|| count / scale),
    };
    let errors: Vec<f64> = truths.iter().zip(&counts).filter_map(error).collect();
    let size = |at: &usize| errors.get(*at).map_or(0.0, |error| error.abs());
    let furthest = (0..counts.len()).max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let furthest = (truths[furthest], counts[furthest]);
    Some(Point { observation, truth, count: median(&counts)?, raw: median(&raws)?, scale, errors, furthest })
}

/// The middle one.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even % 2 == 0 => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}
