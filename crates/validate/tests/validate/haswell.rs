//! The machine of molka2017 and roehl2016, with a quarter of its caches: what the papers found is found.

use std::sync::atomic::AtomicBool;

use host::simulated::Conditions;
use machine::{Bytes, model::Model, profile::Fingerprint};
use record::validate::{Experiment, Observation};
use sim::pmu::{Flaws, SimulatedPmu};
use trust::{KernelPlace, Purpose, Quantity, Trust};
use validate::{
    Observer, Request,
    bench::Bench,
    claims::Candidate,
    judge::volume,
    simulated::{SimulatedBench, experiment},
    validate,
};

use crate::{known, papers};

/// Fewer of them take less time.
const CORES: u32 = 2;

struct Nobody;

impl Observer for Nobody {
    fn progress(&mut self, _: &str, _: f64) {}
    fn keep(&mut self, _: &Observation) {}
    fn kept(&mut self, _: &str) -> Option<Observation> {
        None
    }
}

fn model() -> Model {
    let mut model = Model::builtin("haswell-ep-e5-2680v3").unwrap().scaled(4).unwrap();
    model.cores_per_socket = CORES;
    model
}

fn bench(model: &Model, flaws: Flaws) -> SimulatedBench<'_> {
    let pmu = SimulatedPmu::new(model, flaws).unwrap();
    SimulatedBench::new(model, pmu, kernels::KernelCatalogue::builtin().unwrap(), 1, Conditions::default())
}

#[test]
fn what_the_papers_found_on_haswell_is_found_on_its_model() {
    let model = model();
    let request = Request {
        quick: true,
        runs: 1,
        all_events: false,
        random_kernels: 0,
        relieved_kernels: 0,
        now: 0,
        simulated: Some(model.name.clone()),
        fingerprint: Fingerprint::of_model(&model),
    };
    let catalogue = events::Catalogue::named("haswell-ep").unwrap();
    let never = AtomicBool::new(false);
    let validation =
        validate(&mut bench(&model, Flaws::On), catalogue, &known(), &request, &mut Nobody, &never);
    for claim in papers::claims(&validation) {
        assert!(claim.holds, "{}\n{}", claim.says, claim.found);
    }
}

/// Lines handed over with two threads per core (roehl2016 §2.1, erratum HSW150).
#[test]
fn modified_lines_are_qualitative_where_the_erratum_is_on() {
    const EVENT: &str = "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM";
    let model = Model { threads_per_core: 2, ..model() };
    let verdict = |flaws| {
        let mut bench = bench(&model, flaws);
        let one = experiment(bench.machine(), "producer-consumer", KernelPlace::L1, 2).unwrap();
        let off = Experiment { size: Bytes(4096), prefetch: false, ..one };
        let made = bench.observe(&off, &[EVENT.to_owned()], &AtomicBool::new(false)).unwrap();
        let purpose = Purpose::Volume(Quantity::HandedOver);
        volume::judge(&Candidate::event(EVENT, purpose), &[made], &known()).trust
    };
    match verdict(Flaws::On) {
        Trust::Qualitative { misses, .. } => assert!(misses.contains("60 %"), "{misses}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(verdict(Flaws::Off), Trust::Trusted { .. }));
}
