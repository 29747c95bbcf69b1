//! The views of kruse2011 chapter 5: by symbol, by region, by symbol within a region.

use analysis::views::{EventTable, EventViews, RegionView, ViewedKind};

use super::count::pictures;
use crate::layout::{
    figures::{absent, percent},
    prose::{clipped, counted, visible, wrap, wrap_in},
    series::of_views,
    signature::shorten,
    style::{HEADING, QUIET},
    table::{Cell, Column, Table},
    views::{NO_REGIONS, OUTSIDE, event_heading, library, period, stalled_text, stalled_title, whole},
};

/// Which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChoice {
    /// Symbols of the whole program.
    Symbol,
    /// Regions.
    Region,
    /// Symbols of each region.
    SymbolInRegion,
    /// Events over time.
    Time,
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewDetail {
    /// Symbols of each event.
    pub symbols: usize,
    /// Regions.
    pub regions: usize,
    /// Complete signatures below each table.
    pub verbose: bool,
}

/// Columns for names.
const ROOM: usize = 34;

/// Events whose shares stand side by side.
const BESIDE: usize = 6;

/// The view in at most `columns`.
pub fn text(views: &EventViews, choice: ViewChoice, detail: ViewDetail, columns: usize) -> String {
    let mut parts = vec![sampled(views, columns)];
    match choice {
        ViewChoice::Symbol => {
            parts.push(side_by_side(views, detail.symbols, columns));
            parts.extend(views.by_symbol.iter().map(|table| event_table(views, table, detail, columns)));
        }
        ViewChoice::Time => parts.push(over_time(views, columns)),
        _ if views.by_region.is_empty() => parts.push(wrap_in(QUIET, "", NO_REGIONS, columns)),
        ViewChoice::Region => parts.push(regions(views, detail.regions, columns)),
        ViewChoice::SymbolInRegion => {
            for region in views.by_region.iter().take(detail.regions) {
                parts.push(region_symbols(views, region, detail, columns));
            }
            parts.push(more(views, detail.regions, columns));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// What was sampled, and how often.
fn sampled(views: &EventViews, columns: usize) -> String {
    let mut out = wrap_in(HEADING, "", "Sampled", columns);
    if views.events.is_empty() {
        return out + &wrap("  ", "There are no samples.", columns);
    }
    for event in &views.events {
        let samples = format!("{} samples", whole(event.samples));
        let kernel = match event.in_kernel {
            0 => String::new(),
            some => format!(", {some} of them in the kernel"),
        };
        let name = visible(&event.name);
        let line = match (&event.refusal, event.kind) {
            (Some(_), _) => format!("{name}: {}", period(event)),
            (None, ViewedKind::Waiting) => format!("{name}: {samples}, {}", period(event)),
            (None, _) => format!("{name}: {samples}{kernel}; {}", period(event)),
        };
        out += &wrap("  • ", &line, columns);
    }
    out
}

/// Cycles beside stalled cycles, and every other event beside them.
fn side_by_side(views: &EventViews, most: usize, columns: usize) -> String {
    let Some(main) = views.cycles.and_then(|event| views.by_symbol.iter().find(|table| table.event == event))
    else {
        return String::new();
    };
    let shown = shown_events(views);
    let mut heads = vec![Column::new("symbol").left(), Column::new("library").left().drop_rank(3)];
    heads.extend(shown.iter().map(|event| share_column(views, *event)));
    heads.push(Column::new(stalled_title(views)).drop_rank(1));
    let mut table = Table::new(heads);
    for row in main.rows.iter().take(most) {
        let symbol = &views.symbols[row.symbol];
        let mut cells = vec![
            Cell::from(shorten(&visible(&symbol.signature), ROOM)),
            clipped(&library(symbol), ROOM).into(),
        ];
        cells.extend(shown.iter().map(|event| {
            let of = views.by_symbol.iter().find(|table| table.event == *event);
            let found = of.and_then(|table| table.rows.iter().find(|other| other.symbol == row.symbol));
            // What is not among its twenty has fewer than the last of them.
            percent(found.map(|row| row.share))
        }));
        cells.push(symbol.stalled.as_ref().map_or_else(absent, |share| stalled_text(share).into()));
        table.row(cells);
    }
    let note = "Shares of each event's samples; – where a symbol is not among the first of that event.";
    wrap_in(HEADING, "", "By symbol, side by side", columns)
        + &fitted(&table, columns)
        + &wrap_in(QUIET, "", note, columns)
}

/// A table, and what had no room in it.
fn fitted(table: &Table, columns: usize) -> String {
    let rendered = table.render(columns);
    match rendered.left_out.is_empty() {
        true => rendered.text,
        false => {
            let words = format!("No room for: {}.", rendered.left_out.join(", "));
            rendered.text + &wrap_in(QUIET, "", &words, columns)
        }
    }
}

/// Cycles first, stalled cycles beside them, then others that have samples.
fn shown_events(views: &EventViews) -> Vec<usize> {
    let first = [views.cycles, views.stalled];
    let others = (0..views.events.len()).filter(|event| !first.contains(&Some(*event)));
    let with_samples = |event: &usize| views.events[*event].samples > 0.0;
    first.into_iter().flatten().chain(others).filter(with_samples).take(BESIDE).collect()
}

fn share_column(views: &EventViews, event: usize) -> Column {
    let name = visible(&views.events[event].name);
    let rank = if [views.cycles, views.stalled].contains(&Some(event)) { 0 } else { 2 };
    Column::new(format!("{} %", clipped(&name, 24))).called(name).drop_rank(rank)
}

/// One event as kruse2011 Fig. 5.7 shows it.
fn event_table(views: &EventViews, of: &EventTable, detail: ViewDetail, columns: usize) -> String {
    let rows = || of.rows.iter().take(detail.symbols);
    // Where every symbol is its own signature there is nothing more to say.
    let has_more = rows().any(|row| visible(&views.symbols[row.symbol].signature).chars().count() > ROOM);
    let mut heads = vec![
        Column::new("samples"),
        Column::new("%"),
        Column::new("symbol").left(),
        Column::new("library").left(),
    ];
    heads.extend(has_more.then(|| Column::new("complete signature").left().drop_rank(1)));
    let mut table = Table::new(heads);
    let room = columns.saturating_sub(20 + 2 * ROOM).max(ROOM);
    for row in rows() {
        let symbol = &views.symbols[row.symbol];
        let signature = visible(&symbol.signature);
        let mut cells: Vec<Cell> = vec![
            whole(row.samples).into(),
            percent(Some(row.share)),
            shorten(&signature, ROOM).into(),
            clipped(&library(symbol), ROOM).into(),
        ];
        cells.extend(has_more.then(|| clipped(&signature, room).into()));
        table.row(cells);
    }
    let mut out = wrap_in(HEADING, "", &event_heading(&views.events[of.event], of.samples), columns);
    out += &table.render(columns).text;
    let hidden = of.rows.len() - rows().count() + of.left_out;
    if hidden > 0 {
        out += &wrap_in(QUIET, "", &format!("and {}", counted(hidden, "more symbol")), columns);
    }
    if detail.verbose {
        let long = rows().map(|row| visible(&views.symbols[row.symbol].signature));
        for signature in long.filter(|signature| signature.chars().count() > ROOM) {
            out += &wrap_in(QUIET, "  ", &signature, columns);
        }
    }
    out
}

fn over_time(views: &EventViews, columns: usize) -> String {
    let lines = of_views(views);
    if lines.lines.is_empty() {
        let none = "No event was sampled beside the clock: 'memwall record -e EVENTS ./app' samples them. Time itself is \
                    in the report without --by.";
        return wrap_in(QUIET, "", none, columns);
    }
    pictures::lines(&lines, columns)
}

fn region_name(region: &RegionView) -> String {
    match &region.name {
        Some(name) => visible(name),
        None => OUTSIDE.to_owned(),
    }
}

fn regions(views: &EventViews, most: usize, columns: usize) -> String {
    let shown = shown_events(views);
    let mut heads = vec![Column::new("region").left()];
    heads.extend(shown.iter().map(|event| share_column(views, *event)));
    heads.push(Column::new(stalled_title(views)).drop_rank(1));
    heads.push(Column::new("most in").left().drop_rank(4));
    let mut table = Table::new(heads);
    for region in views.by_region.iter().take(most) {
        let mut cells = vec![Cell::from(clipped(&region_name(region), ROOM))];
        cells.extend(shown.iter().map(|event| percent(region.shares[*event])));
        cells.push(region.stalled.as_ref().map_or_else(absent, |share| stalled_text(share).into()));
        let main = views.cycles.and_then(|event| region.tables.iter().find(|table| table.event == event));
        let hottest = main.and_then(|table| table.rows.first());
        let name = |symbol: usize| shorten(&visible(&views.symbols[symbol].signature), ROOM);
        cells.push(hottest.map_or_else(absent, |row| name(row.symbol).into()));
        table.row(cells);
    }
    wrap_in(HEADING, "", "By region, shares of each event's samples", columns)
        + &fitted(&table, columns)
        + &more(views, most, columns)
}

fn more(views: &EventViews, most: usize, columns: usize) -> String {
    let hidden = views.by_region.len().saturating_sub(most) + views.regions_left_out;
    match hidden {
        0 => String::new(),
        some => wrap_in(QUIET, "", &format!("and {}", counted(some, "more region")), columns),
    }
}

fn region_symbols(views: &EventViews, region: &RegionView, detail: ViewDetail, columns: usize) -> String {
    let stalled =
        region.stalled.as_ref().map(|share| format!(" – {}: {}", stalled_title(views), stalled_text(share)));
    let title = format!("Region {}{}", region_name(region), stalled.unwrap_or_default());
    let mut out = wrap_in(HEADING, "", &title, columns);
    for table in &region.tables {
        out += &event_table(views, table, detail, columns);
    }
    out
}

#[cfg(test)]
mod tests {
    use analysis::views::{EventLine, EventRow, EventsOverTime, StalledShare, ViewedEvent, ViewedSymbol};
    use record::sampled::EventPace;

    use super::*;

    fn views() -> EventViews {
        let event = |name: &str, pace| ViewedEvent {
            name: name.to_owned(),
            kind: ViewedKind::Event,
            samples: 100.0,
            in_kernel: 0,
            period: Some(100_000.0),
            pace: Some(pace),
            refusal: None,
        };
        let symbol = |signature: &str, library: &str| ViewedSymbol {
            signature: signature.to_owned(),
            library: library.to_owned(),
            function: None,
            finding: None,
            stalled: Some(StalledShare { value: 0.4, low: 0.3, high: 0.5 }),
        };
        let table = |event, first: f64| EventTable {
            event,
            samples: 100.0,
            rows: vec![
                EventRow { symbol: 0, samples: first, share: first / 100.0 },
                EventRow { symbol: 1, samples: 100.0 - first, share: 1.0 - first / 100.0 },
            ],
            left_out: 3,
        };
        let refused = ViewedEvent {
            refusal: Some("ENOENT\u{1b}[31m".to_owned()),
            samples: 0.0,
            ..event("rare", EventPace::PerSecond(1000))
        };
        EventViews {
            events: vec![
                event("UNHALTED_CORE_CYCLES", EventPace::Every(100_000)),
                event("stalls", EventPace::PerSecond(99)),
                refused,
            ],
            cycles: Some(0),
            stalled: Some(1),
            symbols: vec![
                symbol("SiStripRecHitMatcher::match(SiStripRecHit2D const*, int) const", "/opt/libMatch.so"),
                symbol("__tan", "/lib/libm-2.3.4.so"),
            ],
            by_symbol: vec![table(0, 60.0), table(1, 80.0)],
            by_region: vec![RegionView {
                name: Some("solve".to_owned()),
                is_parallel: false,
                shares: vec![Some(0.75), Some(0.5), None],
                stalled: Some(StalledShare { value: 0.9, low: 0.8, high: 1.0 }),
                tables: vec![table(1, 90.0)],
            }],
            regions_left_out: 2,
            over_time: EventsOverTime {
                interval_ns: 500_000_000,
                lines: vec![EventLine { event: 0, per_second: vec![Some(1e9), Some(2e9)] }],
                stalled: vec![None, Some(0.25)],
            },
        }
    }

    fn shown(choice: ViewChoice, verbose: bool) -> String {
        let detail = ViewDetail { symbols: 1, regions: 5, verbose };
        let text = text(&views(), choice, detail, 160);
        assert!(!text.contains("ENOENT\u{1b}"), "names of others steer nothing");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn symbols_have_period_library_and_signature_and_stalls_stand_beside_cycles() {
        let text = shown(ViewChoice::Symbol, true);
        for words in [
            "UNHALTED_CORE_CYCLES – total samples: 100 – sampling period: 100000",
            "stalls – total samples: 100 – sampling period: 100000 on average (99 a second were asked for)",
            "rare: not sampled: ENOENT",
            "60  60  …::match(…) const  libMatch.so  SiStripRecHitMatcher::match(SiStripRecHit2D const*, int) const",
            "40 (30 to 50)",
            "and 4 more symbols",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        assert!(!text.contains("__tan"), "one symbol was asked for\n{text}");
    }

    #[test]
    fn regions_are_told_with_their_stalls_and_symbols_inside() {
        let text = shown(ViewChoice::Region, false);
        for words in ["solve", "75", "90 (80 to 100)", "and 2 more regions"] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        let text = shown(ViewChoice::SymbolInRegion, false);
        assert!(text.contains("Region solve – stalled, % of its cycles: 90 (80 to 100)"), "{text}");
        assert!(text.contains("90  90") || text.contains("90     90"), "{text}");
        let text = shown(ViewChoice::Time, false);
        assert!(text.contains("Over time (1.00 s in 2 intervals)"), "{text}");
        assert!(text.contains("·█  up to 25.0 % of cycles") && text.contains("▅█  up to"), "{text}");
        let none = EventViews { by_region: Vec::new(), ..views() };
        let detail = ViewDetail { symbols: 1, regions: 5, verbose: false };
        assert!(super::text(&none, ViewChoice::Region, detail, 160).contains("marked no regions"));
    }

    #[test]
    fn columns_are_cycles_then_stalls_and_each_has_its_own_shares() {
        let views = EventViews { cycles: Some(1), stalled: Some(0), ..views() };
        let detail = ViewDetail { symbols: 1, regions: 0, verbose: false };
        let text = |choice| {
            let text = super::text(&views, choice, detail, 160);
            anstream::adapter::strip_str(&text).to_string()
        };
        let symbols = text(ViewChoice::Symbol);
        let row = symbols.lines().find(|line| line.contains("40 (30 to 50)")).expect("a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert!(cells.windows(2).any(|two| two == ["80", "60"]), "of cycles 80 %, of the other 60 %: {row}");
        assert!(!symbols.contains("rare %"), "what has no samples has no column\n{symbols}");
        let regions = text(ViewChoice::Region);
        assert!(regions.contains("and 3 more regions"), "one of them was not asked for\n{regions}");
        let detail = ViewDetail { symbols: 1, regions: 5, verbose: false };
        let views = EventViews { cycles: Some(1), stalled: None, ..super::tests::views() };
        let regions = super::text(&views, ViewChoice::Region, detail, 160);
        assert!(anstream::adapter::strip_str(&regions).to_string().contains("waiting, % of its time"));
    }

    #[test]
    fn most_of_a_region_is_in_the_first_of_its_table_and_samples_in_the_kernel_are_told() {
        let mut views = views();
        views.events[0].in_kernel = 7;
        views.by_region[0].tables[0].event = 0;
        let detail = ViewDetail { symbols: 1, regions: 5, verbose: false };
        let text = super::text(&views, ViewChoice::Region, detail, 160);
        let text = anstream::adapter::strip_str(&text).to_string();
        let row = text.lines().find(|line| line.starts_with("solve")).expect("a row");
        assert!(row.contains("…::match(…) const") && !row.contains("__tan"), "{row}");
        assert!(text.contains("100 samples, 7 of them in the kernel; sampling period: 100000"), "{text}");
        // What was asked for, not a mean that differs from it.
        views.events[0].period = Some(100_007.0);
        let text = super::text(&views, ViewChoice::Region, detail, 160);
        assert!(text.contains("sampling period: 100000") && !text.contains("100007"), "{text}");
    }
}
