//! Chases and chains: what waits for what.

mod core_support;

use core_support::{cycles, data_at, haswell, kernel, l1_only, per_pass, team};
use machine::Width;
use sim::access::Supplier;

/// Cycles per load, and of these without execution, of a chase through the L3.
fn chase(name: &str, muls: u64) -> (f64, f64) {
    let model = haswell();
    let parameters = [("muls", muls)];
    let kernel = kernel(name, if name == "chase" { &[] } else { &parameters });
    let team = team(&kernel, Width::Scalar, 1 << 20, 1);
    let memory = data_at(&model, &team, Supplier::L3, cycles(&model, 53), 10);
    let pass = per_pass(&model, &team, memory, 1);
    let loads = (1 << 20) as f64 / 64.0;
    (pass.cycles / loads, pass.without_execution / loads)
}

#[test]
fn independent_work_hides_under_a_chase_dependent_work_does_not() {
    // molka2017 §4.3: 53 cycles per load with and without 24 independent multiplications, and 24 cycles without
    // execution less: 29 of 53, where the counter leaves out the cycle in which the load itself starts.
    let (plain, idle_plain) = chase("chase", 0);
    assert!((plain - 53.0).abs() < 0.05, "{plain}");
    assert!((51.0..=52.5).contains(&idle_plain), "{idle_plain}");
    let (independent, idle) = chase("chase-independent", 24);
    assert!((independent - 53.0).abs() < 0.05, "{independent}");
    assert!((idle - 29.0).abs() < 1.1, "{idle}");
    assert!((idle_plain - idle - 24.0).abs() < 0.5, "{idle_plain} {idle}");
    let (dependent, _) = chase("chase-dependent", 24);
    assert!((dependent - 53.0 - 72.0).abs() < 0.05, "{dependent}");
}

#[test]
fn chains_take_their_latency() {
    let model = haswell();
    for (name, per_op) in [("add-chain", 1.0), ("mul-chain", 3.0)] {
        let team = team(&kernel(name, &[]), Width::Scalar, 0, 1);
        let pass = per_pass(&model, &team, l1_only(&model), 2);
        let ops = 128.0 * 1024.0;
        assert!((pass.cycles / ops - per_op).abs() < 0.01, "{name}: {}", pass.cycles / ops);
    }
    // Divisions that wait for each other take their latency, whatever the repeat time.
    let team = team(&kernel("div-chain", &[]), Width::Scalar, 0, 1);
    let pass = per_pass(&model, &team, l1_only(&model), 2);
    let per_division = pass.cycles / (16.0 * 1024.0);
    assert!((per_division - 20.0).abs() < 0.05, "{per_division}");
}
