//! A kernel recorded by the sampler and the recorder that a user's program is recorded by.

use std::{path::Path, sync::atomic::AtomicBool};

use kernels::{Workload, team::TeamError, workload::WorkloadError};
use pmu::LinuxKernel;
use record::run::Run;
use recorder::{GeneratedCode, KnownWork, KnownWorkError};
use rustix::{
    thread::gettid,
    time::{ClockId, clock_gettime},
};

/// Why a kernel could not be sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// It could not be recorded.
    #[error(transparent)]
    Record(#[from] KnownWorkError),
    /// The work did not run.
    #[error(transparent)]
    Run(#[from] WorkloadError),
    /// There is no such kernel here.
    #[error("the kernel to sample cannot be had: {0}")]
    Kernel(String),
    /// Not enough samples were taken.
    #[error("only {samples} samples were taken; the machine may be too busy, try again")]
    TooFew {
        /// How many.
        samples: u64,
    },
    /// A thread failed.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// What a stretch left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledStretch {
    /// Samples.
    pub samples: u64,
    /// Processor time of the thread that was sampled: what others take of its CPU is not in it.
    pub processor_ns: u64,
}

/// Processor time of this thread so far.
fn processor_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Passes of a workload that take about so much processor time: on a busy machine the clock on the wall would make them few.
pub fn passes_for(workload: &mut Workload, wanted_ns: f64) -> Result<u64, WorkloadError> {
    let mut passes = 1;
    loop {
        let ran_ns = processor_ns_of(workload, passes)? as f64;
        if ran_ns >= wanted_ns / 8.0 || passes > u64::MAX / 4 {
            return Ok(((passes as f64 * wanted_ns / ran_ns.max(1.0)) as u64).max(1));
        }
        passes *= 2;
    }
}

/// Processor time that so many passes take the first thread: what others take of its CPU is not in it.
pub fn processor_ns_of(workload: &mut Workload, passes: u64) -> Result<u64, WorkloadError> {
    let ran = workload.run_threads(&AtomicBool::new(false), |thread| {
        let before_ns = processor_ns();
        thread.run_passes(0, passes);
        processor_ns().saturating_sub(before_ns)
    })?;
    Ok(ran.first().map_or(0, |thread| thread.value))
}

/// A prepared kernel whose first thread is recorded stretch by stretch.
pub struct RecordedKernel<'k> {
    workload: Workload,
    work: KnownWork<'k>,
}

impl<'k> RecordedKernel<'k> {
    /// Opens the sampler for a workload whose first thread is pinned to `cpu`; nothing runs yet.
    pub fn open(
        kernel: &'k dyn LinuxKernel,
        mut workload: Workload,
        cpu: u32,
        rate_hz: u32,
    ) -> Result<Self, SampleError> {
        let threads = workload.on_each_thread(|_| gettid().as_raw_nonzero().get())?;
        let tid = threads.first().copied().unwrap_or(0);
        let (start, bytes) = (workload.code_address(0), workload.program(0).code.clone());
        let code = GeneratedCode { name: "kernel".to_owned(), start, bytes };
        Ok(Self { work: KnownWork::open(kernel, tid, cpu, rate_hz, code)?, workload })
    }

    /// Passes that take about so long.
    pub fn passes_for(&mut self, wanted_ns: f64) -> Result<u64, SampleError> {
        Ok(passes_for(&mut self.workload, wanted_ns)?)
    }

    /// Runs so many passes under the sampler.
    pub fn stretch(&mut self, passes: u64) -> Result<SampledStretch, SampleError> {
        self.work.start()?;
        let workload = &mut self.workload;
        let ran = self.work.beside_bursts(|| processor_ns_of(workload, passes));
        let samples = self.work.stop()?;
        Ok(SampledStretch { samples, processor_ns: ran? })
    }

    /// The kernel.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// All samples so far, as a recording of one function; whoever makes rules on it keeps a copy.
    pub fn into_run(self, keep: Option<&Path>) -> Result<Run, SampleError> {
        Ok(self.work.finish(keep)?)
    }
}
