//! A simulated machine as a rig: the same kernels, the same experiments, a time that repeats to the bit.
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
//! **Its clock.** [`Rig::now_ns`] is the work done so far, in µops and misses at a fixed rate, so that the time
//! allowed for a calibration buys the same measurements on every host.

mod bench;
mod counted;
mod crew;
mod doctor;
mod observed;
mod performer;
mod scenario;
mod stage;
mod window;

pub use bench::bench;
pub use counted::{
    CountedError, CountedKernel, KernelWork, count_kernel, count_scenario, sample_kernel, sample_scenario,
};
pub use doctor::examine;
pub use observed::{Conditions, Interruptions, ObservedKernel, observe_kernel, observe_samples};
pub use scenario::run as run_scenario;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kernels::{Catalogue, Kernel, parse::KernelFileError};
use machine::{
    Bytes, Topology, Width,
    model::Model,
    profile::{Fingerprint, Overheads},
};
use record::bench::{Pages, Stopped, Work};
use sim::{
    core::Statistics,
    engine::{Engine, EngineError, Outcome},
    kernel_source::TeamError,
    memory::{MemorySystem, ModelFault, Options},
    time::Time,
};

use crate::{
    count::Open,
    repeat::{Plan, Repeated},
    rig::{Job, Loaded, Measured, Rig, RigError},
};
use crew::{Crew, Part};

/// Units of work per second of the rig's clock: about what one host core does.
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

