use machine::{
    CpuSet,
    profile::Estimate,
    squeezing::{Interference, SqueezeForm},
};
use record::{
    predict::BestMapping,
    squeeze::{SeriesMember, SqueezeCrash, SqueezeSeries, SqueezedRun},
};

use super::*;

fn point(kind: SqueezeKind, left: f64, slowdown: f64, verdict: HarmVerdict) -> SlowdownPoint {
    let interference = Interference {
        kind,
        form: SqueezeForm::Shared,
        threads: 5,
        bytes_each: Bytes::mib(2),
        pause: 0,
        left: None,
    };
    let around = |value: f64, by: f64| Estimate { value, low: value - by, high: value + by, samples: 7 };
    SlowdownPoint {
        interference,
        left: around(left, left / 20.0),
        slowdown: around(slowdown, 0.01),
        elsewhere: 0.0,
        verdict,
    }
}

/// A program that needs 4 to 8 of 20 MiB, on a machine whose bandwidth cannot be squeezed.
fn run() -> SqueezeRun {
    let mib = 1048576.0;
    let points = vec![
        point(SqueezeKind::Storage, 4.0 * mib, 1.25, HarmVerdict::Harmful),
        point(SqueezeKind::Storage, 12.0 * mib, 1.0, HarmVerdict::Harmless),
        point(SqueezeKind::Storage, 8.0 * mib, 1.01, HarmVerdict::Harmless),
    ];
    SqueezeRun {
        schema: record::squeeze::SCHEMA.to_owned(),
        program: "./app --size 3".to_owned(),
        simulated: None,
        seed: 1,
        timed_by: TimedBy::Wall,
        harm: 0.03,
        cpus: (0..3).collect::<CpuSet>(),
        spare: (3..8).collect(),
        processes: 2,
        budget_s: Some(300.0),
        spent_s: 12.0,
        ended: SqueezeEnd::Budget,
        storage: SqueezeCurve {
            kind: SqueezeKind::Storage,
            whole: Some(20.0 * mib),
            points,
            bounds: Some(UseBounds { at_least: Some(4.0 * mib), at_most: Some(8.0 * mib) }),
            refused: None,
        },
        bandwidth: SqueezeCurve {
            kind: SqueezeKind::Bandwidth,
            whole: None,
            points: Vec::new(),
            bounds: None,
            refused: Some("full strength took 4 % of the bandwidth".to_owned()),
        },
        class: ProgramClass::Undecided,
        evidence: Vec::new(),
        parts: Vec::new(),
        crashes: vec![SqueezeCrash { interference: None, ending: Ending::Signalled(11), reason: None }],
        runs: vec![SqueezedRun { interference: None, round: 0, ns: Some(1e9) }],
        remarks: Vec::new(),
    }
}

#[test]
fn bounds_crashes_and_refusals_are_said() {
    let text = anstream::adapter::strip_str(&text(&run(), 90)).to_string();
    assert!(text.contains("each process uses between 4 MiB and 8 MiB of 20 MiB"), "{text}");
    assert!(text.contains("full strength took 4 %"), "{text}");
    assert!(text.contains("a run alone was killed by signal 11"), "{text}");
    assert!(text.contains("the budget is spent"), "{text}");
    assert!(
        text.contains("For 21 unseen programs of known need"),
        "what bounds are worth is said with them: {text}"
    );
    // Most left first.
    let at = |what: &str| text.find(what).unwrap_or(usize::MAX);
    assert!(at("12 MiB") < at("1.010") && at("1.010") < at("1.250"), "{text}");
    assert!(text.lines().all(|line| crate::layout::prose::width(line) <= 90), "{text}");
}

