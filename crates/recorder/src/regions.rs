//! Regions that programs mark: which samples lie in them, and who was there how often and for how long.
//!
//! Marks come from the program's own memory and samples from the kernel's, each in the order of time for a thread. Samples wait
//! until all marks before them were read; then the innermost region that is open is theirs.

mod leaving;
mod marked;

use std::collections::{BTreeMap, HashMap};

use ::heap::{EventCount, RegionMark, ThreadCounts};
use record::{
    file::Writer,
    ids::ThreadId,
    regions::{EventsDone, Region, RegionCounts, RegionId, RegionVisits},
};

use leaving::LeavingThread;
use marked::MarkReading;
pub use marked::{CountedVisits, MarkedCounts, MarkedRegion, MarkedThread};

/// Regions that are told apart; of others nothing is known.
const MOST_REGIONS: usize = 4096;

/// Regions that may be open within each other on a thread.
const MOST_NESTED: usize = 64;

/// What a mark names: text, or code of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RegionKey {
    /// As the program calls it.
    Named(RegionMark),
    /// Code at this address, in the terms of its module.
    Code { module: usize, address: u64 },
}

/// A sample that waits for the marks before it.
#[derive(Clone, Copy, Debug)]
enum WaitingSample {
    Time(u64),
    Burst(u64),
    Event(u64),
}

#[derive(Debug, Default)]
struct ThreadRegions {
    /// In the recording.
    index: Option<u32>,
    /// Innermost last.
    open: Vec<OpenRegion>,
    waiting: Vec<(u64, WaitingSample)>,
    visits: HashMap<RegionId, ThreadVisits>,
    /// What was counted, and when: for the mark of that time.
    reading: Option<MarkReading>,
    /// Since when it waits for others at a barrier.
    waits_since: Option<u64>,
}

#[derive(Clone, Debug)]
struct OpenRegion {
    region: RegionId,
    began_ns: u64,
    reading: Option<MarkReading>,
}

#[derive(Clone, Debug, Default)]
struct ThreadVisits {
    begun: u64,
    counted: u64,
    /// Begun, not to be counted, and not ended.
    ignored: u64,
    wall_ns: u64,
    waits_ns: Option<u64>,
    counts: Option<RegionCounts>,
    /// What was read beside these, if that was asked for.
    events: Option<CountedVisits>,
}

/// When something happened, and on which thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedMoment {
    pub tid: i32,
    pub time_ns: u64,
}

/// All that is known of regions.
#[derive(Debug, Default)]
pub(super) struct RegionTally {
    known: HashMap<RegionKey, RegionId>,
    /// In the order of their numbers.
    named: Vec<Region>,
    /// Parallel regions by module and name: one line of source may be entered from several places.
    lines: HashMap<(usize, String), RegionId>,
    /// First visits of a region that do not count, on each thread.
    skipped: HashMap<RegionId, u64>,
    threads: HashMap<i32, ThreadRegions>,
    /// Threads that ended a moment ago: their last marks may still be to come, and another may have their number by now.
    leaving: HashMap<i32, Vec<LeavingThread>>,
    /// What threads that are gone have to say.
    ended: BTreeMap<(RegionId, ThreadId), RegionVisits>,
    /// So many events are to be done before anything counts.
    skip_events: u64,
    events: Option<EventsDone>,
    samples: u64,
    bursts: u64,
    event_samples: u64,
    /// What threads could not count: which event, and what the kernel said.
    refused: BTreeMap<u64, u64>,
    /// By region, once it is over.
    marked: BTreeMap<u32, Vec<MarkedThread>>,
    /// Marks that made no sense: ends without a beginning, too many regions.
    pub strange: u64,
}

impl RegionTally {
    /// A sample of time was handed to the writer.
    pub fn sample(&mut self, tid: i32, thread: ThreadId, time_ns: u64) {
        self.samples += 1;
        let number = self.samples;
        self.wait(tid, thread, time_ns, WaitingSample::Time(number));
    }

    /// A sample of a burst was.
    pub fn burst(&mut self, tid: i32, thread: ThreadId, time_ns: u64) {
        self.bursts += 1;
        let number = self.bursts;
        self.wait(tid, thread, time_ns, WaitingSample::Burst(number));
    }

