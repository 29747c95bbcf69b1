//! Kernels on whole simulated machines: cores, caches, memory.
#![allow(dead_code, reason = "each test file and benchmark uses a part of it")]

pub mod tables;

use kernels::{Job as KernelJob, KernelCatalogue, geometry::Geometry, truth::TruthCounts};
use machine::{Bytes, model::Model};
use sim::{
    engine::{Engine, EngineJob, EngineOutcome},
    memory::{MemoryOptions, MemorySystem, PageSize},
    plan_source::{AddressOrder, PlacedPlan},
    source::BlockSource,
};

/// The machine of molka2017.
pub const HASWELL: &str = "haswell-ep-e5-2680v3";
/// Where kernels are placed.
const ADDRESS: u64 = 1 << 32;

/// A model that comes with memwall.
pub fn model(name: &str) -> Model {
    Model::builtin(name).expect("a model")
}

/// Huge pages, as molka2017 uses; prefetchers as the model has them.
pub fn huge() -> MemoryOptions {
    MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() }
}

/// A kernel, its data and where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub kernel: &'static str,
    /// For parameters of the kernel.
    pub parameter: Option<(&'static str, u64)>,
    pub bytes_per_thread: u64,
    pub threads: usize,
    /// Of thread 0; the others follow.
    pub first_core: usize,
    /// Package that has the pages; where they are touched first otherwise.
    pub node: Option<u32>,
    /// Passes before the measured ones.
    pub warm: u64,
    pub passes: u64,
}

impl Work {
    /// One thread on core 0, one pass to warm caches and one that counts.
    pub fn new(kernel: &'static str, bytes_per_thread: u64) -> Self {
        let (parameter, node) = (None, None);
        Self { kernel, parameter, bytes_per_thread, threads: 1, first_core: 0, node, warm: 1, passes: 1 }
    }
}

/// A machine and one kernel on it.
pub struct Rig {
    pub engine: Engine<MemorySystem>,
    pub team: PlacedPlan,
    pub work: Work,
    first_core: usize,
}

impl Rig {
    /// A machine with cold caches, and the work placed on it.
    pub fn new(model: &Model, options: MemoryOptions, work: Work) -> Self {
        let found = KernelCatalogue::builtin().expect("a catalogue").get(work.kernel).expect("a kernel");
        let kernel = work
            .parameter
            .iter()
            .fold(found, |kernel, (name, value)| kernel.with(name, *value).expect("one"));
        let size = Bytes(work.bytes_per_thread * work.threads as u64);
        let cpus: Vec<u32> = (0..work.threads as u32).collect();
        Self::of_job(model, options, &KernelJob::new(kernel, size, &cpus), work)
    }

    /// The same with a kernel of no catalogue; of the work only passes and places are taken.
    pub fn of_job(model: &Model, options: MemoryOptions, job: &KernelJob, work: Work) -> Self {
        let plan = job.plan(&model.isa).expect("a plan");
        let team = PlacedPlan::new(plan, AddressOrder::ByThread { from: ADDRESS }).expect("a team");
        let mut memory = MemorySystem::new(model, options).expect("a memory");
        if let Some(node) = work.node {
            for place in team.data() {
                memory.map(place.address..place.address + place.bytes, node, options.page_size);
            }
        }
        let engine = Engine::new(model, memory).expect("an engine");
        Self { engine, team, work, first_core: work.first_core }
    }

    /// Runs `passes` passes.
    pub fn run(&mut self, passes: u64) -> EngineOutcome {
        let mut sources = self.team.step_sources(0, passes);
        let jobs = sources.iter_mut().enumerate();
        let mut jobs: Vec<EngineJob<'_>> = jobs
            .map(|(thread, source)| {
                let core = self.first_core + thread;
                EngineJob { core, thread: 0, background: false, source: source as &mut dyn BlockSource }
            })
            .collect();
        self.engine.run(&mut jobs).expect("a run")
    }

    /// Warms, then runs what counts.
    pub fn measure(&mut self) -> EngineOutcome {
        if self.work.warm > 0 {
            self.run(self.work.warm);
        }
        self.run(self.work.passes)
    }

    /// What so many passes do, by thread.
    pub fn counts(&self, passes: u64) -> Vec<TruthCounts> {
        let step = &self.team.plan().steps()[0];
        step.parts.iter().map(|part| step.counts(part, passes)).collect()
    }

    /// The part of a thread.
    pub fn geometry(&self, thread: usize) -> &Geometry {
        &self.team.plan().steps()[0].parts[thread].geometry
    }

    /// Memory of the machine.
    pub fn memory(&self) -> &MemorySystem {
        self.engine.memory()
    }
}

/// GB/s of the bytes that instructions load or store.
pub fn gb_per_s(model: &Model, options: MemoryOptions, work: Work) -> f64 {
    let outcome = Rig::new(model, options, work).measure();
    let bytes = work.bytes_per_thread * work.threads as u64 * work.passes;
    bytes as f64 / outcome.elapsed().ns()
}

/// Core cycles per load of a pointer chase.
pub fn cycles_per_load(model: &Model, options: MemoryOptions, work: Work) -> f64 {
    let outcome = Rig::new(model, options, work).measure();
    let loads = work.bytes_per_thread / 64 * work.passes;
    outcome.elapsed().ns() * model.clock.core_hz as f64 / 1e9 / loads as f64
}

/// The machine of molka2017 with a quarter of its shared cache: memory is reached with less data, and nothing but capacity
/// differs.
pub fn small_haswell() -> Model {
    let mut model = model(HASWELL);
    if let Some(l3) = &mut model.l3 {
        l3.geometry.size = Bytes(l3.geometry.size.0 / 4);
    }
    model
}
