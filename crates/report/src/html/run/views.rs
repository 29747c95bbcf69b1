//! Events by symbol, by region and by symbol within a region: what the page's script shows of them.

use analysis::views::{EventTable, EventViews, StalledShare, ViewedKind};
use serde::Serialize;

use super::payload::{name, rounded, shortened};
use crate::{
    html::{
        lines,
        markup::{Html, paragraph, section},
        tables::place,
    },
    layout::{
        prose::visible,
        series::of_views,
        signature::shorten,
        views::{NO_REGIONS, OUTSIDE, event_heading, library, period, stalled_title},
    },
};

/// Letters of a symbol's name, and of its complete signature.
const SHORT: usize = 60;
const SIGNATURE: usize = 2000;

/// The views as rows.
#[derive(Serialize)]
pub(super) struct ViewRows {
    cycles: Option<usize>,
    stalled: Option<usize>,
    stalled_title: &'static str,
    events: Vec<EventView>,
    symbols: Vec<SymbolView>,
    by_symbol: Vec<TableRows>,
    regions: Vec<RegionRows>,
    regions_left_out: usize,
}

#[derive(Serialize)]
struct EventView {
    name: String,
    heading: String,
    period: String,
    samples: f64,
    in_kernel: u64,
    is_event: bool,
}

#[derive(Serialize)]
struct SymbolView {
    name: String,
    signature: String,
    library: String,
    path: String,
    finding: Option<usize>,
    stalled: Option<[f64; 3]>,
}

/// Rows: symbol, samples, share.
#[derive(Serialize)]
struct TableRows {
    event: usize,
    heading: String,
    rows: Vec<(usize, f64, f64)>,
    left_out: usize,
}

#[derive(Serialize)]
struct RegionRows {
    name: String,
    shares: Vec<Option<f64>>,
    stalled: Option<[f64; 3]>,
    tables: Vec<TableRows>,
}

/// Whether there is more to show than the tables of functions do.
pub(super) fn is_shown(views: Option<&EventViews>) -> bool {
    views.is_some_and(|views| views.has_events() || !views.by_region.is_empty())
}

/// Where the tables go.
pub(super) fn html(views: Option<&EventViews>) -> Html {
    let Some(views) = views.filter(|_| is_shown(views)) else { return Html::default() };
    let what = "Each event by function and by region; a name opens its own table. Percentages are of the samples of that event, \
                within a region of those within it.";
    let mut content = vec![paragraph("quiet", what), place("events-table"), place("event-symbols-table")];
    content.push(match views.by_region.is_empty() {
        true => paragraph("quiet", NO_REGIONS),
        false => place("event-regions-table"),
    });
    content.extend(lines::figures(&of_views(views)));
    section("events", "Events", content)
}

/// What the script shows; none where there is nothing.
pub(super) fn rows(views: Option<&EventViews>) -> Option<ViewRows> {
    let views = views.filter(|_| is_shown(views))?;
    let events = views.events.iter().map(|event| EventView {
        name: name(&event.name),
        heading: name(&event_heading(event, event.samples)),
        period: name(&period(event)),
        samples: event.samples.round(),
        in_kernel: event.in_kernel,
        is_event: event.kind == ViewedKind::Event,
    });
    let symbols = views.symbols.iter().map(|symbol| SymbolView {
        name: shorten(&visible(&symbol.signature), SHORT),
        signature: shortened(&symbol.signature, SIGNATURE),
        library: name(&library(symbol)),
        path: name(&symbol.library),
        finding: symbol.finding,
        stalled: symbol.stalled.as_ref().map(ends),
    });
    let regions = views.by_region.iter().map(|region| RegionRows {
        name: region.name.as_deref().map_or_else(|| OUTSIDE.to_owned(), name),
        shares: region.shares.iter().map(|share| share.map(rounded)).collect(),
        stalled: region.stalled.as_ref().map(ends),
        tables: region.tables.iter().map(|table| table_rows(views, table)).collect(),
    });
    Some(ViewRows {
        cycles: views.cycles,
        stalled: views.stalled,
        stalled_title: stalled_title(views),
        events: events.collect(),
        symbols: symbols.collect(),
        by_symbol: views.by_symbol.iter().map(|table| table_rows(views, table)).collect(),
        regions: regions.collect(),
        regions_left_out: views.regions_left_out,
    })
}

fn table_rows(views: &EventViews, table: &EventTable) -> TableRows {
    let row = |row: &analysis::views::EventRow| (row.symbol, row.samples.round(), rounded(row.share));
    TableRows {
        event: table.event,
        heading: name(&event_heading(&views.events[table.event], table.samples)),
        rows: table.rows.iter().map(row).collect(),
        left_out: table.left_out,
    }
}

fn ends(share: &StalledShare) -> [f64; 3] {
    [share.value, share.low, share.high].map(rounded)
}
