//! Samples of events beside the clock. They wait until the clock's records of before them were read, and are taken before a
//! thread that they are of is gone.

use std::collections::HashSet;

use pmu::sampling::{Mode, RingRecord};
use record::{
    file::{EventSample, RecordedSample},
    ids::{PlaceId, ThreadId},
    sampled::SampleMode,
};

use super::Recorder;
use crate::event_sampling::QueuedEvent;

impl Recorder {
    /// Takes one record of an event's ring.
    pub(super) fn queue_event(&mut self, event: u32, record: &RingRecord<'_>, copies: Option<&HashSet<i32>>) {
        match record {
            RingRecord::Sample(sample) => {
                let Some(ip) = sample.ip.filter(|_| !Self::is_copy(copies, sample.pid)) else { return };
                let (pid, tid, cpu) = (sample.pid, sample.tid, sample.cpu);
                let (time_ns, mode, period) = (sample.time_ns, sample.mode, sample.period);
                self.queued.push(QueuedEvent { event, pid, tid, cpu, time_ns, mode, ip, period });
            }
            RingRecord::Lost { records: lost, .. } | RingRecord::LostSamples { samples: lost, .. } => {
                self.counts.lost_events += lost;
            }
            RingRecord::Malformed { .. } => self.counts.malformed += 1,
            _ => {}
        }
    }

    /// Finds out where the samples lie that were taken before this moment.
    pub(super) fn land_events(&mut self, before_ns: u64) {
        if self.queued.is_empty() {
            return;
        }
        self.queued.sort_by_key(|queued| queued.time_ns);
        let due = self.queued.partition_point(|queued| queued.time_ns < before_ns);
        let rest = self.queued.split_off(due);
        for queued in std::mem::replace(&mut self.queued, rest) {
            self.land_event(&queued);
        }
    }

    fn land_event(&mut self, queued: &QueuedEvent) {
        let QueuedEvent { event, pid, tid, cpu, mode, ip, period, .. } = *queued;
        if !self.window.contains(queued.time_ns) {
            return;
        }
        let time_ns = self.window.time(queued.time_ns);
        let Some(thread) = self.thread_of(pid, tid, time_ns) else { return };
        let (mapped, mode) = match mode {
            Mode::User => (self.mapped(pid, ip), SampleMode::User),
            Mode::Unknown => (self.mapped(pid, ip), SampleMode::Unknown),
            _ => (None, SampleMode::Kernel),
        };
        let number = match (&mapped, mode) {
            (Some(mapped), _) => mapped.module,
            (None, SampleMode::Kernel) => self.modules.beyond(Mode::Kernel),
            (None, _) => self.modules.unknown(pid),
        };
        // What we brought along is not the program's.
        let path = &self.modules.get(number).about.path;
        if self.heap.as_ref().is_some_and(|heap| heap.is_library(path)) {
            return;
        }
        let place = PlaceId(self.place(number, pid, mapped.as_ref(), ip).index);
        let thread = ThreadId(thread);
        if self.heap.is_some() {
            self.regions.event(tid, thread, time_ns);
        }
        let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        let sample = RecordedSample { time_ns, thread, cpu, place, address: None, stack: None };
        self.writer.event_sample(EventSample { sample, event, mode, period });
    }
}
