//! What validation finds: planted lies are caught and named, an honest machine is accused of nothing, both under seeded
//! noise; and the model of the papers' machine shows what the papers found.
#![allow(clippy::unwrap_used)]

mod drawn;
mod haswell;
mod latency;
mod lies;
mod noise;
mod pairs;
mod papers;
mod planned;
mod quoted;
mod session;

use host::simulated::{Conditions, Interruptions};
use record::validate::Experiment;
use sim::memory::Disturbance;
use trust::KernelPlace;
use validate::{bench::Machine, roles::JudgingKernels, simulated::experiment};

/// The kernels that judge.
fn known() -> JudgingKernels {
    JudgingKernels::of(&kernels::KernelCatalogue::builtin().unwrap()).unwrap()
}

/// Counted per thread: enough that edges do not matter.
const INSTRUCTIONS: u64 = 20_000;

/// Traffic of others and interrupts, both seeded.
fn noisy() -> Conditions {
    Conditions {
        disturbance: Some(Disturbance { memory_lines_per_s: 1e6, l3_lines_per_s: 2e5 }),
        interrupts: Some(Interruptions { every_ns: 50_000.0, lasts_ns: 1_000.0 }),
        instructions: Some(INSTRUCTIONS),
        ..Conditions::default()
    }
}

/// Lines that move at every level, on one core and on all, with prefetchers and without.
fn plan(machine: &Machine, kernels: &[&str]) -> Vec<Experiment> {
    let mut all = vec![experiment(machine, "add-chain", KernelPlace::Registers, 1).unwrap()];
    for cores in [1, machine.cores] {
        for kernel in kernels {
            for place in machine.places() {
                let one = experiment(machine, kernel, place, cores).unwrap();
                all.push(Experiment { prefetch: false, ..one.clone() });
                all.push(one);
            }
        }
    }
    all
}
