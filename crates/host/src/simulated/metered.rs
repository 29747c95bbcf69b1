//! A kernel on a simulated machine under its PMU.
//!
//! Whole passes are simulated as they are. In its steady state the window of a pass that a bandwidth needs (see
//! [`super`]) is, so that data beyond the caches of a large machine costs no more than small data; truth is that of the
//! part done.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::Job;
use machine::model::Model;
use sim::{
    engine::{Engine, EngineOutcome, Interrupts},
    memory::{MemoryOptions, MemorySystem},
    pmu::SharedBank,
    time::Time,
};

use super::{PlacedKernel, SimulationError, ThreadGroup, progress::SimulationProgress, run};
use crate::{
    host::HostError,
    meter::{Conditions, Meter, MeteredPart, MeteredRun},
    work_truth::{self, Done},
};

/// How often the caches are filled anew while mixed reads and writes of data beyond them are counted.
const FILLINGS: u64 = 2;

/// A machine with a kernel placed on it.
struct Placed<'a> {
    engine: Engine<MemorySystem>,
    kernel: &'a PlacedKernel<'a>,
    interrupt: &'a AtomicBool,
    progress: &'a SimulationProgress,
}

/// A machine that may be counted.
pub(super) struct MeteredMachine<'a> {
    pub model: &'a Model,
    /// Its PMU.
    pub bank: Option<SharedBank>,
    /// Is told how far whole passes have come.
    pub progress: &'a SimulationProgress,
}

/// Runs `job` on a machine.
pub(super) fn run_metered(
    machine: MeteredMachine<'_>,
    job: &Job,
    part: MeteredPart,
    meter: &mut dyn Meter,
    interrupt: &AtomicBool,
) -> Result<MeteredRun, HostError> {
    let MeteredMachine { model, bank, progress } = machine;
    let failed = |error: SimulationError| HostError::new(job.to_string(), error);
    let kernel = PlacedKernel::prepare(job, model, 0).map_err(failed)?;
    let conditions = match part {
        MeteredPart::Steady(conditions) => conditions,
        MeteredPart::Passes { .. } => Conditions::default(),
    };
    let engine = engine(model, bank, &kernel, job.seed, conditions).map_err(failed)?;
    let mut placed = Placed { engine, kernel: &kernel, interrupt, progress };
    let passes = match part {
        MeteredPart::Passes { passes, .. } => Some(passes.unwrap_or_else(|| kernel.passes()).max(1)),
        MeteredPart::Steady(_) => kernel.whole.then(|| kernel.passes()),
    };
    if let (MeteredPart::Passes { warm_up, .. }, Some(passes)) = (part, passes) {
        progress.begin(kernel.pass_instructions() * (warm_up + passes));
    }
    let mut group = placed.warmed_up(part).map_err(failed)?;
    let mut elapsed_ns = Vec::new();
    loop {
        match passes {
            Some(passes) => group = [kernel.passes_of(passes)],
            None => group[0].limits = steady_instructions(&kernel, job, conditions),
        }
        let refused = |refusal| HostError::new(job.to_string(), refusal);
        meter.begin().map_err(refused)?;
        let outcome = placed.run(&mut group);
        let again = meter.end().map_err(refused)?;
        let outcome = outcome.map_err(failed)?;
        elapsed_ns.push(outcome.elapsed().ns());
        if again {
            continue;
        }
        let parts = kernel.parts_of(&outcome);
        let done = passes.map_or(Done::Parts(&parts), Done::Whole);
        let truth = work_truth::of_step(kernel.step(), done, &|thread| kernel.caches(thread));
        let mut truth = truth.map_err(|error| failed(error.into()))?;
        truth.cycles = Some(cycles(model, &outcome));
        return Ok(MeteredRun { elapsed_ns, passes, truth });
    }
}

fn engine(
    model: &Model,
    bank: Option<SharedBank>,
    kernel: &PlacedKernel<'_>,
    seed: u64,
    conditions: Conditions,
) -> Result<Engine<MemorySystem>, SimulationError> {
    let Conditions { prefetchers, disturbance, interrupts, .. } = conditions;
    let options = MemoryOptions { seed, prefetchers, disturbance, ..MemoryOptions::default() };
    let mut memory = MemorySystem::new(model, options)?;
    kernel.place(&mut memory);
    let mut engine = Engine::new(model, memory)?;
    engine.set_interrupts(interrupts.map(|each| Interrupts {
        seed,
        every: Time::from_ns(each.every_ns),
        lasts: Time::from_ns(each.lasts_ns),
    }));
    bank.into_iter().for_each(|bank| engine.attach(bank));
    Ok(engine)
}

impl<'a> Placed<'a> {
    /// The threads, caches warm.
    fn warmed_up(&mut self, part: MeteredPart) -> Result<[ThreadGroup<'a>; 1], SimulationError> {
        let mut group = [self.kernel.endless()];
        match part {
            MeteredPart::Passes { warm_up: 0, .. } => return Ok(group),
            MeteredPart::Passes { warm_up, .. } => group = [self.kernel.passes_of(warm_up)],
            MeteredPart::Steady(_) if self.kernel.whole => group = [self.kernel.passes_of(1)],
            MeteredPart::Steady(_) => group[0].limits = self.kernel.warm_up(),
        }
        self.run(&mut group)?;
        if let (MeteredPart::Steady(_), false) = (part, self.kernel.whole) {
            while !self.interrupt.load(Ordering::Relaxed)
                && let Some(more) = self.kernel.still_to_fill(self.engine.memory())
            {
                group[0].limits = more;
                self.run(&mut group)?;
            }
        }
        Ok(group)
    }

    fn run(&mut self, group: &mut [ThreadGroup<'a>]) -> Result<EngineOutcome, SimulationError> {
        group.iter_mut().for_each(|group| group.watched = Some(self.progress));
        Ok(run(&mut self.engine, group, self.interrupt)?)
    }
}

/// Instructions of each thread that are counted in its steady state.
fn steady_instructions(kernel: &PlacedKernel<'_>, job: &Job, conditions: Conditions) -> Vec<u64> {
    match conditions.instructions {
        Some(each) => vec![each; job.cpus.len()],
        None if kernel.mixes_beyond_caches() => kernel.turnover(FILLINGS),
        None => kernel.timed(),
    }
}

/// Core cycles of all threads.
fn cycles(model: &Model, outcome: &EngineOutcome) -> f64 {
    let cycles_per_ns = model.clock.core_hz as f64 / 1e9;
    outcome.jobs.iter().map(|job| job.end.since(outcome.start).ns() * cycles_per_ns).sum()
}
