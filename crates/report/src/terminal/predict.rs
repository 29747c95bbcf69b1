//! What measured curves say about machines with less, and about programs side by side.

use record::predict::{PredictAnswer, Predictions};

use crate::{
    layout::prose::{titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Column, Table},
};

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
    out += &wrap_in(
        QUIET,
        "• ",
        "From curves between measured strengths; losses of cache and bandwidth added up. How processes share a cache is \
         taken to be in proportion to what they use. On a simulated machine half the cache was predicted within 2 % in 4 of 4 \
         cases, half the bandwidth up to 25 % too slow, and a mapping wrongly.",
        columns,
    );
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
