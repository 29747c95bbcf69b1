//! On which data: objects, and lines that threads share.

use analysis::findings::{Findings, Known, ObjectFinding, Objects, SharedLine, Sharing};
use machine::Bytes;

use super::code::{file_name, shortened};
use crate::{
    figures::{absent, percent, percent_text},
    prose::{visible, wrap, wrap_in},
    style::{HEADING, QUIET, WARNING},
    table::{Cell, Column, Table},
};

/// Below this share of the waiting on loads, objects and lines are left out unless all are wanted.
const WORTH_SHOWING: f64 = 0.01;

/// Objects with most waiting on loads, then shared lines.
pub fn text(findings: &Findings, objects: &Objects, most: usize, all: bool, columns: usize) -> String {
    let shown: Vec<&ObjectFinding> = objects
        .objects
        .iter()
        .filter(|object| {
            all || object.load_waiting.value >= WORTH_SHOWING || object.other_waiting >= WORTH_SHOWING
        })
        .take(most)
        .collect();
    let mut out = String::new();
    if !shown.is_empty() {
        out += &wrap_in(HEADING, "", "On which data", columns);
        out += &table(findings, &shown, columns);
    }
    let lines: Vec<&SharedLine> = objects
        .shared_lines
        .iter()
        .filter(|line| all || line.waiting.value >= WORTH_SHOWING)
        .take(most)
        .collect();
    if !lines.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &wrap_in(HEADING, "", "Lines that threads share", columns);
        out.extend(lines.iter().map(|line| shared(findings, objects, line, columns)));
    }
    out.extend(objects.remarks.iter().map(|remark| wrap_in(QUIET, "  ", remark, columns)));
    out
}

fn table(findings: &Findings, objects: &[&ObjectFinding], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("object").left(),
        Column::new("load waiting %").called("share of all waiting on loads"),
        Column::new("other %").called("share of waiting on stores and atomics").drop_rank(5),
        Column::new("size").drop_rank(3),
        Column::new("access").left().called("access pattern").drop_rank(2),
        Column::new("allocated at").left().called("where it was allocated").drop_rank(1),
        Column::new("most by").left().called("function that waits most").drop_rank(4),
    ]);
    for object in objects {
        let site = object.site.as_ref().and_then(|site| site.source.as_ref());
        let user = object.symbols.first().and_then(|found| findings.symbols.get(found.symbol));
        table.row(vec![
            shortened(&object.name, columns / 2).into(),
            percent(Some(object.load_waiting.value)),
            percent(Some(object.other_waiting)),
            match &object.size_bytes {
                Known::Value(bytes) => Bytes(*bytes).to_string().into(),
                Known::Missing(_) => absent(),
            },
            object.pattern.label().into(),
            site.map_or_else(absent, |source| {
                format!("{}:{}", visible(&file_name(&source.file)), source.line).into()
            }),
            user.map_or_else(absent, |symbol| Cell::from(shortened(&symbol.name, 30))),
        ]);
    }
    table.render(columns).text
}

fn shared(findings: &Findings, objects: &Objects, line: &SharedLine, columns: usize) -> String {
    let (style, what) = match line.sharing {
        Sharing::False => (WARNING, "false sharing: different threads use different bytes of the line"),
        Sharing::True => (QUIET, "true sharing: different threads use the same bytes"),
    };
    let object = line.object.and_then(|index| objects.objects.get(index));
    let within = object.map(|object| format!(" in {}", visible(&object.name))).unwrap_or_default();
    let head = format!(
        "{:#x}{within}: {what}; {} % of all waiting for memory",
        line.address,
        percent_text(line.waiting.value)
    );
    let mut out = wrap_in(style, "  ", &head, columns);
    let mut uses = line.uses.clone();
    uses.sort_by_key(|found| std::cmp::Reverse(found.samples));
    for found in uses.iter().take(6) {
        let name = findings.symbols.get(found.symbol).map_or("unknown code", |symbol| symbol.name.as_str());
        let text = format!(
            "thread {} {} at offset {} in {} ({} samples)",
            found.tid,
            if found.writes { "writes" } else { "reads" },
            found.offset,
            shortened(name, 40),
            found.samples
        );
        out += &wrap("    ", &text, columns);
    }
    out
}
