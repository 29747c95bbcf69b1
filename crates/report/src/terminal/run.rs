//! What a run says, as people read it: the verdict first, then where, then how far to believe it.

mod account;
pub(crate) mod bars;
mod brief;
pub(crate) mod code;
pub(crate) mod levels;
pub(crate) mod limits;
pub(crate) mod loads;
pub(crate) mod objects;
pub(crate) mod relief;
pub(crate) mod subject;
pub(crate) mod timeline;
pub(crate) mod verdict;

use analysis::findings::{Findings, Objects};
use machine::fingerprint::IMPORTED_ID;

pub(crate) use account::about;
pub use subject::seconds;

use crate::{
    layout::prose::{wrap, wrap_in},
    layout::signature::with_short_names,
    layout::style::HEADING,
};

/// How much to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Functions and objects listed; none: as many as fit a screen, or a few where everything is shown.
    pub top: Option<usize>,
    /// Everything: tables per class of waiting, instructions, every thread, the time line in numbers.
    pub verbose: bool,
}

/// The findings in at most `columns`, with what they say about data if that is known.
pub fn text(findings: &Findings, objects: Option<&Objects>, detail: Detail, columns: usize) -> String {
    match detail.verbose {
        true => everything(findings, objects, detail.top.unwrap_or(5), columns),
        false => brief::text(findings, objects, detail.top, columns),
    }
}

fn everything(findings: &Findings, objects: Option<&Objects>, top: usize, columns: usize) -> String {
    let mut parts = vec![
        subject::line(&findings.about, columns) + &verdict::text(findings, columns),
        account::text(findings, columns),
    ];
    if findings.has_enough_samples() {
        parts.push(code::functions(findings, top, columns));
        parts.extend(objects.map(|objects| objects::text(findings, objects, top, columns)));
    }
    parts.push(relief::text(findings, columns));
    parts.push(loads::text(&findings.loads, top, columns));
    if findings.has_enough_samples() {
        parts.extend(code::by_class(findings, top, columns));
        parts.push(code::instructions(findings, top.max(20), columns));
        parts.push(account::threads(findings, columns));
        parts.push(timeline::text(&findings.timeline, columns));
    }
    parts.push(limits::text(&findings.limits, findings.about.machine.starts_with(IMPORTED_ID), columns));
    parts.push(list("What to try next", &advice(findings), columns));
    parts.push(list("Keep in mind", &findings.remarks, columns));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// A heading and sentences under it; nothing without sentences.
fn list(heading: &str, sentences: &[String], columns: usize) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let mut out = wrap_in(HEADING, "", heading, columns);
    out.extend(sentences.iter().map(|sentence| wrap("  • ", sentence, columns)));
    out
}

/// Letters of a function's name in a sentence.
const NAME: usize = 48;

/// A sentence about the program's functions, with their names as tables show them.
pub(crate) fn said(sentence: &str, findings: &Findings) -> String {
    with_short_names(sentence, findings.symbols.iter().map(|symbol| symbol.name.as_str()), NAME)
}

/// What to try next.
pub(crate) fn advice(findings: &Findings) -> Vec<String> {
    findings.advice.iter().map(|sentence| said(sentence, findings)).collect()
}

#[cfg(test)]
mod tests;
