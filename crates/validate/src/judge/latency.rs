//! Which latency means that memory is saturated (helm2019 §6).
//!
//! Readers at every pace, on one core to all of them, draw from little to all of the bandwidth. Memory is saturated where
//! nearly all of it is drawn and the readers are slower for it than one alone: a prefetcher may draw much without anybody
//! waiting. An indicator is good if one threshold tells the saturated experiments from the others.

use record::validate::Observation;
use trust::{Evidence, Flaw, Indicator, Judged, KernelPlace, Purpose, Threshold, Trust};

use crate::roles::{Between, JudgingKernels, Role};

use super::{
    points::median,
    threshold::{Separation, separate},
};

/// The pseudo-event under which the median latency of sampled loads is kept.
pub const SAMPLED: &str = "sampled latency";
/// What the latencies are judged as.
const PURPOSE: &str = "saturation of memory";
/// Of the most that was drawn: above this, memory may be saturated.
const DRAWN_FULL: f64 = 0.9;
/// Below this it is not.
const DRAWN_FREE: f64 = 0.7;
/// A reader this much slower than alone suffers.
const SLOWED: f64 = 1.1;
/// A reader this little slower than alone does not.
const UNHARMED: f64 = 1.05;

/// A latency as a quotient of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// Its name.
    pub name: Indicator,
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

/// One experiment, all its repetitions together.
struct Reading<'a> {
    observation: &'a Observation,
    /// Mean over repetitions, in cycles.
    value: f64,
    /// Standard deviation over the mean; none of a single repetition.
    variation: Option<f64>,
    /// Of the most that any experiment drew.
    drawn: f64,
    /// Time over that of the same reader alone; none if it was not tried alone.
    slowdown: Option<f64>,
}

impl Reading<'_> {
    /// Saturated or not; none if it is in between.
    fn saturated(&self) -> Option<bool> {
        let slowdown = self.slowdown.unwrap_or(1.0);
        if self.drawn >= DRAWN_FULL && slowdown >= SLOWED {
            return Some(true);
        }
        // Of one that runs alone, nobody knows whether it would be faster with more bandwidth.
        let unharmed = self.observation.experiment.cores > 1 && slowdown <= UNHARMED;
        (self.drawn <= DRAWN_FREE || unharmed).then_some(false)
    }

    fn evidence(&self) -> Evidence {
        let slower = self.slowdown.map_or(String::new(), |slowdown| format!(", {slowdown:.1} times as slow"));
        let state = match self.saturated() {
            Some(true) => "saturated",
            Some(false) => "not saturated",
            None => "in between",
        };
        Evidence {
            experiment: self.observation.experiment.label(),
            truth: None,
            counted: Some(self.value),
            error: None,
            note: format!("{state}: {:.0} % of the bandwidth drawn{slower}", self.drawn * 100.0),
        }
    }
}

fn lines_per_ns(observation: &Observation) -> f64 {
    observation.truth.below[2].read / observation.elapsed_ns.max(1.0)
}

/// The same reader, whatever the number of cores and the repetition.
fn same_reader(one: &Observation, other: &Observation) -> bool {
    let (one, other) = (&one.experiment, &other.experiment);
    (&one.kernel, &one.parameters, one.prefetch) == (&other.kernel, &other.parameters, other.prefetch)
}

fn readings<'a>(
    formula: &Formula,
    observations: &'a [Observation],
    known: &JudgingKernels,
    prefetch: bool,
) -> Vec<Reading<'a>> {
    let paced = |role: &Role| matches!(role, Role::PacedReader { .. });
    let readers = || observations.iter().filter(|one| known.is(&one.experiment.kernel, paced));
    let most = readers().map(lines_per_ns).fold(0.0, f64::max);
    let mut groups: Vec<(String, Vec<&Observation>)> = Vec::new();
    for one in readers().filter(|one| one.experiment.prefetch == prefetch) {
        let label = one.experiment.label();
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, group)) => group.push(one),
            None => groups.push((label, vec![one])),
        }
    }
    let reading = |(_, group): &(String, Vec<&'a Observation>)| {
        let values: Vec<f64> = group.iter().filter_map(|one| formula.of(one)).collect();
        let first = *group.first()?;
        let alone = readers().find(|one| one.experiment.cores == 1 && same_reader(one, first));
        let each = lines_per_ns(first) / first.experiment.cores as f64;
        Some(Reading {
            observation: first,
            value: mean(&values)?,
            variation: variation(&values),
            drawn: lines_per_ns(first) / most.max(f64::MIN_POSITIVE),
            slowdown: alone.map(|alone| lines_per_ns(alone) / each.max(f64::MIN_POSITIVE)),
        })
    };
    groups.iter().filter_map(reading).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn variation(values: &[f64]) -> Option<f64> {
    let middle = mean(values).filter(|middle| values.len() > 1 && *middle > 0.0)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / middle)
}

