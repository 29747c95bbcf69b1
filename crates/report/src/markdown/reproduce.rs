//! docs/papers.md: published and found, side by side, and the mutation matrix.

use record::reproduce::{MutationMatrix, ReproducedItem, ReproducedRow, Reproduction};

use super::compare::escaped;
use crate::{
    layout::figures::ABSENT,
    terminal::reproduce::{note, number, off_text, tally},
};

/// The papers' numbers beside ours.
pub fn reproduce(reproduction: &Reproduction) -> String {
    let (same, of) = tally(reproduction);
    let mut out = format!(
        "# The papers' numbers, side by side\n\nMade by `memwall reproduce{} --markdown`. {same} of {of} conclusions are those \
         of the papers. A deviation above 10 % has a reason, or the words \"not explained\".\n",
        if reproduction.full { " --full" } else { "" }
    );
    for paper in &reproduction.papers {
        let machine = match reproduction.here {
            true => escaped(&paper.machine),
            false => format!("the model `{}`", paper.machine),
        };
        out += &format!("\n## {}\n\n{}; on {machine}.\n", paper.id, escaped(&paper.title));
        for item in &paper.items {
            out += &item_text(item);
        }
    }
    out
}

fn item_text(item: &ReproducedItem) -> String {
    let mut out = format!("\n### {}\n\n", escaped(&item.title));
    if let Some(command) = &item.filled_by {
        return out + &format!("Filled by: {}.\n", escaped(command));
    }
    if item.left_out {
        return out + "Left out of the quick set.\n";
    }
    if let Some(method) = &item.method {
        out += &format!("{}\n\n", escaped(method));
    }
    if !item.rows.is_empty() {
        out += "| | published | ours | off | conclusion | same |\n|---|--:|--:|--:|---|---|\n";
        item.rows.iter().for_each(|row| out += &line(row));
    }
    let notes: Vec<String> = item.rows.iter().filter_map(note).collect();
    if !notes.is_empty() {
        out.push('\n');
        out.extend(notes.iter().map(|note| format!("- {}\n", escaped(note))));
    }
    for figure in &item.figures {
        out += &format!("\n{}, by {}:\n\n| |", escaped(&figure.title), escaped(&figure.x));
        let mut along: Vec<f64> =
            figure.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        along.sort_by(f64::total_cmp);
        along.dedup();
        let is_grid = figure.curves.iter().all(|curve| curve.points.len() == along.len());
        if is_grid {
            out.extend(along.iter().map(|x| format!(" {} |", place(&figure.x, *x))));
            out += &format!("\n|---|{}\n", "--:|".repeat(along.len()));
            for curve in &figure.curves {
                let cells: String =
                    curve.points.iter().map(|point| format!(" {} |", number(point.1))).collect();
                out += &format!("| {} |{cells}\n", escaped(&curve.name));
            }
        } else {
            out += " points |\n|---|---|\n";
            for curve in &figure.curves {
                let points =
                    curve.points.iter().map(|(x, y)| format!("{}: {}", place(&figure.x, *x), number(*y)));
                out += &format!("| {} | {} |\n", escaped(&curve.name), points.collect::<Vec<_>>().join("; "));
            }
        }
    }
    if !item.slips.is_empty() {
        out.push('\n');
        out.extend(item.slips.iter().map(|slip| format!("Slip of the paper: {}\n\n", escaped(slip))));
    }
    out
}

fn place(x: &str, value: f64) -> String {
    if x == "bytes" { machine::Bytes(value.round() as u64).to_string() } else { number(value) }
}

fn line(row: &ReproducedRow) -> String {
    let label = match row.unit.is_empty() {
        true => row.label.clone(),
        false => format!("{}, {}", row.label, row.unit),
    };
    let value = |value: Option<f64>| value.map_or_else(|| ABSENT.to_owned(), number);
    let same = match row.same {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => ABSENT,
    };
    format!(
        "| {} | {} | {} | {} | {} | {same} |\n",
        escaped(&label),
        value(row.published),
        value(row.ours),
        row.deviation.map_or_else(|| ABSENT.to_owned(), off_text),
        escaped(&row.concludes),
    )
}

