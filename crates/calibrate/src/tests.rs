//! Whole calibrations of imagined machines.

use super::{
    curve_models::{Model, Replacement},
    scripted::Scripted,
    *,
};
use host::imagined;
use machine::{
    Bytes,
    profile::{CoreOperation, LevelName, OperationCost},
    topology::{CoreKind, MemoryNode},
};

#[derive(Default)]
struct Seen {
    kept: Vec<Profile>,
    fractions: Vec<f64>,
    refuse: bool,
}

impl Observer for Seen {
    fn progress(&mut self, step: &str, fraction: f64) {
        assert!(!step.is_empty());
        self.fractions.push(fraction);
    }

    fn keep(&mut self, profile: &Profile) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.kept.push(profile.clone());
        if self.refuse { Err("disk full".into()) } else { Ok(()) }
    }
}

fn request(quick: bool) -> CalibrateRequest {
    CalibrateRequest { quick, cpus: None, seed: 1, now: 1_700_000_000, simulated: None }
}

fn run(
    host: &mut Scripted,
    machine: &Topology,
    request: &CalibrateRequest,
    seen: &mut Seen,
) -> Result<Profile, CalibrateError> {
    let fingerprint = Fingerprint::of(machine, "6.1");
    calibrate(host, machine, &fingerprint, request, seen, &AtomicBool::new(false))
}

fn cache(profile: &Profile, number: u32) -> &machine::profile::ProfileLevel {
    profile.levels.iter().find(|level| level.name == LevelName::Cache(number)).expect("a level")
}

#[test]
fn every_part_of_the_profile_is_filled() {
    for quick in [true, false] {
        for replacement in [Replacement::Lru, Replacement::Random] {
            let model = Model::small_share_of_l3().with(replacement);
            let mut host = Scripted::new(model.clone());
            let mut seen = Seen::default();
            let profile =
                run(&mut host, &imagined::machine(2), &request(quick), &mut seen).expect("a profile");
            assert!(profile.extent.complete && profile.extent.quick == quick);
            for (number, truth) in (1..).zip(&model.capacities) {
                let level = cache(&profile, number);
                let usable = level.usable.expect("usable").value;
                assert!((usable / truth - 1.0).abs() < 0.15, "L{number}: {usable} instead of {truth}");
                assert!(level.latency_ns.is_some() && level.one_core.copy.is_some(), "L{number}");
            }
            let memory = &profile.levels[3];
            assert_eq!(memory.name, LevelName::Memory { node: 0, local: true });
            let (one, all) = (memory.one_core.load.expect("one"), memory.all_cores.load.expect("all"));
            assert!((all.value / one.value - 2.0).abs() < 0.2);
            assert!(profile.clock.is_some_and(|clock| clock.agrees()));
            assert_eq!(profile.core_to_core.len(), 1);
            let of =
                |latency_cycles, operation, per_cycle| OperationCost { operation, latency_cycles, per_cycle };
            let told = [of(Some(4.0), CoreOperation::FpAdd, None), of(None, CoreOperation::Load, Some(2.0))];
            assert_eq!(profile.operations, told, "what was not measured is left out");
            assert!(profile.loaded_latency.len() > 4);
            assert_eq!(profile.tlb.as_ref().map(|tlb| tlb.reach_pages.len()), Some(1));
            assert!(profile.remarks.iter().any(|said| said.starts_with("L3 claims 32 MiB, but one core")));
        }
    }
}

#[test]
fn probes_of_one_size_are_kept_to_compare_others_with() {
    let mut host = Scripted::new(Model::three_levels());
    let profile =
        run(&mut host, &imagined::machine(2), &request(true), &mut Seen::default()).expect("a profile");
    let sizes =
        |reading: &machine::probe::ProbeReading| reading.chases.iter().map(|c| c.bytes).collect::<Vec<_>>();
    let first = &profile.probes[0];
    assert_eq!((profile.probes.len(), first.level, sizes(first).len()), (6, Some(3), 3));
    assert!(profile.probes.iter().all(|reading| sizes(reading) == sizes(first)));
    // A profile is kept as JSON, and those made before have none.
    let text = serde_json::to_value(&profile).expect("JSON");
    assert_eq!(serde_json::from_value::<Profile>(text.clone()).expect("a profile"), profile);
    let mut older = text;
    older.as_object_mut().expect("an object").remove("probes");
    for level in older["levels"].as_array_mut().expect("levels") {
        level.as_object_mut().expect("an object").remove("unseen");
    }
    for point in older["loaded_latency"].as_array_mut().expect("points") {
        let point = point.as_object_mut().expect("an object");
        point.remove("rising_ns");
        point.remove("contradicts");
    }
    let older = serde_json::from_value::<Profile>(older).expect("an older profile");
    assert!(older.probes.is_empty() && older.levels.len() == profile.levels.len());
}

