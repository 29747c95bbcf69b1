//! Known work as a target: a kernel or a scenario on any host.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use events::CountRefusal;
use kernels::Job;
use machine::CpuSet;

use super::{CountError, Open, Pass, Target};
use crate::{
    host::{Host, HostError},
    meter::{Meter, MeteredPart},
    scenario::{self, RunError},
};

/// A kernel on a host.
pub struct CountedKernel<'a> {
    /// The machine.
    pub host: &'a mut dyn Host,
    /// What runs.
    pub job: Job,
    /// Passes over the data before it is counted.
    pub warm_up: u64,
    /// Passes that are counted; if none, as many as make a steady count of small data.
    pub passes: Option<u64>,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

/// A scenario on a host.
pub struct CountedScenario<'a> {
    /// The machine.
    pub host: &'a mut dyn Host,
    /// What runs.
    pub request: scenario::ScenarioJob<'a>,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

impl From<HostError> for CountError {
    fn from(error: HostError) -> Self {
        let HostError { what, source } = error;
        match source.downcast::<CountRefusal>() {
            Ok(refusal) => Self::Refused(*refusal),
            Err(source) => Self::Run(HostError { what, source }),
        }
    }
}

impl From<RunError> for CountError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Refused(refusal) => Self::Refused(refusal),
            other => Self::Scenario(other),
        }
    }
}

/// A pass of something that has no process; one that was stopped is shorter than asked for.
fn pass(elapsed_ns: f64, counts: Vec<events::Count>, interrupt: &AtomicBool) -> Pass {
    Pass {
        elapsed_ns: elapsed_ns.round() as u64,
        ending: None,
        usage: None,
        counts,
        readings: Vec::new(),
        notes: Vec::new(),
        interrupted: interrupt.load(Ordering::Relaxed),
    }
}

impl Target for CountedKernel<'_> {
    fn name(&self) -> String {
        let cpus: CpuSet = self.job.cpus.iter().copied().collect();
        format!("kernel {} over {} on CPUs {cpus}", self.job.kernel.name(), self.job.size)
    }

    fn pass(&mut self, open: &mut Open<'_>, _interval: Option<Duration>) -> Result<Pass, CountError> {
        let mut counting = open(self.host.scope(&self.job.cpus))?;
        let part = MeteredPart::Passes { warm_up: self.warm_up, passes: self.passes };
        let run = self.host.run_metered(&self.job, part, &mut counting, self.interrupt)?;
        let mut done = pass(run.elapsed_ns.iter().sum(), counting.read()?, self.interrupt);
        if let Some(counted) = run.passes.filter(|_| !done.interrupted) {
            done.notes.push(format!(
                "Counted over {} after {} that warmed the caches.",
                in_words(counted),
                in_words(self.warm_up)
            ));
        }
        Ok(done)
    }

    fn can_differ(&self) -> bool {
        self.host.simulated().is_none()
    }
}

/// So many passes.
pub(super) fn in_words(count: u64) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

impl Target for CountedScenario<'_> {
    fn name(&self) -> String {
        format!("scenario {}", self.request.scenario.name)
    }

    fn pass(&mut self, open: &mut Open<'_>, _interval: Option<Duration>) -> Result<Pass, CountError> {
        let mut counting = open(self.host.scope(self.request.cpus))?;
        let meter = Some(&mut counting as &mut dyn Meter);
        let run = scenario::run_metered(&self.request, self.host, meter, self.interrupt)?;
        Ok(pass(run.wall_ns, counting.read()?, self.interrupt))
    }

    fn can_differ(&self) -> bool {
        self.host.simulated().is_none()
    }
}
