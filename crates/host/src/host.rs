//! What experiments ask of a machine: this one, a simulated one, or one that a test scripts and that needs no time.

use std::{collections::BTreeMap, error::Error, sync::atomic::AtomicBool};

use events::Scope;
use kernels::{
    Job, KernelCatalogue,
    scenario::{Plan, truth::Pass},
};
use machine::{
    Bytes, CpuSet, Topology,
    probe::{ProbePlan, ProbeReading},
    profile::{Estimate, Overheads, Timer},
};
use record::bench::{BackingPages, Work};

use crate::{
    beside::{VictimLength, VictimReading},
    meter::{Meter, MeteredPart, MeteredRun},
    noise::StealWatch,
    repeat::{RepeatPlan, Repeated},
    statistics::map_estimate,
};

/// What a job gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Times of one pass.
    pub repeated: Repeated,
    /// What one pass does, all threads together.
    pub work: Work,
    /// Data set used, rounded to whole iterations.
    pub size: Bytes,
    /// Pages behind the buffers, if the system says.
    pub pages: Option<BackingPages>,
}

impl Measured {
    /// Nanoseconds per dependent step of one thread. `None` for work without a chain, or interrupted before a
    /// sample.
    pub fn step_ns(&self) -> Option<Estimate> {
        let steps = Some(self.work.chain).filter(|&steps| steps > 0.0)?;
        self.repeated.time_ns().map(|time| map_estimate(&time, |ns| ns / steps))
    }

    /// As [`Measured::step_ns`], of the fastest sample: what the machine does when nothing disturbs it.
    pub fn fastest_step_ns(&self) -> Option<f64> {
        let steps = Some(self.work.chain).filter(|&steps| steps > 0.0)?;
        let fastest = self.repeated.samples_ns.iter().copied().min_by(f64::total_cmp)?;
        Some(fastest / steps)
    }

    /// Bytes per second as the program sees them.
    pub fn program_bytes_per_s(&self) -> Option<Estimate> {
        self.repeated.time_ns().map(|time| map_estimate(&time, |ns| self.work.program_bytes / ns * 1e9))
    }

    /// Whether every byte was on huge pages; `false` if unknown.
    pub fn all_huge(&self) -> bool {
        self.pages.is_some_and(|pages| pages.huge >= pages.total && pages.total.0 > 0)
    }
}

/// A measurement that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{what} could not be measured: {source}")]
pub struct HostError {
    /// What was to be measured.
    pub what: String,
    /// Why not.
    pub source: Box<dyn Error + Send + Sync>,
}

impl HostError {
    /// Wraps the reason.
    pub fn new(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { what: what.into(), source: source.into() }
    }
}

/// Latency while others draw bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The chase.
    pub chase: Measured,
    /// Bytes per second the loaders moved meanwhile.
    pub drawn_bytes_per_s: f64,
}

/// What one pass does, in the terms of a recording.
pub fn work_of(pass: &Pass) -> Work {
    Work {
        instructions: pass.counts.instructions as f64,
        accesses: (pass.counts.loads + pass.counts.stores) as f64,
        program_bytes: (pass.counts.load_bytes + pass.counts.store_bytes) as f64,
        memory_bytes: pass.memory_bytes,
        flops: pass.counts.flops as f64,
        chain: pass.chain as f64,
    }
}

/// A machine to measure on. Every method returns soon after `interrupt` is raised.
pub trait Host {
    /// What it claims to be.
    fn topology(&self) -> &Topology;

    /// The model, if it is simulated: nothing disturbs it, and a second measurement would be the first once more.
    fn simulated(&self) -> Option<&str> {
        None
    }

    /// The kernels it knows by name.
    fn kernels(&self) -> &KernelCatalogue;

    /// Of every random choice of jobs by name.
    fn seed(&self) -> u64;

    /// The kernel of this name over `size` bytes on `cpus`, memory where its threads are.
    fn job(&self, kernel: &str, size: Bytes, cpus: &[u32]) -> Result<Job, HostError> {
        let found = self.kernels().get(kernel);
        let found = found.map_err(|error| HostError::new(format!("{kernel} over {size}"), error))?;
        Ok(Job::new(found, size, cpus).seeded(self.seed()))
    }

    /// Nanoseconds since some moment; only differences matter.
    fn now_ns(&mut self) -> f64;

