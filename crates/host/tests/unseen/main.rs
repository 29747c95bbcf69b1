//! Phases drawn at random on a simulated machine: what groups of events say of them against what time says.
//!
//! Seeds below 1000, from 6000 to 6099, from 8000 to 8039 and from 9000 to 9139 were developed on. The tables of docs/events.md are of seeds from 3000 on:
//! `cargo test -p memwall-host --test unseen -- --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

mod clock;
mod impacts;
mod levels;
mod split;

use std::sync::atomic::AtomicBool;

use events::{CountRequest, CountShare, Instrument, MetricGroup, TooMany, groups::ProfileFigures};
use host::{
    Host,
    meter::{Conditions, MeteredPart},
    repeat::RepeatPlan,
    simulated::Simulated,
};
use kernels::Job;
use machine::model::Model;
use record::count::{CountedRun, GroupMetrics, MetricsAround, group_metrics};
use sim::pmu::{Flaws, SimulatedPmu};

const HASWELL: &str = "haswell-ep-e5-2680v3";
/// Nobody interrupts.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// A group over the steady state of a job, and the nanoseconds that took.
fn counted(
    model: &Model,
    job: &Job,
    group: &str,
    figures: Option<ProfileFigures<'_>>,
) -> (GroupMetrics, f64) {
    let pmu = SimulatedPmu::new(model, Flaws::of(model)).unwrap();
    let mut host = Simulated::new(model, 1).unwrap().counted_by(&pmu);
    let has = |event: &str| pmu.resolve(event).is_ok();
    let chosen = MetricGroup::fitting(group, &has).unwrap().choose(&has);
    let events: Vec<_> = chosen.events.iter().map(|(_, event)| pmu.resolve(event).unwrap()).collect();
    let inputs: Vec<(&str, usize)> =
        chosen.events.iter().enumerate().map(|(at, (input, _))| (*input, at)).collect();
    let scope = host.scope(&job.cpus);
    let request = CountRequest { events, scope, too_many: TooMany::AllAtOnce, share: CountShare::Together };
    let mut counting = pmu.open(&request).unwrap();
    let part = MeteredPart::Steady(Conditions::default());
    let run = host.run_metered(job, part, &mut counting, &RUNNING).unwrap();
    let counts = counting.read().unwrap();
    let elapsed_ns = run.elapsed_ns[0].round() as u64;
    let counted = CountedRun { elapsed_ns, ending: None, usage: None, counts, intervals: Vec::new() };
    let around = MetricsAround { profile: figures, ..MetricsAround::default() };
    (group_metrics(&chosen, &inputs, &[counted], around), run.elapsed_ns[0])
}

/// Nanoseconds per instruction.
fn pace(model: &Model, job: &Job) -> f64 {
    let mut host = Simulated::new(model, 1).unwrap();
    let measured = host.measure(job, &RepeatPlan::within(1e9, 0.05), &RUNNING).unwrap();
    measured.repeated.samples_ns[0] / measured.work.instructions
}

fn value(group: &GroupMetrics, name: &str) -> Option<f64> {
    group.metrics.iter().find(|metric| metric.name == name)?.values.first().copied()
}
