//! Known work on pinned threads under an instrument.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{Job, Workload};
use machine::{Topology, topology::CacheKind};

use crate::{
    host::HostError,
    meter::{Conditions, Meter, MeteredPart, MeteredRun},
    work_truth::{self, Done},
};

/// How long a metered part takes where its passes are not given.
const SPAN_NS: f64 = 30e6;

/// Warms up, then runs the metered part as often as the meter asks for it.
pub(super) fn run(
    job: &Job,
    part: MeteredPart,
    meter: &mut dyn Meter,
    topology: &Topology,
    interrupt: &AtomicBool,
) -> Result<MeteredRun, HostError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| HostError::new(job.to_string(), error);
    let (warm_up, passes) = match part {
        MeteredPart::Passes { warm_up, passes } => (warm_up, passes),
        MeteredPart::Steady(conditions) if conditions == Conditions::default() => (1, None),
        MeteredPart::Steady(_) => return Err(failed("circumstances cannot be chosen here".into())),
    };
    let mut workload = Workload::prepare(job).map_err(|error| failed(error.into()))?;
    let mut run = |passes| match workload.run(passes) {
        Ok(run) => Ok(run.elapsed_ns() as f64),
        Err(error) => Err(failed(error.into())),
    };
    // One pass more is needed to know how many fit the time.
    let warm_up = if passes.is_none() { warm_up.max(1) } else { warm_up };
    let warm_ns = if warm_up > 0 { run(warm_up)? / warm_up as f64 } else { 0.0 };
    let passes = passes.unwrap_or_else(|| (SPAN_NS / warm_ns.max(1.0)).clamp(1.0, 1e7) as u64);
    let mut elapsed_ns = Vec::new();
    loop {
        meter.begin().map_err(|refusal| failed(refusal.into()))?;
        let ran = run(passes);
        let again = meter.end().map_err(|refusal| failed(refusal.into()))?;
        elapsed_ns.push(ran?);
        if !again || interrupt.load(Ordering::Relaxed) {
            break;
        }
    }
    let caches =
        caches(topology, job).ok_or_else(|| failed("the sizes of its caches are not known".into()))?;
    let truth = work_truth::of_step(workload.step(), Done::Whole(passes), &|_| caches);
    let truth = truth.map_err(|error| failed(error.into()))?;
    Ok(MeteredRun { elapsed_ns, passes: Some(passes), truth })
}

/// What each thread has of the caches of its CPU: threads share the last one.
fn caches(topology: &Topology, job: &Job) -> Option<[u64; 3]> {
    let caches = topology.data_caches_of(*job.cpus.first()?);
    let size = |level: u32| {
        let found = caches.iter().find(|cache| cache.level == level && cache.kind != CacheKind::Instruction);
        found.and_then(|cache| cache.size).map(|size| size.0)
    };
    let l2 = size(2)?;
    let l3 = size(3).map_or(l2, |l3| l3 / job.cpus.len().max(1) as u64);
    Some([size(1)?, l2, l3])
}
