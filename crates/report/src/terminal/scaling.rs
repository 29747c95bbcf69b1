//! A program run with several numbers of threads.

use analysis::scaling::{ScalingFindings, ScalingPoint, ScalingSpread};

use crate::layout::{
    figures::{absent, number, percent_text, time},
    prose::{visible, wrap_in},
    style::{HEADING, QUIET},
    table::{Cell, Column, Table},
};

/// A table; nothing of a program that was run once.
pub fn text(scaling: Option<&ScalingFindings>, columns: usize) -> String {
    let Some(found) = scaling else { return String::new() };
    let mut out = format!("\n{}", wrap_in(HEADING, "", "Scaling", columns));
    let mut table = Table::new(vec![
        Column::new("threads"),
        Column::new("runs").drop_rank(5),
        Column::new("time"),
        Column::new("speedup"),
        Column::new("efficiency %"),
        Column::new("user time ×").drop_rank(1),
        Column::new("memory %").drop_rank(2),
        Column::new("for others %").drop_rank(3),
        Column::new("imbalance %").drop_rank(4),
        Column::new("streams").drop_rank(6),
    ]);
    found.points.iter().for_each(|point| table.row(row(point)));
    out += &table.render(columns).text;
    let rounds = "Middle of the runs, with the smallest and the largest where they differ; ratios are of runs right after each \
                  other.";
    out += &wrap_in(QUIET, "", rounds, columns);
    for remark in &found.remarks {
        out += &wrap_in(QUIET, "", &visible(remark), columns);
    }
    out
}

fn row(point: &ScalingPoint) -> Vec<Cell> {
    let shown = |spread: Option<ScalingSpread>, of: &dyn Fn(f64) -> String| {
        spread.map_or_else(absent, |spread| Cell::from(with_ends(spread, of)))
    };
    let percent = |value: f64| percent_text(value);
    let times = |value: f64| number(Some(value)).text().to_owned();
    let runs = match point.spoilt {
        0 => point.runs.to_string(),
        spoilt => format!("{} ({spoilt} disturbed)", point.runs),
    };
    vec![
        Cell::from(point.threads.to_string()),
        Cell::from(runs),
        shown(Some(point.elapsed_ns), &|value| time(value).text().to_owned()),
        shown(point.speedup, &times),
        shown(point.efficiency, &percent),
        shown(point.user_growth, &times),
        shown(point.memory, &percent),
        shown(point.synchronising, &percent),
        shown(point.imbalance, &percent),
        shown(point.stream_bytes_per_s, &|value| format!("{:.1} GB/s", value / 1e9)),
    ]
}

/// The middle, and both ends where they look different.
fn with_ends(spread: ScalingSpread, shown: &dyn Fn(f64) -> String) -> String {
    let (value, low, high) = (shown(spread.value), shown(spread.low), shown(spread.high));
    if low == high { value } else { format!("{value} ({low} to {high})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_shown_where_they_differ_and_what_is_missing_is_absent() {
        let spread = |value: f64, low: f64, high: f64| ScalingSpread { value, low, high };
        let point = ScalingPoint {
            threads: 2,
            runs: 3,
            spoilt: 1,
            elapsed_ns: spread(2e9, 1.5e9, 2.5e9),
            speedup: Some(spread(1.5, 1.5, 1.5)),
            efficiency: Some(spread(0.75, 0.5, 0.8)),
            user_growth: None,
            memory: None,
            synchronising: Some(spread(0.0, 0.0, 0.0)),
            imbalance: None,
            stream_bytes_per_s: None,
        };
        let found = ScalingFindings {
            cpus: 2,
            cores: Some(2),
            points: vec![point],
            compared: None,
            remarks: vec!["One of them\u{1b}[31m was disturbed.".to_owned()],
        };
        let shown = text(Some(&found), 200);
        for expected in ["75 (50 to 80)", "3 (1 disturbed)", "2.00 s (1.50 s to 2.50 s)", " 1.5"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!shown.contains("them\u{1b}"));
        assert_eq!(text(None, 80), "");
    }
}
