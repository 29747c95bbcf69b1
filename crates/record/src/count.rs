//! Events counted over a program, a kernel, or the whole machine.

mod figures;
mod metrics;
mod packages;

use events::{Count, CountedPlace, Missing, Signal, Value};
use serde::{Deserialize, Serialize};
use trust::{Basis, Standing};

use crate::run::{Ending, Usage};

pub use figures::{MachineFigures, MeasuredBy};
pub use metrics::{
    BarPart, CountedBar, CountedConstant, CountedMetric, FigureMakers, GroupMetrics, MetricLevel,
    MetricsAround, PrintedMetric, group_metrics, program_cycles,
};
pub use packages::{PackageMetrics, add_packages};

/// Name and version of the form in which counts are written as JSON.
pub const SCHEMA: &str = "memwall.count/1";

/// The result of `memwall count`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// [`SCHEMA`].
    pub schema: String,
    /// What counted: `perf_event`, `simulated tiny`.
    pub instrument: String,
    /// Whom: a command, a process, CPUs, a kernel.
    pub target: String,
    /// The events, in the order asked for; groups add theirs behind.
    pub events: Vec<CountedEvent>,
    /// Each repetition. Where events did not fit together, one has several passes over the target.
    pub runs: Vec<CountedRun>,
    /// Metrics of the groups asked for.
    pub metrics: Vec<GroupMetrics>,
    /// Package of each CPU that appears as a place.
    pub packages: Vec<(u32, u32)>,
    /// What spoils or limits the counts, in plain sentences.
    pub remarks: Vec<String>,
    /// Cycles and instructions of each pass, where events were spread over several; in order.
    #[serde(default)]
    pub witnesses: Vec<PassWitness>,
    /// What a lower core clock would cost, where group CLOCK was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_clock: Option<LowerClock>,
    /// The same by region of a scenario, where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<CountedRegion>,
    /// Where the trust beside events and metrics comes from; none as long as nobody asked.
    pub validation: Option<Basis>,
    /// The user stopped before all repetitions were done.
    pub interrupted: bool,
}

impl Counts {
    /// What a region's counts would be if it were all.
    pub fn of_region(&self, region: &CountedRegion) -> Self {
        let run = CountedRun {
            elapsed_ns: region.elapsed_ns,
            ending: None,
            usage: None,
            counts: region.counts.clone(),
            intervals: Vec::new(),
        };
        Self {
            runs: vec![run],
            metrics: region.metrics.clone(),
            lower_clock: region.lower_clock.clone(),
            remarks: region.remarks.clone(),
            regions: Vec::new(),
            ..self.clone()
        }
    }
}

/// What was counted in one region, all its entries together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedRegion {
    /// Names of it and the regions around it.
    pub path: String,
    /// Time in it.
    pub elapsed_ns: u64,
    /// Every event at every place.
    pub counts: Vec<Count>,
    /// Metrics of the groups asked for.
    pub metrics: Vec<GroupMetrics>,
    /// What a lower core clock would cost, where group CLOCK was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_clock: Option<LowerClock>,
    /// What spoils or limits these counts, in plain sentences.
    pub remarks: Vec<String>,
}

impl CountedRegion {
    /// Counts of a region alone.
    pub fn new(path: String, counts: Counts) -> Self {
        let Counts { mut runs, metrics, lower_clock, remarks, .. } = counts;
        let (elapsed_ns, counts) = runs.pop().map_or((0, Vec::new()), |run| (run.elapsed_ns, run.counts));
        Self { path, elapsed_ns, counts, metrics, lower_clock, remarks }
    }
}

/// What a lower core clock would cost (molka2017 §5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowerClock {
    /// The lower clock over the present one.
    pub clock_share: f64,
    /// It would hardly take longer.
    pub free: bool,
    /// How much longer it takes by a rough estimate, in percent of its time, if all waiting shrinks as the cores slow down.
    pub if_waiting_shrinks_percent: f64,
    /// The same if no waiting shrinks.
    pub if_waiting_stays_percent: f64,
    /// Why, in a sentence.
    pub why: String,
    /// The same interval by interval, where it was counted over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<ClockPhases>,
}

