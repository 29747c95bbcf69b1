//! A plan on a simulated machine: region by region, in simulated time.
//!
//! Caches begin empty and pages lie where their owners would have touched them first.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{
    Job,
    scenario::{Plan, PlannedStep},
};
use machine::model::Model;
use record::bench::BackingPages;
use sim::{
    engine::{Engine, EngineJob},
    memory::{MemoryOptions, MemorySystem},
    plan_source::{AddressOrder, PlacedPlan, PlanSource},
    pmu::SharedBank,
    source::BlockSource,
};

use super::{
    SimulationError, pages,
    placed_kernel::{engine_jobs, page_size, place, windows as beside_windows},
    progress::SimulationProgress,
    victim::PlacedBeside,
    window::Window,
};
use crate::host::{HostError, PlanRun, PreparedPlan, RegionEntry};

/// Instructions of each thread before the pace of a step is looked at, at most, and while it is.
const PACE_WARM_UP: u64 = 2_000_000;
const PACE_TIMED: u64 = 100_000;

/// A plan and where it runs. Each run begins with empty caches.
pub(super) struct SimulatedPlan<'a> {
    pub plan: Plan,
    pub model: &'a Model,
    pub cpus: &'a [u32],
    pub nodes: &'a [Option<u32>],
    /// Counts whole runs, if anybody does.
    pub bank: Option<SharedBank>,
    /// Runs beside whole runs, from before they begin until they end.
    pub beside: Vec<Job>,
    /// Is told of whole runs.
    pub progress: &'a SimulationProgress,
}

impl SimulatedPlan<'_> {
    fn placed(&self) -> Result<(PlacedPlan, Engine<MemorySystem>), SimulationError> {
        let placed = PlacedPlan::new(self.plan.clone(), AddressOrder::DataFirst)?;
        let scenario = self.plan.scenario();
        let options = MemoryOptions { seed: scenario.seed, ..MemoryOptions::default() };
        let mut memory = MemorySystem::new(self.model, options)?;
        for range in placed.data() {
            let Some(index) = range.instance else { continue };
            // Of the node asked for, or of the package its owner runs on.
            let core = place(self.model, self.cpus[range.thread]).0 as u32;
            let home = core / self.model.cores_per_socket.max(1);
            let node = self.nodes.get(index).copied().flatten().unwrap_or(home);
            let size = page_size(scenario.buffers[self.plan.instances()[index].buffer].pages);
            memory.map(range.address..range.address + range.bytes, node, size);
        }
        let engine = Engine::new(self.model, memory)?;
        Ok((placed, engine))
    }

    /// Where a thread runs.
    fn job<'s>(&self, thread: usize, source: &'s mut dyn BlockSource) -> EngineJob<'s> {
        let (core, thread) = place(self.model, self.cpus[thread]);
        EngineJob { core, thread, background: false, source }
    }

    fn failed(&self) -> impl Fn(SimulationError) -> HostError + use<> {
        let name = self.plan.scenario().name.clone();
        move |error| HostError::new(name.clone(), error)
    }

    fn timed_alone(&self, step: usize, interrupt: &AtomicBool) -> Result<Option<f64>, SimulationError> {
        let (placed, mut engine) = self.placed()?;
        let planned = &self.plan.steps()[step];
        let parts = &planned.parts;
        let pass: Vec<u64> = parts.iter().map(|part| planned.pass_counts(part).instructions.max(1)).collect();
        let mut sources = placed.step_sources(step, 1 << 40);
        let mut run = |limit: &dyn Fn(u64) -> u64| {
            let sources = sources.iter_mut().zip(&pass);
            let mut windows: Vec<_> =
                sources.map(|(source, &pass)| Window::new(source, limit(pass), interrupt)).collect();
            let windows = windows.iter_mut().zip(parts);
            let mut jobs: Vec<EngineJob<'_>> =
                windows.map(|(source, part)| self.job(part.thread, source)).collect();
            engine.run(&mut jobs)
        };
        run(&|pass| pass.min(PACE_WARM_UP))?;
        let outcome = run(&|_| PACE_TIMED)?;
        if interrupt.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let slowest = outcome.jobs.iter().zip(parts.iter().zip(&pass)).map(|(job, (part, &pass))| {
            let iterations =
                job.statistics.instructions as f64 / pass as f64 * part.geometry.iterations.max(1) as f64;
            job.end.since(outcome.start).ns() / iterations
        });
        Ok(Some(slowest.fold(f64::MIN_POSITIVE, f64::max)))
    }

    /// Of all threads, from the first step to the last.
    fn instructions(&self) -> u64 {
        let of_step = |step: &PlannedStep| {
            let pass: u64 = step.parts.iter().map(|part| step.pass_counts(part).instructions).sum();
            pass * step.passes * self.plan.regions()[step.region].entries
        };
        self.plan.steps().iter().map(of_step).sum()
    }

    fn run_all(&self, interrupt: &AtomicBool) -> Result<PlanRun, SimulationError> {
        let (placed, mut engine) = self.placed()?;
        let beside = PlacedBeside::prepare(&self.beside, self.model, placed.end())?;
        let mut groups = beside.settled(&mut engine, interrupt)?;
        self.bank.iter().for_each(|bank| engine.attach(bank.clone()));
        let mut sources = placed.sources();
        self.progress.begin(self.instructions());
        let window = |source| Window::new(source, u64::MAX, interrupt).watched(self.progress);
        let mut windows: Vec<_> = sources.iter_mut().map(window).collect();
        let windows = windows.iter_mut().enumerate();
        let mut others = beside_windows(&mut groups, interrupt);
        let mut jobs: Vec<EngineJob<'_>> = windows.map(|(thread, source)| self.job(thread, source)).collect();
        jobs.extend(engine_jobs(&mut others));
        let outcome = engine.run(&mut jobs)?;
        Ok(PlanRun {
            entries: sources.into_iter().map(entries).collect(),
            start_ns: outcome.start.ns(),
            wall_ns: outcome.elapsed().ns(),
            involuntary_switches: None,
            addresses: placed.data().filter_map(|range| Some((range.instance?, range.address))).collect(),
        })
    }
}

fn entries(source: PlanSource<'_>) -> Vec<RegionEntry> {
    let visits = source.into_visits().into_iter();
    visits
        .map(|visit| RegionEntry { region: visit.region, start_ns: visit.start.ns(), end_ns: visit.end.ns() })
        .collect()
}

impl PreparedPlan for SimulatedPlan<'_> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn set_nops(&mut self, step: usize, nops: u64) -> Result<(), HostError> {
        let set = self.plan.set_nops(step, nops);
        set.map_err(|error| HostError::new(self.plan.scenario().name.clone(), error))
    }

    fn iteration_ns(&mut self, step: usize, interrupt: &AtomicBool) -> Result<Option<f64>, HostError> {
        self.timed_alone(step, interrupt).map_err(self.failed())
    }

    fn run(&mut self, interrupt: &AtomicBool) -> Result<PlanRun, HostError> {
        self.run_all(interrupt).map_err(self.failed())
    }

    fn pages(&self, instance: usize) -> Option<BackingPages> {
        let instance = self.plan.instances().get(instance)?;
        Some(pages(instance.allocate.0, self.plan.scenario().buffers[instance.buffer].pages))
    }
}
