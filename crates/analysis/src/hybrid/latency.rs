//! How long loads that miss wait, interval by interval.

use std::collections::BTreeSet;

use events::groups::{Chosen, FormulaInputs, MetricGroup};
use record::{
    count::{CountedMetric, Counts},
    run::Run,
    sampled::EventSlice,
};

use super::HybridInterval;
use crate::event_names::plain;

/// The metric, and the group that has it.
pub(super) const LATENCY_METRIC: &str = "load-miss real latency";
const GROUP: &str = "LATENCY";

/// Fewer samples of the first event in an interval than this say nothing about it.
const FEWEST_SAMPLES: u64 = 5;

/// Latency over time, and where it comes from.
pub(super) struct LatencyIntervals {
    pub intervals: Vec<HybridInterval>,
    pub source: String,
}

/// From whatever the recording has; else what it would take.
pub(super) fn intervals(run: &Run) -> Result<LatencyIntervals, String> {
    let counted = run.import.iter().flat_map(|import| &import.counts);
    let mut withheld = None;
    for counts in counted {
        match of_counts(counts) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(reason)) => withheld = Some(reason),
            None => {}
        }
    }
    of_samples(run).ok_or_else(|| {
        withheld.unwrap_or_else(|| {
            "sample L1D_PEND_MISS.PENDING, MEM_LOAD_RETIRED.L1_MISS and MEM_LOAD_RETIRED.FB_HIT beside them (-e), or give what \
             'perf stat -I 100' counted of them to 'memwall import'"
                .to_owned()
        })
    })
}

/// Of `perf stat -I`: its clock is taken to begin with that of the samples.
fn of_counts(counts: &Counts) -> Option<Result<LatencyIntervals, String>> {
    let metrics = counts.metrics.iter().flat_map(|group| &group.metrics);
    let metric: &CountedMetric = metrics.into_iter().find(|metric| metric.name == LATENCY_METRIC)?;
    let ends = counts.runs.first()?.intervals.iter().map(|interval| interval.end_ns);
    if metric.series.iter().all(Option::is_none) {
        let withheld = metric.missing.first().filter(|_| metric.values.is_empty());
        return withheld.map(|reason| Err(reason.clone()));
    }
    let mut start_ns = 0;
    let interval = |(end_ns, latency_cycles): (u64, &Option<f64>)| {
        let found = HybridInterval { start_ns, end_ns, latency_cycles: *latency_cycles, flagged: false };
        start_ns = end_ns;
        found
    };
    let intervals = ends.zip(&metric.series).map(interval).collect();
    let source = "counts of perf stat, whose clock is taken to begin with that of the samples".to_owned();
    Some(Ok(LatencyIntervals { intervals, source }))
}

/// Of samples of the events: each stands for its period.
fn of_samples(run: &Run) -> Option<LatencyIntervals> {
    let list = &run.sampled.list;
    let sampled = |event: &str| {
        let wanted = plain(event);
        list.iter().position(|one| one.refusal.is_none() && plain(&one.name) == wanted)
    };
    let group = MetricGroup::named(GROUP)?;
    let chosen = group.choose(&|event| sampled(event).is_some());
    let metric = chosen.metrics.iter().position(|metric| metric.name == LATENCY_METRIC)?;
    let inputs: Vec<(&str, usize)> =
        chosen.events.iter().filter_map(|(input, event)| Some((*input, sampled(event)?))).collect();
    let needed = chosen.metrics[metric].formula.names();
    if !needed.iter().all(|name| inputs.iter().any(|(input, _)| input == name)) {
        return None;
    }
    let slice_ns = run.about.slice_ns.max(1);
    let slices = &run.sampled.slices;
    // Those in which anything was sampled: of others nothing is known.
    let known: BTreeSet<u64> = slices.iter().map(|slice| slice.slice).collect();
    let mut intervals = Vec::new();
    for slice in known {
        let of = |event: usize| {
            slices
                .binary_search_by_key(&(event as u32, slice), |one: &EventSlice| (one.event, one.slice))
                .ok()
        };
        let latency_cycles = latency(&chosen, metric, &inputs, &|event| of(event).map(|at| slices[at]), list);
        let start_ns = slice.saturating_mul(slice_ns);
        let end_ns = start_ns.saturating_add(slice_ns);
        intervals.push(HybridInterval { start_ns, end_ns, latency_cycles, flagged: false });
    }
    let names: Vec<&str> = inputs
        .iter()
        .filter(|(input, _)| needed.contains(input))
        .map(|(_, event)| list[*event].name.as_str())
        .collect();
    Some(LatencyIntervals { intervals, source: format!("samples of {}", names.join(", ")) })
}

fn latency(
    chosen: &Chosen<'_>,
    metric: usize,
    inputs: &[(&str, usize)],
    slice: &dyn Fn(usize) -> Option<EventSlice>,
    list: &[record::sampled::RecordedEvent],
) -> Option<f64> {
    let of = |input: &str| inputs.iter().find(|(name, _)| *name == input).map(|(_, event)| *event);
    let pending = of("pending").and_then(slice)?;
    if pending.samples < FEWEST_SAMPLES {
        return None;
    }
    let count = |input: &str| {
        let event = of(input)?;
        // It was sampled all the time: without a sample it happened less often than one stands for.
        let Some(found) = slice(event) else { return Some(0.0) };
        match found.period {
            Some(period) => Some(period as f64),
            None => Some(found.samples as f64 * list.get(event)?.mean_period()?),
        }
    };
    let given = FormulaInputs { count: &count, seconds: None, program_cycles: None, profile: None };
    let value = chosen.evaluate(&given).into_iter().nth(metric)?.value.ok()?.value;
    value.is_finite().then_some(value)
}
