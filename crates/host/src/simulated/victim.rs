//! Known work on a simulated machine while other work runs beside it.

use std::sync::{Arc, atomic::AtomicBool};

use kernels::Job;
use machine::model::Model;
use sim::{
    access::Supplier,
    core::Statistics,
    engine::{Engine, EngineOutcome, JobOutcome},
    memory::MemorySystem,
};

use super::{
    Simulated, SimulationError, measured,
    placed_kernel::{PlacedKernel, ThreadGroup, run},
    since_ns,
};
use crate::beside::{BesideTraffic, VictimLength, VictimLoads, VictimReading};

/// Work beside something else, placed behind it.
pub(super) struct PlacedBeside<'a> {
    kernels: Vec<PlacedKernel<'a>>,
}

impl<'a> PlacedBeside<'a> {
    /// Places code and data from `address` on.
    pub fn prepare(jobs: &'a [Job], model: &'a Model, address: u64) -> Result<Self, SimulationError> {
        let mut kernels: Vec<PlacedKernel<'a>> = Vec::new();
        for job in jobs {
            let from = kernels.last().map_or(address, PlacedKernel::end);
            kernels.push(PlacedKernel::prepare(job, model, from)?);
        }
        Ok(Self { kernels })
    }

    /// Gives it pages and lets it run alone until it has touched its data; then it is in the background.
    pub fn settled(
        &self,
        engine: &mut Engine<MemorySystem>,
        interrupt: &AtomicBool,
    ) -> Result<Vec<ThreadGroup<'_>>, SimulationError> {
        let mut groups = Vec::new();
        for kernel in &self.kernels {
            kernel.place(engine.memory_mut());
            let mut group = kernel.endless();
            group.limits = kernel.settling();
            groups.push(group);
        }
        if !groups.is_empty() {
            run(engine, &mut groups, interrupt)?;
        }
        for group in &mut groups {
            group.background = true;
            group.limits.fill(u64::MAX);
        }
        Ok(groups)
    }

    fn traffic(
        &self,
        jobs: &[JobOutcome],
        outcome: &EngineOutcome,
    ) -> Result<Option<BesideTraffic>, SimulationError> {
        let mut traffic = BesideTraffic { described_bytes_per_s: 0.0, misses_per_s: Some(0.0) };
        let mut left = jobs;
        for kernel in &self.kernels {
            let (own, rest) = left.split_at(kernel.threads());
            traffic.described_bytes_per_s += kernel.memory_bytes_per_s(own, outcome.start)?;
            let misses: f64 = own
                .iter()
                .map(|job| {
                    let ns = since_ns(outcome.start, job.end);
                    if ns > 0.0 { from_memory(&job.statistics) as f64 / ns * 1e9 } else { 0.0 }
                })
                .sum();
            traffic.misses_per_s = traffic.misses_per_s.map(|sum| sum + misses);
            left = rest;
        }
        Ok((!self.kernels.is_empty()).then_some(traffic))
    }
}

/// Loads that no cache of the package served.
fn from_memory(statistics: &Statistics) -> u64 {
    statistics.loads_by_supplier[Supplier::LocalMemory as usize..].iter().sum()
}

impl Simulated {
    /// Warms up, then times and counts, with what was named running beside it all the time.
    pub(super) fn watched(
        &mut self,
        victim: &Job,
        length: VictimLength,
        interrupt: &AtomicBool,
    ) -> Result<VictimReading, SimulationError> {
        let mut engine = self.engine(victim.seed)?;
        let (model, jobs) = (Arc::clone(&self.model), self.beside.clone());
        let kernel = PlacedKernel::prepare(victim, &model, 0)?;
        kernel.place(engine.memory_mut());
        let beside = PlacedBeside::prepare(&jobs, &model, kernel.end())?;
        let mut groups = vec![kernel.endless()];
        groups.extend(beside.settled(&mut engine, interrupt)?);
        groups[0].limits = kernel.instructions_of(length.warm_up);
        run(&mut engine, &mut groups, interrupt).map(|outcome| self.spend(&outcome))?;
        let lines = |engine: &Engine<MemorySystem>| {
            let stats = engine.memory().memory_stats(kernel.first_package());
            stats.reads + stats.writes
        };
        let before = lines(&engine);
        groups[0].limits = kernel.instructions_of(length.timed);
        let outcome = run(&mut engine, &mut groups, interrupt)?;
        self.spend(&outcome);
        let moved = (lines(&engine) - before) as f64 * 64.0;
        let (own, others) = outcome.jobs.split_at(victim.cpus.len());
        let loads = VictimLoads {
            iterations: length.timed * own.len() as u64,
            from_memory: own.iter().map(|job| from_memory(&job.statistics)).sum(),
        };
        let alone = EngineOutcome { jobs: own.to_vec(), ..outcome };
        // Background work goes on a little longer than the victim; what it moved then is counted with its time.
        let all_ns = since_ns(outcome.start, engine.now());
        Ok(VictimReading {
            measured: measured(kernel.pass_ns(&alone), kernel.work()?, &kernel, interrupt),
            loads: Some(loads),
            beside: beside.traffic(others, &outcome)?,
            memory_bytes_per_s: (all_ns > 0.0).then(|| moved / all_ns * 1e9),
        })
    }
}
