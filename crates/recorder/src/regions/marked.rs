//! What threads counted between the marks of regions, beyond what every recording has.

use std::collections::BTreeMap;

use ::heap::{EventCount, ThreadCounts};
use record::regions::RegionCounts;

use super::{RegionTally, between};

/// What was read at one mark.
#[derive(Clone, Debug)]
pub(super) struct MarkReading {
    pub time_ns: u64,
    pub counts: Option<ThreadCounts>,
    /// By their numbers.
    pub events: Vec<(u64, EventCount)>,
}

impl MarkReading {
    pub fn at(time_ns: u64) -> Self {
        Self { time_ns, counts: None, events: Vec::new() }
    }
}

/// What was counted over visits of one thread to one region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedVisits {
    /// What the kernel keeps of every thread; among it how many visits.
    pub kernel: RegionCounts,
    /// These visits on the clock.
    pub wall_ns: u64,
    /// Processor time in them, where that was asked for.
    pub cpu_ns: u64,
    /// Events that were asked for, by number; one that could not be counted is not there.
    pub events: BTreeMap<u64, EventCount>,
}

impl CountedVisits {
    /// Adds a visit. One whose ends do not tell of the same events is left out: a note of it was lost.
    pub(super) fn add(&mut self, before: &MarkReading, after: &MarkReading, wall_ns: u64) {
        let (Some(first), Some(last)) = (&before.counts, &after.counts) else { return };
        let is_whole =
            before.events.iter().map(|(event, _)| event).eq(after.events.iter().map(|(event, _)| event));
        if !is_whole || (self.kernel.visits > 0 && self.events.len() != before.events.len()) {
            return;
        }
        self.kernel = self.kernel.and(&between(first, last));
        self.wall_ns += wall_ns;
        self.cpu_ns += last.cpu_ns.saturating_sub(first.cpu_ns);
        for ((event, first), (_, last)) in before.events.iter().zip(&after.events) {
            let sum = self.events.entry(*event).or_default();
            sum.value = sum.value.wrapping_add(last.value.wrapping_sub(first.value));
            sum.enabled_ns += last.enabled_ns.saturating_sub(first.enabled_ns);
            sum.running_ns += last.running_ns.saturating_sub(first.running_ns);
        }
    }
}

/// What was counted in regions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MarkedCounts {
    /// Regions that were visited, in the order they first began.
    pub regions: Vec<MarkedRegion>,
    /// Events that a thread could not count, by number: what the kernel said, 0 where their counters may not be read.
    pub refused: BTreeMap<u64, u64>,
}

/// One region.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkedRegion {
    /// As the program called it, or as its code is called.
    pub name: String,
    /// Who was there.
    pub threads: Vec<MarkedThread>,
}

/// One thread in one region.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkedThread {
    /// Its number.
    pub tid: u32,
    /// How often it was there, counted or not.
    pub visits: u64,
    /// What was counted; none if no visit was.
    pub counted: Option<CountedVisits>,
}

impl RegionTally {
    /// What was counted, after the end.
    pub fn take_marked(&mut self) -> MarkedCounts {
        let of = |(region, mut threads): (u32, Vec<MarkedThread>)| {
            threads.sort_by_key(|thread| thread.tid);
            Some(MarkedRegion { name: self.named.get(region as usize)?.name.clone(), threads })
        };
        let regions = std::mem::take(&mut self.marked).into_iter().filter_map(of).collect();
        MarkedCounts { regions, refused: std::mem::take(&mut self.refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mark at which so many faults and these events were counted.
    fn mark(minor_faults: u64, events: &[(u64, u64)]) -> MarkReading {
        let count = |&(event, value)| (event, EventCount { value, enabled_ns: 2 * value, running_ns: value });
        MarkReading {
            time_ns: 0,
            counts: Some(ThreadCounts { minor_faults, cpu_ns: 10 * minor_faults, ..ThreadCounts::default() }),
            events: events.iter().map(count).collect(),
        }
    }

    #[test]
    fn visits_add_up_and_one_whose_notes_were_lost_is_left_out() {
        let mut visits = CountedVisits::default();
        visits.add(&mark(5, &[(0, 100), (1, 7)]), &mark(9, &[(0, 150), (1, 7)]), 1000);
        visits.add(&mark(9, &[(0, 160), (1, 7)]), &mark(10, &[(0, 161), (1, 9)]), 500);
        // Of one event at one end, of another set of events, without the kernel's counts.
        visits.add(&mark(10, &[(0, 200), (1, 10)]), &mark(90, &[(0, 900)]), 1);
        visits.add(&mark(10, &[(0, 200)]), &mark(90, &[(0, 900)]), 1);
        visits.add(&MarkReading::at(0), &mark(90, &[]), 1);
        assert_eq!(
            (visits.kernel.visits, visits.kernel.minor_faults, visits.cpu_ns, visits.wall_ns),
            (2, 5, 50, 1500)
        );
        let expected = [
            (0, EventCount { value: 51, enabled_ns: 102, running_ns: 51 }),
            (1, EventCount { value: 2, enabled_ns: 4, running_ns: 2 }),
        ];
        assert_eq!(visits.events, expected.into());
    }
}
