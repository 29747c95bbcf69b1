//! What measured curves say about machines with less, and about programs side by side.

use record::predict::{PredictAnswer, PredictRange, Predictions};

use super::squeeze::amount;

use crate::{
    layout::prose::{titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Column, Table},
};

/// What predictions are worth, as docs/squeeze.md has it.
pub(crate) const HOW_OFTEN_RIGHT: &str = "Losses of cache and bandwidth are added up. How right such predictions were on a simulated machine is in docs/squeeze.md.";

/// Outside of what nothing is said.
pub(crate) fn range_sentence(range: &PredictRange) -> String {
    format!(
        "{}: measured with {} to {} of {}; nothing is said outside of that.",
        range.program,
        amount(range.kind, range.least),
        amount(range.kind, range.whole),
        range.kind
    )
}

/// What people read.
pub fn text(predictions: &Predictions, columns: usize) -> String {
    let mut out = titled("predict", &predictions.programs.join(", "), columns);
    let told: Vec<&PredictAnswer> =
        predictions.answers.iter().filter(|answer| answer.slowdown.is_some()).collect();
    if !told.is_empty() {
        out.push('\n');
        out += &table(&told).render(columns).text;
    }
    for answer in &predictions.answers {
        if let Some(why) = &answer.refused {
            out += &wrap_in(WARNING, "• ", &format!("{}: refused, {why}", answer.what), columns);
        }
    }
    if let Some(best) = &predictions.best {
        let text = format!("{} on a socket: {}.", best.per_socket, best.why);
        out += &wrap("Best: ", &text, columns);
    }
    for range in &predictions.ranges {
        out += &wrap_in(QUIET, "• ", &range_sentence(range), columns);
    }
    out += &wrap_in(QUIET, "• ", HOW_OFTEN_RIGHT, columns);
    out
}

fn table(told: &[&PredictAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::new("").left(),
        Column::new("time"),
        Column::new("interval"),
        Column::new("cause").left().drop_rank(1),
    ]);
    for answer in told {
        let Some(slowdown) = &answer.slowdown else { continue };
        table.row(vec![
            answer.what.clone().into(),
            format!("{:.2} ×", slowdown.value).into(),
            format!("{:.2} to {:.2}", slowdown.low, slowdown.high).into(),
            answer.cause.map_or("nothing lost", |kind| kind.name()).into(),
        ]);
    }
    table
}
