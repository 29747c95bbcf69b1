//! `memwall bench`: one kernel over one or more sizes.
//!
//! Everything asked for is checked against the machine before the first measurement; each point is handed on
//! as it is finished.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
};

use kernels::{Job, Kernel, PagePolicy, kernel::KernelError, program::AssembleError};
use machine::{Bytes, CpuSet, Topology, Width, profile::Clock};
use record::bench::{Bench, Point};

use crate::{
    clock,
    host::{Host, HostError},
    noise,
    repeat::RepeatPlan,
    request_check::{BadRequest, check_cpus, check_node, check_size, check_threads},
};

/// The schema of [`Bench`].
pub const SCHEMA: &str = "memwall.bench/1";

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchRequest<'a> {
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
    pub plan: RepeatPlan,
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
    /// The kernel makes nothing of this size.
    #[error("{kernel} over {size}: {source}")]
    Size {
        /// The kernel.
        kernel: String,
        /// The size.
        size: Bytes,
        /// Why.
        source: AssembleError,
    },
    /// It could not be prepared or run.
    #[error("{kernel} over {size}: {source}")]
    Run {
        /// The kernel.
        kernel: String,
        /// The size.
        size: Bytes,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl BenchError {
    /// Whether the request was bad, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, Self::Run { .. })
    }
}

/// Checks the request against the machine: returns the width and the sizes it comes to. Measures nothing.
pub fn check(request: &BenchRequest<'_>, machine: &Topology) -> Result<(Width, Vec<Bytes>), BenchError> {
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
        let kernel = request.kernel.name();
        let failed = |source| BenchError::Size { kernel: kernel.to_owned(), size, source };
        kernels::geometry::divide(request.kernel, width, size, request.cpus.len()).map_err(failed)?;
    }
    Ok((width, request.sizes.to_vec()))
}

/// Measures one size after the other. An interrupt keeps what was measured, the size under way included if it has a
/// sample.
pub fn bench(
    request: &BenchRequest<'_>,
    host: &mut dyn Host,
    progress: &mut dyn FnMut(Progress<'_>),
    interrupt: &AtomicBool,
) -> Result<Bench, BenchError> {
    let (width, sizes) = check(request, host.topology())?;
    let clock = request.cpus.first().and_then(|cpu| clock::estimate(host, cpu, interrupt));
    let mut bench = header(request, width, clock);
    bench.simulated = host.simulated().map(str::to_owned);
    let of = sizes.len();
    for (done, &asked) in sizes.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        progress(Progress::Size { size: asked, done, of });
        let Some(point) = point(request, width, asked, host, interrupt)? else { break };
        bench.points.push(point);
        progress(Progress::Point { point: &bench.points[done], done: done + 1, of });
    }
    bench.interrupted = interrupt.load(Ordering::Relaxed);
    Ok(bench)
}

/// One size; `None` if interrupted before its first sample.
fn point(
    request: &BenchRequest<'_>,
    width: Width,
    asked: Bytes,
    host: &mut dyn Host,
    interrupt: &AtomicBool,
) -> Result<Option<Point>, BenchError> {
    let job = Job {
        kernel: request.kernel.clone(),
        width: Some(width),
        size: asked,
        cpus: request.cpus.iter().collect(),
        node: request.node,
        pages: request.pages,
        seed: request.seed,
    };
    let failed = |HostError { source, .. }| {
        let kernel = request.kernel.name().to_owned();
        BenchError::Run { kernel, size: asked, source }
    };
    let steal = host.watch_steal(request.cpus);
    let measured = host.measure(&job, &request.plan, interrupt).map_err(failed)?;
    let Some(time_ns) = measured.repeated.time_ns() else { return Ok(None) };
    let noise = noise::of_repeated(&measured.repeated, steal.and_then(|steal| steal.stolen_ns()));
    Ok(Some(Point {
        asked,
        size: measured.size,
        pages: measured.pages,
        stopped: measured.repeated.stopped,
        samples_ns: measured.repeated.samples_ns,
        time_ns,
        work: measured.work,
        noise,
    }))
}

fn header(request: &BenchRequest<'_>, width: Width, clock: Option<Clock>) -> Bench {
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

#[cfg(test)]
mod tests;
