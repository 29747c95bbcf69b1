use events::{Catalogue as Events, CountedPlace, Signal};
use machine::profile::Fingerprint;
use record::count::{
    BarPart, CountedBar, CountedEvent, CountedMetric, CountedRun, GroupMetrics, MetricLevel, PackageMetrics,
    PrintedMetric, SCHEMA,
};
use trust::{Basis, Flaw, Indicator, Judged, Purpose, Quantity, Threshold, Trust, Validation};

use super::*;

const TRUSTED: &str = "L1D.REPLACEMENT";
const BROKEN: &str = "MEM_LOAD_UOPS_RETIRED.L2_HIT";

fn haswell() -> &'static Events {
    Events::named("haswell-ep").unwrap()
}

fn signal(name: &str) -> Signal {
    haswell().event(name).map_or(Signal::Software(3), |event| event.signal)
}

/// Of a machine with one event that is right and one that is not.
fn catalogue() -> TrustCatalogue {
    catalogue_with(Vec::new())
}

fn catalogue_with(thresholds: Vec<Threshold>) -> TrustCatalogue {
    let volume = |name: &str, quantity: Quantity, trust: Trust| {
        let (name, purpose) = (Indicator::event(name), Purpose::Volume(quantity));
        Judged::new(name, purpose, quantity.words(), "volume", trust)
    };
    let flaw = Flaw::Prefetch { on: 0.1, off: 1.0 };
    let (why, shown_by) = ("misses prefetches".to_owned(), "load in L2".to_owned());
    let validation = Validation {
        schema: trust::SCHEMA.to_owned(),
        fingerprint: Fingerprint::default(),
        simulated: None,
        instrument: "perf_event".to_owned(),
        measured_at: 9,
        memwall: "0".to_owned(),
        quick: false,
        runs: 1,
        complete: true,
        steps: Vec::new(),
        best: Vec::new(),
        indicators: vec![
            volume(TRUSTED, Quantity::L1In, Trust::Trusted { error: 0.01 }),
            volume(BROKEN, Quantity::L2ServedRead, Trust::Broken { flaw, why, shown_by }),
        ],
        thresholds,
        unseen: None,
        unseen_with_relief: None,
        sweeps: Vec::new(),
    };
    TrustCatalogue::of(validation, Some(haswell()))
}

fn counts() -> Counts {
    let event = |name: &str| CountedEvent {
        name: name.to_owned(),
        signal: signal(name),
        scale: None,
        errata: Vec::new(),
        trust: None,
    };
    let count = |event| Count {
        event,
        place: CountedPlace::Target,
        value: Value::Counted { raw: 5, enabled_ns: 1, running_ns: 1 },
    };
    let metric = CountedMetric {
        name: "read".to_owned(),
        unit: "B".to_owned(),
        values: vec![5.0],
        events: vec![BROKEN.to_owned()],
        ..CountedMetric::default()
    };
    Counts {
        schema: SCHEMA.to_owned(),
        instrument: "perf_event".to_owned(),
        target: "x".to_owned(),
        events: vec![event(TRUSTED), event(BROKEN), event("cs")],
        runs: vec![CountedRun {
            elapsed_ns: 1,
            ending: None,
            usage: None,
            counts: vec![count(0), count(1), count(2)],
            intervals: Vec::new(),
        }],
        metrics: vec![GroupMetrics {
            group: "G".to_owned(),
            metrics: vec![metric],
            ..GroupMetrics::default()
        }],
        ..Counts::default()
    }
}

