//! What is to be said about allocations that are missing.

use ::heap::{Absences, PassedOver};

use super::{Heap, Shortfall, entering::why_no_log};

/// Programs that are named, of those that cannot be entered.
const MOST_NAMED: usize = 20;

impl Heap {
    /// In whole sentences.
    pub fn remarks(&self) -> Vec<String> {
        let Shortfall { left_out, dropped, nameless, unreadable, passed_over, silent } = &self.shortfall;
        let mut all = Vec::new();
        let mut unexplained = 0;
        for (executable, count) in silent {
            match why_no_log(executable) {
                Some(_) if all.len() >= MOST_NAMED => {}
                Some(why) => all.push(format!(
                    "Allocations of {executable} are not known: it {why}. Its data on the heap is named by its mapping."
                )),
                None => unexplained += count,
            }
        }
        all.extend(absences(unexplained, self.file.absences(), *passed_over));
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                all.push(format!("{count} {text}"));
            }
        };
        say(*left_out, "allocations were left out, since there were too many to keep.");
        say(*dropped, "allocations were not written down, since they came faster than they could be read.");
        say(*nameless, "allocations were left out, since it could not be told whose they are.");
        say(
            passed_over.forked,
            "processes that were forked behind a filter of system calls wrote no allocations down.",
        );
        say(*unreadable, "programs wrote their allocations down in a way that cannot be read.");
        all
    }
}

/// Of programs that could have been entered and wrote nothing.
fn absences(programs: u64, known: Absences, passed_over: PassedOver) -> Option<String> {
    let Absences { turned_away, limited, unmappable } = known;
    // Programs that could not be entered anyway are among those that a filter kept out.
    let filtered = passed_over.programs.min(programs.saturating_sub(turned_away + limited + unmappable));
    let others = programs.saturating_sub(turned_away + limited + unmappable + filtered);
    let reasons = [
        (limited, "with a limit on the address space"),
        (turned_away, "for which there was no room left"),
        (unmappable, "without memory for it"),
        (filtered, "behind a filter of system calls"),
        (
            others,
            "that had closed the descriptor for it, were started by one that was not entered, or never got to their beginning",
        ),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| {
        let reasons = reasons.join(", ");
        format!("Allocations of some programs are not known: {reasons}. Their data on the heap is named by its mapping.")
    })
}
