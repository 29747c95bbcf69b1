use record::{
    ids::PlaceId,
    import::ImportRecord,
    regions::{Region, RegionId, Regions},
    sampled::{EventSlice, EventTally, EventUse, SampleMode, SampledEvents},
};

use super::*;
use crate::timer::{self, Tally, TimerOptions};

/// nop; ret: one function of two places, and a second one in a library.
fn run() -> Run {
    let samples: Vec<(u64, Option<u64>)> = (0..100).map(|index| (index % 2, None)).collect();
    let mut run = timer::tests::run(&[0x90, 0xc3], &samples);
    let module = run.modules[0].clone();
    run.modules.push(record::run::Module { path: "/lib/libm.so".to_owned(), ..module });
    let library = record::ids::ModuleId::of(run.modules.len() - 1);
    run.functions.push(record::run::Function {
        module: library,
        symbol: None,
        name: "project(Vector<double, 3> const&)".to_owned(),
        start: 0,
        end: 8,
        code: None,
    });
    let function = Some(record::ids::FunctionId::of(run.functions.len() - 1));
    run.places.push(record::run::Place { module: library, address: 4, function });
    run
}

fn views(run: &Run, waiting: f64) -> EventViews {
    let tally = Tally::new(run, None);
    let (findings, _) = timer::findings(run, &tally, None, &TimerOptions::unlimited());
    EventViews::of(run, &findings, &|_| waiting)
}

fn event(name: &str, samples: u64, period: u64) -> RecordedEvent {
    RecordedEvent {
        samples,
        ..RecordedEvent::new(name.to_owned(), EventUse::Counted, Some(EventPace::Every(period)))
    }
}

fn tally(event: u32, place: usize, region: Option<u32>, samples: u64) -> EventTally {
    let (place, region) = (PlaceId::of(place), region.map(RegionId));
    EventTally { event, place, mode: SampleMode::User, region, samples }
}

#[test]
fn without_events_time_stands_for_cycles_and_waiting_for_stalls() {
    let run = run();
    let found = views(&run, 0.25);
    let names: Vec<_> = found.events.iter().map(|event| (event.name.as_str(), event.samples)).collect();
    assert_eq!(names, [("user time", 100.0), ("waiting for memory", 25.0)]);
    assert_eq!((found.cycles, found.stalled, found.has_events()), (Some(0), Some(1), false));
    let stalled = found.symbols[0].stalled.expect("enough samples");
    assert!((stalled.value - 0.25).abs() < 1e-9 && stalled.low < 0.2 && stalled.high > 0.3, "{stalled:?}");
    let all = views(&run, 1.0).symbols[0].stalled.expect("enough samples");
    assert_eq!((all.value, all.high), (1.0, 1.0), "no more can wait than there is");
    assert!(found.by_region.is_empty(), "nothing was marked");
}

#[test]
fn events_by_symbol_have_their_periods_and_the_stalled_share_counts_events_not_samples() {
    let mut run = run();
    let library = run.places.len() - 1;
    run.sampled = SampledEvents {
        // A sample of stalls stands for half as many events.
        list: vec![event("cycles", 100, 1000), event("cpu/uops_executed.stall_cycles/", 120, 500)],
        tallies: vec![
            tally(0, 0, None, 60),
            tally(0, library, None, 40),
            tally(1, 0, None, 24),
            tally(1, library, None, 96),
        ],
        slices: Vec::new(),
    };
    let views = views(&run, 0.0);
    assert_eq!((views.cycles, views.stalled), (Some(2), Some(3)));
    let table = &views.by_symbol[views.by_symbol.len() - 1];
    assert_eq!((table.event, table.samples, table.left_out), (3, 120.0, 0));
    let first = &views.symbols[table.rows[0].symbol];
    assert_eq!(
        (first.signature.as_str(), first.library.as_str()),
        ("project(Vector<double, 3> const&)", "/lib/libm.so")
    );
    assert!((table.rows[0].share - 0.8).abs() < 1e-9);
    // 96 samples of 500 over 40 of 1000.
    assert!((first.stalled.expect("enough").value - 1.2).abs() < 1e-9, "{first:?}");
    let own = &views.symbols[table.rows[1].symbol];
    assert!((own.stalled.expect("enough").value - 0.2).abs() < 1e-9);
    assert_eq!(
        (own.finding, first.finding),
        (Some(0), None),
        "only what has samples of time is among the findings"
    );
}

