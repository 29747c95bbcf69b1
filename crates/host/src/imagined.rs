//! Machines that exist nowhere, for tests of experiments: they take no time, and every truth about them is known.

use std::{convert::Infallible, sync::atomic::AtomicBool};

use kernels::{Job, KernelCatalogue, scenario::Plan};
use machine::{
    Bytes, CpuSet, Isa, Topology,
    topology::{Cache, CacheKind, CoreKind, Cpu, MemoryNode},
};
use record::{bench::Work, validate::Truth};

use crate::{
    host::{Host, HostError, Loaded, Measured, PreparedPlan},
    meter::{Meter, MeteredPart, MeteredRun},
    repeat::{Executor, RepeatPlan, Sample, repeat},
};

/// `cpus` cores on one node with L1, L2 and a shared L3 of claimed 32 KiB, 1 MiB and 32 MiB, and 6 GiB free.
pub fn machine(cpus: u32) -> Topology {
    let all: CpuSet = (0..cpus).collect();
    let cache = |level: u32, size: Bytes, shared_by: CpuSet| Cache {
        level,
        kind: if level == 1 { CacheKind::Data } else { CacheKind::Unified },
        size: Some(size),
        ways: None,
        line: Some(Bytes(64)),
        sets: None,
        shared_by,
    };
    let mut machine = Topology {
        isa: Isa { x86_64: true, ..Isa::default() },
        cpus: (0..cpus)
            .map(|id| Cpu {
                id,
                socket: Some(0),
                die: None,
                core: Some(id),
                node: Some(0),
                siblings: [id].into_iter().collect(),
                kind: CoreKind::Uniform,
            })
            .collect(),
        nodes: vec![MemoryNode {
            id: 0,
            cpus: all.clone(),
            memory: Some(Bytes::gib(8)),
            distances: vec![10],
        }],
        ..Topology::default()
    };
    for id in 0..cpus {
        machine.caches.push(cache(1, Bytes::kib(32), [id].into_iter().collect()));
        machine.caches.push(cache(2, Bytes::mib(1), [id].into_iter().collect()));
    }
    machine.caches.push(cache(3, Bytes::mib(32), all));
    machine.limits.memory_total = Some(Bytes::gib(8));
    machine.limits.memory_available = Some(Bytes::gib(6));
    machine
}

/// A host whose jobs take as long as a test says: nanoseconds of so many passes of a job.
pub struct ImaginedHost<F> {
    machine: Topology,
    kernels: KernelCatalogue,
    time_ns: F,
}

impl<F: FnMut(&Job, u64) -> f64> ImaginedHost<F> {
    /// A host that claims to be `machine` and knows these kernels.
    pub fn new(machine: Topology, kernels: KernelCatalogue, time_ns: F) -> Self {
        Self { machine, kernels, time_ns }
    }
}

struct Timed<'a, F>(&'a Job, &'a mut F);

impl<F: FnMut(&Job, u64) -> f64> Executor for Timed<'_, F> {
    type Error = Infallible;

    fn execute(&mut self, passes: u64) -> Result<Sample, Infallible> {
        Ok(Sample { wall_ns: (self.1)(self.0, passes), involuntary_switches: Some(0) })
    }
}

impl<F: FnMut(&Job, u64) -> f64> Host for ImaginedHost<F> {
    fn topology(&self) -> &Topology {
        &self.machine
    }

    fn kernels(&self) -> &KernelCatalogue {
        &self.kernels
    }

    fn seed(&self) -> u64 {
        1
    }

    fn now_ns(&mut self) -> f64 {
        0.0
    }

    fn measure(&mut self, job: &Job, plan: &RepeatPlan, flag: &AtomicBool) -> Result<Measured, HostError> {
        let Ok(repeated) = repeat(&mut Timed(job, &mut self.time_ns), plan, flag);
        let work = Work { program_bytes: job.size.0 as f64, chain: 1.0, ..Work::default() };
        Ok(Measured { repeated, work, size: job.size, pages: None })
    }

    fn measure_loaded(
        &mut self,
        chase: &Job,
        _: &Job,
        plan: &RepeatPlan,
        flag: &AtomicBool,
    ) -> Result<Loaded, HostError> {
        Ok(Loaded { chase: self.measure(chase, plan, flag)?, drawn_bytes_per_s: 1.0 })
    }

    fn ping_pong(&mut self, _: u32, _: u32, _: &RepeatPlan, _: &AtomicBool) -> Result<Measured, HostError> {
        Err(HostError::new("ping-pong", "an imagined machine has no lines"))
    }

    fn run_metered(
        &mut self,
        job: &Job,
        part: MeteredPart,
        meter: &mut dyn Meter,
        _: &AtomicBool,
    ) -> Result<MeteredRun, HostError> {
        let failed = |refusal| HostError::new(job.to_string(), refusal);
        let passes = match part {
            MeteredPart::Passes { passes, .. } => passes.unwrap_or(1),
            MeteredPart::Steady(_) => 1,
        };
        meter.begin().map_err(failed)?;
        let elapsed_ns = vec![(self.time_ns)(job, passes)];
        meter.end().map_err(failed)?;
        Ok(MeteredRun { elapsed_ns, passes: Some(passes), truth: Truth::default() })
    }

    fn prepare<'h>(
        &'h mut self,
        plan: Plan,
        _: &'h [u32],
        _: &'h [Option<u32>],
    ) -> Result<Box<dyn PreparedPlan + 'h>, HostError> {
        Err(HostError::new(plan.scenario().name.clone(), "an imagined machine runs no plans"))
    }
}
