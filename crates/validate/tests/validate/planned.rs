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

#[test]
fn a_machine_with_everything_is_tried_with_everything() {
    let machine = Machine {
        l1: Bytes::kib(32),
        l2: Bytes::kib(256),
        l3: Some(Bytes::kib(30 << 10)),
        claimed_last: Bytes::kib(30 << 10),
        cores: 12,
        threads_per_core: 2,
        remote: true,
        prefetch_switch: true,
        widths: vec![Width::Scalar, Width::Sse, Width::Avx2],
    };
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
