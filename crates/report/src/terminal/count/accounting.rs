//! What a group says beyond its metrics: wholes and their parts, bounds, measured penalties, printed formulas, advice.

use events::ValueBound;
use record::count::{CountedBar, CountedConstant, CountedMetric, GroupMetrics};

use super::values::{self, Reasons};
use crate::{
    layout::figures::{number, percent_text, scaled},
    layout::prose::{clipped, visible, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING},
    layout::table::Cell,
};

/// Width of a bar that stands for the whole.
const WHOLE: usize = 30;
/// Letters of a name before its bar.
const NAME: usize = 40;
/// The unit of shares of the most that was measured.
const OF_PEAK: &str = "% of the measured peak";

/// A value with its side of the truth.
pub(super) fn bounded(cell: Cell, bound: ValueBound) -> Cell {
    match bound {
        ValueBound::Exact => cell,
        ValueBound::AtLeast => Cell::from(format!("≥ {}", cell.text())),
        ValueBound::AtMost => Cell::from(format!("≤ {}", cell.text())),
        ValueBound::Unclear => Cell::from(format!("~ {}", cell.text())),
    }
}

/// A value with what it lies between, or that alone where it is not decided.
pub(super) fn ranged(cell: Cell, metric: &CountedMetric) -> Cell {
    let Some(range) = metric.range() else { return cell };
    let bounds = format!("{:.0} to {:.0}", range.least, range.most);
    match metric.values.is_empty() {
        true => Cell::styled(bounds, WARNING),
        false => Cell::from(format!("{} ({bounds})", cell.text())),
    }
}

/// All of it; nothing for groups that have nothing of it.
pub(super) fn text(group: &GroupMetrics, columns: usize) -> String {
    let mut out = bounds(group, columns);
    for bar in group.bars.iter().filter(|bar| bar.base() > 0.0) {
        out += &bar_text(bar, columns);
    }
    out += &levels(group, columns);
    out += &peaks(group, columns);
    out += &measured(group, columns);
    out += &printed(group, columns);
    for remark in &group.remarks {
        out += &wrap_in(WARNING, "  ", remark, columns);
    }
    out + &advice(group, columns)
}

fn bounds(group: &GroupMetrics, columns: usize) -> String {
    let mut reasons = Reasons::default();
    for metric in group.metrics.iter().filter(|metric| metric.bound != ValueBound::Exact) {
        reasons
            .add(&metric.name, &format!("{}, without {}", metric.bound.words(), metric.without.join(", ")));
    }
    reasons.text(columns)
}

/// A whole and its parts, each as long as its share.
fn bar_text(bar: &CountedBar, columns: usize) -> String {
    let base = bar.base();
    let whole =
        bar.whole.map_or_else(String::new, |whole| format!(" ({} {})", number(Some(whole)).text(), bar.unit));
    let mut out = wrap_in(HEADING, "\n", &format!("{}{whole}", bar.title), columns);
    for part in &bar.parts {
        let share = part.value / base;
        let name = clipped(&visible(&part.name), NAME);
        let blocks = "█".repeat((share * WHOLE as f64).round() as usize);
        out += &format!("  {name:<NAME$} {:>7}  {blocks}\n", percent_text(share) + " %");
    }
    for name in &bar.missing {
        out += &wrap_in(QUIET, "  ", &format!("{name}: not counted"), columns);
    }
    out
}

fn levels(group: &GroupMetrics, columns: usize) -> String {
    let mut out = String::new();
    for metric in &group.metrics {
        let (Some(level), Some(value)) = (&metric.level, values::mean(&metric.values)) else { continue };
        let word = ["low", "medium", "high"][usize::from(level.level.min(2))];
        let line = format!(
            "{} {}: {word}, {} (medium from {}, high from {})",
            metric.name,
            number(Some(value)).text(),
            level.means,
            level.medium,
            level.high
        );
        let style = if level.level > 1 { WARNING } else { QUIET };
        out += &wrap_in(style, "  ", &line, columns);
    }
    if out.is_empty() { out } else { wrap_in(HEADING, "\n", "Low, medium, high", columns) + &out }
}

