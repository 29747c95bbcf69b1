//! A plan on this machine: its threads go through their schedules, timed by one clock.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use kernels::{
    Workload,
    scenario::{Event, Plan},
    workload::{WorkThread, WorkloadError},
};
use record::bench::BackingPages;
use rustix::time::{ClockId, clock_gettime};

use crate::host::{HostError, PlanRun, PreparedPlan, RegionEntry};

/// A run of a step alone is at least this long: reading the clock and starting together must not show.
const LEAST_NS: f64 = 3e6;
/// Passes of such a run at most, however small the data.
const MOST_PASSES: u64 = 10_000;

/// A plan with its threads and data.
pub(super) struct NativePlan {
    workload: Workload,
}

impl NativePlan {
    pub fn new(plan: Plan, cpus: &[u32], nodes: &[Option<u32>]) -> Result<Self, HostError> {
        let name = plan.scenario().name.clone();
        let workload = Workload::of_plan(plan, cpus, nodes).map_err(|error| HostError::new(name, error))?;
        Ok(Self { workload })
    }

    fn failed(&self) -> impl Fn(WorkloadError) -> HostError + use<> {
        let name = self.workload.plan().scenario().name.clone();
        move |error| match error {
            WorkloadError::Plan(error) => HostError::new(name.clone(), error),
            other => HostError::new(name.clone(), other),
        }
    }
}

impl PreparedPlan for NativePlan {
    fn plan(&self) -> &Plan {
        self.workload.plan()
    }

    fn set_nops(&mut self, step: usize, nops: u64) -> Result<(), HostError> {
        let failed = self.failed();
        self.workload.set_nops(step, nops).map_err(failed)
    }

    fn iteration_ns(&mut self, step: usize, interrupt: &AtomicBool) -> Result<Option<f64>, HostError> {
        let failed = self.failed();
        let parts = &self.plan().steps()[step].parts;
        let threads: Vec<usize> = parts.iter().map(|part| part.thread).collect();
        let Some(iterations) = parts.iter().map(|part| part.geometry.iterations).max() else {
            return Ok(None);
        };
        let mut passes = 1;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let timed = self.workload.run_threads(interrupt, |thread| {
                let start = now_ns();
                thread.run_passes(step, passes);
                now_ns().saturating_sub(start)
            });
            let timed = timed.map_err(&failed)?;
            let slowest = threads.iter().map(|&thread| timed[thread].value).max().unwrap_or(0) as f64;
            if slowest >= LEAST_NS || passes >= MOST_PASSES {
                return Ok(Some((slowest / (passes * iterations) as f64).max(f64::MIN_POSITIVE)));
            }
            passes = (passes as f64 * (1.2 * LEAST_NS / slowest.max(1.0)).clamp(2.0, 100.0)) as u64;
            passes = passes.min(MOST_PASSES);
        }
    }

    fn run(&mut self, interrupt: &AtomicBool) -> Result<PlanRun, HostError> {
        let failed = self.failed();
        let threads = self.workload.run_threads(interrupt, follow).map_err(failed)?;
        let start_ns = threads.iter().map(|thread| thread.start_ns).min().unwrap_or(0);
        let end_ns = threads.iter().map(|thread| thread.end_ns).max().unwrap_or(0);
        Ok(PlanRun {
            start_ns: start_ns as f64,
            wall_ns: end_ns.saturating_sub(start_ns) as f64,
            involuntary_switches: threads.iter().map(|thread| thread.involuntary_switches).sum(),
            entries: threads.into_iter().map(|thread| thread.value).collect(),
            addresses: BTreeMap::new(),
        })
    }

    fn pages(&self, instance: usize) -> Option<BackingPages> {
        let backing = self.workload.backing_of(instance)?;
        Some(BackingPages { huge: backing.huge, total: backing.total })
    }
}

/// Goes through one thread's schedule. Ends early if interrupted; what was finished is kept.
fn follow(thread: &mut WorkThread<'_>) -> Vec<RegionEntry> {
    let plan = thread.plan();
    let entered = |event: &Event| matches!(event, Event::Enter { .. });
    // Room for all of them: growing would be timed.
    let mut entries = Vec::with_capacity(plan.schedule(thread.number()).filter(entered).count());
    let mut inside = Vec::new();
    for event in plan.schedule(thread.number()) {
        let goes_on = match event {
            Event::Enter { region } => {
                let met = thread.meet(region);
                inside.push(now_ns() as f64);
                met
            }
            Event::Run { step } => thread.run(step),
            Event::Leave { region } => {
                let end_ns = now_ns() as f64;
                if let Some(start_ns) = inside.pop() {
                    entries.push(RegionEntry { region, start_ns, end_ns });
                }
                true
            }
        };
        if !goes_on {
            break;
        }
    }
    entries
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
