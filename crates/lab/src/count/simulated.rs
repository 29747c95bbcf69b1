//! Targets on a simulated machine: kernels and scenarios.

use std::{sync::atomic::AtomicBool, time::Duration};

use machine::model::Model;
use sim::pmu::Pmu;

use super::{CountError, Open, Pass, Target};
use crate::{
    scenario,
    simulated::{CountedError, KernelWork, count_kernel, count_scenario},
};

/// A kernel on a simulated machine.
pub struct SimulatedKernel<'a> {
    /// The machine.
    pub model: &'a Model,
    /// Its PMU.
    pub pmu: &'a Pmu,
    /// What runs.
    pub work: KernelWork<'a>,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

/// A scenario on a simulated machine.
pub struct SimulatedScenario<'a> {
    /// The machine.
    pub model: &'a Model,
    /// Its PMU.
    pub pmu: &'a Pmu,
    /// What runs.
    pub request: scenario::Request<'a>,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

impl From<CountedError> for CountError {
    fn from(error: CountedError) -> Self {
        match error {
            CountedError::Refused(refusal) => Self::Refused(refusal),
            other => Self::Simulation(other),
        }
    }
}

/// A pass of something that has no process.
fn pass(elapsed_ns: f64, counts: Vec<events::Count>) -> Pass {
    Pass {
        elapsed_ns: elapsed_ns.round() as u64,
        ending: None,
        usage: None,
        counts,
        readings: Vec::new(),
        notes: Vec::new(),
        interrupted: false,
    }
}

impl Target for SimulatedKernel<'_> {
    fn name(&self) -> String {
        let KernelWork { kernel, size, cpus, .. } = &self.work;
        let cpus: machine::CpuSet = cpus.iter().copied().collect();
        format!("kernel {} over {size} on CPUs {cpus}", kernel.name())
    }

    fn pass(&mut self, open: &mut Open<'_>, _interval: Option<Duration>) -> Result<Pass, CountError> {
        let counted = count_kernel(self.model, self.pmu, &self.work, open, self.interrupt)?;
        let mut done = pass(counted.elapsed_ns, counted.counts);
        done.notes.push(format!(
            "Counted over {} after {} that warmed the caches.",
            passes(counted.passes),
            passes(self.work.warm_up)
        ));
        Ok(done)
    }
}

fn passes(count: u64) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

impl Target for SimulatedScenario<'_> {
    fn name(&self) -> String {
        format!("scenario {}", self.request.scenario.name)
    }

    fn pass(&mut self, open: &mut Open<'_>, _interval: Option<Duration>) -> Result<Pass, CountError> {
        let (run, counts) = count_scenario(self.model, self.pmu, &self.request, open, self.interrupt)?;
        Ok(pass(run.wall_ns, counts))
    }
}
