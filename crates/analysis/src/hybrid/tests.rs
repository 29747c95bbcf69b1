use std::num::NonZeroU64;

use events::{Count, CountedPlace, Value};
use record::{
    count::{CountedInterval, CountedMetric, CountedRun, Counts, GroupMetrics},
    data::{BlockKind, HeapBlock, Site, Variable},
    ids::{PlaceId, ProcessId, ThreadId},
    import::ImportRecord,
    sampled::{EventPace, EventSlice, EventUse, RecordedEvent, SampledEvents},
};

use super::{latency::LATENCY_METRIC, *};

const SLICE: u64 = 1000;

/// Loads of two functions' worth of places at these times, with these latencies and addresses.
fn run(loads: &[(u64, usize, u64, u64)]) -> Run {
    let mut run = crate::timer::tests::run(&[0x90, 0xc3], &[(0, None), (1, None)]);
    run.about.slice_ns = SLICE;
    run.functions.push(record::run::Function { name: "g".to_owned(), ..run.functions[0].clone() });
    run.places[1].function = Some(FunctionId(1));
    run.data.variables = [("near", 0x1000), ("far", 0x2000)]
        .into_iter()
        .map(|(name, start)| Variable {
            process: ProcessId(0),
            start,
            end: start + 0x1000,
            name: name.to_owned(),
            module: "/p".to_owned(),
        })
        .collect();
    let load = |&(time_ns, place, cycles, address): &(u64, usize, u64, u64)| LoadSample {
        time_ns,
        thread: ThreadId(0),
        cpu: 0,
        place: PlaceId::of(place),
        address: NonZeroU64::new(address),
        latency_cycles: Some(cycles),
        origin: None,
        translated_at_hand: None,
    };
    run.loads = LoadSamples::Taken(loads.iter().map(load).collect());
    run
}

/// Slow loads of `g` on `far` in the second slice; slow ones of `f` in the first, where nothing was short of bandwidth.
const LOADS: [(u64, usize, u64, u64); 5] = [
    (100, 0, 500, 0x1008),
    (1100, 1, 600, 0x2008),
    (1200, 1, 700, 0x2010),
    (1300, 0, 9, 0x1010),
    (1400, 0, 300, 0x1018),
];

fn sampled(pending: [u64; 2], misses: [u64; 2], fill_buffer: [u64; 2]) -> SampledEvents {
    let event = |name: &str| RecordedEvent {
        samples: 20,
        ..RecordedEvent::new(name.to_owned(), EventUse::Counted, Some(EventPace::Every(1000)))
    };
    let mut slices = Vec::new();
    for (event, counts) in [pending, misses, fill_buffer].into_iter().enumerate() {
        for (slice, period) in counts.into_iter().enumerate().filter(|(_, period)| *period > 0) {
            slices.push(EventSlice {
                event: event as u32,
                slice: slice as u64,
                samples: 10,
                period: Some(period),
            });
        }
    }
    SampledEvents {
        list: ["cpu/l1d_pend_miss.pending/u", "MEM_LOAD_RETIRED.L1_MISS", "mem_load_retired.fb_hit:u"]
            .map(event)
            .to_vec(),
        tallies: Vec::new(),
        slices,
    }
}

