//! Which events fit the counters of a PMU at the same time.

use std::collections::{BTreeMap, BTreeSet};

use events::event::Counters;

/// Fixed counters come behind all general ones in a mask.
const FIRST_FIXED: u32 = 32;

/// What a PMU can hold at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// As much as one likes: software events, free-running counters.
    Unlimited,
    /// Counters.
    Counters {
        /// Any event.
        general: u32,
        /// One event each.
        fixed: u32,
        /// What somebody else, such as the NMI watchdog, always counts.
        taken: Vec<Counters>,
    },
}

/// What one event needs of its PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Counters it fits.
    pub counters: Counters,
    /// The extra register it needs, and what must be in it.
    pub register: Option<(String, Vec<u64>)>,
    /// No other event may be counted meanwhile.
    pub alone: bool,
    /// An even counter and the one behind it.
    pub pair: bool,
    /// It needs no counter.
    pub free: bool,
    /// Which of the demands beside it must lead its group.
    pub follows: Option<usize>,
}

/// Extra registers of which a PMU has several. The kernel moves an off-core response event to the one that is free.
const SEVERAL: [(&str, usize); 1] = [("offcore_rsp", 2)];

impl Capacity {
    /// Whether all can be counted at the same time.
    pub fn fits<'a>(&self, demands: impl Iterator<Item = &'a Demand> + Clone) -> bool {
        let Self::Counters { general, fixed, taken } = self else {
            return true;
        };
        if demands.clone().any(|demand| demand.alone) && demands.clone().nth(1).is_some() {
            return false;
        }
        let masks = |pair: bool| {
            let counted = demands.clone().filter(move |demand| demand.pair == pair && !demand.free);
            counted.map(|demand| mask(demand.counters, *general, *fixed))
        };
        let taken = taken.iter().map(|counters| mask(*counters, *general, *fixed));
        let pairs: Vec<u64> = masks(true).collect();
        let single: Vec<u64> = masks(false).chain(taken).collect();
        registers_suffice(demands.clone())
            && pairs.len() <= *general as usize / 2
            && pairs_placed(&pairs, &single, *general, u64::MAX)
    }
}

/// The counters of a machine that an event fits, as bits.
fn mask(counters: Counters, general: u32, fixed: u32) -> u64 {
    let ones = |count: u32| u64::MAX.checked_shr(64 - count.min(32)).unwrap_or(0);
    let only_fixed = counters.programmable == 0 && counters.fixed.is_some();
    let programmable = match counters.programmable {
        0 if only_fixed => 0,
        0 => ones(general),
        some => u64::from(some) & ones(general),
    };
    let fixed = counters.fixed.filter(|number| u32::from(*number) < fixed);
    programmable | fixed.map_or(0, |number| 1 << (FIRST_FIXED + u32::from(number)))
}

/// Events with different values in the same register need one register each.
fn registers_suffice<'a>(demands: impl Iterator<Item = &'a Demand>) -> bool {
    let mut values: BTreeMap<&str, BTreeSet<&[u64]>> = BTreeMap::new();
    for (name, value) in demands.filter_map(|demand| demand.register.as_ref()) {
        values.entry(name).or_default().insert(value);
    }
    let room = |name: &str| SEVERAL.iter().find(|(several, _)| *several == name).map_or(1, |(_, room)| *room);
    values.iter().all(|(name, values)| values.len() <= room(name))
}

/// Whether events that take an even counter and the one behind it find places that leave the others one each.
fn pairs_placed(pairs: &[u64], single: &[u64], general: u32, free: u64) -> bool {
    let Some((first, rest)) = pairs.split_first() else {
        return all_placed(&single.iter().map(|mask| mask & free).collect::<Vec<_>>());
    };
    let both = |even: u32| 0b11 << even;
    (0..general.saturating_sub(1).min(FIRST_FIXED))
        .step_by(2)
        .filter(|&even| first >> even & 1 == 1 && free & both(even) == both(even))
        .any(|even| pairs_placed(rest, single, general, free & !both(even)))
}

/// Whether every event gets a counter of its own: a bipartite matching by augmenting paths.
fn all_placed(masks: &[u64]) -> bool {
    let mut holder = [None; 64];
    (0..masks.len()).all(|event| place(event, masks, &mut holder, &mut 0))
}

fn place(event: usize, masks: &[u64], holder: &mut [Option<usize>; 64], seen: &mut u64) -> bool {
    for counter in 0..64 {
        let bit = 1 << counter;
        if masks[event] & bit == 0 || *seen & bit != 0 {
            continue;
        }
        *seen |= bit;
        if holder[counter].is_none_or(|other| place(other, masks, holder, seen)) {
            holder[counter] = Some(event);
            return true;
        }
    }
    false
}

