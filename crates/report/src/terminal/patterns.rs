//! Known diseases of programs: those that a run has, and what each needs on a machine.

use analysis::{
    findings::Confidence,
    patterns::{
        ListedPattern, PatternEvidence, PatternFinding, PatternState, PatternsAnswer, RegionPatterns,
        SignLimit, SignSource,
    },
};
use record::methods::MethodState;

use crate::layout::{
    figures::{number, percent_text},
    prose::{visible, wrap, wrap_in},
    style::{HEADING, QUIET},
};

/// Those found, with evidence; with `verbose` also those that were not and those that could not be judged. Nothing where
/// there is nothing to say.
pub fn text(patterns: &[PatternFinding], verbose: bool, columns: usize) -> String {
    let of = |state: PatternState| patterns.iter().filter(move |found| found.state == state);
    let mut out = String::new();
    if of(PatternState::Found).next().is_some() || (verbose && !patterns.is_empty()) {
        out += &format!("\n{}", wrap_in(HEADING, "", "Patterns", columns));
    }
    for found in of(PatternState::Found) {
        out += &wrap("  • ", &headline(found), columns);
        out += &wrap_in(QUIET, "    ", &evidence(found), columns);
        out += &wrap("    ", &found.advice, columns);
    }
    if !verbose {
        return out;
    }
    for absent in of(PatternState::Absent) {
        out += &wrap_in(QUIET, "  ", &format!("not {}: {}", absent.title, evidence(absent)), columns);
    }
    for open in of(PatternState::Unknown) {
        let needs = open.needs.join("; or ");
        let sentence = format!("{} cannot be judged; it would take: {}", open.title, visible(&needs));
        out += &wrap_in(QUIET, "  ", &sentence, columns);
    }
    out
}

/// Those found in each region.
pub fn by_region(regions: &[RegionPatterns], columns: usize) -> String {
    let mut out = String::new();
    for region in regions {
        let title = format!("Patterns in {}", visible(&region.region));
        out += &format!("\n{}", wrap_in(HEADING, "", &title, columns));
        let found = region.patterns.iter().filter(|found| found.state == PatternState::Found);
        let before = out.len();
        for found in found {
            out += &wrap("  • ", &headline(found), columns);
            out += &wrap_in(QUIET, "    ", &evidence(found), columns);
        }
        if out.len() == before {
            out += &wrap_in(QUIET, "  ", "none found", columns);
        }
    }
    out
}

/// Which, where, how sure, and what there is to win.
fn headline(found: &PatternFinding) -> String {
    let place = found.place.as_ref().map(|place| format!(" in {}", visible(place))).unwrap_or_default();
    let sure = match found.confidence {
        Some(Confidence::High) => "sure",
        Some(Confidence::Medium) => "fairly sure",
        _ => "not sure",
    };
    let at_most = found.win_at_most.map(|win| format!(", {} % to win at most", percent_text(win)));
    let about = || found.win_about.map(|win| format!(", about {} % to win", percent_text(win)));
    let win = at_most.or_else(about);
    format!("{} ({}){place}: {sure}{}", found.title, found.class.label(), win.unwrap_or_default())
}

/// Signs beside their limits.
fn evidence(found: &PatternFinding) -> String {
    let one = |sign: &PatternEvidence| {
        let (word, limit) = match sign.limit {
            SignLimit::AtLeast(limit) => ("from", limit),
            SignLimit::AtMost(limit) => ("up to", limit),
        };
        // Everything between 0 and 1 is a share.
        let shown = |value: f64| match limit <= 1.0 {
            true => format!("{} %", percent_text(value)),
            false => number(Some(value)).text().to_owned(),
        };
        let between = sign.interval.filter(|(low, high)| high > low);
        let between = between.map(|(low, high)| format!(" ({} to {})", shown(low), shown(high)));
        let (value, limit) = (shown(sign.value), shown(limit));
        format!("{}: {value}{}, a sign {word} {limit}", sign.about, between.unwrap_or_default())
    };
    found.evidence.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// All patterns, what each needs and what would unlock it.
pub fn list(answer: &PatternsAnswer, columns: usize) -> String {
    let parts: Vec<String> = answer.patterns.iter().map(|pattern| listed(pattern, columns)).collect();
    parts.join("\n")
}

fn listed(pattern: &ListedPattern, columns: usize) -> String {
    let mut out = wrap_in(HEADING, "", &format!("{} ({})", pattern.title, pattern.class.label()), columns);
    out += &wrap("  ", &pattern.about, columns);
    out += &wrap("  ", &format!("Then: {}", pattern.advice), columns);
    for signature in &pattern.signatures {
        let from = match signature.from {
            SignSource::Samples => "samples",
            SignSource::Events => "events",
            SignSource::Scaling => "several numbers of threads",
        };
        let signs = signature.signs.join(" and ");
        let here = match &signature.state {
            MethodState::Allowed => format!("here: {}", signature.command),
            MethodState::Blocked { why, unlock_with } => {
                let unlock = unlock_with.as_ref().map(|command| format!("; it takes: {command}"));
                format!("blocked here: {}{}", visible(why), unlock.unwrap_or_default())
            }
            MethodState::Missing { why } => format!("not here: {}", visible(why)),
        };
        out += &wrap_in(QUIET, "  ", &format!("{from}: {signs}. {here}"), columns);
    }
    let scenarios = format!(
        "Scenario with it: {}; like it and without: {}. {}",
        pattern.has, pattern.looks_like, pattern.difference
    );
    out + &wrap_in(QUIET, "  ", &format!("{scenarios} {}", pattern.source), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::patterns::{IndicatorValue, Indicators, judge};

    fn found() -> Vec<PatternFinding> {
        let mut indicators = Indicators::new("a PMU");
        let share = IndicatorValue::new("threads lack", 0.3, Confidence::Medium).between(0.25, 0.35);
        indicators.put("imbalance", share.at(Some("solve\u{1b}[31m".to_owned())));
        indicators
            .put("branch_waiting", IndicatorValue::new("waiting behind branches", 0.02, Confidence::High));
        judge(&indicators)
    }

    #[test]
    fn what_is_found_has_evidence_trust_and_what_it_would_win() {
        let brief = text(&found(), false, 200);
        for expected in [
            "load imbalance (work problem)",
            "in solve",
            "fairly sure",
            "30 % to win",
            "25 % to 35 %",
            "from 15 %",
        ] {
            assert!(brief.contains(expected), "{expected}: {brief}");
        }
        assert!(!brief.contains('\u{1b}') || !brief.contains("solve\u{1b}"), "{brief}");
        assert!(!brief.contains("control flow") && !brief.contains("cannot be judged"), "{brief}");
    }

    #[test]
    fn everything_says_what_is_not_and_what_it_would_take() {
        let all = text(&found(), true, 200);
        assert!(all.contains("not control flow: waiting behind branches: 2"), "{all}");
        assert!(all.contains("TLB thrashing cannot be judged; it would take: a PMU"), "{all}");
        assert_eq!(text(&[], true, 80), "");
    }
}
