//! Kernels on whole simulated machines, counted by their PMU.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../machine_support/mod.rs"]
pub mod machine_support;

use std::collections::BTreeMap;

use events::{Count, CountRequest, CountShare, CountedPlace, Instrument, Scope, TooMany, Value};
use machine::{CpuSet, model::Model};
use machine_support::{Rig, Work};
use sim::{
    memory::{MemoryOptions, PageSize, PrefetchSwitches},
    pmu::{Flaws, SimulatedPmu},
};

/// Huge pages and no prefetcher: what moves follows from the kernel alone.
pub fn plain() -> MemoryOptions {
    MemoryOptions {
        page_size: PageSize::Huge,
        prefetchers: PrefetchSwitches::OFF,
        ..MemoryOptions::default()
    }
}

/// All CPUs.
pub fn everywhere(model: &Model) -> Scope {
    Scope::Cpus((0..model.cores() * model.threads_per_core).collect::<CpuSet>())
}

/// The flawless PMU of a model.
pub fn pmu(model: &Model) -> SimulatedPmu {
    SimulatedPmu::new(model, Flaws::Off).expect("events")
}

/// Warms a rig up and counts what comes then, all at once; sums by name.
pub fn count(model: &Model, rig: &mut Rig, names: &[&str]) -> BTreeMap<String, u64> {
    let counts = count_as(model, rig, names, TooMany::AllAtOnce, CountShare::Together);
    let value = |count: &Count| match &count.value {
        Value::Counted { raw, .. } => *raw,
        Value::Missing(missing) => panic!("{}: {missing:?}", names[count.event]),
    };
    counts.iter().map(|count| (names[count.event].to_owned(), value(count))).collect()
}

/// The same, as told.
pub fn count_as(
    model: &Model,
    rig: &mut Rig,
    names: &[&str],
    too_many: TooMany,
    share: CountShare,
) -> Vec<Count> {
    let pmu = pmu(model);
    let events =
        names.iter().map(|name| pmu.resolve(name).unwrap_or_else(|error| panic!("{error}"))).collect();
    rig.engine.attach(pmu.bank());
    let Work { warm, passes, .. } = rig.work;
    let request = CountRequest { events, scope: everywhere(model), too_many, share };
    let mut open = pmu.open(&request).unwrap_or_else(|error| panic!("{error}"));
    if warm > 0 {
        rig.run(warm);
    }
    open.start().expect("a start");
    rig.run(passes);
    open.stop().expect("a stop");
    if rig.work.bytes_per_thread <= 1 << 16 {
        // What runs now is no longer counted.
        rig.run(1);
    }
    open.read().expect("counts")
}

/// The sum over all boxes or CPUs.
pub fn total(counts: &[Count]) -> u64 {
    counts.iter().filter_map(|count| count.value.exact()).sum()
}

/// Places of counts.
pub fn places(counts: &[Count]) -> Vec<&CountedPlace> {
    counts.iter().map(|count| &count.place).collect()
}
