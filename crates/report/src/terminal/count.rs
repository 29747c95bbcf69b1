//! Counted events, as people read them.

mod accounting;
mod csv;
pub(crate) mod pictures;
mod regions;
mod values;

use record::count::{CountedMetric, Counts, GroupMetrics, PackageMetrics};

use crate::{
    layout::figures::{number, scaled, scaled_alike, time},
    layout::prose::{counted, dotted, visible, wrap, wrap_in},
    layout::style::{HEADING, QUIET},
    layout::table::{Column, Table},
    terminal::trust,
};

pub(crate) use accounting::unmeasured;
pub use csv::csv;
pub(crate) use values::{missing, place_name, spread};

pub use values::interval;

/// How values are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountSum {
    /// One row per event.
    Whole,
    /// One per event and package.
    PerPackage,
    /// One per event and place.
    PerPlace,
}

/// The counts in at most `columns`.
pub fn text(counts: &Counts, sum: CountSum, columns: usize) -> String {
    let mut parts = vec![heading(counts, columns), values::table(counts, sum, columns)];
    parts.extend(counts.metrics.iter().map(|group| metrics(group, columns)));
    parts.push(pictures::hierarchy(counts, columns));
    parts.push(pictures::over_time(counts, columns));
    parts.push(regions::text(counts, sum, columns));
    if let Some(basis) = &counts.validation {
        let events = counts.events.iter().map(|event| (event.name.as_str(), event.trust.as_ref()));
        parts.push(trust::notes(events, basis, columns));
    }
    if !counts.remarks.is_empty() {
        let mut out = wrap_in(HEADING, "", "Keep in mind", columns);
        out.extend(counts.remarks.iter().map(|remark| wrap("  • ", remark, columns)));
        parts.push(out);
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn heading(counts: &Counts, columns: usize) -> String {
    let times: Vec<f64> = counts.runs.iter().map(|run| run.elapsed_ns as f64).collect();
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let mut parts = vec![visible(&counts.target)];
    // Of counts that were imported it may not be known.
    if mean > 0.0 {
        parts.push(time(mean).text().to_owned());
    }
    if times.len() > 1 {
        parts.push(counted(times.len(), "run"));
    }
    parts.push(counts.instrument.clone());
    if counts.interrupted {
        parts.push("interrupted".to_owned());
    }
    wrap_in(QUIET, "", &dotted(parts.iter().map(String::as_str)), columns)
}

/// In points: what is cut off from a share without a word.
const SHOWN: f64 = 2.0;

/// What was cut off from a share, where that is worth a word.
pub(crate) fn cut_off(metric: &CountedMetric) -> Option<String> {
    let cut = metric.cut_off.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs()))?;
    let which = if cut > 0.0 { "more" } else { "less" };
    (cut.abs() > SHOWN)
        .then(|| format!("its events say {:.0} points {which}, which cannot be and was cut off", cut.abs()))
}

fn metrics(group: &GroupMetrics, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new(group.group.clone()).left(),
        Column::new("value"),
        Column::new("unit").left(),
        Column::new("trust").left().drop_rank(1),
        Column::new("what it tells").left().drop_rank(2),
    ]);
    let mut lacking = values::Reasons::default();
    for metric in &group.metrics {
        let mean = values::mean(&metric.values);
        let (value, unit) = scaled(mean, &metric.unit);
        table.row(vec![
            metric.name.clone().into(),
            accounting::ranged(accounting::bounded(number(value), metric.bound), metric),
            unit.into(),
            trust::cell(metric.trust.as_ref()),
            metric.about.clone().into(),
        ]);
        if let Some(words) = cut_off(metric) {
            lacking.add(&metric.name, &words);
        }
        if metric.values.is_empty() {
            metric.missing.iter().for_each(|reason| lacking.add(&metric.name, reason));
        }
    }
    table.render(columns).text
        + &packages(group, columns)
        + &lacking.text(columns)
        + &accounting::text(group, columns)
}

/// The same by socket, where events were counted apart.
fn packages(group: &GroupMetrics, columns: usize) -> String {
    if group.packages.is_empty() {
        return String::new();
    }
    let mut heads =
        vec![Column::new(format!("{} by socket", group.group)).left(), Column::new("unit").left()];
    heads.extend(group.packages.iter().map(|found| Column::new(format!("socket {}", found.package))));
    let mut table = Table::new(heads);
    for (place, metric) in group.metrics.iter().enumerate() {
        let value = |found: &PackageMetrics| found.values.get(place).copied().flatten();
        let values: Vec<_> = group.packages.iter().map(value).collect();
        let (values, unit) = scaled_alike(&values, &metric.unit);
        let mut row = vec![metric.name.clone().into(), unit.into()];
        row.extend(values.into_iter().map(number));
        table.row(row);
    }
    table.render(columns).text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events that contradict each other are cut to what can be; from 2 points on that is said.
    #[test]
    fn what_was_cut_off_is_said_above_two_points() {
        let metric = |name: &str, cut_off: f64| CountedMetric {
            name: name.to_owned(),
            unit: "%".to_owned(),
            values: vec![40.0],
            cut_off: vec![0.0, cut_off],
            ..CountedMetric::default()
        };
        let metrics = vec![metric("productive", 1.9), metric("latency bound", 2.6), metric("other", -7.0)];
        let group = GroupMetrics { group: "STALLS".to_owned(), metrics, ..GroupMetrics::default() };
        let text = anstream::adapter::strip_str(&super::metrics(&group, 160)).to_string();
        let said =
            |name: &str| text.lines().filter(|line| line.contains(name)).any(|line| line.contains("cut off"));
        assert_eq!(["productive", "latency bound", "other"].map(said), [false, true, true], "{text}");
        assert!(text.contains("3 points more") && text.contains("7 points less"), "{text}");
    }
}
