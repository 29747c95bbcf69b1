use machine::Bytes;
use machine::squeezing::KnownPattern;
use proptest::prelude::*;

use super::*;

const MB: f64 = 1e6;

/// Known programs of a machine with 20 MB and 40 GB/s.
fn known() -> Vec<KnownProgram> {
    let one = |pattern, size: f64, line_ns| KnownProgram {
        pattern,
        size: Bytes(size as u64),
        threads: 1,
        lines: 4,
        line_ns,
    };
    let mut all = vec![one(KnownPattern::Private, 0.1 * MB, 2.0)];
    for pattern in [KnownPattern::Chase, KnownPattern::Random] {
        all.extend((1..=20).map(|mb| one(pattern, f64::from(mb) * MB, 15.0)));
        all.push(one(pattern, 80.0 * MB, 80.0));
    }
    all.extend((1..=15).map(|rate| one(KnownPattern::Stream, 80.0 * MB, 64.0 / (2.0 * f64::from(rate)))));
    all
}

/// What one of them loses; sets and rates may lie between two.
fn loss(program: &KnownProgram, kind: SqueezeKind, left: f64) -> f64 {
    let size = program.size.0 as f64;
    match (program.pattern, kind) {
        (KnownPattern::Private, _) => 0.0,
        (KnownPattern::Stream, SqueezeKind::Storage) => 0.1 * (1.0 - left / (20.0 * MB)),
        (KnownPattern::Stream, SqueezeKind::Bandwidth) => {
            // Queues form before all is taken.
            let busy = program.bytes_per_s() / left;
            0.2 * busy.min(1.0).powi(4) + (busy - 1.0).max(0.0)
        }
        (_, SqueezeKind::Bandwidth) if size > 20.0 * MB => 0.5 * (40e9 / left - 1.0),
        (_, SqueezeKind::Bandwidth) => 0.0,
        (_, SqueezeKind::Storage) if size > 20.0 * MB => 0.0,
        (KnownPattern::Chase, SqueezeKind::Storage) => 4.0 * ((size - left) / (0.3 * size)).clamp(0.0, 1.0),
        (_, SqueezeKind::Storage) => 3.0 * ((size - left) / size).max(0.0),
    }
}

fn strengths() -> Vec<(SqueezeKind, f64)> {
    let storage = (1..=8).map(|step| (SqueezeKind::Storage, 20.0 * MB * (1.0 - f64::from(step) / 8.5)));
    let bandwidth = (1..=9).map(|step| (SqueezeKind::Bandwidth, 40e9 * (1.0 - f64::from(step) / 13.0)));
    storage.chain(bandwidth).collect()
}

/// A program of these, with shares.
fn squeezed(parts: &[(KnownProgram, f64)], noise: f64) -> Option<MixtureAnswer> {
    let known = known();
    let tables: Vec<Vec<f64>> = strengths()
        .iter()
        .map(|(kind, left)| known.iter().map(|one| 1.0 + loss(one, *kind, *left)).collect())
        .collect();
    let points: Vec<MixturePoint<'_>> = strengths()
        .into_iter()
        .zip(&tables)
        .enumerate()
        .map(|(index, ((kind, left), table))| {
            let lost: f64 = parts.iter().map(|(one, share)| share * loss(one, kind, left)).sum();
            let value = (1.0 + lost) * (1.0 + if index % 2 == 0 { noise } else { -noise });
            let slowdown =
                Estimate { value, low: value - 2.0 * noise, high: value + 2.0 * noise, samples: 9 };
            MixturePoint { kind, known: table, slowdown }
        })
        .collect();
    explain(&known, &points, Some(1))
}

fn program(pattern: KnownPattern, size: f64, rate: f64) -> KnownProgram {
    KnownProgram { pattern, size: Bytes(size as u64), threads: 1, lines: 4, line_ns: 64.0 / (rate / 1e9) }
}

#[test]
fn what_nothing_slows_needs_neither() {
    let answer = squeezed(&[], 0.0).expect("an explanation");
    let [cache, bandwidth] = [answer.cache, answer.bandwidth].map(|bounds| bounds.expect("bounds"));
    assert_eq!((cache.at_least, bandwidth.at_least), (None, None));
    // A tenth of its time in a set of 4 MB would have shown; in the smallest it would not.
    assert!(cache.at_most.is_some_and(|most| most < 4.0 * MB), "{cache:?}");
    assert!((0..17).all(|point| answer.verdict(point, 0.05) == HarmVerdict::Harmless));
}

#[test]
fn waiting_for_memory_is_no_stream() {
    // Bandwidth interference slows it, since memory answers later: that says nothing about how much it draws.
    let chase = program(KnownPattern::Chase, 80.0 * MB, 0.8e9);
    let answer = squeezed(&[(chase, 0.8)], 0.0).expect("an explanation");
    assert_eq!(answer.bandwidth.and_then(|bounds| bounds.at_least), None);
    assert!(
        answer.parts.iter().any(|part| part.overflows && (part.share - 0.8).abs() < 0.1),
        "{:?}",
        answer.parts
    );
}

