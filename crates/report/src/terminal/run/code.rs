//! Where in the code: functions, then instructions.

use std::path::Path;

use analysis::findings::{Findings, InstructionFinding, SourceLine, SymbolFinding, ThreadActivity};

use super::account::style;
use crate::{
    layout::figures::{absent, percent, percent_text},
    layout::prose::{clipped, visible, wrap_in},
    layout::signature::function_name,
    layout::style::{HEADING, QUIET},
    layout::table::{Cell, Column, Table},
};

/// The functions with most of the waiting, and the instruction in each that the core waits for most.
pub fn functions(findings: &Findings, most: usize, columns: usize) -> String {
    if findings.symbols.is_empty() {
        return String::new();
    }
    let ranked = ranked(findings);
    let shown = ranked.len().min(most);
    wrap_in(HEADING, "", "Where", columns)
        + &table(findings, &ranked[..shown], None, columns)
        + &more(&ranked[shown..], columns)
}

/// How many functions are not shown; nothing if all are.
fn more(rest: &[&SymbolFinding], columns: usize) -> String {
    if rest.is_empty() {
        return String::new();
    }
    let share: f64 = rest.iter().map(|symbol| symbol.user_share.value).sum();
    let line = format!("and {} more with {} % of user time", rest.len(), percent_text(share));
    wrap_in(QUIET, "", &line, columns)
}

/// Lines of a table above its rows.
pub const HEAD_LINES: usize = 2;

/// The line that says how many more there are.
pub const MORE_LINES: usize = 1;

/// The functions with most user time, without a heading; nothing without samples.
pub fn table_of_hottest(findings: &Findings, most: usize, columns: usize) -> String {
    let ranked = ranked(findings);
    if ranked.is_empty() {
        String::new()
    } else {
        let shown = ranked.len().min(most);
        table(findings, &ranked[..shown], None, columns) + &more(&ranked[shown..], columns)
    }
}

fn ranked(findings: &Findings) -> Vec<&SymbolFinding> {
    let mut ranked: Vec<&SymbolFinding> = findings.symbols.iter().collect();
    ranked.sort_by(|a, b| b.user_share.value.total_cmp(&a.user_share.value));
    ranked
}

/// For each thing waited for: the functions that wait most for it.
pub fn by_class(findings: &Findings, most: usize, columns: usize) -> Vec<String> {
    let parts = ThreadActivity::ALL.into_iter().filter(|activity| activity.is_waiting()).map(|activity| {
        let waits = |symbol: &SymbolFinding| symbol.user_share.value * symbol.split.share(activity);
        let mut ranked: Vec<_> = findings.symbols.iter().filter(|symbol| waits(symbol) >= 0.002).collect();
        ranked.sort_by(|a, b| waits(b).total_cmp(&waits(a)));
        ranked.truncate(most);
        if ranked.is_empty() {
            return String::new();
        }
        let label = activity.label();
        let heading = format!("{}{}", label[..1].to_uppercase(), &label[1..]);
        wrap_in(HEADING, "", &heading, columns) + &table(findings, &ranked, Some(activity), columns)
    });
    parts.collect()
}

