//! A simulated machine as a host: the same kernels, the same experiments, a time that repeats to the bit.
//!
//! **One sample.** A job runs on a machine whose caches begin empty: first to warm up, then to be timed. Repeating it
//! would give the same time, so it is not repeated.
//!
//! **How much is simulated.** Data of up to twice the caches of its package is gone over once before it is timed:
//! which lines stay depends on all of them. Of more data, what comes next has always left the caches already. As much
//! is gone over first as fills the caches and an eighth more, so that they are as full, and as dirty, as after whole
//! passes; where it is only read in order, no more than is timed: what is dropped unmodified costs nothing. Timed are whole passes of small data, and a window of a pass of large data, whose time is
//! scaled to the pass by its instructions. Kernels whose passes are not the same throughout (threads in turn, rows of
//! a triangle) are always run whole.
//!
//! **Its clock.** [`Host::now_ns`] is the work done so far, in µops and misses at a fixed rate, so that the time
//! allowed for a calibration buys the same measurements on every host.

mod doctor;
mod metered;
mod placed_kernel;
mod plan;
mod progress;
mod victim;
mod window;

pub use crate::meter::{Conditions, Interruptions};
pub use doctor::{LONG_LOADS, examine};
pub use progress::SimulationProgress;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kernels::{Job, JobError, KernelCatalogue, PagePolicy, scenario::Plan};
use machine::{Bytes, DataFileError, Topology, model::Model, profile::Fingerprint};
use record::bench::{BackingPages, Stopped, Work};
use sim::{
    core::Statistics,
    engine::{Engine, EngineError, EngineOutcome},
    memory::{MemoryOptions, MemorySystem, ModelFault},
    plan_source::PlaceError,
    pmu::{SharedBank, SimulatedPmu},
    time::Time,
};

use crate::{
    beside::{VictimLength, VictimReading},
    host::{Host, HostError, Loaded, Measured, PreparedPlan},
    meter::{Meter, MeteredPart, MeteredRun},
    repeat::{RepeatPlan, Repeated},
};
use placed_kernel::{PlacedKernel, ThreadGroup, run};

/// Units of work per second of the host's clock: about what one host core does.
const UNITS_PER_S: f64 = 3e6;
/// Units of a load that missed the first-level cache, beside its µop.
const UNITS_PER_MISS: u64 = 2;
/// Units of making a machine with empty caches.
const UNITS_PER_MACHINE: u64 = 20_000;
/// Steps of a chase that is timed while others draw bandwidth: their work grows with its time.
const LOADED_STEPS: u64 = 600;
/// Instructions of each loader before the chase is timed.
const LOADED_WARM_UP: u64 = 4_000;
/// Times a line goes back and forth.
const ROUND_TRIPS: u64 = 64;

/// The chase with one step per block, to be run block by block beside others.
const SINGLE_STEP: &str = r#"
[[kernel]]
name = "chase-by-step"
about = "p = *p over a random single cycle of all lines, one step per iteration"
source = "molka2017 §3.3"
streams = [{ name = "S", pattern = "cycle" }]
chains = { p = "&S" }
unroll = 1
body = ["p = deref p"]
"#;

