//! A scenario on any host as the subject of a session.

mod copies;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use host::{
    Host, HostError,
    scenario::{self, RunError, ScenarioJob, StepPace},
};
use kernels::scenario::{PlannedRegion, truth};
use machine::{Bytes, squeezing::Interference};
use record::scenario::ScenarioRun;

use crate::{
    SqueezeError,
    judge::CpusDo,
    partition::HardwarePartition,
    recipe,
    session::{SqueezeSubject, SubjectRun},
};

pub use copies::copies;

/// Bytes of a line.
const LINE: f64 = 64.0;

/// Lines that a scenario moves, all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinesBrought {
    /// Between the caches that each core has for itself and what is behind them.
    pub beyond_own: f64,
    /// Between the shared cache and memory.
    pub beyond_shared: f64,
}

/// A scenario that runs beside interference.
pub struct ScenarioSubject<'a> {
    host: &'a mut dyn Host,
    partition: Option<HardwarePartition>,
    request: ScenarioJob<'a>,
    /// Whose time is taken; the whole scenario if none.
    region: Option<String>,
    spare: &'a [u32],
    paces: Vec<StepPace>,
    interrupt: &'a AtomicBool,
    started: Instant,
}

fn failed(error: RunError) -> SqueezeError {
    SqueezeError::Host(HostError::new("the scenario", error))
}

impl<'a> ScenarioSubject<'a> {
    /// Finds the pace of its steps while nothing runs beside it.
    pub fn prepare(
        host: &'a mut dyn Host,
        partition: Option<HardwarePartition>,
        request: ScenarioJob<'a>,
        region: Option<String>,
        spare: &'a [u32],
        interrupt: &'a AtomicBool,
    ) -> Result<Self, SqueezeError> {
        let started = Instant::now();
        recipe::take(host, partition.as_ref(), &[], spare)?;
        let paces = scenario::find_pace(&request, host, interrupt).map_err(failed)?;
        Ok(Self { host, partition, request, region, spare, paces, interrupt, started })
    }

    /// How its steps are slowed down.
    pub fn paces(&self) -> &[StepPace] {
        &self.paces
    }

    /// Whether its threads are at the same part of it at any time: those of a region enter it together, and go through its steps
    /// without waiting for each other. Of several processes each has its parts in turn by itself.
    pub fn cpus_do(&self, processes: usize) -> Result<CpusDo, SqueezeError> {
        let plan = scenario::plan(&self.request, self.host.topology()).map_err(failed)?;
        let all = self.request.cpus.len();
        let whole = plan.regions().iter().all(|region| region.threads.len() == all);
        // Each copy has steps of its own.
        let copies = processes.max(1);
        let single = plan.regions().iter().all(|region| region.steps.len() <= copies);
        let alike = plan.steps().iter().all(|step| step.parts.len() * copies == all);
        Ok(match all <= processes || (whole && single) {
            true => CpusDo::InTurn,
            false if whole && alike => CpusDo::Alike,
            false => CpusDo::Apart,
        })
    }

    /// What it brings from beyond the largest cache that each of its cores has for itself, and from beyond the shared one of which
    /// each of so many processes has its part; by what it does, as far as that is timed.
    pub fn lines_brought(&self, shared: Bytes, processes: usize) -> Result<LinesBrought, SqueezeError> {
        let machine = self.host.topology();
        let caches = self.request.cpus.first().map(|cpu| machine.data_caches_of(*cpu)).unwrap_or_default();
        let own = caches.iter().rev().skip(1).find_map(|cache| cache.size).unwrap_or(Bytes(0));
        let plan = scenario::plan(&self.request, machine).map_err(failed)?;
        let timed = |region: &PlannedRegion| match &self.region {
            Some(name) => region.path == *name || region.name == *name,
            None => region.depth == 0,
        };
        let beyond = |capacity: Bytes| -> Result<f64, SqueezeError> {
            let all = truth::lines_below(&plan, capacity)?;
            let timed = plan.regions().iter().zip(&all).filter(|(region, _)| timed(region));
            Ok(timed.flat_map(|(_, threads)| threads).map(|lines| lines.bytes() / LINE).sum())
        };
        let shared = Bytes((shared.0 / processes.max(1) as u64).max(own.0));
        Ok(LinesBrought { beyond_own: beyond(own)?, beyond_shared: beyond(shared)? })
    }