#[test]
fn latency_rises_from_level_to_level() {
    let mut host = Scripted::new(Model::three_levels().with(Replacement::Random));
    let profile =
        run(&mut host, &imagined::machine(2), &request(true), &mut Seen::default()).expect("a profile");
    let latencies: Vec<f64> =
        profile.levels.iter().filter_map(|level| level.latency_ns).map(|l| l.value).collect();
    assert_eq!(latencies.len(), 4);
    assert!(latencies.windows(2).all(|pair| pair[0] < pair[1]), "{latencies:?}");
}

#[test]
fn time_stays_within_what_is_promised() {
    for (quick, most_s) in [(true, 11.0), (false, 62.0)] {
        let mut host = Scripted::new(Model::three_levels());
        let profile =
            run(&mut host, &imagined::machine(2), &request(quick), &mut Seen::default()).expect("a profile");
        let seconds = profile.noise.expect("noise").wall_ns / 1e9;
        assert!(seconds < most_s, "{seconds} s");
    }
}

#[test]
fn progress_never_goes_back_and_each_step_is_kept() {
    let mut seen = Seen::default();
    let mut host = Scripted::new(Model::three_levels());
    run(&mut host, &imagined::machine(2), &request(true), &mut seen).expect("a profile");
    assert!(seen.fractions.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", seen.fractions);
    assert_eq!(seen.fractions.last(), Some(&1.0));
    assert_eq!(seen.kept.len(), STEPS.len() + 1);
    assert!(seen.kept[..STEPS.len()].iter().all(|profile| !profile.extent.complete));
}

#[test]
fn an_interrupt_anywhere_leaves_what_was_measured() {
    for jobs in [0, 1, 2, 9, 25, 40, 60] {
        let mut host = Scripted::new(Model::three_levels());
        host.interrupt_after = Some(jobs);
        let mut seen = Seen::default();
        let profile = run(&mut host, &imagined::machine(2), &request(true), &mut seen).expect("a profile");
        assert!(!profile.extent.complete, "after {jobs}");
        assert_eq!(seen.kept.last(), Some(&profile), "after {jobs}");
        assert!(host.jobs.len() <= jobs + 1, "went on after {jobs}");
        assert_eq!(profile.latency_curve.is_empty(), jobs <= 43, "after {jobs}");
    }
}

#[test]
fn a_failing_measurement_is_a_remark() {
    let mut host = Scripted::new(Model::three_levels());
    host.broken = Some("store");
    let profile =
        run(&mut host, &imagined::machine(2), &request(true), &mut Seen::default()).expect("a profile");
    assert!(profile.remarks.contains(&"store could not be measured: it is broken.".to_owned()));
    assert_eq!(cache(&profile, 1).one_core.store, None);
    assert!(cache(&profile, 1).one_core.load.is_some());
}

#[test]
fn nodes_far_away_are_measured_too() {
    let mut machine = imagined::machine(2);
    machine.nodes.push(MemoryNode {
        id: 1,
        cpus: CpuSet::default(),
        memory: Some(Bytes::gib(8)),
        distances: vec![20, 10],
    });
    let mut host = Scripted::new(Model::three_levels());
    let profile = run(&mut host, &machine, &request(true), &mut Seen::default()).expect("a profile");
    let latency = |local| {
        let found = profile
            .levels
            .iter()
            .find(|l| matches!(l.name, LevelName::Memory { local: is, .. } if is == local));
        found.and_then(|level| level.latency_ns).expect("a latency").value
    };
    assert!(latency(false) > 1.9 * latency(true));
}

#[test]
fn one_core_is_enough() {
    let mut host = Scripted::new(Model::two_levels());
    let profile =
        run(&mut host, &imagined::machine(1), &request(true), &mut Seen::default()).expect("a profile");
    assert!(profile.core_to_core.is_empty() && profile.loaded_latency.is_empty());
    assert!(profile.remarks.iter().any(|said| said.contains("no core-to-core latency")));
    assert!(
        profile.remarks.iter().any(|said| said.contains("L3 claims 32 MiB, but the latency curve shows no"))
    );
    // What is not seen is said beside the level, with the reason.
    let l3 = cache(&profile, 3);
    assert!(
        l3.usable.is_none() && l3.unseen.as_ref().is_some_and(|why| why.contains("90.0 ns in place of 5.0"))
    );
    assert!(cache(&profile, 2).unseen.is_none());
}

#[test]
fn what_is_odd_about_the_machine_is_said() {
    let mut machine = imagined::machine(2);
    machine.limits.cpu_quota = Some(1.5);
    machine.cpus[0].kind = CoreKind::Performance;
    machine.cpus[1].kind = CoreKind::Efficient;
    let mut host = Scripted::new(Model::three_levels());
    host.huge_pages = false;
    let profile = run(&mut host, &machine, &request(true), &mut Seen::default()).expect("a profile");
    for part in [
        "1.5 CPUs of time",
        "a performance core",
        "not on huge pages",
        "Huge pages could not",
        "time stamp counter",
    ] {
        assert!(profile.remarks.iter().any(|said| said.contains(part)), "{part}: {:?}", profile.remarks);
    }
    assert_eq!(profile.tlb.map(|tlb| tlb.walk_penalty_ns), Some(None));
}

#[test]
fn private_caches_larger_than_the_shared_one_leave_no_size_for_all() {
    let mut host = Scripted::new(Model::small_share_of_l3());
    let profile =
        run(&mut host, &imagined::machine(8), &request(true), &mut Seen::default()).expect("a profile");
    assert_eq!(cache(&profile, 3).all_cores, Default::default());
    assert!(cache(&profile, 3).one_core.load.is_some());
    assert!(profile.remarks.iter().any(|said| said.starts_with("L3 has no bandwidth for all cores")));
    // Private levels are measured on all cores at once, each with its own share.
    assert!(
        host.jobs
            .iter()
            .any(|job| job.kernel.name() == "load" && job.cpus.len() == 8 && job.size < Bytes::kib(256))
    );
}

#[test]
fn bad_requests_are_refused_before_anything_is_measured() {
    let mut host = Scripted::new(Model::two_levels());
    let elsewhere = CalibrateRequest { cpus: Some("7".parse().expect("CPUs")), ..request(true) };
    let refused = run(&mut host, &imagined::machine(2), &elsewhere, &mut Seen::default());
    assert!(matches!(refused, Err(CalibrateError::Request(BadRequest::NoSuchCpu { cpu: 7, .. }))));
    let mut arm = imagined::machine(2);
    arm.isa.x86_64 = false;
    arm.arch = Some("aarch64".to_owned());
    let refused = run(&mut host, &arm, &request(true), &mut Seen::default());
    assert!(refused.expect_err("Arm").to_string().contains("aarch64"));
    assert!(host.jobs.is_empty());
}

#[test]
fn a_profile_that_cannot_be_kept_ends_it() {
    let mut host = Scripted::new(Model::two_levels());
    let mut seen = Seen { refuse: true, ..Seen::default() };
    let refused = run(&mut host, &imagined::machine(2), &request(true), &mut seen);
    assert!(refused.expect_err("refused").to_string().contains("disk full"));
}

#[test]
fn noise_is_put_into_words() {
    let mut host = Scripted::new(Model::two_levels());
    let machine = imagined::machine(2);
    let mut profile = run(&mut host, &machine, &request(true), &mut Seen::default()).expect("a profile");
    assert_eq!(remarks::closing(&machine, &profile), Vec::<String>::new());
    profile.noise =
        Some(Noise { wall_ns: 1e10, steal_ns: Some(2e9), involuntary_switches: Some(3), spread: Some(0.2) });
    let said = remarks::closing(&machine, &profile);
    assert!(said[0].contains("10 % of the CPU time") && said[1].contains("20 % of their median"), "{said:?}");
}

/// The imagined L3 claims 32 MiB for both cores; of a guest each may have that for itself.
#[test]
fn all_cores_stream_over_more_than_their_caches_can_keep() {
    let largest = |hypervisor: Option<&str>| {
        let mut machine = imagined::machine(2);
        machine.hypervisor = hypervisor.map(str::to_owned);
        let mut host = Scripted::new(Model::small_share_of_l3());
        run(&mut host, &machine, &request(true), &mut Seen::default()).expect("a profile");
        let of_all = host.jobs.iter().filter(|job| job.kernel.name() == "load" && job.cpus.len() == 2);
        of_all.map(|job| job.size.0 >> 20).max()
    };
    assert_eq!((largest(None), largest(Some("KVM"))), (Some(192), Some(384)));
}