/// Phases of a time line in which a lower core clock would hardly cost time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockPhases {
    /// Intervals of which enough was counted to judge them.
    pub judged: u64,
    /// How long these lasted together.
    pub judged_ns: u64,
    /// The phases, each of intervals that follow each other.
    pub free: Vec<ClockPhase>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPhase {
    /// Since counting began.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

/// What every pass counted, whatever else it did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassWitness {
    /// Core cycles.
    pub cycles: Option<f64>,
    /// Retired instructions.
    pub instructions: Option<f64>,
}

/// One event that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedEvent {
    /// As asked for.
    pub name: String,
    /// What was programmed, whatever it is called.
    pub signal: Signal,
    /// What one count stands for, if not itself: `64B`, `4flop`.
    pub scale: Option<String>,
    /// Known errata.
    pub errata: Vec<String>,
    /// How far it can be believed here; none if nobody tried. Of a broken event no value is kept.
    pub trust: Option<Standing>,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedRun {
    /// Wall time counted; of a simulated machine, its own time. With several passes, their mean.
    pub elapsed_ns: u64,
    /// How the program ended, if one was run.
    pub ending: Option<Ending>,
    /// What the kernel says the program used, if one was run.
    pub usage: Option<Usage>,
    /// Every event at every place.
    pub counts: Vec<Count>,
    /// The same cut into intervals, if asked for: increments since the interval before.
    pub intervals: Vec<CountedInterval>,
}

/// One interval of a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedInterval {
    /// Since counting began.
    pub end_ns: u64,
    /// Every event at every place, within this interval alone.
    pub counts: Vec<Count>,
}

/// An event summed over places.
#[derive(Clone, Debug, PartialEq)]
pub enum Total {
    /// All places counted.
    Counted {
        /// The sum, scaled up where a counter was shared.
        estimate: f64,
        /// The smallest share of its time that any place had a counter.
        running_share: f64,
    },
    /// A sum would lack something.
    Missing {
        /// Why, of the first place that lacks it.
        reason: Missing,
        /// Places without a value.
        places: usize,
        /// All places.
        of: usize,
    },
}

impl Total {
    /// The sum, if nothing is missing.
    pub fn estimate(&self) -> Option<f64> {
        match self {
            Self::Counted { estimate, .. } => Some(*estimate),
            Self::Missing { .. } => None,
        }
    }
}

/// Sums one event over those of its places that `include` takes; none if there are none.
pub fn total(counts: &[Count], event: usize, include: impl Fn(&CountedPlace) -> bool) -> Option<Total> {
    let mine: Vec<&Value> = counts
        .iter()
        .filter(|count| count.event == event && include(&count.place))
        .map(|count| &count.value)
        .collect();
    let missing: Vec<&Missing> = mine.iter().filter_map(|value| lacks(value)).collect();
    if let Some(reason) = missing.first() {
        return Some(Total::Missing { reason: (*reason).clone(), places: missing.len(), of: mine.len() });
    }
    let share = |value: &&Value| value.running_share().unwrap_or(1.0);
    let running_share = mine.iter().map(share).reduce(f64::min)?;
    Some(Total::Counted { estimate: mine.iter().filter_map(|value| value.estimate()).sum(), running_share })
}

/// Why a value is none.
fn lacks(value: &Value) -> Option<&Missing> {
    match value {
        Value::Missing(reason) => Some(reason),
        Value::Counted { running_ns: 0, enabled_ns: 0, .. } => Some(&Missing::NeverEnabled),
        Value::Counted { running_ns: 0, .. } => Some(&Missing::NeverRan),
        Value::Counted { .. } => None,
    }
}

