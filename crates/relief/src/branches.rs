//! Branches whose outcomes no predictor could know. A stretch that is repeated teaches them by heart: what wrong guesses
//! cost in the program is missing from its time, and would pass for waiting on memory.

use std::collections::HashMap;

use crate::stretch::Stretch;

/// The rarer outcome is at least this common where a branch matters.
const RARE: f64 = 0.04;

/// Outcomes that repeat after so many are learnt.
const LONGEST_PERIOD: usize = 24;

/// Outcomes needed to tell.
const FEWEST: usize = 16;

/// Whether some branch of the stretch seems to go as its data says.
pub(crate) fn has_wild(stretch: &Stretch) -> bool {
    let mut outcomes: HashMap<u64, Vec<bool>> = HashMap::new();
    for pair in stretch.steps.windows(2) {
        let instruction = &pair[0].instruction;
        if instruction.is_jcc_short_or_near() {
            let is_taken = pair[1].instruction.ip() != instruction.next_ip();
            outcomes.entry(instruction.ip()).or_default().push(is_taken);
        }
    }
    outcomes.values().any(|all| is_wild(all))
}

/// Whether outcomes look like chance.
fn is_wild(outcomes: &[bool]) -> bool {
    let taken = outcomes.iter().filter(|is_taken| **is_taken).count();
    let rarer = taken.min(outcomes.len() - taken) as f64 / outcomes.len().max(1) as f64;
    if outcomes.len() < FEWEST || rarer < RARE {
        return false;
    }
    // A pattern that repeats but for a few is learnt but for a few.
    let misses = |period: usize| {
        let pairs = outcomes.iter().zip(&outcomes[period..]);
        pairs.filter(|(before, now)| before != now).count() as f64 / (outcomes.len() - period) as f64
    };
    let longest = LONGEST_PERIOD.min(outcomes.len() / 3);
    (1..=longest).all(|period| misses(period) > RARE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_tame_and_chance_is_wild() {
        let periodic: Vec<bool> = (0..200).map(|turn| turn % 3 == 0).collect();
        assert!(!is_wild(&periodic));
        assert!(!is_wild(&[true; 100]));
        // The end of an inner loop of twelve turns.
        let inner: Vec<bool> = (0..240).map(|turn| turn % 12 != 11).collect();
        assert!(!is_wild(&inner));
        let mut state = 88172645463325252u64;
        let chance: Vec<bool> = (0..200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.is_multiple_of(3)
            })
            .collect();
        assert!(is_wild(&chance));
        assert!(!is_wild(&chance[..8]), "too few to tell");
    }
}
