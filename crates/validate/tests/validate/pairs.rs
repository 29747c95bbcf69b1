//! What events see of lines that stores modify, by pairs of experiments: with prefetchers and without, here and remote.

use std::sync::atomic::AtomicBool;

use record::validate::{Experiment, Observation};
use sim::pmu::Flaws;
use trust::{KernelPlace, Purpose, Quantity, SeenStores};
use validate::{bench::Bench as _, claims::Candidate, judge::volume, simulated::experiment};

use crate::{
    haswell::{bench, model},
    known,
};

const WRITTEN_BACK: &str = "L2_TRANS.L1D_WB";
const ASKED_FOR: &str = "L2_TRANS.RFO";
const OFFCORE: &str = "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:ANY_RESPONSE";
const BROUGHT: &str = "L1D.REPLACEMENT";
const INTO_MEMORY: &str = "UNC_M_CAS_COUNT.WR";
const READ: &str = "L2_RQSTS.ALL_DEMAND_DATA_RD";

fn observed(events: &[String]) -> Vec<Observation> {
    let model = model();
    let mut bench = bench(&model, Flaws::Off);
    let machine = bench.machine().clone();
    let mut all = Vec::new();
    for kernel in ["load", "store", "update"] {
        for (prefetch, remote) in [(true, false), (false, false), (true, true), (false, true)] {
            let one = experiment(&machine, kernel, KernelPlace::Memory, 1).unwrap();
            let one = Experiment { prefetch, remote, ..one };
            all.push(bench.observe(&one, events, &AtomicBool::new(false)).unwrap());
        }
    }
    all
}

#[test]
fn reads_for_ownership_and_write_backs_are_told_apart_in_every_state() {
    // What is seen: reads for ownership, write-backs.
    let expected = [
        (WRITTEN_BACK, 0.0, 1.0),
        (ASKED_FOR, 1.0, 0.0),
        (OFFCORE, 1.0, 0.0),
        (BROUGHT, 1.0, 0.0),
        (INTO_MEMORY, 0.0, 1.0),
        (READ, 0.0, 0.0),
    ];
    let events: Vec<String> = expected.iter().map(|(event, ..)| (*event).to_owned()).collect();
    let observations = observed(&events);
    for (event, owned, out) in expected {
        let candidate = Candidate::event(event, Purpose::Volume(Quantity::L1In));
        let judged = volume::judge(&candidate, &observations, &known());
        assert_eq!(judged.sees.len(), 4, "{event}: {:?}", judged.sees);
        for seen in judged.sees {
            let SeenStores { owned: counted_owned, out: counted_out, .. } = seen;
            // Prefetchers ask for some lines once more; that stores ask is seen all the same.
            if event == OFFCORE && seen.prefetch {
                assert!(counted_owned > 0.9 && counted_out < 0.5 * counted_owned, "{event}: {seen:?}");
                continue;
            }
            assert!((counted_owned - owned).abs() < 0.1, "{event}: {seen:?}");
            assert!((counted_out - out).abs() < 0.1, "{event}: {seen:?}");
        }
    }
}

#[test]
fn what_is_seen_of_local_memory_is_not_seen_of_remote() {
    const LOCAL: &str = "OFFCORE_RESPONSE.DEMAND_RFO.LLC_MISS.LOCAL_DRAM";
    let observations = observed(&[LOCAL.to_owned()]);
    let judged =
        volume::judge(&Candidate::event(LOCAL, Purpose::Volume(Quantity::L1In)), &observations, &known());
    for seen in judged.sees.iter().filter(|seen| !seen.prefetch) {
        let expected = if seen.remote { 0.0 } else { 1.0 };
        assert!((seen.owned - expected).abs() < 0.1, "{seen:?}");
    }
    assert_eq!(judged.sees.iter().filter(|seen| !seen.prefetch).count(), 2);
}
