//! Counters for events: pairs by trying, single ones by augmenting paths.

/// Something that takes one counter.
pub(super) struct Single {
    /// The demand it is for; none if another program has it.
    pub of: Option<usize>,
    /// Counters it fits, as bits.
    pub mask: u64,
}

/// Even counters of a mask that have one behind them.
pub(super) fn even(mask: u64, general: u32) -> impl Iterator<Item = u32> {
    (0..general.saturating_sub(1)).step_by(2).filter(move |even| mask >> even & 1 == 1)
}

/// Counters for all: each demand with its counter, the first of two for a pair.
pub(super) fn find(pairs: &[(usize, u64)], single: &[Single], general: u32) -> Option<Vec<(usize, u32)>> {
    if pairs.len() > general as usize / 2 {
        return None;
    }
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|&(at, mask)| (mask, at));
    let mut placed = Vec::new();
    search(&pairs, 0, &Rest { single, general }, u64::MAX, &mut placed).then_some(placed)
}

/// What a search for pairs carries along.
struct Rest<'a> {
    single: &'a [Single],
    general: u32,
}

/// Tries every place for the first pair from counter `least` on, and the others on what is left.
fn search(
    pairs: &[(usize, u64)],
    least: u32,
    rest: &Rest,
    free: u64,
    placed: &mut Vec<(usize, u32)>,
) -> bool {
    let Some((&(at, mask), others)) = pairs.split_first() else {
        return match_all(rest.single, free, placed);
    };
    let both = |first: u32| 0b11u64 << first;
    let is_free = |first: &u32| *first >= least && free & both(*first) == both(*first);
    for first in even(mask, rest.general).filter(is_free) {
        placed.push((at, first));
        // Pairs that fit the same counters need to be tried in one order only.
        let alike = others.first().is_some_and(|&(_, next)| next == mask);
        if search(others, if alike { first + 2 } else { 0 }, rest, free & !both(first), placed) {
            return true;
        }
        placed.pop();
    }
    false
}

/// A counter of its own for every single event: a bipartite matching. Adds what it finds to `placed`.
fn match_all(single: &[Single], free: u64, placed: &mut Vec<(usize, u32)>) -> bool {
    let mut holder = [None; 64];
    let all = (0..single.len()).all(|event| augment(event, single, free, &mut holder, &mut 0));
    if all {
        let held = holder.iter().zip(0..).filter_map(|(event, counter)| Some(((*event)?, counter)));
        placed.extend(held.filter_map(|(event, counter): (usize, u32)| Some((single[event].of?, counter))));
    }
    all
}

/// Finds a counter for an event; those that hold one may have to move to another.
fn augment(
    event: usize,
    single: &[Single],
    free: u64,
    holder: &mut [Option<usize>; 64],
    tried: &mut u64,
) -> bool {
    // From above: a fixed counter leaves the general ones to others.
    for counter in (0..64).rev() {
        let bit = 1 << counter;
        if single[event].mask & free & bit == 0 || *tried & bit != 0 {
            continue;
        }
        *tried |= bit;
        if holder[counter].is_none_or(|other| augment(other, single, free, holder, tried)) {
            holder[counter] = Some(event);
            return true;
        }
    }
    false
}
