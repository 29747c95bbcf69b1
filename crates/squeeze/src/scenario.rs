//! A scenario on any host as the subject of a session.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use host::{
    Host, HostError,
    scenario::{self, RunError, ScenarioJob, StepPace},
};
use machine::squeezing::Interference;
use record::scenario::ScenarioRun;

use crate::{
    SqueezeError,
    partition::HardwarePartition,
    recipe,
    session::{SqueezeSubject, SubjectRun},
};

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
