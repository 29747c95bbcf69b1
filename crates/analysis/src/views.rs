//! The views of kruse2011 chapter 5: what was sampled by symbol, by region (the paper's module), and by symbol within a
//! region, cycles beside stalled cycles.
//!
//! Every recording has them: without a PMU the samples of the clock stand for cycles, and those that wait for memory for
//! stalled cycles. Events that were sampled besides, here or by perf, each have their own table.

mod over_time;
mod roles;
mod tally;

use record::{
    ids::{FunctionId, PlaceId},
    run::Run,
    sampled::{EventPace, EventUse, RecordedEvent},
};
use serde::{Deserialize, Serialize};

use crate::findings::Findings;

use self::tally::ViewTally;
pub use over_time::{EventLine, EventsOverTime};

/// Symbols that are listed of each event (kruse2011 §5.4).
pub const MOST_SYMBOLS: usize = 20;

/// Regions that are listed; a program may mark thousands.
const MOST_REGIONS: usize = 200;

/// Fewer samples of cycles than this say nothing about a share of them.
const FEWEST_CYCLES: f64 = 30.0;

/// All views of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventViews {
    /// What was sampled.
    pub events: Vec<ViewedEvent>,
    /// Which of them counts cycles, or time in their place.
    pub cycles: Option<usize>,
    /// Which of them counts cycles in which nothing was executed, or waiting in their place.
    pub stalled: Option<usize>,
    /// The symbols that tables name.
    pub symbols: Vec<ViewedSymbol>,
    /// For each event, the symbols with most of it.
    pub by_symbol: Vec<EventTable>,
    /// Each region, those with most cycles first; nothing where the program marks none.
    pub by_region: Vec<RegionView>,
    /// Regions beyond those listed.
    pub regions_left_out: usize,
    /// Events over time.
    pub over_time: EventsOverTime,
}

/// Something that was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewedEvent {
    /// As it was asked for.
    pub name: String,
    /// What it is.
    pub kind: ViewedKind,
    /// Its samples; of waiting, a sum of parts of samples.
    pub samples: f64,
    /// Of these, in the kernel.
    pub in_kernel: u64,
    /// Events that a sample stands for on average, of time nanoseconds; none where nobody knows.
    pub period: Option<f64>,
    /// How often a sample was asked for.
    pub pace: Option<EventPace>,
    /// Why there are no samples although they were asked for.
    pub refusal: Option<String>,
}

/// What kind of samples these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewedKind {
    /// Of the clock, in user mode.
    UserTime,
    /// The part of those that waits for memory, by where they landed: an estimate.
    Waiting,
    /// Of an event.
    Event,
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewedSymbol {
    /// Its complete signature.
    pub signature: String,
    /// The library or program it is in.
    pub library: String,
    /// Which function of the recording; none of code that belongs to no known one.
    pub function: Option<FunctionId>,
    /// Index among [`Findings::symbols`], if it has samples of time.
    pub finding: Option<usize>,
    /// Of its cycles, those that are stalled.
    pub stalled: Option<StalledShare>,
}

/// Stalled cycles as a share of cycles: both are counts by samples, with the 95 % interval that their numbers give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StalledShare {
    /// The share; above 1 where two events contradict each other.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One event by symbol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventTable {
    /// Index among [`EventViews::events`].
    pub event: usize,
    /// All its samples here.
    pub samples: f64,
    /// Symbols with most of them, at most [`MOST_SYMBOLS`].
    pub rows: Vec<EventRow>,
    /// Symbols beyond those.
    pub left_out: usize,
}

/// One symbol of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// Index among [`EventViews::symbols`].
    pub symbol: usize,
    /// Its samples.
    pub samples: f64,
    /// Share of the event's samples here.
    pub share: f64,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionView {
    /// Its name; none of what lies outside of all regions.
    pub name: Option<String>,
    /// A parallel region of OpenMP that nobody marked.
    pub is_parallel: bool,
    /// Share of all samples of each event, in their order; none of an event without samples.
    pub shares: Vec<Option<f64>>,
    /// Of its cycles, those that are stalled.
    pub stalled: Option<StalledShare>,
    /// For each event with samples here, the symbols with most of it.
    pub tables: Vec<EventTable>,
}

impl EventViews {
    /// Of a recording; `waiting` says of a sample of time at a place which part of it waits for memory.
    pub fn of(run: &Run, findings: &Findings, waiting: &dyn Fn(PlaceId) -> f64) -> Self {
        let mut events = own_events(run);
        let first_sampled = events.len();
        events.extend(run.sampled.list.iter().map(viewed));
        let is_import = run.import.is_some();
        let mut tally = ViewTally::new(run, findings, events.len());
        let waits = events.iter().position(|event| event.kind == ViewedKind::Waiting);
        let timed = events.iter().position(|event| event.kind == ViewedKind::UserTime);
        for (index, place) in run.samples.place.iter().enumerate() {
            let region = run.regions.of_samples.get(index).copied().flatten();
            timed.into_iter().for_each(|event| tally.add(event, *place, region, 1.0));
            waits.into_iter().for_each(|event| tally.add(event, *place, region, waiting(*place)));
        }
        for found in &run.sampled.tallies {
            let event = first_sampled + found.event as usize;
            tally.add(event, found.place, found.region, found.samples as f64);
        }
        for (index, event) in events.iter_mut().enumerate().take(first_sampled) {
            event.samples = tally.all(index);
        }
        let cycles = roles::cycles(&events, &run.sampled.list, is_import);
        let stalled = roles::stalled(&events, cycles);
        let over_time = over_time::over_time(run, &events, first_sampled, cycles, stalled);
        EventViews { over_time, ..tally.finish(events, cycles, stalled) }
    }

    /// There is nothing beyond the samples of the clock.
    pub fn has_events(&self) -> bool {
        self.events.iter().any(|event| event.kind == ViewedKind::Event)
    }
}

/// Samples of the clock, and the part of them that waits. Of an import the clock is among its events.
fn own_events(run: &Run) -> Vec<ViewedEvent> {
    let event = |name: &str, kind| ViewedEvent {
        name: name.to_owned(),
        kind,
        samples: 0.0,
        in_kernel: 0,
        period: (run.about.period_ns > 0.0).then_some(run.about.period_ns),
        pace: None,
        refusal: None,
    };
    if run.samples.place.is_empty() {
        return Vec::new();
    }
    let time = run.import.is_none().then(|| event("user time", ViewedKind::UserTime));
    time.into_iter().chain([event("waiting for memory", ViewedKind::Waiting)]).collect()
}

fn viewed(event: &RecordedEvent) -> ViewedEvent {
    ViewedEvent {
        name: event.name.clone(),
        kind: ViewedKind::Event,
        samples: event.samples as f64,
        in_kernel: event.in_kernel,
        period: event.mean_period(),
        pace: event.pace,
        refusal: event.refusal.clone(),
    }
}

/// Whether an event of an import ticks as long as a core runs.
fn is_time(event: &RecordedEvent) -> bool {
    event.used_for == EventUse::Time
}

#[cfg(test)]
mod tests;
