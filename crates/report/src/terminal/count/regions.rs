//! Metrics by region: a row each, a column for every region.

use record::count::{CountedMetric, CountedRegion, Counts};

use super::{accounting, values};
use crate::layout::{
    figures::{number, scaled_alike, time},
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
        for (at, metric) in group.metrics.iter().enumerate() {
            let of_region = |region: &CountedRegion| {
                let found = region.metrics.get(place).and_then(|group| group.metrics.get(at));
                found.cloned().unwrap_or_default()
            };
            let found: Vec<_> = regions.iter().map(of_region).collect();
            let means: Vec<_> = found.iter().map(|found| values::mean(&found.values)).collect();
            let (means, unit) = scaled_alike(&means, &metric.unit);
            let mut row = vec![metric.name.clone().into(), unit.into()];
            let cell = |(mean, found): (Option<f64>, &CountedMetric)| {
                accounting::ranged(accounting::bounded(number(mean), found.bound), found)
            };
            row.extend(means.into_iter().zip(&found).map(cell));
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
