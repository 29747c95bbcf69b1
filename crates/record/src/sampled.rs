//! Events that were sampled: those of an import, and those that were recorded beside the clock.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{ids::PlaceId, regions::RegionId};

/// All of them, with where and when their samples lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledEvents {
    /// In the order they were asked for.
    pub list: Vec<RecordedEvent>,
    /// Their samples by place, mode and region.
    pub tallies: Vec<EventTally>,
    /// Their samples in the program by slice of time.
    pub slices: Vec<EventSlice>,
}

/// What an event's samples are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventUse {
    /// They come evenly in time: those of user mode are the recording's samples.
    Time,
    /// They come with latency or data source: those of loads are the recording's loads.
    Loads,
    /// Counted by function.
    Counted,
}

/// An event that was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// As perf calls it, or as it was asked for.
    pub name: String,
    /// What is made of its samples.
    pub used_for: EventUse,
    /// All its samples.
    pub samples: u64,
    /// Of these, taken in the kernel.
    pub in_kernel: u64,
    /// Of these, taken in a guest or a hypervisor.
    pub in_guests: u64,
    /// Sum of their periods; none where the file has none.
    pub period: Option<u64>,
    /// How often a sample was asked for; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<EventPace>,
    /// Why it could not be sampled although it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl RecordedEvent {
    /// One that has no samples yet.
    pub fn new(name: String, used_for: EventUse, pace: Option<EventPace>) -> Self {
        Self { name, used_for, samples: 0, in_kernel: 0, in_guests: 0, period: None, pace, refusal: None }
    }

    /// Events that one sample stands for on average; none where nobody knows.
    pub fn mean_period(&self) -> Option<f64> {
        let measured = self.period.filter(|_| self.samples > 0).map(|sum| sum as f64 / self.samples as f64);
        measured.filter(|mean| *mean > 0.0).or(match self.pace {
            Some(EventPace::Every(period)) => Some(period as f64),
            _ => None,
        })
    }
}

/// How often a sample is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventPace {
    /// After so many events: the sampling period.
    Every(u64),
    /// So many times a second; the kernel finds the period.
    PerSecond(u64),
}

/// In which mode a sample was taken, numbered as the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleMode {
    /// The kernel does not say.
    #[default]
    Unknown,
    /// In the kernel.
    Kernel,
    /// In user mode.
    User,
    /// In a hypervisor.
    Hypervisor,
    /// In a guest's kernel.
    GuestKernel,
    /// In a guest's program.
    GuestUser,
}

impl SampleMode {
    const ALL: [Self; 6] =
        [Self::Unknown, Self::Kernel, Self::User, Self::Hypervisor, Self::GuestKernel, Self::GuestUser];

    /// The kernel's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The other way.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Samples of an event at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTally {
    /// Index among [`SampledEvents::list`].
    pub event: u32,
    /// Where.
    pub place: PlaceId,
    /// In which mode.
    pub mode: SampleMode,
    /// In which region that the program marked.
    pub region: Option<RegionId>,
    /// How many.
    pub samples: u64,
}

/// Samples of an event in the program within a slice of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSlice {
    /// Index among [`SampledEvents::list`].
    pub event: u32,
    /// Which slice since the start of the recording.
    pub slice: u64,
    /// How many.
    pub samples: u64,
    /// Sum of their periods: how often the event happened, as far as its samples say. None where one has no period.
    pub period: Option<u64>,
}

/// A sample on its way into the sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummedSample {
    pub event: u32,
    pub place: PlaceId,
    pub mode: SampleMode,
    pub region: Option<RegionId>,
    pub time_ns: u64,
    pub period: Option<u64>,
}

/// Sums samples up, one by one.
#[derive(Debug)]
pub(crate) struct TallySum {
    slice_ns: u64,
    by_place: HashMap<(u32, PlaceId, SampleMode, Option<RegionId>), u64>,
    by_slice: HashMap<(u32, u64), (u64, Option<u64>)>,
}

impl TallySum {
    pub fn new(slice_ns: u64) -> Self {
        Self { slice_ns: slice_ns.max(1), by_place: HashMap::new(), by_slice: HashMap::new() }
    }

    pub fn add(&mut self, sample: SummedSample) {
        let SummedSample { event, place, mode, region, time_ns, period } = sample;
        *self.by_place.entry((event, place, mode, region)).or_default() += 1;
        if matches!(mode, SampleMode::User | SampleMode::Unknown) {
            let (samples, sum) =
                self.by_slice.entry((event, time_ns / self.slice_ns)).or_insert((0, Some(0)));
            *samples += 1;
            *sum = sum.zip(period).map(|(sum, period)| sum.saturating_add(period));
        }
    }

    pub fn finish(self, list: Vec<RecordedEvent>) -> SampledEvents {
        let tally =
            |((event, place, mode, region), samples)| EventTally { event, place, mode, region, samples };
        let mut tallies: Vec<EventTally> = self.by_place.into_iter().map(tally).collect();
        tallies.sort_unstable_by_key(|tally| (tally.event, tally.place, tally.mode, tally.region));
        let slice = |((event, slice), (samples, period))| EventSlice { event, slice, samples, period };
        let mut slices: Vec<EventSlice> = self.by_slice.into_iter().map(slice).collect();
        slices.sort_unstable_by_key(|one| (one.event, one.slice));
        SampledEvents { list, tallies, slices }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_place_region_and_slice_and_a_missing_period_stays_missing() {
        let mut sum = TallySum::new(100);
        let sample = |region: Option<u32>, time_ns, mode, period| SummedSample {
            event: 0,
            place: PlaceId(3),
            mode,
            region: region.map(RegionId),
            time_ns,
            period,
        };
        sum.add(sample(Some(1), 10, SampleMode::User, Some(5)));
        sum.add(sample(Some(1), 99, SampleMode::User, Some(6)));
        sum.add(sample(None, 100, SampleMode::User, None));
        sum.add(sample(None, 101, SampleMode::Kernel, Some(9)));
        let found = sum.finish(Vec::new());
        let tallies: Vec<_> =
            found.tallies.iter().map(|tally| (tally.mode, tally.region, tally.samples)).collect();
        let expected = [
            (SampleMode::Kernel, None, 1),
            (SampleMode::User, None, 1),
            (SampleMode::User, Some(RegionId(1)), 2),
        ];
        assert_eq!(tallies, expected);
        let slices: Vec<_> = found.slices.iter().map(|one| (one.slice, one.samples, one.period)).collect();
        assert_eq!(slices, [(0, 2, Some(11)), (1, 1, None)], "the kernel is not the program");
    }

    #[test]
    fn a_mean_period_is_measured_or_asked_for_and_never_made_up() {
        let mut event = RecordedEvent::new("cycles".to_owned(), EventUse::Time, None);
        assert_eq!(event.mean_period(), None);
        event.pace = Some(EventPace::PerSecond(1000));
        assert_eq!(event.mean_period(), None);
        event.pace = Some(EventPace::Every(100_000));
        assert_eq!(event.mean_period(), Some(100_000.0));
        (event.samples, event.period) = (4, Some(10));
        assert_eq!(event.mean_period(), Some(2.5));
    }
}
