//! A whole validation: work that was kept is not made again, and what is found does not depend on the order of work.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use machine::{model::Model, profile::Fingerprint};
use record::validate::Observation;
use sim::pmu::{Flaws, SimulatedPmu};
use trust::{Trust, Validation};
use validate::{Observer, Request, bench::Bench, simulated::SimulatedBench, validate};

use crate::{known, noisy};

/// Keeps everything, and interrupts after so many experiments.
struct Keeper<'a> {
    kept: HashMap<String, Observation>,
    made: usize,
    stop_after: usize,
    interrupt: &'a AtomicBool,
}

impl Observer for Keeper<'_> {
    fn progress(&mut self, _: &str, fraction: f64) {
        assert!((0.0..=1.0).contains(&fraction), "{fraction}");
    }

    fn keep(&mut self, observation: &Observation) {
        self.made += 1;
        self.kept.insert(observation.experiment.key(), observation.clone());
        self.interrupt.store(self.made >= self.stop_after, Ordering::Relaxed);
    }

    fn kept(&mut self, key: &str) -> Option<Observation> {
        self.kept.get(key).cloned()
    }
}

/// One that lets nobody work beside it.
struct Alone<'a>(SimulatedBench<'a>);

impl Bench for Alone<'_> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn machine(&self) -> &validate::bench::Machine {
        self.0.machine()
    }

    fn observe(
        &mut self,
        experiment: &record::validate::Experiment,
        events: &[String],
        interrupt: &AtomicBool,
    ) -> Result<Observation, validate::bench::ObserveError> {
        self.0.observe(experiment, events, interrupt)
    }

    fn probe(&self, event: &str) -> Result<events::Signal, events::CountRefusal> {
        self.0.probe(event)
    }

    fn sampled_latency(
        &mut self,
        experiment: &record::validate::Experiment,
        interrupt: &AtomicBool,
    ) -> Result<validate::bench::SampledLoads, validate::bench::ObserveError> {
        self.0.sampled_latency(experiment, interrupt)
    }
}

fn run(bench: &mut dyn Bench, model: &Model, keeper: &mut Keeper<'_>) -> Validation {
    run_with(events::Catalogue::named("haswell-ep").unwrap(), bench, model, keeper)
}

fn run_with(
    catalogue: &events::Catalogue,
    bench: &mut dyn Bench,
    model: &Model,
    keeper: &mut Keeper<'_>,
) -> Validation {
    let request = Request {
        quick: true,
        runs: 1,
        all_events: true,
        random_kernels: 0,
        relieved_kernels: 0,
        now: 0,
        simulated: Some(model.name.clone()),
        fingerprint: Fingerprint::of_model(model),
    };
    let interrupt = keeper.interrupt;
    validate(bench, catalogue, &known(), &request, keeper, interrupt)
}

#[test]
fn interrupted_work_goes_on_where_it_stopped_and_every_indicator_gets_a_reasoned_verdict() {
    let model = Model::builtin("tiny").unwrap();
    let bench = || {
        let pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
        SimulatedBench::new(&model, pmu, kernels::KernelCatalogue::builtin().unwrap(), 1, noisy())
    };
    let interrupt = AtomicBool::new(false);
    let mut keeper = Keeper { kept: HashMap::new(), made: 0, stop_after: 20, interrupt: &interrupt };
    let cut = run(&mut bench(), &model, &mut keeper);
    assert!(!cut.complete && cut.steps.iter().any(|step| !step.done), "{:?}", cut.steps);
    let before = keeper.made;
    interrupt.store(false, Ordering::Relaxed);
    keeper.stop_after = usize::MAX;
    let resumed = run(&mut bench(), &model, &mut keeper);
    assert!(resumed.complete, "{:?}", resumed.steps);
    assert_eq!(keeper.made, keeper.kept.len(), "an experiment was made twice");
    assert!(before >= 20 && keeper.made > before);
    let mut fresh = Keeper { kept: HashMap::new(), made: 0, stop_after: usize::MAX, interrupt: &interrupt };
    let alone = run(&mut Alone(bench()), &model, &mut fresh);
    assert_eq!(alone, resumed, "the order of work changed what was found");
    for one in &resumed.indicators {
        match &one.trust {
            Trust::Untested { missing } => assert!(!missing.is_empty(), "{}", one.name),
            Trust::Broken { why, .. } => assert!(!why.is_empty(), "{}", one.name),
            _ => {}
        }
    }
}

#[test]
fn a_machine_that_no_event_file_describes_is_validated_by_what_needs_none() {
    let model = Model::builtin("tiny").unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
    let kernels = kernels::KernelCatalogue::builtin().unwrap();
    let mut bench = SimulatedBench::new(&model, pmu, kernels, 1, noisy());
    let interrupt = AtomicBool::new(false);
    let mut keeper = Keeper { kept: HashMap::new(), made: 0, stop_after: 3, interrupt: &interrupt };
    let nothing = events::Catalogue::without_events();
    let validation = run_with(&nothing, &mut bench, &model, &mut keeper);
    assert!(keeper.kept.values().all(|made| made.counts.is_empty()), "no event could be counted");
    assert!(
        validation.indicators.iter().all(|one| one.events.is_empty() || one.events == ["sampled latency"])
    );
    assert!(!validation.steps.is_empty());
}
