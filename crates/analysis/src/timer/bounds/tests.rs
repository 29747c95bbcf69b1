//! Between which shares the waiting of loops lies whose data and code are known.

use machine::profile::Profile;
use record::run::Run;

use crate::{
    findings::TimeShare,
    timer::{TimerOptions, analyse, levels::tests::profile, tests::run},
};

use super::{MemoryBounds, WaitBounds};

pub(crate) const DATA: u64 = 0x7000_0000_0000;

/// What is said of a loop whose first instruction ends at `behind`, sampled at places `step` apart all over `lines` of them.
fn share(code: &[u8], behind: u64, step: u64, lines: u64) -> TimeShare {
    share_beside(code, behind, step, lines, &[])
}

/// So many places among others, in an order that no speed explains.
pub(crate) fn without_order(number: u64, places: u64) -> impl Iterator<Item = u64> {
    let mut state = 88_172_645_463_325_252u64;
    (0..number).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % places
    })
}

/// The same with a few samples elsewhere.
fn share_beside(code: &[u8], behind: u64, step: u64, lines: u64, elsewhere: &[u64]) -> TimeShare {
    let place = |index: u64| DATA + index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % lines * step;
    let waiting = (0..600).map(|index| (behind, Some(place(index))));
    let samples: Vec<_> = waiting.chain(elsewhere.iter().map(|at| (*at, None))).collect();
    analyse(&run(code, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
}

/// add qword [rdi],1; add rdi,1024; cmp rdi,rsi; jb 0
const COLUMN: [u8; 16] =
    [0x48, 0x83, 0x07, 0x01, 0x48, 0x81, 0xc7, 0x00, 0x04, 0x00, 0x00, 0x48, 0x39, 0xf7, 0x72, 0xf0];

/// Thirty-two kilobytes of a first cache are four sets of eight lines to a walk with steps of a kilobyte.
#[test]
fn few_lines_of_few_sets_may_miss() {
    let few = share(&COLUMN, 4, 1024, 16);
    assert!(few.high < 0.1, "16 lines fit their sets: {few:?}");
    let crowded = share(&COLUMN, 4, 1024, 36);
    assert!(crowded.low < 0.05 && crowded.high > 0.4, "36 lines of 32 places: {crowded:?}");
    let many = share(&COLUMN, 4, 1024, 4096);
    assert!(many.high > 0.6, "{many:?}");
}

/// The clock that was measured beside the program counts, unless it cannot be that of a core that works.
#[test]
fn cycles_are_those_of_the_clock_of_then() {
    use crate::timer::blame::BlameCore;
    let profile = profile();
    let core = |hz: f64| BlameCore::of(Some(&profile), Some(hz));
    assert_eq!((core(3.3e9).clock_hz, core(0.8e9).clock_hz), (3.3e9, 3e9));
    assert_eq!(BlameCore::of(None, Some(4.4e9)).clock_hz, 4.4e9);
    let latencies = |core: BlameCore| core.levels.iter().map(|level| level.latency_ns).collect::<Vec<_>>();
    let (usual, fast) = (latencies(core(3e9)), latencies(core(3.6e9)));
    assert_eq!(fast[..2], [usual[0] / 1.2, usual[1] / 1.2], "the caches of the core itself");
    assert_eq!(fast[2..], usual[2..]);
}

/// A turn somewhat shorter than tables say took what its code takes; one far shorter shows that they are wrong.
#[test]
fn a_turn_within_the_error_of_the_tables_says_that_all_is_code() {
    // Three cycles of an addition at 3 GHz, or two.
    let near = summed(0.95, None);
    assert!(near.high < 0.4, "{near:?}");
    let wrong = summed(0.6, None);
    assert!(wrong.high > 0.15, "{wrong:?}");
}

/// addsd xmm0,xmm1; movsd xmm1,[rdi]; add rdi,8; cmp rdi,rsi; jb 0
pub(crate) const SUM: [u8; 17] =
    [0xf2, 0x0f, 0x58, 0xc1, 0xf2, 0x0f, 0x10, 0x0f, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x72, 0xef];

/// A loop over half a megabyte whose samples lie behind the addition, with bursts in which a turn takes `turn_ns`.
fn summed(turn_ns: f64, profile: Option<&Profile>) -> TimeShare {
    timed(&SUM, 4, turn_ns, |turn| DATA + 8 * turn, profile)
}

fn timed(
    code: &[u8],
    at: u64,
    turn_ns: f64,
    value: impl Fn(u64) -> u64,
    profile: Option<&Profile>,
) -> TimeShare {
    let run = timed_run(code, at, turn_ns, value);
    analyse(&run, profile, &TimerOptions::unlimited()).verdict.memory.expect("a share")
}

/// Samples at one place of a loop of 65536 turns, and bursts that carry a value by the turn.
pub(crate) fn timed_run(code: &[u8], at: u64, turn_ns: f64, value: impl Fn(u64) -> u64) -> Run {
    const LENGTH: f64 = 65536.0;
    let samples: Vec<_> = (0..600).map(|_| (at, None)).collect();
    let mut run = run(code, &samples);
    for burst in 0..8u32 {
        let clock = |period: u64| (0..22).map(move |at| period * at + period * u64::from(burst) / 9);
        let mut times: Vec<u64> = clock(89_000).chain(clock(127_000)).collect();
        times.sort_unstable();
        for time_ns in times {
            let turn = (time_ns as f64 / turn_ns + 7777.0 * f64::from(burst)).rem_euclid(LENGTH) as u64;
            run.bursts.time_ns.push(u64::from(burst) * 100_000_000 + time_ns);
            run.bursts.thread.push(record::ids::ThreadId(0));
            run.bursts.cpu.push(0);
            run.bursts.place.push(record::ids::PlaceId(0));
            run.bursts.address.push(std::num::NonZeroU64::new(value(turn)));
        }
    }
    run
}

/// Four cycles at 3 GHz, give or take what tables know of an addition; what is beyond is no addition.
#[test]
fn bursts_tell_what_a_loop_over_a_cache_waits_for() {
    let busy = summed(1.33, None);
    assert!(busy.value < 0.1 && busy.low == 0.0, "{busy:?}");
    let waiting = summed(6.0, None);
    assert!(waiting.low > 0.5, "{waiting:?}");
}

/// Half a megabyte does not come from a cache that slowly, whoever draws from it too: the time or the costs are wrong.
#[test]
fn a_turn_far_beyond_what_its_lines_cost_tells_nothing() {
    let profile = profile();
    let open = summed(20.0, Some(&profile));
    assert!(open.low == 0.0 && open.high > 0.9, "{open:?}");
    let usual = summed(2.0, Some(&profile));
    assert!(usual.low > 0.1, "{usual:?}");
    let unmeasured = summed(20.0, None);
    assert!(unmeasured.low > 0.9, "{unmeasured:?}");
}

/// lock inc qword [rdi]; add rdi,8; cmp rdi,rsi; jb 0
const ATOMICS: [u8; 13] = [0xf0, 0x48, 0xff, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x72, 0xf3];

/// Lines arrive in time for something so slow, and nothing says that they do not.
#[test]
fn an_atomic_is_slow_by_itself() {
    let found = share(&ATOMICS, 4, 8, 8 << 20);
    assert!(found.low < 0.05 && found.value < 0.3, "{found:?}");
}

/// Eight loads of 32 bytes, one behind the other, per turn: rdi moves on by 256.
#[test]
fn a_stream_by_many_steps_at_once_is_a_stream() {
    let mut code = vec![0xc5, 0xfe, 0x6f, 0x07];
    for at in 1..8u8 {
        code.extend([0xc5, 0xfe, 0x6f, 0x87, at * 0x20, 0, 0, 0]);
    }
    code.extend([0x48, 0x81, 0xc7, 0, 1, 0, 0, 0x48, 0x39, 0xf7]);
    let back = (code.len() as i64 + 2).wrapping_neg().to_le_bytes()[0];
    code.extend([0x72, back]);
    // Four lines a turn from the third cache take their time, however early they are fetched.
    let found = share(&code, 4, 256, 16384);
    assert!(found.low > 0.6, "{found:?}");
}

/// mov rax,[rdi]; add rdi,8; cmp rax,rdx; jb +3; add rcx,1; cmp rdi,rsi; jb 0
const BRANCHES: [u8; 23] = [
    0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xd0, 0x72, 0x04, 0x48, 0x83, 0xc1, 0x01, 0x48,
    0x39, 0xf7, 0x72, 0xeb, 0xc3, 0x90,
];

/// A wrong guess is cleared up when the load is there, and the samples lie behind the load.
#[test]
fn a_branch_on_what_was_loaded_may_be_what_is_waited_for() {
    let found = share_beside(&BRANCHES, 3, 8, 8 << 20, &[16, 19]);
    assert!(found.value > 0.8 && found.low < 0.4, "{found:?}");
    let one_way = share_beside(&BRANCHES, 3, 8, 8 << 20, &[19]);
    assert!(one_way.low > 0.6, "a check that never fails: {one_way:?}");
}

/// Where a core guesses, samples behind the first instruction of either way may be the guess's, also if that one stores.
#[test]
fn a_store_behind_a_guess_may_be_no_waiting_for_memory() {
    // mov rax,[rdi]; cmp rax,rdx; ja +3; xor eax,eax; nop; mov [rsi],rax; add rdi,8; add rsi,8; cmp rdi,rcx; jne 0
    const STORED: [u8; 28] = [
        0x48, 0x8b, 0x07, 0x48, 0x39, 0xd0, 0x77, 0x03, 0x31, 0xc0, 0x90, 0x48, 0x89, 0x06, 0x48, 0x83, 0xc7,
        0x08, 0x48, 0x83, 0xc6, 0x08, 0x48, 0x39, 0xcf, 0x75, 0xe5, 0xc3,
    ];
    let found = share_beside(&STORED, 14, 8, 1 << 16, &[[6; 40], [10; 40]].concat());
    assert!(found.value > 0.7 && found.low < 0.4, "{found:?}");
    let one_way = share_beside(&STORED, 14, 8, 1 << 16, &[6; 80]);
    assert!(one_way.low > 0.45, "nothing is guessed: {one_way:?}");
}

/// 0: xorps xmm0,xmm0; nop ×4; 7: addsd xmm0,[rdi]; add rdi,8; cmp rdi,rcx; jne 7; add rcx,64; cmp rcx,rdx; jne 0; ret
const ROWS: [u8; 30] = [
    0x0f, 0x57, 0xc0, 0x90, 0x90, 0x90, 0x90, 0xf2, 0x0f, 0x58, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39,
    0xcf, 0x75, 0xf3, 0x48, 0x83, 0xc1, 0x40, 0x48, 0x39, 0xd1, 0x75, 0xe3, 0xc3,
];

/// Sums of short rows are not one chain: the core adds up several at once, so that a turn takes less than an addition.
#[test]
fn a_chain_that_begins_anew_with_every_entry_bounds_long_loops_only() {
    let of = |entries: usize, code: &[u8]| {
        let inside = without_order(600, 4 << 20).map(|element| (11, Some(DATA + element * 8)));
        let outside = (0..entries).map(|at| (3 + (at % 4) as u64, None));
        let samples: Vec<_> = inside.chain(outside).collect();
        analyse(&run(code, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let (long, short) = (of(0, &ROWS), of(60, &ROWS));
    assert!(short.high > long.high + 0.05, "{short:?} {long:?}");
    // The same with a sum that goes on from row to row: xorps xmm1,xmm1.
    let mut kept = ROWS;
    kept[2] = 0xc9;
    let kept = of(60, &kept);
    assert!((kept.high - of(0, &ROWS).high).abs() < 0.1 && kept.high < short.high, "{kept:?} {short:?}");
}

/// The same, with a check and padding between the sum that begins anew and the loop: 0: xorps xmm0,xmm0; nop ×4;
/// 7: test rax,rax; 10: je 31; 12: nop; 13: addsd xmm0,[rdi]; add rdi,8; cmp rdi,rcx; jne 13; add rcx,64; cmp rcx,rdx; jne 0;
/// 35: ret
const PADDED_ROWS: [u8; 36] = [
    0x0f, 0x57, 0xc0, 0x90, 0x90, 0x90, 0x90, 0x48, 0x85, 0xc0, 0x74, 0x0e, 0x90, 0xf2, 0x0f, 0x58, 0x07,
    0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xcf, 0x75, 0xf3, 0x48, 0x83, 0xc1, 0x40, 0x48, 0x39, 0xd1, 0x75,
    0xdd, 0xc3,
];

/// No sample is ever seen on padding.
#[test]
fn a_chain_begins_anew_before_checks_and_padding_too() {
    let of = |entries: usize| {
        let inside = without_order(600, 4 << 20).map(|element| (17, Some(DATA + element * 8)));
        let outside = (0..entries).map(|at| (3 + (at % 4) as u64, None));
        let samples: Vec<_> = inside.chain(outside).collect();
        analyse(&run(&PADDED_ROWS, &samples), None, &TimerOptions::unlimited())
            .verdict
            .memory
            .expect("a share")
    };
    let (long, short) = (of(0), of(60));
    assert!(short.high > long.high + 0.05, "{short:?} {long:?}");
}

/// mov byte [rdi],1; add rdi,rdx; cmp rdi,rsi; jb 0
const STEPS: [u8; 11] = [0xc6, 0x07, 0x01, 0x48, 0x01, 0xd7, 0x48, 0x39, 0xf7, 0x72, 0xf5];

/// Steps of 7 and of 31 bytes have a divisor of one, of which no core turns so many in the time.
#[test]
fn a_step_that_changes_says_nothing_of_how_fast_a_loop_turns() {
    let of = |steps: &[u64]| {
        let at = |index: u64| {
            let step = steps[(index / 100) as usize % steps.len()];
            // A microsecond and a bit from sample to sample, a nanosecond a turn.
            index * 1_000_003 * 30 / step * step % (1 << 32)
        };
        // A store that waits to be written lets others pass, until too many do.
        let seen = (0..600).map(|index| (3, Some(DATA + at(index))));
        let samples: Vec<_> = seen.chain((0..1200).map(|index| (6 + 3 * (index % 2), None))).collect();
        analyse(&run(&STEPS, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let one = of(&[32]);
    assert!(one.high < 0.9, "one step: {one:?}");
    let several = of(&[7, 31]);
    // Stores may wait where no sample shows it.
    assert!(several.high - several.low > 0.6, "{several:?}");
}

/// rep stosb; ret
const FILL: [u8; 3] = [0xf3, 0xaa, 0xc3];

/// All samples of a string instruction lie on itself, wherever its data is: only its data and its speed tell.
#[test]
fn a_string_waits_by_where_its_data_lies_and_how_fast_it_goes() {
    let of = |at: &mut dyn Iterator<Item = u64>| {
        let samples: Vec<_> = at.map(|at| (0, Some(DATA + at))).collect();
        analyse(&run(&FILL, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let near = of(&mut without_order(600, 8 << 10));
    assert!(near.high < 0.1, "8 KiB: {near:?}");
    let second = of(&mut without_order(600, 160 << 10));
    assert!(second.low < 0.05 && (0.2..0.95).contains(&second.high), "160 KiB: {second:?}");
    let memory = of(&mut without_order(600, 128 << 20));
    assert!(memory.low > 0.2 && memory.high > 0.8, "128 MiB: {memory:?}");
    let paced = |bytes_per_ns: f64| {
        of(&mut (0..600).map(|index| (f64::from(index) * 1e6 * bytes_per_ns) as u64 % (1 << 30)))
    };
    // 32 bytes a cycle at 3 GHz are 96 a nanosecond.
    let slow = paced(4.0);
    assert!(slow.low > 0.8, "{slow:?}");
    let fast = paced(60.0);
    // Or 64 bytes, as nobody measured.
    assert!(fast.value < 0.1 && fast.high < 0.8, "{fast:?}");
}

/// What a chase does beside its load is known from its samples, and a hit of the load in proportion.
#[test]
fn a_chain_through_a_load_waits_by_the_samples_behind_it() {
    // mov rax,[rax]; imul rax,rcx; imul rax,rcx; imul rax,rcx; imul rax,rcx; dec rdx; jne 0
    let mut code = vec![0x48, 0x8b, 0x00];
    code.extend([0x48, 0x0f, 0xaf, 0xc1].repeat(4));
    code.extend([0x48, 0xff, 0xca, 0x75, 0xe8]);
    let of = |behind_load: usize| {
        let beside = [7, 11, 15, 19].into_iter().cycle().take(600 - behind_load);
        let samples: Vec<_> =
            std::iter::repeat_n(3, behind_load).chain(beside).map(|at| (at, None)).collect();
        analyse(&run(&code, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let far = of(580);
    assert!(far.low > 0.75 && far.value > 0.85, "{far:?}");
    let near = of(200);
    assert!(near.low < 0.05, "a third is the load's by itself: {near:?}");
}

/// A loop that no address tells anything of has a register that counts its turns: what its code cannot have taken was waiting,
/// though all samples lie on what hangs on the load.
#[test]
fn a_counter_tells_how_long_turns_take() {
    // mov rax,[rax]; mov rcx,[rax+32]; imul rcx,rcx; sub rdx,1; jne 0
    const COUNTED: [u8; 17] = [
        0x48, 0x8b, 0x00, 0x48, 0x8b, 0x48, 0x20, 0x48, 0x0f, 0xaf, 0xc9, 0x48, 0x83, 0xea, 0x01, 0x75, 0xef,
    ];
    let of = |turn_ns: f64| timed(&COUNTED, 11, turn_ns, |turn| 65536 - turn, None);
    let waiting = of(12.0);
    assert!(waiting.low > 0.6 && waiting.high < 0.97, "36 cycles, of which five are a hit: {waiting:?}");
    let busy = of(1.7);
    assert!(busy.value < 0.2 && busy.low == 0.0, "five cycles: {busy:?}");
}

/// The same loop without its counter: samples behind what hangs on a chase may be the chase's, wherever that goes.
#[test]
fn what_hangs_on_a_chase_may_hide_its_waiting() {
    // mov rax,[rax]; mov rcx,[rax+32]; imul rcx,rcx; test rax,rax; jne 0
    const LIST: [u8; 16] =
        [0x48, 0x8b, 0x00, 0x48, 0x8b, 0x48, 0x20, 0x48, 0x0f, 0xaf, 0xc9, 0x48, 0x85, 0xc0, 0x75, 0xf0];
    let of = |places: Option<u64>| {
        let at = without_order(600, places.unwrap_or(1)).map(|line| places.map(|_| DATA + line * 64));
        let samples: Vec<_> = at.map(|address| (11, address)).collect();
        analyse(&run(&LIST, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let lost = of(None);
    assert!(lost.low == 0.0 && lost.high > 0.6, "{lost:?}");
    // Its registers hold its links, so that samples on other instructions tell where it goes.
    let far = of(Some(4 << 20));
    assert!(far.low > 0.7, "256 MiB: {far:?}");
    let near = of(Some(100));
    assert!(near.high < 0.1, "6 KiB: {near:?}");
}

/// mov rax,rdx; add rdx,r8; shr rax,32; movzx eax,[r9+rax]; add rcx,rax; cmp rdi,rdx; jne 0
const LOOKUP: [u8; 23] = [
    0x48, 0x89, 0xd0, 0x4c, 0x01, 0xc2, 0x48, 0xc1, 0xe8, 0x20, 0x41, 0x0f, 0xb6, 0x04, 0x01, 0x48, 0x01,
    0xc1, 0x48, 0x39, 0xd7, 0x75, 0xe9,
];

/// What a lookup loads lies in a register of its address, and no lookup waits for the one before: with data in the first cache all
/// samples lie behind the load as well.
#[test]
fn a_lookup_is_no_chase() {
    let samples: Vec<_> = (0..600).map(|_| (15, None)).collect();
    let findings = analyse(&run(&LOOKUP, &samples), None, &TimerOptions::unlimited());
    let found = findings.verdict.memory.expect("a share");
    assert!(found.low < 0.4 && found.high > 0.95, "{found:?}");
    let access = findings.instructions[0].access;
    assert!(
        access.is_none_or(|access| access.pattern != crate::findings::Pattern::PointerChasing),
        "{access:?}"
    );
}

/// movsd xmm0,[rax]; mulsd xmm0,[rcx]; add rax,8; add rcx,rdi; addsd xmm1,xmm0; cmp rsi,rax; jne 0
const PRODUCT: [u8; 24] = [
    0xf2, 0x0f, 0x10, 0x00, 0xf2, 0x0f, 0x59, 0x01, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x01, 0xf9, 0xf2, 0x0f,
    0x58, 0xc8, 0x48, 0x39, 0xc6, 0x75, 0xe8,
];

/// Columns begin one element further each: eight bytes divide all distances, and a turn may move by a row.
#[test]
fn a_step_in_a_register_may_be_a_whole_row() {
    let samples: Vec<_> = without_order(600, 4 << 20).map(|element| (8, Some(DATA + element * 8))).collect();
    let findings = analyse(&run(&PRODUCT, &samples), None, &TimerOptions::unlimited());
    let found = findings.verdict.memory.expect("a share");
    assert!(found.low < 0.05 && found.high > 0.9, "{found:?}");
}

/// A core has loads of many turns under way: where samples of code that is no loop lie behind them, it may be as fast as it can
/// be, unless data comes from memory.
#[test]
fn loads_from_caches_may_be_hidden_in_code_that_is_no_loop() {
    // mov rax,[rdi]; test rax,rax; js 11; inc rcx; add rdi,rdx; cmp rdi,rsi; jb 0
    const CODE: [u8; 19] = [
        0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x78, 0x03, 0x48, 0xff, 0xc1, 0x48, 0x01, 0xd7, 0x48, 0x39, 0xf7,
        0x72, 0xed,
    ];
    let of = |lines: u64| {
        let samples: Vec<_> = without_order(600, lines).map(|line| (3, Some(DATA + line * 64))).collect();
        analyse(&run(&CODE, &samples), None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    };
    let cached = of(3 << 14);
    assert!(cached.value > 0.8 && cached.low < 0.4, "3 MiB: {cached:?}");
    let far = of(4 << 20);
    assert!(far.low > 0.6, "256 MiB: {far:?}");
}

/// Where lines probably cost less than the code takes, it is not said to wait in the middle of what is possible.
#[test]
fn lines_that_arrive_beside_the_code_are_probably_not_waited_for() {
    // addsd xmm0,[rdi]; mulsd xmm0,xmm1; add rdi,8; cmp rdi,rsi; jb 0
    let code = [
        0xf2, 0x0f, 0x58, 0x07, 0xf2, 0x0f, 0x59, 0xc1, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x72, 0xef,
    ];
    let samples: Vec<_> = without_order(600, 40 << 10).map(|element| (4, Some(DATA + element * 8))).collect();
    let found = analyse(&run(&code, &samples), None, &TimerOptions::unlimited()).verdict.memory;
    let found = found.expect("a share");
    assert!(found.value < 0.02 && found.high > 0.05, "{found:?}");
}

/// What does not depend on where samples land is not moved by chance; how samples divide between blocks is.
#[test]
fn chance_moves_what_is_counted() {
    let block = |value: f64, is_counted: bool| WaitBounds { value, low: value, high: value, is_counted };
    let of = |blocks: &[(WaitBounds, f64)]| MemoryBounds::of(blocks.iter().copied(), 100).by_chance;
    assert_eq!(of(&[(block(0.5, false), 100.0)]), 0.0);
    assert!((of(&[(block(0.5, true), 100.0)]) - 1.0).abs() < 1e-9);
    let between = of(&[(block(1.0, false), 50.0), (block(0.0, false), 50.0)]);
    assert!((between - 1.0).abs() < 1e-9, "{between}");
    assert_eq!(of(&[(block(0.0, true), 100.0)]), 1.0);
    // What nobody could blame.
    let unknown = MemoryBounds::of([(block(0.0, false), 60.0)].into_iter(), 100);
    assert!((unknown.high - 0.4).abs() < 1e-9 && (unknown.by_chance - 0.4).abs() < 1e-9, "{unknown:?}");
}

#[test]
fn no_end_of_narrow_bounds_is_further_away_than_is_promised() {
    let bounds = |low: f64, high: f64| WaitBounds { value: low, low, high, is_counted: false };
    assert!((bounds(0.66, 0.84).least_found() - 0.69).abs() < 1e-9);
    assert_eq!(bounds(0.66, 0.8).least_found(), 0.66);
    assert_eq!(bounds(0.2, 0.7).least_found(), 0.2, "nobody calls that high");
}
