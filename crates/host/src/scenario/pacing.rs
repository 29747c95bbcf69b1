//! Streams of a given rate: the number of nops is found by running the step alone, on its own data and threads.

use std::sync::atomic::AtomicBool;

use kernels::scenario::pace;
use record::scenario::ScenarioPace;

use crate::host::{HostError, PreparedPlan};

/// Slows down every step that has a rate. Steps that are interrupted stay as fast as they are.
pub fn pace(prepared: &mut dyn PreparedPlan, interrupt: &AtomicBool) -> Result<Vec<ScenarioPace>, HostError> {
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
        paces.push(ScenarioPace {
            region: plan.regions()[planned.region].path.clone(),
            kernel: planned.kernel.name().to_owned(),
            asked_bytes_per_s,
            nops: found.nops,
            alone_bytes_per_s: asked_bytes_per_s * all_threads_ns * threads / found.ns_per_iteration,
        });
    }
    Ok(paces)
}
