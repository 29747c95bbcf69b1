//! What changed, as a comment under a pull request.

use analysis::compare::{CompareRow, ComparedChange, Comparison};
use machine::letters::visible;

use crate::{
    layout::change::{sentence, sides},
    layout::figures::{ABSENT, percent_text},
    terminal::run::seconds,
};

/// The comparison with the `most` functions that changed most.
pub fn compare(comparison: &Comparison, most: usize) -> String {
    let mut out = format!("**{}**\n\n", escaped(&sentence(comparison)));
    out += &format!("{}\n\n", escaped(&sides(comparison)));
    out += &table("", &comparison.whole);
    let functions = &comparison.functions[..comparison.functions.len().min(most)];
    if !functions.is_empty() {
        let summary = format!("{} functions that changed most", functions.len());
        out += &format!(
            "\n<details><summary>{summary}</summary>\n\n{}\n</details>\n",
            table("function, user time", functions)
        );
    }
    if !comparison.remarks.is_empty() {
        out.push('\n');
        out.extend(comparison.remarks.iter().map(|remark| format!("- {}\n", escaped(remark))));
    }
    out
}

fn table(title: &str, rows: &[CompareRow]) -> String {
    let mut out = format!("| {title} | before | after | change | ± | |\n|---|--:|--:|--:|--:|---|\n");
    for row in rows {
        let time = |ns: Option<f64>| ns.map_or_else(|| ABSENT.to_owned(), seconds);
        let change = row.change.as_ref();
        let ratio = change.and_then(|change| change.ratio).map_or_else(
            || ABSENT.to_owned(),
            |ratio| format!("{}{} %", if ratio < 0.0 { "−" } else { "+" }, percent_text(ratio.abs())),
        );
        out += &format!(
            "| {} | {} | {} | {ratio} | {} | {} |\n",
            escaped(&row.name),
            time(row.before_ns),
            time(row.after_ns),
            time(change.and_then(|change| change.uncertainty_ns)),
            change.map_or(ABSENT, meaning)
        );
    }
    out
}

fn meaning(change: &ComparedChange) -> &'static str {
    match change.is_beyond_noise() {
        Some(true) if change.ns > 0.0 => "**slower**",
        Some(true) => "faster",
        Some(false) => "within noise",
        None => "noise not known",
    }
}

/// Names of programs stay names: nothing in them is markup, a link, a mention or the end of a cell.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in visible(text).chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '@' => out += "&#64;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("a|b<script>@me *x*\n[l](u)"), "a\\|b&lt;script&gt;&#64;me \\*x\\*�\\[l\\](u)");
    }

    #[test]
    fn rows_say_what_is_known() {
        let mut comparison = analysis::compare::compare(&[], &[]);
        comparison.whole.push(CompareRow {
            name: "wall time".to_owned(),
            before_ns: Some(1e9),
            after_ns: Some(1.12e9),
            change: Some(ComparedChange { ns: 0.12e9, uncertainty_ns: Some(1e7), ratio: Some(0.12) }),
            function: None,
        });
        let text = compare(&comparison, 5);
        assert!(text.contains("| wall time | 1.00 s | 1.12 s | +12 % | 10.0 ms | **slower** |"), "{text}");
        assert!(text.starts_with("**Whether it changed cannot be told"), "{text}");
    }
}
