//! What the cycle accounting of kruse2011 stands on: wrong paths, fused pairs, loads held back, code that must be fetched.

mod core_support;
mod pmu_support;

use std::collections::BTreeSet;

use core_support::{LoopSource, cycles};
use events::{Instrument as _, MetricGroup};
use kernels::generate::RandomKernel;
use machine::model::Model;
use pmu_support::{
    count,
    machine_support::{Rig, Work, huge, model},
    plain, pmu,
};
use sim::{
    core::Statistics,
    engine::{Engine, EngineJob},
    scripted_memory::ScriptedMemory,
    source::BlockExecution,
};

const CORE: &str = "core2-e5430";
const NEHALEM: &str = "nehalem-ep-x5570";

/// Runs a loop written by hand with everything in the L1.
fn run_loop(
    model: &Model,
    body: &[&[u8]],
    rounds: u64,
    step: impl FnMut(u64, &mut BlockExecution),
) -> Statistics {
    let memory = ScriptedMemory::new(cycles(model, model.l1d.latency.into()), 10);
    let mut engine = Engine::new(model, memory).expect("an engine");
    let mut source = LoopSource::new(body, rounds, step);
    let job = EngineJob { core: 0, thread: 0, background: false, source: &mut source };
    engine.run(&mut [job]).expect("a run").jobs[0].statistics
}

#[test]
fn wrong_path_work_is_dispatched_and_never_retires() {
    let model = model(CORE);
    let names =
        ["RS_UOPS_DISPATCHED", "UOPS_RETIRED.ANY", "UOPS_RETIRED.FUSED", "MISPREDICTED_BRANCH_RETIRED"];
    let counts = |kernel| {
        let mut rig = Rig::new(&model, huge(), Work { passes: 16, ..Work::new(kernel, 0) });
        let counted = count(&model, &mut rig, &names).into_values().collect::<Vec<_>>();
        let mut again = Rig::new(&model, huge(), Work::new(kernel, 0));
        again.run(1);
        (counted, again.run(16).jobs[0].statistics)
    };
    // By name: misses, dispatched, retired slots, fused pairs.
    let (counted, statistics) = counts("branch-miss");
    let [misses, dispatched, slots, pairs] = counted[..] else { panic!("{counted:?}") };
    assert!(misses > 3000, "{misses}");
    assert_eq!(dispatched, statistics.uops_executed + statistics.uops_wrong_path);
    assert!(
        statistics.uops_wrong_path > misses,
        "{} behind {misses} wrong guesses",
        statistics.uops_wrong_path
    );
    assert!(
        statistics.uops_wrong_path <= 2 * statistics.slots_wrong_path,
        "only what was dispatched can start"
    );
    // What kruse2011 ch. 4 calls not retired is the wrong path, but for what needs no port.
    let apart = dispatched as f64 - (slots + pairs) as f64 - statistics.uops_wrong_path as f64;
    assert!(
        apart.abs() < 0.1 * statistics.uops_wrong_path as f64,
        "{apart} of {}",
        statistics.uops_wrong_path
    );
    // Code without wrong guesses has no such work.
    let (counted, statistics) = counts("add-chain");
    let [misses, dispatched, slots, pairs] = counted[..] else { panic!("{counted:?}") };
    assert!(statistics.uops_wrong_path <= 64 * misses, "{} of {misses}", statistics.uops_wrong_path);
    assert!(dispatched.abs_diff(slots + pairs) <= 64 * misses + 64, "{dispatched} of {slots} and {pairs}");
}

/// A metric of the group that fits a machine, from its own events; none if the machine lacks one.
fn metric(model: &Model, work: Work, group: &str, name: &str) -> Option<f64> {
    metric_of(model, &mut || Rig::new(model, huge(), work), group, name)
}

