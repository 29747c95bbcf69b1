//! Loads, stores and branches by hand: forwarding, splits, fences, wrong paths.

mod core_support;

use core_support::{CODE, LoopSource, cycles, data_at, haswell, kernel, l1_only, run, run_one, team};
use machine::{Width, model::Model};
use sim::{
    access::Supplier,
    core::{
        Statistics,
        branch::{History, Predictor},
    },
    engine::Engine,
    source::BlockExecution,
};

const STORE_RAX: &[u8] = &[0x48, 0x89, 0x07]; // mov [rdi], rax
const STORE_EAX: &[u8] = &[0x89, 0x07]; // mov [rdi], eax
const LOAD_RAX: &[u8] = &[0x48, 0x8b, 0x07]; // mov rax, [rdi]
const IMUL: &[u8] = &[0x48, 0x0f, 0xaf, 0xc0]; // imul rax, rax
const TEST: &[u8] = &[0x48, 0x85, 0xc0]; // test rax, rax
const DEC_RCX: &[u8] = &[0x48, 0xff, 0xc9];
const LOCK_ADD: &[u8] = &[0xf0, 0x48, 0x01, 0x07]; // lock add [rdi], rax
const ADD_MEMORY: &[u8] = &[0x48, 0x01, 0x07]; // add [rdi], rax
const MFENCE: &[u8] = &[0x0f, 0xae, 0xf0];
const ROUNDS: u64 = 2000;

/// A loop that touches the same address with all its operands.
fn touching(model: &Model, body: &[&[u8]], operands: usize, address: u64) -> Statistics {
    let step = |_, execution: &mut BlockExecution| execution.addresses.extend(vec![address; operands]);
    run_one(model, l1_only(model), &mut LoopSource::new(body, ROUNDS, step))
}

fn per_round(statistics: Statistics) -> f64 {
    statistics.cycles as f64 / ROUNDS as f64
}

#[test]
fn a_load_gets_its_data_from_the_store_before_it() {
    let mut model = haswell();
    let body = [STORE_RAX, LOAD_RAX, DEC_RCX];
    let statistics = touching(&model, &body, 2, 0x8000);
    assert_eq!(statistics.loads_forwarded, ROUNDS);
    // The data µop takes a cycle, then the forwarding.
    let latency = f64::from(model.core.store_forward_latency);
    assert!((per_round(statistics) - latency - 1.0).abs() < 0.1, "{}", per_round(statistics));
    model.core.store_forward_latency += 7;
    let slower = touching(&model, &body, 2, 0x8000);
    assert!((per_round(slower) - per_round(statistics) - 7.0).abs() < 0.1);
}

#[test]
fn a_load_wider_than_the_store_waits_until_that_has_drained() {
    let model = haswell();
    let forwarded = touching(&model, &[STORE_RAX, LOAD_RAX, DEC_RCX], 2, 0x8000);
    let blocked = touching(&model, &[STORE_EAX, LOAD_RAX, DEC_RCX], 2, 0x8000);
    assert_eq!((blocked.loads_blocked, blocked.loads_forwarded), (ROUNDS, 0));
    let penalty = f64::from(model.core.blocked_forward_penalty);
    assert!(per_round(blocked) > per_round(forwarded) + penalty - 2.0, "{}", per_round(blocked));
    // The kernel made for it behaves so too.
    let team = team(&kernel("blocked-forward", &[]), Width::Scalar, 4096, 1);
    let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
    let statistics = run(&mut engine, &team, 1).jobs[0].statistics;
    assert_eq!(statistics.loads_blocked, 4 * 1024);
}

#[test]
fn stores_elsewhere_block_nothing() {
    let model = haswell();
    let step = |round: u64, execution: &mut BlockExecution| {
        execution.addresses.extend([0x8000 + round % 8 * 8, 0x9000]);
    };
    let statistics =
        run_one(&model, l1_only(&model), &mut LoopSource::new(&[STORE_EAX, LOAD_RAX, DEC_RCX], 500, step));
    assert_eq!((statistics.loads_blocked, statistics.loads_forwarded), (0, 0));
}

#[test]
fn accesses_across_a_line_are_two() {
    let model = haswell();
    let inside = touching(&model, &[LOAD_RAX, DEC_RCX], 1, 0x8000);
    let across = touching(&model, &[LOAD_RAX, DEC_RCX], 1, 0x803c);
    assert_eq!((inside.loads_split, across.loads_split), (0, ROUNDS));
    let penalty = u64::from(model.core.line_split_penalty);
    let mean = |statistics: Statistics| statistics.load_cycles as f64 / ROUNDS as f64;
    assert!(mean(across) >= mean(inside) + penalty as f64, "{} {}", mean(inside), mean(across));
    assert!(per_round(across) > per_round(inside));
    assert_eq!(touching(&model, &[STORE_RAX, DEC_RCX], 1, 0x803c).stores_split, ROUNDS);
    // Both lines are asked for.
    let team = team(&kernel("split-load", &[]), Width::Scalar, 1 << 16, 1);
    let memory = data_at(&model, &team, Supplier::L2, cycles(&model, 12), 10);
    let mut engine = Engine::new(&model, memory).expect("an engine");
    let statistics = run(&mut engine, &team, 1).jobs[0].statistics;
    assert_eq!(statistics.loads_split, (1 << 16) / 64);
    assert_eq!(engine.memory().misses, (1 << 16) / 64 + 1);
}

