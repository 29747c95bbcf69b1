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
