//! The answer in short.

use analysis::findings::{
    Confidence, Findings, HeldBack, KnownLimits, Nature, ThreadActivity, TimeShare, Verdict,
};
use anstyle::{AnsiColor, Style};

use super::levels;
use crate::{
    layout::figures::percent_text,
    layout::prose::{wrap, wrap_in},
    layout::style::{QUIET, WARNING},
};

const YES: Style = AnsiColor::Red.on_default().bold();
const NO: Style = AnsiColor::Green.on_default().bold();

/// Held back or not, by how much, how it looks and how sure that is.
pub fn text(findings: &Findings, columns: usize) -> String {
    let verdict = &findings.verdict;
    let (style, answer) = answer(verdict.held_back);
    let mut out = wrap_in(style, "", answer, columns);
    if let Some(memory) = &verdict.memory {
        out += &wrap("  ", &sentence(verdict, memory), columns);
    }
    match &verdict.nature {
        KnownLimits::Value(nature) => out += &wrap("  ", look(*nature), columns),
        KnownLimits::Missing(reason) if matches!(verdict.held_back, HeldBack::Yes | HeldBack::Partly) => {
            out += &wrap_in(QUIET, "  ", &format!("Latency or bandwidth: not known, {reason}."), columns);
        }
        KnownLimits::Missing(_) => {}
    }
    if let Some(levels) = levels::sentence(findings) {
        out += &wrap("  ", &format!("Waits at: {levels}"), columns);
    }
    let sure = match verdict.confidence {
        Confidence::High => "Confidence: high.",
        Confidence::Medium => "Confidence: medium.",
        Confidence::Low => "Confidence: low.",
    };
    let why =
        verdict.reasons.iter().fold(sure.to_owned(), |text, reason| format!("{text} {}", ended(reason)));
    out + &wrap_in(if verdict.confidence == Confidence::Low { WARNING } else { QUIET }, "  ", &why, columns)
}

/// The answer, and how it is painted.
pub(super) fn answer(held_back: HeldBack) -> (Style, &'static str) {
    match held_back {
        HeldBack::Yes => (YES, "Held back by memory: yes."),
        HeldBack::Partly => (WARNING, "Held back by memory: partly."),
        HeldBack::No => (NO, "Held back by memory: no."),
        HeldBack::Unknown => (WARNING, "Held back by memory: cannot be told."),
    }
}

/// A sentence with its capital and full stop; names such as `perf_event` stay as they are.
pub(crate) fn ended(reason: &str) -> String {
    let is_name = reason.split(' ').next().is_some_and(|word| word.contains('_'));
    let mut letters = reason.chars();
    let capital: String = match is_name {
        true => reason.to_owned(),
        false => letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect(),
    };
    if capital.ends_with(['.', '!', '?']) { capital } else { format!("{capital}.") }
}

pub(crate) fn sentence(verdict: &Verdict, memory: &TimeShare) -> String {
    if verdict.held_back == HeldBack::Unknown {
        return undecided(memory);
    }
    let mut text = format!("{} of user time went into waiting for memory", range(memory));
    if let Some(loads) = verdict.loads.filter(|loads| memory.value - loads.value > 0.02) {
        text += &format!(", {} % into waiting on loads", percent_text(loads.value));
    }
    text.push('.');
    if let Some(work) = &verdict.memory_of_work {
        text += &format!(" Of the time that does not wait for other threads it is {}.", range(work));
    }
    if let Some((largest, share)) = verdict.largest.zip(verdict.largest_share) {
        if !largest.is_memory() {
            text += &format!(" The largest part of the waiting is {}: {}.", of(largest), range(&share));
        } else if largest != ThreadActivity::Loads {
            text += &format!(" Most of it is {}.", largest.label());
        }
    }
    text
}

/// What is known where there is no answer: the bounds.
fn undecided(memory: &TimeShare) -> String {
    let so = if memory.high < HeldBack::YES {
        ": partly at most"
    } else if memory.low >= HeldBack::PARTLY {
        ": partly at least"
    } else {
        ""
    };
    let (low, high) = (percent_text(memory.low), percent_text(memory.high));
    format!(
        "Between {low} and {high} % of user time went into waiting for memory{so}. How much of it hides behind other work, \
         samples alone do not tell."
    )
}

fn of(activity: ThreadActivity) -> &'static str {
    let label = activity.label();
    label.strip_prefix("waiting on ").or(label.strip_prefix("waiting ")).unwrap_or(label)
}

/// `84 % (82 to 86 %)`.
pub(crate) fn range(share: &TimeShare) -> String {
    format!("{} % ({} to {} %)", percent_text(share.value), percent_text(share.low), percent_text(share.high))
}

pub(crate) fn look(nature: Nature) -> &'static str {
    match nature {
        Nature::Latency => {
            "It looks like latency: accesses that wait for each other, or land all over their data."
        }
        Nature::Bandwidth => {
            "It looks like bandwidth: long streams, line after line, near what this machine gives."
        }
        Nature::Streams => "It streams, line after line, but not known to be near this machine's bandwidth.",
        Nature::Mixed => "Some of it looks like latency, some like bandwidth.",
    }
}