/// What 100 % of a use is, and who measured it.
fn peaks(group: &GroupMetrics, columns: usize) -> String {
    let is_used = group.metrics.iter().any(|metric| metric.unit == OF_PEAK && !metric.values.is_empty());
    let peak = |constant: &CountedConstant| {
        let (rate, by) = (constant.measured?, constant.measured_by?);
        let is_rate = constant.value.is_none() && constant.name.ends_with("peak");
        let (Some(value), unit) = scaled(Some(rate), "B/s") else { return None };
        is_rate.then(|| format!("{}: {value:.1} {unit} by '{}'", constant.name, by.command()))
    };
    let found: Vec<String> = group.constants.iter().filter(|_| is_used).filter_map(peak).collect();
    match found.is_empty() {
        true => String::new(),
        false => wrap_in(QUIET, "  ", &format!("100 % is {}.", found.join(", ")), columns),
    }
}

fn measured(group: &GroupMetrics, columns: usize) -> String {
    let with_own: Vec<_> = group.metrics.iter().filter(|metric| !metric.measured.is_empty()).collect();
    if with_own.is_empty() {
        let wanted = group.constants.iter().any(|constant| constant.value.is_some());
        let words = "Penalties are the paper's: 'memwall calibrate' measures those of this machine.";
        return if wanted { wrap_in(QUIET, "  ", words, columns) } else { String::new() };
    }
    let mut out = wrap_in(HEADING, "\n", "With the penalties measured on this machine", columns);
    for constant in &group.constants {
        if let Some(own) = constant.measured {
            let Some(paper) = constant.value else { continue };
            let line = format!("{}: {own:.1}, {paper} in {}", constant.name, constant.source);
            out += &wrap_in(QUIET, "  ", &line, columns);
        }
    }
    let unmeasured = unmeasured(group);
    if !unmeasured.is_empty() {
        let line = format!("Only the paper's, not measured here: {}.", unmeasured.join(", "));
        out += &wrap_in(QUIET, "  ", &line, columns);
    }
    for metric in with_own {
        let [paper, own] = [&metric.values, &metric.measured].map(|values| number(values::mean(values)));
        let line =
            format!("{}: {} {}, {} by the paper's", metric.name, own.text(), metric.unit, paper.text());
        out += &wrap("  ", &line, columns);
    }
    out
}

/// Penalties of the paper that this machine's profile has nothing for.
pub(crate) fn unmeasured(group: &GroupMetrics) -> Vec<String> {
    let only = group.constants.iter().filter(|constant| constant.measured.is_none());
    only.filter_map(|constant| Some(format!("{} ({})", constant.name, constant.value?))).collect()
}

fn printed(group: &GroupMetrics, columns: usize) -> String {
    let mut out = String::new();
    for metric in &group.metrics {
        let Some(printed) = &metric.printed else { continue };
        let Some(value) = values::mean(&printed.values) else { continue };
        // Of a whole program, for example, both margins are the same.
        if values::mean(&metric.values) == Some(value) {
            continue;
        }
        let line = format!("{} as printed: {}; {}", metric.name, number(Some(value)).text(), printed.note);
        out += &wrap_in(QUIET, "  ", &line, columns);
    }
    out
}

fn advice(group: &GroupMetrics, columns: usize) -> String {
    let mut out = String::new();
    for metric in &group.metrics {
        if let Some(advice) = &metric.advice {
            out += &wrap("  • ", &format!("{}: {advice}", metric.name), columns);
        }
    }
    if out.is_empty() { out } else { wrap_in(HEADING, "\n", "What could help", columns) + &out }
}

#[cfg(test)]
mod tests {
    use record::count::{BarPart, CountedMetric, MeasuredBy, MetricLevel, PrintedMetric};