#[test]
fn each_region_has_its_own_symbols_and_what_lies_outside_is_kept_apart() {
    let mut run = run();
    let library = run.places.len() - 1;
    let region = |name: &str| Region { name: name.to_owned(), is_parallel: false };
    run.regions = Regions {
        list: vec![region("rare"), region("solve")],
        of_samples: (0..100).map(|index| (index < 80).then_some(RegionId(1))).collect(),
        of_bursts: Vec::new(),
        visits: Vec::new(),
        events: None,
    };
    run.sampled = SampledEvents {
        list: vec![event("page-faults", 10, 1)],
        tallies: vec![tally(0, library, Some(0), 9), tally(0, 0, Some(1), 1)],
        slices: Vec::new(),
    };
    let views = views(&run, 0.5);
    let names: Vec<_> = views.by_region.iter().map(|region| region.name.as_deref()).collect();
    assert_eq!(names, [Some("solve"), None, Some("rare")], "by user time");
    assert_eq!(views.by_region[0].shares, [Some(0.8), Some(0.8), Some(0.1)]);
    let rare = &views.by_region[2];
    assert_eq!((rare.tables.len(), rare.stalled), (1, None), "no cycles, no share of them");
    assert_eq!((rare.tables[0].event, rare.tables[0].rows[0].share), (2, 1.0));
    assert!((views.by_region[0].stalled.expect("enough").value - 0.5).abs() < 1e-9);
}

#[test]
fn of_an_import_its_own_clock_counts_cycles_and_many_symbols_are_cut_to_twenty() {
    let mut run = run();
    for index in 0..30u64 {
        let module = run.places[0].module;
        run.functions.push(record::run::Function {
            module,
            symbol: None,
            name: format!("f{index:02}"),
            start: 100 + index,
            end: 101 + index,
            code: None,
        });
        let function = Some(record::ids::FunctionId::of(run.functions.len() - 1));
        run.places.push(record::run::Place { module, address: 100 + index, function });
    }
    let first = run.places.len() - 30;
    let clock = RecordedEvent { used_for: EventUse::Time, ..event("cpu-clock", 465, 1) };
    run.sampled = SampledEvents {
        list: vec![clock],
        tallies: (0..30).map(|index| tally(0, first + index, None, index as u64 + 1)).collect(),
        slices: Vec::new(),
    };
    run.import = Some(Box::new(ImportRecord::default()));
    let views = views(&run, 0.1);
    let names: Vec<_> = views.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["waiting for memory", "cpu-clock"]);
    assert_eq!((views.cycles, views.stalled), (Some(1), Some(0)));
    let table = views.by_symbol.iter().find(|table| table.event == 1).expect("a table");
    assert_eq!((table.rows.len(), table.left_out, table.rows[0].samples), (20, 10, 30.0));
    assert_eq!(views.symbols[table.rows[0].symbol].signature, "f29");
}

#[test]
fn events_over_time_count_by_periods_and_many_slices_share_an_interval() {
    let mut run = run();
    run.about.slice_ns = 1_000_000;
    let slice = |event: u32, slice: u64, samples: u64, period: Option<u64>| EventSlice {
        event,
        slice,
        samples,
        period,
    };
    run.sampled = SampledEvents {
        list: vec![event("cycles", 40, 1000), event("stalled-cycles-backend", 20, 500), event("rare", 0, 1)],
        tallies: vec![tally(0, 0, None, 40), tally(1, 0, None, 20)],
        slices: vec![slice(0, 0, 20, Some(20_000)), slice(0, 2, 20, None), slice(1, 2, 20, Some(10_000))],
    };
    let found = views(&run, 0.0).over_time;
    assert_eq!((found.interval_ns, found.lines.len()), (1_000_000, 2), "what has no samples has no line");
    assert_eq!(found.lines[0].per_second, [Some(2e7), Some(0.0), Some(2e7)]);
    assert_eq!(found.stalled, [Some(0.0), None, Some(0.5)]);
    run.sampled.slices[2].slice = 959;
    let found = views(&run, 0.0).over_time;
    assert_eq!((found.interval_ns, found.lines[0].per_second.len()), (4_000_000, 240));
    run.sampled.slices[2].slice = u64::MAX;
    assert!(views(&run, 0.0).over_time.lines[0].per_second.len() <= 240, "of a damaged recording");
}

#[test]
fn what_was_refused_or_never_came_counts_neither_cycles_nor_stalls() {
    let mut run = run();
    let refused = RecordedEvent { refusal: Some("ENOENT".to_owned()), ..event("cycles", 0, 1000) };
    run.sampled.list = vec![refused, event("stalled-cycles-backend", 0, 1000), event("page-faults", 8, 1)];
    run.sampled.list[2].in_kernel = 3;
    run.sampled.tallies = vec![tally(2, 0, None, 8)];
    let found = views(&run, 0.25);
    assert_eq!((found.cycles, found.stalled), (Some(0), Some(1)), "time and waiting stand for them");
    assert_eq!(found.events[2].refusal.as_deref(), Some("ENOENT"));
    assert_eq!((found.events[4].in_kernel, found.events[4].samples), (3, 8.0));
    let period = run.about.period_ns;
    assert!(period > 0.0 && found.events[0].period == Some(period), "{:?}", found.events[0]);
    // Without cycles that were counted, stalls that were are shares of nothing.
    run.sampled.list[1].samples = 60;
    run.sampled.tallies.push(tally(1, 0, None, 60));
    let found = views(&run, 0.25);
    assert_eq!((found.cycles, found.stalled), (Some(0), Some(1)));
    // Of an import without a clock nothing stands for cycles.
    run.import = Some(Box::new(ImportRecord::default()));
    assert_eq!(views(&run, 0.25).cycles, None);
    // Cycles without stalls: waiting is not counted in their unit, and stands for stalls all the same.
    run.import = None;
    run.sampled.list[0] = event("cycles", 50, 1000);
    run.sampled.list[1].samples = 0;
    run.sampled.tallies = vec![tally(0, 0, None, 50)];
    let found = views(&run, 0.25);
    assert_eq!((found.cycles, found.stalled), (Some(2), Some(1)));
}