/// Why a job could not be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The kernel cannot run on this machine.
    #[error(transparent)]
    Job(#[from] JobError),
    /// It has no such parameter.
    #[error(transparent)]
    Kernel(#[from] kernels::kernel::KernelError),
    /// No such kernel.
    #[error(transparent)]
    Unknown(#[from] kernels::catalogue::UnknownKernel),
    /// The work cannot be placed.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The machine cannot be built.
    #[error(transparent)]
    Model(#[from] ModelFault),
    /// It cannot be run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What it does cannot be computed for its data.
    #[error(transparent)]
    Draw(#[from] kernels::draw::DrawError),
}

/// A simulated machine to measure on.
pub struct Simulated {
    model: Arc<Model>,
    topology: Topology,
    /// Counts what is metered, if anybody does.
    bank: Option<SharedBank>,
    catalogue: KernelCatalogue,
    seed: u64,
    units: u64,
    /// One machine for all hand-overs, which leave nothing behind that the next would meet.
    between_cores: Option<(Engine<MemorySystem>, u64)>,
    /// Runs beside victims and plans.
    beside: Vec<Job>,
    /// Of plans, and of kernels that are counted.
    progress: Arc<SimulationProgress>,
}

impl Simulated {
    /// The machine of `model`.
    pub fn new(model: &Model, seed: u64) -> Result<Self, DataFileError> {
        let mut catalogue = KernelCatalogue::builtin()?;
        catalogue.add(SINGLE_STEP, "single-step chase")?;
        Ok(Self::with_kernels(model, catalogue, seed))
    }

    /// The same with these kernels and no others.
    pub fn with_kernels(model: &Model, catalogue: KernelCatalogue, seed: u64) -> Self {
        let (topology, model) = (model.topology(), Arc::new(model.clone()));
        Self {
            model,
            topology,
            bank: None,
            catalogue,
            seed,
            units: 0,
            between_cores: None,
            beside: Vec::new(),
            progress: Arc::default(),
        }
    }

    /// The same machine, with `pmu` as its PMU.
    pub fn counted_by(mut self, pmu: &SimulatedPmu) -> Self {
        self.bank = Some(pmu.bank());
        self
    }

    /// How far whatever is counted has come.
    pub fn progress(&self) -> Arc<SimulationProgress> {
        Arc::clone(&self.progress)
    }

    /// What is simulated.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Which machine a profile of it belongs to.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_model(&self.model)
    }

    fn engine(&mut self, seed: u64) -> Result<Engine<MemorySystem>, SimulationError> {
        self.units += UNITS_PER_MACHINE;
        let options = MemoryOptions { seed, ..MemoryOptions::default() };
        let memory = MemorySystem::new(&self.model, options)?;
        Ok(Engine::new(&self.model, memory)?)
    }

    fn spend(&mut self, outcome: &EngineOutcome) {
        self.units += outcome.jobs.iter().map(|job| units(&job.statistics)).sum::<u64>();
    }

    /// Warms up, then times.
    fn measure_job(&mut self, job: &Job, interrupt: &AtomicBool) -> Result<Measured, SimulationError> {
        let mut engine = self.engine(job.seed)?;
        let model = Arc::clone(&self.model);
        let kernel = PlacedKernel::prepare(job, &model, 0)?;
        self.units += kernel.units();
        kernel.place(engine.memory_mut());
        let pass_ns = if kernel.whole {
            let passes = kernel.passes();
            let warm_up = run(&mut engine, &mut [kernel.passes_of(1)], interrupt)?;
            self.spend(&warm_up);
            let outcome = run(&mut engine, &mut [kernel.passes_of(passes)], interrupt)?;
            self.spend(&outcome);
            outcome.elapsed().ns() / passes as f64
        } else {
            let mut group = [kernel.endless()];
            group[0].limits = kernel.warm_up();
            let warm_up = run(&mut engine, &mut group, interrupt)?;
            self.spend(&warm_up);
            while !interrupt.load(Ordering::Relaxed)
                && let Some(more) = kernel.still_to_fill(engine.memory())
            {
                group[0].limits = more;
                let filled = run(&mut engine, &mut group, interrupt)?;
                self.spend(&filled);
            }
            group[0].limits = kernel.timed();
            let outcome = run(&mut engine, &mut group, interrupt)?;
            self.spend(&outcome);
            kernel.pass_ns(&outcome)
        };
        Ok(measured(pass_ns, kernel.work()?, &kernel, interrupt))
    }

    fn loaded(&mut self, chase: &Job, load: &Job, interrupt: &AtomicBool) -> Result<Loaded, SimulationError> {
        let chase = self.one_step_at_a_time(chase)?;
        let mut engine = self.engine(chase.seed)?;
        let model = Arc::clone(&self.model);
        let chaser = PlacedKernel::prepare(&chase, &model, 0)?;
        let loader = PlacedKernel::prepare(load, &model, chaser.end())?;
        self.units += chaser.units() + loader.units();
        chaser.place(engine.memory_mut());
        loader.place(engine.memory_mut());
        let mut groups: [ThreadGroup<'_>; 2] = [chaser.endless(), loader.endless()];
        // Loaders go on to lines never seen: only queues have to fill.
        groups[0].limits = chaser.warm_up();
        run(&mut engine, &mut groups[..1], interrupt).map(|outcome| self.spend(&outcome))?;
        groups[0].serial = true;
        groups[0].limits = chaser.instructions_of(LOADED_STEPS / 8);
        groups[1].limits = vec![LOADED_WARM_UP; load.cpus.len()];
        run(&mut engine, &mut groups, interrupt).map(|outcome| self.spend(&outcome))?;
        groups[0].limits = chaser.instructions_of(LOADED_STEPS);
        groups[1].limits = vec![u64::MAX; load.cpus.len()];
        groups[1].background = true;
        let outcome = run(&mut engine, &mut groups, interrupt)?;
        self.spend(&outcome);
        let (of_chase, of_load) = outcome.jobs.split_at(chase.cpus.len());
        let alone = EngineOutcome { jobs: of_chase.to_vec(), ..outcome };
        let measured = measured(chaser.pass_ns(&alone), chaser.work()?, &chaser, interrupt);
        let drawn_bytes_per_s = loader.memory_bytes_per_s(of_load, outcome.start)?;
        Ok(Loaded { chase: measured, drawn_bytes_per_s })
    }

    /// The job with a kernel that does the same one step at a time.
    fn one_step_at_a_time(&self, chase: &Job) -> Result<Job, SimulationError> {
        let kernel = match chase.kernel.name() {
            "chase" => self.catalogue.get("chase-by-step")?,
            _ => chase.kernel.clone(),
        };
        Ok(Job { kernel, ..chase.clone() })
    }

    /// The threads of a producer and consumer of one line: a step is there and back.
    fn round_trips(
        &mut self,
        from: u32,
        to: u32,
        interrupt: &AtomicBool,
    ) -> Result<Measured, SimulationError> {
        let kernel = self.catalogue.get("producer-consumer")?.with("lines", 1)?;
        let job = Job::new(kernel, Bytes(64), &[from, to]).seeded(self.seed);
        let (mut engine, address) = match self.between_cores.take() {
            Some(kept) => kept,
            None => (self.engine(self.seed)?, 0),
        };
        let model = Arc::clone(&self.model);
        let pair = PlacedKernel::prepare(&job, &model, address)?;
        pair.place(engine.memory_mut());
        run(&mut engine, &mut [pair.passes_of(2)], interrupt).map(|outcome| self.spend(&outcome))?;
        let outcome = run(&mut engine, &mut [pair.passes_of(ROUND_TRIPS)], interrupt)?;
        self.spend(&outcome);
        let pass_ns = outcome.elapsed().ns() / ROUND_TRIPS as f64;
        let work = Work { chain: 2.0, ..pair.work()? };
        self.between_cores = Some((engine, pair.end()));
        Ok(measured(pass_ns, work, &pair, interrupt))
    }
}

fn units(statistics: &Statistics) -> u64 {
    // The first two suppliers are the L1 and its fill buffers.
    let missed: u64 = statistics.loads_by_supplier[2..].iter().sum();
    statistics.slots_retired + missed * UNITS_PER_MISS
}

/// One sample, unless interrupted: the time is then of less than was asked.
fn measured(pass_ns: f64, work: Work, kernel: &PlacedKernel<'_>, interrupt: &AtomicBool) -> Measured {
    let whole = !interrupt.load(Ordering::Relaxed) && pass_ns > 0.0 && pass_ns.is_finite();
    let repeated = Repeated {
        passes: 1,
        samples_ns: if whole { vec![pass_ns] } else { Vec::new() },
        stopped: if whole { Stopped::Simulated } else { Stopped::Interrupted },
        wall_ns: pass_ns,
        involuntary_switches: None,
    };
    Measured { repeated, work, size: kernel.size(), pages: Some(kernel.pages()) }
}

impl Host for Simulated {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn simulated(&self) -> Option<&str> {
        Some(&self.model.name)
    }

    fn kernels(&self) -> &KernelCatalogue {
        &self.catalogue
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn now_ns(&mut self) -> f64 {
        self.units as f64 / UNITS_PER_S * 1e9
    }

    fn measure(&mut self, job: &Job, _: &RepeatPlan, interrupt: &AtomicBool) -> Result<Measured, HostError> {
        self.measure_job(job, interrupt).map_err(|error| HostError::new(job.to_string(), error))
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        _: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, HostError> {
        self.loaded(chase, load, interrupt)
            .map_err(|error| HostError::new(format!("{chase} against {load}"), error))
    }

    fn run_beside(&mut self, jobs: &[Job]) -> Result<(), HostError> {
        self.beside = jobs.to_vec();
        Ok(())
    }

    fn watch_victim(
        &mut self,
        victim: &Job,
        length: VictimLength,
        _: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<VictimReading, HostError> {
        self.watched(victim, length, interrupt).map_err(|error| HostError::new(victim.to_string(), error))
    }

    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        _: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError> {
        self.round_trips(from, to, interrupt)
            .map_err(|error| HostError::new(format!("CPU {from} to CPU {to}"), error))
    }

    fn run_metered(
        &mut self,
        job: &Job,
        part: MeteredPart,
        meter: &mut dyn Meter,
        interrupt: &AtomicBool,
    ) -> Result<MeteredRun, HostError> {
        let (model, bank, progress) = (&*self.model, self.bank.clone(), &*self.progress);
        let machine = metered::MeteredMachine { model, bank, progress };
        metered::run_metered(machine, job, part, meter, interrupt)
    }

    fn prepare<'h>(
        &'h mut self,
        plan: Plan,
        cpus: &'h [u32],
        nodes: &'h [Option<u32>],
    ) -> Result<Box<dyn PreparedPlan + 'h>, HostError> {
        let bank = self.bank.clone();
        let beside = self.beside.clone();
        let progress = &*self.progress;
        Ok(Box::new(plan::SimulatedPlan { plan, model: &self.model, cpus, nodes, bank, beside, progress }))
    }
}

/// Pages of a buffer, all of one kind.
fn pages(total: u64, policy: PagePolicy) -> BackingPages {
    let huge = if policy == PagePolicy::Huge { total } else { 0 };
    BackingPages { huge: Bytes(huge), total: Bytes(total) }
}

/// Nanoseconds from `start`.
fn since_ns(start: Time, at: Time) -> f64 {
    at.since(start).ns()
}

#[cfg(test)]
mod tests;
