//! The rig of this machine: kernels in pinned threads, timed.

pub mod overheads;
pub mod tsc;

mod ping_pong;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use kernels::{
    Catalogue, PagePolicy, Request, Workload,
    memory::{Buffer, HUGE_PAGE, Placement},
    parse::KernelFileError,
    workload::{Run, WorkloadError},
};
use machine::{
    Bytes, Isa, Source,
    profile::{Overheads, Timer},
};
use record::bench::{Pages, Work};

use crate::{
    repeat::{Executor, Plan, Repeated, Sample, repeat},
    rig::{Job, Loaded, Measured, Rig, RigError},
    timer::skid,
};
use tsc::Tsc;

/// How long the rate of the time stamp counter is watched: the clock's error of some tens of nanoseconds is
/// then a millionth.
const TSC_SPAN: Duration = Duration::from_millis(50);

/// How long one run of the loaders takes, so that they notice soon when they are no longer wanted.
const LOADER_RUN_NS: f64 = 2e7;

/// How many different huge pages small jobs run on in turn.
const PAGES_IN_TURN: u64 = 8;

impl Executor for Workload {
    type Error = WorkloadError;

    fn execute(&mut self, passes: u64) -> Result<Sample, WorkloadError> {
        let run: Run = self.run(passes)?;
        Ok(Sample { wall_ns: run.elapsed_ns() as f64, involuntary_switches: run.involuntary_switches() })
    }
}

/// What one pass of a workload does, in the terms of a recording.
pub fn work_of(workload: &Workload) -> Work {
    let pass = workload.pass();
    Work {
        instructions: pass.counts.instructions as f64,
        accesses: (pass.counts.loads + pass.counts.stores) as f64,
        program_bytes: (pass.counts.load_bytes + pass.counts.store_bytes) as f64,
        memory_bytes: pass.memory_bytes,
        flops: pass.counts.flops as f64,
        chain: pass.chain as f64,
    }
}

/// The pages behind a workload, if the system says.
pub fn pages_of(workload: &Workload) -> Option<Pages> {
    workload.backing().map(|backing| Pages { huge: backing.huge, total: backing.total })
}

/// This machine.
#[derive(Debug)]
pub struct Native {
    catalogue: Catalogue,
    isa: Isa,
    seed: u64,
    started: Instant,
    tsc: Option<Tsc>,
    /// Counts the jobs, so that each gets other pages.
    jobs: u64,
}

impl Native {
    /// The machine we run on, which is also the one at `source`.
    pub fn new(source: &Source, seed: u64) -> Result<Self, KernelFileError> {
        Ok(Self {
            catalogue: Catalogue::builtin()?,
            isa: Isa::native(),
            seed,
            started: Instant::now(),
            tsc: Tsc::find(source),
            jobs: 0,
        })
    }

    /// Holds some huge pages while the next job gets its own, which are then others than those of the job
    /// before.
    ///
    /// What is given back is handed out first, so that all small jobs would run on the very same page. In a
    /// guest, a huge page may be many scattered ones to the host, some spreading better over a cache than
    /// others: a level measured on one of them alone would depend on which it was.
    fn hold_pages(&mut self) -> Option<Buffer> {
        self.jobs += 1;
        let pages = self.jobs % PAGES_IN_TURN;
        let placement = Placement { pages: PagePolicy::Huge, node: None };
        // Where there is no memory to hold, the job goes without.
        let mut held = Buffer::allocate(Bytes(pages * HUGE_PAGE.0), placement).ok()?;
        held.touch();
        Some(held)
    }

