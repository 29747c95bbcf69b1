//! Loops whose branches hang on chains of results.

use crate::{
    patterns::PatternState,
    reading::Reading,
    timer::{TimerOptions, analyse, tests::run},
};

/// The inner loop of a Mandelbrot set as gcc makes it, from behind its branch: y and x anew, another turn?, x² + y² > 4?
const MANDELBROT: [u8; 65] = [
    0xf2, 0x0f, 0x58, 0xd2, 0xf2, 0x0f, 0x5c, 0xe5, 0x83, 0xc0, 0x01, 0xf2, 0x0f, 0x59, 0xda, 0x66, 0x0f,
    0x28, 0xd4, 0xf2, 0x0f, 0x58, 0xd0, 0xf2, 0x0f, 0x58, 0xd9, 0x39, 0xc7, 0x74, 0x21, 0x66, 0x0f, 0x28,
    0xe2, 0x66, 0x0f, 0x28, 0xeb, 0xf2, 0x0f, 0x59, 0xe2, 0xf2, 0x0f, 0x59, 0xeb, 0x66, 0x0f, 0x28, 0xf4,
    0xf2, 0x0f, 0x58, 0xf5, 0x66, 0x0f, 0x2f, 0xf7, 0x76, 0xc3, 0xc3, 0x66, 0x90, 0xc3,
];

#[test]
fn what_a_branch_waits_for_that_always_goes_on_is_the_chain_before_it() {
    let at = |i: u64| [0x00, 0x00, 0x3b, 0x00, 0x08, 0x17, 0x33, 0x00, 0x1b, 0x00][i as usize % 10];
    let samples: Vec<_> = (0..1000).map(|i| (at(i), None)).collect();
    let split = analyse(&run(&MANDELBROT, &samples), None, &TimerOptions::default()).overall.unwrap();
    assert!(split.branches < 0.02 && split.chains > 0.4, "{split:?}");
}

/// mulsd xmm0,xmm1, three times; comisd xmm0,xmm2; jbe 23; add eax,1; jmp 0; 23: add ebx,1; jmp 0
const CARRIED: [u8; 28] = [
    0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x59, 0xc1, 0xf2, 0x0f, 0x59, 0xc1, 0x66, 0x0f, 0x2f, 0xc2, 0x76,
    0x05, 0x83, 0xc0, 0x01, 0xeb, 0xe9, 0x83, 0xc3, 0x01, 0xeb, 0xe4,
];

/// How samples of a loop whose branch goes both ways are read.
fn both_ways(code: &[u8]) -> Reading {
    let at = |i: u64| [21, 26, 18, 23, 21, 26, 16, 4][i as usize % 8];
    let samples: Vec<_> = (0..800).map(|i| (at(i), None)).collect();
    Reading::of(&run(code, &samples), None, &TimerOptions::unlimited())
}

#[test]
fn a_branch_that_goes_both_ways_on_what_the_loop_waits_for_anyway_is_left_open() {
    let found = both_ways(&CARRIED);
    let split = found.findings.overall.unwrap();
    assert!(split.branches < 0.02 && split.undecided > 0.4, "{split:?}");
    let pattern = found.patterns.iter().find(|one| one.name == "control-flow").unwrap();
    assert_eq!(pattern.state, PatternState::Absent);
    let evidence = &pattern.evidence[0];
    assert!(evidence.about.contains("the chains of results before them"), "{evidence:?}");
    assert!(evidence.interval.unwrap().1 > 0.4, "{evidence:?}");
}

#[test]
fn a_chain_that_begins_anew_each_turn_is_waited_for_only_behind_a_wrong_guess() {
    // movapd xmm0,xmm3 in place of the first multiplication.
    let mut code = CARRIED;
    code[..4].copy_from_slice(&[0x66, 0x0f, 0x28, 0xc3]);
    let split = both_ways(&code).findings.overall.unwrap();
    assert!(split.branches > 0.4 && split.undecided < 0.02, "{split:?}");
}

/// imul edi,edi,...; add edi,...; jns 19; add eax,1; jmp 0; 19: add ebx,1; jmp 0: a random number decides.
const RANDOM: [u8; 24] = [
    0x69, 0xff, 0x0d, 0x66, 0x19, 0x00, 0x81, 0xc7, 0x5f, 0xf3, 0x6e, 0x3c, 0x79, 0x05, 0x83, 0xc0, 0x01,
    0xeb, 0xed, 0x83, 0xc3, 0x01, 0xeb, 0xe8,
];

#[test]
fn what_is_decided_soon_is_of_the_branch() {
    let at = |i: u64| [17, 22, 14, 19, 17, 22, 12, 6][i as usize % 8];
    let samples: Vec<_> = (0..800).map(|i| (at(i), None)).collect();
    let split = analyse(&run(&RANDOM, &samples), None, &TimerOptions::default()).overall.unwrap();
    assert!(split.branches > 0.4 && split.undecided < 0.02, "{split:?}");
}

/// call rbx; test eax,eax; jle 14; mov ecx,[rsi]; add rsi,4; jmp 0; nop; 14: mov ecx,[rdi]; add rdi,4; jmp 0: a merge, both of
/// whose ways begin with a load.
const MERGE: [u8; 22] = [
    0xff, 0xd3, 0x85, 0xc0, 0x7e, 0x08, 0x8b, 0x0e, 0x48, 0x83, 0xc6, 0x04, 0xeb, 0xf2, 0x8b, 0x0f, 0x48,
    0x83, 0xc7, 0x04, 0xeb, 0xea,
];

#[test]
fn a_load_behind_a_guess_may_be_the_guess() {
    let scattered = |i: u64| 0x7000_0000_0000 + (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) / 64 * 64;
    let at = |i: u64| [8, 16, 8, 16, 8, 16, 4, 20][i as usize % 8];
    let samples: Vec<_> = (0..800).map(|i| (at(i), matches!(at(i), 8 | 16).then(|| scattered(i)))).collect();
    let found = Reading::of(&run(&MERGE, &samples), None, &TimerOptions::unlimited());
    let pattern = |name: &str| found.patterns.iter().find(|one| one.name == name).unwrap();
    let latency = pattern("latency-bound");
    assert_eq!(latency.state, PatternState::Found, "{latency:?}");
    assert_eq!(latency.confidence, Some(crate::findings::Confidence::Low), "{latency:?}");
    assert!(latency.evidence[0].about.contains("wrong guesses"), "{latency:?}");
    let branches = &pattern("control-flow").evidence[0];
    assert!(branches.value < 0.05 && branches.interval.unwrap().1 > 0.15, "{branches:?}");
}
