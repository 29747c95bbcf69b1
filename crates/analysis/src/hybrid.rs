//! The hybrid of helm2019 §7, with events: intervals in which loads that miss wait longer than this machine's threshold are bound
//! by bandwidth, and only sampled loads inside them that waited as long name code and data.
//!
//! How long misses wait, interval by interval, comes from counts (`perf stat -I` beside a `perf.data`) or from samples of
//! the same events, each of which stands for its period.

mod latency;

use std::collections::HashMap;

use record::{
    ids::{FunctionId, ModuleId},
    loads::{LoadSample, LoadSamples},
    run::Run,
};
use serde::{Deserialize, Serialize};

use crate::{
    findings::{KnownLimits, ObjectId, TimeShare},
    objects::{self, Spaces},
    statistics,
};

/// Functions and objects that are named.
const MOST_PARTS: usize = 10;

/// What the hybrid says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HybridFindings {
    /// Cycles above which loads that miss wait for bandwidth on this machine, as its validation found.
    pub threshold_cycles: f64,
    /// Where the latency of each interval comes from, in words.
    pub source: String,
    /// One after the other.
    pub intervals: Vec<HybridInterval>,
    /// How many of them are flagged.
    pub flagged: u64,
    /// Sampled loads that took longer than the threshold, wherever they lie; not those that waited for a page walk.
    pub slow_loads: u64,
    /// Others that did, and waited for a page walk: that is no bandwidth (helm2019 §6.1).
    #[serde(default)]
    pub walked_loads: u64,
    /// Of these, inside flagged intervals: they alone name code and data.
    pub blamed_loads: u64,
    /// Functions of those, the one with most first.
    pub functions: Vec<HybridPart>,
    /// Objects of those whose address is known, the one with most first.
    pub objects: Vec<HybridPart>,
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HybridInterval {
    /// Since the start of the recording.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Load-miss real latency; none where too little was counted to say.
    pub latency_cycles: Option<f64>,
    /// It lies above the threshold.
    pub flagged: bool,
}

/// A function or a data object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HybridPart {
    /// Its name.
    pub name: String,
    /// The file it is in, of a function.
    pub module: Option<String>,
    /// Slow loads of it inside flagged intervals.
    pub loads: u64,
    /// Their share of all that can be attributed.
    pub share: TimeShare,
}

/// Of a recording whose machine has this threshold. None where neither loads nor how long they wait was measured: nobody asked.
pub(crate) fn hybrid(run: &Run, threshold: &KnownLimits<f64>) -> Option<KnownLimits<HybridFindings>> {
    let latency = latency::intervals(run);
    let loads = match &run.loads {
        LoadSamples::Taken(loads) if !loads.is_empty() => Ok(loads.as_slice()),
        LoadSamples::Refused(reason) => Err(reason.clone()),
        _ => Err("'memwall record --precise', or 'perf mem record', samples them".to_owned()),
    };
    let missing = |reason: String| Some(KnownLimits::Missing(reason));
    match (latency, loads, threshold) {
        (Err(_), Err(_), _) => None,
        (Err(reason), Ok(_), _) => {
            missing(format!("loads were sampled, and not how long they wait over time: {reason}"))
        }
        (Ok(_), Err(reason), _) => {
            missing(format!("it is known how long loads wait, and none were sampled: {reason}"))
        }
        (Ok(_), Ok(_), KnownLimits::Missing(reason)) => {
            missing(format!("no latency is known above which loads wait for bandwidth there: {reason}"))
        }
        (Ok(found), Ok(loads), KnownLimits::Value(cycles)) => {
            Some(KnownLimits::Value(findings(run, found, loads, *cycles)))
        }
    }
}

fn findings(
    run: &Run,
    latency: latency::LatencyIntervals,
    loads: &[LoadSample],
    threshold_cycles: f64,
) -> HybridFindings {
    let flag = |mut interval: HybridInterval| {
        interval.flagged = interval.latency_cycles.is_some_and(|cycles| cycles > threshold_cycles);
        interval
    };
    let intervals: Vec<HybridInterval> = latency.intervals.into_iter().map(flag).collect();
    let is_slow =
        |load: &&LoadSample| load.latency_cycles.is_some_and(|cycles| cycles as f64 > threshold_cycles);
    let walked = |load: &&LoadSample| load.translated_at_hand == Some(false);
    let (walked, slow): (Vec<&LoadSample>, Vec<&LoadSample>) = loads.iter().filter(is_slow).partition(walked);
    let is_flagged = |load: &&&LoadSample| {
        let at = intervals.partition_point(|interval| interval.end_ns <= load.time_ns);
        intervals.get(at).is_some_and(|interval| interval.flagged && interval.start_ns <= load.time_ns)
    };
    let blamed: Vec<&LoadSample> = slow.iter().filter(is_flagged).copied().collect();
    HybridFindings {
        threshold_cycles,
        source: latency.source,
        flagged: intervals.iter().filter(|interval| interval.flagged).count() as u64,
        intervals,
        slow_loads: slow.len() as u64,
        walked_loads: walked.len() as u64,
        blamed_loads: blamed.len() as u64,
        functions: functions(run, &blamed),
        objects: objects_of(run, &blamed),
    }
}

fn functions(run: &Run, loads: &[&LoadSample]) -> Vec<HybridPart> {
    let mut groups: HashMap<(Option<FunctionId>, ModuleId), u64> = HashMap::new();
    for place in loads.iter().filter_map(|load| run.place(load.place)) {
        *groups.entry((place.function, place.module)).or_default() += 1;
    }
    ranked(groups, |(function, module)| {
        let known = function.and_then(|id| run.function(id));
        let name = known.map_or_else(|| "unknown code".to_owned(), |function| function.name.clone());
        (name, run.module(*module).map(|module| module.path.clone()))
    })
}

fn objects_of(run: &Run, loads: &[&LoadSample]) -> Vec<HybridPart> {
    let mut spaces = Spaces::new(run);
    let mut groups: HashMap<ObjectId, u64> = HashMap::new();
    for load in loads {
        let Some((address, thread)) = load.address.zip(run.thread(load.thread)) else { continue };
        *groups.entry(spaces.find(thread.process, address.get(), load.time_ns)).or_default() += 1;
    }
    ranked(groups, |id| (objects::name_of(run, id, None), None))
}

/// Those with most loads first; names decide between equals.
fn ranked<Who>(
    groups: HashMap<Who, u64>,
    name: impl Fn(&Who) -> (String, Option<String>),
) -> Vec<HybridPart> {
    let all: u64 = groups.values().sum();
    let part = |(who, loads): (&Who, &u64)| {
        let (name, module) = name(who);
        Some(HybridPart { name, module, loads: *loads, share: statistics::share(*loads as f64, all as f64)? })
    };
    let mut parts: Vec<HybridPart> = groups.iter().filter_map(part).collect();
    parts.sort_by(|a, b| b.loads.cmp(&a.loads).then_with(|| a.name.cmp(&b.name)));
    parts.truncate(MOST_PARTS);
    parts
}

#[cfg(test)]
mod tests;
