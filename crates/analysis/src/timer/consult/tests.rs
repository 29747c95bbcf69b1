//! What a verdict makes of what random kernels showed.

use record::{
    relief::{Bounded, ReliefCost, ReliefRecord, RelievedLoop},
    run::Run,
};
use trust::{Flaw, PartErrors};

use super::*;
use crate::{
    findings::{Findings, HeldBack},
    timer::{TimerOptions, analyse, tests::run},
};

/// mov r8,[r8]; mov r8,[r8]; add rax,1; cmp rax,rsi; jb 0; ret: pointers all over 256 MiB.
const CHASE: [u8; 16] =
    [0x4d, 0x8b, 0x00, 0x4d, 0x8b, 0x00, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf1, 0xc3];

fn chase(unseen: KnownLimits<OutOfSample>, shares: KnownLimits<Standing>) -> Findings {
    analyse(&chased(), None, &TimerOptions { unseen, trust: shares, ..TimerOptions::default() })
}

fn chased() -> Run {
    let scattered =
        |index: u64| 0x7000_0000_0000 + (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) / 64 * 64;
    let samples: Vec<_> = (0..600).map(|i| (if i % 2 == 0 { 3 } else { 6 }, Some(scattered(i)))).collect();
    run(&CHASE, &samples)
}

/// A measured loop of the chase.
fn relieved(share: Option<Bounded>) -> Run {
    let mut run = chased();
    let function = &run.functions[0];
    let found = RelievedLoop {
        module: function.module,
        ranges: vec![(function.start, function.end)],
        tid: run.threads[0].tid,
        stretches: Vec::new(),
        near_ns: None,
        turn_ns: None,
        share,
        has_wild_branches: false,
        has_atomics: false,
        refusal: None,
    };
    run.relief = ReliefRecord::Tried { loops: vec![found], cost: ReliefCost::default() };
    run
}

#[test]
fn a_loop_that_was_relieved_is_trusted_as_relieved_kernels_were() {
    let mut both = OutOfSample::flawless();
    (both.with_relief, both.runs) = (true, 7);
    let options = TimerOptions {
        unseen: all_but(TrustPart::Class(AccessClass::Chases), 0.5),
        unseen_with_relief: Some(both),
        ..TimerOptions::default()
    };
    let reason = |run: &Run| analyse(run, None, &options).verdict.reasons[0].clone();
    let by_both = reason(&relieved(Some(Bounded { value: 0.95, low: 0.93, high: 0.97 })));
    assert!(by_both.contains("relieved as well") && by_both.contains("7 runs"), "{by_both}");
    for alone in [chased(), relieved(None)] {
        let by_samples = reason(&alone);
        assert!(!by_samples.contains("relieved") && by_samples.contains("50 points"), "{by_samples}");
    }
}

fn nothing<T>() -> KnownLimits<T> {
    KnownLimits::Missing("nobody tried".to_owned())
}

/// Everything right but one part, of which nine of ten are right to `within`, and half to half of that.
fn all_but(part: TrustPart, within: f64) -> KnownLimits<OutOfSample> {
    let mut found = OutOfSample::flawless();
    for one in found.parts.iter_mut().filter(|one| one.part == part) {
        let errors = ErrorSummary {
            median: Some(within / 2.0),
            within: Some(within),
            worst: Some(within + 0.1),
            ..one.errors
        };
        *one = PartErrors { part, errors, narrow: errors };
    }
    KnownLimits::Value(found)
}

fn broken() -> KnownLimits<Standing> {
    let flaw = Flaw::DoesNotFollow { worst: 0.5 };
    let (why, shown_by) = ("is off by 50 points".to_owned(), "store over 128 MiB".to_owned());
    KnownLimits::Value(Standing {
        indicator: TimerOptions::INDICATOR,
        purpose: "shares".to_owned(),
        trust: Trust::Broken { flaw, why, shown_by },
    })
}

