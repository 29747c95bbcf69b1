//! `memwall bench`: one kernel over one or more sizes.
//!
//! Everything asked for is checked against the machine before the first measurement; each point is handed on
//! as it is finished.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{Kernel, PagePolicy, Workload, kernel::KernelError, workload::WorkloadError};
use machine::{Bytes, CpuSet, Source, Topology, Width, profile::Clock};
use record::bench::{Bench, Pages, Point, Work};

use crate::{
    clock, native,
    noise::{self, StealWatch},
    repeat::{Executor, Plan, repeat},
    request_check::{BadRequest, check_cpus, check_node, check_size, check_threads},
    rig::Rig,
};

/// The schema of [`Bench`].
pub const SCHEMA: &str = "memwall.bench/1";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Parameters set.
    pub kernel: &'a Kernel,
    /// As asked; `None` takes the widest that kernel and CPU share.
    pub width: Option<Width>,
    /// In this order; ignored by kernels that touch no memory.
    pub sizes: &'a [Bytes],
    /// One thread on each.
    pub cpus: &'a CpuSet,
    /// Node to bind the buffers to.
    pub node: Option<u32>,
    /// Pages to ask for.
    pub pages: PagePolicy,
    /// Of every random choice.
    pub seed: u64,
    /// When to stop repeating.
    pub plan: Plan,
}

/// What happened, as it happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A size is about to be measured.
    Size {
        /// Which.
        size: Bytes,
        /// How many were done before.
        done: usize,
        /// How many there are.
        of: usize,
    },
    /// A size is finished.
    Point {
        /// What it gave.
        point: &'a Point,
        /// How many are done with this one.
        done: usize,
        /// How many there are.
        of: usize,
    },
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Something this machine does not have.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// No such version of the kernel here.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// No size was given to a kernel that needs one.
    #[error("kernel '{0}' needs a size; write --size 16K or a sweep such as 16K..1G")]
    NoSize(String),
    /// It could not be simulated.
    #[error("{kernel} over {size}: {source}")]
    Simulation {
        /// The kernel.
        kernel: String,
        /// The size.
        size: Bytes,
        /// Why.
        source: crate::simulated::SimulationError,
    },
    /// It could not be prepared or run.
    #[error("{kernel} over {size}: {source}")]
    Run {
        /// The kernel.
        kernel: String,
        /// The size.
        size: Bytes,
        /// Why.
        source: WorkloadError,
    },
}

impl BenchError {
    /// Whether the request was bad, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(
            self,
            Self::Simulation { .. }
                | Self::Run {
                    source: WorkloadError::Memory(_) | WorkloadError::Team(_) | WorkloadError::Code(_),
                    ..
                }
        )
    }
}

/// A workload ready to run: native, or scripted by a test.
trait Prepared: Executor<Error = WorkloadError> {
    fn work(&self) -> Work;
    fn size(&self) -> Bytes;
    fn pages(&self) -> Option<Pages>;
}

impl Prepared for Workload {
    fn work(&self) -> Work {
        native::work_of(self)
    }

    fn size(&self) -> Bytes {
        Workload::size(self)
    }

    fn pages(&self) -> Option<Pages> {
        native::pages_of(self)
    }
}

/// Checks the request against the machine: returns the width and the sizes it comes to. Measures nothing.
pub fn check(request: &Request<'_>, machine: &Topology) -> Result<(Width, Vec<Bytes>), BenchError> {
    let description = request.kernel.description();
    let width = request.kernel.width_on(&machine.isa, request.width)?;
    check_cpus(machine, request.cpus)?;
    check_threads(request.kernel.name(), description.fixed_threads(), request.cpus.len())?;
    if let Some(node) = request.node {
        check_node(machine, node)?;
    }
    if description.is_register_only() {
        return Ok((width, vec![Bytes(0)]));
    }
    if request.sizes.is_empty() {
        return Err(BenchError::NoSize(request.kernel.name().to_owned()));
    }
    for &size in request.sizes {
        check_size(machine, size, request.node)?;
        let failed = |source| BenchError::Run {
            kernel: request.kernel.name().to_owned(),
            size,
            source: WorkloadError::Assemble(source),
        };
        kernels::geometry::divide(request.kernel, width, size, request.cpus.len()).map_err(failed)?;
    }
    Ok((width, request.sizes.to_vec()))
}

/// Measures. `rig` estimates the clock; `source` is where steal time is read.
pub fn bench(
    request: &Request<'_>,
    rig: &mut dyn Rig,
    source: &Source,
    machine: &Topology,
    progress: &mut dyn FnMut(Progress<'_>),
    interrupt: &AtomicBool,
) -> Result<Bench, BenchError> {
    let (width, sizes) = check(request, machine)?;
    let clock = request.cpus.first().and_then(|cpu| clock::estimate(rig, cpu, interrupt));
    let cpus: Vec<u32> = request.cpus.iter().collect();
    let mut prepare = |size: Bytes| -> Result<Box<dyn Prepared>, WorkloadError> {
        let workload = Workload::prepare(&kernels::Request {
            kernel: request.kernel,
            width,
            size,
            cpus: &cpus,
            node: request.node,
            pages: request.pages,
            seed: request.seed,
        })?;
        Ok(Box::new(workload))
    };
    let steal = || StealWatch::begin(source, request.cpus, machine.hypervisor.is_some());
    let mut bench = header(request, width, clock);
    measure_sizes(&mut bench, &sizes, &request.plan, &mut prepare, &steal, progress, interrupt)?;
    Ok(bench)
}

pub(crate) fn header(request: &Request<'_>, width: Width, clock: Option<Clock>) -> Bench {
    Bench {
        schema: SCHEMA.to_owned(),
        simulated: None,
        kernel: request.kernel.name().to_owned(),
        summary: request.kernel.description().about.clone(),
        width,
        parameters: request.kernel.parameters().map(|(name, value)| (name.to_owned(), value)).collect(),
        cpus: request.cpus.clone(),
        node: request.node,
        seed: request.seed,
        clock,
        points: Vec::new(),
        interrupted: false,
    }
}

type Prepare<'a> = dyn FnMut(Bytes) -> Result<Box<dyn Prepared>, WorkloadError> + 'a;

/// Fills in the points. An interrupt keeps what was measured, the size under way included if it has a sample.
fn measure_sizes(
    bench: &mut Bench,
    sizes: &[Bytes],
    plan: &Plan,
    prepare: &mut Prepare<'_>,
    steal: &dyn Fn() -> StealWatch,
    progress: &mut dyn FnMut(Progress<'_>),
    interrupt: &AtomicBool,
) -> Result<(), BenchError> {
    let of = sizes.len();
    for (done, &asked) in sizes.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        progress(Progress::Size { size: asked, done, of });
        let failed = |source| BenchError::Run { kernel: bench.kernel.clone(), size: asked, source };
        let mut workload = prepare(asked).map_err(failed)?;
        let watch = steal();
        let repeated = repeat(&mut *workload, plan, interrupt).map_err(failed)?;
        let Some(time_ns) = repeated.time_ns() else { break };
        let noise = noise::of_repeated(&repeated, watch.stolen_ns());
        bench.points.push(Point {
            asked,
            size: workload.size(),
            pages: workload.pages(),
            stopped: repeated.stopped,
            samples_ns: repeated.samples_ns,
            time_ns,
            work: workload.work(),
            noise,
        });
        progress(Progress::Point { point: &bench.points[done], done: done + 1, of });
    }
    bench.interrupted = interrupt.load(Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests;
