//! What experiments ask of a machine. The native rig runs kernels; tests script one and need no time.

use std::{error::Error, sync::atomic::AtomicBool};

use machine::{
    Bytes,
    profile::{Estimate, Overheads, Timer},
};
use record::bench::{Pages, Work};

use crate::{
    repeat::{Plan, Repeated},
    statistics::map_estimate,
};

/// A kernel of the catalogue on some data, somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name in the catalogue.
    pub kernel: &'static str,
    /// A parameter to set.
    pub parameter: Option<(&'static str, u64)>,
    /// All streams and threads together.
    pub size: Bytes,
    /// One thread on each.
    pub cpus: Vec<u32>,
    /// Node to bind the buffers to; `None` leaves each thread its own node.
    pub node: Option<u32>,
    /// 4 KiB pages rather than huge ones.
    pub small_pages: bool,
}

impl Job {
    /// `kernel` over `size` bytes on `cpus`, memory where its threads are.
    pub fn new(kernel: &'static str, size: Bytes, cpus: &[u32]) -> Self {
        Self { kernel, parameter: None, size, cpus: cpus.to_vec(), node: None, small_pages: false }
    }

    /// The same on memory of `node`.
    pub fn on_node(mut self, node: Option<u32>) -> Self {
        self.node = node;
        self
    }

    /// The same on 4 KiB pages.
    pub fn on_small_pages(mut self) -> Self {
        self.small_pages = true;
        self
    }

    /// The same with one parameter set.
    pub fn with(mut self, parameter: &'static str, value: u64) -> Self {
        self.parameter = Some((parameter, value));
        self
    }
}

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
    pub pages: Option<Pages>,
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
pub struct RigError {
    /// What was to be measured.
    pub what: String,
    /// Why not.
    pub source: Box<dyn Error + Send + Sync>,
}

impl RigError {
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

/// A machine to measure on. Every method returns soon after `interrupt` is raised.
pub trait Rig {
    /// Nanoseconds since some moment; only differences matter.
    fn now_ns(&mut self) -> f64;

    /// Runs a job as often as the plan says.
    fn measure(&mut self, job: &Job, plan: &Plan, interrupt: &AtomicBool) -> Result<Measured, RigError>;

    /// Runs `chase` while `load` runs over and over on other CPUs.
    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        plan: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, RigError>;

    /// Hands a line back and forth between two CPUs. One step of the chain is one way.
    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        plan: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, RigError>;

    /// What measuring itself costs; `None` of a simulated machine, whose clock is read from outside.
    fn overheads(&mut self) -> Option<Overheads>;

    /// Rate of the time stamp counter, if it is constant and may be read.
    fn tsc_hz(&mut self) -> Option<f64>;

    /// Where clock samples land on one CPU; `None` of a machine whose clock is not sampled.
    fn skid(&mut self, _cpu: u32) -> Option<Result<Timer, RigError>> {
        None
    }
}