    /// A sample of another event was.
    pub fn event(&mut self, tid: i32, thread: ThreadId, time_ns: u64) {
        self.event_samples += 1;
        let number = self.event_samples;
        self.wait(tid, thread, time_ns, WaitingSample::Event(number));
    }

    fn wait(&mut self, tid: i32, thread: ThreadId, time_ns: u64, sample: WaitingSample) {
        let known = self.threads.entry(tid).or_default();
        known.index = Some(thread.0);
        known.waiting.push((time_ns, sample));
    }

    /// The region of a mark; a new one is called by `name`. None if there are too many.
    pub fn region(
        &mut self,
        key: RegionKey,
        name: impl FnOnce() -> Region,
        writer: &mut Writer,
    ) -> Option<RegionId> {
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.known.len() >= MOST_REGIONS {
            self.strange += 1;
            return None;
        }
        let region = name();
        let line = match &key {
            RegionKey::Code { module, .. } => Some((*module, region.name.clone())),
            RegionKey::Named(_) => None,
        };
        if let Some(same) = line.as_ref().and_then(|line| self.lines.get(line)).copied() {
            self.known.insert(key, same);
            return Some(same);
        }
        let id = RegionId(self.named.len() as u32);
        self.named.push(region.clone());
        writer.region(id, region);
        self.known.insert(key, id);
        self.lines.extend(line.map(|line| (line, id)));
        Some(id)
    }

    /// Regions count only after so many events were done.
    pub fn skip_events(&mut self, events: u64) {
        self.skip_events = events;
    }

    /// A region began on a thread, which has this number in the recording; `tells_waits` if its waiting at barriers is told too.
    pub fn begin(
        &mut self,
        region: RegionId,
        at: MarkedMoment,
        thread: Option<ThreadId>,
        tells_waits: bool,
        writer: &mut Writer,
    ) {
        let time_ns = at.time_ns;
        let skipped = self.skipped.get(&region).copied().unwrap_or(0);
        let is_early = self.events.map_or(0, |events| events.done) < self.skip_events;
        let known = self.thread_at(at);
        known.index = known.index.or(thread.map(|thread| thread.0));
        known.settle(time_ns, writer);
        let reading = known.reading_at(time_ns);
        let visits = known.visits.entry(region).or_default();
        visits.begun += 1;
        if visits.begun <= skipped || is_early {
            visits.ignored += 1;
            return;
        }
        visits.counted += 1;
        if tells_waits {
            visits.waits_ns.get_or_insert(0);
        }
        if known.open.len() < MOST_NESTED {
            known.open.push(OpenRegion { region, began_ns: time_ns, reading });
        } else {
            self.strange += 1;
        }
    }

    /// It ended. Regions may overlap: the one that ends need not be the innermost.
    pub fn end(&mut self, region: RegionId, at: MarkedMoment, writer: &mut Writer) {
        let known = self.thread_at(at);
        known.settle(at.time_ns, writer);
        let reading = known.reading_at(at.time_ns);
        let visits = known.visits.entry(region).or_default();
        match known.open.iter().rposition(|open| open.region == region) {
            Some(index) => {
                let began = known.open.remove(index);
                let wall_ns = at.time_ns.saturating_sub(began.began_ns);
                visits.wall_ns += wall_ns;
                if let (Some(before), Some(after)) = (began.reading, reading)
                    && let (Some(first), Some(last)) = (&before.counts, &after.counts)
                {
                    let all = visits.counts.get_or_insert_default();
                    *all = all.and(&between(first, last));
                    visits.events.get_or_insert_default().add(&before, &after, wall_ns);
                }
            }
            None if visits.ignored > 0 => visits.ignored -= 1,
            None => self.strange += 1,
        }
    }

    /// What the kernel has counted of a thread, at the mark of the same moment that comes next.
    pub fn counted(&mut self, at: MarkedMoment, counts: ThreadCounts) {
        self.reading(at).counts = Some(counts);
    }

