use events::Place;
use record::{
    count::{CountedEvent, CountedMetric, CountedRun, GroupMetrics, SCHEMA},
    trust::Basis,
};

use super::*;
use crate::trust::tests::{catalogue, signal};

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
        place: Place::Target,
        value: Value::Counted { raw: 5, enabled_ns: 1, running_ns: 1 },
    };
    let metric = CountedMetric {
        name: "read".to_owned(),
        unit: "B".to_owned(),
        about: String::new(),
        values: vec![5.0],
        missing: Vec::new(),
        events: vec!["LOADS.MISS".to_owned()],
        trust: None,
    };
    Counts {
        schema: SCHEMA.to_owned(),
        instrument: "perf_event".to_owned(),
        target: "x".to_owned(),
        events: vec![event("L1D.REPLACEMENT"), event("LOADS.MISS"), event("cs")],
        runs: vec![CountedRun {
            elapsed_ns: 1,
            ending: None,
            usage: None,
            counts: vec![count(0), count(1), count(2)],
            intervals: Vec::new(),
        }],
        metrics: vec![GroupMetrics { group: "G".to_owned(), metrics: vec![metric] }],
        packages: Vec::new(),
        remarks: Vec::new(),
        validation: None,
        interrupted: false,
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
    assert!(matches!(counts.validation, Some(Basis::Validated { judged: 7, measured_at: 9, .. })));
}

#[test]
fn without_a_validation_nothing_is_withheld_and_the_reason_is_kept() {
    let mut counts = counts();
    mark(&mut counts, &Catalogue::missing("nobody tried"), Broken::Withheld);
    assert!(counts.runs[0].counts.iter().all(|count| count.value.estimate().is_some()));
    assert!(counts.events.iter().all(|event| event.trust.is_none()));
    assert_eq!(counts.validation, Some(Basis::Missing { reason: "nobody tried".to_owned() }));
}