#[test]
fn a_verdict_asks_for_the_classes_and_levels_its_time_is_in() {
    let findings = chase(all_but(TrustPart::Class(AccessClass::Stores), 0.5), broken());
    let parts: Vec<TrustPart> = findings.verdict.consulted.iter().map(|one| one.part).collect();
    let chases = TrustPart::Class(AccessClass::Chases);
    assert!(parts.contains(&chases) && parts.contains(&TrustPart::Level(KernelPlace::Memory)), "{parts:?}");
    // Stores are broken, and the whole with them as long as it is not told apart: a chase stores nothing.
    assert_eq!(
        (findings.verdict.held_back, findings.verdict.confidence),
        (HeldBack::Yes, Confidence::High),
        "{:?}",
        findings.verdict.reasons
    );
    let reasons = findings.verdict.reasons.join(" ");
    assert!(
        reasons.contains("9 of 10 shares were right to 0 points") && reasons.contains("chases"),
        "{reasons}"
    );
}

#[test]
fn a_class_that_is_broken_leaves_its_time_open_and_is_named() {
    let findings = chase(all_but(TrustPart::Class(AccessClass::Chases), 0.5), nothing());
    assert_eq!(findings.verdict.held_back, HeldBack::Unknown);
    let memory = findings.verdict.memory.unwrap();
    assert!(memory.low < 0.05, "{memory:?}");
    let reasons = findings.verdict.reasons.join(" ");
    assert!(reasons.contains("Of chases clock samples tell nothing on this machine"), "{reasons}");
}

#[test]
fn nothing_is_sure_that_is_off_or_was_not_tried() {
    let memory = TrustPart::Level(KernelPlace::Memory);
    let off = chase(all_but(memory, 0.2), nothing());
    assert_eq!((off.verdict.held_back, off.verdict.confidence), (HeldBack::Yes, Confidence::Medium));
    assert!(off.verdict.reasons.join(" ").contains("data in memory"), "{:?}", off.verdict.reasons);
    let mut unseen = OutOfSample::flawless();
    unseen.parts.retain(|one| one.part != memory);
    let untried = chase(KnownLimits::Value(unseen), nothing());
    assert_eq!(untried.verdict.confidence, Confidence::Medium);
    assert!(untried.verdict.reasons.join(" ").contains("Too few random kernels with data in memory"));
    let never = chase(nothing(), nothing());
    assert_eq!(never.verdict.confidence, Confidence::Medium);
    assert!(never.verdict.consulted.is_empty());
    // Without anything told apart, an instrument that fails on one kernel fails.
    assert_eq!(chase(nothing(), broken()).verdict.held_back, HeldBack::Unknown);
}

/// Only an answer with a narrow interval may be called sure: how right such answers were is what counts for it, not what those
/// were worth that never could be.
#[test]
fn a_share_that_is_known_closely_is_held_against_others_that_were() {
    let memory = TrustPart::Level(KernelPlace::Memory);
    let with_narrow = |within: f64, narrow: ErrorSummary| {
        let KnownLimits::Value(mut unseen) = all_but(memory, within) else { unreachable!("all but one") };
        unseen.parts.iter_mut().filter(|one| one.part == memory).for_each(|one| one.narrow = narrow);
        chase(KnownLimits::Value(unseen), nothing()).verdict
    };
    let good = OutOfSample::flawless().part(memory);
    let sure = with_narrow(0.25, good);
    assert_eq!(sure.confidence, Confidence::High, "{:?}", sure.reasons);
    assert!(sure.reasons.join(" ").contains("known as closely, 9 of 10"), "{:?}", sure.reasons);
    assert_eq!(with_narrow(0.25, ErrorSummary::default()).confidence, Confidence::Medium);
    // A level that tells nothing at all does not become sure by a few that were.
    assert_eq!(with_narrow(0.5, good).held_back, HeldBack::Unknown);
}
