//! Two threads that write into one line, made by hand.

use record::ids::ThreadId;

use super::*;
use crate::timer::tests::run;

/// mov rax,[rdi]; mov [rdi],rax; add rcx,rdx; cmp rcx,rsi; jb 0; ret
const CODE: [u8; 15] =
    [0x48, 0x8b, 0x07, 0x48, 0x89, 0x07, 0x48, 0x01, 0xd1, 0x48, 0x39, 0xf1, 0x72, 0xf2, 0xc3];
/// Behind each of its instructions: all get the same, so nothing waits.
const BEHIND: [u64; 4] = [3, 6, 9, 12];

fn reading(apart: u64) -> Reading {
    let sample = |index: u64| {
        let place = BEHIND[(index / 2 % 4) as usize];
        (place, (place <= 6).then_some(0x1000_0000 + index % 2 * apart))
    };
    let samples: Vec<_> = (0..800).map(sample).collect();
    let mut run = run(&CODE, &samples);
    let second = record::run::RecordedThread { tid: run.threads[0].tid + 1, ..run.threads[0].clone() };
    run.threads.push(second);
    run.samples.thread = (0..800).map(|index| ThreadId(index % 2)).collect();
    Reading::of(&run, None, &TimerOptions::default())
}

#[test]
fn advice_on_a_shared_line_stands_alone_and_lowers_the_confidence() {
    let shared = reading(8);
    assert_eq!(shared.findings.verdict.held_back, HeldBack::No, "{:?}", shared.findings.overall);
    let advice = &shared.findings.advice;
    assert!(advice[0].contains("give each its own line"), "{advice:?}");
    assert!(!advice.iter().any(|text| text.contains("not what holds it back")), "{advice:?}");
    assert_eq!(shared.findings.verdict.confidence, Confidence::Medium);
    assert!(shared.findings.verdict.reasons.iter().any(|reason| reason.contains("share lines")));
}

#[test]
fn lines_apart_leave_the_verdict_as_it_is() {
    let apart = reading(256);
    assert_eq!(apart.findings.verdict.held_back, HeldBack::No);
    assert!(apart.findings.advice.iter().any(|text| text.contains("not what holds it back")));
    assert!(!apart.findings.verdict.reasons.iter().any(|reason| reason.contains("share lines")));
}
