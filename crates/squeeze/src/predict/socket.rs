//! Programs that share a socket, as mixtures of known programs on a machine that is known: which lines each finds in the cache,
//! what that costs, and what all of them draw from memory together.
//!
//! A cache that drops the line unused for longest holds what was touched within some time, the same for all who share it (Che's
//! approximation). A set that is driven out is gone over more slowly, and is driven out the more for it: what is found when all
//! begin with nothing in the cache is the answer, and where beginning with everything gives another one, both are.

use machine::squeezing::{KnownPattern, KnownProgram, SqueezeKind, SqueezeProfile};
use record::squeeze::ProgramPart;

use super::footprint;
use crate::slowdown::loss_at;

/// Rounds after which what is missed and how fast sets are gone over agree.
const SETTLING: usize = 60;
/// A set that is gone over in turn is wholly missed where this many times the cache is touched before it is met again: sets of
/// the cache fill unevenly.
const ALL_MISSED: f64 = 1.25;

/// What a program loses beside others, as shares of its time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SocketLoss {
    /// By lines that are not found.
    pub cache: f64,
    /// By waiting for memory that others use.
    pub bandwidth: f64,
}

/// A machine as its known programs tell it.
pub(super) struct KnownMachine<'a> {
    profile: &'a SqueezeProfile,
    /// The cache, bytes.
    cache: f64,
}

/// A program on the socket, and how many of it.
pub(super) type Sharer<'a> = (&'a [ProgramPart], usize);

