//! What a run says, as people read it: the verdict first, then where, then how far to believe it.

mod account;
mod bars;
mod code;
pub(crate) mod limits;
mod objects;
pub(crate) mod subject;
mod timeline;
pub(crate) mod verdict;

use analysis::findings::{Findings, Objects};

pub use subject::seconds;

use crate::{
    prose::{wrap, wrap_in},
    style::{HEADING, QUIET},
};

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Functions listed.
    pub functions: usize,
    /// Everything: tables per class of waiting, instructions, every thread, the time line in numbers.
    pub verbose: bool,
}

impl Default for Detail {
    /// Fits a screen.
    fn default() -> Self {
        Self { functions: 5, verbose: false }
    }
}

/// The findings in at most `columns`, with what they say about data if that is known.
pub fn text(findings: &Findings, objects: Option<&Objects>, detail: Detail, columns: usize) -> String {
    let mut parts = vec![
        subject::line(&findings.about, columns) + &verdict::text(&findings.verdict, columns),
        account::text(findings, columns),
        code::functions(findings, detail.functions, columns),
    ];
    if let Some(objects) = objects {
        parts.push(objects::text(findings, objects, detail.functions, detail.verbose, columns));
    }
    if detail.verbose {
        parts.extend(code::by_class(findings, detail.functions, columns));
        parts.push(code::instructions(findings, detail.functions.max(20), columns));
    }
    parts.push(account::threads(findings, detail.verbose, columns));
    parts.push(timeline::text(&findings.timeline, detail.verbose, columns));
    parts.push(limits::text(&findings.limits, detail.verbose, columns));
    parts.push(list("What to try next", &findings.advice, columns));
    parts.push(list("Keep in mind", &findings.remarks, columns));
    if !detail.verbose && !findings.instructions.is_empty() {
        parts.push(wrap_in(QUIET, "", "Every instruction, thread and interval: --verbose", columns));
    }
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

#[cfg(test)]
mod tests;
