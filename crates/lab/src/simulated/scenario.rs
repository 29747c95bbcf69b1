//! `memwall scenario` on a simulated machine: the same plan, region by region, in simulated time.
//!
//! Caches begin empty and pages lie where their owners would have touched them first.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{scenario::Plan, truth};
use machine::{CpuSet, model::Model, profile::Noise};
use record::scenario::{BufferUse, ScenarioRun};
use sim::{
    engine::{Engine, Job, Outcome},
    memory::{MemorySystem, Options, PageSize},
    pmu::SharedBank,
};

use super::{
    SimulationError, crew, pages,
    performer::{Performer, Shared},
    stage::{Stage, page_size},
    window::Window,
};
use crate::{
    request_check::BadRequest,
    scenario::{
        Recorded, Request, RunError,
        pacing::{RunsAlone, pace},
        placement, plan,
    },
};

/// Instructions of each thread before the pace of a step is looked at, at most, and while it is.
const PACE_WARM_UP: u64 = 2_000_000;
const PACE_TIMED: u64 = 100_000;

/// Runs. An interrupt keeps the entries that were finished.
pub fn run(request: &Request<'_>, model: &Model, interrupt: &AtomicBool) -> Result<ScenarioRun, RunError> {
    run_with(request, model, None, interrupt)
}

/// The same while a PMU counts; looking for the pace of a step is not counted.
pub(super) fn run_with(
    request: &Request<'_>,
    model: &Model,
    bank: Option<SharedBank>,
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    let machine = model.topology();
    let mut plan = plan(request, &machine)?;
    one_each(request)?;
    let scenario = request.scenario.name.clone();
    let failed = |source| RunError::Simulation { scenario: scenario.clone(), source };
    let nodes = placement::nodes(&plan, request.cpus, &machine)?;
    let place = Places { model, cpus: request.cpus, nodes: &nodes };
    let paces = pace(&mut plan, &mut Alone { place: &place, interrupt, failed: &failed })?;
    let (stays, outcome) = perform(&plan, &place, bank, interrupt).map_err(&failed)?;
    let wall_ns = outcome.elapsed().ns();
    let noise = Noise { wall_ns, ..Noise::default() };
    let buffers = buffers(&plan, &nodes);
    let simulated = Some(model.name.clone());
    let recorded = Recorded { simulated, request, paces, buffers, wall_ns, noise };
    recorded.finish(&plan, &stays, outcome.start.ns(), interrupt.load(Ordering::Relaxed))
}

/// There is no operating system to share a CPU out.
fn one_each(request: &Request<'_>) -> Result<(), RunError> {
    let used: CpuSet = request.cpus.iter().copied().collect();
    if used.len() < request.cpus.len() {
        let (kernel, needs) = (request.scenario.name.clone(), request.cpus.len());
        return Err(BadRequest::Sharing { scenario: kernel, threads: needs, cpus: used.len() }.into());
    }
    Ok(())
}

/// Where a plan is run.
struct Places<'a> {
    model: &'a Model,
    cpus: &'a [u32],
    nodes: &'a [Option<u32>],
}

impl Places<'_> {
    fn engine(&self, plan: &Plan, stage: &Stage<'_>) -> Result<Engine<MemorySystem>, SimulationError> {
        let options = Options { seed: plan.scenario().seed, ..Options::default() };
        let mut memory = MemorySystem::new(self.model, options)?;
        let package = |&cpu: &u32| crew::place(self.model, cpu).0 as u32 / self.model.cores_per_socket.max(1);
        let packages: Vec<u32> = self.cpus.iter().map(package).collect();
        stage.place(&mut memory, &packages, self.nodes);
        Ok(Engine::new(self.model, memory)?)
    }
}

type Stays = Vec<Vec<crate::scenario::Stay>>;

fn perform(
    plan: &Plan,
    place: &Places<'_>,
    bank: Option<SharedBank>,
    interrupt: &AtomicBool,
) -> Result<(Stays, Outcome), SimulationError> {
    let stage = Stage::prepare(plan)?;
    let mut engine = place.engine(plan, &stage)?;
    bank.into_iter().for_each(|bank| engine.attach(bank));
    let shared = Shared::new(plan);
    let mut performers: Vec<Performer<'_>> =
        (0..plan.threads()).map(|thread| Performer::new(&stage, &shared, thread, interrupt)).collect();
    let mut jobs: Vec<Job<'_>> = performers
        .iter_mut()
        .zip(place.cpus)
        .map(|(source, &cpu)| {
            let (core, thread) = crew::place(place.model, cpu);
            Job { core, thread, background: false, source }
        })
        .collect();
    let outcome = engine.run(&mut jobs)?;
    Ok((performers.into_iter().map(|performer| performer.stays).collect(), outcome))
}

fn buffers(plan: &Plan, nodes: &[Option<u32>]) -> Vec<BufferUse> {
    let instances = plan.instances().iter().zip(nodes);
    instances
        .map(|(instance, &node)| BufferUse {
            name: plan.scenario().buffers[instance.buffer].name.clone(),
            thread: instance.thread,
            size: plan.size(instance.buffer),
            node,
            pages: Some(pages(instance.allocate.0, page_size(plan, instance.buffer) == PageSize::Small)),
        })
        .collect()
}

/// The simulated machine, running a step alone; each run begins with empty caches.
struct Alone<'a> {
    place: &'a Places<'a>,
    interrupt: &'a AtomicBool,
    failed: &'a dyn Fn(SimulationError) -> RunError,
}

impl RunsAlone for Alone<'_> {
    fn reload(&mut self, _plan: &Plan, _step: usize) -> Result<(), RunError> {
        Ok(())
    }

    fn iteration_ns(&mut self, plan: &Plan, step: usize) -> Result<Option<f64>, RunError> {
        iteration_ns(plan, step, self.place, self.interrupt).map_err(self.failed)
    }
}

/// Time of one iteration of the slowest thread; `None` if interrupted.
fn iteration_ns(
    plan: &Plan,
    step: usize,
    place: &Places<'_>,
    interrupt: &AtomicBool,
) -> Result<Option<f64>, SimulationError> {
    let stage = Stage::prepare(plan)?;
    let mut engine = place.engine(plan, &stage)?;
    let shared = Shared::new(plan);
    let parts = &plan.steps()[step].parts;
    let pass: Vec<u64> = parts
        .iter()
        .map(|part| {
            let count = |passes| truth::counts(&part.program, &part.geometry, passes, part.random);
            count(2).minus(count(1)).instructions.max(1)
        })
        .collect();
    let mut performers: Vec<Performer<'_>> = parts
        .iter()
        .map(|part| Performer::new(&stage, &shared, part.thread, interrupt).alone(step, 1 << 40))
        .collect();
    let mut run = |limit: &dyn Fn(u64) -> u64| {
        let limits = pass.iter().map(|&pass| limit(pass));
        let mut windows: Vec<_> = performers
            .iter_mut()
            .zip(limits)
            .map(|(performer, limit)| Window::new(performer, limit, interrupt))
            .collect();
        let mut jobs: Vec<Job<'_>> = windows
            .iter_mut()
            .zip(parts)
            .map(|(source, part)| {
                let (core, thread) = crew::place(place.model, place.cpus[part.thread]);
                Job { core, thread, background: false, source }
            })
            .collect();
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