/// Claims down, mutants across: `x` fell, `.` stood; in bold what was said before and came otherwise.
pub fn matrix(matrix: &MutationMatrix) -> String {
    let mut out = "# Which claims fall on mutated machines\n\nMade by `memwall reproduce --mutants --markdown`. What must fall and \
                   what must stand was written down before the first run (`crates/reproduce/mutants.toml`). \
                   `x`: fell, `·`: stood, as was said before; `(x)`, `(·)`: nothing was said; **bold**: otherwise than was said, `?` if it could not be tried.\n\n"
        .to_owned();
    for mutant in &matrix.mutants {
        out += &format!("- **{}**: {}. {}\n", mutant.id, escaped(&mutant.change), escaped(&mutant.mechanism));
    }
    out += "\n| claim |";
    out.extend(matrix.mutants.iter().map(|mutant| format!(" {} |", mutant.id)));
    out += &format!("\n|---|{}\n", "---|".repeat(matrix.mutants.len()));
    for claim in matrix.claims() {
        out += &format!("| {claim} |");
        for mutant in &matrix.mutants {
            let found = mutant.claims.iter().find(|outcome| outcome.claim == claim);
            let cell = match found.map(|outcome| (outcome.expected, outcome.holds)) {
                Some((Some(said), Some(holds))) if said == holds => mark(holds).to_owned(),
                Some((Some(_), Some(holds))) => format!("**{}**", mark(holds)),
                Some((Some(_), None)) => "**?**".to_owned(),
                Some((None, Some(holds))) => format!("({})", mark(holds)),
                _ => ABSENT.to_owned(),
            };
            out += &format!(" {cell} |");
        }
        out.push('\n');
    }
    let misses: usize = matrix.mutants.iter().map(|mutant| mutant.misses().count()).sum();
    out += &format!("\n{misses} came otherwise than was said before.");
    match matrix.never_fell.is_empty() {
        true => out += " Every claim falls on some mutant.\n",
        false => out += &format!(" No mutant fells: {}.\n", matrix.never_fell.join(", ")),
    }
    out
}

fn mark(holds: bool) -> &'static str {
    if holds { "·" } else { "x" }
}

#[cfg(test)]
mod tests {
    use record::reproduce::{ClaimOutcome, MATRIX_SCHEMA, MutantOutcome, ReproducedPaper, SCHEMA};

    use super::*;

    fn row(label: &str, published: Option<f64>, ours: f64, same: bool, why: Option<&str>) -> ReproducedRow {
        ReproducedRow {
            claim: format!("paper/table/{label}"),
            label: label.to_owned(),
            unit: "GB/s".to_owned(),
            published,
            ours: Some(ours),
            missing: None,
            deviation: published.map(|published| ours / published - 1.0),
            concludes: "as fast as that".to_owned(),
            holds_if: "within 10 % of the published".to_owned(),
            same: Some(same),
            why: why.map(str::to_owned),
            not_independent: None,
        }
    }

    #[test]
    fn what_is_off_by_more_than_a_tenth_has_a_reason_or_is_not_explained() {
        let rows = vec![
            row("near", Some(100.0), 109.0, true, None),
            row("off", Some(100.0), 111.0, true, None),
            row("low", Some(100.0), 89.0, true, Some("channels turn")),
            row("near and otherwise", None, 1.0, false, None),
            row("said before it is off", Some(100.0), 100.0, true, Some("never shown")),
        ];
        let item = ReproducedItem {
            id: "table".to_owned(),
            title: "Table".to_owned(),
            method: None,
            filled_by: None,
            left_out: false,
            rows,
            figures: Vec::new(),
            slips: Vec::new(),
        };
        let text = item_text(&item);
        let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(
            notes,
            [
                "- off: why: not explained",
                "- low: why: channels turn",
                "- near and otherwise: the paper: as fast as that; why: not explained",
            ],
            "{text}"
        );
        let paper = ReproducedPaper {
            id: "paper".to_owned(),
            title: "Title".to_owned(),
            machine: "tiny".to_owned(),
            items: vec![item],
        };
        let (schema, papers) = (SCHEMA.to_owned(), vec![paper]);
        let all = reproduce(&Reproduction { schema, full: true, here: false, complete: true, papers });
        assert!(all.contains("reproduce --full --markdown`. 4 of 5 conclusions"), "{all}");
    }

    #[test]
    fn a_matrix_shows_what_came_otherwise_what_could_not_be_tried_and_what_never_fell() {
        let outcome = |claim: &str, expected, holds| ClaimOutcome {
            claim: claim.to_owned(),
            expected,
            holds,
            ours: None,
        };
        let claims = vec![
            outcome("fell", Some(false), Some(false)),
            outcome("stood", Some(true), Some(true)),
            outcome("fell-otherwise", Some(true), Some(false)),
            outcome("stood-otherwise", Some(false), Some(true)),
            outcome("not-tried", Some(true), None),
            outcome("unsaid", None, Some(true)),
        ];
        let mutant = MutantOutcome {
            id: "m".to_owned(),
            change: "less".to_owned(),
            mechanism: "Less is less.".to_owned(),
            claims,
        };
        let (schema, never_fell) = (MATRIX_SCHEMA.to_owned(), vec!["unsaid".to_owned()]);
        let text = matrix(&MutationMatrix { schema, complete: true, mutants: vec![mutant], never_fell });
        for line in [
            "| fell | x |",
            "| stood | · |",
            "| fell-otherwise | **x** |",
            "| stood-otherwise | **·** |",
            "| not-tried | **?** |",
            "| unsaid | (·) |",
            "3 came otherwise than was said before. No mutant fells: unsaid.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