fn table(
    findings: &Findings,
    symbols: &[&SymbolFinding],
    class: Option<ThreadActivity>,
    columns: usize,
) -> String {
    let mut table = Table::new(vec![
        Column::new("function").left(),
        Column::new("user time %").called("share of user time"),
        Column::new("waits for").left().drop_rank(2),
        Column::new("% of it").called("share of the function's time").drop_rank(3),
        Column::new("in").left().called("module").drop_rank(4),
        // The last to go: a name says which function, this says where to look.
        Column::new("most at").left().called("hottest instruction").drop_rank(1),
        Column::new("access").left().called("access pattern").drop_rank(5),
    ]);
    for symbol in symbols {
        let waits = match class {
            Some(class) => Some((class, symbol.split.share(class))),
            None => symbol.split.largest_wait().filter(|&(_, share)| share >= 0.05),
        };
        let hottest = hottest(findings, symbol, waits.map(|(activity, _)| activity));
        table.row(vec![
            function_name(&symbol.name, columns * 2 / 5).into(),
            percent(Some(symbol.user_share.value)),
            waits.map_or_else(
                || Cell::styled(if symbol.split.undecided > 0.5 { "undecided" } else { "nothing" }, QUIET),
                |(activity, _)| Cell::styled(object(activity), style(activity)),
            ),
            percent(waits.map(|(_, share)| share)),
            visible(&file_name(&symbol.module)).into(),
            hottest.map_or_else(absent, |found| at(found).into()),
            hottest
                .and_then(|found| found.access.as_ref())
                .map_or_else(absent, |found| found.pattern.label().into()),
        ]);
    }
    table.render(columns).text
}

/// What is waited for, without `waiting on` or `waiting for`.
fn object(activity: ThreadActivity) -> &'static str {
    activity.label().trim_start_matches("waiting on ").trim_start_matches("waiting for ")
}

/// The instruction of a function with most waiting of a kind; with most samples if it waits for nothing.
fn hottest<'a>(
    findings: &'a Findings,
    symbol: &SymbolFinding,
    waits: Option<ThreadActivity>,
) -> Option<&'a InstructionFinding> {
    let all = || symbol.top.iter().filter_map(|&index| findings.instructions.get(index));
    all()
        .filter(|found| Some(found.activity) == waits)
        .max_by(|a, b| a.waiting_samples.total_cmp(&b.waiting_samples))
        .or_else(|| all().max_by(|a, b| a.samples().total_cmp(&b.samples())))
}

fn at(instruction: &InstructionFinding) -> String {
    match &instruction.source {
        Some(source) => line_of(source),
        None => format!("{:#x}", instruction.address),
    }
}

fn line_of(source: &SourceLine) -> String {
    format!("{}:{}", visible(&file_name(&source.file)), source.line)
}

/// The same with the function that was inlined there.
fn line_with_inlined(source: &SourceLine) -> String {
    match source.inlined.first() {
        Some(inner) => format!("{} inlining {}", line_of(source), function_name(&inner.function, 24)),
        None => line_of(source),
    }
}

/// Every instruction with samples, the hottest first.
pub fn instructions(findings: &Findings, most: usize, columns: usize) -> String {
    if findings.instructions.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::new("instruction").left(),
        Column::new("user time %").called("share of user time"),
        Column::new("address").drop_rank(6),
        Column::new("of it waiting %").called("waiting share").drop_rank(1),
        Column::new("for").left().called("what for").drop_rank(1),
        Column::new("access").left().called("access pattern").drop_rank(3),
        Column::new("function").left().drop_rank(4),
        Column::new("line").left().drop_rank(2),
    ]);
    for found in findings.instructions.iter().take(most) {
        let all = found.samples();
        let name = findings.symbols.get(found.symbol).map(|symbol| function_name(&symbol.name, 30));
        table.row(vec![
            found
                .text
                .as_deref()
                .map_or_else(absent, |text| clipped(&visible(text), (columns * 2 / 5).max(16)).into()),
            percent(Some(found.user_share.value)),
            format!("{:#x}", found.address).into(),
            percent((all > 0.0).then(|| found.waiting_samples / all)),
            Cell::styled(object(found.activity), style(found.activity)),
            found.access.as_ref().map_or_else(absent, |access| access.pattern.label().into()),
            name.map_or_else(absent, Cell::from),
            found.source.as_ref().map_or_else(absent, |source| line_with_inlined(source).into()),
        ]);
    }
    let shown = findings.instructions.len().min(most);
    let heading = format!("Instructions ({shown} of {})", findings.instructions.len());
    wrap_in(HEADING, "", &heading, columns) + &table.render(columns).text
}

/// The last part of a path.
pub fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
