//! Two sets of runs, as people read it.

use analysis::compare::{CompareRow, ComparedChange, Comparison};

use crate::{
    layout::figures::{absent, percent_text},
    layout::prose::{clipped, counted, visible, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
    terminal::run::seconds,
};

/// The comparison in at most `columns`, with the `most` functions that changed most.
pub fn text(comparison: &Comparison, most: usize, columns: usize) -> String {
    let sides = format!(
        "{} before, {} after; ± is a 95 % interval from the noise that is known",
        counted(comparison.runs_before, "run"),
        counted(comparison.runs_after, "run")
    );
    let mut out = wrap_in(QUIET, "", &sides, columns) + "\n";
    out += &table("whole program", &comparison.whole, columns);
    let changed: Vec<CompareRow> = comparison.functions.iter().take(most).cloned().collect();
    if !changed.is_empty() {
        out += "\n";
        out += &table("function, user time", &changed, columns);
        if comparison.functions.len() > changed.len() {
            let rest = comparison.functions.len() - changed.len();
            out += &wrap_in(QUIET, "", &format!("and {rest} more that changed less"), columns);
        }
    }
    if !comparison.remarks.is_empty() {
        out += "\n";
        out += &wrap_in(HEADING, "", "Keep in mind", columns);
        out.extend(comparison.remarks.iter().map(|remark| wrap("  • ", remark, columns)));
    }
    out
}

fn table(title: &str, rows: &[CompareRow], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new(title).left(),
        Column::new("before").drop_rank(2),
        Column::new("after").drop_rank(2),
        Column::new("change"),
        Column::new("±").called("uncertainty").drop_rank(1),
        Column::new("%").called("change in per cent"),
        Column::new("").left().called("whether it is beyond noise"),
    ]);
    for row in rows {
        let time = |ns: Option<f64>| ns.map_or_else(absent, |ns| seconds(ns).into());
        let change = row.change.as_ref();
        table.row(vec![
            clipped(&visible(&row.name), (columns * 2 / 5).max(16)).into(),
            time(row.before_ns),
            time(row.after_ns),
            change.map_or_else(absent, |change| signed(change.ns).into()),
            time(change.and_then(|change| change.uncertainty_ns)),
            change.and_then(|change| change.ratio).map_or_else(absent, |ratio| {
                format!("{}{}", if ratio < 0.0 { "−" } else { "+" }, percent_text(ratio.abs())).into()
            }),
            change.map_or_else(absent, meaning),
        ]);
    }
    table.render(columns).text
}

fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "−" } else { "+" }, seconds(ns.abs()))
}

fn meaning(change: &ComparedChange) -> Cell {
    match change.is_beyond_noise() {
        Some(true) if change.ns > 0.0 => Cell::styled("slower", WARNING),
        Some(true) => Cell::styled("faster", PLAIN),
        Some(false) => Cell::styled("within noise", QUIET),
        None => Cell::styled("noise not known", QUIET),
    }
}
