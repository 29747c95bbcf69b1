//! A Haswell core on scripted memory, and kernels run on it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use kernels::{Job as KernelJob, Kernel, KernelCatalogue, truth::TruthCounts};
use machine::{Bytes, Isa, Width, model::Model};
use sim::{
    access::Supplier,
    engine::{Engine, EngineJob, EngineOutcome},
    plan_source::{AddressOrder, PlacedPlan},
    scripted_memory::ScriptedMemory,
    source::BlockSource,
    time::Time,
};

/// Where kernels are placed.
pub const ADDRESS: u64 = 1 << 32;

/// The machine of molka2017.
pub fn haswell() -> Model {
    Model::builtin("haswell-ep-e5-2680v3").expect("a model")
}

/// A kernel with its parameters.
pub fn kernel(name: &str, parameters: &[(&str, u64)]) -> Kernel {
    let found = KernelCatalogue::builtin().expect("a catalogue").get(name).expect("a kernel");
    parameters.iter().fold(found, |kernel, (name, value)| kernel.with(name, *value).expect("a parameter"))
}

/// One or more threads of a kernel, ready to run.
pub fn team(kernel: &Kernel, width: Width, size: u64, threads: usize) -> PlacedPlan {
    let cpus: Vec<u32> = (0..threads as u32).collect();
    let job = KernelJob::new(kernel.clone(), Bytes(size), &cpus).in_width(width);
    // Whoever asks for a width knows a machine that has it.
    let every_width = Isa { x86_64: true, avx: true, avx2: true, fma: true, avx512f: true };
    let plan = job.plan(&every_width).expect("a plan");
    PlacedPlan::new(plan, AddressOrder::ByThread { from: ADDRESS }).expect("a team")
}

/// What so many passes do, by thread.
pub fn counts(team: &PlacedPlan, passes: u64) -> Vec<TruthCounts> {
    let step = &team.plan().steps()[0];
    step.parts.iter().map(|part| step.counts(part, passes)).collect()
}

/// Cycles of the model as time.
pub fn cycles(model: &Model, cycles: u64) -> Time {
    Time::cycle_of(model.clock.core_hz).times(cycles)
}

/// Everything in the L1.
pub fn l1_only(model: &Model) -> ScriptedMemory {
    ScriptedMemory::new(cycles(model, model.l1d.latency.into()), model.l1d.misses_in_flight as usize)
}

/// The data of a team at one latency, all else in the L1.
pub fn data_at(
    model: &Model,
    team: &PlacedPlan,
    supplier: Supplier,
    latency: Time,
    buffers: usize,
) -> ScriptedMemory {
    let l1 = cycles(model, model.l1d.latency.into());
    team.data().fold(ScriptedMemory::new(l1, buffers), |memory, place| {
        memory.with(place.address..place.address + place.bytes, supplier, latency)
    })
}

/// Runs all threads of a team on cores 0, 1, …
pub fn run(engine: &mut Engine<ScriptedMemory>, team: &PlacedPlan, passes: u64) -> EngineOutcome {
    let mut sources = team.step_sources(0, passes);
    let jobs = sources.iter_mut().enumerate();
    let mut jobs: Vec<EngineJob<'_>> = jobs
        .map(|(core, source)| EngineJob {
            core,
            thread: 0,
            background: false,
            source: source as &mut dyn BlockSource,
        })
        .collect();
    engine.run(&mut jobs).expect("a run")
}

/// Cycles and counts per pass of the first thread: what two runs differ by, the second twice as long.
pub struct PerPass {
    pub cycles: f64,
    pub without_execution: f64,
    pub stall_l2: f64,
}

/// Steady state of the first core: the difference between long and short.
pub fn per_pass(model: &Model, team: &PlacedPlan, memory: ScriptedMemory, passes: u64) -> PerPass {
    let mut engine = Engine::new(model, memory).expect("an engine");
    run(&mut engine, team, passes);
    let short = run(&mut engine, team, passes).jobs[0].statistics;
    let long = run(&mut engine, team, 2 * passes).jobs[0].statistics;
    let per = |long: u64, short: u64| (long as f64 - short as f64) / passes as f64;
    PerPass {
        cycles: per(long.cycles, short.cycles),
        without_execution: per(long.activity.without_execution(), short.activity.without_execution()),
        stall_l2: per(long.activity.stall_l2_miss_pending, short.activity.stall_l2_miss_pending),
    }
}

/// A loop written by hand: `body`, then a conditional jump back to its start.
pub struct LoopSource<F> {
    blocks: std::sync::Arc<[code::Block]>,
    rounds: u64,
    step: F,
}

/// Where the code of a [`LoopSource`] lies.
pub const CODE: u64 = 0x4000;

impl<F: FnMut(u64, &mut sim::source::BlockExecution)> LoopSource<F> {
    /// `step` gives the addresses of each round; the jump back is taken unless it says otherwise.
    pub fn new(body: &[&[u8]], rounds: u64, step: F) -> Self {
        let mut bytes = body.concat();
        let back = -(bytes.len() as i64 + 2);
        bytes.extend([0x75, i8::try_from(back).expect("a short loop") as u8]);
        let block = code::decode_block(&bytes, CODE).expect("a block");
        Self { blocks: [block].into(), rounds, step }
    }
}

impl<F: FnMut(u64, &mut sim::source::BlockExecution)> BlockSource for LoopSource<F> {
    fn blocks(&self) -> &std::sync::Arc<[code::Block]> {
        &self.blocks
    }

    fn next(&mut self, execution: &mut sim::source::BlockExecution) -> bool {
        let Some(rounds) = self.rounds.checked_sub(1) else { return false };
        self.rounds = rounds;
        execution.block = 0;
        execution.taken = true;
        execution.addresses.clear();
        (self.step)(rounds, execution);
        true
    }
}

/// Runs one source on core 0 and gives what it did.
pub fn run_one(model: &Model, memory: ScriptedMemory, source: &mut dyn BlockSource) -> sim::core::Statistics {
    let mut engine = Engine::new(model, memory).expect("an engine");
    let jobs = &mut [EngineJob { core: 0, thread: 0, background: false, source }];
    engine.run(jobs).expect("a run").jobs[0].statistics
}
