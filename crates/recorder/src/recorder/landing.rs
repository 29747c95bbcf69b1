//! Samples of another time or machine: where they landed, whatever the processor was doing.

use std::num::NonZeroU64;

use pmu::sampling::{KernelSample, Mode, Weight};
use record::{
    file::RecordedSample,
    ids::{PlaceId, ThreadId},
    loads::LoadSample,
};

use super::Recorder;
use crate::{loads, operand, slices::Doing};

/// The kernel's number of what runs where nothing else does.
const IDLE: i32 = 0;

impl Recorder {
    /// Where a sample landed and who ran. Nothing is asked of this machine about processes of that number.
    pub(crate) fn land(&mut self, sample: &KernelSample<'_>) -> Option<RecordedSample> {
        let ip = sample.ip?;
        let time_ns = self.window.time(sample.time_ns);
        let thread = self.any_thread(sample.pid, sample.tid, time_ns)?;
        let (place, address, stack) = match sample.mode {
            Mode::User | Mode::Unknown => self.land_in_program(sample, ip),
            mode => {
                let number = self.modules.beyond(mode);
                (self.place(number, sample.pid, None, ip).index, None, None)
            }
        };
        Some(RecordedSample {
            time_ns,
            thread: ThreadId(thread),
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            place: PlaceId(place),
            address: sample.address.and_then(NonZeroU64::new).or(address),
            stack,
        })
    }

    fn land_in_program(
        &mut self,
        sample: &KernelSample<'_>,
        ip: u64,
    ) -> (u32, Option<NonZeroU64>, Option<u32>) {
        let mapped = self.mapped(sample.pid, ip);
        let number = match &mapped {
            Some(mapped) => mapped.module,
            None => {
                self.counts.unmapped += 1;
                self.modules.unknown(sample.pid)
            }
        };
        let known = self.place(number, sample.pid, mapped.as_ref(), ip);
        let address = known.operands.watched.and_then(|operand| {
            let bias = ip.wrapping_sub(self.places[known.index as usize].address);
            operand::address(&operand, sample.registers.as_ref(), bias)
        });
        let address = address.and_then(NonZeroU64::new);
        if let Some(address) = sample.address.or(address.map(NonZeroU64::get)) {
            self.touch(sample.pid, address);
        }
        let stack = sample.call_chain.and_then(|chain| self.stack(sample.pid, known.index, chain));
        (known.index, address, stack)
    }

    /// What the processor says of a load, if the sample is one.
    pub(crate) fn load_of(sample: &KernelSample<'_>, landed: &RecordedSample) -> Option<LoadSample> {
        let source = sample.data_source.filter(loads::is_load)?;
        Some(LoadSample {
            time_ns: landed.time_ns,
            thread: landed.thread,
            cpu: landed.cpu,
            place: landed.place,
            address: sample.address.and_then(NonZeroU64::new),
            // No load takes no time: 0 is what processors say that did not measure it.
            latency_cycles: sample.weight.map(Weight::latency_cycles).filter(|cycles| *cycles > 0),
            origin: loads::origin(&source),
            translated_at_hand: loads::translated_at_hand(&source),
        })
    }

    /// The index of a thread, also of the idle one and of one that the kernel did not name any more.
    fn any_thread(&mut self, pid: i32, tid: i32, at_ns: u64) -> Option<u32> {
        // Threads that end have no number any more: there is one such for each process.
        if let Some(thread) = self.nameless.get(&pid).filter(|_| tid < IDLE) {
            return Some(*thread);
        }
        if let Some(thread) = self.population.threads.get(&tid).filter(|thread| thread.pid == pid) {
            return Some(thread.index);
        }
        if !self.population.processes.contains_key(&pid) {
            let process = self.population.process(pid, None, at_ns);
            if pid <= IDLE {
                process.about.name = if pid == IDLE { "idle" } else { "unknown" }.to_owned();
            }
            self.writer.process(process.id, &process.about);
        }
        let thread = self.begin_thread(pid, tid, at_ns, Doing::Running)?;
        if tid < IDLE {
            self.nameless.insert(pid, thread);
        }
        Some(thread)
    }
}
