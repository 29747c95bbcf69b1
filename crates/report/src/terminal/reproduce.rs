//! Published and found, side by side; and which claims fall on mutated machines.

use machine::units::significant;
use record::reproduce::{MutationMatrix, ReproducedItem, ReproducedPaper, ReproducedRow, Reproduction};

use crate::{
    layout::figures::{ABSENT, absent},
    layout::prose::{counted, titled, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, WARNING, paint},
    layout::table::{Cell, Column, Table},
};

/// What people read: items with their rows, why rows are off, slips, and how many conclusions are the same.
pub fn text(reproduction: &Reproduction, columns: usize) -> String {
    let mut out = String::new();
    for paper in &reproduction.papers {
        out += &header(reproduction, paper, columns);
        for item in &paper.items {
            out += &item_text(item, columns);
        }
    }
    out += &summary(reproduction, columns);
    out
}

fn header(reproduction: &Reproduction, paper: &ReproducedPaper, columns: usize) -> String {
    let where_it_ran = match reproduction.here {
        true => "on this machine, which is not the paper's: nothing is concluded".to_owned(),
        false => format!("on the model {}", paper.machine),
    };
    titled(&paper.id, &paper.title, columns) + &wrap_in(QUIET, "", &where_it_ran, columns) + "\n"
}

fn item_text(item: &ReproducedItem, columns: usize) -> String {
    let mut out = format!("{}\n", paint(HEADING, &item.title));
    if let Some(command) = &item.filled_by {
        return out + &wrap_in(QUIET, "  ", &format!("filled by: {command}"), columns) + "\n";
    }
    if item.left_out {
        let text = format!(
            "left out of the quick set; 'memwall reproduce --full' or its name, {}, makes it",
            item.id
        );
        return out + &wrap_in(QUIET, "  ", &text, columns) + "\n";
    }
    if let Some(method) = &item.method {
        out += &wrap_in(QUIET, "  ", method, columns);
    }
    if !item.rows.is_empty() {
        out += &table(&item.rows).render(columns).text;
    }
    for row in &item.rows {
        if let Some(note) = note(row) {
            out += &wrap("  ", &note, columns);
        }
    }
    for figure in &item.figures {
        let points: usize = figure.curves.iter().map(|curve| curve.points.len()).sum();
        let text = format!(
            "{}: {} of {}; --html draws them",
            figure.title,
            counted(figure.curves.len(), "curve"),
            counted(points, "point")
        );
        out += &wrap("  ", &text, columns);
    }
    for slip in &item.slips {
        out += &wrap_in(WARNING, "  ", &format!("slip of the paper: {slip}"), columns);
    }
    out + "\n"
}

fn table(rows: &[ReproducedRow]) -> Table {
    let mut table = Table::new(vec![
        Column::new("").left(),
        Column::new("published"),
        Column::new("ours"),
        Column::new("off"),
        Column::new("same conclusion").left(),
    ]);
    for row in rows {
        let label = match row.unit.is_empty() {
            true => row.label.clone(),
            false => format!("{}, {}", row.label, row.unit),
        };
        table.row(vec![
            label.into(),
            row.published.map_or_else(absent, |value| number(value).into()),
            row.ours.map_or_else(absent, |value| number(value).into()),
            row.deviation.map_or_else(absent, |off| off_text(off).into()),
            verdict(row),
        ]);
    }
    table
}

/// As many digits as the papers give.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        _ => significant(value, 3),
    }
}

pub(crate) fn off_text(off: f64) -> String {
    format!("{:+.1} %", off * 100.0)
}

fn verdict(row: &ReproducedRow) -> Cell {
    match row.same {
        Some(true) => Cell::styled("yes", PLAIN),
        Some(false) => Cell::styled("NO", WARNING),
        None => Cell::styled(ABSENT, QUIET),
    }
}

