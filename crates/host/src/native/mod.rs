//! This machine as a host: known work in pinned threads, timed.

mod beside;
mod metered;
pub mod overheads;
mod ping_pong;
mod plan;
pub mod probe;
pub mod tsc;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use events::Scope;
use kernels::{
    Job, KernelCatalogue, PagePolicy, Workload,
    memory::{Buffer, HUGE_PAGE, Placement},
    scenario::{Plan, truth::Pass},
    workload::{Run, WorkloadError},
};
use machine::{
    Bytes, CpuSet, DataFileError, Source, Topology,
    probe::{ProbePlan, ProbeReading},
    profile::{Overheads, Timer},
};
use record::bench::BackingPages;

use crate::{
    beside::{BesideTraffic, VictimLength, VictimReading},
    host::{Host, HostError, Loaded, Measured, PreparedPlan, work_of},
    meter::{Meter, MeteredPart, MeteredRun},
    noise::StealWatch,
    repeat::{Executor, RepeatPlan, Repeated, Sample, repeat},
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

/// The pages behind a workload, if the system says.
pub fn pages_of(workload: &Workload) -> Option<BackingPages> {
    workload.backing().map(|backing| BackingPages { huge: backing.huge, total: backing.total })
}

/// This machine.
#[derive(Debug)]
pub struct Native {
    source: Source,
    topology: Topology,
    catalogue: KernelCatalogue,
    seed: u64,
    started: Instant,
    tsc: Option<Tsc>,
    /// Counts the jobs, so that each gets other pages.
    jobs: u64,
    /// What runs beside all that is measured.
    beside: Vec<beside::BesideWork>,
}

impl Native {
    /// The machine we run on, which is also the one at `source`.
    pub fn new(source: &Source, seed: u64) -> Result<Self, DataFileError> {
        Ok(Self::with_kernels(source, KernelCatalogue::builtin()?, seed))
    }

    /// The same with these kernels and no others.
    pub fn with_kernels(source: &Source, catalogue: KernelCatalogue, seed: u64) -> Self {
        Self {
            source: source.clone(),
            topology: Topology::read(source),
            catalogue,
            seed,
            started: Instant::now(),
            tsc: Tsc::find(source),
            jobs: 0,
            beside: Vec::new(),
        }
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

    /// Runs a load over and over until `stop`, from its warm-up on raising `ready`. Returns bytes per second
    /// moved.
    fn load(job: &Job, ready: &AtomicBool, stop: &AtomicBool) -> Result<f64, HostError> {
        let failed = |error: WorkloadError| HostError::new(job.to_string(), error);
        let mut workload = prepare(job)?;
        let bytes = pass(&workload, job)?.memory_bytes;
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

fn prepare(job: &Job) -> Result<Workload, HostError> {
    Workload::prepare(job).map_err(|error| HostError::new(job.to_string(), error))
}

fn pass(workload: &Workload, job: &Job) -> Result<Pass, HostError> {
    workload.pass().map_err(|error| HostError::new(job.to_string(), error))
}

fn run(
    workload: &mut Workload,
    job: &Job,
    plan: &RepeatPlan,
    interrupt: &AtomicBool,
) -> Result<Measured, HostError> {
    let repeated: Repeated =
        repeat(workload, plan, interrupt).map_err(|error| HostError::new(job.to_string(), error))?;
    let work = work_of(&pass(workload, job)?);
    Ok(Measured { repeated, work, size: workload.size(), pages: pages_of(workload) })
}

impl Host for Native {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn kernels(&self) -> &KernelCatalogue {
        &self.catalogue
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn now_ns(&mut self) -> f64 {
        self.started.elapsed().as_nanos() as f64
    }

    fn measure(
        &mut self,
        job: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError> {
        let held = if job.size <= HUGE_PAGE { self.hold_pages() } else { None };
        let mut workload = prepare(job)?;
        drop(held);
        run(&mut workload, job, plan, interrupt)
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, HostError> {
        let mut workload = prepare(chase)?;
        let (ready, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let loader = scope.spawn(|| Self::load(load, &ready, &stop));
            // A loader that fails ends without ever being ready.
            while !ready.load(Ordering::Acquire) && !loader.is_finished() {
                thread::sleep(Duration::from_micros(200));
            }
            let measured = run(&mut workload, chase, plan, interrupt);
            stop.store(true, Ordering::Release);
            let drawn = loader.join().map_err(|_| HostError::new(load.to_string(), "its thread panicked"))?;
            Ok(Loaded { chase: measured?, drawn_bytes_per_s: drawn? })
        })
    }

    fn run_beside(&mut self, jobs: &[Job]) -> Result<(), HostError> {
        // Those before end first: they may be on the same CPUs.
        self.beside.clear();
        self.beside = jobs.iter().map(beside::BesideWork::begin).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn watch_victim(
        &mut self,
        victim: &Job,
        _length: VictimLength,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<VictimReading, HostError> {
        let mut workload = prepare(victim)?;
        let before: Vec<_> = self.beside.iter().map(beside::BesideWork::done).collect();
        let measured = run(&mut workload, victim, plan, interrupt)?;
        let rates = self.beside.iter().zip(&before).map(|(work, before)| work.bytes_per_s_since(before));
        let described_bytes_per_s = rates.sum();
        let beside =
            (!self.beside.is_empty()).then_some(BesideTraffic { described_bytes_per_s, misses_per_s: None });
        Ok(VictimReading { measured, loads: None, beside, memory_bytes_per_s: None })
    }

    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError> {
        ping_pong::measure(from, to, plan, interrupt)
            .map_err(|error| HostError::new(format!("CPU {from} to CPU {to}"), error))
    }

    fn overheads(&mut self) -> Option<Overheads> {
        Some(overheads::measure(self.tsc))
    }

    fn probe(&mut self, plan: &ProbePlan) -> Option<Result<ProbeReading, HostError>> {
        self.jobs += 1;
        Some(
            probe::measure(plan, self.seed ^ self.jobs)
                .map_err(|error| HostError::new("a short probe", error)),
        )
    }

    fn tsc_hz(&mut self) -> Option<f64> {
        self.tsc.map(|tsc| tsc.rate_hz(TSC_SPAN))
    }

    fn skid(&mut self, cpu: u32) -> Option<Result<Timer, HostError>> {
        let measured = skid::measure(&pmu::Live, cpu, self.seed);
        Some(measured.map_err(|error| HostError::new("where clock samples land", error)))
    }

    fn watch_steal(&self, cpus: &CpuSet) -> Option<StealWatch> {
        Some(StealWatch::begin(&self.source, cpus, self.topology.hypervisor.is_some()))
    }

    fn scope(&self, _cpus: &[u32]) -> Scope {
        Scope::Process(std::process::id())
    }

    fn run_metered(
        &mut self,
        job: &Job,
        part: MeteredPart,
        meter: &mut dyn Meter,
        interrupt: &AtomicBool,
    ) -> Result<MeteredRun, HostError> {
        metered::run(job, part, meter, &self.topology, interrupt)
    }

    fn prepare<'h>(
        &'h mut self,
        plan: Plan,
        cpus: &'h [u32],
        nodes: &'h [Option<u32>],
    ) -> Result<Box<dyn PreparedPlan + 'h>, HostError> {
        Ok(Box::new(plan::NativePlan::new(plan, cpus, nodes)?))
    }
}

#[cfg(test)]
mod tests;