#[test]
fn a_stalled_share_is_as_sure_as_its_samples_are_many() {
    let stalled = |cycles: u64, stalls: u64| {
        let mut run = run();
        run.sampled.list = vec![event("cycles", cycles, 1000), event("stalls", stalls, 1000)];
        run.sampled.tallies = vec![tally(0, 0, None, cycles), tally(1, 0, None, stalls)];
        let found = views(&run, 0.0);
        found.symbols.iter().find(|symbol| symbol.signature == "f").expect("it has samples").stalled
    };
    assert_eq!(stalled(29, 29), None, "too few to tell");
    // By hand: 1.96 times the root of 1/100 + 1/400 is 0.219 of a quarter.
    let found = stalled(400, 100).expect("enough");
    assert!((found.low - 0.195).abs() < 1e-3 && (found.high - 0.305).abs() < 1e-3, "{found:?}");
}

#[test]
fn code_without_a_name_and_equal_symbols_are_listed_by_what_is_known_of_them() {
    let mut run = run();
    let module = run.modules[0].clone();
    run.modules.push(record::run::Module { path: "[kernel]".to_owned(), ..module });
    let kernel = record::ids::ModuleId::of(run.modules.len() - 1);
    let first = run.places.len();
    run.places.push(record::run::Place { module: kernel, address: 8, function: None });
    run.places.push(record::run::Place { module: run.places[0].module, address: 0x9000, function: None });
    run.sampled.list = vec![event("page-faults", 30, 1)];
    // First seen last by name.
    run.sampled.tallies =
        vec![tally(0, first + 1, None, 10), tally(0, 0, None, 10), tally(0, first, None, 10)];
    let found = views(&run, 0.0);
    let table = found.by_symbol.iter().find(|table| table.event == 2).expect("a table");
    let names: Vec<_> = table.rows.iter().map(|row| found.symbols[row.symbol].signature.as_str()).collect();
    assert_eq!(names, ["[kernel]", "f", "unknown code"]);
}

#[test]
fn thousands_of_regions_are_cut_and_events_without_samples_have_no_share() {
    let mut run = run();
    let regions = MOST_REGIONS + 7;
    let region = |index: usize| Region { name: format!("r{index}"), is_parallel: index == 3 };
    run.regions.list = (0..regions).map(region).collect();
    run.regions.of_samples = vec![Some(RegionId(3)); 100];
    run.sampled.list = vec![event("page-faults", regions as u64, 1), event("rare", 0, 1)];
    run.sampled.tallies = (0..regions).map(|index| tally(0, 0, Some(index as u32), 1)).collect();
    let found = views(&run, 0.0);
    assert_eq!((found.by_region.len(), found.regions_left_out), (MOST_REGIONS, 7));
    let first = &found.by_region[0];
    assert_eq!((first.name.as_deref(), first.is_parallel), (Some("r3"), true), "all time is in it");
    assert!(!found.by_region[1].is_parallel);
    assert_eq!(
        first.shares[1..],
        [None, Some(1.0 / regions as f64), None],
        "nothing waits, and nothing is rare"
    );
}

#[test]
fn an_interval_with_few_samples_of_cycles_has_no_share_of_them() {
    let mut run = run();
    run.about.slice_ns = 1_000_000;
    let slice = |event, slice, samples| EventSlice { event, slice, samples, period: None };
    run.sampled = SampledEvents {
        list: vec![event("cycles", 29, 1000), event("stalls", 15, 1000)],
        tallies: Vec::new(),
        // The last two intervals share one below.
        slices: vec![slice(0, 0, 9), slice(0, 1, 20), slice(1, 0, 9), slice(1, 1, 5)],
    };
    assert_eq!(views(&run, 0.0).over_time.stalled, [None, Some(0.25)]);
    run.sampled.slices.extend([slice(0, 478, 6), slice(0, 479, 6), slice(1, 479, 3)]);
    let found = views(&run, 0.0).over_time;
    assert_eq!((found.interval_ns, found.stalled[239]), (2_000_000, Some(0.25)), "two slices of six samples");
}
