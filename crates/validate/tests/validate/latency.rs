//! Which latency means saturation on the machine of helm2019, its caches divided by sixteen.

use std::sync::atomic::AtomicBool;

use host::simulated::Conditions;
use machine::model::Model;
use record::validate::{Experiment, Observation};
use sim::pmu::{Flaws, SimulatedPmu};
use trust::{Indicator, KernelPlace, Trust};
use validate::{
    bench::Bench as _,
    judge::latency::{Formula, judge, thresholds},
    simulated::{SimulatedBench, experiment},
};

use crate::known;

const EVENTS: [&str; 3] =
    ["L1D_PEND_MISS.PENDING", "MEM_LOAD_UOPS_RETIRED.L1_MISS", "MEM_LOAD_UOPS_RETIRED.HIT_LFB"];

fn formula(name: Indicator, below: &[&str]) -> Formula {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Formula { name, above: owned(&EVENTS[..1]), below: owned(below) }
}

/// Readers in a hurry and at ease, alone and all together.
fn observed(prefetch: bool) -> Vec<Observation> {
    let model = Model::builtin("haswell-ep-e5-2699v3").unwrap().scaled(16).unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
    let kernels = kernels::KernelCatalogue::builtin().unwrap();
    let mut bench = SimulatedBench::new(&model, pmu, kernels, 1, Conditions::default());
    let machine = bench.machine().clone();
    let events = EVENTS.map(str::to_owned);
    let readers = [1, machine.cores].into_iter().flat_map(|cores| [0, 1024].map(|nops| (cores, nops)));
    let observe = |(cores, nops)| {
        let one = experiment(&machine, "delayed-read", KernelPlace::Memory, cores).unwrap();
        let one = Experiment { parameters: vec![("nops".to_owned(), nops)], prefetch, ..one };
        bench.observe(&one, &events, &AtomicBool::new(false)).unwrap()
    };
    readers.map(observe).collect()
}

#[test]
fn load_miss_real_latency_rises_only_when_memory_is_saturated() {
    for prefetch in [true, false] {
        let observations = observed(prefetch);
        let real = formula(Indicator::LoadMissRealLatency, &EVENTS[1..]);
        let judged = judge(&real, &observations, &known());
        let verdict = if prefetch { &judged.trust } else { judged.without_prefetch.as_deref().unwrap() };
        match verdict {
            Trust::Qualitative { tells, .. } => assert!(tells.contains("saturated: above"), "{judged:#?}"),
            other => panic!("{other:?}: {judged:#?}"),
        }
        if prefetch {
            let found = thresholds(&[real], &observations, &known());
            assert_eq!(found.len(), 1);
            assert!(found[0].value > 50.0 && found[0].how.contains("0 of "), "{found:?}");
        }
    }
}
