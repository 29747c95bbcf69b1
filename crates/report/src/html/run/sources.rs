//! Source beside the code that comes from it.

use std::collections::BTreeMap;

use analysis::listing::AnnotatedFunction;
use serde::Serialize;

use crate::layout::prose::counted;

/// Lines shown before and after those that code comes from.
const AROUND: u32 = 3;

/// Lines of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceText {
    /// As debug information names it.
    pub file: String,
    /// Number of the first line given.
    pub first_line: u32,
    /// The lines.
    pub lines: Vec<String>,
}

/// Gives the text of a file that debug information names, if it is there and may be read.
pub type SourceFinder<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// How the source of functions is come by.
pub struct SourceReading<'a> {
    /// The text of a file.
    pub text: SourceFinder<'a>,
    /// Why there may be none, other than that the file is gone.
    pub otherwise: Option<&'a str>,
}

impl SourceReading<'_> {
    /// The source of functions, and what there is to say about what is lacking.
    pub(super) fn of(&self, functions: &[AnnotatedFunction]) -> (Vec<SourceText>, Option<String>) {
        let mut spans: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for source in
            functions.iter().flat_map(|function| &function.lines).filter_map(|line| line.source.as_ref())
        {
            let span = spans.entry(&source.file).or_insert((source.line, source.line));
            *span = (span.0.min(source.line), span.1.max(source.line));
        }
        let count = spans.len();
        let texts: Vec<SourceText> =
            spans.into_iter().filter_map(|(file, span)| cut(file, &(self.text)(file)?, span)).collect();
        let lacking = count - texts.len();
        let remark = self
            .otherwise
            .filter(|_| lacking > 0)
            .map(|reason| format!("The source of {} is not shown: {reason}.", counted(lacking, "file")));
        (texts, remark)
    }
}

fn cut(file: &str, text: &str, (first, last): (u32, u32)) -> Option<SourceText> {
    let first = first.saturating_sub(AROUND).max(1);
    let count = last.saturating_add(AROUND).checked_sub(first)? as usize + 1;
    let lines = text.lines().skip(first as usize - 1).take(count).map(str::to_owned).collect();
    Some(SourceText { file: file.to_owned(), first_line: first, lines })
}

#[cfg(test)]
mod tests {
    use analysis::{
        findings::{SourceLine, ThreadActivity},
        listing::AnnotatedLine,
    };

    use super::*;

    #[test]
    fn lines_around_the_code_are_shown_and_a_file_that_is_gone_is_left_out() {
        let line = |(file, line): (&str, u32)| AnnotatedLine {
            address: 0,
            text: String::new(),
            source: Some(SourceLine::new(file, line)),
            samples: 0.0,
            waiting: 0.0,
            activity: ThreadActivity::Executing,
        };
        let lines = [("gone.c", 3), ("here.c", 9), ("here.c", 7), ("short.c", 2)].map(line).to_vec();
        let text = |file: &str| match file {
            "here.c" => Some((1..=30).map(|number| format!("line {number}\n")).collect()),
            "short.c" => Some("only\nthese".to_owned()),
            _ => None,
        };
        let reading = SourceReading { text: Box::new(text), otherwise: Some("they are secret") };
        let (found, remark) = reading.of(&[AnnotatedFunction { symbol: 0, lines }]);
        assert_eq!(remark.as_deref(), Some("The source of 1 file is not shown: they are secret."));
        let ends = |source: &SourceText| {
            (source.file.clone(), source.first_line, source.lines.len(), source.lines.last().cloned())
        };
        let ends: Vec<_> = found.iter().map(ends).collect();
        assert_eq!(ends[0], ("here.c".to_owned(), 4, 9, Some("line 12".to_owned())));
        assert_eq!(ends[1], ("short.c".to_owned(), 1, 2, Some("these".to_owned())));
        assert_eq!(ends.len(), 2);
    }
}
