//! The machine of molka2017 and roehl2016, with a quarter of its caches: what the papers found is found.

use std::sync::atomic::AtomicBool;

use host::simulated::Conditions;
use machine::{Bytes, model::Model, profile::Fingerprint};
use record::validate::{Experiment, Observation};
use sim::pmu::{Flaws, SimulatedPmu};
use trust::{KernelPlace, Purpose, Quantity, Trust, Validation};
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

pub fn model() -> Model {
    let mut model = Model::builtin("haswell-ep-e5-2680v3").unwrap().scaled(4).unwrap();
    model.cores_per_socket = CORES;
    model
}

pub fn bench(model: &Model, flaws: Flaws) -> SimulatedBench<'_> {
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
    shares_are_those_of_time(&validation);
    errors_are_those_shown(&validation);
    overlap_is_told_level_by_level(&validation);
}

/// molka2017 §3.1, step 4: what an indicator of a level counts of deeper ones, and the one that is left when it is taken off.
fn overlap_is_told_level_by_level(validation: &Validation) {
    let row = |level: KernelPlace| {
        let fits = |one: &&trust::Best| {
            (one.level, one.remote, one.cores, one.direction.as_str()) == (level, false, 1, "read")
        };
        validation.best.iter().find(fits).unwrap()
    };
    for (level, deeper) in [
        (KernelPlace::L2, &[KernelPlace::L3, KernelPlace::Memory][..]),
        (KernelPlace::L3, &[KernelPlace::Memory][..]),
    ] {
        let best = row(level);
        for other in deeper {
            let found = best.overlap.iter().find(|one| (one.level, one.remote) == (*other, false));
            let found = found.unwrap_or_else(|| panic!("{level:?}: {:?}", best.overlap));
            assert!((found.per_line - 1.0).abs() < 0.1, "{level:?} of {other:?}: {found:?}");
        }
        let nearer = |one: &&trust::LevelOverlap| level == KernelPlace::L3 && one.level == KernelPlace::L2;
        assert_eq!(best.overlap.iter().find(nearer), None);
        let alone = best.alone.as_ref().unwrap_or_else(|| panic!("{level:?} alone"));
        assert!(matches!(alone.trust, Trust::Trusted { .. }), "{alone:?}");
        let judged = validation.of(&alone.indicator).next().unwrap();
        let served = matches!(judged.tried_for, Purpose::Volume(Quantity::L2Served | Quantity::L3Served));
        assert!(served, "{judged:?}");
    }
}

/// molka2017 §4.3, Fig. 10: where cycles go, for the kernels of the paper.
fn shares_are_those_of_time(validation: &Validation) {
    const CLOSE: f64 = 0.10;
    for metric in ["productive", "other stalls", "latency bound", "bandwidth bound"] {
        let judged = validation.of(&format!("STALLS: {metric}")).next().unwrap();
        assert!(!matches!(judged.trust, Trust::Broken { .. } | Trust::Untested { .. }), "{judged:?}");
        let levels = ["L2", "L3", "memory"];
        let kernels = ["chase", "chase-dependent", "load", "store"];
        let everywhere = kernels.iter().flat_map(|kernel| levels.map(|level| format!("{kernel} in {level}")));
        for name in everywhere.chain(["div-chain".to_owned()]) {
            let line = judged.evidence.iter().find(|line| line.experiment == name);
            let line = line.unwrap_or_else(|| panic!("{metric} of {name}"));
            assert!(line.error.unwrap().abs() <= CLOSE, "{metric}: {line:?}");
        }
    }
    let stalled = || validation.of("CYCLE_ACTIVITY.CYCLES_NO_EXECUTE");
    let trust = |purpose: Purpose| stalled().find(|one| one.tried_for == purpose).unwrap().trust.word();
    assert_eq!((trust(Purpose::NoExecution), trust(Purpose::Stall)), ("trusted", "broken"));
}

/// What is printed as the error of a trusted indicator is the largest that its evidence shows.
fn errors_are_those_shown(validation: &Validation) {
    for one in &validation.indicators {
        let Trust::Trusted { error } = one.trust else { continue };
        let shown = one.evidence.iter().filter_map(|line| line.error).map(f64::abs).fold(0.0, f64::max);
        // A volume is quoted with what an experiment that was not made may be off; nothing is quoted with less than was seen.
        let most = if matches!(one.tried_for, Purpose::Volume(_)) { (2.0 * shown).max(0.02) } else { shown };
        assert!((most - error).abs() < 1e-9, "{}: {shown} beside {error}", one.name);
        for line in
            one.evidence.iter().filter(|line| line.note.starts_with("1.") || line.note.starts_with("0.9"))
        {
            let (truth, counted) = (line.truth.unwrap(), line.counted.unwrap());
            assert!((counted / truth - 1.0).abs() <= error + 1e-9, "{}: {line:?}", one.name);
        }
        let errors = one.errors.as_ref().unwrap_or_else(|| panic!("{}", one.name));
        assert!(
            (errors.worst.abs() - shown).abs() < 1e-9 && errors.kernels > Some(0),
            "{}: {errors:?}",
            one.name
        );
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

/// The off-core answer sees the prefetches that take lines from retired loads, and the erratum that the paper cites for the unit does not
/// mention its filters of shared lines (roehl2016 §2.1): nothing is taken from it, whatever the prefetchers and the threads per core.
#[test]
fn off_core_answers_of_modified_lines_are_trusted_where_retired_loads_lose_them() {
    const RETIRED: &str = "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM";
    const OFFCORE: &str = "OFFCORE_RESPONSE.ALL_READS.LLC_HIT.HITM_OTHER_CORE";
    let model = Model { threads_per_core: 2, ..model() };
    let mut bench = bench(&model, Flaws::On);
    let one = experiment(bench.machine(), "producer-consumer", KernelPlace::L1, 2).unwrap();
    let events = [RETIRED, OFFCORE].map(str::to_owned);
    let made = [true, false].map(|prefetch| {
        let experiment = Experiment { prefetch, ..one.clone() };
        bench.observe(&experiment, &events, &AtomicBool::new(false)).unwrap()
    });
    let purpose = Purpose::Volume(Quantity::HandedOver);
    let trust = |event: &str| volume::judge(&Candidate::event(event, purpose.clone()), &made, &known()).trust;
    assert!(matches!(trust(OFFCORE), Trust::Trusted { error } if error <= 0.02), "{:?}", trust(OFFCORE));
    assert!(matches!(trust(RETIRED), Trust::Qualitative { .. }), "{:?}", trust(RETIRED));
}
