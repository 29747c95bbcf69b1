//! Metrics by region: a row each, a column for every region.

use record::count::{CountedMetric, CountedRegion, Counts};

use super::{accounting, values};
use crate::layout::{
    figures::{number, time},
    prose::{visible, wrap},
    table::{Cell, Column, Table},
};

/// Of all groups, and what is to be kept in mind of single regions; empty where nothing was counted by region.
pub fn text(counts: &Counts, columns: usize) -> String {
    let regions = &counts.regions;
    if regions.is_empty() {
        return String::new();
    }
    let mut heads = vec![Column::new("by region").left(), Column::new("unit").left().drop_rank(1)];
    heads.extend(regions.iter().map(|region| Column::new(visible(&region.path))));
    let mut table = Table::new(heads);
    let mut row = vec!["time".into(), "".into()];
    row.extend(regions.iter().map(|region| Cell::from(time(region.elapsed_ns as f64).text().to_owned())));
    table.row(row);
    for (place, group) in counts.metrics.iter().enumerate() {
        for (number, metric) in group.metrics.iter().enumerate() {
            let of_region = |region: &CountedRegion| match region.metrics.get(place) {
                Some(group) => group.metrics.get(number).map_or_else(|| "–".into(), value),
                None => "–".into(),
            };
            let mut row = vec![metric.name.clone().into(), metric.unit.clone().into()];
            row.extend(regions.iter().map(of_region));
            table.row(row);
        }
    }
    let mut out = table.render(columns).text;
    for region in regions {
        for remark in &region.remarks {
            out += &wrap("  ", &format!("{}: {remark}", visible(&region.path)), columns);
        }
    }
    out
}

fn value(metric: &CountedMetric) -> Cell {
    accounting::bounded(number(values::mean(&metric.values)), metric.bound)
}
