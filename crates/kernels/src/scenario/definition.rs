//! A scenario as data: threads, buffers, and regions of steps.

use machine::{Bytes, Width};

use crate::{kernel::Kernel, memory::PagePolicy};

/// A small program. Everything it does follows from this, a number of threads and a width.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What users type.
    pub name: String,
    /// What it does, in a sentence.
    pub about: String,
    /// Paper and section it comes from.
    pub source: String,
    /// Of every random choice.
    pub seed: u64,
    /// How many threads; `None`: as many as CPUs are named when it is run.
    pub threads: Option<usize>,
    /// Values that may be set when it is run, with those in force.
    pub variables: Vec<ScenarioVariable>,
    /// The data it works on.
    pub buffers: Vec<BufferSpec>,
    /// What it does, in this order.
    pub regions: Vec<ScenarioRegion>,
}

/// A value that may be set when the scenario is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioVariable {
    /// Its name, written `$name` in the file.
    pub name: String,
    /// The value in force, as it would be typed.
    pub value: String,
    /// Whether the user set it.
    pub set: bool,
}

/// Data that steps work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Its name in steps.
    pub name: String,
    /// Of the whole if shared, of each thread's own otherwise. Steps use it rounded down to whole iterations.
    pub size: Bytes,
    /// Whose it is.
    pub sharing: BufferSharing,
    /// Where its pages lie.
    pub home: BufferHome,
    /// Which pages it is made of.
    pub pages: PagePolicy,
}

/// Whose a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSharing {
    /// One for each thread.
    Private,
    /// One for all.
    Shared,
}

/// The NUMA node of a buffer's pages, seen from the thread that owns it; the first thread if it is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferHome {
    /// Where that thread runs.
    Local,
    /// The next node after the one where it runs, which must not be the same.
    Remote,
    /// This one.
    Node(u32),
    /// Where the thread runs that works on it: of a matrix that threads share, each row where its thread does.
    FirstTouch,
}

/// A named stretch of the program. Its threads enter it together and leave it one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioRegion {
    /// Its name among its siblings.
    pub name: String,
    /// How often it is entered each time the region around it is.
    pub repeat: u64,
    /// Which threads take part; `None`: those of the region around it.
    pub threads: Option<Vec<usize>>,
    /// What happens in it.
    pub body: Body,
}

/// What happens in a region.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Kernels; each thread goes through those it takes part in without waiting for the others.
    Steps(Vec<ScenarioStep>),
    /// Regions, in this order.
    Regions(Vec<ScenarioRegion>),
}

/// A kernel on some data.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioStep {
    /// Which, parameters set; a rate sets its `nops` later.
    pub kernel: Kernel,
    /// As asked; `None`: the widest that kernel and CPU share.
    pub width: Option<Width>,
    /// Index into [`Scenario::buffers`]; `None` for kernels that touch no memory.
    pub buffer: Option<usize>,
    /// How often it goes over its data.
    pub passes: u64,
    /// Which threads take part; `None`: those of the region.
    pub threads: Option<Vec<usize>>,
    /// How much of a shared buffer each thread works on.
    pub span: StepSpan,
    /// Bytes by which each thread begins further on than the one before, for kernels at a fixed place.
    pub shift: u64,
    /// Lines to be moved, in bytes per second of all threads together; met by a number of nops found when it
    /// is run.
    pub rate_bytes_per_s: Option<f64>,
}

/// How much of a shared buffer a thread works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSpan {
    /// Equal parts, one for each thread of the step.
    Own,
    /// All of it.
    Whole,
}
