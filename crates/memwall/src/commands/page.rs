//! The HTML page of a recording.

use std::{collections::BTreeMap, fs, path::Path};

use analysis::listing::AnnotatedFunction;
use report::html::{Aggregate, RunPage, SourceText};

use super::recording::Read;

/// Functions shown instruction by instruction.
const FUNCTIONS: usize = 60;

/// Lines of source shown before and after those that code comes from.
const AROUND: u32 = 3;

/// Longer source files are not read.
const LARGEST_SOURCE: u64 = 8 << 20;

/// One self-contained page.
pub fn of(read: &Read) -> String {
    let objects = &read.reading.objects;
    let functions = read.reading.listing(&read.run, FUNCTIONS);
    let samples = read.reading.samples(&read.run);
    let aggregate = Aggregate::collect(&read.reading.findings, objects.objects.len(), samples);
    let sources = sources(&functions);
    report::html::run(&RunPage {
        findings: &read.reading.findings,
        objects: Some(objects),
        profile: read.profile.as_ref(),
        functions: &functions,
        sources: &sources,
        aggregate: Some(&aggregate),
    })
}

/// The source of functions, as far as it is still where debug information says.
fn sources(functions: &[AnnotatedFunction]) -> Vec<SourceText> {
    let mut spans: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for source in
        functions.iter().flat_map(|function| &function.lines).filter_map(|line| line.source.as_ref())
    {
        let span = spans.entry(&source.file).or_insert((source.line, source.line));
        *span = (span.0.min(source.line), span.1.max(source.line));
    }
    spans.into_iter().filter_map(|(file, span)| text(file, span)).collect()
}

fn text(file: &str, (first, last): (u32, u32)) -> Option<SourceText> {
    let path = Path::new(file);
    let is_small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= LARGEST_SOURCE);
    let bytes = is_small.then(|| fs::read(path).ok()).flatten()?;
    let first = first.saturating_sub(AROUND).max(1);
    let count = last.saturating_add(AROUND).checked_sub(first)? as usize + 1;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().skip(first as usize - 1).take(count).map(str::to_owned).collect();
    Some(SourceText { file: file.to_owned(), first_line: first, lines })
}
