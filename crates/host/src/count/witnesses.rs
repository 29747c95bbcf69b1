//! Cycles and instructions counted in every pass: whether passes that counted different events did the same
//! (kruse2011 §5.1 counts cycles in five runs, since they change by some 3 %).

use events::{Count, Event, Instrument, MetricGroup, Scope, Value};
use record::count::{CountedEvent, PassWitness, total};

use super::{MadePass, Pass};

/// Passes whose cycles differ by more than this share are said to.
pub(super) const UNSTEADY: f64 = 0.03;

/// What is counted beside the events of each pass.
pub(super) struct Witnesses {
    cycles: Option<Event>,
    instructions: Option<Event>,
}

/// Where the witnesses of one pass are among its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WitnessPlaces {
    cycles: Option<usize>,
    instructions: Option<usize>,
}

impl Witnesses {
    /// Those that an instrument has.
    pub fn of(instrument: &dyn Instrument) -> Self {
        let named = |input: &str| {
            let group = MetricGroup::named("CYCLES")?;
            let (_, events) = group.inputs.iter().find(|(name, _)| name == input)?;
            events.iter().find_map(|event| instrument.resolve(event).ok())
        };
        Self { cycles: named("cycles"), instructions: named("instructions") }
    }

    /// Adds them to the events of a pass, as far as they fit beside them.
    pub fn join(&self, instrument: &dyn Instrument, events: &mut Vec<Event>) -> WitnessPlaces {
        let mut place = |witness: &Option<Event>| {
            let witness = witness.as_ref()?;
            if let Some(index) = events.iter().position(|event| event.signal == witness.signal) {
                return Some(index);
            }
            events.push(witness.clone());
            match instrument.runs(events, &Scope::ThisThread) {
                Ok(passes) if passes.len() == 1 => Some(events.len() - 1),
                _ => {
                    events.pop();
                    None
                }
            }
        };
        WitnessPlaces { cycles: place(&self.cycles), instructions: place(&self.instructions) }
    }

    /// Where cycles or instructions were asked for, what a repetition has of them is the mean over its passes; a pass made again
    /// adds them to its own events.
    pub fn average(&self, asked: &[CountedEvent], parts: &[MadePass<'_>], counts: &mut Vec<Count>) {
        let pick = [|places: &WitnessPlaces| places.cycles, |places: &WitnessPlaces| places.instructions];
        for (witness, pick) in [&self.cycles, &self.instructions].into_iter().zip(pick) {
            let Some(witness) = witness else { continue };
            let Some(event) = asked.iter().position(|asked| asked.signal == witness.signal) else { continue };
            let of_pass = |part: &MadePass<'_>| -> Vec<Count> {
                let Some(place) = part.witnesses.as_ref().and_then(pick) else { return Vec::new() };
                let counts = part.pass.counts.iter().filter(|count| count.event == place);
                counts.map(|count| Count { event, ..count.clone() }).collect()
            };
            let passes: Vec<Vec<Count>> =
                parts.iter().map(of_pass).filter(|found| !found.is_empty()).collect();
            if let Some(mean) = mean(&passes) {
                counts.retain(|count| count.event != event);
                counts.extend(mean);
            }
        }
        counts.sort_by_key(|count| count.event);
    }
}

/// Place by place; none where passes were counted in other places, as threads of a program that runs anew are.
fn mean(passes: &[Vec<Count>]) -> Option<Vec<Count>> {
    let (first, others) = passes.split_first()?;
    let mean = |count: &Count| {
        let same = |pass: &Vec<Count>| pass.iter().find(|other| other.place == count.place).cloned();
        let others: Vec<Count> = others.iter().map(same).collect::<Option<_>>()?;
        let mut sums = [0u64; 3];
        for found in others.iter().chain([count]) {
            let Value::Counted { raw, enabled_ns, running_ns } = found.value else { return None };
            [raw, enabled_ns, running_ns].iter().zip(&mut sums).for_each(|(value, sum)| *sum += value);
        }
        let [raw, enabled_ns, running_ns] = sums.map(|sum| sum / (others.len() as u64 + 1));
        Some(Count { value: Value::Counted { raw, enabled_ns, running_ns }, ..count.clone() })
    };
    first.iter().map(mean).collect()
}

impl WitnessPlaces {
    /// What they came to.
    pub fn read(self, pass: &Pass) -> PassWitness {
        let value = |index: Option<usize>| total(&pass.counts, index?, |_| true)?.estimate();
        PassWitness { cycles: value(self.cycles), instructions: value(self.instructions) }
    }
}

/// Largest less smallest, over the mean.
pub(super) fn spread(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    (values.len() > 1 && mean > 0.0).then(|| (largest - smallest) / mean)
}

/// How alike the passes were, in a sentence; none for a single one.
pub(super) fn remark(witnesses: &[PassWitness]) -> Option<String> {
    let cycles = spread(witnesses.iter().map(|witness| witness.cycles))?;
    let instructions = spread(witnesses.iter().map(|witness| witness.instructions));
    let beside =
        instructions.map_or_else(String::new, |share| format!(", instructions by {:.1} %", 100.0 * share));
    let verdict = match cycles > UNSTEADY {
        true => {
            " Metrics that put events of several passes together are no better than that; --runs N repeats them."
        }
        false => "",
    };
    let passes = witnesses.len();
    Some(format!("Cycles differed by {:.1} % over {passes} passes{beside}.{verdict}", 100.0 * cycles))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness(cycles: f64, instructions: Option<f64>) -> PassWitness {
        PassWitness { cycles: Some(cycles), instructions }
    }

    #[test]
    fn passes_that_differ_are_told() {
        assert_eq!(remark(&[witness(100.0, None)]), None, "nothing to compare with");
        let steady = remark(&[witness(100.0, Some(10.0)), witness(101.0, Some(10.0))]);
        assert_eq!(steady.as_deref(), Some("Cycles differed by 1.0 % over 2 passes, instructions by 0.0 %."));
        let apart = remark(&[witness(90.0, None), witness(100.0, None), witness(110.0, None)]).unwrap();
        assert!(apart.starts_with("Cycles differed by 20.0 % over 3 passes. Metrics"), "{apart}");
        let missing = [witness(90.0, None), PassWitness { cycles: None, instructions: None }];
        assert_eq!(remark(&missing), None, "a pass without is no zero");
    }
}
