//! A machine without flaws, under noise.

use std::sync::atomic::AtomicBool;

use host::simulated::Conditions;
use machine::model::Model;
use record::validate::Observation;
use sim::{
    memory::Disturbance,
    pmu::{Flaws, SimulatedPmu},
};
use trust::{KernelPlace, Purpose, Quantity, Trust};
use validate::{
    bench::Bench,
    claims::{Candidate, candidates},
    judge::volume,
    simulated::SimulatedBench,
};

use crate::{INSTRUCTIONS, known, noisy, plan};

/// Every volume candidate of the machine that can be counted on it.
fn countable(bench: &dyn Bench) -> Vec<Candidate> {
    let catalogue = events::Catalogue::named("haswell-ep").unwrap();
    let mut all = candidates(catalogue, false);
    all.retain(|one| {
        let volume = matches!(one.purpose, Purpose::Volume(quantity) if quantity != Quantity::HandedOver);
        volume && one.events.iter().all(|event| bench.probe(event).is_ok())
    });
    all
}

/// What these kernels show of every candidate.
fn observed(
    model: &Model,
    seed: u64,
    conditions: Conditions,
    streaming: &[&str],
) -> (Vec<Candidate>, Vec<Observation>) {
    let pmu = SimulatedPmu::new(model, Flaws::Off).unwrap();
    let kernels = kernels::KernelCatalogue::builtin().unwrap();
    let mut bench = SimulatedBench::new(model, pmu, kernels, seed, conditions);
    let candidates = countable(&bench);
    let mut events: Vec<String> = candidates.iter().flat_map(|one| one.events.clone()).collect();
    events.sort();
    events.dedup();
    let plan = plan(bench.machine(), streaming);
    let observe = |one| bench.observe(one, &events, &AtomicBool::new(false)).unwrap();
    let observations = plan.iter().map(observe).collect();
    (candidates, observations)
}

/// Names of those that are broken for what they claim.
fn accused(model: &Model, seed: u64, conditions: Conditions) -> Vec<String> {
    let (candidates, observations) = observed(model, seed, conditions, &["load", "copy"]);
    let broken = candidates
        .iter()
        .filter(|one| matches!(volume::judge(one, &observations, &known()).trust, Trust::Broken { .. }));
    broken.map(|one| one.name.to_string()).collect()
}

#[test]
fn noise_makes_no_accusation_over_fifty_seeds() {
    let model = Model::builtin("tiny").unwrap();
    let quiet = Conditions { instructions: Some(INSTRUCTIONS), ..Conditions::default() };
    let known = accused(&model, 1, quiet);
    // What prefetchers hide from an event is no fault of the noise.
    assert!(known.iter().any(|name| name.contains("L3_MISS")), "{known:?}");
    let noisy = Conditions { instructions: Some(INSTRUCTIONS / 2), ..noisy() };
    let check = |seeds: std::ops::Range<u64>| {
        for seed in seeds {
            for name in accused(&model, seed, noisy) {
                assert!(known.contains(&name), "seed {seed}: {name} is accused only under noise");
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(|| check(0..25)), scope.spawn(|| check(25..50))];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Others draw this share of what one core can draw from memory, and as many lines from the L3.
const SHARES: [f64; 3] = [0.01, 0.05, 0.2];

/// Verdicts under traffic of others, and lines per second that one core draws from memory.
fn verdicts(model: &Model, seed: u64, conditions: Conditions) -> (Vec<(String, Trust)>, f64) {
    let (candidates, observations) = observed(model, seed, conditions, &["load", "store", "copy"]);
    let load = observations.iter().filter(|one| {
        let experiment = &one.experiment;
        (experiment.kernel.as_str(), experiment.place, experiment.cores) == ("load", KernelPlace::Memory, 1)
    });
    let rate = load.map(|one| one.truth.below[0].read / one.elapsed_ns * 1e9).fold(0.0, f64::max);
    let judge = |one: &Candidate| (one.name.clone(), volume::judge(one, &observations, &known()).trust);
    (candidates.iter().map(judge).collect(), rate)
}

#[test]
fn traffic_of_others_makes_honest_events_rough_and_never_broken() {
    let model = Model::builtin("tiny").unwrap();
    let quiet = Conditions { instructions: Some(INSTRUCTIONS), ..Conditions::default() };
    let (honest, memory) = verdicts(&model, 1, quiet);
    let honest: Vec<String> =
        honest.into_iter().filter(|(_, trust)| trust.word() == "trusted").map(|(name, _)| name).collect();
    assert!(honest.len() > 40, "{honest:?}");
    for share in SHARES {
        let disturbance = Disturbance { memory_lines_per_s: share * memory, l3_lines_per_s: share * memory };
        let conditions = Conditions { disturbance: Some(disturbance), ..quiet };
        let (mut rough, mut all) = (0, 0);
        for seed in 0..SEEDS {
            let (found, _) = verdicts(&model, seed, conditions);
            for (name, trust) in found.iter().filter(|(name, _)| honest.contains(name)) {
                assert!(!matches!(trust, Trust::Broken { .. }), "{share}, seed {seed}: {name}: {trust:?}");
                rough += usize::from(matches!(trust, Trust::Qualitative { .. }));
                all += 1;
            }
        }
        println!("{:.0} % of the bandwidth: {rough} of {all} are qualitative", share * 100.0);
        assert!(share > 0.05 || rough * 10 <= all, "{share}: {rough} of {all}");
    }
}

const SEEDS: u64 = 2;
