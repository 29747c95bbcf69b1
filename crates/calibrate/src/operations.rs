//! Step: what operations cost in the core. What a loop takes with its data in the first cache follows from it.

use kernels::{Job, Kernel, parse};
use machine::{
    Bytes,
    profile::{CoreOperation, OperationCost},
};

use super::session::Session;
use host::Measured;

/// The kernels, as a user would write them.
const KERNELS: &str = include_str!("operations.toml");

/// Half of every first cache there is.
const SMALL: Bytes = Bytes(8 << 10);

/// One operation: the kernel that tells its latency, and the one that tells how many begin per cycle.
struct Probe {
    operation: CoreOperation,
    chain: Option<&'static str>,
    lanes: &'static str,
}

const PROBES: [Probe; 6] = [
    probe(CoreOperation::FpAdd, Some("operation-add-chain"), "operation-add-lanes"),
    probe(CoreOperation::FpMul, Some("operation-mul-chain"), "operation-mul-lanes"),
    probe(CoreOperation::FpDiv, Some("operation-div-chain"), "operation-div-lanes"),
    probe(CoreOperation::Load, None, "operation-loads"),
    probe(CoreOperation::Store, None, "operation-stores"),
    probe(CoreOperation::Atomic, None, "operation-atomics"),
];

const fn probe(operation: CoreOperation, chain: Option<&'static str>, lanes: &'static str) -> Probe {
    Probe { operation, chain, lanes }
}

/// Latency and rate of each operation, in cycles.
pub(super) fn operations(session: &mut Session<'_>) {
    // Nothing that runs on a simulated machine is judged by clock samples.
    let found = parse::kernels(KERNELS, "operations.toml");
    let Ok(found) = found.map(|found| found.into_iter().map(Kernel::new)) else { return };
    if session.request.simulated.is_some() {
        return;
    }
    let kernels: Vec<Kernel> = found.collect();
    let mut remaining = 2 * PROBES.len() + 1;
    let Some(cycle_ns) = cycle_ns(session, remaining) else { return };
    let mut costs = Vec::new();
    for probe in PROBES {
        let mut measure = |name: &str| {
            let kernel = kernels.iter().find(|kernel| kernel.name() == name)?.clone();
            let job = Job::new(kernel, SMALL, &[session.cpu]).seeded(session.request.seed);
            remaining = remaining.saturating_sub(1);
            session.measure(&job, remaining + 1)
        };
        let latency = probe.chain.and_then(&mut measure).and_then(|found| found.fastest_step_ns());
        let each_ns = measure(probe.lanes).and_then(|found| each_ns(probe.operation, &found));
        let cost = OperationCost {
            operation: probe.operation,
            latency_cycles: latency.map(|ns| ns / cycle_ns),
            per_cycle: each_ns.filter(|ns| *ns > 0.0).map(|ns| cycle_ns / ns),
        };
        if cost.latency_cycles.is_some() || cost.per_cycle.is_some() {
            costs.push(cost);
        }
    }
    session.profile.operations = costs;
}

/// Nanoseconds of a cycle, by a chain of additions that take one each. The fastest pass counts, here and of the operations:
/// others on the machine only ever make it slower.
fn cycle_ns(session: &mut Session<'_>, remaining: usize) -> Option<f64> {
    let cpu = session.cpu;
    let job = session.job("add-chain", SMALL, &[cpu])?;
    session.measure(&job, remaining)?.fastest_step_ns()
}

/// Nanoseconds between two operations that do not wait for each other, in the fastest pass.
fn each_ns(operation: CoreOperation, measured: &Measured) -> Option<f64> {
    let count = match operation {
        CoreOperation::Load | CoreOperation::Store => measured.work.accesses,
        // Each is a load and a store.
        CoreOperation::Atomic => measured.work.accesses / 2.0,
        CoreOperation::FpAdd | CoreOperation::FpMul | CoreOperation::FpDiv => measured.work.flops,
    };
    let fastest = measured.repeated.samples_ns.iter().copied().min_by(f64::total_cmp)?;
    (count > 0.0).then(|| fastest / count)
}