#[test]
fn a_crash_names_the_strength_beside_which_it_was() {
    let mut run = run();
    let of = |run: &SqueezeRun, at: usize| run.storage.points[at].interference;
    let crash = |interference| SqueezeCrash {
        interference: Some(interference),
        ending: Ending::Signalled(11),
        reason: None,
    };
    // One strength that other runs survived, and one that none did.
    let unseen = Interference { pause: 7, ..of(&run, 1) };
    run.crashes = vec![crash(of(&run, 0)), crash(unseen)];
    let text = anstream::adapter::strip_str(&text(&run, 90)).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a run beside cache interference that leaves 4 MiB ("), "{text}");
    assert!(text.contains("pause 7) was killed by signal 11"), "{text}");
    let page = crate::html::squeeze(&run);
    assert!(page.contains("A run beside cache interference that leaves 4 MiB ("), "the page says the same");
}

#[test]
fn the_page_has_both_curves_and_no_script_from_the_program() {
    let mut run = run();
    run.program = "<script>alert(1)</script>".to_owned();
    let page = crate::html::squeeze(&run);
    assert!(!page.contains("<script>alert"), "names are text");
    assert!(page.contains("With less cache") && page.contains("full strength took 4 %"));
    assert!(page.contains("1.25× at 4 MiB"), "points say what they are");
}

#[test]
fn every_bound_has_its_sentence() {
    let said = |verdict: HarmVerdict, at_least, at_most| {
        let mut curve = run().storage;
        curve.points.iter_mut().for_each(|point| point.verdict = verdict);
        curve.bounds = Some(UseBounds { at_least, at_most });
        bounds_sentence(&curve, 1)
    };
    let harmful = said(HarmVerdict::Harmful, Some(4e6), None);
    assert!(harmful.is_some_and(|text| text.contains("weakest strength harms")));
    let harmless = said(HarmVerdict::Harmless, None, Some(4e6));
    assert!(harmless.is_some_and(|text| text.contains("no strength harms")));
    assert_eq!(said(HarmVerdict::Open, None, None), None);
    // A mixture gives one end alone for other reasons.
    for (verdict, at_least, at_most) in
        [(HarmVerdict::Harmless, Some(4e6), None), (HarmVerdict::Harmful, None, Some(4e6))]
    {
        let text = said(verdict, at_least, at_most).expect("a sentence");
        assert!(text.ends_with("of 20 MiB"), "{text}");
    }
}

#[test]
fn one_kind_alone_is_said_with_what_is_not_known() {
    for (class, says, word) in [
        (
            ProgramClass::LosesToBandwidth,
            "slower with less bandwidth (cache: not known)",
            "bandwidth (cache ?)",
        ),
        (ProgramClass::BandwidthHarmless, "insensitive to bandwidth", "not bandwidth"),
        (ProgramClass::LosesToCache, "slower with less cache (bandwidth: not known)", "cache (bandwidth ?)"),
        (ProgramClass::CacheHarmless, "insensitive to cache", "not cache"),
    ] {
        let run = SqueezeRun { class, ..run() };
        let text = anstream::adapter::strip_str(&text(&run, 110)).to_string();
        assert!(text.contains(says) && text.contains("not known"), "{text}");
        assert!(crate::html::squeeze(&run).contains(says), "the page says the same");
        assert_eq!(class_word(class), word);
    }
}

#[test]
fn runs_that_ended_alike_are_one_line() {
    let mut run = run();
    let interference = Some(Interference { pause: 9, ..run.storage.points[0].interference });
    let crash = SqueezeCrash { interference, ending: Ending::Exited(7), reason: None };
    run.crashes.extend([crash.clone(), crash.clone(), crash]);
    let text = anstream::adapter::strip_str(&text(&run, 200)).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.matches("exit code 7").count(), 1, "{text}");
    assert!(text.contains("3 runs beside cache interference"), "{text}");
    assert!(text.contains("none ended well, and no more were made"), "{text}");
    assert!(text.contains("a run alone was killed by signal 11; it is left out"), "{text}");
    run.runs.push(SqueezedRun { interference, round: 1, ns: Some(1e9) });
    let said = crashes(&run);
    assert!(said[1].ends_with("; they are left out"), "{said:?}");
}

#[test]
fn a_mixture_is_said_with_its_shares() {
    let mut run = run();
    let part = |pattern, size: u64, bytes_per_s: f64, share: f64, overflows| ProgramPart {
        pattern,
        size: Bytes::mib(size),
        bytes_per_s,
        share,
        overflows,
    };
    run.parts =
        vec![part(KnownPattern::Chase, 6, 4e9, 0.5, false), part(KnownPattern::Stream, 80, 21e9, 0.3, true)];
    let text = anstream::adapter::strip_str(&text(&run, 200)).to_string();
    assert!(
        text.contains("50 % a chase through 6 MiB, 30 % a stream of 21.0 GB/s, 20 % what nothing slows"),
        "{text}"
    );
    assert!(text.contains("mixture of known programs"), "{text}");
}

#[test]
fn a_series_has_a_line_for_each_value() {
    let members = [("1", Some(run())), ("2", None)];
    let told = SqueezeSeries {
        schema: record::squeeze::SERIES_SCHEMA.to_owned(),
        program: "./app".to_owned(),
        varied: "processes".to_owned(),
        members: members
            .into_iter()
            .map(|(value, run)| SeriesMember {
                value: value.to_owned(),
                alone_ns: run.as_ref().map(|_| 2e9),
                failed: run.is_none().then(|| "it was killed by signal 9".to_owned()),
                run,
            })
            .collect(),
        best: Some(BestMapping {
            per_socket: 1,
            cause: Some(SqueezeKind::Storage),
            why: "2 lose 30 %, for want of cache".to_owned(),
        }),
        remarks: Vec::new(),
    };
    let text = anstream::adapter::strip_str(&series(&told, 110)).to_string();
    assert!(text.contains("4 MiB to 8 MiB") && text.contains("25 %"), "{text}");
    assert!(text.contains("processes 2: it was killed by signal 9"), "{text}");
    assert!(text.contains("1 around each cache: 2 lose 30 %, for want of cache."), "{text}");
    assert!(text.contains("processes 1: no bandwidth interference: full strength took 4 %"), "{text}");
    let page = crate::html::squeeze_series(&told);
    assert!(page.contains("no bandwidth interference"));
    assert!(page.contains("With less cache") && page.contains("for want of cache"));
}
