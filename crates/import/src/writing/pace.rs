//! How much time a sample stands for.

use std::collections::HashMap;

use record::sampled::{EventUse, RecordedEvent};

use crate::attributes::EventAttributes;

/// Gaps between samples that are looked at.
const MOST_GAPS: usize = 1 << 16;

/// Where no event tells, a sample is taken for so much; then none was taken.
const DEFAULT_NS: f64 = 1e6;

/// What samples of time say about their distance.
#[derive(Debug, Default)]
pub(crate) struct SamplePace {
    /// Periods are nanoseconds.
    is_clock: bool,
    /// Samples per second that were asked for.
    frequency_hz: Option<u64>,
    periods: (u64, u64),
    last: HashMap<i32, u64>,
    gaps: Vec<u64>,
}

impl SamplePace {
    /// Of the events that are samples of time.
    pub fn of(events: &[EventAttributes], uses: &[RecordedEvent]) -> Self {
        let timed = events.iter().zip(uses).filter(|(_, about)| about.used_for == EventUse::Time);
        let timed: Vec<&EventAttributes> = timed.map(|(event, _)| event).collect();
        let is_clock = !timed.is_empty() && timed.iter().all(|event| event.is_clock());
        let frequency_hz = timed.first().filter(|event| event.is_frequency && event.pace > 0);
        Self { is_clock, frequency_hz: frequency_hz.map(|event| event.pace), ..Self::default() }
    }

    /// Takes note of a sample of a thread.
    pub fn sample(&mut self, tid: i32, time_ns: u64, period: Option<u64>) {
        if let Some(period) = period {
            self.periods = (self.periods.0.saturating_add(period), self.periods.1 + 1);
        }
        if self.gaps.len() < MOST_GAPS
            && let Some(before) = self.last.insert(tid, time_ns)
        {
            self.gaps.push(time_ns.saturating_sub(before));
        }
    }

    /// Time that a sample stands for: what the clock says; else what was asked for; else the usual distance between two
    /// samples of a thread, as most of them are taken while it runs on.
    pub fn period_ns(&mut self) -> f64 {
        let (sum, count) = self.periods;
        let of_clock = (self.is_clock && count > 0).then(|| sum as f64 / count as f64);
        let asked = self.frequency_hz.map(|frequency| 1e9 / frequency as f64);
        self.gaps.sort_unstable();
        let usual = self.gaps.get(self.gaps.len() / 2).map(|gap| *gap as f64);
        [of_clock, asked, usual].into_iter().flatten().find(|period| *period > 0.0).unwrap_or(DEFAULT_NS)
    }
}
