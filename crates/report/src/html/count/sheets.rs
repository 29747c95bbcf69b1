//! Tables of the page of counts: every metric, event, region, socket and constant.

use std::collections::BTreeMap;

use events::{Count, CountedPlace, ValueBound};
use record::count::{
    CountedEvent, CountedMetric, CountedRegion, Counts, GroupMetrics, MeasuredBy, Total, total,
};
use trust::Standing;

use super::mean;
use crate::{
    html::tables::{CellValue, ColumnKind, DataColumn, DataTable, column},
    terminal::count::{missing, place_name, spread},
};

/// All that have a row.
pub fn tables(counts: &Counts) -> Vec<DataTable> {
    let all = [metrics(counts), regions(counts), packages(counts), events(counts), constants(counts)];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn columns(heads: &[(&str, ColumnKind)]) -> Vec<DataColumn> {
    heads.iter().map(|(title, kind)| column(*title, *kind)).collect()
}

fn text(words: &str) -> CellValue {
    CellValue::from(words.to_owned())
}

/// A word of trust; nothing where nobody tried.
fn worth(standing: Option<&Standing>) -> CellValue {
    standing.map_or(CellValue::Absent(()), |standing| text(standing.trust.word()))
}

/// Between what a metric lies, on which side of the truth it is, or why there is none.
fn remark(metric: &CountedMetric) -> String {
    if metric.values.is_empty() {
        return metric.missing.join("; ");
    }
    match (metric.range(), metric.bound) {
        (Some(range), _) => format!("between {:.0} and {:.0}", range.least, range.most),
        (None, ValueBound::Exact) => String::new(),
        (None, bound) => format!("{}, without {}", bound.words(), metric.without.join(", ")),
    }
}

fn metrics(counts: &Counts) -> DataTable {
    let row = |group: &GroupMetrics, metric: &CountedMetric| {
        vec![
            text(&metric.name),
            text(&group.group),
            CellValue::from(mean(&metric.values)),
            text(&metric.unit),
            worth(metric.trust.as_ref()),
            CellValue::from(mean(&metric.measured)),
            text(&remark(metric)),
            text(&metric.about),
        ]
    };
    let rows = counts.metrics.iter().flat_map(|group| group.metrics.iter().map(move |one| row(group, one)));
    DataTable {
        id: "metrics-table",
        columns: columns(&[
            ("metric", ColumnKind::Text),
            ("group", ColumnKind::Text),
            ("value", ColumnKind::Number),
            ("unit", ColumnKind::Text),
            ("trust", ColumnKind::Trust),
            ("with measured penalties", ColumnKind::Number),
            ("bound, or why there is none", ColumnKind::Text),
            ("what it tells", ColumnKind::Text),
        ]),
        rows: rows.collect(),
        caption: "Metrics, means over repetitions".to_owned(),
    }
}

/// Every event at every place, means over repetitions.
fn events(counts: &Counts) -> DataTable {
    let of_event = |(index, event): (usize, &CountedEvent)| {
        let rows = places(counts.runs.iter().flat_map(|run| &run.counts), index).into_iter();
        let row = |(label, place): (String, CountedPlace)| {
            let totals: Vec<Total> =
                counts.runs.iter().filter_map(|run| total(&run.counts, index, |at| *at == place)).collect();
            event_row(event, label, &totals)
        };
        rows.map(row).collect::<Vec<_>>()
    };
    DataTable {
        id: "events-table",
        columns: columns(&[
            ("event", ColumnKind::Text),
            ("where", ColumnKind::Text),
            ("count", ColumnKind::Count),
            ("spread over runs", ColumnKind::Share),
            ("share of the time counted", ColumnKind::Share),
            ("one stands for", ColumnKind::Text),
            ("trust", ColumnKind::Trust),
            ("errata, or why it was not counted", ColumnKind::Text),
        ]),
        rows: counts.events.iter().enumerate().flat_map(of_event).collect(),
        caption: "Events, means over repetitions".to_owned(),
    }
}

fn event_row(event: &CountedEvent, place: String, totals: &[Total]) -> Vec<CellValue> {
    let values: Vec<f64> = totals.iter().filter_map(Total::estimate).collect();
    let mut share = None;
    let mut why = Vec::new();
    for total in totals {
        match total {
            Total::Counted { running_share, .. } => {
                share = Some(share.map_or(*running_share, |known: f64| known.min(*running_share)));
            }
            Total::Missing { reason, .. } => {
                let reason = missing(reason);
                if !why.contains(&reason) {
                    why.push(reason);
                }
            }
        }
    }
    if !event.errata.is_empty() {
        why.push(format!("errata {}", event.errata.join(", ")));
    }
    vec![
        text(&event.name),
        CellValue::from(place),
        CellValue::from(mean(&values)),
        CellValue::from(spread(&values)),
        CellValue::from(share),
        event.scale.as_deref().map_or(CellValue::Absent(()), text),
        worth(event.trust.as_ref()),
        CellValue::from(why.join("; ")),
    ]
}

/// Where an event was counted, in order of their names.
fn places<'a>(counts: impl Iterator<Item = &'a Count>, event: usize) -> BTreeMap<String, CountedPlace> {
    let own = counts.filter(|count| count.event == event);
    own.map(|count| (place_name(&count.place), count.place.clone())).collect()
}

