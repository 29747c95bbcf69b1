//! Sampled events over time: each sample stands for its period.

use record::{run::Run, sampled::EventSlice};
use serde::{Deserialize, Serialize};

use super::ViewedEvent;

/// Intervals that are kept, at most; more share one.
const MOST_INTERVALS: u64 = 240;

/// Events over the same intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventsOverTime {
    /// Length of an interval.
    pub interval_ns: u64,
    /// One for each event with samples.
    pub lines: Vec<EventLine>,
    /// Stalled cycles over cycles in each interval; none where there are too few samples to tell.
    pub stalled: Vec<Option<f64>>,
}

/// One event over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// Index among [`super::EventViews::events`].
    pub event: usize,
    /// How often it happened per second, interval by interval; none where nobody knows what a sample stands for.
    pub per_second: Vec<Option<f64>>,
}

/// Fewer samples of cycles in an interval than this give no share.
const FEWEST: u64 = 10;

/// Of the events that begin at `first` among all.
pub(super) fn over_time(
    run: &Run,
    events: &[ViewedEvent],
    first: usize,
    cycles: Option<usize>,
    stalled: Option<usize>,
) -> EventsOverTime {
    let slices = &run.sampled.slices;
    let Some(last) = slices.iter().map(|slice| slice.slice).max() else { return EventsOverTime::default() };
    // A damaged recording may have a slice at the end of time.
    let count = last.saturating_add(1);
    let each = count.div_ceil(MOST_INTERVALS).max(1);
    let intervals = count.div_ceil(each).min(MOST_INTERVALS) as usize;
    let interval_ns = run.about.slice_ns.max(1).saturating_mul(each);
    let seconds = interval_ns as f64 / 1e9;
    let period_of = |slice: &EventSlice| match slice.period {
        Some(period) => Some(period as f64),
        None => Some(slice.samples as f64 * events.get(first + slice.event as usize)?.period?),
    };
    let mut counts: Vec<Vec<Option<f64>>> = vec![vec![Some(0.0); intervals]; events.len()];
    let mut samples: Vec<Vec<u64>> = vec![vec![0; intervals]; events.len()];
    for slice in slices {
        let (event, at) = (first + slice.event as usize, (slice.slice / each) as usize);
        let Some(sum) = counts.get_mut(event).and_then(|of| of.get_mut(at)) else { continue };
        *sum = sum.zip(period_of(slice)).map(|(sum, more)| sum + more);
        samples[event][at] += slice.samples;
    }
    let lines = (first..events.len()).filter(|event| samples[*event].iter().any(|count| *count > 0));
    let line = |event: usize| EventLine {
        event,
        per_second: counts[event].iter().map(|count| count.map(|count| count / seconds)).collect(),
    };
    let share = |at: usize| {
        let (cycles, stalled) =
            cycles.zip(stalled).filter(|(cycles, stalled)| *cycles >= first && *stalled >= first)?;
        let enough = samples[cycles][at] >= FEWEST;
        counts[stalled][at].zip(counts[cycles][at]).filter(|_| enough).map(|(part, whole)| part / whole)
    };
    let stalled: Vec<Option<f64>> = (0..intervals).map(share).collect();
    let stalled = if stalled.iter().all(Option::is_none) { Vec::new() } else { stalled };
    EventsOverTime { interval_ns, lines: lines.map(line).collect(), stalled }
}
