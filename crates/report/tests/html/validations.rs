//! A hand-made validation.

use machine::{Bytes, profile::Fingerprint};
use trust::{
    AccessClass, Best, Evidence, Flaw, Indicator, Judged, KernelPlace, LevelOverlap, OutOfSample, Purpose,
    Quantity, Ranked, SCHEMA, Sweep, Threshold, Trust, UnseenCase, Validation, ValidationStep,
};

fn judged(name: &str, tried_for: Purpose, purpose: &str, trust: Trust) -> Judged {
    Judged {
        sees: vec![trust::SeenStores { prefetch: true, remote: false, owned: 1.0, out: 0.0 }],
        evidence: vec![Evidence {
            experiment: "load in L2 (128 KiB)".to_owned(),
            truth: Some(4096.0),
            error: None,
            counted: Some(4101.0),
            note: "1.00 counted per true one".to_owned(),
        }],
        ..Judged::new(Indicator::event(name), tried_for, purpose, "volume", trust)
    }
}

/// Events per access of an indicator that counts `each` from `from` bytes on.
fn sweep(kernel: &str, indicator: &str, from: u64, each: f64) -> Sweep {
    let sizes = (14..28).map(|power| 1_u64 << power);
    let points = sizes.map(|size| (Bytes(size), if size > from { each } else { 0.0 }));
    Sweep { kernel: kernel.to_owned(), indicator: indicator.to_owned(), points: points.collect() }
}

fn broken() -> Trust {
    Trust::Broken {
        flaw: Flaw::Prefetch { on: 0.05, off: 1.0 },
        why: "counts 0.05 of the truth with prefetchers on".to_owned(),
        shown_by: "load in L2 (128 KiB)".to_owned(),
    }
}

/// Of random kernels: loads are right, stores are not.
pub fn unseen() -> OutOfSample {
    let case = |seed: u64, class: AccessClass, found: f64| UnseenCase {
        rules: "a".to_owned(),
        run: seed % 2,
        seed,
        classes: vec![class],
        level: KernelPlace::L3,
        footprint: Bytes::mib(3),
        truths: [0.5, 0.5],
        turn_ns: None,
        found: Some([found, found - 0.1, found + 0.1]),
        decided: true,
        sure: true,
        waits_at: None,
        samples: 500,
        with_relief: false,
    };
    let loads = (0..20).map(|seed| case(seed, AccessClass::Loads, 0.53));
    let stores = (20..26).map(|seed| case(seed, AccessClass::Stores, 0.08));
    let cases: Vec<UnseenCase> = loads.chain(stores).collect();
    OutOfSample::of(&cases, "a").unwrap()
}

/// Of a machine with counters. Text that a page must not take for markup is in it.
pub fn haswell() -> Validation {
    let text = |text: &str| text.to_owned();
    let rough = Trust::Qualitative { tells: text("that <b>requests</b> wait"), misses: text("how long") };
    Validation {
        schema: SCHEMA.to_owned(),
        fingerprint: Fingerprint {
            id: text("sim-1"),
            cpu: text("Xeon E5-2680 v3"),
            microcode: text("1"),
            topology: text("2 sockets"),
            kernel: text("none"),
            hypervisor: text("none"),
        },
        simulated: Some(text("haswell-ep-e5-2680v3")),
        instrument: text("simulated haswell-ep-e5-2680v3"),
        measured_at: 0,
        memwall: text("0.1.0"),
        quick: false,
        runs: 10,
        complete: true,
        steps: vec![
            ValidationStep { name: text("volume"), done: true, experiments: 42, missing: None },
            ValidationStep {
                name: text("latency"),
                done: true,
                experiments: 0,
                missing: Some(text("left out: quick")),
            },
        ],
        best: vec![Best {
            level: KernelPlace::L2,
            remote: false,
            direction: text("read"),
            cores: 1,
            lines_per_s: 1.5e9,
            both_lines_per_s: Some(2e9),
            indicator: Some(text("L1D.REPLACEMENT")),
            events_per_s: Some(1.5e9),
            trust: Some(Trust::Trusted { error: 0.004 }),
            paper: Some(Ranked {
                indicator: text("L2_TRANS.DEMAND_DATA_RD"),
                trust: broken(),
                events_per_s: None,
            }),
            overlap: vec![LevelOverlap { level: KernelPlace::L3, remote: false, per_line: 1.0 }],
            alone: Some(Ranked {
                indicator: text("L1D.REPLACEMENT - L2_LINES_IN.ALL"),
                trust: Trust::Trusted { error: 0.006 },
                events_per_s: None,
            }),
        }],
        indicators: vec![
            judged(
                "L1D.REPLACEMENT",
                Purpose::Volume(Quantity::L1In),
                "lines into the L1",
                Trust::Trusted { error: 0.004 },
            ),
            judged(
                "L2_TRANS.ALL",
                Purpose::Volume(Quantity::L1In),
                "lines into the L1",
                Trust::Trusted { error: 0.004 },
            ),
            judged(
                "MEM_LOAD_UOPS_RETIRED.L2_HIT",
                Purpose::Volume(Quantity::L2ServedRead),
                "lines the L2 serves to loads",
                broken(),
            ),
            judged(
                "L2_LINES_IN.ALL",
                Purpose::Volume(Quantity::L2In),
                "lines into the L2",
                Trust::Trusted { error: 0.02 },
            ),
            judged("NEVER.COUNTS", Purpose::Volume(Quantity::L2In), "lines into the L2", broken()),
            judged("RESOURCE_STALLS.SB", Purpose::Stall, "bandwidth-bound cycles", rough),
        ],
        thresholds: vec![Threshold {
            indicator: Indicator::LoadMissRealLatency,
            value: 312.5,
            unit: text("cycles"),
            means: text("memory is saturated"),
            how: text("readers at every pace on one core to all: 0 of 12 experiments on the wrong side"),
        }],
        unseen: None,
        unseen_with_relief: None,
        sweeps: vec![
            sweep("load", "L1D.REPLACEMENT", 32 << 10, 0.5),
            sweep("load", "L2_TRANS.ALL", 32 << 10, 0.5),
            sweep("load", "MEM_LOAD_UOPS_RETIRED.L2_HIT", 32 << 10, 0.02),
            sweep("load", "L2_LINES_IN.ALL", 256 << 10, 0.5),
            sweep("load", "NEVER.COUNTS", u64::MAX, 0.5),
        ],
    }
}