/// A row for each metric and each event of each region.
fn regions(counts: &Counts) -> DataTable {
    DataTable {
        id: "regions-table",
        columns: columns(&[
            ("region", ColumnKind::Text),
            ("time in it", ColumnKind::Nanos),
            ("what", ColumnKind::Text),
            ("group", ColumnKind::Text),
            ("value", ColumnKind::Number),
            ("unit", ColumnKind::Text),
            ("trust", ColumnKind::Trust),
            ("bound, or why there is none", ColumnKind::Text),
        ]),
        rows: counts.regions.iter().flat_map(|region| region_rows(counts, region)).collect(),
        caption: "Metrics and events of each region, all its entries together".to_owned(),
    }
}

fn region_rows(counts: &Counts, region: &CountedRegion) -> Vec<Vec<CellValue>> {
    let begin = || [text(&region.path), CellValue::from(region.elapsed_ns as f64)];
    let [path, ns] = begin();
    let alone = |what: Vec<CellValue>| begin().into_iter().chain(what).collect::<Vec<_>>();
    let metric = |group: &GroupMetrics, metric: &CountedMetric| {
        alone(vec![
            text(&metric.name),
            text(&group.group),
            CellValue::from(mean(&metric.values)),
            text(&metric.unit),
            worth(metric.trust.as_ref()),
            text(&remark(metric)),
        ])
    };
    let of_groups = region.metrics.iter();
    let mut rows: Vec<_> =
        of_groups.flat_map(|group| group.metrics.iter().map(move |one| metric(group, one))).collect();
    for (index, event) in counts.events.iter().enumerate() {
        let Some(found) = total(&region.counts, index, |_| true) else { continue };
        let why = match &found {
            Total::Missing { reason, .. } => missing(reason),
            Total::Counted { .. } => String::new(),
        };
        rows.push(alone(vec![
            text(&event.name),
            text("events"),
            CellValue::from(found.estimate()),
            text("count"),
            worth(event.trust.as_ref()),
            CellValue::from(why),
        ]));
    }
    if rows.is_empty() {
        let absent = || CellValue::Absent(());
        rows.push(vec![path, ns, absent(), absent(), absent(), absent(), absent(), absent()]);
    }
    rows
}

/// A row for each metric of each socket.
fn packages(counts: &Counts) -> DataTable {
    let of_group = |group: &GroupMetrics| {
        let mut rows = Vec::new();
        for (at, metric) in group.metrics.iter().enumerate() {
            for package in &group.packages {
                rows.push(vec![
                    text(&metric.name),
                    text(&group.group),
                    CellValue::from(format!("socket {}", package.package)),
                    CellValue::from(package.values.get(at).copied().flatten()),
                    text(&metric.unit),
                    worth(metric.trust.as_ref()),
                ]);
            }
        }
        rows
    };
    DataTable {
        id: "sockets-table",
        columns: columns(&[
            ("metric", ColumnKind::Text),
            ("group", ColumnKind::Text),
            ("socket", ColumnKind::Text),
            ("value", ColumnKind::Number),
            ("unit", ColumnKind::Text),
            ("trust", ColumnKind::Trust),
        ]),
        rows: counts.metrics.iter().flat_map(of_group).collect(),
        caption: "Metrics of each socket".to_owned(),
    }
}

/// Numbers of papers beside the machine's own.
fn constants(counts: &Counts) -> DataTable {
    let rows = counts.metrics.iter().flat_map(|group| {
        group.constants.iter().map(|constant| {
            vec![
                text(&constant.name),
                text(&group.group),
                CellValue::from(constant.value),
                CellValue::from(constant.measured),
                text(constant.measured_by.map_or("", MeasuredBy::command)),
                text(&constant.source),
            ]
        })
    });
    DataTable {
        id: "constants-table",
        columns: columns(&[
            ("constant", ColumnKind::Text),
            ("group", ColumnKind::Text),
            ("of the paper", ColumnKind::Number),
            ("measured here", ColumnKind::Number),
            ("by", ColumnKind::Text),
            ("source", ColumnKind::Text),
        ]),
        rows: rows.collect(),
        caption: "Penalties and peaks that metrics are made with".to_owned(),
    }
}
