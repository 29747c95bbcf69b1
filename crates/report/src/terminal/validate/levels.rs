//! The best indicator per level and direction (as molka2017 Tables 2 and 3).

use ::trust::{Best, Trust, Validation};
use machine::units::{gb_per_s, significant};

use crate::{
    layout::prose::wrap,
    layout::style::{HEADING, QUIET, WARNING, paint},
    layout::table::{Cell, Column, Table},
    terminal::trust::error_text,
};

/// Bytes of a line.
const LINE: f64 = 64.0;

/// Letters of a name in the table.
const LONGEST_NAME: usize = 40;

/// The table, and what it could not hold.
pub fn table(validation: &Validation, columns: usize) -> String {
    if validation.best.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::new("level").left(),
        Column::new("cores"),
        Column::new("GB/s").drop_rank(2).called("bandwidth"),
        Column::new("M/s").called("events per second"),
        Column::new("error").drop_rank(1),
        Column::new("indicator").left(),
    ]);
    for best in &validation.best {
        table.row(row(best));
    }
    let mut out = format!("\n{}\n", paint(HEADING, "Best indicator of each level, and its highest rate"));
    out += &table.render(columns).text;
    for best in &validation.best {
        if let Some(paper) = &best.paper {
            let text = format!(
                "{} on {}: molka2017 uses {}, which is {} here{}",
                best.name(),
                cores(best.cores),
                paper.indicator,
                paper.trust.word(),
                reason(&paper.trust),
            );
            out += &wrap("  ", &text, columns);
        }
        if !best.overlap.is_empty() || best.alone.is_some() {
            out += &wrap("  ", &overlap(best), columns);
        }
    }
    out
}

/// What else the indicator of a level counts, and what counts the level alone.
fn overlap(best: &Best) -> String {
    let shares = best
        .overlap
        .iter()
        .map(|one| format!("{:.0} % of the lines of {}", one.per_line * 100.0, one.name()));
    let also: Vec<String> = shares.collect();
    let mut text = format!("{} on {}: ", best.name(), cores(best.cores));
    text += &match also.is_empty() {
        true => "its indicator counts nothing of other levels".to_owned(),
        false => format!("its indicator also counts {}", also.join(", ")),
    };
    if let Some(alone) = &best.alone {
        let within = match &alone.trust {
            Trust::Trusted { error } => format!(", within {}", error_text(*error)),
            _ => String::new(),
        };
        text += &format!("; without them: {}{within}", alone.indicator);
    }
    text
}

fn row(best: &Best) -> Vec<Cell> {
    let millions = |rate: f64| significant(rate / 1e6, 3);
    let error = match &best.trust {
        Some(Trust::Trusted { error }) => error_text(*error),
        Some(Trust::Qualitative { .. }) => "rough".to_owned(),
        _ => "–".to_owned(),
    };
    let indicator = match &best.indicator {
        Some(name) => Cell::from(short(name)),
        None => Cell::styled("none found fit", WARNING),
    };
    vec![
        Cell::from(best.name()),
        Cell::from(best.cores.to_string()),
        Cell::styled(gb_per_s(best.lines_per_s * bytes(best)).replace(" GB/s", ""), QUIET),
        Cell::from(best.events_per_s.map_or_else(|| "–".to_owned(), millions)),
        Cell::from(error),
        indicator,
    ]
}

/// A name that leaves room for the numbers; the list below has it whole.
fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// What one transfer carries; in the L1 it is an access, whose width the number does not tell.
fn bytes(best: &Best) -> f64 {
    match best.level {
        ::trust::KernelPlace::L1 => LINE / 2.0,
        _ => LINE,
    }
}

fn cores(number: usize) -> String {
    if number == 1 { "one core".to_owned() } else { format!("{number} cores") }
}

fn reason(trust: &Trust) -> String {
    match trust {
        Trust::Trusted { error } => format!(" too, within {}", error_text(*error)),
        Trust::Qualitative { misses, .. } => format!(": not {misses}"),
        Trust::Broken { why, .. } => format!(": {why}"),
        Trust::Untested { missing } => format!(": {missing}"),
    }
}
