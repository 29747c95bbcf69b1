//! Regions that the program marked.

use analysis::{
    regions::RegionFinding,
    views::{EventViews, RegionView},
};
use record::regions::RegionCounts;

use crate::{
    html::{
        markup::{Html, paragraph, section, shown},
        tables::{CellValue, ColumnKind, DataTable, column, place},
    },
    layout::held::held_back,
};

/// Where the table goes; nothing of a program that marks none.
pub(super) fn html(regions: &[RegionFinding]) -> Html {
    if regions.is_empty() {
        return Html::default();
    }
    let what = "Samples belong to the innermost region; times of threads are added up, and what lies within another region counts \
                in both.";
    section(
        "regions",
        "Regions",
        [paragraph("quiet", what), place("regions-table"), place("region-threads-table")],
    )
}

/// One row for each region, and one for each thread in it. Names lead to the symbols within the region, and those to their
/// instructions.
pub(super) fn tables(regions: &[RegionFinding], views: Option<&EventViews>) -> Vec<DataTable> {
    if regions.is_empty() {
        return Vec::new();
    }
    vec![overview(regions, views), by_thread(regions, views)]
}

fn named(region: &RegionFinding, views: Option<&EventViews>) -> CellValue {
    let same = |view: &RegionView| {
        view.name.as_deref() == Some(&region.name) && view.is_parallel == region.is_parallel
    };
    match views.and_then(|views| views.by_region.iter().position(same)) {
        Some(index) => CellValue::Link { text: shown(&region.name), to: format!("#region-{index}") },
        // No samples lie in it.
        None => text(Some(region.name.clone())),
    }
}

fn text(value: Option<String>) -> CellValue {
    value.map_or(CellValue::Absent(()), |text| shown(&text).into())
}

/// What OpenMP's runtime and the kernel tell; counts are of the visits that were counted.
fn of_kernel(waits_ns: Option<u64>, counts: Option<&RegionCounts>) -> [CellValue; 4] {
    let count = |of: fn(&RegionCounts) -> u64| counts.map(|counts| of(counts) as f64).into();
    [
        waits_ns.map(|waits| waits as f64).into(),
        count(|counts| counts.visits),
        count(RegionCounts::page_faults),
        count(RegionCounts::context_switches),
    ]
}

fn overview(regions: &[RegionFinding], views: Option<&EventViews>) -> DataTable {
    let columns = [
        ("region", ColumnKind::Text),
        ("user time, %", ColumnKind::Share),
        ("memory, %", ColumnKind::Share),
        ("from", ColumnKind::Share),
        ("to", ColumnKind::Share),
        ("held back", ColumnKind::Text),
        ("waits at", ColumnKind::Text),
        ("on", ColumnKind::Text),
        ("most in", ColumnKind::Text),
        ("visits", ColumnKind::Count),
        ("time", ColumnKind::Nanos),
        ("threads", ColumnKind::Count),
        ("imbalance, %", ColumnKind::Share),
        ("at barriers", ColumnKind::Nanos),
        ("visits counted", ColumnKind::Count),
        ("page faults", ColumnKind::Count),
        ("context switches", ColumnKind::Count),
    ];
    // Where time was not sampled no share of it is known.
    let has_samples = regions.iter().any(|region| region.samples > 0);
    let rows = regions.iter().map(|region| -> Vec<CellValue> {
        let waiting = region.waiting.as_ref();
        let memory = waiting.and_then(|found| found.memory);
        vec![
            named(region, views),
            has_samples.then_some(region.user_share).into(),
            memory.map(|share| share.value).into(),
            memory.map(|share| share.low).into(),
            memory.map(|share| share.high).into(),
            text(waiting.map(held_back)),
            text(waiting.and_then(|found| Some(found.level?.label()))),
            text(waiting.and_then(|found| found.object.clone())),
            text(waiting.and_then(|found| Some(found.symbols.first()?.0.clone()))),
            (region.visits as f64).into(),
            (region.wall_ns as f64).into(),
            (region.threads.len() as f64).into(),
            region.imbalance.into(),
        ]
        .into_iter()
        .chain(of_kernel(region.waits_ns, region.counts.as_ref()))
        .collect()
    });
    DataTable {
        id: "regions-table",
        caption: "Regions of the program".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}

fn by_thread(regions: &[RegionFinding], views: Option<&EventViews>) -> DataTable {
    let columns = [
        ("region", ColumnKind::Text),
        ("thread", ColumnKind::Text),
        ("visits", ColumnKind::Count),
        ("time", ColumnKind::Nanos),
        ("at barriers", ColumnKind::Nanos),
        ("visits counted", ColumnKind::Count),
        ("page faults", ColumnKind::Count),
        ("context switches", ColumnKind::Count),
    ];
    let rows = regions.iter().flat_map(|region| {
        region.threads.iter().map(move |thread| -> Vec<CellValue> {
            vec![
                named(region, views),
                thread.tid.to_string().into(),
                (thread.visits as f64).into(),
                (thread.wall_ns as f64).into(),
            ]
            .into_iter()
            .chain(of_kernel(thread.waits_ns, thread.counts.as_ref()))
            .collect()
        })
    });
    DataTable {
        id: "region-threads-table",
        caption: "Regions by thread".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}
