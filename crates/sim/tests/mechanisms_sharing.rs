//! Lines that go from core to core.

mod machine_support;

use machine_support::{HASWELL, Rig, Work, huge, model};

#[test]
fn producer_and_consumer_move_each_modified_line_once_per_step() {
    for name in [HASWELL, "tiny"] {
        let model = model(name);
        for lines in [4, 16] {
            const STEPS: u64 = 10;
            // The size is that of both threads together; one owns the lines.
            let bytes_per_thread = lines * 64 * STEPS / 2;
            let work = Work {
                parameter: Some(("lines", lines)),
                threads: 2,
                ..Work::new("producer-consumer", bytes_per_thread)
            };
            let mut rig = Rig::new(&model, huge(), work);
            rig.run(1);
            let before = rig.memory().shared_stats(0).modified_transfers;
            rig.run(1);
            let moved = rig.memory().shared_stats(0).modified_transfers - before;
            assert_eq!(moved, lines * STEPS, "{name}, {lines} lines");
        }
    }
}

#[test]
fn words_on_lines_of_their_own_do_not_travel() {
    let model = model(HASWELL);
    let mut rig = Rig::new(&model, huge(), Work { threads: 2, passes: 4, ..Work::new("counter", 64) });
    rig.run(1);
    let before = rig.memory().shared_stats(0).modified_transfers;
    rig.run(1);
    assert_eq!(rig.memory().shared_stats(0).modified_transfers, before, "each has a line of its own");
}
