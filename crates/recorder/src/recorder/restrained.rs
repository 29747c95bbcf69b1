//! What changes when sampling holds back: threads are asked for their times, and records may be of the whole machine.

use pmu::sampling::{RingRecord, Sampler};

use super::Recorder;
use crate::{restraint::Switching, schedule::ScheduleWatch, session::SLICE_NS};

impl Recorder {
    /// How often threads were switched so far.
    pub fn switching(&self) -> Switching {
        Switching { switches: self.counts.switches, running_ns: self.slices.running_ns() }
    }

    /// There will be no more records of switches: whoever lives is asked from now on.
    pub fn begin_asking(&mut self, watch: &mut ScheduleWatch, at_ns: u64) {
        self.keeps_slices = false;
        let moment = self.window.time(at_ns);
        for thread in self.population.threads.values() {
            let writer = &mut self.writer;
            self.slices.end(thread.index, moment, |slice| writer.slice(slice));
        }
        self.ask_all(watch, at_ns);
    }

    /// Asks for all that live.
    pub fn ask_all(&mut self, watch: &mut ScheduleWatch, at_ns: u64) {
        let threads = &self.population.threads;
        watch.keep(|tid| threads.contains_key(&tid));
        let all: Vec<_> = threads.iter().map(|(&tid, thread)| (thread.pid, tid)).collect();
        for (pid, tid) in all {
            self.ask(watch, pid, tid, at_ns, SLICE_NS);
        }
    }

    /// Takes what a sampler of the program's threads left of before a moment, from which on one of the whole machine counts.
    pub fn hand_over(&mut self, mut left: Sampler<'_>, at_ns: u64) {
        self.beside_copies(|recorder, copies| {
            left.drain_all(|record| {
                if time_of(&record).is_none_or(|time_ns| time_ns < at_ns) {
                    recorder.take_unless_copied(record, copies);
                }
            });
        });
        self.sifts_from_ns = Some(at_ns);
    }

    pub(super) fn is_of_program(&self, record: &RingRecord<'_>) -> bool {
        let Some(from_ns) = self.sifts_from_ns else { return true };
        let has_process = |pid: &i32| self.population.processes.contains_key(pid);
        let is_ours = match record {
            RingRecord::Sample(sample) => self.population.threads.contains_key(&sample.tid),
            RingRecord::Mmap(mmap) => has_process(&mmap.pid),
            RingRecord::Comm { pid, .. } => has_process(pid),
            RingRecord::Fork { parent_pid, .. } => has_process(parent_pid),
            RingRecord::Exit { tid, .. } => self.population.threads.contains_key(tid),
            RingRecord::Switch { .. } => false,
            _ => true,
        };
        is_ours && time_of(record).is_none_or(|time_ns| time_ns >= from_ns)
    }
}

fn time_of(record: &RingRecord<'_>) -> Option<u64> {
    Some(match record {
        RingRecord::Sample(sample) => sample.time_ns,
        RingRecord::Mmap(mmap) => mmap.stamp.time_ns,
        RingRecord::Comm { stamp, .. }
        | RingRecord::Fork { stamp, .. }
        | RingRecord::Exit { stamp, .. }
        | RingRecord::Switch { stamp, .. } => stamp.time_ns,
        _ => return None,
    })
}
