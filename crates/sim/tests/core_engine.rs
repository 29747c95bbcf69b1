//! Several threads: turns, sharing of a core, interruptions, and the same again.

mod core_support;

use core_support::{LoopSource, counts, cycles, data_at, haswell, kernel, l1_only, run, team};
use kernels::KernelCatalogue;
use machine::{Width, model::Model};
use sim::{
    access::{RequestKind, Supplier},
    engine::{Engine, EngineError, EngineJob, EngineOutcome, Interrupts},
    scripted_memory::ScriptedMemory,
    source::BlockSource,
    time::Time,
};

#[test]
fn every_kernel_does_what_its_truth_says_on_every_model() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).expect("a model");
        for kernel in KernelCatalogue::builtin().expect("a catalogue").iter() {
            let Ok(width) = kernel.width_on(&model.isa, None) else { continue };
            let threads = kernel.description().fixed_threads().unwrap_or(1);
            let team = team(kernel, width, 1 << 14, threads);
            let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
            let outcome = run(&mut engine, &team, 2);
            for (job, truth) in outcome.jobs.iter().zip(counts(&team, 2)) {
                let place = format!("{} on {name}", kernel.name());
                let did = job.statistics;
                assert_eq!(did.instructions, truth.instructions, "{place}");
                assert_eq!((did.loads, did.stores), (truth.loads, truth.stores), "{place}");
                assert_eq!(did.branches, truth.branches, "{place}");
                assert!(did.activity.cycles >= did.cycles && did.cycles > 0, "{place}");
                assert!(did.cycles_dispatching <= did.cycles && did.cycles_retiring <= did.cycles, "{place}");
                assert!(did.activity.executing[0] > 0 && did.uops_executed <= did.uops_retired, "{place}");
            }
        }
    }
}

#[test]
fn threads_take_turns() {
    let model = haswell();
    let lines = 16;
    let team = team(&kernel("producer-consumer", &[("lines", lines)]), Width::Scalar, lines * 64 * 10, 2);
    let mut memory = data_at(&model, &team, Supplier::OtherCoreModified, Time::from_ns(44.0), 10);
    memory.log = Some(Vec::new());
    let mut engine = Engine::new(&model, memory).expect("an engine");
    let outcome = run(&mut engine, &team, 1);
    let place = team.data().next().expect("data");
    let (data, end) = (place.address, place.address + place.bytes);
    let log = engine.memory().log.as_ref().expect("a log");
    let touches: Vec<_> = log.iter().filter(|request| (data..end).contains(&request.address)).collect();
    assert!(touches.iter().all(|request| request.kind != RequestKind::Fetch));
    assert_eq!(touches.len() as u64, 2 * lines * 10);
    for (number, request) in touches.iter().enumerate() {
        let turn = number as u64 / lines;
        assert_eq!(request.core as u64, turn % 2, "{number}");
        assert_eq!((request.address - data) / 64 / lines, turn / 2, "{number}");
    }
    for turns in touches.chunks(lines as usize).collect::<Vec<_>>().windows(2) {
        let (last, first) =
            (turns[0].iter().map(|request| request.at).max(), turns[1].iter().map(|r| r.at).min());
        assert!(first > last, "the next turn begins when all of the last is done");
    }
    assert!(outcome.jobs.iter().all(|job| job.statistics.cycles_waiting * 4 > job.statistics.cycles));
}

#[test]
fn half_a_pair_waits_for_ever() {
    let model = haswell();
    let team = team(&kernel("producer-consumer", &[]), Width::Scalar, 1 << 14, 2);
    let mut sources = team.step_sources(0, 1);
    let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
    let alone = &mut [EngineJob { core: 0, thread: 0, background: false, source: &mut sources[1] }];
    assert_eq!(engine.run(alone), Err(EngineError::AllBlocked { jobs: 1 }));
    let nowhere = &mut [EngineJob { core: 99, thread: 0, background: false, source: &mut sources[0] }];
    assert!(matches!(engine.run(nowhere), Err(EngineError::BadPlace { core: 99, .. })));
    let no_such_thread = &mut [EngineJob { core: 0, thread: 1, background: false, source: &mut sources[0] }];
    assert!(matches!(engine.run(no_such_thread), Err(EngineError::BadPlace { thread: 1, .. })));
    let [first, second] = &mut sources[..] else { panic!("two sources") };
    let twice = &mut [
        EngineJob { core: 0, thread: 0, background: false, source: first },
        EngineJob { core: 0, thread: 0, background: false, source: second },
    ];
    assert!(matches!(engine.run(twice), Err(EngineError::BadPlace { core: 0, .. })));
}

