//! What relief found, beside what samples say.

use analysis::findings::{Agreement, Findings, ReliefFindings, RelievedFinding, TimeShare};

use crate::{
    layout::figures::percent_text,
    layout::prose::{visible, wrap_in},
    layout::signature::function_name,
    layout::style::{HEADING, PLAIN},
};

/// All of it under a heading; nothing where nobody asked and nothing is open.
pub fn text(findings: &Findings, columns: usize) -> String {
    let lines = sentences(&findings.relief);
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.into_iter().map(|line| wrap_in(PLAIN, "  ", &super::said(&line, findings), columns));
    wrap_in(HEADING, "", "Relief", columns) + &lines.collect::<String>()
}

/// A sentence for each loop, what it cost, and what was refused.
pub(crate) fn sentences(relief: &ReliefFindings) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    all.extend(relief.hint.clone());
    all.extend(relief.refusal.as_ref().map(|reason| format!("No relief: {reason}.")));
    all.extend(relief.loops.iter().map(|found| format!("{}.", sentence(found))));
    if let Some(cost) = relief.cost {
        let ms = |ns: u64| ns as f64 / 1e6;
        all.push(format!(
            "The program stood still for {:.1} ms in all ({:.1} at most at a time) for {} copies, and wrote to {} pages while \
             they lived.",
            ms(cost.paused_ns),
            ms(cost.longest_pause_ns),
            cost.copies,
            cost.page_faults
        ));
    }
    all
}

/// One line for a screen; none if there is nothing to say.
pub(super) fn short(relief: &ReliefFindings) -> Option<String> {
    if let Some(found) = relief.loops.first() {
        return Some(sentence(found));
    }
    relief.refusal.as_ref().map(|reason| format!("none: {reason}")).or_else(|| relief.hint.clone())
}

fn range(share: &TimeShare) -> String {
    format!("{} % ({} to {})", percent_text(share.value), percent_text(share.low), percent_text(share.high))
}

fn sentence(found: &RelievedFinding) -> String {
    let name = function_name(&found.name, 40);
    let source = found.source.as_ref().map_or_else(String::new, |source| {
        let file = source.rsplit('/').next().unwrap_or(source);
        format!(" ({})", visible(file))
    });
    let head = format!("{name}{source}, {} % of user time", percent_text(found.user_share));
    let Some(by_relief) = &found.by_relief else {
        let reason = found.refusal.as_deref().unwrap_or("nothing was found");
        return format!("{head}: not measured, {}", visible(reason));
    };
    let times = found.near_ns.zip(found.turn_ns).map_or_else(String::new, |(near, turn)| {
        format!(": a turn takes {:.3} ns, {:.3} ns with its data in L1", turn.value, near.value)
    });
    let said = match found.agreement {
        Agreement::Agree => "samples agree".to_owned(),
        Agreement::Disagree => format!("samples say {}: one of the two is wrong", range(&found.by_samples)),
        Agreement::MemoryOrBranches => "memory or branches, which look unpredictable".to_owned(),
        Agreement::NotMeasured => "nothing to compare with".to_owned(),
    };
    let atomics = if found.has_atomics { "; what contention costs is not in it" } else { "" };
    format!("{head}{times}; it waits {} of its time; {said}{atomics}", range(by_relief))
}

#[cfg(test)]
mod tests {
    use record::relief::{Bounded, ReliefCost};

    use super::*;

    fn found() -> RelievedFinding {
        RelievedFinding {
            name: "sum".to_owned(),
            function: None,
            source: Some("/src/sum.c:12".to_owned()),
            user_share: 0.91,
            by_samples: TimeShare { value: 0.5, low: 0.4, high: 0.6 },
            by_relief: Some(TimeShare { value: 0.02, low: 0.0, high: 0.05 }),
            agreement: Agreement::Disagree,
            near_ns: Some(Bounded { value: 0.8, low: 0.7, high: 0.9 }),
            turn_ns: Some(Bounded { value: 0.9, low: 0.8, high: 1.0 }),
            stretches: 3,
            has_atomics: false,
            refusal: None,
        }
    }

    #[test]
    fn both_ways_are_shown_where_they_disagree() {
        let cost = ReliefCost {
            copies: 3,
            paused_ns: 2_000_000,
            longest_pause_ns: 900_000,
            ..ReliefCost::default()
        };
        let relief = ReliefFindings { loops: vec![found()], cost: Some(cost), ..ReliefFindings::default() };
        let all = sentences(&relief);
        assert_eq!(
            all[0],
            "sum (sum.c:12), 91 % of user time: a turn takes 0.900 ns, 0.800 ns with its data in L1; it waits 2.0 % (0.0 to 5.0) of \
             its time; samples say 50 % (40 to 60): one of the two is wrong."
        );
        assert!(all[1].contains("stood still for 2.0 ms in all (0.9 at most"), "{}", all[1]);
    }

    #[test]
    fn what_was_refused_says_why() {
        let refused = RelievedFinding {
            by_relief: None,
            agreement: Agreement::NotMeasured,
            refusal: Some("a turn calls the kernel (syscall)".to_owned()),
            ..found()
        };
        let said = sentence(&refused);
        assert_eq!(
            said,
            "sum (sum.c:12), 91 % of user time: not measured, a turn calls the kernel (syscall)"
        );
        assert_eq!(sentences(&ReliefFindings::default()), Vec::<String>::new());
    }
}
