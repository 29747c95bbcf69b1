//! Probes on the threads of a run, put there and taken away.

use std::sync::Arc;

use machine::CpuSet;

use super::{Engine, EngineCore, EngineOutcome, Running};
use crate::{
    access::MemoryPort,
    pmu::{Probe, SimulatedSample, recipe::Programme},
    signal::{CounterTurns, SignalWatch},
    time::Time,
};

/// What a run counts.
pub(super) struct Watched {
    programme: Arc<Programme>,
    cpus: CpuSet,
    turns: CounterTurns,
}

impl<M: MemoryPort> Engine<M> {
    /// The number of a hardware thread: first threads of all cores come first.
    fn cpu(&self, job: &Running) -> u32 {
        (job.thread * self.cores.len() + job.core) as u32
    }

    /// Puts probes where an open set of events asks for them.
    pub(super) fn begin_watch(&mut self, running: &[Running]) -> Option<Watched> {
        let (programme, cpus) = self.bank.as_ref()?.lock().active()?;
        let mut watch = SignalWatch { boxes: programme.box_signals(), ..SignalWatch::default() };
        for job in running {
            let cpu = self.cpu(job);
            let Some(Some(EngineCore { hardware, threads, .. })) = self.cores.get_mut(job.core) else {
                continue;
            };
            threads[job.thread].probe = None;
            if cpus.contains(cpu) {
                let begin = hardware.clock.cycle_at(self.now);
                let probe = Probe::new(&programme, &hardware.clock, begin);
                watch.cores = watch.cores.union(probe.wanted());
                threads[job.thread].probe = Some(Box::new(probe));
            }
        }
        let tick = Time::from_ns(programme.tick_ns as f64).0;
        let turns = programme.turns(self.now.0, tick, |end_fs| self.now.0 + end_fs);
        self.memory.watch(watch, turns.clone());
        Some(Watched { programme, cpus, turns })
    }

    /// Takes the probes away and adds up what they counted.
    pub(super) fn end_watch(&mut self, watched: &Watched, outcome: &EngineOutcome, running: &[Running]) {
        let Some(bank) = self.bank.clone() else { return };
        let boxes = self.memory.unwatch(outcome.start, self.now);
        let mut bank = bank.lock();
        // A programme taken out while it ran has nowhere to go.
        if !bank.programme().is_some_and(|programme| Arc::ptr_eq(programme, &watched.programme)) {
            return;
        }
        bank.add_run(outcome.start, self.now, &watched.turns, &boxes);
        for (job, done) in running.iter().zip(&outcome.jobs) {
            let cpu = self.cpu(job);
            let seconds = done.end.since(outcome.start).ns() * 1e-9;
            let reference = (seconds * self.model.clock.core_hz as f64).round() as u64;
            let Some(Some(EngineCore { hardware, threads, .. })) = self.cores.get_mut(job.core) else {
                continue;
            };
            let probe = threads[job.thread].take_probe(hardware, &mut self.memory);
            if let Some(probe) = probe.filter(|_| watched.cpus.contains(cpu)) {
                let clock = hardware.clock;
                let harvest = probe.finish(clock.cycle_at(done.end), reference);
                let samples = harvest.samples.iter().map(|raw| SimulatedSample {
                    time_ns: clock.time(raw.cycle).ns(),
                    instruction: raw.instruction,
                    load: raw.load,
                    stored: raw.stored,
                });
                bank.add_thread(cpu, &harvest, samples);
            }
        }
    }
}