/// How well one threshold tells saturated experiments from the others.
fn separation(readings: &[Reading<'_>]) -> Option<Separation> {
    let known: Vec<(f64, bool)> =
        readings.iter().filter_map(|one| Some((one.value, one.saturated()?))).collect();
    separate(&known)
}

fn words(separation: &Separation) -> String {
    let Separation { wrong, of, highest_without, lowest_with, .. } = separation;
    format!(
        "{wrong} of {of} experiments on the wrong side; up to {highest_without:.0} cycles without saturation, from \
         {lowest_with:.0} with it"
    )
}

/// Thresholds of those latencies that have one.
pub fn thresholds(
    formulas: &[Formula],
    observations: &[Observation],
    known: &JudgingKernels,
) -> Vec<Threshold> {
    let threshold = |formula: &Formula| {
        let separation =
            separation(&readings(formula, observations, known, true)).filter(Separation::is_good)?;
        Some(Threshold {
            indicator: formula.name.clone(),
            value: separation.threshold,
            unit: "cycles".to_owned(),
            means: "memory is saturated".to_owned(),
            how: format!("readers at every pace on one core to all: {}", words(&separation)),
        })
    };
    formulas.iter().filter_map(threshold).collect()
}

/// Judges a latency.
pub fn judge(formula: &Formula, observations: &[Observation], known: &JudgingKernels) -> Judged {
    let (on, off) =
        (readings(formula, observations, known, true), readings(formula, observations, known, false));
    let trust = match never(formula, observations).filter(|_| on.is_empty()) {
        Some(missing) => Trust::Untested { missing },
        None => verdict(&on),
    };
    Judged {
        events: formula.above.iter().chain(&formula.below).cloned().collect(),
        without_prefetch: (!off.is_empty()).then(|| Box::new(verdict(&off))),
        remarks: remarks(observations, known, &on, &off),
        evidence: on.iter().chain(&off).map(Reading::evidence).collect(),
        ..Judged::new(formula.name.clone(), Purpose::Latency, PURPOSE, "latency", trust)
    }
}

/// Why one of its events has no value.
fn never(formula: &Formula, observations: &[Observation]) -> Option<String> {
    let events = || formula.above.iter().chain(&formula.below);
    let refusal = |one: &Observation| {
        let missing =
            one.counts.iter().find(|(name, value)| value.is_err() && events().any(|event| event == name))?;
        missing.1.as_ref().err().cloned()
    };
    observations.iter().find_map(refusal)
}

fn remarks(
    observations: &[Observation],
    known: &JudgingKernels,
    on: &[Reading<'_>],
    off: &[Reading<'_>],
) -> Vec<String> {
    let mut remarks = Vec::new();
    let plain = |role: &Role| *role == Role::Chase(Between::Nothing);
    let chases = observations
        .iter()
        .filter(|one| known.is(&one.experiment.kernel, plain) && one.experiment.place == KernelPlace::Memory);
    let idle: Vec<f64> = chases.filter_map(|one| Some(one.truth.cycles? / one.truth.chain)).collect();
    let lowest = on.iter().chain(off).map(|one| one.value).reduce(f64::min);
    if let Some((idle, lowest)) = median(&idle).zip(lowest) {
        remarks.push(format!(
            "A load that waits alone takes {idle:.0} cycles by time; its lowest is {lowest:.0}."
        ));
    }
    let variations: Vec<f64> = on.iter().chain(off).filter_map(|one| one.variation).collect();
    if let (Some(mean), Some(most)) = (mean(&variations), variations.iter().copied().reduce(f64::max)) {
        remarks.push(format!(
            "Coefficient of variation over repetitions: {:.2} % on average, {:.2} % at most.",
            mean * 100.0,
            most * 100.0
        ));
    }
    for (state, readings) in [("on", on), ("off", off)] {
        if let Some(separation) = separation(readings) {
            remarks.push(format!("Prefetchers {state}: {}.", words(&separation)));
        }
    }
    remarks
}

fn verdict(readings: &[Reading<'_>]) -> Trust {
    if readings.is_empty() {
        return Trust::Untested { missing: "it was counted in no experiment".to_owned() };
    }
    let Some(separation) = separation(readings) else {
        let missing = "the readers reached no saturation, or nothing below it";
        return Trust::Untested { missing: missing.to_owned() };
    };
    let Separation { threshold, .. } = separation;
    if separation.is_good() {
        return Trust::Qualitative {
            tells: format!("that memory is saturated: above {threshold:.0} cycles here"),
            misses: "the latency of a single load".to_owned(),
        };
    }
    let values = |wanted: bool| {
        let some = readings.iter().filter(move |one| one.saturated() == Some(wanted));
        median(&some.map(|one| one.value).collect::<Vec<f64>>()).unwrap_or(0.0)
    };
    if values(true) > values(false) {
        return Trust::Qualitative {
            tells: "a little: it rises when memory is saturated".to_owned(),
            misses: format!("by a threshold: {}", words(&separation)),
        };
    }
    let highest = readings.iter().filter(|one| one.saturated() == Some(false));
    let highest = highest.max_by(|one, other| one.value.total_cmp(&other.value));
    Trust::Broken {
        flaw: Flaw::DoesNotFollow { worst: 1.0 },
        why: format!("does not rise when memory is saturated: {}", words(&separation)),
        shown_by: highest.map_or(String::new(), |one| one.observation.experiment.label()),
    }
}

#[cfg(test)]
mod tests {
    use machine::Bytes;
    use record::validate::{Experiment, Lines, Truth};

    use super::*;

    const LATENCY: Formula = Formula { name: Indicator::L1MissLatency, above: Vec::new(), below: Vec::new() };

    fn formula() -> Formula {
        Formula { above: vec!["E".to_owned()], ..LATENCY }
    }

    fn known() -> JudgingKernels {
        JudgingKernels::of(&kernels::KernelCatalogue::builtin().unwrap()).unwrap()
    }

    /// A reader on `cores` with `nops` that draws so many lines per microsecond, under an indicator of this value.
    fn reader(cores: usize, nops: u64, lines: f64, value: f64, run: u32) -> Observation {
        let experiment = Experiment {
            kernel: "delayed-read".to_owned(),
            parameters: vec![("nops".to_owned(), nops)],
            place: KernelPlace::Memory,
            size: Bytes(1 << 20),
            width: None,
            cores,
            remote: false,
            siblings: false,
            prefetch: true,
            run,
        };
        let below = Lines { read: lines, ..Lines::default() };
        let truth = Truth { below: [below; 3], ..Truth::default() };
        let counts = vec![("E".to_owned(), Ok(value))];
        Observation { experiment, elapsed_ns: 1000.0, truth, counts, imbalance: Vec::new() }
    }

    /// Memory gives 100 lines per microsecond; one eager reader draws 40 of them, one at ease 10.
    fn machine(value: &dyn Fn(usize, u64) -> f64) -> Vec<Observation> {
        let mut all = Vec::new();
        for cores in [1, 2, 4, 8] {
            for (nops, alone) in [(0, 40.0), (500, 10.0)] {
                let lines = (alone * cores as f64).min(100.0);
                all.push(reader(cores, nops, lines, value(cores, nops), 0));
            }
        }
        all
    }

    #[test]
    fn a_latency_that_rises_with_saturation_has_a_threshold_between() {
        let honest = |cores: usize, nops: u64| if nops == 0 && cores >= 4 { 600.0 } else { 200.0 };
        let observations = machine(&honest);
        let found = thresholds(&[formula()], &observations, &known());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((200.0..600.0).contains(&found[0].value), "{found:?}");
        assert!(found[0].how.contains("0 of"), "{}", found[0].how);
        assert!(matches!(judge(&formula(), &observations, &known()).trust, Trust::Qualitative { .. }));
    }

    #[test]
    fn a_latency_that_is_high_without_saturation_has_none() {
        // As sampled latency may be (helm2019 §6.3): highest where the machine is nearly idle.
        let fooled = |cores: usize, _: u64| if cores == 1 { 900.0 } else { 300.0 + 10.0 * cores as f64 };
        let observations = machine(&fooled);
        assert!(thresholds(&[formula()], &observations, &known()).is_empty());
        let backwards = machine(&|cores, nops| if nops == 0 && cores >= 4 { 100.0 } else { 400.0 });
        assert!(matches!(judge(&formula(), &backwards, &known()).trust, Trust::Broken { .. }));
    }

    #[test]
    fn much_bandwidth_that_slows_nobody_down_is_no_saturation() {
        let mut observations = vec![reader(1, 500, 12.5, 150.0, 0), reader(8, 500, 98.0, 160.0, 0)];
        observations.extend([reader(1, 0, 40.0, 210.0, 0), reader(8, 0, 100.0, 700.0, 0)]);
        let judged = judge(&formula(), &observations, &known());
        assert!(matches!(judged.trust, Trust::Qualitative { .. }), "{:?}", judged.trust);
        assert!(judged.evidence.iter().any(|one| one.note.starts_with("not saturated: 98 %")));
    }

    #[test]
    fn repetitions_give_the_variation_and_too_little_load_gives_no_verdict() {
        let repeated: Vec<_> = [190.0, 200.0, 210.0].map(|value| reader(1, 0, 40.0, value, 1)).to_vec();
        let judged = judge(&formula(), &repeated, &known());
        assert!(matches!(judged.trust, Trust::Untested { .. }));
        assert!(judged.remarks.iter().any(|remark| remark.contains("5.00 %")), "{:?}", judged.remarks);
    }
}
