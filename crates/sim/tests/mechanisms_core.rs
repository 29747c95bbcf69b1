//! What a core does while it waits, on the whole machine of molka2017.

mod machine_support;

use machine::Bytes;
use machine_support::{HASWELL, Rig, Work, cycles_per_load, gb_per_s, huge, model, small_haswell};
use sim::memory::{MemoryOptions, PrefetchSwitches};

const MIB: u64 = 1 << 20;

#[test]
fn multiplications_hide_behind_a_chase_unless_they_are_part_of_it() {
    // Of a chase in the L3, little stays in private caches of this size.
    let mut model = model(HASWELL);
    model.l1d.geometry.size = Bytes::kib(16);
    model.l2.geometry.size = Bytes::kib(32);
    let chase = |kernel, muls: Option<u64>| {
        let parameter = muls.map(|muls| ("muls", muls));
        cycles_per_load(&model, huge(), Work { parameter, ..Work::new(kernel, 4 * MIB) })
    };
    let alone = chase("chase", None);
    assert!((alone - 53.0).abs() < 0.6, "molka2017 §4.3 has 53 cycles per load, found {alone}");
    let independent = chase("chase-independent", Some(24));
    assert!((independent - alone).abs() < 0.5, "{independent} with independent ones, {alone} without");
    let dependent = chase("chase-dependent", Some(24));
    assert!((dependent - alone - 72.0).abs() < 0.5, "{dependent}: 24 of 3 cycles beyond {alone}");
}

#[test]
fn mispredictions_cost_their_penalty_and_waste_dispatched_work() {
    let model = model(HASWELL);
    let run = |penalty: u32| {
        let mut model = model.clone();
        model.front_end.branch.mispredict_penalty = penalty;
        let mut rig = Rig::new(&model, huge(), Work::new("branch-miss", 0));
        rig.run(2);
        rig.run(8).jobs[0].statistics
    };
    let (short, long) = (run(10), run(20));
    assert_eq!(short.branches_mispredicted, long.branches_mispredicted);
    assert!(short.branches_mispredicted > 1000);
    let per_miss = (long.cycles as f64 - short.cycles as f64) / short.branches_mispredicted as f64;
    assert!((per_miss - 10.0).abs() < 0.2, "{per_miss} cycles per misprediction for ten more of penalty");
    // What is dispatched before the branch resolves does not depend on what comes after.
    let ratio = long.slots_wrong_path as f64 / short.slots_wrong_path as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    assert!(short.slots_wrong_path >= short.branches_mispredicted);
    assert_eq!(short.slots_retired, short.slots_dispatched, "the wrong path never retires");
}

#[test]
fn halving_the_clock_halves_computing_and_spares_memory() {
    let model = small_haswell();
    let options = MemoryOptions { prefetchers: PrefetchSwitches::OFF, ..huge() };
    let slowdown = |work: Work| {
        let ns = [model.clock.core_hz, model.clock.core_hz / 2].map(|hz| {
            let mut rig = Rig::new(&model, options, work);
            rig.engine.set_core_clock(0, hz).expect("a core");
            rig.measure().elapsed().ns()
        });
        ns[1] / ns[0]
    };
    let compute = slowdown(Work { passes: 50, ..Work::new("fma-lanes", 0) });
    assert!((compute - 2.0).abs() < 0.02, "{compute}");
    let in_l1 = slowdown(Work { passes: 20, ..Work::new("load", 16 << 10) });
    assert!((in_l1 - 2.0).abs() < 0.02, "{in_l1}");
    let memory = slowdown(Work { warm: 0, ..Work::new("chase", 8 * MIB) });
    assert!(memory < 1.1, "a chase in memory: {memory}");
    let stream = slowdown(Work { warm: 0, ..Work::new("load", 2 * MIB) });
    assert!(stream < 1.2, "a stream from memory: {stream}");
}

#[test]
fn the_clock_can_change_between_runs() {
    let model = small_haswell();
    let work = Work { passes: 20, ..Work::new("load", 128 << 10) };
    let mut rig = Rig::new(&model, huge(), work);
    let fast = rig.measure().elapsed().ns();
    rig.engine.set_core_clock(0, model.clock.core_hz / 2).expect("a core");
    let slow = rig.run(work.passes).elapsed().ns();
    rig.engine.set_core_clock(0, model.clock.core_hz).expect("a core");
    let again = rig.run(work.passes).elapsed().ns();
    assert!((slow / fast - 2.0).abs() < 0.04, "the L2 runs at the core's clock: {}", slow / fast);
    assert!((again / fast - 1.0).abs() < 0.01, "{again} {fast}");
    assert!(gb_per_s(&model, huge(), work) > 0.0);
}