#[test]
fn values_of_broken_indicators_are_absent_with_the_reason_unless_asked_for() {
    let mut kept = counts();
    mark(&mut kept, &catalogue(), Broken::Kept);
    assert_eq!(kept.runs, counts().runs);
    assert_eq!(kept.metrics[0].metrics[0].values, [5.0]);
    let mut counts = counts();
    mark(&mut counts, &catalogue(), Broken::Withheld);
    let values: Vec<Option<f64>> = counts.runs[0].counts.iter().map(|count| count.value.estimate()).collect();
    assert_eq!(values, [Some(5.0), None, Some(5.0)]);
    match &counts.runs[0].counts[1].value {
        Value::Missing(Missing::Broken(reason)) => {
            assert!(reason.contains("misses prefetches") && reason.contains("load in L2"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    let metric = &counts.metrics[0].metrics[0];
    assert!(metric.values.is_empty() && metric.missing[0].contains("broken"), "{metric:?}");
    assert!(matches!(counts.validation, Some(Basis::Validated { judged: 2, measured_at: 9, .. })));
}

#[test]
fn without_a_validation_nothing_is_withheld_and_the_reason_is_kept() {
    let mut counts = counts();
    mark(&mut counts, &TrustCatalogue::missing("nobody tried"), Broken::Withheld);
    assert!(counts.runs[0].counts.iter().all(|count| count.value.estimate().is_some()));
    assert!(counts.events.iter().all(|event| event.trust.is_none()));
    assert_eq!(counts.validation, Some(Basis::Missing { reason: "nobody tried".to_owned() }));
}

#[test]
fn busy_memory_is_harmless_as_long_as_loads_do_not_wait_longer() {
    let threshold = Threshold {
        indicator: Indicator::LoadMissRealLatency,
        value: 250.0,
        unit: "cycles".to_owned(),
        means: "bandwidth".to_owned(),
        how: "known work".to_owned(),
    };
    let said = |latency: f64, utilisation: Option<f64>, thresholds: Vec<Threshold>| {
        let metric = |name: &str, value| CountedMetric {
            name: name.to_owned(),
            values: vec![value],
            ..CountedMetric::default()
        };
        let mut counts = counts();
        counts.metrics[0].metrics = vec![metric("load-miss real latency", latency)];
        counts.metrics[0].metrics.extend(utilisation.map(|value| metric("memory utilisation", value)));
        mark(&mut counts, &catalogue_with(thresholds), Broken::Withheld);
        counts.remarks.join(" ")
    };
    let known = || vec![threshold.clone()];
    assert!(said(120.0, Some(85.0), known()).contains("busy (85 % of its peak) without harm"));
    assert!(said(310.0, Some(85.0), known()).contains("holds the program back"));
    assert!(said(310.0, None, known()).contains("310 cycles; above 250"));
    assert!(said(120.0, Some(10.0), known()).contains("does not hold the program back"));
    assert_eq!(said(310.0, Some(85.0), Vec::new()), "", "no threshold of this machine, no verdict");
}

/// A group with one metric that is broken and one that is not, and all that can be said of them.
fn spoken_of() -> GroupMetrics {
    let metric = |name: &str, event: &str| CountedMetric {
        name: name.to_owned(),
        unit: "B".to_owned(),
        about: "x".to_owned(),
        values: vec![5.0],
        series: vec![Some(5.0)],
        between: vec![events::groups::ValueRange { least: 1.0, most: 9.0 }],
        events: vec![event.to_owned()],
        cut_off: vec![1.0],
        without: vec!["y".to_owned()],
        measured: vec![6.0],
        printed: Some(PrintedMetric { formula: "a".to_owned(), values: vec![7.0], note: "z".to_owned() }),
        advice: Some("do".to_owned()),
        level: Some(MetricLevel {
            level: 2,
            medium: 1.0,
            high: 2.0,
            means: "much".to_owned(),
            source: "here".to_owned(),
        }),
        ..CountedMetric::default()
    };
    let part = |name: &str| BarPart { name: name.to_owned(), value: 5.0, measured: Some(6.0) };
    let bar = |title: &str, of: &str| CountedBar {
        title: title.to_owned(),
        of: Some(of.to_owned()),
        whole: Some(10.0),
        unit: "B".to_owned(),
        parts: vec![part("read"), part("held")],
        missing: Vec::new(),
    };
    let remarks = [
        "read: 5.0 B instead of 3 ± 1: the parts do not make up the whole.",
        "The parts of 'all' explain 50 % of it.",
        "held: socket 1 has 90 % of it.",
    ];
    GroupMetrics {
        group: "G".to_owned(),
        metrics: vec![metric("read", BROKEN), metric("held", TRUSTED)],
        bars: vec![bar("all", "held"), bar("reads", "read")],
        remarks: remarks.map(str::to_owned).to_vec(),
        packages: vec![PackageMetrics { package: 0, values: vec![Some(5.0), Some(4.0)] }],
        ..GroupMetrics::default()
    }
}

#[test]
fn nothing_is_left_of_a_broken_metric_but_why() {
    let mut counts = counts();
    counts.metrics = vec![spoken_of()];
    mark(&mut counts, &catalogue(), Broken::Withheld);
    let found = &counts.metrics[0];
    let [read, held] = &found.metrics[..] else { panic!("{found:?}") };
    let bare = CountedMetric {
        name: "read".to_owned(),
        unit: "B".to_owned(),
        about: "x".to_owned(),
        events: vec![BROKEN.to_owned()],
        trust: read.trust.clone(),
        missing: read.missing.clone(),
        ..CountedMetric::default()
    };
    assert_eq!(*read, bare, "no value in any form");
    assert!(read.missing[0].starts_with("withheld: broken"), "{read:?}");
    assert_eq!(*held, CountedMetric { trust: held.trust.clone(), ..spoken_of().metrics.remove(1) });
    let [all, reads] = &found.bars[..] else { panic!("{found:?}") };
    assert_eq!((all.whole, all.parts.len(), &all.missing[..]), (Some(10.0), 1, &["read".to_owned()][..]));
    assert_eq!((reads.whole, reads.parts.len(), reads.missing.len()), (None, 0, 2));
    assert_eq!(found.packages[0].values, [None, Some(4.0)]);
    assert_eq!(found.remarks, ["held: socket 1 has 90 % of it."]);
}
