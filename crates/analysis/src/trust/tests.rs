use events::Place;
use machine::profile::Fingerprint;
use record::{
    count::{CountedEvent, CountedMetric, CountedRun, GroupMetrics, SCHEMA},
    validate::Flaw,
};

use super::*;

fn judged(name: &str, events: &[&str], trust: Trust, without_prefetch: Option<Trust>) -> Judged {
    Judged {
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        without_prefetch: without_prefetch.map(Box::new),
        ..Judged::new(name, "lines into the L1", "l1_in", "volume", trust)
    }
}

fn trusted(error: f64) -> Trust {
    Trust::Trusted { error }
}

fn broken() -> Trust {
    let flaw = Flaw::Prefetch { on: 0.1, off: 1.0 };
    Trust::Broken { flaw, why: "misses prefetches".to_owned(), shown_by: "load in L2".to_owned() }
}

fn qualitative() -> Trust {
    Trust::Qualitative { tells: "saturation".to_owned(), misses: "the rest".to_owned() }
}

fn catalogue() -> Catalogue {
    let text = |text: &str| text.to_owned();
    Catalogue::of(Validation {
        schema: record::validate::SCHEMA.to_owned(),
        fingerprint: Fingerprint {
            id: text("x"),
            cpu: text("x"),
            microcode: text("x"),
            topology: text("x"),
            kernel: text("x"),
            hypervisor: text("x"),
        },
        simulated: None,
        instrument: text("perf_event"),
        measured_at: 9,
        memwall: text("0"),
        quick: false,
        runs: 1,
        complete: true,
        steps: Vec::new(),
        best: Vec::new(),
        indicators: vec![
            judged("L1D.REPLACEMENT", &["L1D.REPLACEMENT"], trusted(0.01), None),
            judged("LOADS.MISS", &["LOADS.MISS"], broken(), Some(trusted(0.02))),
            judged("PENDING", &["PENDING"], broken(), None),
            judged("latency", &["PENDING", "LOADS.MISS"], qualitative(), None),
            judged("page-faults", &["page-faults"], trusted(0.0), None),
            judged("breakpoint (write)", &["breakpoint (write)"], trusted(0.0), None),
        ],
        thresholds: Vec::new(),
        sweeps: Vec::new(),
    })
}

fn word(standing: Option<Standing>) -> Option<&'static str> {
    standing.map(|standing| standing.trust.word())
}

#[test]
fn an_event_is_found_under_every_name_that_means_it() {
    let catalogue = catalogue();
    for name in ["L1D.REPLACEMENT", "l1d:replacement", "L1D.REPLACEMENT:u", "faults", "page-faults:u"] {
        assert_eq!(word(catalogue.indicator(name)), Some("trusted"), "{name}");
    }
    assert_eq!(word(catalogue.indicator("mem:0x1000/8:w")), Some("trusted"));
    assert_eq!(word(catalogue.indicator("mem:0x1000/8:w:u")), Some("trusted"));
    for name in ["mem:0x1000/8:rw", "mem:0x1000", "cs", "L1D", "cycles"] {
        assert_eq!(catalogue.indicator(name), None, "{name}");
    }
}

#[test]
fn a_metric_is_as_good_as_its_weakest_event_unless_it_was_judged_as_a_whole() {
    let catalogue = catalogue();
    let metric = |events: &[&str], unit: &str| {
        let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
        word(catalogue.metric(&events, unit))
    };
    assert_eq!(metric(&["L1D.REPLACEMENT"], "B/s"), Some("trusted"));
    assert_eq!(metric(&["L1D.REPLACEMENT", "PENDING"], "B/s"), Some("broken"));
    assert_eq!(metric(&["LOADS.MISS", "PENDING"], "cycles"), Some("qualitative"));
    // No volume; as a share of what the program asked for it will do.
    assert_eq!(metric(&["LOADS.MISS"], "B"), Some("broken"));
    assert_eq!(metric(&["LOADS.MISS", "L1D.REPLACEMENT"], "% of loads"), Some("qualitative"));
    assert_eq!(metric(&["L1D.REPLACEMENT", "UNKNOWN"], "B"), None);
}

fn counts() -> Counts {
    let event =
        |name: &str| CountedEvent { name: name.to_owned(), scale: None, errata: Vec::new(), trust: None };
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
    assert!(matches!(counts.validation, Some(Basis::Validated { judged: 6, measured_at: 9, .. })));
}

#[test]
fn without_a_validation_nothing_is_withheld_and_the_reason_is_kept() {
    let mut counts = counts();
    mark(&mut counts, &Catalogue::missing("nobody tried"), Broken::Withheld);
    assert!(counts.runs[0].counts.iter().all(|count| count.value.estimate().is_some()));
    assert!(counts.events.iter().all(|event| event.trust.is_none()));
    assert_eq!(counts.validation, Some(Basis::Missing { reason: "nobody tried".to_owned() }));
}