/// What has to be said of a row, if anything.
pub(crate) fn note(row: &ReproducedRow) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(missing) = row.missing.as_ref().filter(|_| row.same.is_none()) {
        parts.push(missing.clone());
    }
    if row.same == Some(false) {
        parts.push(format!("the paper: {}", row.concludes));
    }
    if row.is_off() {
        parts.extend(row.reason().map(|reason| format!("why: {reason}")));
    }
    if let Some(number) = &row.not_independent {
        parts.push(format!("not independent of {number}"));
    }
    (!parts.is_empty()).then(|| format!("{}: {}", row.label, parts.join("; ")))
}

/// How many of how many conclusions are the same.
pub(crate) fn tally(reproduction: &Reproduction) -> (usize, usize) {
    let rows = reproduction.papers.iter().flat_map(|paper| &paper.items).flat_map(|item| &item.rows);
    let judged: Vec<bool> = rows.filter_map(|row| row.same).collect();
    (judged.iter().filter(|same| **same).count(), judged.len())
}

fn summary(reproduction: &Reproduction, columns: usize) -> String {
    let (same, of) = tally(reproduction);
    let mut out = String::new();
    if !reproduction.complete {
        out += &wrap_in(
            WARNING,
            "",
            "interrupted: what was measured is kept, and the next call goes on",
            columns,
        );
    }
    if reproduction.here && reproduction.papers.is_empty() {
        let text = "nothing of this is measured by a clock alone; without --here it runs on the model of the paper's machine";
        out += &wrap("", text, columns);
    }
    if of > 0 {
        out += &wrap("", &format!("{same} of {of} conclusions are those of the papers"), columns);
    }
    out
}

/// Which claims fell where, against what was said before.
pub fn matrix(matrix: &MutationMatrix, columns: usize) -> String {
    let mut out = String::new();
    for mutant in &matrix.mutants {
        out += &titled(&mutant.id, &mutant.change, columns);
        let fell: Vec<&str> = mutant
            .claims
            .iter()
            .filter(|claim| claim.holds == Some(false))
            .map(|claim| claim.claim.as_str())
            .collect();
        let text =
            format!("{} of {} fell: {}", fell.len(), counted(mutant.claims.len(), "claim"), fell.join(", "));
        out += &wrap("  ", &text, columns);
        let mut misses = 0;
        for miss in mutant.misses() {
            misses += 1;
            let what = match (miss.expected, miss.holds) {
                (_, None) => "could not be tried",
                (Some(true), _) => "fell and should stand",
                _ => "stands and should fall",
            };
            out += &wrap_in(WARNING, "  ", &format!("{}: {what}", miss.claim), columns);
        }
        if misses == 0 {
            out += &wrap_in(QUIET, "  ", "as was said before", columns);
        }
        out.push('\n');
    }
    let misses: usize = matrix.mutants.iter().map(|mutant| mutant.misses().count()).sum();
    if !matrix.never_fell.is_empty() {
        let text = format!("no mutant that was tried fells {}", matrix.never_fell.join(", "));
        out += &wrap_in(QUIET, "", &text, columns);
    }
    if !matrix.complete {
        out += &wrap_in(
            WARNING,
            "",
            "interrupted: what was measured is kept, and the next call goes on",
            columns,
        );
    }
    let text = format!(
        "{}, {} against what was said before",
        counted(matrix.mutants.len(), "mutant"),
        counted(misses, "miss")
    );
    out + &wrap("", &text, columns)
}

/// Papers and items with their names, and which are quick.
pub fn list(all: &Reproduction, columns: usize) -> String {
    let mut out = String::new();
    for paper in &all.papers {
        out += &titled(&paper.id, &paper.title, columns);
        let mut table =
            Table::new(vec![Column::new("item").left(), Column::new("").left(), Column::new("set").left()]);
        for item in &paper.items {
            let set = match (&item.filled_by, item.left_out) {
                (Some(_), _) => "by another command",
                (None, true) => "full",
                (None, false) => "quick",
            };
            table.row(vec![item.id.clone().into(), item.title.clone().into(), Cell::styled(set, QUIET)]);
        }
        out += &table.render(columns).text;
        out.push('\n');
    }
    out
}
