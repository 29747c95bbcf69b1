//! Indicators of counted events: metrics of groups, useful work by CPU, and addresses of sampled loads.

use std::collections::{BTreeMap, BTreeSet};

use events::{CountedPlace, MetricGroup};
use record::count::{CountedRegion, CountedRun, Counts};
use serde::Serialize;
use trust::{Standing, Trust};

use super::{IndicatorValue, Indicators, PatternFinding, judge};
use crate::findings::Confidence;

const OTHERWISE: &str = "an event that this CPU does not have, or that was not asked for";

const ADDRESSES: &str = "addresses of loads, by 'memwall run' or by sampling loads: events alone cannot tell false from true \
                         sharing";

/// Fewer operations, divisions or lines than one in this many instructions are no measure of work.
const RARE: f64 = 1000.0;

/// Metrics of loads that wait: where they wait is the data whose loads take longest.
const WAITS_FOR_DATA: [&str; 4] =
    ["STALLS: memory bound", "STALLS: latency bound", "STALLS: bandwidth bound", "TLB: cycles in load walks"];

/// The patterns of a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionPatterns {
    /// Names of it and the regions around it.
    pub region: String,
    /// Those found first.
    pub patterns: Vec<PatternFinding>,
}

/// Judges each region by its own counts, and by those loads that were sampled in it.
pub fn in_regions(counts: &Counts, shared: &BTreeMap<String, SharedLoads>) -> Vec<RegionPatterns> {
    let judged = |region: &CountedRegion| RegionPatterns {
        region: region.path.clone(),
        patterns: judge(&from_counts(&counts.of_region(region), shared.get(&region.path))),
    };
    counts.regions.iter().map(judged).collect()
}

/// What events say, by name: `GROUP: metric`, shares between 0 and 1. `shared` has loads that found their line modified by
/// another core, if loads were sampled.
pub fn from_counts(counts: &Counts, shared: Option<&SharedLoads>) -> Indicators {
    let mut found = Indicators::new(OTHERWISE);
    for group in &counts.metrics {
        for metric in &group.metrics {
            let name = format!("{}: {}", group.group, metric.name);
            let is_share = metric.unit.starts_with('%');
            let scale = if is_share { 0.01 } else { 1.0 };
            let known = metric.values.len();
            if known == 0 {
                if found.get(&name).is_err() {
                    let why = metric.missing.first().map_or("was not counted", String::as_str);
                    found.lack(&name, format!("{name}: {why}"));
                }
                continue;
            }
            let mean = scale * metric.values.iter().sum::<f64>() / known as f64;
            let about = match is_share {
                true => format!("{}, {}", metric.name, metric.unit.trim_start_matches(['%', ' '])),
                false => format!("{}, {}", metric.name, metric.unit),
            };
            let ends = metric.values.iter().map(|value| value * scale);
            let (low, high) = (ends.clone().fold(mean, f64::min), ends.fold(mean, f64::max));
            let mut value = IndicatorValue::new(about, mean, confidence(metric.trust.as_ref()));
            if WAITS_FOR_DATA.contains(&name.as_str()) {
                value.place =
                    shared.and_then(|shared| shared.slowest.clone().or_else(|| shared.stored.clone()));
            }
            found.put(&name, value.between(low, high));
        }
    }
    useful_work(counts, &mut found);
    of_peak(counts, &mut found);
    match shared.and_then(SharedLoads::parts) {
        Some((falsely, truly)) => {
            for (name, share, words) in [
                ("falsely_shared_loads", falsely, "different bytes"),
                ("truly_shared_loads", truly, "the same bytes"),
            ] {
                let about = format!(
                    "of the loads that found their line modified elsewhere, those of lines of which threads use {words}"
                );
                let mut value = IndicatorValue::new(about, share, Confidence::Medium);
                value.place = shared.and_then(|shared| shared.object.clone());
                found.put(name, value);
            }
        }
        None => {
            found.lack("falsely_shared_loads", ADDRESSES);
            found.lack("truly_shared_loads", ADDRESSES);
        }
    }
    found
}

