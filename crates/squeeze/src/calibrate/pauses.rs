//! Which pause between accesses draws how much: found by halving.

/// The first pause that is tried, and the longest.
const FIRST: u64 = 16;
const LONGEST: u64 = 1 << 16;

/// What to do next in search of a pause.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextPause {
    /// This one, or none is nearer.
    Found(u64),
    /// Measure this one and ask again.
    Try(u64),
}

/// Longer pauses draw less. `known`: what some draw, that without a pause among them.
pub(super) fn next_pause(known: &[(u64, f64)], wanted: f64, tolerance: f64) -> NextPause {
    let near = known.iter().find(|(_, drawn)| (drawn - wanted).abs() <= tolerance);
    if let Some((pause, _)) = near {
        return NextPause::Found(*pause);
    }
    let more = known.iter().filter(|(_, drawn)| *drawn > wanted).map(|(pause, _)| *pause).max().unwrap_or(0);
    let less = known.iter().filter(|(_, drawn)| *drawn < wanted).map(|(pause, _)| *pause).min();
    match less {
        None if more < LONGEST => NextPause::Try((2 * more).max(FIRST)),
        None => NextPause::Found(more),
        Some(less) if less <= more + 1 => NextPause::Found(more),
        Some(less) => NextPause::Try(more + (less - more) / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_for_every_rate() {
        // 64 bytes in 2 ns and a nanosecond for each empty operation; not even that steadily, as cores overlap short ones.
        let draws = |pause: u64| 64.0 / (2.0 + if pause < 20 { pause as f64 / 4.0 } else { pause as f64 });
        for wanted in [1.0, 4.0, 12.0, 25.0] {
            let mut known = vec![(0, draws(0))];
            let found = loop {
                match next_pause(&known, wanted, 0.1 * wanted) {
                    NextPause::Found(pause) => break pause,
                    NextPause::Try(pause) => known.push((pause, draws(pause))),
                }
                assert!(known.len() < 20, "{wanted}: {known:?}");
            };
            // Where no pause draws just that, the shortest that draws no less.
            assert!(draws(found) >= 0.9 * wanted && draws(found + 2) < 1.3 * wanted, "{wanted}: {found}");
        }
        // Nothing draws so little.
        assert_eq!(next_pause(&[(0, 5.0), (LONGEST, 4.0)], 1.0, 0.1), NextPause::Found(LONGEST));
    }
}
