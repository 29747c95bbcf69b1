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
        true => format!("on {}, which is not the paper's: nothing is concluded", paper.machine),
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

#[cfg(test)]
pub(crate) mod tests {
    use record::reproduce::{
        ClaimOutcome, FigureCurve, MATRIX_SCHEMA, MutantOutcome, ReproducedFigure, ReproducedPaper, SCHEMA,
    };

    use super::*;

    /// A row of table 1 of a paper.
    pub(crate) fn row(
        id: &str,
        published: Option<f64>,
        ours: Option<f64>,
        same: Option<bool>,
    ) -> ReproducedRow {
        ReproducedRow {
            claim: format!("paper/table1/{id}"),
            label: format!("what {id} is"),
            unit: "GB/s".to_owned(),
            published,
            ours,
            missing: ours.is_none().then(|| "no such event here".to_owned()),
            deviation: published.zip(ours).map(|(published, ours)| ours / published - 1.0),
            concludes: "as fast as that".to_owned(),
            holds_if: "within 10 % of the published".to_owned(),
            same,
            why: None,
            not_independent: None,
        }
    }

    fn item(id: &str) -> ReproducedItem {
        ReproducedItem {
            id: id.to_owned(),
            title: format!("Title of {id}"),
            method: None,
            filled_by: None,
            left_out: false,
            rows: Vec::new(),
            figures: Vec::new(),
            slips: Vec::new(),
        }
    }

    /// A table with a row of each kind, a drawing, an item left out and one of another command.
    pub(crate) fn reproduction() -> Reproduction {
        let why = ReproducedRow {
            why: Some("channels turn".to_owned()),
            ..row("slow", Some(100.0), Some(50.0), Some(false))
        };
        let marked = ReproducedRow {
            not_independent: Some("l3.latency (assumed)".to_owned()),
            ..row("near", Some(100.0), Some(101.0), Some(true))
        };
        let table = ReproducedItem {
            method: Some("One core.".to_owned()),
            rows: vec![
                marked,
                why,
                row("off", Some(100.0), Some(130.0), Some(true)),
                row("absent", None, None, None),
            ],
            slips: vec!["the caption says eleven".to_owned()],
            ..item("table1")
        };
        let curve = FigureCurve { name: "loads".to_owned(), points: vec![(1024.0, 10.0), (2048.0, 300.0)] };
        let drawing = ReproducedFigure {
            title: "Bandwidth".to_owned(),
            x: "bytes".to_owned(),
            y: "GB/s".to_owned(),
            curves: vec![curve],
        };
        let items = vec![
            table,
            ReproducedItem { figures: vec![drawing], ..item("figure1") },
            ReproducedItem { left_out: true, ..item("figure2") },
            ReproducedItem { filled_by: Some("memwall squeeze".to_owned()), ..item("section9") },
        ];
        let (id, title, machine) = ("paper".to_owned(), "A Paper".to_owned(), "tiny".to_owned());
        let papers = vec![ReproducedPaper { id, title, machine, items }];
        Reproduction { schema: SCHEMA.to_owned(), full: false, here: false, complete: true, papers }
    }

    /// A line of the text that has all of these.
    fn says(text: &str, words: &[&str]) -> bool {
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    #[test]
    fn rows_stand_beside_what_was_published_with_the_reason_where_one_is_owed() {
        let text = text(&reproduction(), 200);
        for words in [
            &["what near is, GB/s", "100", "101", "+1.0 %", "yes"][..],
            &["what slow is, GB/s", "100", "50.0", "-50.0 %", "NO"],
            &["what slow is: the paper: as fast as that; why: channels turn"],
            &["what off is: why: not explained"],
            &["what absent is: no such event here"],
            &["what near is: not independent of l3.latency (assumed)"],
            &["slip of the paper: the caption says eleven"],
            &["Bandwidth: 1 curve of 2 points; --html draws them"],
            &["left out of the quick set", "figure2"],
            &["filled by: memwall squeeze"],
            &["on the model tiny"],
            &["2 of 3 conclusions are those of the papers"],
        ] {
            assert!(says(&text, words), "{words:?}\n{text}");
        }
        assert!(!text.contains("interrupted") && !text.contains("what near is: why"), "{text}");
    }

    #[test]
    fn of_this_machine_nothing_is_concluded_and_what_was_stopped_says_so() {
        let mut here = reproduction();
        (here.here, here.complete) = (true, false);
        here.papers[0].machine = "this machine (size of L3 as claimed)".to_owned();
        here.papers[0].items.truncate(1);
        here.papers[0].items[0].rows.iter_mut().for_each(|row| row.same = None);
        let told = text(&here, 200);
        assert!(
            says(
                &told,
                &["on this machine (size of L3 as claimed), which is not the paper's: nothing is concluded"]
            ),
            "{told}"
        );
        assert!(says(&told, &["interrupted: what was measured is kept"]), "{told}");
        assert!(!told.contains("conclusions are those"), "{told}");
        here.papers.clear();
        assert!(says(&text(&here, 200), &["nothing of this is measured by a clock alone"]));
    }

    #[test]
    fn the_list_names_items_and_who_makes_them() {
        let text = list(&reproduction(), 120);
        for words in [["table1", "quick"], ["figure2", "full"], ["section9", "by another command"]] {
            assert!(says(&text, &words), "{words:?}\n{text}");
        }
    }

    #[test]
    fn mutants_say_what_fell_and_what_came_otherwise() {
        let outcome = |claim: &str, expected, holds| ClaimOutcome {
            claim: claim.to_owned(),
            expected,
            holds,
            ours: None,
        };
        let mutant = |id: &str, claims| MutantOutcome {
            id: id.to_owned(),
            change: "less of it".to_owned(),
            mechanism: String::new(),
            claims,
        };
        let good = mutant(
            "good",
            vec![outcome("a", Some(false), Some(false)), outcome("b", Some(true), Some(true))],
        );
        let bad = mutant(
            "bad",
            vec![
                outcome("c", Some(true), Some(false)),
                outcome("d", Some(false), Some(true)),
                outcome("e", Some(true), None),
            ],
        );
        let (schema, never_fell) = (MATRIX_SCHEMA.to_owned(), vec!["b".to_owned()]);
        let text =
            matrix(&MutationMatrix { schema, complete: false, mutants: vec![good, bad], never_fell }, 120);
        for words in [
            &["1 of 2 claims fell: a"][..],
            &["as was said before"],
            &["c: fell and should stand"],
            &["d: stands and should fall"],
            &["e: could not be tried"],
            &["no mutant that was tried fells b"],
            &["interrupted"],
            &["2 mutants, 3 misses against what was said before"],
        ] {
            assert!(says(&text, words), "{words:?}\n{text}");
        }
    }
}