/// The kernel that does the same one step at a time.
fn single_step(kernel: &'static str) -> &'static str {
    if kernel == "chase" { "chase-by-step" } else { kernel }
}

/// Why a job could not be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The kernel cannot run on this machine.
    #[error(transparent)]
    Kernel(#[from] kernels::kernel::KernelError),
    /// No such kernel.
    #[error(transparent)]
    Unknown(#[from] kernels::catalogue::UnknownKernel),
    /// The kernel cannot be placed.
    #[error(transparent)]
    Team(#[from] TeamError),
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

/// A kernel with its data on some CPUs.
#[derive(Clone, Copy, Debug)]
struct KernelJob<'a> {
    kernel: &'a Kernel,
    width: Width,
    size: Bytes,
    cpus: &'a [u32],
    node: Option<u32>,
    small_pages: bool,
}

/// A simulated machine to measure on.
pub struct Simulated {
    model: Arc<Model>,
    catalogue: Catalogue,
    seed: u64,
    units: u64,
    /// One machine for all hand-overs, which leave nothing behind that the next would meet.
    between_cores: Option<(Engine<MemorySystem>, u64)>,
}

impl Simulated {
    /// The machine of `model`.
    pub fn new(model: &Model, seed: u64) -> Result<Self, KernelFileError> {
        let mut catalogue = Catalogue::builtin()?;
        catalogue.add(SINGLE_STEP, "single-step chase")?;
        Ok(Self { model: Arc::new(model.clone()), catalogue, seed, units: 0, between_cores: None })
    }

    /// What is simulated.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the machine claims to be.
    pub fn topology(&self) -> Topology {
        self.model.topology()
    }

    /// Which machine a profile of it belongs to.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_model(&self.model)
    }

    fn engine(&mut self) -> Result<Engine<MemorySystem>, SimulationError> {
        self.units += UNITS_PER_MACHINE;
        let options = Options { seed: self.seed, ..Options::default() };
        let memory = MemorySystem::new(&self.model, options)?;
        Ok(Engine::new(&self.model, memory)?)
    }

    fn spend(&mut self, outcome: &Outcome) {
        self.units += outcome.jobs.iter().map(|job| units(&job.statistics)).sum::<u64>();
    }

    /// Kernel, width and place of a job of the catalogue.
    fn measure_job(&mut self, job: &Job, interrupt: &AtomicBool) -> Result<Measured, SimulationError> {
        let kernel = self.kernel(job)?;
        let job = self.kernel_job(job, &kernel)?;
        self.measure_kernel(&job, interrupt)
    }

    fn kernel(&self, job: &Job) -> Result<Kernel, SimulationError> {
        let kernel = self.catalogue.get(job.kernel)?;
        Ok(match job.parameter {
            Some((name, value)) => kernel.with(name, value)?,
            None => kernel,
        })
    }

    fn kernel_job<'a>(&self, job: &'a Job, kernel: &'a Kernel) -> Result<KernelJob<'a>, SimulationError> {
        let width = kernel.width_on(&self.model.isa, None)?;
        let Job { size, cpus, node, small_pages, .. } = job;
        Ok(KernelJob { kernel, width, size: *size, cpus, node: *node, small_pages: *small_pages })
    }

    /// Warms up, then times.
    fn measure_kernel(
        &mut self,
        job: &KernelJob<'_>,
        interrupt: &AtomicBool,
    ) -> Result<Measured, SimulationError> {
        let mut engine = self.engine()?;
        let model = Arc::clone(&self.model);
        let crew = Crew::prepare(job, &model, self.seed, 0)?;
        self.units += crew.units();
        crew.place(engine.memory_mut());
        let pass_ns = if crew.whole {
            let passes = crew.passes();
            crew::run(&mut engine, &mut [crew.part(1)], interrupt).map(|outcome| self.spend(&outcome))?;
            let outcome = crew::run(&mut engine, &mut [crew.part(passes)], interrupt)?;
            self.spend(&outcome);
            outcome.elapsed().ns() / passes as f64
        } else {
            let mut part = [crew.endless()];
            part[0].limits = crew.warm_up();
            crew::run(&mut engine, &mut part, interrupt).map(|outcome| self.spend(&outcome))?;
            part[0].limits = crew.timed();
            let outcome = crew::run(&mut engine, &mut part, interrupt)?;
            self.spend(&outcome);
            crew.pass_ns(&outcome)
        };
        Ok(measured(pass_ns, crew.work()?, &crew, interrupt))
    }

    fn loaded(&mut self, chase: &Job, load: &Job, interrupt: &AtomicBool) -> Result<Loaded, SimulationError> {
        let step_by_step = Job { kernel: single_step(chase.kernel), ..chase.clone() };
        let (chase_kernel, load_kernel) = (self.kernel(&step_by_step)?, self.kernel(load)?);
        let chase = self.kernel_job(chase, &chase_kernel)?;
        let load = self.kernel_job(load, &load_kernel)?;
        let mut engine = self.engine()?;
        let model = Arc::clone(&self.model);
        let chaser = Crew::prepare(&chase, &model, self.seed, 0)?;
        let loader = Crew::prepare(&load, &model, self.seed, chaser.end())?;
        self.units += chaser.units() + loader.units();
        chaser.place(engine.memory_mut());
        loader.place(engine.memory_mut());
        let mut parts: [Part<'_>; 2] = [chaser.endless(), loader.endless()];
        // Loaders go on to lines never seen: only queues have to fill.
        parts[0].limits = chaser.warm_up();
        crew::run(&mut engine, &mut parts[..1], interrupt).map(|outcome| self.spend(&outcome))?;
        parts[0].serial = true;
        parts[0].limits = chaser.instructions_of(LOADED_STEPS / 8);
        parts[1].limits = vec![LOADED_WARM_UP; load.cpus.len()];
        crew::run(&mut engine, &mut parts, interrupt).map(|outcome| self.spend(&outcome))?;
        parts[0].limits = chaser.instructions_of(LOADED_STEPS);
        parts[1].limits = vec![u64::MAX; load.cpus.len()];
        parts[1].background = true;
        let outcome = crew::run(&mut engine, &mut parts, interrupt)?;
        self.spend(&outcome);
        let (of_chase, of_load) = outcome.jobs.split_at(chase.cpus.len());
        let alone = Outcome { jobs: of_chase.to_vec(), ..outcome };
        let chase = measured(chaser.pass_ns(&alone), chaser.work()?, &chaser, interrupt);
        let drawn_bytes_per_s = loader.memory_bytes_per_s(of_load, outcome.start)?;
        Ok(Loaded { chase, drawn_bytes_per_s })
    }

    /// The threads of a producer and consumer of one line: a step is there and back.
    fn round_trips(
        &mut self,
        from: u32,
        to: u32,
        interrupt: &AtomicBool,
    ) -> Result<Measured, SimulationError> {
        let kernel = self.catalogue.get("producer-consumer")?.with("lines", 1)?;
        let width = kernel.width_on(&self.model.isa, None)?;
        let cpus = [from, to];
        let job = KernelJob {
            kernel: &kernel,
            width,
            size: Bytes(64),
            cpus: &cpus,
            node: None,
            small_pages: false,
        };
        let (mut engine, address) = match self.between_cores.take() {
            Some(kept) => kept,
            None => (self.engine()?, 0),
        };
        let model = Arc::clone(&self.model);
        let crew = Crew::prepare(&job, &model, self.seed, address)?;
        crew.place(engine.memory_mut());
        let round_trips = ROUND_TRIPS;
        crew::run(&mut engine, &mut [crew.part(2)], interrupt).map(|outcome| self.spend(&outcome))?;
        let outcome = crew::run(&mut engine, &mut [crew.part(round_trips)], interrupt)?;
        self.spend(&outcome);
        let pass_ns = outcome.elapsed().ns() / round_trips as f64;
        let work = Work { chain: 2.0, ..crew.work()? };
        self.between_cores = Some((engine, crew.end()));
        Ok(measured(pass_ns, work, &crew, interrupt))
    }
}

fn units(statistics: &Statistics) -> u64 {
    // The first two suppliers are the L1 and its fill buffers.
    let missed: u64 = statistics.loads_by_supplier[2..].iter().sum();
    statistics.slots_retired + missed * UNITS_PER_MISS
}

/// One sample, unless interrupted: the time is then of less than was asked.
fn measured(pass_ns: f64, work: Work, crew: &Crew<'_>, interrupt: &AtomicBool) -> Measured {
    let whole = !interrupt.load(Ordering::Relaxed) && pass_ns > 0.0 && pass_ns.is_finite();
    let repeated = Repeated {
        passes: 1,
        samples_ns: if whole { vec![pass_ns] } else { Vec::new() },
        stopped: if whole { Stopped::Simulated } else { Stopped::Interrupted },
        wall_ns: pass_ns,
        involuntary_switches: None,
    };
    Measured { repeated, work, size: crew.size(), pages: Some(crew.pages()) }
}

impl Rig for Simulated {
    fn now_ns(&mut self) -> f64 {
        self.units as f64 / UNITS_PER_S * 1e9
    }

    fn measure(&mut self, job: &Job, _: &Plan, interrupt: &AtomicBool) -> Result<Measured, RigError> {
        self.measure_job(job, interrupt)
            .map_err(|error| RigError::new(format!("{} over {}", job.kernel, job.size), error))
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        _: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, RigError> {
        self.loaded(chase, load, interrupt)
            .map_err(|error| RigError::new(format!("{} against {}", chase.kernel, load.kernel), error))
    }

    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        _: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, RigError> {
        self.round_trips(from, to, interrupt)
            .map_err(|error| RigError::new(format!("CPU {from} to CPU {to}"), error))
    }

    fn overheads(&mut self) -> Option<Overheads> {
        None
    }

    fn tsc_hz(&mut self) -> Option<f64> {
        None
    }
}

/// Pages of a buffer, all of one kind.
fn pages(total: u64, small: bool) -> Pages {
    Pages { huge: Bytes(if small { 0 } else { total }), total: Bytes(total) }
}

/// Nanoseconds from `start`.
fn since_ns(start: Time, at: Time) -> f64 {
    at.since(start).ns()
}

#[cfg(test)]
mod tests;