fn confidence(trust: Option<&Standing>) -> Confidence {
    match trust.map(|standing| &standing.trust) {
        Some(Trust::Trusted { .. }) => Confidence::High,
        Some(Trust::Qualitative { .. }) => Confidence::Medium,
        _ => Confidence::Low,
    }
}

/// Work by CPU or thread: operations and divisions, or lines where there are none; never instructions, since spinning
/// retires too.
fn useful_work(counts: &Counts, into: &mut Indicators) {
    const NAME: &str = "work_imbalance";
    let (Some(group), Some(run)) = (MetricGroup::named("IMBALANCE"), counts.runs.first()) else {
        return into.lack(NAME, "the events of group IMBALANCE");
    };
    let sums = |inputs: &[&str]| by_place(counts, run, group, inputs);
    let (Some(instructions), operations, volume) =
        (sums(&["instructions"]), sums(&["calculations", "divides"]), sums(&["l1_in", "l1_out"]))
    else {
        return into.lack(NAME, "events counted CPU by CPU: 'memwall count --patterns' does so");
    };
    if instructions.len() < 2 {
        return into.lack(NAME, "several threads");
    }
    let all = |sums: &BTreeMap<String, f64>| sums.values().sum::<f64>();
    let is_enough = |sums: &BTreeMap<String, f64>| all(sums) * RARE >= all(&instructions);
    let measures = [(operations, "operations"), (volume, "lines moved")];
    let chosen = measures.into_iter().find_map(|(sums, words)| Some((sums.filter(is_enough)?, words)));
    let Some((sums, words)) = chosen else {
        return into
            .lack(NAME, "a measure of useful work: it hardly computes in vectors, divides or moves lines");
    };
    let most = sums.values().copied().fold(0.0, f64::max);
    let mean = all(&sums) / instructions.len() as f64;
    let about = format!("of the longest thread's useful work ({words}), what the others lack on average");
    into.put(NAME, IndicatorValue::new(about, 1.0 - mean / most.max(f64::MIN_POSITIVE), Confidence::Medium));
}

/// What the busiest package moves of its part of the most that all together moved: threads of one package fill its memory
/// while the others rest.
fn of_peak(counts: &Counts, into: &mut Indicators) {
    const NAME: &str = "memory_of_peak";
    let groups = counts.metrics.iter().filter(|group| group.group == "MEM");
    let peak = groups.flat_map(|group| &group.constants).find(|constant| constant.name == "peak");
    let Some(peak) = peak.and_then(|peak| peak.measured).filter(|peak| *peak > 0.0) else {
        return into.lack(NAME, "the machine's bandwidth: 'memwall calibrate'");
    };
    let (Some(group), Some(run)) = (MetricGroup::named("MEM"), counts.runs.first()) else { return };
    let of_inputs = group.inputs.iter().filter(|(input, _)| input != "bus");
    let names: Vec<&String> = of_inputs.flat_map(|(_, names)| names).collect();
    let mut packages: BTreeMap<u32, f64> = BTreeMap::new();
    for count in &run.counts {
        let is_line = counts.events.get(count.event).is_some_and(|known| names.contains(&&known.name));
        if let (CountedPlace::Box { package, .. }, Some(lines), true) =
            (&count.place, count.value.estimate(), is_line)
        {
            *packages.entry(*package).or_default() += lines;
        }
    }
    let Some(most) = packages.values().copied().reduce(f64::max).filter(|_| run.elapsed_ns > 0) else {
        return into.lack(NAME, "counters of the memory controllers");
    };
    let rate = most * LINE as f64 / (run.elapsed_ns as f64 / 1e9);
    let about = "what memory of the busiest package moves, of the most it moved when calibrated";
    into.put(NAME, IndicatorValue::new(about, rate / (peak / packages.len() as f64), Confidence::Medium));
}