/// Bytes that all but one of sharer `who` touch within so many seconds.
fn touched_by_others(sharers: &[Sharer<'_>], slower: &[Vec<f64>], who: usize, seconds: f64) -> f64 {
    let of = |(index, ((parts, many), slower)): (usize, (&Sharer<'_>, &Vec<f64>))| {
        let others = *many as f64 - if index == who { 1.0 } else { 0.0 };
        others * footprint::touched_by(parts, slower, seconds)
    };
    sharers.iter().zip(slower).enumerate().map(of).sum()
}

fn is_set(part: &ProgramPart) -> bool {
    !part.overflows && matches!(part.pattern, KnownPattern::Chase | KnownPattern::Random)
}

impl<'a> KnownMachine<'a> {
    /// `None` where no known program was tried.
    pub fn of(profile: &'a SqueezeProfile) -> Option<Self> {
        let cache = profile.whole(SqueezeKind::Storage)?;
        (!profile.known.is_empty()).then_some(Self { profile, cache })
    }

    /// Known programs of a pattern on one CPU, smallest first, with their places.
    fn of_pattern(&self, pattern: KnownPattern) -> Vec<(usize, &'a KnownProgram)> {
        let all = self.profile.known.iter().enumerate();
        let mut those: Vec<_> = all.filter(|(_, one)| one.pattern == pattern).collect();
        those.sort_by_key(|(_, one)| one.size);
        those
    }

    /// Nanoseconds of a line where so much data is gone over alone.
    fn line_ns(&self, pattern: KnownPattern, bytes: f64) -> Option<f64> {
        let those = self.of_pattern(pattern);
        let first = those.first()?.1;
        let largest = those.len().checked_sub(2).map(|index| those[index].1)?;
        // Beyond the largest set that was tried only the overflowing one is known; sharing says the rest.
        let bytes = bytes.clamp(first.size.0 as f64, largest.size.0 as f64);
        let above = those.iter().position(|(_, one)| one.size.0 as f64 >= bytes)?;
        let (a, b) = (those[above.saturating_sub(1)].1, those[above].1);
        let (from, to) = (a.size.0 as f64, b.size.0 as f64);
        let part = if to > from { (bytes - from) / (to - from) } else { 0.0 };
        Some(a.line_ns + (b.line_ns - a.line_ns) * part)
    }

    /// Nanoseconds of a line that memory serves.
    fn miss_ns(&self, pattern: KnownPattern) -> Option<f64> {
        self.of_pattern(pattern).last().map(|(_, one)| one.line_ns)
    }

    /// How much longer memory takes to serve such a program where so much bandwidth is left.
    fn waiting(&self, pattern: KnownPattern, left: f64) -> f64 {
        let Some((index, _)) = self.of_pattern(pattern).last().copied() else { return 1.0 };
        let points = self.profile.points(SqueezeKind::Bandwidth).iter().filter_map(|point| {
            Some((point.left(SqueezeKind::Bandwidth)?.value, point.known.get(index)? - 1.0))
        });
        1.0 + loss_at(points, self.profile.bandwidth, left).max(0.0)
    }

    /// Share of the lines of a set that are not found, where `touched` tells how much all touch within some time.
    fn missed(&self, part: &ProgramPart, slower: f64, touched: &dyn Fn(f64) -> f64) -> Option<f64> {
        let (hit, miss) = (self.line_ns(part.pattern, part.size.0 as f64)?, self.miss_ns(part.pattern)?);
        let (rate, size) = (part.bytes_per_s / slower, part.size.0 as f64);
        // The time within which a set is met again, and what all touch meanwhile: so much alone would already cost something.
        let together = touched(size / rate);
        let crowded = |bytes: f64| {
            let line_ns = self.line_ns(part.pattern, bytes).unwrap_or(hit);
            if miss > hit { ((line_ns - hit) / (miss - hit)).clamp(0.0, 1.0) } else { 0.0 }
        };
        Some(match part.pattern {
            KnownPattern::Chase => {
                let at_cache = crowded(self.cache);
                let over = ((together / self.cache - 1.0) / (ALL_MISSED - 1.0)).clamp(0.0, 1.0);
                if together <= self.cache { crowded(together) } else { at_cache + (1.0 - at_cache) * over }
            }
            _ => {
                let window = footprint::window(touched, self.cache);
                let found = 1.0 - (-rate * window / size.max(1.0)).exp();
                1.0 - found * (1.0 - crowded(touched(window).min(self.cache)))
            }
        })
    }

    /// What `own` loses beside others. `warm`: all begin with everything in the cache.
    pub fn loss(&self, own: &[ProgramPart], others: &[Sharer<'_>], warm: bool) -> Option<SocketLoss> {
        let sharers: Vec<Sharer<'_>> =
            std::iter::once((own, 1)).chain(others.iter().copied().filter(|(_, many)| *many > 0)).collect();
        let alone = |pattern| Some(self.miss_ns(pattern)? / self.line_ns(pattern, 0.0)?);
        let begin = |part: &ProgramPart| match (warm, is_set(part)) {
            (false, true) => alone(part.pattern).unwrap_or(1.0).max(1.0),
            _ => 1.0,
        };
        let mut slower: Vec<Vec<f64>> =
            sharers.iter().map(|(parts, _)| parts.iter().map(begin).collect()).collect();
        let mut missed: Vec<Vec<f64>> = slower.iter().map(|parts| vec![0.0; parts.len()]).collect();
        for _ in 0..SETTLING {
            let mut next = slower.clone();
            for (who, (parts, _)) in sharers.iter().enumerate() {
                // What the others draw, and what this one's neighbours of the same kind do.
                let left = (self.profile.bandwidth - self.drawn(&sharers, &missed, &slower, who)).max(1.0);
                for (index, part) in parts.iter().enumerate().filter(|(_, part)| is_set(part)) {
                    // Its other parts come in turn: what they drive out is missed alone already.
                    let own = ProgramPart { share: 1.0, ..*part };
                    let touched = |seconds: f64| {
                        footprint::touched_by(&[own], &[slower[who][index]], seconds)
                            + touched_by_others(&sharers, &slower, who, seconds)
                    };
                    let miss = self.missed(&own, slower[who][index], &touched)?;
                    let hit_ns = self.line_ns(part.pattern, part.size.0 as f64)?;
                    let miss_ns = self.miss_ns(part.pattern)? * self.waiting(part.pattern, left);
                    missed[who][index] = miss;
                    let found = 1.0 + miss * (miss_ns / hit_ns - 1.0).max(0.0);
                    // Half way only, so that two who drive each other out do not take turns.
                    next[who][index] = (slower[who][index] + found) / 2.0;
                }
            }
            slower = next;
        }
        let left = (self.profile.bandwidth - self.drawn(&sharers, &missed, &slower, 0)).max(1.0);
        let in_sets = own.iter().zip(&slower[0]).filter(|(part, _)| is_set(part));
        let overflowing = own.iter().filter(|part| part.overflows && part.pattern != KnownPattern::Stream);
        Some(SocketLoss {
            cache: in_sets.map(|(part, slower)| part.share * (slower - 1.0)).sum(),
            bandwidth: overflowing.map(|part| part.share * (self.waiting(part.pattern, left) - 1.0)).sum(),
        })
    }

    /// Bytes per second that all but one of sharer `who` draw.
    fn drawn(&self, sharers: &[Sharer<'_>], missed: &[Vec<f64>], slower: &[Vec<f64>], who: usize) -> f64 {
        let of = |index: usize| -> f64 {
            let parts = sharers[index].0.iter().zip(&missed[index]).zip(&slower[index]);
            parts
                .map(|((part, missed), slower)| {
                    let share = if part.overflows { 1.0 } else { *missed };
                    share * part.share * part.bytes_per_s / slower
                })
                .sum()
        };
        let many = |index: usize| sharers[index].1 as f64 - if index == who { 1.0 } else { 0.0 };
        (0..sharers.len()).map(|index| many(index) * of(index)).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use machine::{Bytes, profile::Estimate, squeezing::SqueezePoint};

    const MB: f64 = 1e6;

    /// 20 MB and 40 GB/s; a hit takes 10 ns, a miss 60, or 40 of which ten are under way at once.
    pub(in super::super) fn profile() -> SqueezeProfile {
        let one = |pattern, size: f64, line_ns| KnownProgram {
            pattern,
            size: Bytes(size as u64),
            threads: 1,
            lines: 4,
            line_ns,
        };
        let mut known = Vec::new();
        for (pattern, hit, miss) in [(KnownPattern::Chase, 10.0, 60.0), (KnownPattern::Random, 4.0, 12.0)] {
            known.extend((1..=10).map(|part| one(pattern, 2.0 * MB * f64::from(part), hit)));
            // Sets of the cache fill unevenly.
            known.last_mut().expect("a set").line_ns = hit * 1.2;
            known.push(one(pattern, 80.0 * MB, miss));
        }
        let exact = |value: f64| Some(Estimate { value, low: value, high: value, samples: 1 });
        let point = |left: f64| SqueezePoint {
            cache_left: exact(20.0 * MB),
            bandwidth_left: exact(left),
            known: known
                .iter()
                .map(|one| if one.size.0 as f64 > 20.0 * MB { 40e9 / left } else { 1.0 })
                .collect(),
            ..SqueezePoint::default()
        };
        SqueezeProfile {
            bandwidth: 40e9,
            storage: vec![point(40e9)],
            bandwidths: vec![point(40e9), point(20e9), point(10e9)],
            known,
            ..SqueezeProfile::default()
        }
    }

    fn part(pattern: KnownPattern, size: f64, rate: f64) -> ProgramPart {
        let overflows = pattern == KnownPattern::Stream;
        ProgramPart { pattern, size: Bytes(size as u64), bytes_per_s: rate, share: 1.0, overflows }
    }

    fn lost(own: ProgramPart, other: ProgramPart, many: usize, warm: bool) -> SocketLoss {
        let profile = profile();
        let machine = KnownMachine::of(&profile).expect("known programs");
        machine.loss(&[own], &[(&[other], many)], warm).expect("a loss")
    }

    #[test]
    fn sets_that_fit_lose_nothing_and_those_that_just_do_lose_what_one_of_that_size_does() {
        let five = part(KnownPattern::Random, 5.0 * MB, 16e9);
        assert!(lost(five, five, 1, false).cache < 0.01);
        let four = lost(five, five, 3, false).cache;
        assert!((0.15..0.3).contains(&four), "{four}");
        assert!(lost(five, five, 5, false).cache > four);
    }

    #[test]
    fn a_stream_drives_out_what_is_met_too_rarely() {
        let stream = part(KnownPattern::Stream, 80.0 * MB, 16e9);
        // 6.4 GB/s: gone over once, 2 MB see 5 MB of the stream pass.
        let small = lost(part(KnownPattern::Chase, 2.0 * MB, 6.4e9), stream, 1, true);
        assert!(small.cache < 0.01, "{small:?}");
        // 10 MB see 25 MB: nothing is found, and memory waits for the stream too.
        let large = lost(part(KnownPattern::Chase, 10.0 * MB, 6.4e9), stream, 1, true);
        assert!((5.0..12.0).contains(&large.cache), "{large:?}");
        // 6 MB see 15: one more than there is room for, and that is enough.
        let edge = lost(part(KnownPattern::Chase, 6.0 * MB, 6.4e9), stream, 1, true);
        assert!(edge.cache > 4.0, "{edge:?}");
        // In between it depends on what was there at the beginning.
        let between = part(KnownPattern::Chase, 4.0 * MB, 6.4e9);
        assert!(lost(between, stream, 1, true).cache < 0.01);
        assert!(lost(between, stream, 1, false).cache > 4.0);
    }

    #[test]
    fn what_overflows_waits_for_what_others_draw() {
        let chase = ProgramPart { overflows: true, ..part(KnownPattern::Chase, 80.0 * MB, 1e9) };
        let beside = lost(chase, part(KnownPattern::Stream, 80.0 * MB, 20e9), 1, false);
        assert!((beside.bandwidth - 1.0).abs() < 0.05, "{beside:?}");
        assert_eq!(beside.cache, 0.0);
    }
}