/// Time of two loops on the threads of one core, over the time of one alone.
fn shared_core(body: &[&[u8]]) -> f64 {
    let mut model = haswell();
    model.threads_per_core = 2;
    let rounds = 5000;
    let time = |threads: usize| {
        let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
        let mut sources: Vec<_> = (0..threads).map(|_| LoopSource::new(body, rounds, |_, _| ())).collect();
        let jobs = sources.iter_mut().enumerate();
        let mut jobs: Vec<_> = jobs
            .map(|(thread, source)| EngineJob {
                core: 0,
                thread,
                background: false,
                source: source as &mut dyn BlockSource,
            })
            .collect();
        engine.run(&mut jobs).expect("a run").elapsed().ns()
    };
    time(2) / time(1)
}

#[test]
fn two_threads_of_a_core_share_its_ports() {
    let (imul, dec): (&[u8], &[u8]) = (&[0x48, 0x0f, 0xaf, 0xc0], &[0x48, 0xff, 0xc9]);
    // Two chains leave each other alone.
    let chains = shared_core(&[imul, imul, dec]);
    assert!((0.99..1.05).contains(&chains), "{chains}");
    // divsd xmm0, xmm1: the divider takes one every 13 cycles and each takes 20. A pair needs at least 26, more
    // where gaps of 7 are left, but not longer than one after the other.
    let divisions = shared_core(&[&[0xf2, 0x0f, 0x5e, 0xc1], dec]);
    assert!((1.25..2.0).contains(&divisions), "{divisions}");
    // Four slots per cycle are all there are.
    let nops: &[u8] = &[0x90; 15];
    let slots = shared_core(&[nops, dec]);
    assert!((1.9..2.1).contains(&slots), "{slots}");
}

#[test]
fn background_jobs_end_with_the_run() {
    let model = haswell();
    let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
    let body: &[&[u8]] = &[&[0x48, 0xff, 0xc9]];
    let (mut short, mut endless) =
        (LoopSource::new(body, 1000, |_, _| ()), LoopSource::new(body, u64::MAX, |_, _| ()));
    let jobs = &mut [
        EngineJob { core: 0, thread: 0, background: false, source: &mut short as &mut dyn BlockSource },
        EngineJob { core: 1, thread: 0, background: true, source: &mut endless },
    ];
    let outcome = engine.run(jobs).expect("a run");
    assert!(outcome.jobs[0].complete && !outcome.jobs[1].complete);
    let (work, other) = (outcome.jobs[0].statistics, outcome.jobs[1].statistics);
    assert!((other.instructions as f64 / work.instructions as f64 - 1.0).abs() < 0.2, "{work:?} {other:?}");
    assert_eq!(outcome.end, outcome.jobs[0].end);
}

/// Eight cores, interrupts, DRAM: everything that could differ.
fn busy_run(seed: u64) -> (EngineOutcome, Vec<sim::access::MemoryRequest>) {
    let model = haswell();
    let team = team(&kernel("random-uni", &[]), Width::Scalar, 1 << 20, 8);
    let mut memory = data_at(&model, &team, Supplier::LocalMemory, Time::from_ns(96.4), 10);
    memory.log = Some(Vec::new());
    let mut engine = Engine::new(&model, memory).expect("an engine");
    engine.set_interrupts(Some(Interrupts {
        seed,
        every: Time::from_ns(3000.0),
        lasts: Time::from_ns(500.0),
    }));
    let outcome = run(&mut engine, &team, 1);
    let log = engine.memory_mut().log.take().expect("a log");
    (outcome, log)
}

#[test]
fn the_same_again_is_the_same_to_the_bit() {
    let (first, again, other) = (busy_run(1), busy_run(1), busy_run(2));
    assert!(first == again);
    assert_ne!(first.0, other.0, "another seed interrupts elsewhere");
}

#[test]
fn cores_keep_together() {
    let (outcome, log) = busy_run(1);
    assert!(outcome.jobs.iter().all(|job| job.statistics.interrupts > 0));
    // A window of work at most: 60 µops that wait, 96 ns each if all are dependent loads; here far less.
    let mut latest = Time::ZERO;
    for request in &log {
        assert!(latest.since(request.at) < Time::from_ns(2000.0), "{request:?} after {latest:?}");
        latest = latest.max(request.at);
    }
}

#[test]
fn interrupts_cost_what_they_last() {
    let model = haswell();
    let team = team(&kernel("mul-chain", &[]), Width::Scalar, 0, 1);
    let mut engine = Engine::new(&model, ScriptedMemory::new(cycles(&model, 4), 10)).expect("an engine");
    let quiet = run(&mut engine, &team, 4);
    let lasts = Time::from_ns(1000.0);
    engine.set_interrupts(Some(Interrupts { seed: 3, every: Time::from_ns(20_000.0), lasts }));
    let noisy = run(&mut engine, &team, 4);
    let statistics = noisy.jobs[0].statistics;
    let (count, lost) = (statistics.interrupts, statistics.cycles_interrupted);
    assert!((20..60).contains(&count), "{count}");
    assert_eq!(lost, count * 2500);
    let slower = noisy.elapsed().since(quiet.elapsed()).ns();
    // What waits in the window goes on while the interrupt runs.
    assert!(slower <= count as f64 * 1000.0 && slower > count as f64 * 800.0, "{slower} {count}");
}
