//! At which level it waits, in a sentence.

use analysis::findings::{Findings, HeldBack, KnownLimits, LevelFindings};
use trust::LevelScore;

use crate::layout::figures::percent_text;

/// Parts below this share of user time are left out beside a larger one.
const WORTH: f64 = 0.03;

/// `memory 61 % of user time, L3 14 %; its data lies near a capacity: perhaps L3`; `L2, if at all` where it may wait as well as not; nothing where it hardly waits.
pub(crate) fn sentence(findings: &Findings) -> Option<String> {
    let is_held = matches!(findings.verdict.held_back, HeldBack::Yes | HeldBack::Partly);
    match &findings.levels {
        KnownLimits::Value(levels) => {
            let is_open = findings.verdict.held_back == HeldBack::Unknown;
            let perhaps = levels.perhaps.filter(|_| is_open).map(|at| format!("{}, if at all.", at.label()));
            perhaps.or_else(|| known(levels).filter(|_| is_held))
        }
        KnownLimits::Missing(reason) => is_held.then(|| format!("not known: {reason}.")),
    }
}

fn known(levels: &LevelFindings) -> Option<String> {
    let Some(most) = levels.most() else {
        return (levels.unknown >= WORTH)
            .then(|| "not known: too few samples gave the address they waited for.".to_owned());
    };
    let mut text = format!("{} {} % of user time", most.level.label(), percent_text(most.share));
    for part in levels.parts.iter().skip(1).filter(|part| part.share >= WORTH) {
        text += &format!(", {} {} %", part.level.label(), percent_text(part.share));
    }
    if levels.unknown >= WORTH {
        text += &format!(", not known {} %", percent_text(levels.unknown));
    }
    if let Some(or) = levels.or {
        text += &format!("; its data lies near a capacity: perhaps {}", or.label());
    }
    if let Some(by_time) = levels.by_time {
        text += &format!("; how long its turns take speaks for {} instead", by_time.label());
    }
    if let Some(LevelScore { kernels, right, .. }) = levels.earned {
        text += &format!(". Levels were right for {right} of {kernels} random kernels here");
    }
    Some(text + ".")
}