#[test]
fn atomics_and_fences_wait_for_the_store_buffer() {
    let model = haswell();
    // An addition in memory forwards to the next one; an atomic one waits until the last has drained.
    let plain = touching(&model, &[ADD_MEMORY, DEC_RCX], 1, 0x8000);
    let atomic = touching(&model, &[LOCK_ADD, DEC_RCX], 1, 0x8000);
    assert!(per_round(atomic) > per_round(plain) + 2.0, "{} {}", per_round(plain), per_round(atomic));
    assert_eq!(atomic.loads_forwarded, 0);
    let fenced = touching(&model, &[STORE_RAX, MFENCE, DEC_RCX], 1, 0x8000);
    let free = touching(&model, &[STORE_RAX, DEC_RCX], 1, 0x8000);
    assert!(per_round(fenced) > per_round(free) + 3.0, "{} {}", per_round(free), per_round(fenced));
}

/// Runs `multiplications` in a chain, then a branch that is always predicted wrongly.
fn always_wrong(model: &Model, multiplications: usize) -> Statistics {
    let mut body = vec![IMUL; multiplications];
    body.push(TEST);
    let branch = CODE + body.concat().len() as u64;
    let (mut twin, mut history) = (Predictor::new(&model.front_end.branch), History::default());
    let step = move |_, execution: &mut BlockExecution| {
        let predicted = twin.clone().conditional(branch, true, &mut history.clone());
        execution.taken = !predicted;
        assert!(!twin.conditional(branch, execution.taken, &mut history));
    };
    run_one(model, l1_only(model), &mut LoopSource::new(&body, ROUNDS, step))
}

#[test]
fn known_mispredictions_waste_known_slots() {
    let mut model = haswell();
    model.front_end.branch.table_bits = 6;
    let statistics = always_wrong(&model, 10);
    assert_eq!(statistics.branches_mispredicted, ROUNDS);
    assert_eq!(statistics.slots_retired, 11 * ROUNDS);
    // Eleven slots take three cycles to dispatch. The chain begins a cycle after the first and ends 30 cycles later,
    // the branch takes one more: 30 cycles of four slots each lie between its dispatch and its resolution.
    let wrong = statistics.slots_wrong_path as f64 / ROUNDS as f64;
    assert!((wrong - 120.0).abs() < 0.5, "{wrong}");
    let expected = 32.0 + f64::from(model.front_end.branch.mispredict_penalty);
    assert!((per_round(statistics) - expected).abs() < 0.5, "{}", per_round(statistics));
    // A longer wait fills the window and no more.
    model.core.reorder_entries = 64;
    let wrong = always_wrong(&model, 28).slots_wrong_path as f64 / ROUNDS as f64;
    assert!((wrong - 64.0).abs() < 1.0, "{wrong}");
}

#[test]
fn a_coin_is_mispredicted_half_the_time() {
    let model = haswell();
    let team = team(&kernel("branch-miss", &[]), Width::Scalar, 0, 1);
    let mut engine = Engine::new(&model, l1_only(&model)).expect("an engine");
    let statistics = run(&mut engine, &team, 8).jobs[0].statistics;
    let share = statistics.branches_mispredicted as f64 / (8.0 * 1024.0);
    assert!((0.45..0.55).contains(&share), "{share}");
    assert!(statistics.slots_wrong_path > 4 * statistics.branches_mispredicted);
}

#[test]
fn code_larger_than_the_caches_is_fetched_and_decoded() {
    let model = haswell();
    let mut warm = haswell();
    warm.front_end.uop_cache_uops = 1 << 16;
    // 8000 multiplications per iteration: 32 KB of code, more than the µop cache holds.
    let team = team(&kernel("chase-independent", &[("muls", 2000)]), Width::Scalar, 1 << 14, 1);
    let time = |model: &Model| {
        let mut engine = Engine::new(model, l1_only(model)).expect("an engine");
        run(&mut engine, &team, 4).jobs[0].statistics
    };
    let (decoded, held) = (time(&model), time(&warm));
    assert!(decoded.blocks_decoded > 10 * held.blocks_decoded, "{decoded:?} {held:?}");
    assert_eq!(decoded.fetch_misses, held.fetch_misses, "both fit the L1I");
    let mut small = haswell();
    small.front_end.l1i.size = machine::Bytes::kib(8);
    assert!(time(&small).fetch_misses > 10 * decoded.fetch_misses);
}
