//! Scenarios on this machine, checked by what they leave in memory. Threads may share a CPU.

use std::sync::atomic::Ordering;

use super::*;
use crate::{
    catalogue::KernelCatalogue,
    scenario::{Event, shipped},
};

fn workload(name: &str, settings: &[(&str, &str)], scale: u64) -> Workload {
    let catalogue = KernelCatalogue::builtin().expect("built-in kernels are valid");
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let scenario = shipped::find(name).expect("shipped").parse(&catalogue, &settings).expect("valid");
    let threads = scenario.threads.unwrap_or(2);
    let plan = Plan::new(&scenario, threads, &Isa::native(), scale).expect("a plan");
    let cpu = rustix::thread::sched_getcpu() as u32;
    Workload::of_plan(plan, &vec![cpu; threads], &[]).expect("a workload")
}

/// Goes through the schedules; gives the number of steps each thread finished.
fn follow(workload: &mut Workload, interrupt: &AtomicBool) -> Vec<usize> {
    let done = workload.run_threads(interrupt, |thread| {
        let mut steps = 0;
        for event in thread.plan().schedule(thread.number()) {
            let goes_on = match event {
                Event::Enter { region } => thread.meet(region),
                Event::Run { step } => thread.run(step),
                Event::Leave { .. } => true,
            };
            if !goes_on {
                break;
            }
            steps += usize::from(matches!(event, Event::Run { .. }));
        }
        steps
    });
    done.expect("runs").into_iter().map(|thread| thread.value).collect()
}

#[test]
fn each_thread_counts_in_its_own_word() {
    let mut workload = workload("false-sharing", &[("passes", "3"), ("rounds", "2")], 1);
    assert_eq!(follow(&mut workload, &AtomicBool::new(false)), [4, 4]);
    let words = workload.buffers[0].as_slice::<u64>();
    let counted = |word: usize| words[word].wrapping_sub(1.0f64.to_bits());
    // Thread 0 counts in the first word of both regions, thread 1 in the next and 128 bytes on.
    let each = 3 * 1024 * 2;
    assert_eq!([counted(0), counted(1), counted(16), counted(2)], [2 * each, each, each, 0]);
}

#[test]
fn turns_go_over_the_whole_buffer_and_again() {
    let mut workload = workload("producer-consumer", &[("lines", "4"), ("size", "16K"), ("rounds", "3")], 1);
    for _ in 0..2 {
        assert_eq!(follow(&mut workload, &AtomicBool::new(false)), [6, 6]);
        let words = workload.buffers[0].as_mut_slice::<u64>();
        assert!(words[..2048].chunks(8).all(|line| line[0] == 1), "every line was written");
        words.fill(0);
    }
}

#[test]
fn an_interrupt_ends_all_waiting() {
    for name in ["producer-consumer", "bandwidth-compute", "imbalance"] {
        let mut workload = workload(name, &[], 64);
        assert_eq!(follow(&mut workload, &AtomicBool::new(true)), [0, 0], "{name}");
        let interrupt = AtomicBool::new(false);
        let interrupted = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                interrupt.store(true, Ordering::Relaxed);
            });
            follow(&mut workload, &interrupt)
        });
        assert_eq!(interrupted.len(), 2);
        // And it can be used again.
        let full = follow(&mut workload, &AtomicBool::new(false));
        assert!(interrupted.iter().zip(&full).all(|(some, all)| some <= all), "{name}");
    }
}

#[test]
fn a_step_can_be_slowed_down() {
    let mut workload = workload("stream-rate", &[("rounds", "1")], 64);
    workload.set_nops(0, 1000).expect("a number of nops");
    assert_eq!(follow(&mut workload, &AtomicBool::new(false)), [1]);
    assert_eq!(workload.team.cpus().len(), 1);
}

#[test]
fn triangles_meet_at_their_rows() {
    let mut workload = workload("imbalance", &[("matrix", "32K"), ("rounds", "1")], 1);
    assert_eq!(follow(&mut workload, &AtomicBool::new(false)), [2, 2]);
    let part = &workload.step().parts[0];
    let order = part.geometry.order;
    let results = (part.offsets[2] / 8) as usize;
    let sums =
        &workload.buffers[part.instance.expect("a buffer")].as_slice::<f64>()[results..][..order as usize];
    // All elements are one: the sum of row i is the number of its elements.
    let expected: Vec<f64> = (0..order).map(|row| (order - row) as f64).collect();
    assert_eq!(sums, expected);
}
