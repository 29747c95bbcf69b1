//! Regions that programs mark: which samples lie in them, and who was there how often and for how long.
//!
//! Marks come from the program's own memory and samples from the kernel's, each in the order of time for a thread. Samples wait
//! until all marks before them were read; then the innermost region that is open is theirs.

use std::collections::HashMap;

use ::heap::RegionMark;
use record::{
    file::Writer,
    ids::ThreadId,
    regions::{Region, RegionId, RegionVisits},
};

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
    /// Innermost last, each with when it began.
    open: Vec<(RegionId, u64)>,
    waiting: Vec<(u64, WaitingSample)>,
    visits: HashMap<RegionId, ThreadVisits>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadVisits {
    begun: u64,
    counted: u64,
    wall_ns: u64,
}

/// All that is known of regions.
#[derive(Debug, Default)]
pub(super) struct RegionTally {
    known: HashMap<RegionKey, RegionId>,
    /// First visits of a region that do not count, on each thread.
    skipped: HashMap<RegionId, u64>,
    threads: HashMap<i32, ThreadRegions>,
    samples: u64,
    bursts: u64,
    events: u64,
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
        self.events += 1;
        let number = self.events;
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
        let id = RegionId(u32::try_from(self.known.len()).ok()?);
        writer.region(id, name());
        self.known.insert(key, id);
        Some(id)
    }

    /// A thread ended, which had this number in the recording: its marks may still be to come.
    pub fn thread(&mut self, tid: i32, thread: ThreadId) {
        self.threads.entry(tid).or_default().index = Some(thread.0);
    }

    /// A region began on a thread, which has this number in the recording.
    pub fn begin(
        &mut self,
        region: RegionId,
        tid: i32,
        thread: Option<ThreadId>,
        time_ns: u64,
        writer: &mut Writer,
    ) {
        let skipped = self.skipped.get(&region).copied().unwrap_or(0);
        let known = self.threads.entry(tid).or_default();
        known.index = thread.map(|thread| thread.0).or(known.index);
        known.settle(time_ns, writer);
        let visits = known.visits.entry(region).or_default();
        visits.begun += 1;
        if visits.begun <= skipped {
            return;
        }
        visits.counted += 1;
        if known.open.len() < MOST_NESTED {
            known.open.push((region, time_ns));
        } else {
            self.strange += 1;
        }
    }

    /// It ended. Regions may overlap: the one that ends need not be the innermost.
    pub fn end(&mut self, region: RegionId, tid: i32, time_ns: u64, writer: &mut Writer) {
        let skipped = self.skipped.get(&region).copied().unwrap_or(0);
        let Some(known) = self.threads.get_mut(&tid) else {
            self.strange += 1;
            return;
        };
        known.settle(time_ns, writer);
        let visits = known.visits.entry(region).or_default();
        match known.open.iter().rposition(|(open, _)| *open == region) {
            Some(index) => {
                let (_, began_ns) = known.open.remove(index);
                visits.wall_ns += time_ns.saturating_sub(began_ns);
            }
            None if visits.begun > 0 && visits.begun <= skipped => {}
            None => self.strange += 1,
        }
    }

    /// The first visits of a region do not count.
    pub fn skip(&mut self, region: RegionId, visits: u64) {
        self.skipped.insert(region, visits);
    }

    /// All marks of before this moment were read.
    pub fn settle(&mut self, until_ns: u64, writer: &mut Writer) {
        self.threads.values_mut().for_each(|thread| thread.settle(until_ns, writer));
    }

    /// The recording ends.
    pub fn finish(&mut self, end_ns: u64, writer: &mut Writer) {
        self.settle(u64::MAX, writer);
        for thread in self.threads.values_mut() {
            let mut unended: HashMap<RegionId, u64> = HashMap::new();
            for (region, began_ns) in std::mem::take(&mut thread.open) {
                *unended.entry(region).or_default() += 1;
                thread.visits.entry(region).or_default().wall_ns += end_ns.saturating_sub(began_ns);
            }
            let Some(index) = thread.index else {
                self.strange += 1;
                continue;
            };
            for (region, visits) in thread.visits.drain().filter(|(_, visits)| visits.counted > 0) {
                writer.region_visits(RegionVisits {
                    region,
                    thread: ThreadId(index),
                    visits: visits.counted,
                    unended: unended.get(&region).copied().unwrap_or(0),
                    wall_ns: visits.wall_ns,
                });
            }
        }
    }
}

