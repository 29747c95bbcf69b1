//! The run over time.

use analysis::findings::{Timeline, TimelineInterval};

use super::{bars::column, subject::seconds};
use crate::{
    layout::figures::{number, percent, percent_text},
    layout::prose::wrap_in,
    layout::style::{HEADING, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// A row of columns, high where loads are waited for, and the same in numbers.
pub fn text(timeline: &Timeline, columns: usize) -> String {
    let intervals = &timeline.intervals;
    if intervals.len() < 2 {
        return String::new();
    }
    let flagged = intervals.iter().filter(|interval| interval.flagged).count();
    let heading = format!(
        "Waiting on loads over time ({} in intervals of {})",
        seconds(timeline.interval_ns as f64 * intervals.len() as f64),
        seconds(timeline.interval_ns as f64)
    );
    let mut out = wrap_in(HEADING, "", &heading, columns);
    let shown: String = shares(intervals, columns.saturating_sub(4).clamp(8, 72)).map(column).collect();
    out += &format!("  {shown}\n");
    let line = format!(
        "{flagged} of {} intervals flagged: waiting on loads above {} % of their user time, {}.",
        intervals.len(),
        percent_text(timeline.threshold),
        threshold_from(timeline)
    );
    out += &wrap_in(if flagged > 0 { WARNING } else { QUIET }, "  ", &line, columns);
    if intervals.iter().any(|interval| interval.loads.is_none()) {
        out += &wrap_in(
            QUIET,
            "  ",
            "A dot: nothing ran in user mode there, or none of it could be read.",
            columns,
        );
    }
    out + &numbers(intervals, columns)
}

/// Where the threshold comes from.
pub(crate) fn threshold_from(timeline: &Timeline) -> &'static str {
    if timeline.measured_here { "as validated on its machine" } else { "the limit of machines in general" }
}

/// Waiting on loads of intervals, in at most `room` parts: several intervals share a part where there are too many,
/// weighted by their samples.
pub(super) fn shares(intervals: &[TimelineInterval], room: usize) -> impl Iterator<Item = Option<f64>> + '_ {
    let each = intervals.len().div_ceil(room).max(1);
    let share = move |part: &[TimelineInterval]| {
        let (waiting, samples) = part.iter().fold((0.0, 0.0), |(waiting, samples), interval| {
            let weight = interval.samples as f64;
            interval.loads.map_or((waiting, samples), |loads| (waiting + loads * weight, samples + weight))
        });
        (samples > 0.0).then(|| waiting / samples)
    };
    intervals.chunks(each).map(share)
}

fn numbers(intervals: &[TimelineInterval], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("from"),
        Column::new("samples"),
        Column::new("loads %").called("waiting on loads"),
        Column::new("memory %").called("waiting for memory").drop_rank(2),
        Column::new("running").called("threads running").drop_rank(1),
        Column::new("").left().called("flag"),
    ]);
    for interval in intervals {
        table.row(vec![
            seconds(interval.start_ns as f64).into(),
            interval.samples.to_string().into(),
            percent(interval.loads),
            percent(interval.memory),
            number(interval.running_threads),
            Cell::styled(if interval.flagged { "flagged" } else { "" }, WARNING),
        ]);
    }
    table.render(columns).text
}
