//! Between an instrument and a machine: what is to be counted in the next run, and what was counted so far.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use machine::CpuSet;

use super::{
    probe::Harvest,
    recipe::{Programme, Recipe},
    sample::SimulatedSample,
};
use crate::{
    signal::{BoxCounts, CounterTurns},
    time::Time,
};

/// A bank that an instrument and an engine share.
#[derive(Clone, Debug, Default)]
pub struct SharedBank(Arc<Mutex<Bank>>);

impl SharedBank {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Bank> {
        // A panic elsewhere leaves at worst a run uncounted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of a machine.
#[derive(Debug, Default)]
pub(crate) struct Bank {
    programme: Option<Arc<Programme>>,
    cpus: CpuSet,
    started: bool,
    /// By counter, then by CPU.
    pub of_cpus: Vec<BTreeMap<u32, u64>>,
    /// By counter, then by package and number of the box.
    pub of_boxes: Vec<BTreeMap<(u32, u32), u64>>,
    /// CPUs on which anything ran while it was counted.
    pub ran: CpuSet,
    pub enabled_fs: u64,
    /// By set that takes turns.
    pub running_fs: Vec<u64>,
    pub samples: Vec<(u32, SimulatedSample)>,
}

impl Bank {
    /// Puts a programme in, all at zero and stopped. False if there is one already.
    pub fn load(&mut self, programme: Programme, cpus: CpuSet) -> bool {
        if self.programme.is_some() {
            return false;
        }
        let counters = programme.counters.len();
        *self = Self {
            of_cpus: vec![BTreeMap::new(); counters],
            of_boxes: vec![BTreeMap::new(); counters],
            running_fs: vec![0; programme.turns.max(1)],
            programme: Some(Arc::new(programme)),
            cpus,
            ..Self::default()
        };
        true
    }

    /// Takes the programme out.
    pub fn unload(&mut self) {
        *self = Self::default();
    }

    pub fn set_started(&mut self, started: bool) {
        self.started = started;
    }

    pub fn programme(&self) -> Option<&Arc<Programme>> {
        self.programme.as_ref()
    }

    /// What the next run is to count, and where.
    pub fn active(&self) -> Option<(Arc<Programme>, CpuSet)> {
        let programme = self.programme.as_ref().filter(|_| self.started)?;
        Some((programme.clone(), self.cpus.clone()))
    }

    /// What a hardware thread counted in a run.
    pub fn add_thread(
        &mut self,
        cpu: u32,
        harvest: &Harvest,
        samples: impl Iterator<Item = SimulatedSample>,
    ) {
        for (count, of_cpu) in harvest.counts.iter().zip(&mut self.of_cpus) {
            if let Some(count) = count {
                *of_cpu.entry(cpu).or_default() += count;
            }
        }
        self.ran.insert(cpu);
        self.samples.extend(samples.map(|sample| (cpu, sample)));
    }

    /// What boxes counted in a run, and how long it was.
    pub fn add_run(&mut self, start: Time, end: Time, turns: &CounterTurns, boxes: &BoxCounts) {
        let Some(programme) = self.programme.clone() else { return };
        self.enabled_fs += end.since(start).0;
        for (set, sum) in self.running_fs.iter_mut().enumerate() {
            *sum += turns.running(start.0, end.0, set);
        }
        for (counter, sums) in programme.counters.iter().zip(&mut self.of_boxes) {
            if let Recipe::Boxes { unit, terms } = &counter.recipe {
                for (place, signals) in boxes.of(*unit, counter.turn) {
                    let count: u64 =
                        terms.iter().map(|term| signals[term.signal as usize] * u64::from(term.weight)).sum();
                    *sums.entry(place).or_default() += count;
                }
            }
        }
    }
}
