use std::num::NonZeroU64;

use events::{Count, CountedPlace, Value};
use record::{
    count::{CountedInterval, CountedMetric, CountedRun, Counts, GroupMetrics},
    data::Variable,
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
