//! Streams of a given rate: the number of nops is found by running the step alone, on its own data and threads.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::scenario::{Plan, pace, stage::Stage};
use record::scenario::Pace;

use super::{RunError, now_ns};

/// A run is at least this long: reading the clock and starting together must not show.
const LEAST_NS: f64 = 3e6;
/// Passes of a run at most, however small the data.
const MOST_PASSES: u64 = 10_000;

/// What runs one step of a plan alone: this machine, or a simulated one.
pub trait RunsAlone {
    /// Takes on a step whose number of nops has changed.
    fn reload(&mut self, plan: &Plan, step: usize) -> Result<(), RunError>;

    /// Time of one iteration of the slowest thread; `None` if interrupted.
    fn iteration_ns(&mut self, plan: &Plan, step: usize) -> Result<Option<f64>, RunError>;
}

/// Slows down every step that has a rate. Steps that are interrupted stay as fast as they are.
pub fn pace(plan: &mut Plan, machine: &mut impl RunsAlone) -> Result<Vec<Pace>, RunError> {
    let paced: Vec<(usize, f64)> = plan
        .steps()
        .iter()
        .enumerate()
        .filter_map(|(step, planned)| Some((step, planned.rate_bytes_per_s?)))
        .collect();
    let mut paces = Vec::new();
    for (step, asked_bytes_per_s) in paced {
        let planned = &plan.steps()[step];
        let all_threads_ns = planned.line_bytes_per_iteration() as f64 / asked_bytes_per_s * 1e9;
        let threads = planned.parts.len() as f64;
        let found = pace::find(all_threads_ns * threads, |nops| {
            plan.set_nops(step, nops)?;
            machine.reload(plan, step)?;
            machine.iteration_ns(plan, step)
        })?;
        let Some(found) = found else { continue };
        plan.set_nops(step, found.nops)?;
        machine.reload(plan, step)?;
        let planned = &plan.steps()[step];
        paces.push(Pace {
            region: plan.regions()[planned.region].path.clone(),
            kernel: planned.kernel.name().to_owned(),
            asked_bytes_per_s,
            nops: found.nops,
            alone_bytes_per_s: asked_bytes_per_s * all_threads_ns * threads / found.ns_per_iteration,
        });
    }
    Ok(paces)
}

/// This machine: the step's own threads on its own data.
pub struct Native<'a> {
    pub stage: &'a mut Stage,
    pub interrupt: &'a AtomicBool,
}

impl RunsAlone for Native<'_> {
    fn reload(&mut self, plan: &Plan, step: usize) -> Result<(), RunError> {
        let scenario = plan.scenario().name.clone();
        self.stage.reload(plan, step).map_err(|source| RunError::Run { scenario, source })
    }

    fn iteration_ns(&mut self, plan: &Plan, step: usize) -> Result<Option<f64>, RunError> {
        let planned = &plan.steps()[step];
        let Some(iterations) = planned.parts.iter().map(|part| part.geometry.iterations).max() else {
            return Ok(None);
        };
        let mut passes = 1;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let timed = self.stage.play(self.interrupt, |player| {
                let start = now_ns();
                player.run_passes(step, passes);
                now_ns().saturating_sub(start)
            });
            let scenario = || plan.scenario().name.clone();
            let timed = timed.map_err(|source| RunError::Run { scenario: scenario(), source })?;
            let slowest = planned.parts.iter().map(|part| timed[part.thread].value).max().unwrap_or(0) as f64;
            if slowest >= LEAST_NS || passes >= MOST_PASSES {
                return Ok(Some((slowest / (passes * iterations) as f64).max(f64::MIN_POSITIVE)));
            }
            passes = (passes as f64 * (1.2 * LEAST_NS / slowest.max(1.0)).clamp(2.0, 100.0)) as u64;
            passes = passes.min(MOST_PASSES);
        }
    }
}