    fn prepare(&self, job: &Job) -> Result<Workload, RigError> {
        let failed =
            |source: Box<dyn std::error::Error + Send + Sync>| RigError { what: describe(job), source };
        let mut kernel = self.catalogue.get(job.kernel).map_err(|error| failed(error.into()))?;
        if let Some((name, value)) = job.parameter {
            kernel = kernel.with(name, value).map_err(|error| failed(error.into()))?;
        }
        let width = kernel.width_on(&self.isa, None).map_err(|error| failed(error.into()))?;
        let request = Request {
            kernel: &kernel,
            width,
            size: job.size,
            cpus: &job.cpus,
            node: job.node,
            pages: if job.small_pages { PagePolicy::Small } else { PagePolicy::Huge },
            seed: self.seed,
        };
        Workload::prepare(&request).map_err(|error| failed(error.into()))
    }

    /// Runs a load over and over until `stop`, from its warm-up on raising `ready`. Returns bytes per second
    /// moved.
    fn load(&self, job: &Job, ready: &AtomicBool, stop: &AtomicBool) -> Result<f64, RigError> {
        let failed = |error: WorkloadError| RigError::new(describe(job), error);
        let mut workload = self.prepare(job)?;
        let bytes = work_of(&workload).memory_bytes;
        let warm_up_ns = workload.execute(1).map_err(failed)?.wall_ns;
        let passes = (LOADER_RUN_NS / warm_up_ns.max(1.0)).clamp(1.0, 1e6) as u64;
        ready.store(true, Ordering::Release);
        let (mut done, mut wall_ns) = (0, 0.0);
        while done == 0 || !stop.load(Ordering::Acquire) {
            wall_ns += workload.execute(passes).map_err(failed)?.wall_ns;
            done += passes;
        }
        Ok(bytes * done as f64 / wall_ns * 1e9)
    }
}

fn describe(job: &Job) -> String {
    let node = job.node.map_or(String::new(), |node| format!(" on node {node}"));
    format!("{} over {}{node}", job.kernel, job.size)
}

fn run(
    workload: &mut Workload,
    job: &Job,
    plan: &Plan,
    interrupt: &AtomicBool,
) -> Result<Measured, RigError> {
    let repeated: Repeated =
        repeat(workload, plan, interrupt).map_err(|error| RigError::new(describe(job), error))?;
    Ok(Measured { repeated, work: work_of(workload), size: workload.size(), pages: pages_of(workload) })
}

impl Rig for Native {
    fn now_ns(&mut self) -> f64 {
        self.started.elapsed().as_nanos() as f64
    }

    fn measure(&mut self, job: &Job, plan: &Plan, interrupt: &AtomicBool) -> Result<Measured, RigError> {
        let held = if job.size <= HUGE_PAGE { self.hold_pages() } else { None };
        let mut workload = self.prepare(job)?;
        drop(held);
        run(&mut workload, job, plan, interrupt)
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        plan: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, RigError> {
        let mut workload = self.prepare(chase)?;
        let (ready, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let this = &*self;
        thread::scope(|scope| {
            let loader = scope.spawn(|| this.load(load, &ready, &stop));
            // A loader that fails ends without ever being ready.
            while !ready.load(Ordering::Acquire) && !loader.is_finished() {
                thread::sleep(Duration::from_micros(200));
            }
            let measured = run(&mut workload, chase, plan, interrupt);
            stop.store(true, Ordering::Release);
            let drawn = loader.join().map_err(|_| RigError::new(describe(load), "its thread panicked"))?;
            Ok(Loaded { chase: measured?, drawn_bytes_per_s: drawn? })
        })
    }

    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        plan: &Plan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, RigError> {
        ping_pong::measure(from, to, plan, interrupt)
            .map_err(|error| RigError::new(format!("CPU {from} to CPU {to}"), error))
    }

    fn overheads(&mut self) -> Option<Overheads> {
        Some(overheads::measure(self.tsc))
    }

    fn tsc_hz(&mut self) -> Option<f64> {
        self.tsc.map(|tsc| tsc.rate_hz(TSC_SPAN))
    }

    fn skid(&mut self, cpu: u32) -> Option<Result<Timer, RigError>> {
        let measured = skid::measure(&pmu::Live, cpu, self.seed);
        Some(measured.map_err(|error| RigError::new("where clock samples land", error)))
    }
}

#[cfg(test)]
mod tests;
