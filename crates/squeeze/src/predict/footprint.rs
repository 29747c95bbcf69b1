//! What programs that share a cache leave each other of it, and of bandwidth, from the known programs they behave like.
//!
//! A cache that drops the line unused for longest holds what was touched within some time, the same for all who share it
//! (Che's approximation). What each touches within that time is its part.

use machine::squeezing::KnownPattern;
use record::squeeze::ProgramPart;

/// Halvings of the time within which lines are held, and the longest: then nothing is ever dropped.
const STEPS: usize = 60;
const LONGEST_S: f64 = 3600.0;

/// Bytes that one part touches within so many seconds.
fn touched(part: &ProgramPart, seconds: f64) -> f64 {
    let rate = part.bytes_per_s * part.share;
    let size = part.size.0 as f64;
    match (part.pattern, part.overflows) {
        (KnownPattern::Private, _) => 0.0,
        (_, true) | (KnownPattern::Stream, _) => rate * seconds,
        (KnownPattern::Chase, false) => size.min(rate * seconds),
        (KnownPattern::Random, false) => size * (1.0 - (-rate * seconds / size.max(1.0)).exp()),
    }
}

/// Bytes that a program touches within so many seconds, each part so many times more slowly than alone.
pub(super) fn touched_by(parts: &[ProgramPart], slower: &[f64], seconds: f64) -> f64 {
    parts.iter().zip(slower).map(|(part, slower)| touched(part, seconds / slower)).sum()
}

/// Seconds within which a cache of `whole` bytes holds what is touched: those in which all together touch as much.
pub(super) fn window(touched: &dyn Fn(f64) -> f64, whole: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, LONGEST_S);
    if touched(high) <= whole {
        return high;
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if touched(middle) > whole { high = middle } else { low = middle }
    }
    low
}

/// Share of its time that a program loses by its streams alone where so much bandwidth is left: each takes as much longer as
/// it wants more than there is.
pub(super) fn lost_by_rate(parts: &[ProgramPart], left: f64) -> f64 {
    let streams = parts.iter().filter(|part| part.pattern == KnownPattern::Stream);
    streams.map(|part| part.share * (part.bytes_per_s / left - 1.0).max(0.0)).sum()
}

/// The same beside other programs that go to memory some of their time: two that want more than there is together share it in
/// proportion to what they want.
pub(super) fn lost_beside(own: &[ProgramPart], others: &[(&[ProgramPart], usize)], whole: f64) -> f64 {
    let streams = own.iter().filter(|part| part.pattern == KnownPattern::Stream);
    streams
        .map(|part| {
            let states = states(others);
            let lost = states
                .iter()
                .map(|(share, drawn)| share * ((part.bytes_per_s + drawn) / whole - 1.0).max(0.0));
            part.share * lost.sum::<f64>()
        })
        .sum()
}

/// Bytes per second that others draw, with the share of time in which they do: every part of one with the mean of the rest.
fn states(others: &[(&[ProgramPart], usize)]) -> Vec<(f64, f64)> {
    let draws = |part: &&ProgramPart| part.overflows;
    let mean = |parts: &[ProgramPart]| {
        parts.iter().filter(draws).map(|part| part.share * part.bytes_per_s).sum::<f64>()
    };
    let [(one, many)] = others else {
        return vec![(1.0, others.iter().map(|(parts, many)| *many as f64 * mean(parts)).sum())];
    };
    if *many == 0 {
        return vec![(1.0, 0.0)];
    }
    let rest = (many - 1) as f64 * mean(one);
    let mut states: Vec<(f64, f64)> =
        one.iter().filter(draws).map(|part| (part.share, part.bytes_per_s + rest)).collect();
    let idle = 1.0 - states.iter().map(|(share, _)| share).sum::<f64>();
    if idle > 0.0 {
        states.push((idle, rest));
    }
    states
}

/// What others draw on the mean.
pub(super) fn drawn_by(others: &[(&[ProgramPart], usize)]) -> f64 {
    states(others).iter().map(|(share, drawn)| share * drawn).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Bytes;

    const MB: f64 = 1e6;

    fn part(pattern: KnownPattern, size: f64, rate: f64, share: f64) -> ProgramPart {
        let overflows = pattern == KnownPattern::Stream;
        ProgramPart { pattern, size: Bytes(size as u64), bytes_per_s: rate, share, overflows }
    }

    #[test]
    fn a_cache_holds_what_is_touched_within_a_window() {
        let chase = [part(KnownPattern::Chase, 10.0 * MB, 4e9, 1.0)];
        let stream = [part(KnownPattern::Stream, 80.0 * MB, 20e9, 1.0)];
        let both = |seconds: f64| touched_by(&chase, &[1.0], seconds) + touched_by(&stream, &[1.0], seconds);
        let held = window(&both, 20.0 * MB);
        assert!((touched_by(&chase, &[1.0], held) / MB - 20.0 * 4.0 / 24.0).abs() < 0.01, "{held}");
        // One that is driven out goes on more slowly, and touches less within the same time.
        assert!(touched_by(&chase, &[4.0], held) < 0.3 * touched_by(&chase, &[1.0], held));
        let alone = |seconds: f64| touched_by(&chase, &[1.0], seconds);
        assert_eq!(window(&alone, 20.0 * MB), LONGEST_S, "nothing is ever dropped");
    }

    #[test]
    fn streams_share_what_there_is() {
        let stream = [part(KnownPattern::Stream, 80.0 * MB, 30e9, 0.5)];
        assert!((lost_by_rate(&stream, 20e9) - 0.25).abs() < 1e-9);
        assert_eq!(lost_by_rate(&stream, 40e9), 0.0);
        let other = [part(KnownPattern::Stream, 80.0 * MB, 30e9, 1.0)];
        assert!((lost_beside(&stream, &[(&other, 1)], 40e9) - 0.25).abs() < 1e-9);
        // One that streams half of its time is met half of the time.
        assert!((lost_beside(&stream, &[(&stream, 1)], 40e9) - 0.125).abs() < 1e-9);
        assert_eq!(lost_beside(&stream, &[], 40e9), 0.0);
        assert_eq!(lost_beside(&other, &[(&other, 0)], 40e9), 0.0, "alone on its socket");
        assert!((drawn_by(&[(&stream, 1)]) - 15e9).abs() < 1.0);
    }
}
