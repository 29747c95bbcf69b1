//! Every slot is counted once: it retires, or is thrown away, or passes while the core finds back from a wrong path, or the front end
//! leaves it empty, or the back end has no room.

mod pmu_support;

use events::Instrument as _;
use machine::model::Model;
use pmu_support::{
    count,
    machine_support::{Rig, Work, model},
    plain, pmu,
};

/// Retired, thrown away, lost on the way back, not delivered: in percent of all slots. None if the model lacks an event.
fn slots(model: &Model, work: Work) -> Option<[f64; 4]> {
    let names = [
        "CPU_CLK_UNHALTED.THREAD",
        "UOPS_RETIRED.RETIRE_SLOTS",
        "UOPS_ISSUED.ANY",
        "INT_MISC.RECOVERY_CYCLES",
        "IDQ_UOPS_NOT_DELIVERED.CORE",
    ];
    let pmu = pmu(model);
    if names.iter().any(|name| pmu.resolve(name).is_err()) {
        return None;
    }
    let counts = count(model, &mut Rig::new(model, plain(), work), &names);
    let [cycles, retired, issued, recovery, undelivered] = names.map(|name| counts[name] as f64);
    let width = f64::from(model.core.dispatch_width);
    let parts = [retired, issued - retired, recovery * width, undelivered];
    Some(parts.map(|part| 100.0 * part / (cycles * width)))
}

#[test]
fn slots_of_no_kernel_are_counted_twice() {
    let mut tried = Vec::new();
    for name in Model::builtin_names() {
        let model = model(name);
        // By what holds it back: whether anything but the back end does, and how much of all slots its parts then are.
        for (kernel, bytes, least, most) in [
            ("branch-miss", 0, 90.0, 100.2),
            ("branch-on-data", 32 << 10, 60.0, 100.2),
            ("long-code", 16 << 10, 85.0, 100.2),
            ("add-chain", 0, 0.0, 60.0),
            ("div-chain", 0, 0.0, 20.0),
            ("load", 16 << 10, 0.0, 100.2),
            ("triad", 4 << 20, 0.0, 100.2),
            ("chase", 4 << 20, 0.0, 20.0),
        ] {
            let work = Work { passes: 4, ..Work::new(kernel, bytes) };
            let Some(parts) = slots(&model, work) else { continue };
            let sum: f64 = parts.iter().sum();
            println!("{name}, {kernel}: {parts:.1?}, {sum:.1} % of slots");
            assert!((least..most).contains(&sum), "{name}, {kernel}: {parts:.1?} are {sum:.1} % of slots");
            tried.push(name);
        }
    }
    tried.dedup();
    assert!(tried.len() >= 4, "{tried:?}");
}
