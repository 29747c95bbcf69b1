//! What programs that share a cache leave each other of it, and of bandwidth, from the known programs they behave like.
//!
//! A cache that drops the line unused for longest holds what was touched within some time, the same for all who share it
//! (Che's approximation). What each touches within that time is its part.

use machine::squeezing::KnownPattern;
use record::squeeze::ProgramPart;

/// Halvings of the time within which lines are held.
const STEPS: usize = 60;

/// Bytes that one part touches within so many seconds. Sets are taken to be so many times as large.
fn touched(part: &ProgramPart, seconds: f64, times: f64) -> f64 {
    let rate = part.bytes_per_s * part.share;
    let size = part.size.0 as f64 * times;
    match (part.pattern, part.overflows) {
        (KnownPattern::Private, _) => 0.0,
        (_, true) | (KnownPattern::Stream, _) => rate * seconds,
        (KnownPattern::Chase, false) => size.min(rate * seconds),
        (KnownPattern::Random, false) => size * (1.0 - (-rate * seconds / size.max(1.0)).exp()),
    }
}

fn touched_by_all(parts: &[ProgramPart], seconds: f64, times: f64) -> f64 {
    parts.iter().map(|part| touched(part, seconds, times)).sum()
}

/// Bytes of a cache of `whole` bytes that are left to one program beside others, each so many times. `times`: how much larger
/// the sets of the others are than in their parts.
pub(super) fn room(own: &[ProgramPart], others: &[(&[ProgramPart], usize)], whole: f64, times: f64) -> f64 {
    let theirs = |seconds: f64| {
        others.iter().map(|(parts, many)| *many as f64 * touched_by_all(parts, seconds, times)).sum::<f64>()
    };
    let (mut low, mut high) = (0.0f64, 3600.0f64);
    if touched_by_all(own, high, 1.0) + theirs(high) <= whole {
        return whole - theirs(high);
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if touched_by_all(own, middle, 1.0) + theirs(middle) > whole { high = middle } else { low = middle }
    }
    (whole - theirs(low)).max(0.0)
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
    fn sets_that_fit_together_leave_the_rest() {
        let chase = [part(KnownPattern::Chase, 6.0 * MB, 4e9, 1.0)];
        let left = room(&chase, &[(&chase, 2)], 20.0 * MB, 1.0);
        assert!((left / MB - 8.0).abs() < 0.01, "{left}");
        // Four want 24 of 20: each gets as much.
        let left = room(&chase, &[(&chase, 3)], 20.0 * MB, 1.0);
        assert!((left / MB - 5.0).abs() < 0.01, "{left}");
        assert_eq!(room(&chase, &[], 20.0 * MB, 1.0), 20.0 * MB);
    }

    #[test]
    fn a_stream_drives_out_what_is_touched_more_slowly() {
        let chase = [part(KnownPattern::Chase, 10.0 * MB, 4e9, 1.0)];
        let stream = [part(KnownPattern::Stream, 80.0 * MB, 20e9, 1.0)];
        let left = room(&chase, &[(&stream, 1)], 20.0 * MB, 1.0);
        assert!((left / MB - 20.0 * 4.0 / 24.0).abs() < 0.01, "{left}");
        let slow = [part(KnownPattern::Stream, 80.0 * MB, 1e9, 1.0)];
        assert!(room(&chase, &[(&slow, 1)], 20.0 * MB, 1.0) > 10.0 * MB);
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