    fn time_ns(&self, run: &ScenarioRun) -> Result<f64, SqueezeError> {
        let Some(name) = &self.region else { return Ok(run.wall_ns) };
        let region = run.regions.iter().find(|region| region.path == *name || region.name == *name);
        let region = region.ok_or_else(|| {
            let known: Vec<&str> = run.regions.iter().map(|region| region.path.as_str()).collect();
            SqueezeError::Metric(format!("no region '{name}'; there are {}", known.join(", ")))
        })?;
        Ok(region.wall_ns())
    }
}

impl SqueezeSubject for ScenarioSubject<'_> {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        let taken = interference.map(std::slice::from_ref).unwrap_or_default();
        recipe::take(self.host, self.partition.as_ref(), taken, self.spare)?;
        let run = scenario::run_at_pace(&self.request, self.host, &self.paces, self.interrupt);
        recipe::take(self.host, self.partition.as_ref(), &[], self.spare)?;
        let run = run.map_err(failed)?;
        if self.interrupt.load(Ordering::Relaxed) {
            return Ok(SubjectRun::Interrupted);
        }
        self.time_ns(&run).map(SubjectRun::Timed)
    }

    fn is_exact(&self) -> bool {
        self.host.simulated().is_some()
    }

    fn now_s(&mut self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::imagined::{self, ImaginedHost};
    use kernels::KernelCatalogue;

    /// What threads of so many processes of a scenario with this body do.
    fn cpus_do(threads: usize, body: &str, processes: usize) -> CpusDo {
        let buffer = "[[buffer]]\nname = \"b\"\nsize = 65536\n";
        let text = format!("name = \"n\"\nabout = \"a\"\nthreads = {threads}\n{buffer}{body}");
        let catalogue = KernelCatalogue::builtin().unwrap();
        let scenario = kernels::scenario::parse(&text, "test", &catalogue, &[]).unwrap();
        let scenario = copies(&scenario, threads, processes);
        let threads = threads * processes;
        let mut host = ImaginedHost::new(imagined::machine(4), catalogue, |_: &_, _| 1.0);
        let cpus: Vec<u32> = (0..threads as u32).collect();
        let interrupt = AtomicBool::new(false);
        let subject = ScenarioSubject {
            host: &mut host,
            partition: None,
            request: ScenarioJob { scenario: &scenario, cpus: &cpus, scale: 1 },
            region: None,
            spare: &[],
            paces: Vec::new(),
            interrupt: &interrupt,
            started: Instant::now(),
        };
        subject.cpus_do(processes).unwrap()
    }

    const CHASE: &str = "kernel = \"chase\"\nbuffer = \"b\"\npasses = 1\n";
    const SUM: &str = "kernel = \"sum\"\nbuffer = \"b\"\npasses = 1\n";

    #[test]
    fn threads_of_a_region_that_waits_for_none_may_be_at_different_steps() {
        let steps = |first: &str, second: &str| {
            format!("[[region]]\nname = \"r\"\n[[region.step]]\n{CHASE}{first}[[region.step]]\n{SUM}{second}")
        };
        assert_eq!(cpus_do(3, &steps("", ""), 1), CpusDo::Alike);
        assert_eq!(cpus_do(3, &steps("threads = [0]\n", ""), 1), CpusDo::Apart);
        // A process of one thread goes through them in turn, whatever others do.
        assert_eq!(cpus_do(1, &steps("", ""), 1), CpusDo::InTurn);
        assert_eq!(cpus_do(1, &steps("", ""), 2), CpusDo::InTurn);
        assert_eq!(cpus_do(2, &steps("", ""), 2), CpusDo::Alike);
        let regions = |step: &str, whose: &str| {
            format!(
                "[[region]]\nname = \"q\"\n[[region.step]]\n{CHASE}{step}[[region]]\nname = \"r\"\n{whose}[[region.step]]\n{SUM}"
            )
        };
        // All wait for the one that works on its set, unless they are of no region with it.
        assert_eq!(cpus_do(3, &regions("threads = [0]\n", ""), 1), CpusDo::InTurn);
        assert_eq!(cpus_do(2, &regions("threads = [0]\n", ""), 2), CpusDo::InTurn);
        assert_eq!(cpus_do(3, &regions("", "threads = [1, 2]\n"), 1), CpusDo::Apart);
    }
}
