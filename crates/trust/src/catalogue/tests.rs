use crate::{Flaw, Quantity};
use events::{Encoding, Unit};
use machine::profile::Fingerprint;

use super::*;

/// An event of a Haswell, or one made up: the letters of its name are its code.
pub fn signal(name: &str) -> Signal {
    let haswell = events::Catalogue::named("haswell-ep").unwrap();
    let context = names::Context { catalogue: Some(haswell), pmus: &[], libpfm: false };
    let made_up = || {
        let code = name.bytes().fold(0, |code, letter| code << 3 ^ u64::from(letter)) & 0xffff;
        let fields = vec![("event".to_owned(), code & 0xff), ("umask".to_owned(), code >> 8)];
        Signal::Encoded(Encoding { unit: Unit::Core, pmu: "cpu".to_owned(), fields })
    };
    names::parse(name, &context).map_or_else(|_| made_up(), |parsed| parsed.event.signal)
}

fn judged(name: &str, events: &[&str], trust: Trust, without_prefetch: Option<Trust>) -> Judged {
    Judged {
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        signals: events.iter().map(|event| signal(event)).collect(),
        without_prefetch: without_prefetch.map(Box::new),
        ..Judged::new(
            Indicator::event(name),
            Purpose::Volume(Quantity::L1In),
            "lines into the L1",
            "volume",
            trust,
        )
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

pub fn catalogue() -> TrustCatalogue {
    with(indicators())
}

fn indicators() -> Vec<Judged> {
    vec![
        judged("L1D.REPLACEMENT", &["L1D.REPLACEMENT"], trusted(0.01), None),
        judged("LOADS.MISS", &["LOADS.MISS"], broken(), Some(trusted(0.02))),
        judged("PENDING", &["PENDING"], broken(), None),
        judged("latency", &["PENDING", "LOADS.MISS"], qualitative(), None),
        judged("page-faults", &["page-faults"], trusted(0.0), None),
        // As files of before have it, without what was programmed.
        Judged::new(
            Indicator::WatchedWrites,
            Purpose::Software,
            "writes to a word",
            "software",
            trusted(0.0),
        ),
        Judged::new(
            Indicator::event("MEM_LOAD_UOPS_RETIRED.L2_HIT"),
            Purpose::Volume(Quantity::L2ServedRead),
            "lines the L2 serves to loads",
            "volume",
            broken(),
        ),
    ]
}

fn with(indicators: Vec<Judged>) -> TrustCatalogue {
    validated(indicators, Vec::new())
}

fn validated(indicators: Vec<Judged>, best: Vec<Best>) -> TrustCatalogue {
    let text = |text: &str| text.to_owned();
    let validation = Validation {
        schema: crate::SCHEMA.to_owned(),
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
        best,
        indicators,
        thresholds: Vec::new(),
        unseen: None,
        unseen_with_relief: None,
        sweeps: Vec::new(),
    };
    TrustCatalogue::of(validation, events::Catalogue::named("haswell-ep").ok())
}

/// By hand: 64 bytes a line, of all cores of the package; of links what is read, of the rest both directions.
#[test]
fn peaks_are_the_maximal_rates_of_all_cores() {
    let row = |level, remote, direction: &str, cores, lines_per_s, both_lines_per_s| Best {
        level,
        remote,
        direction: direction.to_owned(),
        cores,
        lines_per_s,
        both_lines_per_s,
        indicator: None,
        events_per_s: None,
        trust: None,
        paper: None,
        overlap: Vec::new(),
        alone: None,
    };
    let memory = KernelPlace::Memory;
    let catalogue = validated(
        Vec::new(),
        vec![
            row(KernelPlace::L2, false, "read", 1, 9e9, Some(9e9)),
            row(memory, false, "read", 1, 2e8, Some(3e8)),
            row(memory, false, "read", 4, 5e8, Some(6e8)),
            row(memory, false, "write", 4, 3e8, Some(6e8)),
            row(memory, true, "read", 4, 1e8, None),
            row(memory, true, "write", 4, 2e8, None),
        ],
    );
    let expected =
        [("memory_traffic_peak", 38.4e9), ("whole_memory_traffic_peak", 38.4e9), ("link_peak", 6.4e9)];
    assert_eq!(catalogue.peaks(), expected, "one core is not all of it");
    let old = validated(Vec::new(), vec![row(memory, false, "read", 4, 5e8, None)]);
    assert_eq!(old.peaks(), [], "a validation that did not say");
    assert_eq!(TrustCatalogue::missing("not validated").peaks(), []);
}

fn word(standing: Option<Standing>) -> Option<&'static str> {
    standing.map(|standing| standing.trust.word())
}

#[test]
fn an_event_is_found_under_every_name_that_means_it() {
    let catalogue = catalogue();
    for (name, trust) in [
        ("L1D.REPLACEMENT", "trusted"),
        ("l1d:replacement:u", "trusted"),
        ("r151", "trusted"),
        ("faults", "trusted"),
        ("page-faults:u", "trusted"),
        ("mem:0x1000/8:w", "trusted"),
        ("mem:0x1000/8:w:u", "trusted"),
        ("mem_load_uops_retired.l2_hit", "broken"),
        ("cpu/umask=2,event=0xd1,name=mine/", "broken"),
        ("r02d1", "broken"),
    ] {
        assert_eq!(word(catalogue.event(&signal(name))), Some(trust), "{name}");
    }
    for name in ["mem:0x1000/8:rw", "mem:0x1000", "cs", "r03d1", "cycles"] {
        assert_eq!(catalogue.event(&signal(name)), None, "{name}");
    }
}

#[test]
fn the_same_event_may_be_broken_as_a_volume_and_good_as_a_hint() {
    let as_stall = Judged {
        tried_for: Purpose::Stall,
        purpose: "bandwidth-bound cycles".to_owned(),
        ..judged("OTHER.NAME", &["OTHER.NAME"], qualitative(), None)
    };
    let one = Judged { signals: as_stall.signals.clone(), ..judged("VOLUME", &["VOLUME"], broken(), None) };
    let never = Judged { trust: Trust::Untested { missing: "no kernel for it".to_owned() }, ..one.clone() };
    let catalogue = with(vec![
        one.clone(),
        as_stall.clone(),
        Judged { name: Indicator::event("NEVER"), ..never.clone() },
    ]);
    let shared = &as_stall.signals[0];
    let standing = catalogue.event(shared).unwrap();
    assert_eq!((standing.purpose.as_str(), standing.trust.word()), ("bandwidth-bound cycles", "qualitative"));
    let metric = |name: &str, unit: &str| {
        word(catalogue.metric(&[Claimed { name, signal: shared, purpose: None }], unit))
    };
    for name in ["VOLUME", "OTHER.NAME", "volume", "r1"] {
        assert_eq!(metric(name, "B/s"), Some("broken"), "{name}");
        assert_eq!(metric(name, "% of cycles"), Some("qualitative"), "{name}");
    }
    // Two claims of the same event: a volume is what its name claims.
    let right =
        Judged { signals: as_stall.signals.clone(), ..judged("RIGHT", &["RIGHT"], trusted(0.1), None) };
    let catalogue = with(vec![one.clone(), right]);
    let metric = |name: &str| word(catalogue.metric(&[Claimed { name, signal: shared, purpose: None }], "B"));
    assert_eq!(
        [metric("VOLUME"), metric("RIGHT"), metric("r1")],
        [Some("broken"), Some("trusted"), Some("trusted")]
    );
    // Nobody tried it for something else: that does not make it better.
    let catalogue =
        with(vec![Judged { events: vec!["NEVER".into()], name: Indicator::event("NEVER"), ..never }, one]);
    assert_eq!(word(catalogue.event(shared)), Some("broken"));
}

#[test]
fn an_event_is_withheld_only_for_the_purpose_it_failed() {
    let no_memory_wait =
        Judged { tried_for: Purpose::Stall, ..judged("NO_EXECUTE", &["NO_EXECUTE"], broken(), None) };
    let stalled = Judged {
        tried_for: Purpose::NoExecution,
        purpose: "cycles in which nothing executes".to_owned(),
        ..judged("NO_EXECUTE", &["NO_EXECUTE"], trusted(0.02), None)
    };
    let catalogue = with(vec![no_memory_wait, stalled]);
    let signal = signal("NO_EXECUTE");
    let taken_for = |purpose| {
        let event = Claimed { name: "NO_EXECUTE", signal: &signal, purpose };
        word(catalogue.metric(&[event], "% of cycles"))
    };
    assert_eq!(taken_for(Some(Purpose::NoExecution)), Some("trusted"));
    assert_eq!(taken_for(Some(Purpose::Stall)), Some("broken"));
    assert_eq!(taken_for(Some(Purpose::Latency)), None, "nobody tried it for that");
    assert_eq!(word(catalogue.event(&signal)), Some("trusted"));
}

#[test]
fn a_metric_is_as_good_as_its_weakest_event_unless_it_was_judged_as_a_whole() {
    let catalogue = catalogue();
    let metric = |events: &[&str], unit: &str| {
        let signals: Vec<Signal> = events.iter().map(|event| signal(event)).collect();
        let events: Vec<Claimed<'_>> = events
            .iter()
            .zip(&signals)
            .map(|(name, signal)| Claimed { name, signal, purpose: None })
            .collect();
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