fn value(run: &Run) -> HybridFindings {
    match hybrid(run, &KnownLimits::Value(200.0)) {
        Some(KnownLimits::Value(found)) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_slow_loads_of_slow_intervals_name_code_and_data() {
    let mut run = run(&LOADS);
    // 50 cycles, then 300: α / (β + γ).
    run.sampled = sampled([50_000, 300_000], [600, 400], [400, 600]);
    let found = value(&run);
    let latencies: Vec<_> = found.intervals.iter().map(|one| (one.latency_cycles, one.flagged)).collect();
    assert_eq!(latencies, [(Some(50.0), false), (Some(300.0), true)]);
    assert_eq!((found.flagged, found.slow_loads, found.blamed_loads), (1, 4, 3));
    let functions: Vec<_> = found.functions.iter().map(|part| (part.name.as_str(), part.loads)).collect();
    assert_eq!(functions, [("g", 2), ("f", 1)]);
    let objects: Vec<_> = found.objects.iter().map(|part| (part.name.as_str(), part.loads)).collect();
    assert!(objects.len() == 2 && objects[0].0.contains("far") && objects[0].1 == 2, "{objects:?}");
    assert!(found.source.contains("l1d_pend_miss.pending"), "{}", found.source);
    // A load that waited for a page walk was slow for that: it blames nobody.
    let LoadSamples::Taken(mut loads) = run.loads.clone() else { panic!("no loads") };
    loads[0].translated_at_hand = Some(true);
    loads[1].translated_at_hand = Some(false);
    let all = std::mem::replace(&mut run.loads, LoadSamples::Taken(loads));
    let found = value(&run);
    assert_eq!((found.slow_loads, found.walked_loads, found.blamed_loads), (3, 1, 2));
    run.loads = all;
    // A line that was on its way is no miss: without it latency would seem higher.
    run.sampled = sampled([50_000, 300_000], [600, 400], [400, 1600]);
    assert_eq!(value(&run).flagged, 0, "150 cycles");
}

#[test]
fn what_is_missing_is_said_with_what_it_would_take() {
    let threshold = KnownLimits::Value(200.0);
    let reason = |run: &Run, threshold: &KnownLimits<f64>| match hybrid(run, threshold) {
        Some(KnownLimits::Missing(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let mut all = run(&LOADS);
    assert!(reason(&all, &threshold).contains("perf stat -I"), "no latency");
    all.sampled = sampled([50_000, 300_000], [600, 400], [400, 600]);
    let unknown = KnownLimits::Missing("'memwall validate' finds it".to_owned());
    assert!(reason(&all, &unknown).contains("memwall validate"));
    let mut without_loads = all.clone();
    without_loads.loads = LoadSamples::NotAsked;
    assert!(reason(&without_loads, &threshold).contains("--precise"));
    without_loads.sampled = SampledEvents::default();
    assert_eq!(hybrid(&without_loads, &threshold), None, "nobody asked");
    // One event of three is not enough, and one that was refused is none.
    all.sampled.list[2].refusal = Some("no".to_owned());
    assert!(reason(&all, &threshold).contains("perf stat -I"));
}

#[test]
fn intervals_of_perf_stat_are_used_and_intervals_without_a_value_flag_nothing() {
    let mut run = run(&LOADS);
    let counted = |end_ns| CountedInterval {
        end_ns,
        counts: vec![Count {
            event: 0,
            place: CountedPlace::Target,
            value: Value::Counted { raw: 1, enabled_ns: 1, running_ns: 1 },
        }],
    };
    let metric = CountedMetric {
        name: LATENCY_METRIC.to_owned(),
        values: vec![100.0],
        series: vec![None, Some(250.0)],
        ..CountedMetric::default()
    };
    let counts = Counts {
        metrics: vec![GroupMetrics { metrics: vec![metric], ..GroupMetrics::default() }],
        runs: vec![CountedRun {
            elapsed_ns: 2000,
            ending: None,
            usage: None,
            counts: Vec::new(),
            intervals: vec![counted(1000), counted(1350)],
        }],
        ..Counts::default()
    };
    run.import = Some(Box::new(ImportRecord { counts: vec![counts], ..ImportRecord::default() }));
    let found = value(&run);
    let flags: Vec<_> = found.intervals.iter().map(|one| (one.start_ns, one.end_ns, one.flagged)).collect();
    assert_eq!(flags, [(0, 1000, false), (1000, 1350, true)]);
    assert_eq!(
        (found.slow_loads, found.blamed_loads),
        (4, 2),
        "what comes after the last interval is in none"
    );
    assert!(found.source.contains("perf stat"));
}

#[test]
fn what_waits_exactly_as_long_as_the_threshold_is_not_above_it() {
    let mut run = run(&[(1100, 0, 200, 0x1008), (1200, 0, 201, 0x1008)]);
    run.sampled = sampled([200_000, 201_000], [600, 600], [400, 400]);
    let found = value(&run);
    assert_eq!((found.flagged, found.slow_loads, found.blamed_loads), (1, 1, 1));
}

#[test]
fn a_load_is_of_the_interval_that_its_moment_lies_in() {
    // At the moment a flagged interval ends, in a gap before one, and at its first moment.
    let mut run = run(&[(2000, 0, 500, 0x1008), (2999, 0, 500, 0x1008), (3000, 1, 500, 0x2008)]);
    run.sampled = sampled([50_000, 300_000], [600, 400], [400, 600]);
    assert_eq!(value(&run).blamed_loads, 0, "the second interval ends at 2000");
    for slice in &mut run.sampled.slices {
        slice.slice = if slice.slice == 1 { 3 } else { 0 };
    }
    let found = value(&run);
    assert_eq!(found.intervals[1].start_ns, 3000);
    assert_eq!((found.slow_loads, found.blamed_loads), (3, 1), "only the last lies in it");
    assert_eq!(found.functions[0].name, "g");
}

#[test]
fn few_samples_say_nothing_and_none_of_an_event_is_none_of_it() {
    let mut run = run(&LOADS);
    run.sampled = sampled([50_000, 300_000], [600, 1000], [400, 0]);
    assert_eq!(value(&run).intervals[1].latency_cycles, Some(300.0), "no line was on its way");
    // Periods that were not recorded are the mean: ten samples of 500 cycles, twenty of a thousand loads.
    run.sampled.slices.iter_mut().for_each(|slice| slice.period = None);
    run.sampled.list[0].pace = Some(EventPace::Every(500));
    assert_eq!(value(&run).intervals[0].latency_cycles, Some(0.25));
    run.sampled.slices.iter_mut().for_each(|slice| slice.samples = 4);
    assert!(value(&run).intervals.iter().all(|interval| interval.latency_cycles.is_none()));
}

#[test]
fn parts_are_ranked_cut_to_ten_and_named_with_where_they_are_and_their_share() {
    let mut run = run(&[(1100, 0, 500, 0x1008), (1200, 1, 500, 0x2008)]);
    run.sampled = sampled([50_000, 300_000], [600, 400], [400, 600]);
    let found = value(&run);
    let names: Vec<_> = found.functions.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["f", "g"], "names decide between equals");
    assert_eq!(found.functions[0].module.as_deref(), Some(run.modules[0].path.as_str()));
    assert!(found.functions.iter().chain(&found.objects).all(|part| part.share.value == 0.5), "{found:?}");
    // An address that is not known names no data.
    if let LoadSamples::Taken(loads) = &mut run.loads {
        loads[0].address = None;
    }
    let found = value(&run);
    assert_eq!((found.objects.len(), found.objects[0].share.value), (1, 1.0));
    let variables = |index: u64| Variable {
        process: ProcessId(0),
        start: 0x10_000 + 0x100 * index,
        end: 0x10_100 + 0x100 * index,
        name: format!("v{index:02}"),
        module: "/p".to_owned(),
    };
    run.data.variables = (0..12).map(variables).collect();
    if let LoadSamples::Taken(loads) = &mut run.loads {
        let one = loads[0];
        let load = |index: u64| LoadSample { address: NonZeroU64::new(0x10_010 + 0x100 * index), ..one };
        *loads = (0..12).map(load).collect();
    }
    let found = value(&run);
    assert_eq!((found.objects.len(), found.objects[9].loads), (10, 1));
}

#[test]
fn data_is_what_lay_at_the_address_at_that_moment() {
    let mut run = run(&[(1100, 0, 500, 0x50_010), (1900, 0, 500, 0x50_010)]);
    run.sampled = sampled([50_000, 300_000], [600, 400], [400, 600]);
    let site = |function: &str| Site {
        function: function.to_owned(),
        module: "/p".to_owned(),
        address: 8,
        variable: None,
        line: None,
        callers: Vec::new(),
    };
    let block = |time_ns, site| HeapBlock {
        process: ProcessId(0),
        time_ns,
        address: 0x50_000,
        size_bytes: 4096,
        stands_for_bytes: None,
        kind: BlockKind::Large,
        tid: 7,
        site: Some(site),
    };
    run.data.sites = vec![site("fill"), site("solve")];
    run.data.blocks = vec![block(500, 0), block(1500, 1)];
    let found = value(&run);
    let loads: Vec<_> = found.objects.iter().map(|part| part.loads).collect();
    assert_eq!(loads, [1, 1], "{:?}", found.objects);
}

#[test]
fn a_latency_that_perf_stat_counted_and_nobody_trusts_is_withheld_with_the_reason() {
    let mut run = run(&LOADS);
    let metric = CountedMetric {
        name: LATENCY_METRIC.to_owned(),
        series: vec![None, None],
        missing: vec!["its event is broken".to_owned()],
        ..CountedMetric::default()
    };
    let counted =
        CountedRun { elapsed_ns: 1, ending: None, usage: None, counts: Vec::new(), intervals: Vec::new() };
    let counts = Counts {
        metrics: vec![GroupMetrics { metrics: vec![metric], ..GroupMetrics::default() }],
        runs: vec![counted],
        ..Counts::default()
    };
    run.import = Some(Box::new(ImportRecord { counts: vec![counts], ..ImportRecord::default() }));
    match hybrid(&run, &KnownLimits::Value(200.0)) {
        Some(KnownLimits::Missing(reason)) => assert!(reason.contains("its event is broken"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
