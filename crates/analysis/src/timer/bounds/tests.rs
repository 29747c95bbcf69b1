//! Between which shares the waiting of loops lies whose data and code are known.

use crate::{
    findings::TimeShare,
    timer::{TimerOptions, analyse, tests::run},
};

const DATA: u64 = 0x7000_0000_0000;

/// What is said of a loop whose first instruction ends at `behind`, sampled at places `step` apart all over `lines` of them.
fn share(code: &[u8], behind: u64, step: u64, lines: u64) -> TimeShare {
    share_beside(code, behind, step, lines, &[])
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
