//! An imagined machine to calibrate: takes no time, and every truth about it is known.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
};

use kernels::{Job, KernelCatalogue, PagePolicy, scenario};
use machine::{
    Bytes, CpuSet, Source, Topology,
    probe::{ProbePlan, ProbeReading, ProbedChase},
    profile::Overheads,
};
use record::bench::{BackingPages, Work};

use super::{
    crowd::{Crowd, CrowdedModel},
    curve_models::Model,
};
use host::{
    Host, HostError, Loaded, Measured, PreparedPlan,
    meter::{Meter, MeteredPart, MeteredRun},
    noise::StealWatch,
    repeat::{Executor, RepeatPlan, Sample, repeat},
};

/// Passes take virtual time, which may depend on when they are run.
struct Passes<'a, F> {
    pass_ns: F,
    now_ns: &'a mut f64,
}

impl<F: FnMut(f64) -> f64> Executor for Passes<'_, F> {
    type Error = Infallible;

    fn execute(&mut self, passes: u64) -> Result<Sample, Infallible> {
        let wall_ns = (self.pass_ns)(*self.now_ns) * passes as f64;
        *self.now_ns += wall_ns;
        Ok(Sample { wall_ns, involuntary_switches: Some(0) })
    }
}

/// The imagined machine.
pub(super) struct Scripted {
    pub(super) model: Model,
    /// Others who use the machine, in place of the model.
    crowd: Option<Crowd>,
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
            crowd: None,
            huge_pages: true,
            broken,
            interrupt_after,
            jobs,
            machine: host::imagined::machine(2),
            kernels,
            now_ns: 0.0,
        }
    }

    /// A machine that others use too.
    pub(super) fn crowded(model: CrowdedModel, seed: u64) -> Self {
        let mut host = Self::new(Model::three_levels());
        for cache in &mut host.machine.caches {
            let crowded = model.caches[cache.level as usize - 1];
            (cache.size, cache.ways) = (Some(Bytes(crowded.bytes as u64)), Some(crowded.ways));
        }
        host.machine.hypervisor = model.scattered.then(|| "KVM".to_owned());
        host.crowd = Some(Crowd::new(model, seed));
        host
    }

    /// The same machine, whose caches state no sizes.
    pub(super) fn without_claims(mut self) -> Self {
        for cache in &mut self.machine.caches {
            (cache.size, cache.ways) = (None, None);
        }
        self
    }

    /// What takes `scale` times the latency of `bytes` and `extra_ns`.
    fn measured(
        &mut self,
        (scale, bytes, extra_ns): (f64, Option<f64>, f64),
        work: Work,
        (size, threads): (Bytes, usize),
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Measured {
        let huge = if self.huge_pages { size } else { Bytes(0) };
        let (model, now_ns) = (&self.model, &mut self.now_ns);
        // Getting and touching memory takes time as well; each thread touches its own.
        *now_ns += if self.crowd.is_some() { 1e6 + size.0 as f64 / threads as f64 } else { 1e6 };
        let fall = self.crowd.as_mut().zip(bytes).map(|(crowd, bytes)| crowd.fall(bytes));
        let mut crowd = self.crowd.as_mut().zip(fall);
        let latency = |now_ns: f64| match (bytes, &mut crowd) {
            (None, _) => 0.0,
            (Some(bytes), None) => model.latency(bytes),
            (Some(bytes), Some((crowd, fall))) => crowd.latency(fall, bytes, now_ns),
        };
        let mut latency = latency;
        let pass_ns = |now_ns: f64| scale * (latency(now_ns) + extra_ns);
        let Ok(repeated) = repeat(&mut Passes { pass_ns, now_ns }, plan, interrupt);
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
        let remote = if job.node.is_some() { 2.0 } else { 1.0 };
        let lines = per_thread / 64.0 * remote;
        let (pass, work) = match kernel {
            "add-chain" => ((100.0, None, 0.25), chain(100.0)),
            // Four cycles each, and two per cycle.
            "operation-add-chain" => ((100.0, None, 1.0), chain(100.0)),
            "operation-loads" => ((100.0, None, 0.125), Work { accesses: 100.0, ..Work::default() }),
            "mul-chain" => ((100.0, None, 0.75), chain(100.0)),
            "chase" => ((lines, Some(per_thread), 0.0), chain(per_thread / 64.0)),
            "chase-pages" => {
                let pages = per_thread / 4096.0;
                let small =
                    job.pages == PagePolicy::Small || self.crowd.as_ref().is_some_and(Crowd::is_scattered);
                let walk_ns = if small && pages > 64.0 { 2.0 } else { 0.0 };
                ((pages, Some(pages * 64.0), walk_ns), chain(pages))
            }
            // Ten lines in flight; threads add up.
            _ => {
                let work = Work { program_bytes: job.size.0 as f64, ..Work::default() };
                ((lines / 10.0, Some(per_thread), 0.0), work)
            }
        };
        Ok(self.measured(pass, work, (job.size, job.cpus.len()), plan, interrupt))
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
        Ok(self.measured((2.0, None, step_ns), chain(2.0), (Bytes(64), 2), plan, interrupt))
    }

    fn overheads(&mut self) -> Option<Overheads> {
        Some(Overheads { tsc_read_ns: None, clock_read_ns: 20.0, syscall_ns: 60.0, clock_step_ns: 1.0 })
    }

    fn tsc_hz(&mut self) -> Option<f64> {
        None
    }

    fn probe(&mut self, plan: &ProbePlan) -> Option<Result<ProbeReading, HostError>> {
        // What neighbours do to capacities is tested without.
        if self.crowd.is_some() {
            return None;
        }
        self.now_ns += 4e7;
        let chase = |bytes: u64| ProbedChase { bytes, latency_ns: self.model.latency(bytes as f64) };
        Some(Ok(ProbeReading {
            level: plan.level,
            chases: plan.cache_bytes.iter().map(|&bytes| chase(bytes)).collect(),
            memory: chase(plan.memory_bytes),
            load_bytes_per_s: 1e10,
            took_ns: 4e7,
        }))
    }
}