fn metric_of(model: &Model, rig: &mut dyn FnMut() -> Rig, group: &str, name: &str) -> Option<f64> {
    let pmu = pmu(model);
    let has = |event: &str| pmu.resolve(event).is_ok();
    let chosen = MetricGroup::fitting(group, &has)?.choose(&has);
    let metric = chosen.metrics.iter().find(|metric| metric.name == name)?;
    let inputs: Vec<&str> = chosen.inputs_of(metric);
    if inputs.iter().any(|input| chosen.missing.contains(input)) {
        return None;
    }
    let names: BTreeSet<&str> = inputs.iter().filter_map(|input| chosen.event(input)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let counts = count(model, &mut rig(), &names);
    let counted = |input: &str| Some(*counts.get(chosen.event(input)?)? as f64);
    let found = chosen.values(&counted, None).into_iter().find(|(known, _)| known.name == name)?;
    found.1.ok().map(|found| found.value)
}

#[test]
fn what_does_not_retire_is_the_work_of_wrong_paths_on_every_model_with_the_events() {
    let mut tried = Vec::new();
    for name in Model::builtin_names() {
        let model = model(name);
        let kernels =
            [Work { passes: 16, ..Work::new("branch-miss", 0) }, Work::new("branch-on-data", 32 << 10)];
        for work in kernels {
            let mut again = Rig::new(&model, huge(), work);
            again.run(work.warm);
            let truth = again.run(work.passes).jobs[0].statistics;
            assert!(truth.slots_wrong_path > 1000, "{name}, {}: {}", work.kernel, truth.slots_wrong_path);
            let slots = truth.cycles as f64 * f64::from(model.core.dispatch_width);
            let truths = [
                ("TOPDOWN", "thrown away", 100.0 * truth.slots_wrong_path as f64 / slots),
                ("ACCOUNTING_CORE", "non-retired µops", truth.uops_wrong_path as f64),
            ];
            for (group, metric_name, truth) in truths {
                let Some(said) = metric(&model, work, group, metric_name) else { continue };
                println!("{name}, {}: {metric_name} {said:.1}, wrong paths {truth:.1}", work.kernel);
                assert!((said - truth).abs() < 0.1 * truth, "{name}, {}: {said} for {truth}", work.kernel);
                tried.push(name);
            }
        }
    }
    tried.dedup();
    assert!(tried.len() >= 8, "{tried:?}");
}

/// Loops drawn at random that decide by a draw: nobody looked at these seeds before the rule was made.
#[test]
fn what_does_not_retire_is_the_work_of_wrong_paths_in_loops_drawn_at_random() {
    let mut tried = 0;
    for name in ["haswell-ep-e5-2680v3", CORE] {
        let model = model(name);
        let isa = model.topology().isa;
        let drawn = (9000..).map(|seed| RandomKernel::draw(seed, &isa).expect("a kernel"));
        let branchy = drawn.filter(|drawn| drawn.text.contains("branch k <") && drawn.size.0 <= 1 << 20);
        for drawn in branchy.take(20) {
            let job = drawn.job(0);
            let passes = (1 << 20) / drawn.size.0.max(1 << 16);
            let work = Work { passes, ..Work::new("random", drawn.size.0) };
            let mut rig = || Rig::of_job(&model, huge(), &job, work);
            let mut again = rig();
            again.run(work.warm);
            let truth = again.run(work.passes).jobs[0].statistics;
            let slots = truth.cycles as f64 * f64::from(model.core.dispatch_width);
            for (group, metric_name, truth) in [
                ("TOPDOWN", "thrown away", 100.0 * truth.slots_wrong_path as f64 / slots),
                ("ACCOUNTING_CORE", "non-retired µops", truth.uops_wrong_path as f64),
            ] {
                let Some(said) = metric_of(&model, &mut rig, group, metric_name) else { continue };
                println!("{name}, random-{}: {metric_name} {said:.2}, wrong paths {truth:.2}", drawn.seed);
                // Of next to nothing, a tenth is less than the edges of counting.
                let near = if group == "TOPDOWN" { 0.1 } else { 0.001 * slots };
                assert!((said - truth).abs() < (0.1 * truth).max(near), "{name}, random-{}", drawn.seed);
                tried += 1;
            }
        }
    }
    assert!(tried >= 40, "{tried}");
}

#[test]
fn a_wrong_path_takes_no_time_from_the_right_one() {
    // The branch waits for three multiplications; behind it an increment needs nothing, a multiplication needs the first.
    let model = model("haswell-ep-e5-2680v3");
    let body: [&[u8]; 4] =
        [&[0x48, 0x0f, 0xaf, 0xc9], &[0x48, 0x0f, 0xaf, 0xc9], &[0x48, 0xff, 0xc3], &[0x48, 0x85, 0xc9]];
    let straight = run_loop(&model, &body, 3000, |_, _| {});
    assert_eq!(straight.branches_mispredicted + straight.uops_wrong_path, 0, "a loop that always goes on");
    let mut draw = kernels::draw::SplitMix::new(5);
    let random = run_loop(&model, &body, 3000, |_, execution| {
        execution.taken = draw.next_u64() >> 63 == 1;
    });
    assert!(random.branches_mispredicted > 1000);
    // One slot in four is an increment.
    let started = random.uops_wrong_path as f64 / random.slots_wrong_path as f64;
    assert!((started - 0.25).abs() < 0.02, "{started} of the wrong path: increments, but no multiplication");
    assert_eq!(random.uops_executed, straight.uops_executed, "the right path is the same");
}

#[test]
fn fused_pairs_are_counted_and_nothing_else() {
    let model = model(CORE);
    let names = ["UOPS_RETIRED.ANY", "UOPS_RETIRED.FUSED", "INST_RETIRED.STORES", "INSTRUCTIONS_RETIRED"];
    let fused = |kernel, bytes| {
        let mut rig = Rig::new(&model, huge(), Work { passes: 8, ..Work::new(kernel, bytes) });
        let counts = count(&model, &mut rig, &names);
        names.map(|name| counts[name])
    };
    // Nothing of a chain of additions is fused; a store is an address and its data in one slot.
    let [slots, pairs, stores, _] = fused("add-chain", 0);
    assert!(slots > 1000 && pairs < 8, "{pairs} pairs in {slots} slots, {stores} stores");
    let [slots, pairs, stores, instructions] = fused("store", 8 << 10);
    assert!(stores > 1000);
    assert!(pairs.abs_diff(stores) < 32, "{pairs} pairs of {stores} stores");
    assert!(slots.abs_diff(instructions) < 64, "{slots} slots of {instructions} instructions");
}

/// Four multiplications, a store where they say, a load.
const STORE_THEN_LOAD: [&[u8]; 6] = [
    &[0x48, 0x0f, 0xaf, 0xc0],
    &[0x48, 0x0f, 0xaf, 0xc0],
    &[0x48, 0x0f, 0xaf, 0xc0],
    &[0x48, 0x0f, 0xaf, 0xc0],
    &[0x48, 0x89, 0x08],
    &[0x48, 0x8b, 0x13],
];

#[test]
fn loads_wait_for_unknown_addresses_until_they_have_earned_trust() {
    let core = model(CORE);
    let blocked = |model: &Model, load: u64| {
        run_loop(model, &STORE_THEN_LOAD, 1000, |_, execution| execution.addresses.extend([1 << 20, load]))
            .loads_blocked_address
    };
    assert_eq!(blocked(&core, 1 << 21), 15, "harmless: after 15 times it goes ahead");
    let always = blocked(&core, 1 << 20);
    assert!(always > 900, "{always} of 1000 loads that need the store");
    let mut knowing = core.clone();
    knowing.core.load_confidence = 0;
    assert_eq!(blocked(&knowing, 1 << 20), 0);
}

#[test]
fn split_loads_are_blocked_until_they_retire() {
    let model = model(CORE);
    let names = ["LOAD_BLOCK.UNTIL_RETIRE", "INST_RETIRED.LOADS"];
    let mut rig = Rig::new(&model, huge(), Work::new("split-load", 8 << 10));
    let counts = count(&model, &mut rig, &names);
    let [blocked, loads] = names.map(|name| counts[name]);
    assert!(blocked > 100 && loads - blocked < 32, "{blocked} of {loads}");
}

#[test]
fn code_beyond_the_instruction_cache_is_fetched_again_and_again() {
    let model = model(NEHALEM);
    let names = [
        "INST_RETIRED.ANY_P",
        "CPU_CLK_UNHALTED.THREAD_P",
        "L2_RQSTS.IFETCH_HIT",
        "L2_RQSTS.IFETCH_MISS",
        "UOPS_ISSUED:ANY:CMASK=1:INV",
        "ITLB_MISS_RETIRED",
    ];
    let run = |model: &Model, adds| {
        let work = Work { parameter: Some(("adds", adds)), passes: 4, ..Work::new("long-code", 16 << 10) };
        let mut rig = Rig::new(model, plain(), work);
        let counts = count(model, &mut rig, &names);
        names.map(|name| counts[name] as f64)
    };
    // 32 times 64 additions of three bytes fit the instruction cache, 32 times 1024 do not, 32 times 2048 not even an L2
    // of half its size.
    let [instructions, near, hits, misses, ..] = run(&model, 64);
    let cpi_near = near / instructions;
    assert!(hits + misses < 0.02 * instructions, "{hits} and {misses} of {instructions}");
    let [instructions, cycles, hits, misses, idle, pages] = run(&model, 1024);
    let lines = instructions * 3.0 / 64.0;
    assert!((hits / lines - 1.0).abs() < 0.1, "{hits} of {lines} lines of code");
    assert!(misses < 0.1 * hits, "{misses}");
    assert!(cycles / instructions > 1.5 * cpi_near, "{cycles} of {instructions}, {cpi_near} in the cache");
    assert!(idle / cycles > 0.4, "nothing issued in {idle} of {cycles}");
    assert!(pages < 0.01 * instructions, "98 KB of code are within reach of the TLB: {pages}");
    let mut smaller = model.clone();
    smaller.l2.geometry.size = machine::Bytes::kib(128);
    let [instructions, cycles, _, misses, ..] = run(&smaller, 2048);
    let lines = instructions * 3.0 / 64.0;
    assert!(misses > 0.9 * lines, "{misses} of {lines}");
    assert!(cycles / instructions > 3.0 * cpi_near, "{cycles} of {instructions}");
}
