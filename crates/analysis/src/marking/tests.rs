use events::{Catalogue as Events, CountedPlace, Signal};
use machine::profile::Fingerprint;
use record::count::{CountedEvent, CountedMetric, CountedRun, GroupMetrics, SCHEMA};
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
