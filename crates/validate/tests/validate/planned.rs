//! The experiments that shipped kernels are made for.

use machine::{Bytes, Width};
use validate::{
    bench::Machine,
    plan::{Extent, Step, experiments},
};

use crate::known;

fn listed(machine: &Machine, extent: Extent) -> String {
    let mut out = String::new();
    for step in Step::ALL {
        out += &format!("{}\n", step.name());
        for one in experiments(step, machine, extent, &known()) {
            out += &format!("  {}\n", one.key());
        }
    }
    out
}

fn everything() -> Machine {
    Machine {
        l1: Bytes::kib(32),
        l2: Bytes::kib(256),
        l3: Some(Bytes::kib(30 << 10)),
        claimed_last: Bytes::kib(30 << 10),
        cores: 12,
        threads_per_core: 2,
        remote: true,
        prefetch_switch: true,
        widths: vec![Width::Scalar, Width::Sse, Width::Avx2],
    }
}

/// Kernels that exist to break an event: arithmetic on loads in halves and in single precision, loads across lines, a line that two
/// threads write, two threads of one core.
#[test]
fn every_kernel_that_exists_to_break_an_event_is_run() {
    for quick in [true, false] {
        let extent = Extent { quick, runs: 2 };
        let all: Vec<_> = Step::ALL
            .into_iter()
            .flat_map(|step| experiments(step, &everything(), extent, &known()))
            .collect();
        for kernel in ["ddot-halves", "sdot", "split-load", "counter"] {
            assert!(all.iter().any(|one| one.kernel == kernel), "{kernel}, quick: {quick}");
        }
        for width in everything().widths {
            let single = all.iter().any(|one| one.kernel == "sdot" && one.width == Some(width));
            assert!(single, "single precision, {}", width.name());
        }
        let counters: Vec<usize> =
            all.iter().filter(|one| one.kernel == "counter").map(|one| one.cores).collect();
        assert!(counters.contains(&1) && counters.contains(&2), "alone and with another: {counters:?}");
        let split = all.iter().filter(|one| one.kernel == "split-load").count();
        assert_eq!(split, everything().places().len(), "at every level");
        for kernel in ["load", "store"] {
            let two = all.iter().filter(|one| one.siblings && one.kernel == kernel).count();
            assert_eq!(two, everything().places().len(), "{kernel} on two threads of a core");
        }
    }
}

#[test]
fn a_machine_with_everything_is_tried_with_everything() {
    let machine = everything();
    insta::assert_snapshot!(listed(&machine, Extent { quick: false, runs: 2 }));
}

#[test]
fn a_machine_with_little_is_tried_with_little() {
    let machine = Machine {
        l1: Bytes::kib(32),
        l2: Bytes::kib(1024),
        l3: None,
        claimed_last: Bytes::kib(1024),
        cores: 1,
        threads_per_core: 1,
        remote: false,
        prefetch_switch: false,
        widths: vec![Width::Scalar, Width::Sse],
    };
    insta::assert_snapshot!(listed(&machine, Extent { quick: true, runs: 10 }));
}
