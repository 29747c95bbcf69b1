//! Two sets of runs, as people read it.

use analysis::compare::{CompareJudgement, CompareRow, ComparedChange, ComparedFunction, Comparison};

use crate::{
    layout::change::{sentence, sides},
    layout::figures::{absent, percent_text},
    layout::prose::{wrap, wrap_in},
    layout::signature::function_name,
    layout::style::{HEADING, PLAIN, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
    terminal::run::seconds,
};

/// The comparison in at most `columns`, with the `most` functions that changed most.
pub fn text(comparison: &Comparison, most: usize, columns: usize) -> String {
    let style = match comparison.judgement {
        CompareJudgement::Slower { .. } => WARNING,
        CompareJudgement::Faster { .. } => HEADING,
        CompareJudgement::Same { .. } | CompareJudgement::Unknown(_) => PLAIN,
    };
    let mut out = wrap_in(style, "", &sentence(comparison), columns);
    out += &wrap_in(QUIET, "", &sides(comparison), columns);
    out.push('\n');
    out += &table("whole program", &comparison.whole, columns);
    let shown = |row: &CompareRow| CompareRow { name: told_apart(row, &comparison.functions), ..row.clone() };
    let changed: Vec<CompareRow> = comparison.functions.iter().take(most).map(shown).collect();
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
            function_name(&row.name, columns * 2 / 5).into(),
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

/// A function's name, and beside it what tells it from others of that name: its file, its module or its address.
fn told_apart(row: &CompareRow, all: &[CompareRow]) -> String {
    let namesakes: Vec<&ComparedFunction> = all
        .iter()
        .filter(|other| other.name == row.name)
        .filter_map(|other| other.function.as_ref())
        .collect();
    let Some(own) = row.function.as_ref().filter(|_| namesakes.len() > 1).map(marks) else {
        return row.name.clone();
    };
    let others: Vec<_> = namesakes.into_iter().map(marks).collect();
    let tells = |index: &usize| others.iter().filter(|other| other[*index] == own[*index]).count() == 1;
    match (0..own.len()).filter(|index| own[*index].is_some()).find(tells) {
        Some(index) => format!("{} ({})", row.name, own[index].as_deref().unwrap_or_default()),
        None => row.name.clone(),
    }
}

/// What may tell a function from others of its name, the shortest first.
fn marks(function: &ComparedFunction) -> [Option<String>; 5] {
    let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
    [
        function.file.as_deref().and_then(last),
        function.file.clone(),
        last(&function.module),
        Some(function.module.clone()),
        function.address.map(|address| format!("{address:#x}")),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, module: &str, file: Option<&str>, address: Option<u64>) -> CompareRow {
        let file = file.map(str::to_owned);
        let function = Some(ComparedFunction { module: module.to_owned(), file, address });
        CompareRow { name: name.to_owned(), before_ns: None, after_ns: None, change: None, function }
    }

    #[test]
    fn functions_of_one_name_are_told_apart_by_the_shortest_mark() {
        let names = |rows: &[CompareRow]| rows.iter().map(|row| told_apart(row, rows)).collect::<Vec<_>>();
        let files = [row("work", "/p", Some("/s/a.c"), None), row("work", "/p", Some("/s/b.c"), None)];
        assert_eq!(names(&files), ["work (a.c)", "work (b.c)"]);
        let folders = [row("work", "/p", Some("/s/a.c"), None), row("work", "/p", Some("/t/a.c"), None)];
        assert_eq!(names(&folders), ["work (/s/a.c)", "work (/t/a.c)"]);
        let modules = [row("work", "/p", None, Some(1)), row("work", "/lib/q.so", None, Some(1))];
        assert_eq!(names(&modules), ["work (p)", "work (q.so)"]);
        let addresses = [row("work", "/p", None, Some(16)), row("work", "/p", None, Some(32))];
        assert_eq!(names(&addresses), ["work (0x10)", "work (0x20)"]);
        assert_eq!(names(&[row("work", "/p", None, None), row("rest", "/p", None, None)]), ["work", "rest"]);
    }
}
