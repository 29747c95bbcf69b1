//! Known work for a machine: a kernel, its data, and where it runs.
//!
//! A kernel is a scenario of one step: a job becomes a [`Plan`] as every scenario does, and natively and on a
//! simulated machine that plan is what runs.

use std::fmt;

use machine::{Bytes, Isa, Width};

use crate::{
    description::KernelShape,
    kernel::{Kernel, KernelError},
    memory::PagePolicy,
    program::AssembleError,
    scenario::{
        Body, BufferHome, BufferSharing, BufferSpec, Plan, PlanError, Scenario, ScenarioRegion, ScenarioStep,
        StepSpan,
    },
};

/// A kernel on some data, somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Which kernel, parameters set.
    pub kernel: Kernel,
    /// Width of its vector operations; `None`: the widest that kernel and CPU share.
    pub width: Option<Width>,
    /// Data set of all streams and threads together. Without meaning for kernels that touch no memory.
    pub size: Bytes,
    /// One thread on each.
    pub cpus: Vec<u32>,
    /// NUMA node for all buffers; `None`: where each thread touches first.
    pub node: Option<u32>,
    /// Page size to ask for.
    pub pages: PagePolicy,
    /// Of every random choice.
    pub seed: u64,
}

/// Why a job cannot be planned for a CPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The kernel does not exist in this width here.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It cannot be assembled for this size.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// It makes no plan.
    #[error(transparent)]
    Plan(PlanError),
}

impl From<PlanError> for JobError {
    /// A job has one step: which one failed need not be said.
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Kernel { source, .. } => Self::Kernel(source),
            PlanError::Assemble { source, .. } => Self::Assemble(source),
            other => Self::Plan(other),
        }
    }
}

impl Job {
    /// `kernel` over `size` bytes on `cpus` in its widest form, on huge pages where its threads are; seed 1.
    pub fn new(kernel: Kernel, size: Bytes, cpus: &[u32]) -> Self {
        let (width, node, pages) = (None, None, PagePolicy::Huge);
        Self { kernel, width, size, cpus: cpus.to_vec(), node, pages, seed: 1 }
    }

    /// The same on memory of `node`.
    pub fn on_node(mut self, node: Option<u32>) -> Self {
        self.node = node;
        self
    }

    /// The same on 4 KiB pages.
    pub fn on_small_pages(mut self) -> Self {
        self.pages = PagePolicy::Small;
        self
    }

    /// The same with one parameter set.
    pub fn with(mut self, parameter: &str, value: u64) -> Result<Self, KernelError> {
        self.kernel = self.kernel.with(parameter, value)?;
        Ok(self)
    }

    /// The same in this width.
    pub fn in_width(mut self, width: Width) -> Self {
        self.width = Some(width);
        self
    }

    /// The same with other random choices.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The program of one region and one step that does this, one pass of it.
    pub fn scenario(&self) -> Scenario {
        let description = self.kernel.description();
        // Threads that work on the same data share one buffer; others have equal parts of the size.
        let (sharing, size) = match description.shape {
            KernelShape::Private(_) => {
                (BufferSharing::Private, Bytes(self.size.0 / self.cpus.len().max(1) as u64))
            }
            KernelShape::Turns { .. } | KernelShape::Triangle(_) => (BufferSharing::Shared, self.size),
        };
        let name = self.kernel.name().to_owned();
        let home = self.node.map_or(BufferHome::FirstTouch, BufferHome::Node);
        let data = BufferSpec { name: "data".to_owned(), size, sharing, home, pages: self.pages };
        let buffers = if description.is_register_only() { Vec::new() } else { vec![data] };
        let step = ScenarioStep {
            kernel: self.kernel.clone(),
            width: self.width,
            buffer: (!buffers.is_empty()).then_some(0),
            passes: 1,
            threads: None,
            span: StepSpan::Own,
            shift: 0,
            rate_bytes_per_s: None,
        };
        let body = Body::Steps(vec![step]);
        Scenario {
            about: description.about.clone(),
            source: description.source.clone(),
            seed: self.seed,
            threads: None,
            variables: Vec::new(),
            buffers,
            regions: vec![ScenarioRegion { name: name.clone(), repeat: 1, threads: None, body }],
            name,
        }
    }

    /// The plan of its one step on a CPU with `isa`.
    pub fn plan(&self, isa: &Isa) -> Result<Plan, JobError> {
        Ok(Plan::lowered(&self.scenario(), self.cpus.len(), isa, 1)?)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} over {}", self.kernel.name(), self.size)?;
        self.node.map_or(Ok(()), |node| write!(formatter, " on node {node}"))
    }
}
