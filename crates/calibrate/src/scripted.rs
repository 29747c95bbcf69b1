//! An imagined machine to calibrate: takes no time, and every truth about it is known.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
};

use kernels::{Job, KernelCatalogue, PagePolicy, scenario};
use machine::{Bytes, CpuSet, Source, Topology, profile::Overheads};
use record::bench::{BackingPages, Work};

use super::curve_models::Model;
use host::{
    Host, HostError, Loaded, Measured, PreparedPlan,
    meter::{Meter, MeteredPart, MeteredRun},
    noise::StealWatch,
    repeat::{Executor, RepeatPlan, Repeated, Sample, repeat},
};

/// Passes take virtual time.
struct Passes<'a> {
    pass_ns: f64,
    now_ns: &'a mut f64,
}

impl Executor for Passes<'_> {
    type Error = Infallible;

    fn execute(&mut self, passes: u64) -> Result<Sample, Infallible> {
        let wall_ns = self.pass_ns * passes as f64;
        *self.now_ns += wall_ns;
        Ok(Sample { wall_ns, involuntary_switches: Some(0) })
    }
}

/// The imagined machine.
pub(super) struct Scripted {
    pub(super) model: Model,
    pub(super) huge_pages: bool,
    /// Jobs for this kernel fail.
    pub(super) broken: Option<&'static str>,
    /// Raise the flag when so many jobs were done.
    pub(super) interrupt_after: Option<usize>,
    pub(super) jobs: Vec<Job>,
    machine: Topology,
    kernels: KernelCatalogue,
    now_ns: f64,
}

impl Scripted {
    pub(super) fn new(model: Model) -> Self {
        let kernels = KernelCatalogue::builtin().expect("kernels");
        let (broken, interrupt_after, jobs) = (None, None, Vec::new());
        Self {
            model,
            huge_pages: true,
            broken,
            interrupt_after,
            jobs,
            machine: host::imagined::machine(2),
            kernels,
            now_ns: 0.0,
        }
    }

    fn run(&mut self, pass_ns: f64, plan: &RepeatPlan, interrupt: &AtomicBool) -> Repeated {
        let Ok(repeated) = repeat(&mut Passes { pass_ns, now_ns: &mut self.now_ns }, plan, interrupt);
        // Getting and touching memory takes time as well.
        self.now_ns += 1e6;
        repeated
    }

    fn measured(
        &mut self,
        pass_ns: f64,
        work: Work,
        size: Bytes,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Measured {
        let huge = if self.huge_pages { size } else { Bytes(0) };
        let repeated = self.run(pass_ns, plan, interrupt);
        Measured { repeated, work, size, pages: Some(BackingPages { huge, total: size }) }
    }
}

fn chain(steps: f64) -> Work {
    Work { chain: steps, ..Work::default() }
}

impl Host for Scripted {
    fn topology(&self) -> &Topology {
        &self.machine
    }

    fn watch_steal(&self, cpus: &CpuSet) -> Option<StealWatch> {
        Some(StealWatch::begin(&Source::under("/nonexistent"), cpus, false))
    }

    fn run_metered(
        &mut self,
        job: &Job,
        _: MeteredPart,
        _: &mut dyn Meter,
        _: &AtomicBool,
    ) -> Result<MeteredRun, HostError> {
        Err(HostError::new(job.to_string(), "an imagined machine has no counters"))
    }

    fn prepare<'h>(
        &'h mut self,
        plan: scenario::Plan,
        _: &'h [u32],
        _: &'h [Option<u32>],
    ) -> Result<Box<dyn PreparedPlan + 'h>, HostError> {
        Err(HostError::new(plan.scenario().name.clone(), "an imagined machine runs no plans"))
    }

    fn kernels(&self) -> &KernelCatalogue {
        &self.kernels
    }

    fn seed(&self) -> u64 {
        1
    }

    fn now_ns(&mut self) -> f64 {
        self.now_ns
    }

    fn measure(
        &mut self,
        job: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError> {
        self.jobs.push(job.clone());
        if self.interrupt_after.is_some_and(|jobs| self.jobs.len() > jobs) {
            interrupt.store(true, Ordering::Relaxed);
        }
        let kernel = job.kernel.name();
        if self.broken == Some(kernel) {
            return Err(HostError::new(kernel, "it is broken"));
        }
        let per_thread = job.size.0 as f64 / job.cpus.len() as f64;
        let latency_ns = self.model.latency(per_thread);
        let remote = if job.node.is_some() { 2.0 } else { 1.0 };
        let (pass_ns, work) = match kernel {
            "add-chain" => (100.0 * 0.25, chain(100.0)),
            // Four cycles each, and two per cycle.
            "operation-add-chain" => (100.0, chain(100.0)),
            "operation-loads" => (100.0 * 0.125, Work { accesses: 100.0, ..Work::default() }),
            "mul-chain" => (100.0 * 0.75, chain(100.0)),
            "chase" => (per_thread / 64.0 * latency_ns * remote, chain(per_thread / 64.0)),
            "chase-pages" => {
                let pages = per_thread / 4096.0;
                let walk_ns = if job.pages == PagePolicy::Small && pages > 64.0 { 2.0 } else { 0.0 };
                (pages * (self.model.latency(pages * 64.0) + walk_ns), chain(pages))
            }
            // Ten lines in flight; threads add up.
            _ => {
                let work = Work { program_bytes: job.size.0 as f64, ..Work::default() };
                (per_thread / 64.0 * latency_ns * remote / 10.0, work)
            }
        };
        Ok(self.measured(pass_ns, work, job.size, plan, interrupt))
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        load: &Job,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Loaded, HostError> {
        let nops = load.kernel.parameters().next().map_or(0, |(_, value)| value) as f64;
        let drawn_bytes_per_s = 2e10 / (1.0 + nops / 64.0) * load.cpus.len() as f64;
        let chase = self.measure(chase, plan, interrupt)?;
        Ok(Loaded { chase, drawn_bytes_per_s })
    }

    fn ping_pong(
        &mut self,
        from: u32,
        to: u32,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<Measured, HostError> {
        let step_ns = 40.0 + f64::from(to - from);
        Ok(self.measured(2.0 * step_ns, chain(2.0), Bytes(64), plan, interrupt))
    }

    fn overheads(&mut self) -> Option<Overheads> {
        Some(Overheads { tsc_read_ns: None, clock_read_ns: 20.0, syscall_ns: 60.0, clock_step_ns: 1.0 })
    }

    fn tsc_hz(&mut self) -> Option<f64> {
        None
    }
}
