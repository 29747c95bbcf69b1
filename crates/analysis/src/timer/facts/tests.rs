//! What a turn of known code takes, by what was measured of a core.

use code::blame::Routine;

use super::{CoreCosts, TurnCycles};
use crate::timer::entries::LoopEntries;

/// vmovups [rdi],zmm0; add rdi,64; cmp rdi,rsi; jb 0
const WIDE_STORES: [u8; 15] =
    [0x62, 0xf1, 0x7c, 0x48, 0x11, 0x07, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x72, 0xf1];

/// vaddpd zmm0,zmm0,zmm1; vaddpd zmm2,zmm2,zmm1; vaddpd zmm3,zmm3,zmm1; vaddpd zmm4,zmm4,zmm1; add rdi,64; cmp rdi,rsi; jb 0,
/// which is not one chain of more than two cycles
const WIDE_SUMS: [u8; 33] = [
    0x62, 0xf1, 0xfd, 0x48, 0x58, 0xc1, 0x62, 0xf1, 0xed, 0x48, 0x58, 0xd1, 0x62, 0xf1, 0xe5, 0x48, 0x58,
    0xd9, 0x62, 0xf1, 0xdd, 0x48, 0x58, 0xe1, 0x48, 0x83, 0xc7, 0x40, 0x48, 0x39, 0xf7, 0x72, 0xdf,
];

fn turn(code: &[u8], store_bytes_per_cycle: Option<f64>) -> TurnCycles {
    let costs =
        CoreCosts { widest: store_bytes_per_cycle.map(|store| (128.0, store)), ..CoreCosts::default() };
    let routine = Routine::new(code, 0x1000);
    TurnCycles::of(&routine.blocks()[0], &costs, &LoopEntries::ONCE)
}

/// Cores store 64 bytes at once, or in two halves: what the first cache was measured to take says which.
#[test]
fn the_widest_stores_take_what_was_measured_of_the_first_cache() {
    let (whole, halves) = (turn(&WIDE_STORES, Some(64.0)), turn(&WIDE_STORES, Some(32.0)));
    assert!((whole.usual - 1.0).abs() < 0.01 && (halves.usual - 2.0).abs() < 0.01, "{whole:?} {halves:?}");
    assert!(halves.least > whole.most / 2.0 && halves.least > 1.5, "{halves:?}");
}

/// What was not measured may be done at once or in halves.
#[test]
fn wide_arithmetic_nobody_measured_is_known_to_a_factor_of_two() {
    let sums = turn(&WIDE_SUMS, Some(64.0));
    assert!(sums.usual >= 4.0 && sums.least <= 3.0, "{sums:?}");
    let unmeasured = turn(&WIDE_STORES, None);
    assert!(unmeasured.usual >= 2.0 && unmeasured.least <= 1.0, "{unmeasured:?}");
}

/// rep stosb; ret
#[test]
fn a_string_on_a_core_nobody_measured_may_move_twice_as_much() {
    let fill = [0xf3, 0xaa, 0xc3];
    let (known, unknown) = (turn(&fill, Some(32.0)), turn(&fill, None));
    assert!((known.usual - unknown.usual).abs() < 1e-9 && unknown.least < 0.6 * known.least);
}
