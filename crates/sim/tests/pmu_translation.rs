//! What counters say of loads whose address is being translated.

mod pmu_support;

use pmu_support::{
    count,
    machine_support::{Rig, Work, huge, small_haswell},
};
use sim::memory::{MemoryOptions, PageSize};

/// Cycles per load of a chase with one load in each page, and those that the two counters of misses lack.
fn chase(options: MemoryOptions) -> [f64; 3] {
    let model = small_haswell();
    let pages = 4 * u64::from(model.tlb.l2.entries);
    let mut rig = Rig::new(&model, options, Work::new("chase-pages", pages * 4096));
    let names =
        ["CPU_CLK_UNHALTED.THREAD", "CYCLE_ACTIVITY.STALLS_L1D_PENDING", "CYCLE_ACTIVITY.STALLS_L2_PENDING"];
    let counts = count(&model, &mut rig, &names);
    let [cycles, first, second] = names.map(|name| counts[name] as f64 / pages as f64);
    [cycles, cycles - first, cycles - second]
}

#[test]
fn a_load_whose_address_is_walked_for_has_not_missed_yet() {
    let small = MemoryOptions { page_size: PageSize::Small, ..huge() };
    let [with, lacks_first, lacks_second] = chase(small);
    let [without, huge_first, huge_second] = chase(huge());
    let translation = with - without;
    assert!(translation > 10.0, "{with} {without}");
    for (lacks, in_huge) in [(lacks_first, huge_first), (lacks_second, huge_second)] {
        assert!((lacks - in_huge - translation).abs() < 1.5, "{lacks} {in_huge} {translation}");
    }
}