    /// Runs a job as often as the plan says.
    fn measure(
        &mut self,
        job: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError>;

    /// Runs `chase` while `load` runs over and over on other CPUs.
    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, HostError>;

    /// Lets these run beside all that is measured from now on, each on CPUs of its own; none: nothing runs there any more.
    /// On a real machine their data is touched and they are under way when this returns.
    fn run_beside(&mut self, jobs: &[Job]) -> Result<(), HostError> {
        match jobs.first() {
            None => Ok(()),
            Some(job) => {
                Err(HostError::new(job.to_string(), "this machine runs nothing beside what it measures"))
            }
        }
    }

    /// Runs a job next to what [`Host::run_beside`] named.
    fn watch_victim(
        &mut self,
        victim: &Job,
        _length: VictimLength,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<VictimReading, HostError> {
        let measured = self.measure(victim, plan, interrupt)?;
        Ok(VictimReading { measured, loads: None, beside: None, memory_bytes_per_s: None })
    }

    /// Hands a line back and forth between two CPUs. One step of the chain is one way.
    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError>;

    /// What measuring itself costs; `None` of a simulated machine, whose clock is read from outside.
    fn overheads(&mut self) -> Option<Overheads> {
        None
    }

    /// How fast the last cache and memory answer just now, in some 50 ms; `None` of a machine that nobody else uses.
    fn probe(&mut self, _plan: &ProbePlan) -> Option<Result<ProbeReading, HostError>> {
        None
    }

    /// Rate of the time stamp counter, if it is constant and may be read.
    fn tsc_hz(&mut self) -> Option<f64> {
        None
    }

    /// Where clock samples land on one CPU; `None` of a machine whose clock is not sampled.
    fn skid(&mut self, _cpu: u32) -> Option<Result<Timer, HostError>> {
        None
    }

    /// Watches from now on what others take of these CPUs; `None` of a machine that has no others.
    fn watch_steal(&self, _cpus: &CpuSet) -> Option<StealWatch> {
        None
    }

    /// Whom an instrument counts that is to count known work on these CPUs and nothing else: where nobody else runs, the
    /// CPUs.
    fn scope(&self, cpus: &[u32]) -> Scope {
        Scope::Cpus(cpus.iter().copied().collect())
    }

    /// Runs a job under a meter.
    fn run_metered(
        &mut self,
        job: &Job,
        part: MeteredPart,
        meter: &mut dyn Meter,
        interrupt: &AtomicBool,
    ) -> Result<MeteredRun, HostError>;

    /// Makes a plan ready to run: one thread on each CPU, each buffer on the node named for it, or where its thread
    /// touches it first.
    fn prepare<'h>(
        &'h mut self,
        plan: Plan,
        cpus: &'h [u32],
        nodes: &'h [Option<u32>],
    ) -> Result<Box<dyn PreparedPlan + 'h>, HostError>;
}

/// A plan ready to run on a machine.
pub trait PreparedPlan {
    /// What runs.
    fn plan(&self) -> &Plan;

    /// Slows a step down: sets its number of empty operations per iteration.
    fn set_nops(&mut self, step: usize, nops: u64) -> Result<(), HostError>;

    /// Time of one iteration of the slowest thread of a step that runs alone; `None` if interrupted.
    fn iteration_ns(&mut self, step: usize, interrupt: &AtomicBool) -> Result<Option<f64>, HostError>;

    /// Lets every thread go through its schedule. An interrupt keeps the entries that were finished.
    fn run(&mut self, interrupt: &AtomicBool) -> Result<PlanRun, HostError>;

    /// Pages behind one of the plan's instances, if the system says.
    fn pages(&self, instance: usize) -> Option<BackingPages>;
}

/// A plan that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRun {
    /// Entries that each thread finished.
    pub entries: Vec<Vec<RegionEntry>>,
    /// When the first thread began.
    pub start_ns: f64,
    /// From then until the last thread ended.
    pub wall_ns: f64,
    /// Times any thread was pushed off its CPU, if the system counts them.
    pub involuntary_switches: Option<u64>,
    /// Where the plan's instances begin, by their number, on a machine that says so.
    pub addresses: BTreeMap<usize, u64>,
}

/// One finished entry of a region by one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionEntry {
    /// Index into the plan's regions.
    pub region: usize,
    /// When all its threads were there.
    pub start_ns: f64,
    /// When this thread left it.
    pub end_ns: f64,
}
