//! The run cut into intervals.

use record::run::Run;

use super::{
    TimerOptions,
    tally::{SplitTally, Tally, add, split},
};
use crate::findings::{Timeline, TimelineInterval};

/// Shorter intervals hold too few samples to say anything.
const SHORTEST_NS: u64 = 10_000_000;

/// The most intervals, whatever length was asked for.
const MOST: u64 = 100_000;

/// An interval with fewer samples is not flagged.
const FEWEST_SAMPLES: u64 = 10;

pub(crate) fn timeline(run: &Run, tally: &Tally, options: &TimerOptions) -> Timeline {
    let last_sample = run.samples.time_ns.iter().copied().max();
    let end_ns = run.about.elapsed_ns.unwrap_or(0).max(last_sample.map_or(0, |last| last.saturating_add(1)));
    let interval_ns = interval_ns(end_ns, run.about.slice_ns, options);
    let count = end_ns.div_ceil(interval_ns) as usize;
    let mut sums = vec![(SplitTally::default(), 0u64); count];
    for (&time, &place) in run.samples.time_ns.iter().zip(&run.samples.place) {
        if let Some((sum, samples)) = sums.get_mut((time / interval_ns) as usize) {
            add(sum, &tally.parts(place), 1.0);
            *samples += 1;
        }
    }
    let running = running_threads(run, interval_ns, count);
    let intervals = sums.iter().enumerate().map(|(index, (sum, samples))| {
        // Where nothing at all could be blamed, nobody knows whether anything waited.
        let split = split(sum, *samples).filter(|split| split.undecided < 1.0);
        let loads = split.map(|split| split.loads);
        TimelineInterval {
            start_ns: index as u64 * interval_ns,
            samples: *samples,
            loads,
            memory: split.map(|split| split.memory()),
            running_threads: running.as_ref().map(|running| running[index]),
            flagged: *samples >= FEWEST_SAMPLES && loads.is_some_and(|loads| loads > options.threshold),
        }
    });
    Timeline {
        interval_ns,
        threshold: options.threshold,
        measured_here: options.measured_here,
        intervals: intervals.collect(),
    }
}

/// A round length, a multiple of the slices where those are known.
fn interval_ns(end_ns: u64, slice_ns: u64, options: &TimerOptions) -> u64 {
    let asked = options
        .interval_ns
        .unwrap_or_else(|| end_ns.div_ceil(options.intervals.max(1) as u64).max(SHORTEST_NS));
    let least = end_ns.div_ceil(MOST).max(1);
    let length = asked.max(least);
    if slice_ns > 0 { length.checked_next_multiple_of(slice_ns).unwrap_or(length) } else { length }
}

/// Threads running at once in each interval; none without context-switch records.
fn running_threads(run: &Run, interval_ns: u64, count: usize) -> Option<Vec<f64>> {
    if run.slices.is_empty() {
        return None;
    }
    let mut running = vec![0.0; count];
    for slice in &run.slices {
        let start = u64::from(slice.slice).saturating_mul(run.about.slice_ns);
        if let Some(sum) = running.get_mut((start / interval_ns) as usize) {
            *sum += slice.running_ns as f64 / interval_ns as f64;
        }
    }
    Some(running)
}