impl ThreadRegions {
    /// Samples of before this moment lie in what is open now.
    fn settle(&mut self, until_ns: u64, writer: &mut Writer) {
        let innermost = self.open.last().map(|(region, _)| *region);
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
mod tests {
    use super::*;
    use record::{
        file::{RecordedSample, read},
        ids::PlaceId,
        run::Run,
    };

    const TID: i32 = 7;

    /// A recording of one thread with samples at these times, and what regions make of it.
    fn recorded(times: &[u64], mark: impl FnOnce(&mut RegionTally, &mut Writer)) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        // It begins with a sample of its own.
        let mut recorder = crate::tests::recorder(&path);
        let mut regions = RegionTally::default();
        regions.sample(TID, ThreadId(0), 2);
        for &time_ns in times {
            let thread = ThreadId(0);
            recorder.writer.sample(RecordedSample {
                time_ns,
                thread,
                cpu: 0,
                place: PlaceId(0),
                address: None,
                stack: None,
            });
            regions.sample(TID, thread, time_ns);
        }
        mark(&mut regions, &mut recorder.writer);
        regions.finish(1000, &mut recorder.writer);
        crate::tests::finish(recorder);
        read(&path).unwrap()
    }

    fn named(regions: &mut RegionTally, name: &str, writer: &mut Writer) -> RegionId {
        let mut words = [0_u64; 8];
        let mut bytes = [0; RegionMark::BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (word, chunk) in words[4..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().unwrap());
        }
        words[0] = 5 << 56;
        let note = ::heap::Note::parse(words).unwrap();
        let ::heap::NoteKind::RegionBegan(mark) = note.kind else { panic!("{note:?}") };
        let region = Region { name: name.to_owned(), is_parallel: false };
        regions.region(RegionKey::Named(mark), || region, writer).unwrap()
    }

    #[test]
    fn samples_belong_to_the_innermost_region_and_regions_may_overlap() {
        let run = recorded(&[5, 15, 25, 35, 45, 55], |regions, writer| {
            let (outer, inner) = (named(regions, "outer", writer), named(regions, "inner", writer));
            regions.begin(outer, TID, Some(ThreadId(0)), 10, writer);
            regions.begin(inner, TID, Some(ThreadId(0)), 20, writer);
            // The outer one ends first.
            regions.end(outer, TID, 30, writer);
            regions.end(inner, TID, 40, writer);
            regions.begin(outer, TID, Some(ThreadId(0)), 50, writer);
        });
        let (outer, inner) = (Some(RegionId(0)), Some(RegionId(1)));
        assert_eq!(run.regions.of_samples, [None, None, outer, inner, inner, None, outer]);
        let visits = |region: u32, visits: u64, unended: u64, wall_ns: u64| RegionVisits {
            region: RegionId(region),
            thread: ThreadId(0),
            visits,
            unended,
            wall_ns,
        };
        assert_eq!(run.regions.visits, [visits(0, 2, 1, 20 + 950), visits(1, 1, 0, 20)]);
    }

    #[test]
    fn first_visits_can_be_skipped_and_ends_without_a_beginning_are_counted() {
        let mut strange = 0;
        let run = recorded(&[15, 35], |regions, writer| {
            let solve = named(regions, "solve", writer);
            regions.end(solve, TID, 3, writer);
            regions.skip(solve, 1);
            regions.begin(solve, TID, Some(ThreadId(0)), 10, writer);
            regions.end(solve, TID, 20, writer);
            regions.begin(solve, TID, Some(ThreadId(0)), 30, writer);
            regions.end(solve, TID, 40, writer);
            strange = regions.strange;
        });
        assert_eq!(run.regions.of_samples, [None, None, Some(RegionId(0))]);
        assert_eq!((run.regions.visits[0].visits, run.regions.visits[0].wall_ns), (1, 10));
        assert_eq!(strange, 1);
    }
}
