//! Impacts of kruse2011 beside the stalled cycles.

use std::ops::Range;

use host::{
    count::{CountedScenario, Selection},
    simulated::Simulated,
};
use kernels::{KernelCatalogue, generate::RandomKernel};
use machine::model::Model;
use record::count::GroupMetrics;
use sim::pmu::{Flaws, SimulatedPmu};

use crate::{RUNNING, counted};

/// Impacts of kruse2011 beside the stalled cycles, as a row; an overshoot must be said, and nothing else. None where they were
/// not counted.
fn impact_row(name: &str, group: &GroupMetrics) -> Option<String> {
    let bar = |title: &str| group.bars.iter().find(|bar| bar.title == title).unwrap();
    let (stalls, cycles) = (bar("stalled cycles by cause"), bar("cycles at execution"));
    let (stalled, total) = stalls.whole.zip(cycles.whole)?;
    let share = stalls.sum() / stalled;
    let said = group.remarks.iter().any(|said| said.contains("overlap") && said.contains(&stalls.title));
    assert_eq!(share > 1.03, said, "{name}: {share}: {:?}", group.remarks);
    let word = if said { "they overlap" } else { "" };
    Some(format!("| {name} | {:.0} | {:.0} | {word} |", 100.0 * stalled / total, 100.0 * share))
}

/// Prints the impacts of kernels drawn at random.
fn impact_table(model: &str, seeds: Range<u64>) {
    let model = Model::builtin(model).unwrap();
    println!("| kernel | stalled, % of cycles | impacts, % of stalled | said |\n|---|---|---|---|");
    for seed in seeds {
        let drawn = RandomKernel::draw(seed, &model.topology().isa).unwrap();
        let (group, _) = counted(&model, &drawn.job(0), "ACCOUNTING", None);
        if let Some(row) = impact_row(&format!("random-{seed}, {}", drawn.size), &group) {
            println!("{row}");
        }
    }
}

#[test]
fn impacts_beyond_the_stalled_cycles_are_said() {
    impact_table("nehalem-ep-x5570", 0..6);
}

/// Prints the impacts of scenarios beside their stalled cycles, on a sixteenth of a machine; every overshoot must be said.
fn scenario_impacts(model: &str, names: &[&str]) {
    let model = Model::builtin(model).unwrap().scaled(16).unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::of(&model)).unwrap();
    let catalogue = KernelCatalogue::builtin().unwrap();
    let selection = Selection::new(&pmu, &[], &["ACCOUNTING".to_owned()]).unwrap();
    println!("| scenario | stalled, % of cycles | impacts, % of stalled | said |\n|---|---|---|---|");
    for name in names {
        let scenario = kernels::scenario::shipped::find(name).unwrap().parse(&catalogue, &[]).unwrap();
        let mut host = Simulated::new(&model, 1).unwrap().counted_by(&pmu);
        let Ok(cpus) = host::scenario::choose_cpus(&scenario, &model.topology(), None, false) else {
            println!("| {name} | – | – | the machine lacks what it needs |");
            continue;
        };
        let job = host::scenario::ScenarioJob { scenario: &scenario, cpus: &cpus, scale: 16 };
        let mut target = CountedScenario { host: &mut host, request: job, interrupt: &RUNNING };
        let request = host::count::CountRequest::once(&selection);
        let counts = host::count::count(&request, &pmu, &mut target, &mut |_, _| {}).unwrap();
        println!("{}", impact_row(name, &counts.metrics[0]).unwrap());
    }
}

#[test]
fn impacts_of_scenarios_are_said_where_they_overlap() {
    scenario_impacts("nehalem-ep-x5570", &["load-store-phases"]);
}

#[test]
#[ignore = "minutes: prints a table of all of them"]
fn impacts_of_every_scenario() {
    let names = kernels::scenario::shipped::ALL.map(|shipped| shipped.name);
    for model in ["nehalem-ep-x5570", "core2-e5430"] {
        println!("{model}");
        scenario_impacts(model, &names);
    }
}

#[test]
#[ignore = "minutes: prints the table of docs/events.md"]
fn impacts_of_seeds_nobody_tuned_to() {
    impact_table("nehalem-ep-x5570", 3000..3020);
}