/// Divides demands into groups that each fit, in order, each into the first group that has room. One that fits
/// nowhere gets a group of its own: the kernel may know better. Those that must lead begin a group, followed by what
/// they lead.
pub fn groups(demands: &[Demand], capacity: &Capacity) -> Vec<Vec<usize>> {
    let fits = |group: &[usize], more: &Demand| {
        capacity.fits(group.iter().map(|&member| &demands[member]).chain(std::iter::once(more)))
    };
    let leaders: BTreeSet<usize> = demands.iter().filter_map(|demand| demand.follows).collect();
    let mut groups: Vec<Vec<usize>> = leaders.iter().map(|&leader| vec![leader]).collect();
    for (index, demand) in demands.iter().enumerate().filter(|(index, _)| !leaders.contains(index)) {
        let room = groups
            .iter_mut()
            .find(|group| demand.follows.is_none_or(|leader| group[0] == leader) && fits(group, demand));
        match room {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn on(programmable: u32, fixed: Option<u8>) -> Demand {
        Demand { counters: Counters { programmable, fixed }, ..Demand::default() }
    }

    fn filtered(name: &str, value: u64) -> Demand {
        Demand { register: Some((name.to_owned(), vec![value])), ..Demand::default() }
    }

    fn core(general: u32, fixed: u32) -> Capacity {
        Capacity::Counters { general, fixed, taken: Vec::new() }
    }

    #[test]
    fn an_event_makes_room_for_one_that_fits_fewer_counters() {
        let capacity = core(2, 0);
        // The first would take counter 0, the second fits nowhere else.
        assert!(capacity.fits([on(0, None), on(1, None)].iter()));
        assert!(!capacity.fits([on(1, None), on(1, None)].iter()));
        assert_eq!(groups(&[on(1, None), on(1, None), on(2, None)], &capacity), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn fixed_counters_and_the_watchdog() {
        let cycles = on(0b1111, Some(1));
        let general = || on(0, None);
        let group = [general(), general(), general(), general(), cycles.clone()];
        assert!(core(4, 3).fits(group.iter()));
        let watched = Capacity::Counters { general: 4, fixed: 3, taken: vec![cycles.counters] };
        assert!(!watched.fits(group.iter()), "the watchdog has the fixed counter, all others are taken");
        assert!(watched.fits(group[..4].iter()));
        let amd = Capacity::Counters { general: 6, fixed: 0, taken: vec![Counters::default()] };
        assert_eq!(groups(&vec![general(); 12], &amd).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 2]);
        assert!(!core(4, 0).fits([on(0, Some(2))].iter()), "its only counter does not exist");
    }

    #[test]
    fn a_filter_holds_one_value() {
        let capacity = core(4, 0);
        assert!(capacity.fits([filtered("filter", 1), filtered("filter", 1)].iter()));
        assert!(!capacity.fits([filtered("filter", 1), filtered("filter", 2)].iter()));
        let responses: Vec<_> = (0..3).map(|value| filtered("offcore_rsp", value)).collect();
        assert!(capacity.fits(responses[..2].iter()) && !capacity.fits(responses.iter()));
        assert!(Capacity::Unlimited.fits([filtered("filter", 1), filtered("filter", 2)].iter()));
    }

    #[test]
    fn pairs_take_an_even_counter_and_the_next() {
        let pair = || Demand { pair: true, ..Demand::default() };
        let capacity = core(6, 0);
        assert!(capacity.fits([pair(), pair(), pair()].iter()));
        assert!(!capacity.fits([pair(), pair(), pair(), pair()].iter()));
        assert!(capacity.fits([pair(), pair(), on(0, None), on(0, None)].iter()));
        assert!(!capacity.fits([pair(), pair(), on(0, None), on(0, None), on(0, None)].iter()));
        // Counter 3 is bound: the pairs lie on 0 and 4.
        assert!(capacity.fits([pair(), pair(), on(1 << 3, None)].iter()));
        assert!(!core(3, 0).fits([pair(), pair()].iter()), "the last counter has none behind it");
    }

    #[test]
    fn one_that_must_be_alone_and_those_that_are_led() {
        let alone = Demand { alone: true, ..Demand::default() };
        let capacity = core(4, 4);
        assert_eq!(groups(&[on(0, None), alone, on(0, None)], &capacity), [vec![0, 2], vec![1]]);
        let led = || Demand { free: true, follows: Some(2), ..Demand::default() };
        let demands = [on(0, None), led(), on(0, Some(3)), led(), on(0, None)];
        assert_eq!(
            groups(&demands, &capacity),
            [vec![2, 0, 1, 3, 4]],
            "the leader first, though asked for later"
        );
        assert!(core(0, 0).fits([led()].iter()), "needs no counter");
    }

    /// Tries every assignment.
    fn naive(masks: &[u64], free: u64) -> bool {
        let Some((first, rest)) = masks.split_first() else {
            return true;
        };
        (0..64).filter(|bit| first & free & 1 << bit != 0).any(|bit| naive(rest, free & !(1 << bit)))
    }

    proptest! {
        #[test]
        fn matching_finds_what_trying_all_finds(masks in proptest::collection::vec(0u64..64, 0..7)) {
            prop_assert_eq!(all_placed(&masks), naive(&masks, u64::MAX));
        }

        #[test]
        fn groups_hold_every_event_once_and_fit(
            needs in proptest::collection::vec((0u32..16, proptest::option::of(0u8..4), 0u64..4), 0..12),
            general in 0u32..9,
        ) {
            let demands: Vec<_> = needs.into_iter().map(|(programmable, fixed, value)| Demand {
                counters: Counters { programmable, fixed },
                register: (value > 0).then(|| ("ldlat".to_owned(), vec![value])),
                alone: value == 3,
                pair: programmable == 5,
                ..Demand::default()
            }).collect();
            let capacity = core(general, 3);
            let groups = groups(&demands, &capacity);
            let mut all: Vec<_> = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..demands.len()).collect::<Vec<_>>());
            for group in groups.iter().filter(|group| group.len() > 1) {
                prop_assert!(capacity.fits(group.iter().map(|&member| &demands[member])));
            }
        }
    }
}