#[test]
fn cache_interference_that_draws_bandwidth_is_not_blamed_on_the_cache() {
    let stream = program(KnownPattern::Stream, 80.0 * MB, 24e9);
    let answer = squeezed(&[(stream, 1.0)], 0.0).expect("an explanation");
    assert_eq!(answer.cache.and_then(|bounds| bounds.at_least), None);
    let bounds = answer.bandwidth.expect("bounds");
    assert!(
        bounds.at_least.is_some_and(|low| low > 18e9) && bounds.at_most.is_some_and(|high| high < 30e9),
        "{bounds:?}"
    );
    assert!((0..8).all(|point| answer.verdict(point, 0.05) == HarmVerdict::Harmless));
    assert_eq!(answer.verdict(16, 0.05), HarmVerdict::Harmful);
}

#[test]
fn a_set_and_a_stream_in_turn_are_told_apart() {
    let parts = [
        (program(KnownPattern::Chase, 9.0 * MB, 4e9), 0.4),
        (program(KnownPattern::Stream, 80.0 * MB, 22e9), 0.4),
    ];
    let answer = squeezed(&parts, 0.0).expect("an explanation");
    for (bounds, need, wide) in [(answer.cache, 9.0 * MB, 4.0 * MB), (answer.bandwidth, 22e9, 11e9)] {
        let bounds = bounds.expect("bounds");
        let (low, high) = (bounds.at_least.expect("a lower end"), bounds.at_most.expect("an upper end"));
        assert!(low < need && need < high && high - low <= wide, "{low} {need} {high}");
    }
    assert_eq!(
        (answer.verdict(7, 0.05), answer.verdict(16, 0.05)),
        (HarmVerdict::Harmful, HarmVerdict::Harmful)
    );
}

#[test]
fn a_set_that_a_stream_drives_out_has_no_upper_end() {
    // 18 MB, mostly met in memory as the stream comes in between: nothing tells it from what overflows.
    let parts = [
        (program(KnownPattern::Random, 80.0 * MB, 4e9), 0.35),
        (program(KnownPattern::Stream, 80.0 * MB, 24e9), 0.5),
    ];
    let answer = squeezed(&parts, 0.0).expect("an explanation");
    assert_eq!(answer.cache.and_then(|bounds| bounds.at_most), None, "{answer:?}");
    // Without the stream nothing drives a set out.
    let alone = squeezed(&parts[..1], 0.0).expect("an explanation");
    assert!(alone.cache.and_then(|bounds| bounds.at_most).is_some(), "{alone:?}");
}

#[test]
fn what_lives_in_a_core_s_own_cache_may_lose_more_than_the_one_that_was_tried() {
    // Its lines go with those of the shared cache at the two strongest, a third more of them than of the known one.
    let mut known = known();
    known.truncate(22);
    let storage: Vec<(SqueezeKind, f64)> = strengths().into_iter().take(8).collect();
    let private = |at: usize| if at < 6 { 0.0 } else { 0.6 };
    let tables: Vec<Vec<f64>> = storage
        .iter()
        .enumerate()
        .map(|(at, (kind, left))| {
            let others = known.iter().skip(1).map(|one| 1.0 + loss(one, *kind, *left));
            std::iter::once(1.0 + private(at)).chain(others).collect()
        })
        .collect();
    let points: Vec<MixturePoint<'_>> = tables
        .iter()
        .enumerate()
        .map(|(at, table)| {
            let value = 1.0 + 0.9 * private(at) * if at == 6 { 0.75 } else { 1.05 };
            let slowdown = Estimate { value, low: value, high: value, samples: 1 };
            MixturePoint { kind: SqueezeKind::Storage, known: table, slowdown }
        })
        .collect();
    let answer = explain(&known, &points, Some(1)).expect("an explanation");
    assert_eq!(answer.cache.and_then(|bounds| bounds.at_least), None, "{answer:?}");
}

#[test]
fn what_no_mixture_explains_is_left_alone() {
    // Faster the more is taken.
    let known = known();
    let table = vec![1.5; known.len()];
    let faster = Estimate { value: 0.5, low: 0.5, high: 0.5, samples: 1 };
    let points = [MixturePoint { kind: SqueezeKind::Storage, known: &table, slowdown: faster }; 4];
    assert_eq!(explain(&known, &points, None), None);
    assert_eq!(explain(&[], &points, None), None);
    let other = [MixturePoint { known: &table[1..], ..points[0] }];
    assert_eq!(explain(&known, &other, None), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn bounds_hold_what_was_mixed(
        set in 3.0f64..18.0,
        rate in 16.0f64..26.0,
        in_set in 0.2f64..0.6,
        in_stream in 0.2f64..0.4,
        chase in any::<bool>(),
    ) {
        let pattern = if chase { KnownPattern::Chase } else { KnownPattern::Random };
        let parts = [
            (program(pattern, set * MB, 4e9), in_set),
            (program(KnownPattern::Stream, 80.0 * MB, rate * 1e9), in_stream),
        ];
        let answer = squeezed(&parts, 0.001).expect("an explanation");
        for (bounds, need, whole) in [(answer.cache, set * MB, 20.0 * MB), (answer.bandwidth, rate * 1e9, 40e9)] {
            // Saying nothing is not wrong.
            let Some(bounds) = bounds else { continue };
            let (low, high) = (bounds.at_least.unwrap_or(0.0), bounds.at_most.unwrap_or(whole));
            prop_assert!((low..=high).contains(&need), "{low} {need} {high}");
        }
    }
}