/// Increments from one reading to the next; what is missing in either is missing.
pub fn since(before: &[Count], after: &[Count]) -> Vec<Count> {
    let difference = |count: &Count| {
        let earlier = before.iter().find(|old| old.event == count.event && old.place == count.place);
        let value = match (&count.value, earlier.map(|old| &old.value)) {
            (
                &Value::Counted { raw, enabled_ns, running_ns },
                Some(&Value::Counted {
                    raw: raw_before,
                    enabled_ns: enabled_before,
                    running_ns: running_before,
                }),
            ) => Value::Counted {
                raw: raw.saturating_sub(raw_before),
                enabled_ns: enabled_ns.saturating_sub(enabled_before),
                running_ns: running_ns.saturating_sub(running_before),
            },
            (value, _) => value.clone(),
        };
        Count { value, ..count.clone() }
    };
    after.iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(event: usize, cpu: u32, raw: u64, enabled_ns: u64, running_ns: u64) -> Count {
        Count { event, place: CountedPlace::Cpu(cpu), value: Value::Counted { raw, enabled_ns, running_ns } }
    }

    #[test]
    fn a_sum_that_lacks_a_place_is_missing() {
        let mut counts = vec![counted(0, 0, 5, 10, 10), counted(0, 1, 7, 10, 5), counted(1, 0, 9, 10, 10)];
        assert_eq!(total(&counts, 0, |_| true), Some(Total::Counted { estimate: 19.0, running_share: 0.5 }));
        assert_eq!(total(&counts, 2, |_| true), None);
        counts.push(counted(0, 2, 0, 10, 0));
        assert_eq!(
            total(&counts, 0, |_| true),
            Some(Total::Missing { reason: Missing::NeverRan, places: 1, of: 3 })
        );
        assert!(matches!(
            total(&counts, 0, |place| *place != CountedPlace::Cpu(2)),
            Some(Total::Counted { .. })
        ));
    }

    /// What a group makes of one run in which each input has a count.
    fn shares(formula: &str, counts: &[(&str, u64)]) -> CountedMetric {
        let inputs: Vec<String> = counts.iter().map(|(name, _)| format!("{name} = [\"{name}\"]")).collect();
        let text = format!(
            "[[group]]\nname = \"G\"\nabout = \"x\"\ninputs = {{ {} }}\n[group.purposes]\na = \"stall\"\n\
             [[group.metric]]\nname = \"m\"\nformula = \"{formula}\"\nunit = \"% of cycles\"\nabout = \"y\"\n",
            inputs.join(", ")
        );
        let groups = events::MetricGroup::parse(&text, "g.toml").unwrap();
        let chosen = groups[0].choose(&|_| true);
        let indexed: Vec<(&str, usize)> =
            counts.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        let found = counts.iter().enumerate().map(|(at, (_, raw))| counted(at, 0, *raw, 1, 1)).collect();
        let run =
            CountedRun { elapsed_ns: 1, ending: None, usage: None, counts: found, intervals: Vec::new() };
        group_metrics(&chosen, &indexed, &[run], MetricsAround::default()).metrics.remove(0)
    }

    #[test]
    fn what_is_more_than_its_whole_is_not_printed_as_a_share_of_it() {
        let share = |part: u64| shares("100 * a / cycles", &[("a", part), ("cycles", 1000)]);
        assert_eq!(share(820).values, [82.0]);
        assert_eq!(share(1003).values, [100.0], "the edges of counting");
        let above = share(1480);
        assert!(
            above.values.is_empty() && above.missing[0].starts_with("148 % is no share of cycles"),
            "{above:?}"
        );
        assert_eq!(above.purposes, [Some("stall".to_owned()), None]);
        let below = shares("100 * (cycles - a) / cycles", &[("a", 1480), ("cycles", 1000)]);
        assert!(below.values.is_empty() && below.missing[0].contains("no share"), "{below:?}");
    }

    #[test]
    fn what_is_cut_off_where_events_contradict_each_other_is_kept() {
        let share = |part: u64| shares("100 * capped(a, cycles) / cycles", &[("a", part), ("cycles", 1000)]);
        assert_eq!((share(1480).values, share(1480).cut_off), (vec![100.0], vec![48.0]));
        assert!(share(480).cut_off.is_empty());
    }

    #[test]
    fn increments_keep_what_is_missing() {
        let before = vec![counted(0, 0, 5, 10, 10), counted(1, 0, 1, 1, 1)];
        let refused =
            Count { event: 1, place: CountedPlace::Cpu(0), value: Value::Missing(Missing::NeverRan) };
        let after = vec![counted(0, 0, 8, 30, 20), refused.clone()];
        assert_eq!(since(&before, &after), vec![counted(0, 0, 3, 20, 10), refused]);
    }
}
