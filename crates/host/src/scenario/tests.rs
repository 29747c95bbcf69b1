//! Placement on imagined machines; every shipped scenario, at a 64th of its size, on this one.

use kernels::{KernelCatalogue, scenario::shipped};
use machine::{Source, topology::MemoryNode};

use super::*;
use crate::{imagined::machine, native::Native};

fn scenario(name: &str, settings: &[(&str, &str)]) -> Scenario {
    let catalogue = KernelCatalogue::builtin().expect("built-in kernels are valid");
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    shipped::find(name).expect("shipped").parse(&catalogue, &settings).expect("valid")
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// Two nodes of four CPUs.
fn two_nodes() -> Topology {
    let mut machine = machine(8);
    machine.nodes = (0..2)
        .map(|id| MemoryNode {
            id,
            cpus: (4 * id..4 * id + 4).collect(),
            memory: Some(Bytes::gib(4)),
            distances: vec![10, 21],
        })
        .collect();
    for cpu in &mut machine.cpus {
        cpu.node = Some(cpu.id / 4);
    }
    machine
}

#[test]
fn threads_get_cores_first_and_what_is_named() {
    let (two, any) = (scenario("imbalance", &[]), scenario("bandwidth-compute", &[]));
    let mut machine = machine(4);
    // CPUs 0 and 1 are one core.
    for cpu in 0..2 {
        machine.cpus[cpu].siblings = set("0-1");
    }
    let choose = |scenario, named: Option<&str>, over| {
        choose_cpus(scenario, &machine, named.map(set).as_ref(), over).map_err(|error| error.to_string())
    };
    assert_eq!(choose(&two, None, false), Ok(vec![0, 2]));
    assert_eq!(choose(&any, None, false), Ok(vec![0, 2, 3]));
    assert_eq!(choose(&any, Some("0-3"), false), Ok(vec![0, 1, 2, 3]));
    assert_eq!(choose(&two, Some("1,3"), false), Ok(vec![1, 3]));
    assert_eq!(choose(&two, Some("3"), true), Ok(vec![3, 3]));
    let few = choose(&two, Some("3"), false).expect_err("too few");
    assert!(few.contains("needs 2 threads and there are 1 CPUs for them (3)"), "{few}");
    assert!(choose(&two, Some("0-2"), false).is_err_and(|text| text.contains("3 CPUs were named")));
    assert!(choose(&two, Some("0,9"), false).is_err_and(|text| text.contains("no CPU 9")));
}

#[test]
fn remote_memory_is_on_the_other_node() {
    let scenario = scenario("remote-placement", &[]);
    let machine = Topology { isa: machine::Isa::native(), ..two_nodes() };
    for (cpu, far) in [(1, 1), (5, 0)] {
        let plan = Plan::new(&scenario, 1, &machine.isa, 64).expect("a plan");
        assert_eq!(placement::nodes(&plan, &[cpu], &machine).expect("nodes"), [None, Some(far)]);
    }
    let single = ScenarioJob { scenario: &scenario, cpus: &[0], scale: 64 };
    let error = plan(&single, &crate::imagined::machine(2)).expect_err("one node");
    assert!(matches!(error, RunError::NoRemoteNode { .. }) && error.is_bad_request(), "{error}");
}

#[test]
fn data_that_does_not_fit_is_refused_before_it_is_allocated() {
    let scenario = scenario("working-set", &[("w", "10G")]);
    let request = ScenarioJob { scenario: &scenario, cpus: &[0], scale: 1 };
    let error = plan(&request, &machine(1)).expect_err("6 GiB are free");
    assert!(matches!(error, RunError::Request(BadRequest::TooLarge { .. })), "{error}");
}

/// As many CPUs as there are threads, or the same again.
fn run_here(scenario: &Scenario, interrupt: &AtomicBool) -> ScenarioRun {
    let source = Source::live();
    let topology = Topology::read(&source);
    let cpus = choose_cpus(scenario, &topology, None, true).expect("CPUs");
    let request = ScenarioJob { scenario, cpus: &cpus, scale: 64 };
    let mut host = Native::new(&source, 1).expect("a host");
    run(&request, &mut host, interrupt).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

#[test]
fn shipped_scenarios_run_here() {
    for shipped in shipped::ALL {
        let settings: &[_] = match shipped.name {
            "remote-placement" | "pattern-numa" => &[("far", "local"), ("rounds", "2")],
            _ => &[("rounds", "2")],
        };
        let scenario = scenario(shipped.name, settings);
        let run = run_here(&scenario, &AtomicBool::new(false));
        assert_eq!((run.schema.as_str(), run.interrupted), (SCHEMA, false));
        for region in &run.regions {
            assert_eq!(region.entries() as u64, region.planned_entries, "{} {}", run.scenario, region.path);
            assert!(region.wall_ns() <= run.wall_ns * 1.001, "{} {}", run.scenario, region.path);
            for thread in &region.threads {
                let ordered = thread.entries.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns);
                assert!(ordered && thread.entries.iter().all(|entry| entry.start_ns <= entry.end_ns));
            }
        }
        let work: f64 = run.regions.iter().flat_map(|r| &r.threads).map(|t| t.truth.work.instructions).sum();
        assert!(work > 0.0, "{}", run.scenario);
        let json = serde_json::to_string(&run).expect("JSON");
        let back: ScenarioRun = serde_json::from_str(&json).expect("the same again");
        let entries = |run: &ScenarioRun| {
            let regions = run.regions.iter().map(|region| (region.path.clone(), region.walls_ns()));
            regions.collect::<Vec<_>>()
        };
        assert_eq!(entries(&back), entries(&run));
    }
}

#[test]
fn a_rate_is_looked_for_and_recorded() {
    let run =
        run_here(&scenario("stream-rate", &[("b", "50MB/s"), ("rounds", "1")]), &AtomicBool::new(false));
    let [pace] = run.paces.as_slice() else { panic!("one pace: {:?}", run.paces) };
    assert_eq!((pace.region.as_str(), pace.asked_bytes_per_s), ("work", 5e7));
    // So slow a stream needs nops on any machine.
    assert!(pace.nops > 0 && pace.alone_bytes_per_s > 0.0, "{pace:?}");
}

#[test]
fn an_interrupt_keeps_what_was_finished() {
    let run = run_here(&scenario("imbalance", &[]), &AtomicBool::new(true));
    assert!(run.interrupted);
    assert!(run.regions.iter().all(|region| region.entries() == 0 && region.spread.is_none()));
    assert_eq!(run.regions[0].threads.len(), 2);
}
