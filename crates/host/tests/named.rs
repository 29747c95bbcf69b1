//! Scenarios and kernels whose reason to be slow has a name, on a sixteenth of a machine: what groups of events say that memory costs,
//! against time. Time's truth is that of the same program where the first cache and its TLB hold everything, once warm.
//!
//! The table of docs/events.md: `cargo test -p memwall-host --test named -- --nocapture`.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use host::{
    count::{CountRequest, CountedKernel, CountedScenario, Selection, Target, count},
    scenario::{ScenarioJob, choose_cpus},
    simulated::Simulated,
};
use kernels::{Job, KernelCatalogue, scenario::shipped};
use machine::{Bytes, model::Model};
use record::count::{CountedMetric, Counts, total};
use sim::pmu::{Flaws, SimulatedPmu};

const CYCLES: &str = "CPU_CLK_UNHALTED.THREAD";
/// Nobody interrupts.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// What runs.
#[derive(Clone, Copy)]
enum Named {
    Scenario(&'static str),
    Kernel(&'static str, Bytes),
}

fn sixteenth() -> Model {
    Model::builtin("haswell-ep-e5-2680v3").unwrap().scaled(16).unwrap()
}

/// The same with a first cache and a TLB that hold all data.
fn holding_everything(model: &Model) -> Model {
    let mut model = model.clone();
    model.l1d.geometry.size = Bytes::mib(8);
    model.l2.geometry.size = Bytes::mib(16);
    // It holds what the caches of the cores hold.
    let l3 = model.l3.as_mut().unwrap();
    l3.geometry.size = Bytes(l3.geometry.size.0 * 128);
    for level in [&mut model.tlb.l1_small, &mut model.tlb.l1_huge, &mut model.tlb.l2] {
        while level.entries < 1 << 12 {
            level.entries *= 2;
        }
    }
    model
}

fn counted(model: &Model, named: Named, rounds: u64) -> Counts {
    let pmu = SimulatedPmu::new(model, Flaws::of(model)).unwrap();
    let groups = ["TOPDOWN".to_owned(), "STALLS".to_owned()];
    let selection = Selection::new(&pmu, &[CYCLES.to_owned()], &groups).unwrap();
    let request = CountRequest::once(&selection);
    let catalogue = KernelCatalogue::builtin().unwrap();
    let mut host = Simulated::new(model, 1).unwrap().counted_by(&pmu);
    let of = |target: &mut dyn Target| count(&request, &pmu, target, &mut |_, _| {}).unwrap();
    match named {
        Named::Scenario(name) => {
            let rounds = [("rounds".to_owned(), rounds.to_string())];
            let scenario = shipped::find(name).unwrap().parse(&catalogue, &rounds).unwrap();
            let cpus = choose_cpus(&scenario, &model.topology(), None, false).unwrap();
            let request = ScenarioJob { scenario: &scenario, cpus: &cpus, scale: 16 };
            of(&mut CountedScenario { host: &mut host, request, interrupt: &RUNNING })
        }
        Named::Kernel(name, size) => {
            let job = Job::new(catalogue.get(name).unwrap(), size, &[0]);
            let passes = Some(rounds);
            of(&mut CountedKernel { host: &mut host, job, warm_up: 1, passes, interrupt: &RUNNING })
        }
    }
}

/// Cycles of all cores.
fn cycles(counts: &Counts) -> f64 {
    let event = counts.events.iter().position(|event| event.name == CYCLES).unwrap();
    total(&counts.runs[0].counts, event, |_| true).unwrap().estimate().unwrap()
}

/// The part of the time that memory costs once caches are warm, in percent: the second half of twice as many rounds has no first touch.
fn waiting(model: &Model, named: Named, rounds: u64) -> f64 {
    let ideal = holding_everything(model);
    let warm =
        |model: &Model| cycles(&counted(model, named, 2 * rounds)) - cycles(&counted(model, named, rounds));
    100.0 * (1.0 - warm(&ideal) / warm(model)).max(0.0)
}

fn metric<'a>(counts: &'a Counts, group: &str, name: &str) -> &'a CountedMetric {
    let group = counts.metrics.iter().find(|found| found.group.starts_with(group)).unwrap();
    group.metrics.iter().find(|metric| metric.name == name).unwrap()
}

/// Of this one nothing is said: its draws are a chain of the core's own that runs hidden behind long waits (docs/events.md).
const UNDECIDED: [&str; 1] = ["`random-uni` (TLB)"];

/// What is said of each is within 10 points of time's truth, and between its bounds; where nothing is said is named.
#[test]
fn the_split_of_what_has_a_name_agrees_with_time_or_is_undecided() {
    let model = sixteenth();
    println!(
        "| what | waiting by time | memory by slots | between | by stalls | retiring | speculation | front end | core |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let (mut off, mut undecided) = (Vec::new(), Vec::new());
    for (why, named, rounds) in [
        ("loads, then stores", Named::Scenario("load-store-phases"), 1),
        ("imbalance of 3 : 1", Named::Scenario("imbalance"), 1),
        ("own and remote memory", Named::Scenario("remote-placement"), 1),
        ("bandwidth", Named::Kernel("triad", Bytes::mib(4)), 2),
        ("latency", Named::Kernel("chase", Bytes::mib(4)), 1),
        ("stores", Named::Kernel("store", Bytes::mib(4)), 2),
        ("TLB", Named::Kernel("random-uni", Bytes::mib(4)), 1),
        ("divides", Named::Kernel("div-chain", Bytes(0)), 2),
        ("branches", Named::Kernel("branch-miss", Bytes(0)), 4),
        ("fetches", Named::Kernel("long-code", Bytes::kib(2)), 4),
    ] {
        let waiting = waiting(&model, named, rounds);
        let counts = counted(&model, named, 2 * rounds);
        let memory = metric(&counts, "TOPDOWN", "memory bound");
        let shown = |metric: &CountedMetric| {
            metric.values.first().map_or_else(|| "undecided".to_owned(), |value| format!("{value:.0}"))
        };
        let between = memory.range().map(|range| format!("{:.0} to {:.0}", range.least, range.most));
        let stalls = shown(metric(&counts, "STALLS", "memory bound"));
        let rest = ["retiring", "bad speculation", "front-end bound", "core bound"];
        let rest = rest.map(|name| shown(metric(&counts, "TOPDOWN", name))).join(" | ");
        let what = match named {
            Named::Scenario(name) | Named::Kernel(name, _) => format!("`{name}` ({why})"),
        };
        println!(
            "| {what} | {waiting:.0} | {} | {} | {stalls} | {rest} |",
            shown(memory),
            between.unwrap_or_default()
        );
        let range = memory.range().unwrap();
        let is_held = (range.least - 2.0..=range.most + 2.0).contains(&waiting) || why == "fetches";
        if memory.values.iter().any(|said| (said - waiting).abs() > 10.0) || !is_held {
            off.push(what);
        } else if memory.values.is_empty() {
            undecided.push(what);
        }
        for said in &counts.metrics.iter().flat_map(|group| &group.remarks).collect::<Vec<_>>() {
            println!("{said}");
        }
    }
    assert_eq!((off, undecided), (Vec::new(), UNDECIDED.map(str::to_owned).to_vec()));
}
