//! The evidence of one indicator.

use ::trust::{Judged, SeenStores, Trust};
use machine::units::significant;

use super::bound;
use crate::{
    layout::prose::{counted, titled, wrap, wrap_in},
    layout::style::QUIET,
    layout::table::{Cell, Column, Table},
};

/// Everything that is known of the verdicts on an indicator.
pub fn explain(verdicts: &[&Judged], columns: usize) -> String {
    verdicts.iter().map(|one| verdict(one, columns)).collect::<Vec<_>>().join("\n")
}

fn verdict(one: &Judged, columns: usize) -> String {
    let mut out = titled(one.name.name(), &format!("{}: {}", one.purpose, one.trust.word()), columns);
    out += &wrap("  ", &reason(one, &one.trust), columns);
    if let Some(trust) = &one.without_prefetch {
        out += &wrap(
            "  ",
            &format!("With prefetchers off it is {}. {}", trust.word(), reason(one, trust)),
            columns,
        );
    }
    for seen in &one.sees {
        out += &wrap("  ", &stores(seen), columns);
    }
    if let Some(errors) = &one.errors {
        let kernels =
            errors.kernels.map_or_else(String::new, |kernels| format!(" of {}", counted(kernels, "kernel")));
        let text = format!(
            "Errors over {}{kernels}: smallest {}, mean {}, worst {}.",
            counted(errors.observations, "run"),
            signed(errors.least),
            signed(errors.mean),
            signed(errors.worst)
        );
        out += &wrap("  ", &text, columns);
    }
    for remark in &one.remarks {
        out += &wrap("  ", remark, columns);
    }
    if one.events.len() > 1 || one.events != [one.name.name()] {
        out += &wrap_in(QUIET, "  ", &format!("Events: {}", one.events.join(", ")), columns);
    }
    if !one.evidence.is_empty() {
        out += &table(one, columns);
    }
    out
}

/// What is seen of modified lines in one state.
fn stores(seen: &SeenStores) -> String {
    let state = match (seen.prefetch, seen.remote) {
        (true, false) => "Prefetchers on",
        (false, false) => "Prefetchers off",
        (true, true) => "Remote memory, prefetchers on",
        (false, true) => "Remote memory, prefetchers off",
    };
    let words = |share: f64| match share {
        share if share.abs() < UNSEEN => "does not see".to_owned(),
        share if (share - 1.0).abs() < UNSEEN => "sees".to_owned(),
        share => format!("counts {:.0} % of", share * 100.0),
    };
    let (owned, out) = (words(seen.owned), words(seen.out));
    format!("{state}: it {owned} lines that stores must own first, and {out} lines that are written back.")
}

/// Per line: less is none, and as little less than one is all.
const UNSEEN: f64 = 0.1;

fn table(one: &Judged, columns: usize) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| significant(value, 4));
    let mut table = Table::new(vec![
        Column::new("experiment").left(),
        Column::new("true"),
        Column::new("counted"),
        Column::new("off by"),
        Column::new("").left().drop_rank(1),
    ]);
    for line in &one.evidence {
        table.row(vec![
            Cell::from(line.experiment.clone()),
            Cell::from(number(line.truth)),
            Cell::from(number(line.counted)),
            Cell::from(line.error.map_or_else(|| "–".to_owned(), signed)),
            Cell::styled(line.note.clone(), QUIET),
        ]);
    }
    table.render(columns).text
}

fn reason(one: &Judged, trust: &Trust) -> String {
    match trust {
        Trust::Trusted { error } => format!("It can be believed to within {}.", bound(one, *error)),
        Trust::Qualitative { tells, misses } => format!("It tells: {tells}. It does not tell: {misses}."),
        Trust::Broken { why, shown_by, .. } => format!("It {why}. Shown by: {shown_by}."),
        Trust::Untested { missing } => format!("Untested: {missing}."),
    }
}

fn signed(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}
