//! Counts of a made-up program in intervals: wholes and parts, references, levels, metrics over time.

use events::{Count, CountedPlace, Missing, Signal, Value};
use record::count::{
    BarPart, CountedBar, CountedConstant, CountedEvent, CountedInterval, CountedMetric, CountedRegion,
    CountedRun, Counts, GroupMetrics, MeasuredBy, MetricLevel, PackageMetrics,
};
use trust::{Basis, Standing, Trust};

const INTERVALS: u64 = 40;

fn metric(name: &str, unit: &str, series: impl Fn(u64) -> Option<f64>) -> CountedMetric {
    let series: Vec<Option<f64>> = (0..INTERVALS).map(series).collect();
    let known: Vec<f64> = series.iter().flatten().copied().collect();
    let values =
        if known.is_empty() { Vec::new() } else { vec![known.iter().sum::<f64>() / known.len() as f64] };
    CountedMetric { name: name.to_owned(), unit: unit.to_owned(), values, series, ..CountedMetric::default() }
}

fn bar(title: &str, parts: &[(&str, f64)]) -> CountedBar {
    let part =
        |(name, value): &(&str, f64)| BarPart { name: (*name).to_owned(), value: *value, measured: None };
    CountedBar {
        title: title.to_owned(),
        of: None,
        whole: Some(1e9),
        unit: "cycles".to_owned(),
        parts: parts.iter().map(part).collect(),
        missing: Vec::new(),
    }
}

/// A program that streams in its second half; in one interval nothing was counted.
pub fn streaming() -> Counts {
    let late = |index: u64| index >= INTERVALS / 2;
    let busy =
        |low: f64, high: f64| move |index: u64| (index != 7).then_some(if late(index) { high } else { low });
    let peak = "% of the measured peak";
    let level = MetricLevel {
        level: 1,
        medium: 1.0,
        high: 2.0,
        means: "waits about half of the time".to_owned(),
        source: "kruse2011 ch. 4".to_owned(),
    };
    let unknown = CountedMetric {
        missing: vec!["no peak was measured; 'memwall calibrate' measures it".to_owned()],
        ..metric("link utilisation", peak, |_| None)
    };
    let metrics = vec![
        CountedMetric { level: Some(level), ..metric("CPI", "1", busy(0.6, 2.4)) },
        metric("L2 utilisation", peak, busy(12.0, 35.0)),
        metric("L2 bandwidth", "B/s", busy(9e9, 3e10)),
        metric("L3 utilisation", peak, busy(4.0, 48.0)),
        metric("memory utilisation", peak, busy(2.0, 88.0)),
        metric("memory bandwidth", "B/s", busy(1e9, 4.1e10)),
        unknown,
        metric("load-miss real latency", "cycles", busy(48.0, 260.0)),
    ];
    let bars = vec![
        bar("Cycles at issue", &[("issuing", 4e8), ("not issuing", 6e8)]),
        bar("Stalled cycles", &[("L3 misses", 5e8), ("L2 hits", 1.2e8), ("store forwarding", 4e7)]),
    ];
    let interval = |number: u64| CountedInterval { end_ns: (number + 1) * 100_000_000, counts: Vec::new() };
    Counts {
        instrument: "perf_event".to_owned(),
        target: "./stream --late".to_owned(),
        runs: vec![CountedRun {
            elapsed_ns: INTERVALS * 100_000_000,
            ending: None,
            usage: None,
            counts: Vec::new(),
            intervals: (0..INTERVALS).map(interval).collect(),
        }],
        metrics: vec![GroupMetrics { group: "MADE_UP".to_owned(), metrics, bars, ..GroupMetrics::default() }],
        ..Counts::default()
    }
}

/// An event, on two CPUs or at all places together.
fn event(name: &str) -> CountedEvent {
    CountedEvent {
        name: name.to_owned(),
        signal: Signal::Software(3),
        scale: Some("64B".to_owned()),
        errata: vec!["HSD29".to_owned()],
        trust: Some(standing(Trust::Trusted { error: 0.01 })),
    }
}

fn standing(trust: Trust) -> Standing {
    let (indicator, purpose) = (trust::Indicator::event("x"), "lines into the L1".to_owned());
    Standing { indicator, purpose, trust }
}

fn count(event: usize, place: CountedPlace, raw: u64) -> Count {
    Count { event, place, value: Value::Counted { raw, enabled_ns: 10, running_ns: 5 } }
}

/// Events alone: one on two CPUs, one that was refused.
pub fn events_alone() -> Counts {
    let refused = Value::Missing(Missing::Failed("the counter is taken".to_owned()));
    let run = CountedRun {
        elapsed_ns: 5_000_000,
        ending: None,
        usage: None,
        counts: vec![
            count(0, CountedPlace::Cpu(0), 1_000),
            count(0, CountedPlace::Cpu(1), 3_000),
            Count { event: 1, place: CountedPlace::Target, value: refused },
        ],
        intervals: Vec::new(),
    };
    Counts {
        instrument: "perf_event".to_owned(),
        target: "./events".to_owned(),
        events: vec![event("lines"), event("cycles")],
        runs: vec![run],
        ..Counts::default()
    }
}

/// A group with all it can have: constants, two sockets, two regions, trust.
pub fn apart() -> Counts {
    let broken = Trust::Qualitative { tells: "more".to_owned(), misses: "how much".to_owned() };
    let volume = |value: f64| CountedMetric {
        name: "memory volume".to_owned(),
        unit: "B".to_owned(),
        values: vec![value],
        trust: Some(standing(broken.clone())),
        ..CountedMetric::default()
    };
    let group = |value: f64| GroupMetrics {
        group: "MEM".to_owned(),
        metrics: vec![volume(value)],
        ..GroupMetrics::default()
    };
    let package = |package, value| PackageMetrics { package, values: vec![Some(value)] };
    let constant = CountedConstant {
        name: "miss_cycles".to_owned(),
        value: Some(200.0),
        source: "kruse2011 §6.1".to_owned(),
        measured: Some(251.0),
        measured_by: Some(MeasuredBy::Calibrate),
    };
    let region = |path: &str, value: f64| CountedRegion {
        path: path.to_owned(),
        elapsed_ns: 2_000_000,
        counts: vec![count(0, CountedPlace::Target, 500)],
        metrics: vec![group(value)],
        lower_clock: None,
        remarks: vec!["its threads overlap".to_owned()],
    };
    let whole = GroupMetrics {
        constants: vec![constant],
        packages: vec![package(0, 6e9), package(1, 2e9)],
        ..group(8e9)
    };
    let basis = Basis::Missing { reason: "nobody tried".to_owned() };
    Counts {
        metrics: vec![whole],
        regions: vec![region("solve", 7e9), region("write", 1e9)],
        validation: Some(basis),
        ..events_alone()
    }
}
