//! A comparison in a sentence: how much it changed, and why.

use analysis::compare::{ChangeCause, ChangePart, CompareJudgement, Comparison};

use super::{figures::percent_text, signature::function_name};

/// Columns that a function's name may take in the sentence.
const ROOM: usize = 60;

/// A part of the change from which on it is all of it.
const ALL: f64 = 0.95;

/// Parts that make up so much explain the change.
const ENOUGH: f64 = 0.8;

/// Most parts that are named.
const MOST: usize = 3;

/// `12 % slower, all of it waiting on loads in probe.`, or why that cannot be said.
pub fn sentence(comparison: &Comparison) -> String {
    let (ratio, word) = match &comparison.judgement {
        CompareJudgement::Slower { ratio, .. } => (*ratio, "slower"),
        CompareJudgement::Faster { ratio, .. } => (*ratio, "faster"),
        CompareJudgement::Same { ratio, resolution } => {
            return format!(
                "No change that can be told: wall time differs by {} %, and below {} % nothing can be told here.",
                percent_text(ratio.abs()),
                percent_text(*resolution)
            );
        }
        CompareJudgement::Unknown(reason) => {
            return format!("Whether it changed cannot be told: {reason}.");
        }
    };
    format!("{} % {word}{}.", percent_text(ratio), why(&comparison.causes))
}

/// What makes up the change, beginning with a comma; nothing if nothing stands out.
fn why(causes: &[ChangePart]) -> String {
    let mut named: Vec<String> = Vec::new();
    let mut sum = 0.0;
    for part in causes.iter().take(MOST) {
        let share = if named.is_empty() && part.share >= ALL {
            "all of it".to_owned()
        } else {
            format!("{} % of it", percent_text(part.share))
        };
        named.push(format!("{share} {}", cause(&part.cause)));
        sum += part.share;
        if sum >= ENOUGH {
            break;
        }
    }
    if named.is_empty() { String::new() } else { format!(", {}", named.join(", ")) }
}

/// `waiting on loads in probe`.
pub fn cause(cause: &ChangeCause) -> String {
    match cause {
        ChangeCause::Activity { activity, function } => {
            format!("{} in {}", activity.label(), function_name(function, ROOM))
        }
        ChangeCause::Kernel => "in the kernel".to_owned(),
        ChangeCause::Blocked => "blocked off the CPU".to_owned(),
        ChangeCause::Preempted => "waiting for a CPU".to_owned(),
    }
}

/// `3 runs of ./old (a.sqlite)` and the like for both sides.
pub fn sides(comparison: &Comparison) -> String {
    let side = |runs: usize, word: &str, name: &Option<String>| {
        let runs = super::prose::counted(runs, "run");
        let name =
            name.as_ref().map(|name| format!(" ({})", super::prose::visible(name))).unwrap_or_default();
        format!("{runs} {word}{name}")
    };
    let itself =
        comparison.itself.map(|ratio| format!("; before differed from itself by {} %", percent_text(ratio)));
    format!(
        "{}, {}{}; ± is a 95 % interval from the noise that is known",
        side(comparison.runs_before, "before", &comparison.before),
        side(comparison.runs_after, "after", &comparison.after),
        itself.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use analysis::{compare::compare, findings::ThreadActivity};

    use super::*;

    fn part(activity: ThreadActivity, function: &str, share: f64) -> ChangePart {
        let cause = ChangeCause::Activity { activity, function: function.to_owned() };
        ChangePart { cause, ns: share * 1e9, share }
    }

    #[test]
    fn a_change_is_said_with_its_cause() {
        let mut comparison = compare(&[], &[]);
        assert!(
            sentence(&comparison).starts_with("Whether it changed cannot be told:"),
            "{}",
            sentence(&comparison)
        );
        comparison.judgement = CompareJudgement::Slower { ratio: 0.12, resolution: 0.01 };
        assert_eq!(sentence(&comparison), "12 % slower.");
        comparison.causes =
            vec![part(ThreadActivity::Loads, "probe", 0.98), part(ThreadActivity::Executing, "build", 0.02)];
        assert_eq!(sentence(&comparison), "12 % slower, all of it waiting on loads in probe.");
        comparison.causes[0].share = 0.7;
        comparison.causes[1].share = 0.3;
        assert_eq!(
            sentence(&comparison),
            "12 % slower, 70 % of it waiting on loads in probe, 30 % of it executing in build."
        );
        comparison.judgement = CompareJudgement::Same { ratio: -0.004, resolution: 0.015 };
        assert!(
            sentence(&comparison).contains("differs by 0.4 %, and below 1.5 % nothing"),
            "{}",
            sentence(&comparison)
        );
    }
}