    use super::*;

    fn group() -> GroupMetrics {
        let metric = |name: &str, value: f64| CountedMetric {
            name: name.to_owned(),
            unit: "cycles".to_owned(),
            values: vec![value],
            ..CountedMetric::default()
        };
        let part = |name: &str, value| BarPart { name: name.to_owned(), value, measured: None };
        let level = MetricLevel {
            level: 2,
            medium: 1.0,
            high: 2.0,
            means: "waits most of the time".to_owned(),
            source: "here".to_owned(),
        };
        GroupMetrics {
            group: "G".to_owned(),
            metrics: vec![
                CountedMetric {
                    bound: ValueBound::AtLeast,
                    without: vec!["LOAD_BLOCK.STA".to_owned()],
                    advice: Some("store earlier".to_owned()),
                    ..metric("forwarding", 90.0)
                },
                CountedMetric { measured: vec![2500.0], ..metric("misses", 2000.0) },
                CountedMetric { level: Some(level), ..metric("CPI", 3.0) },
                CountedMetric {
                    printed: Some(PrintedMetric {
                        formula: "a".to_owned(),
                        values: vec![-7.0],
                        note: "cycles off counts".to_owned(),
                    }),
                    ..metric("other", 5.0)
                },
            ],
            bars: vec![CountedBar {
                title: "stalls".to_owned(),
                of: None,
                whole: Some(400.0),
                unit: "cycles".to_owned(),
                parts: vec![part("misses", 300.0), part("hits", 100.0)],
                missing: vec!["walks".to_owned()],
            }],
            constants: vec![CountedConstant {
                name: "miss_cycles".to_owned(),
                value: Some(200.0),
                source: "a paper".to_owned(),
                measured: Some(250.0),
                measured_by: None,
            }],
            remarks: vec!["They overlap.".to_owned()],
            ..GroupMetrics::default()
        }
    }

    #[test]
    fn everything_beyond_the_numbers_is_said() {
        let text = anstream::adapter::strip_str(&text(&group(), 100)).to_string();
        for words in [
            "forwarding: at least, without LOAD_BLOCK.STA",
            "stalls (400 cycles)",
            "75 %  ███████████████████████\n",
            "25 %  ████████\n",
            "walks: not counted",
            "CPI 3.00: high, waits most of the time (medium from 1, high from 2)",
            "miss_cycles: 250.0, 200 in a paper",
            "misses: 2500 cycles, 2000 by the paper's",
            "other as printed: -7.00; cycles off counts",
            "They overlap.",
            "forwarding: store earlier",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert_eq!(super::text(&GroupMetrics::default(), 80), "", "plain groups stay as they are");
    }

    #[test]
    fn what_a_use_is_of_is_said_with_who_measured_it() {
        let peak = |measured_by| CountedConstant {
            name: "peak".to_owned(),
            value: None,
            source: "the most".to_owned(),
            measured: Some(51.2e9),
            measured_by,
        };
        let group = |measured_by, values| GroupMetrics {
            metrics: vec![CountedMetric {
                name: "memory utilisation".to_owned(),
                unit: OF_PEAK.to_owned(),
                values,
                ..CountedMetric::default()
            }],
            constants: vec![peak(measured_by)],
            ..GroupMetrics::default()
        };
        let said = |group| anstream::adapter::strip_str(&text(&group, 100)).to_string();
        let validated = said(group(Some(MeasuredBy::Validate), vec![40.0]));
        assert!(validated.contains("100 % is peak: 51.2 GB/s by 'memwall validate'."), "{validated}");
        let calibrated = said(group(Some(MeasuredBy::Calibrate), vec![40.0]));
        assert!(calibrated.contains("by 'memwall calibrate'"), "{calibrated}");
        assert_eq!(said(group(Some(MeasuredBy::Validate), Vec::new())), "", "no use, no peak");
    }
}
