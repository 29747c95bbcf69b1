//! Metrics over time and the use of each level, drawn with letters.

use record::count::Counts;

use crate::{
    layout::{
        figures::{number, percent_text, scaled, time},
        prose::{clipped, counted, visible, wrap_in},
        series::{TimeLines, used_levels},
        style::{HEADING, QUIET},
    },
    terminal::run::bars::{bar, column},
};

/// Letters of a name before its picture, and of a picture.
const NAME: usize = 34;
const WIDEST: usize = 60;

/// One row of columns for each metric, each from nothing to its largest value.
pub(super) fn over_time(counts: &Counts, columns: usize) -> String {
    lines(&TimeLines::of(counts), columns)
}

/// The same of lines from wherever.
pub(crate) fn lines(found: &TimeLines, columns: usize) -> String {
    let (Some(last), false) = (found.ends_ns.last(), found.lines.is_empty()) else { return String::new() };
    let heading =
        format!("Over time ({} in {})", time(*last as f64).text(), counted(found.ends_ns.len(), "interval"));
    let mut out = wrap_in(HEADING, "", &heading, columns);
    let room = columns.saturating_sub(NAME + 24).clamp(8, WIDEST);
    for line in &found.lines {
        let most = line.most().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let height = |value: Option<f64>| value.map(|value| (value / most).max(0.0));
        let shown: String = line.parts(room).into_iter().map(|value| column(height(value))).collect();
        let (value, unit) = scaled(line.most(), &line.unit);
        let name = clipped(&visible(&line.name), NAME);
        out += &format!("  {name:<NAME$} {shown}  up to {} {unit}\n", number(value).text());
    }
    if found.left_out > 0 {
        let more = counted(found.left_out, "more metric");
        out += &wrap_in(QUIET, "  ", &format!("{more} over time: --json has all of them."), columns);
    }
    out
}

/// Each level from the core outwards, as full as it is used.
pub(super) fn hierarchy(counts: &Counts, columns: usize) -> String {
    let levels = used_levels(counts);
    if levels.is_empty() {
        return String::new();
    }
    let mut out =
        wrap_in(HEADING, "", "Use of each level, from the core outwards, % of the most measured", columns);
    for level in &levels {
        let name = clipped(&visible(&level.name), 12);
        match &level.used {
            Ok(share) => {
                let rate = level.rate.as_ref().map_or_else(String::new, |(rate, unit)| {
                    let (value, unit) = scaled(Some(*rate), unit);
                    format!("  {} {unit}", number(value).text())
                });
                out +=
                    &format!("  {name:<12} {:>5} %  {:<30}{rate}\n", percent_text(*share), bar(*share, 30));
            }
            Err(reason) => out += &wrap_in(QUIET, "  ", &format!("{name}: {}", visible(reason)), columns),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::series::{MetricLine, tests::counts};

    #[test]
    fn lines_and_levels_are_drawn_with_what_they_lack() {
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        let text = plain(over_time(&counts(), 100));
        assert!(text.contains("Over time (400 ns in 4 intervals)"), "{text}");
        assert!(text.contains("▆·██  up to 90.0 % of the measured peak"), "{text}");
        let text = plain(hierarchy(&counts(), 100));
        assert!(text.contains("L2: no peak was measured"), "{text}");
        assert!(text.contains("memory          80 %  ████████████████████████        8.00 GB/s"), "{text}");
        let nothing = TimeLines {
            ends_ns: vec![1, 2],
            lines: vec![MetricLine {
                name: "n".to_owned(),
                unit: "1".to_owned(),
                values: vec![Some(0.0), None],
            }],
            left_out: 0,
        };
        assert!(lines(&nothing, 80).contains("▁·"), "none is no gap");
        assert_eq!(over_time(&Counts::default(), 80) + &hierarchy(&Counts::default(), 80), "");
    }
}
