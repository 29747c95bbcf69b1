//! Regions that the program marked, below what a run says.

use analysis::regions::{RegionFinding, RegionWaiting};

use record::regions::{EventsDone, RegionCounts};

use crate::layout::{
    figures::{absent, percent, percent_text, time},
    held::held_back,
    prose::{clipped, counted, visible, wrap_in},
    signature::{function_name, object_name},
    style::{HEADING, QUIET},
    table::{Cell, Column, Table},
};

/// Regions listed unless everything is asked for.
const MOST: usize = 12;

/// Columns for names.
const ROOM: usize = 28;

/// A table; nothing of a program that marks none.
pub fn text(regions: &[RegionFinding], verbose: bool, columns: usize) -> String {
    if regions.is_empty() {
        return String::new();
    }
    let shown = &regions[..if verbose { regions.len() } else { regions.len().min(MOST) }];
    let mut out = format!("\n{}", wrap_in(HEADING, "", "Regions", columns));
    out += &table(shown, columns);
    if regions.len() > shown.len() {
        let more = counted(regions.len() - shown.len(), "more region");
        out += &wrap_in(QUIET, "", &format!("{more}; --verbose lists all."), columns);
    }
    if regions.iter().any(|region| region.unended > 0) {
        let unended = regions.iter().map(|region| region.unended).sum::<u64>();
        let visits = counted(usize::try_from(unended).unwrap_or(usize::MAX), "visit");
        out += &wrap_in(
            QUIET,
            "",
            &format!("{visits} never ended: the thread, its program or the recording did before."),
            columns,
        );
    }
    out
}

fn table(regions: &[RegionFinding], columns: usize) -> String {
    // Of threads that work alone nothing is to be said.
    let has_threads = regions.iter().any(|region| region.imbalance.is_some());
    let mut heads = vec![
        Column::new("region").left(),
        Column::new("user time %"),
        Column::new("memory %"),
        Column::new("held back").left(),
        Column::new("at").left().drop_rank(4),
        Column::new("visits").drop_rank(3),
        Column::new("time").drop_rank(2),
        Column::new("most in").left().drop_rank(2),
        Column::new("on").left().drop_rank(5),
    ];
    if has_threads {
        heads.extend([Column::new("threads").drop_rank(3), Column::new("imbalance %").drop_rank(1)]);
    }
    let has_counts = regions.iter().any(|region| region.counts.is_some());
    if has_counts {
        let of_kernel = [Column::new("page faults").drop_rank(6), Column::new("switches").drop_rank(6)];
        // Behind the names, before what is said of threads.
        heads.splice(9..9, of_kernel);
    }
    let mut table = Table::new(heads);
    let has_samples = regions.iter().any(|region| region.samples > 0);
    for region in regions {
        let waiting = region.waiting.as_ref();
        let words =
            |of: fn(&RegionWaiting) -> Option<String>| waiting.and_then(of).map_or_else(absent, Cell::from);
        let counted = |of: fn(&RegionCounts) -> u64| {
            region.counts.map_or_else(absent, |counts| {
                Cell::from(count_text(of(&counts), counts.visits, region.visits))
            })
        };
        let mut row = vec![
            Cell::from(clipped(&visible(&region.name), ROOM)),
            // Where time was not sampled no share of it is known.
            percent(has_samples.then_some(region.user_share)),
            waiting.and_then(|found| found.memory).map_or_else(absent, |share| {
                Cell::from(format!(
                    "{} ({} to {})",
                    percent_text(share.value),
                    percent_text(share.low),
                    percent_text(share.high)
                ))
            }),
            words(|found| Some(held_back(found))),
            words(|found| Some(found.level?.label())),
            Cell::from(region.visits.to_string()),
            time(region.wall_ns as f64),
            words(|found| Some(function_name(&found.symbols.first()?.0, ROOM))),
            words(|found| Some(object_name(found.object.as_ref()?, ROOM))),
        ];
        if has_counts {
            row.extend([counted(RegionCounts::page_faults), counted(RegionCounts::context_switches)]);
        }
        if has_threads {
            row.extend([Cell::from(region.threads.len().to_string()), percent(region.imbalance)]);
        }
        table.row(row);
    }
    table.render(columns).text
}

/// A count; where only some visits were counted it is at least that.
fn count_text(count: u64, counted: u64, visits: u64) -> String {
    if counted < visits { format!("≥ {count}") } else { count.to_string() }
}

/// Events that the program says it has done with; nothing of one that says nothing.
pub fn events_text(events: Option<&EventsDone>, columns: usize) -> String {
    let Some(events) = events else { return String::new() };
    let done = usize::try_from(events.done).unwrap_or(usize::MAX);
    let mut words = format!("{} done", counted(done, "event"));
    if events.skipped > 0 {
        words += &format!(", of which the first {} do not count", events.skipped);
    }
    if let Some(mean) = events.mean_ns() {
        words += &format!("; {} each on average", time(mean).text());
    }
    wrap_in(QUIET, "", &format!("{words}."), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::regions::RegionThread;
    use record::ids::ThreadId;

    #[test]
    fn what_has_too_few_samples_is_listed_without_an_answer() {
        let counts =
            RegionCounts { visits: 3, minor_faults: 11, voluntary_switches: 2, ..RegionCounts::default() };
        let thread = |wall_ns: u64| RegionThread {
            id: ThreadId(0),
            tid: 7,
            visits: 5,
            wall_ns,
            waits_ns: None,
            counts: Some(counts),
        };
        let region = RegionFinding {
            name: "solve\u{1b}[31m".to_owned(),
            is_parallel: false,
            visits: 10,
            unended: 1,
            wall_ns: 3_000_000,
            threads: vec![thread(2_000_000), thread(1_000_000)],
            waits_ns: None,
            counts: Some(counts.and(&counts)),
            imbalance: Some(0.25),
            samples: 3,
            user_share: 0.25,
            waiting: None,
        };
        let shown = text(&[region], false, 160);
        assert!(shown.contains("solve") && !shown.contains("solve\u{1b}"), "{shown}");
        for expected in ["25", "3.00 ms", "1 visit never ended", "≥ 22", "≥ 4"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(text(&[], true, 80), "");
        let events = EventsDone { done: 12, skipped: 2, first_ns: Some(1_000), last_ns: 21_000 };
        let shown = events_text(Some(&events), 80);
        let expected = "12 events done, of which the first 2 do not count; 2.00 µs each on average.";
        assert!(shown.contains(expected), "{shown}");
    }
}