/// Some inputs of a group by place, added up; none if none of them was counted anywhere.
fn by_place(
    counts: &Counts,
    run: &CountedRun,
    group: &MetricGroup,
    inputs: &[&str],
) -> Option<BTreeMap<String, f64>> {
    let of_inputs = group.inputs.iter().filter(|(input, _)| inputs.contains(&input.as_str()));
    let names: Vec<&String> = of_inputs.flat_map(|(_, names)| names).collect();
    let chosen = |event: usize| counts.events.get(event).is_some_and(|known| names.contains(&&known.name));
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for count in run.counts.iter().filter(|count| chosen(count.event)) {
        let place = match &count.place {
            CountedPlace::Cpu(cpu) => format!("CPU {cpu}"),
            CountedPlace::Thread(tid) => format!("thread {tid}"),
            _ => continue,
        };
        if let Some(estimate) = count.value.estimate() {
            *sums.entry(place).or_default() += estimate;
        }
    }
    (!sums.is_empty()).then_some(sums)
}

/// Loads that found their line modified by another core, by line: collected one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedLoadsTally {
    lines: BTreeMap<u64, BTreeMap<u32, BTreeMap<u64, u64>>>,
    objects: BTreeMap<String, u64>,
    cycles: BTreeMap<String, u64>,
    stores: BTreeMap<String, u64>,
}

/// Bytes of a line, and of the words that are told apart in it.
const LINE: u64 = 64;
const WORD: u64 = 8;

/// A reader of so many words of a line that another core wrote reads what that wrote.
const MANY_WORDS: usize = 4;

impl SharedLoadsTally {
    /// A load, shared or not, of some data, and how long it took.
    pub fn took(&mut self, object: &str, cycles: u64) {
        *self.cycles.entry(object.to_owned()).or_default() += cycles;
    }

    /// A store of some data.
    pub fn stored(&mut self, object: &str) {
        *self.stores.entry(object.to_owned()).or_default() += 1;
    }

    /// Whether any load of known data took long.
    pub fn has_loads(&self) -> bool {
        !self.cycles.is_empty()
    }

    /// A load of a CPU, and the data it was of, if that is known.
    pub fn add(&mut self, cpu: u32, address: u64, object: Option<&str>) {
        if let Some(object) = object {
            *self.objects.entry(object.to_owned()).or_default() += 1;
        }
        let words = self.lines.entry(address / LINE).or_default().entry(cpu).or_default();
        *words.entry(address % LINE / WORD).or_default() += 1;
    }

    /// How its lines are shared.
    pub fn finish(&self) -> SharedLoads {
        let mut found = SharedLoads::default();
        for cpus in self.lines.values() {
            let loads: u64 = cpus.values().flat_map(BTreeMap::values).sum();
            let mut seen = BTreeSet::new();
            let meets = cpus.values().flat_map(BTreeMap::keys).any(|word| !seen.insert(*word));
            let reads_all = cpus.len() == 1 && seen.len() >= MANY_WORDS;
            match (cpus.len(), meets) {
                (1, _) if !reads_all => found.undecided += loads,
                (1, _) | (_, true) => found.truly += loads,
                (_, false) => found.falsely += loads,
            }
        }
        let most =
            |of: &BTreeMap<String, u64>| of.iter().max_by_key(|(_, sum)| **sum).map(|one| one.0.clone());
        found.object = most(&self.objects);
        found.slowest = most(&self.cycles);
        found.stored = most(&self.stores);
        found
    }
}

/// Loads that found their line modified by another core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLoads {
    /// Of lines of which each CPU loads words of its own.
    pub falsely: u64,
    /// Of lines of which two load the same word, or one loads nearly all.
    pub truly: u64,
    /// Of lines of which only one CPU was seen to load a few words.
    pub undecided: u64,
    /// The data that most of them were of.
    pub object: Option<String>,
    /// The data whose loads took longest in all, shared or not.
    pub slowest: Option<String>,
    /// The data that most stores were to, where those were sampled.
    pub stored: Option<String>,
}

impl SharedLoads {
    /// The parts that are shared falsely and truly; none without loads.
    fn parts(&self) -> Option<(f64, f64)> {
        let all = (self.falsely + self.truly + self.undecided) as f64;
        (all > 0.0).then(|| (self.falsely as f64 / all, self.truly as f64 / all))
    }
}
