//! Streams of a given rate: the number of nops is found by running the step alone, on its own data and threads.

use std::sync::atomic::AtomicBool;

use kernels::scenario::pace;
use record::scenario::ScenarioPace;

use crate::host::{HostError, PreparedPlan};

/// The pace of one step, as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPace {
    /// Index into the plan's steps.
    pub step: usize,
    /// How it is held.
    pub pace: ScenarioPace,
}

/// Sets every step to a pace that was found before.
pub fn set(prepared: &mut dyn PreparedPlan, paces: &[StepPace]) -> Result<(), HostError> {
    paces.iter().try_for_each(|known| prepared.set_nops(known.step, known.pace.nops))
}

/// Slows down every step that has a rate. Steps that are interrupted stay as fast as they are.
pub fn pace(prepared: &mut dyn PreparedPlan, interrupt: &AtomicBool) -> Result<Vec<StepPace>, HostError> {
    let paced: Vec<(usize, f64)> = prepared
        .plan()
        .steps()
        .iter()
        .enumerate()
        .filter_map(|(step, planned)| Some((step, planned.rate_bytes_per_s?)))
        .collect();
    let mut paces = Vec::new();
    for (step, asked_bytes_per_s) in paced {
        let planned = &prepared.plan().steps()[step];
        let all_threads_ns = planned.line_bytes_per_iteration() as f64 / asked_bytes_per_s * 1e9;
        let threads = planned.parts.len() as f64;
        let found = pace::find(all_threads_ns * threads, |nops| {
            prepared.set_nops(step, nops)?;
            prepared.iteration_ns(step, interrupt)
        })?;
        let Some(found) = found else { continue };
        prepared.set_nops(step, found.nops)?;
        let plan = prepared.plan();
        let planned = &plan.steps()[step];
        let pace = ScenarioPace {
            region: plan.regions()[planned.region].path.clone(),
            kernel: planned.kernel.name().to_owned(),
            asked_bytes_per_s,
            nops: found.nops,
            alone_bytes_per_s: asked_bytes_per_s * all_threads_ns * threads / found.ns_per_iteration,
        };
        paces.push(StepPace { step, pace });
    }
    Ok(paces)
}
