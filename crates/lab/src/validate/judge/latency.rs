//! Which latency means that memory is saturated (helm2019 §6).
//!
//! Readers at every pace, on one core to all of them, draw from little to all of the bandwidth. An indicator is good if one
//! threshold tells the saturated experiments from the others.

use record::validate::{Evidence, Flaw, Judged, Observation, Place, Trust};

use super::points::median;

/// The pseudo-event under which the median latency of sampled loads is kept.
pub const SAMPLED: &str = "sampled latency";
/// Of the most that was drawn: above this, memory is saturated.
const SATURATED: f64 = 0.9;
/// Below this it is not.
const FREE: f64 = 0.7;

/// A latency as a quotient of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// Its name.
    pub name: &'static str,
    /// Added up.
    pub above: Vec<String>,
    /// Added up below the line; one if none.
    pub below: Vec<String>,
}

impl Formula {
    fn of(&self, observation: &Observation) -> Option<f64> {
        let sum =
            |events: &[String]| events.iter().map(|event| observation.count(event)).sum::<Option<f64>>();
        let below = if self.below.is_empty() { 1.0 } else { sum(&self.below)? };
        (below > 0.0).then_some(sum(&self.above)? / below)
    }
}

/// Judges a latency.
pub fn judge(formula: &Formula, observations: &[Observation]) -> Judged {
    let read = |one: &&Observation| one.experiment.kernel == "delayed-read";
    let drawn = |one: &Observation| one.truth.below[2].read / one.elapsed_ns;
    let most = observations.iter().filter(read).map(drawn).fold(0.0, f64::max);
    let idle: Vec<f64> = observations
        .iter()
        .filter(|one| one.experiment.kernel == "chase" && one.experiment.place == Place::Memory)
        .filter_map(|one| Some(one.truth.cycles? / one.truth.chain))
        .collect();
    let measured: Vec<(&Observation, f64, f64)> = observations
        .iter()
        .filter(read)
        .filter_map(|one| Some((one, formula.of(one)?, drawn(one) / most)))
        .collect();
    let evidence = measured.iter().map(|(one, value, share)| Evidence {
        experiment: one.experiment.label(),
        truth: None,
        counted: Some(*value),
        note: format!("{value:.0} cycles while {:.0} % of the highest bandwidth is drawn", share * 100.0),
    });
    let mut remarks = Vec::new();
    if let Some(idle) = median(&idle) {
        remarks.push(format!("A load that waits alone takes {idle:.0} cycles, by time."));
    }
    Judged {
        name: formula.name.to_owned(),
        events: formula.above.iter().chain(&formula.below).cloned().collect(),
        purpose: "saturation of memory".to_owned(),
        quantity: "latency".to_owned(),
        step: "latency".to_owned(),
        trust: verdict(&measured),
        without_prefetch: None,
        errors: None,
        sees_owned: None,
        sees_out: None,
        remarks,
        evidence: evidence.collect(),
    }
}

fn verdict(measured: &[(&Observation, f64, f64)]) -> Trust {
    let values = |low: f64, high: f64| {
        let some = measured.iter().filter(move |(_, _, share)| (low..=high).contains(share));
        some.map(|(_, value, _)| *value).collect::<Vec<f64>>()
    };
    let (free, full) = (values(0.0, FREE), values(SATURATED, 1.0));
    if measured.is_empty() {
        return Trust::Untested { missing: "it was counted in no experiment".to_owned() };
    }
    if free.is_empty() || full.is_empty() {
        let missing = "the readers reached no saturation, or nothing below it";
        return Trust::Untested { missing: missing.to_owned() };
    }
    let highest_free = free.iter().copied().fold(0.0, f64::max);
    let lowest_full = full.iter().copied().fold(f64::INFINITY, f64::min);
    if lowest_full > highest_free {
        return Trust::Qualitative {
            tells: format!(
                "that memory is saturated: above {:.0} cycles here",
                (lowest_full + highest_free) / 2.0
            ),
            misses: "the latency of a single load".to_owned(),
        };
    }
    let rises = median(&full).unwrap_or(0.0) > median(&free).unwrap_or(0.0);
    if rises {
        return Trust::Qualitative {
            tells: "a little: it rises when memory is saturated".to_owned(),
            misses: format!(
                "by a threshold: up to {highest_free:.0} cycles without saturation, from {lowest_full:.0} with it"
            ),
        };
    }
    let shown_by = measured.first().map_or(String::new(), |(one, ..)| one.experiment.label());
    Trust::Broken {
        flaw: Flaw::DoesNotFollow { worst: 1.0 },
        why: "does not rise when memory is saturated".to_owned(),
        shown_by,
    }
}
