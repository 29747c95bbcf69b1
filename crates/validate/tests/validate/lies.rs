//! Lies planted in the counters of the simulated PMU.

use std::sync::atomic::AtomicBool;

use machine::model::Model;
use record::validate::Observation;
use sim::pmu::{Flaws, Lie, SimulatedPmu};
use trust::{Flaw, Purpose, Quantity, Trust};
use validate::{bench::Bench, claims::Candidate, judge::volume, simulated::SimulatedBench};

use crate::{known, noisy, plan};

/// An event, what it is claimed to count, and the lie in it.
struct Planted {
    event: &'static str,
    claims: Quantity,
    lie: Lie,
    /// Whether this is what the lie is.
    named: fn(&Flaw) -> bool,
}

const LOADS: &str = "MEM_UOPS_RETIRED.ALL_LOADS";
const STORES: &str = "MEM_UOPS_RETIRED.ALL_STORES";
const L1_IN: &str = "L1D.REPLACEMENT";
const L1_OUT: &str = "L2_TRANS.L1D_WB";
const L2_IN: &str = "L2_LINES_IN.ALL";
const L2_OUT: &str = "L2_TRANS.L2_WB";
const L2_HIT: &str = "MEM_LOAD_UOPS_RETIRED.L2_HIT";
const MEMORY_IN: &str = "UNC_M_CAS_COUNT.RD";
const MEMORY_OUT: &str = "UNC_M_CAS_COUNT.WR";

fn like(event: &str) -> Lie {
    Lie::Like(event.to_owned())
}

fn planted(event: &'static str, claims: Quantity, lie: Lie, named: fn(&Flaw) -> bool) -> Planted {
    Planted { event, claims, lie, named }
}

fn overcounts(flaw: &Flaw) -> bool {
    matches!(flaw, Flaw::Factor { ratio } if (ratio - 1.1).abs() < 0.03)
}

fn undercounts_with_two(flaw: &Flaw) -> bool {
    matches!(flaw, Flaw::SeveralCores { ratio, cores: 2 } if (ratio - 0.6).abs() < 0.05)
}

fn wrong_on_all(flaw: &Flaw) -> bool {
    matches!(flaw, Flaw::SeveralCores { .. })
}

fn drops_prefetches(flaw: &Flaw) -> bool {
    matches!(flaw, Flaw::Prefetch { on, off } if *on < 0.9 && (off - 1.0).abs() < 0.05)
}

fn counts(words: &str) -> impl Fn(&Flaw) -> bool {
    move |flaw| matches!(flaw, Flaw::Swapped { counts } if counts.contains(words))
}

/// All lies, as many at once as there are events to tell them.
fn sets() -> [Vec<Planted>; 2] {
    let any = 1;
    [
        vec![
            planted(L1_IN, Quantity::L1In, Lie::Percent { told: 110, threads: any }, overcounts),
            planted(STORES, Quantity::Stores, Lie::Percent { told: 60, threads: 2 }, undercounts_with_two),
            planted(L2_HIT, Quantity::L2Served, like(L1_IN), |flaw| matches!(flaw, Flaw::Deeper { .. })),
            planted(L2_IN, Quantity::L2In, like("L2_RQSTS.ALL_DEMAND_MISS"), drops_prefetches),
            planted(L1_OUT, Quantity::L1Out, Lie::Constant(12_345), |flaw| *flaw == Flaw::Constant),
            planted(MEMORY_IN, Quantity::L3In, like(MEMORY_OUT), |flaw| counts("lines into memory")(flaw)),
            planted(LOADS, Quantity::Loads, Lie::FirstOnly, wrong_on_all),
            planted(L2_OUT, Quantity::L2Out, Lie::Constant(0), |flaw| *flaw == Flaw::Silent),
        ],
        vec![
            planted(MEMORY_OUT, Quantity::MemoryOut, Lie::Percent { told: 110, threads: any }, overcounts),
            planted(L2_IN, Quantity::L2In, Lie::Percent { told: 60, threads: 2 }, undercounts_with_two),
            planted(MEMORY_IN, Quantity::L3In, Lie::Constant(12_345), |flaw| *flaw == Flaw::Constant),
            planted(LOADS, Quantity::Loads, like(STORES), |flaw| counts("stores")(flaw)),
            planted(L1_IN, Quantity::L1In, Lie::FirstOnly, wrong_on_all),
        ],
    ]
}

fn observe(bench: &mut dyn Bench, events: &[String]) -> Vec<Observation> {
    let experiments = plan(bench.machine(), &["load", "store", "copy", "store-nt"]);
    let one = |experiment| bench.observe(experiment, events, &AtomicBool::new(false)).unwrap();
    experiments.iter().map(one).collect()
}

fn verdict(observations: &[Observation], planted: &Planted) -> Trust {
    let purpose = Purpose::Volume(planted.claims);
    volume::judge(&Candidate::event(planted.event, purpose), observations, &known()).trust
}

#[test]
fn planted_lies_are_caught_and_named_for_what_they_are() {
    let model = Model::builtin("tiny").unwrap();
    for (lies, seed) in sets().iter().zip([3, 17]) {
        let mut pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
        for one in lies {
            pmu.plant(one.event, one.lie.clone()).unwrap();
        }
        let kernels = kernels::KernelCatalogue::builtin().unwrap();
        let events: Vec<String> = lies.iter().map(|one| one.event.to_owned()).collect();
        let lying = observe(&mut SimulatedBench::new(&model, pmu, kernels, seed, noisy()), &events);
        for one in lies {
            match verdict(&lying, one) {
                Trust::Broken { flaw, why, shown_by } => {
                    assert!((one.named)(&flaw), "{} with {:?}: {flaw:?}", one.event, one.lie);
                    assert!(!why.is_empty() && !shown_by.is_empty(), "{}", one.event);
                }
                other => panic!("{} with {:?} is not caught: {other:?}", one.event, one.lie),
            }
        }
    }
}

#[test]
fn the_same_events_without_lies_are_trusted_under_the_same_noise() {
    let model = Model::builtin("tiny").unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
    let kernels = kernels::KernelCatalogue::builtin().unwrap();
    let events: Vec<String> = sets().iter().flatten().map(|one| one.event.to_owned()).collect();
    let honest = observe(&mut SimulatedBench::new(&model, pmu, kernels, 3, noisy()), &events);
    // What the L2 serves is no claim of retired loads: their honest count is another thing.
    for one in sets().iter().flatten().filter(|one| one.event != L2_HIT) {
        let trust = verdict(&honest, one);
        assert!(matches!(trust, Trust::Trusted { .. }), "{}: {trust:?}", one.event);
    }
}
