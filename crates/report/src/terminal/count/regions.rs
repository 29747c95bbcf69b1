//! Events and metrics by region: a row each, a column for every region.

use std::collections::BTreeMap;

use events::CountedPlace;
use record::count::{CountedMetric, CountedRegion, Counts, total};

use super::{CountSum, accounting, values};
use crate::layout::{
    figures::{number, scaled_alike, time},
    prose::{visible, wrap},
    table::{Cell, Column, Table},
};

/// Of all events and groups, and what is to be kept in mind of single regions; empty where nothing was counted by region.
pub fn text(counts: &Counts, sum: CountSum, columns: usize) -> String {
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
    let mut lacking = values::Reasons::default();
    for (event, about) in counts.events.iter().enumerate() {
        for place in places(regions, event, sum) {
            let belongs = |at: &CountedPlace| place.as_ref().is_none_or(|place| place == at);
            let label =
                place.as_ref().map_or_else(String::new, |place| format!(", {}", values::place_name(place)));
            let mut row = vec![Cell::from(visible(&about.name) + &label), "".into()];
            row.extend(regions.iter().map(|region| {
                let totals: Vec<_> = total(&region.counts, event, belongs).into_iter().collect();
                match totals.is_empty() {
                    // Threads that were never there.
                    true => "".into(),
                    false => values::count_cell(about, &totals, &mut lacking),
                }
            }));
            table.row(row);
        }
    }
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
    let mut out = table.render(columns).text + &lacking.text(columns);
    for region in regions {
        for remark in &region.remarks {
            out += &wrap("  ", &format!("{}: {remark}", visible(&region.path)), columns);
        }
    }
    out
}

/// Where an event was counted, in order; one for all where places are added up.
fn places(regions: &[CountedRegion], event: usize, sum: CountSum) -> Vec<Option<CountedPlace>> {
    if sum != CountSum::PerPlace {
        return vec![None];
    }
    let all = regions.iter().flat_map(|region| &region.counts).filter(|count| count.event == event);
    let named: BTreeMap<String, CountedPlace> =
        all.map(|count| (values::place_name(&count.place), count.place.clone())).collect();
    named.into_values().map(Some).collect()
}
