//! `memwall bench` on a simulated machine.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::PagePolicy;
use machine::profile::Noise;
use record::bench::{Bench, Point};

use super::{KernelJob, Simulated};
use crate::{
    bench::{BenchError, Progress, Request, check, header},
    clock,
};

/// Measures each size once. The plan of the request plays no part: a second time would be the first.
pub fn bench(
    request: &Request<'_>,
    rig: &mut Simulated,
    progress: &mut dyn FnMut(Progress<'_>),
    interrupt: &AtomicBool,
) -> Result<Bench, BenchError> {
    let (width, sizes) = check(request, &rig.topology())?;
    let clock = request.cpus.first().and_then(|cpu| clock::estimate(rig, cpu, interrupt));
    let mut bench = header(request, width, clock);
    bench.simulated = Some(rig.model().name.clone());
    let cpus: Vec<u32> = request.cpus.iter().collect();
    let small_pages = matches!(request.pages, PagePolicy::Small);
    let of = sizes.len();
    for (done, &asked) in sizes.iter().enumerate() {
        progress(Progress::Size { size: asked, done, of });
        let job = KernelJob {
            kernel: request.kernel,
            width,
            size: asked,
            cpus: &cpus,
            node: request.node,
            small_pages,
        };
        let measured = rig.measure_kernel(&job, interrupt).map_err(|source| BenchError::Simulation {
            kernel: request.kernel.name().to_owned(),
            size: asked,
            source,
        })?;
        let Some(time_ns) = measured.repeated.time_ns() else { break };
        bench.points.push(Point {
            asked,
            size: measured.size,
            pages: measured.pages,
            stopped: measured.repeated.stopped,
            samples_ns: measured.repeated.samples_ns,
            time_ns,
            work: measured.work,
            noise: Noise { wall_ns: measured.repeated.wall_ns, ..Noise::default() },
        });
        progress(Progress::Point { point: &bench.points[done], done: done + 1, of });
    }
    bench.interrupted = interrupt.load(Ordering::Relaxed);
    Ok(bench)
}
