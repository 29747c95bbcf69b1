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
    /// Largest relative error of any repetition, of those with a truth.
    pub errors: Vec<f64>,
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

    /// How far it is off, with and without a truth alike.
    pub fn error(&self) -> f64 {
        self.ratio().map_or_else(|| self.stray().unwrap_or(0.0), |ratio| ratio - 1.0)
    }

    /// As a line of proof.
    pub fn evidence(&self) -> Evidence {
        let note = match (self.ratio(), self.stray()) {
            (Some(ratio), _) => format!("{ratio:.2} counted per true one"),
            (None, Some(stray)) => format!("{stray:.2} per line touched, none expected"),
            _ => String::new(),
        };
        Evidence {
            experiment: self.observation.experiment.label(),
            truth: Some(self.truth),
            counted: Some(self.count),
            note,
        }
    }
}

/// The sum of a candidate's events, less those that are taken off; none if one of them has no value.
pub fn count(candidate: &Candidate, observation: &Observation) -> Option<f64> {
    let sum = |events: &[String]| events.iter().map(|event| observation.count(event)).sum::<Option<f64>>();
    Some(sum(&candidate.events)? - sum(&candidate.less)?)
}

/// What a candidate counts per nanosecond while nobody touches memory: traffic of others.
pub fn background(candidate: &Candidate, observations: &[Observation]) -> f64 {
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
    let mut counts = Vec::new();
    let mut raws = Vec::new();
    let mut truths = Vec::new();
    let mut errors = Vec::new();
    for one in group {
        let (Some(raw), Some(truth)) = (count(candidate, one), quantity.of(one)) else { continue };
        let count = raw - idle_per_ns * one.elapsed_ns;
        if truth > 0.0 {
            errors.push(count / truth - 1.0);
        }
        counts.push(count);
        raws.push(raw);
        truths.push(truth);
    }
    let observation = *group.first()?;
    let truth = median(&truths)?;
    let scale = quantity.scale(observation)?;
    Some(Point { observation, truth, count: median(&counts)?, raw: median(&raws)?, scale, errors })
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