    /// One of the events that were asked for, likewise.
    pub fn event_counted(&mut self, at: MarkedMoment, event: u64, count: EventCount) {
        self.reading(at).events.push((event, count));
    }

    /// A thread cannot count an event: what the kernel said.
    pub fn event_refused(&mut self, event: u64, errno: u64) {
        self.refused.entry(event).or_insert(errno);
    }

    fn reading(&mut self, at: MarkedMoment) -> &mut MarkReading {
        let reading = &mut self.thread_at(at).reading;
        if reading.as_ref().is_none_or(|reading| reading.time_ns != at.time_ns) {
            *reading = Some(MarkReading::at(at.time_ns));
        }
        reading.get_or_insert_with(|| MarkReading::at(at.time_ns))
    }

    /// A thread waits for others from here on.
    pub fn wait_began(&mut self, at: MarkedMoment) {
        self.thread_at(at).waits_since = Some(at.time_ns);
    }

    /// It goes on, and worked on tasks for so long meanwhile. All regions that are open have waited.
    pub fn wait_ended(&mut self, at: MarkedMoment, worked_ns: u64) {
        let known = self.thread_at(at);
        let Some(since) = known.waits_since.take() else { return };
        let waited = at.time_ns.saturating_sub(since).saturating_sub(worked_ns);
        for open in &known.open {
            if let Some(visits) = known.visits.get_mut(&open.region) {
                *visits.waits_ns.get_or_insert(0) += waited;
            }
        }
    }

    /// The program has done with an event.
    pub fn event_done(&mut self, time_ns: u64) {
        let skipped = self.skip_events;
        let none = EventsDone { done: 0, skipped, first_ns: None, last_ns: 0 };
        let events = self.events.get_or_insert(none);
        events.done += 1;
        events.last_ns = events.last_ns.max(time_ns);
        if events.done == skipped.max(1) {
            events.first_ns = Some(time_ns);
        }
    }

    /// The first visits of a region do not count.
    pub fn skip(&mut self, region: RegionId, visits: u64) {
        self.skipped.insert(region, visits);
    }

    /// All marks of before this moment were read.
    pub fn settle(&mut self, until_ns: u64, writer: &mut Writer) {
        self.threads.values_mut().for_each(|thread| thread.settle(until_ns, writer));
        self.leaving.values_mut().flatten().for_each(|leaving| leaving.regions.settle(until_ns, writer));
        self.forget(until_ns);
    }

    /// The recording ends.
    pub fn finish(&mut self, end_ns: u64, writer: &mut Writer) {
        for (tid, regions) in std::mem::take(&mut self.threads) {
            let leaving = LeavingThread { tid, ended_ns: end_ns, regions };
            self.leaving.entry(tid).or_default().push(leaving);
        }
        self.settle(u64::MAX, writer);
        std::mem::take(&mut self.ended).into_values().for_each(|visits| writer.region_visits(visits));
        if let Some(events) = self.events {
            writer.events_done(events);
        }
    }
}

/// What was counted from one moment to another.
fn between(before: &ThreadCounts, after: &ThreadCounts) -> RegionCounts {
    RegionCounts {
        visits: 1,
        minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
        major_faults: after.major_faults.saturating_sub(before.major_faults),
        voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
    }
}

impl ThreadRegions {
    /// What was counted at a mark; of another moment it belongs to a mark that was lost.
    fn reading_at(&mut self, time_ns: u64) -> Option<MarkReading> {
        self.reading.take().filter(|reading| reading.time_ns == time_ns)
    }

    /// Samples of before this moment lie in what is open now.
    fn settle(&mut self, until_ns: u64, writer: &mut Writer) {
        let innermost = self.open.last().map(|open| open.region);
        self.waiting.retain(|(time_ns, sample)| {
            if *time_ns >= until_ns {
                return true;
            }
            match (innermost, sample) {
                (Some(region), WaitingSample::Time(number)) => writer.sample_region(*number, region),
                (Some(region), WaitingSample::Burst(number)) => writer.burst_region(*number, region),
                (Some(region), WaitingSample::Event(number)) => writer.event_region(*number, region),
                (None, _) => {}
            }
            false
        });
    }
}

#[cfg(test)]
mod tests;
