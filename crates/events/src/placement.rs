//! Which events fit the counters of a PMU at the same time: the one answer, for real and for simulated machines.
//!
//! A [`Demand`] says what an event needs, [`PmuResources`] what a PMU has. [`PmuResources::place`] puts a set of demands
//! on the counters or says which [`Conflict`] forbids it; it finds a way whenever there is one. [`groups`] and [`rounds()`]
//! divide more than fit, each event going into the first set with room for it. What a PMU has is data: the event files, and
//! `boxes.toml` for PMUs that none of them describes.

mod demand;
mod matching;
mod resources;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};

pub use demand::{leader_among, with_leaders};
pub(crate) use resources::PmuTable;
pub use rounds::{Candidate, Round, groups, rounds, rounds_by_file};

use crate::event::Counters;
use matching::Single;

/// What a PMU has for events that are counted at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmuResources {
    /// As much as one likes: software events, free-running counters.
    Unlimited,
    /// Counters and registers.
    Limited {
        /// Counters that hold any event, at most 32.
        general: u32,
        /// Counters for one event each, at most 32.
        fixed: u32,
        /// What is always counted by another program, such as the NMI watchdog.
        taken: Vec<Counters>,
        /// Registers beside the counters.
        registers: Vec<ExtraRegister>,
    },
}

/// A register beside the counters, with a value that all events of the PMU share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraRegister {
    /// Fields of an event that lie in it; the first is its name.
    pub fields: Vec<String>,
    /// How many there are. An event takes whichever holds its value.
    pub count: usize,
}

/// What one event needs of its PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Counters it fits.
    pub counters: Counters,
    /// Registers it needs by name, and what must be in each of their fields.
    pub registers: Vec<(String, Vec<u64>)>,
    /// No other event of the PMU may be counted meanwhile.
    pub alone: bool,
    /// An even counter and the one behind it.
    pub pair: bool,
    /// It needs no counter.
    pub free: bool,
    /// Which of the demands beside it must lead its group.
    pub follows: Option<usize>,
}

/// Where a demand was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It needs no counter.
    Nothing,
    /// A general counter.
    General(u32),
    /// This general counter and the next.
    Pair(u32),
    /// A fixed counter.
    Fixed(u32),
}

/// Why demands cannot be met at the same time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// One fits no counter of the PMU, whatever else is counted.
    #[error("no counter of this machine can hold it")]
    NoCounter,
    /// One must have the PMU for itself.
    #[error("one of them must be counted alone")]
    Alone,
    /// A group has one leader, and two are needed.
    #[error("they need different group leaders")]
    Leaders,
    /// More values are wanted in a register than there are such registers.
    #[error("they want {values} different values in {name}, and there is room for {count}")]
    Register {
        /// The register's name.
        name: String,
        /// Different values wanted.
        values: usize,
        /// How many registers there are.
        count: usize,
    },
    /// Each has a counter that fits, but there are not enough for all.
    #[error("there are not enough counters")]
    Counters,
}

/// Fixed counters come behind all general ones in a mask.
const FIRST_FIXED: u32 = 32;

impl PmuResources {
    /// Counters without registers, none of them taken.
    pub fn counters(general: u32) -> Self {
        Self::Limited { general, fixed: 0, taken: Vec::new(), registers: Vec::new() }
    }

    /// Puts every demand on counters of its own. An error if, and only if, there is no way to.
    pub fn place(&self, demands: &[&Demand]) -> Result<Vec<Holding>, Conflict> {
        one_leader(demands)?;
        let Self::Limited { general, fixed, taken, registers } = self else {
            return Ok(vec![Holding::Nothing; demands.len()]);
        };
        if demands.len() > 1 && demands.iter().any(|demand| demand.alone) {
            return Err(Conflict::Alone);
        }
        registers_suffice(demands, registers)?;
        let (general, fixed) = ((*general).min(FIRST_FIXED), (*fixed).min(FIRST_FIXED));
        let of = |demand: &Demand| mask(demand.counters, general, fixed);
        let counted = || demands.iter().enumerate().filter(|(_, demand)| !demand.free);
        let none = |demand: &Demand| match demand.pair {
            true => matching::even(of(demand), general).next().is_none(),
            false => of(demand) == 0,
        };
        if counted().any(|(_, demand)| none(demand)) {
            return Err(Conflict::NoCounter);
        }
        let pairs: Vec<(usize, u64)> =
            counted().filter(|(_, demand)| demand.pair).map(|(at, demand)| (at, of(demand))).collect();
        let single = counted().filter(|(_, demand)| !demand.pair);
        let single = single.map(|(at, demand)| Single { of: Some(at), mask: of(demand) });
        let taken = taken.iter().map(|counters| Single { of: None, mask: mask(*counters, general, fixed) });
        let single: Vec<Single> = single.chain(taken).collect();
        let found = matching::find(&pairs, &single, general).ok_or(Conflict::Counters)?;
        let mut holdings = vec![Holding::Nothing; demands.len()];
        for (at, counter) in found {
            holdings[at] = match demands[at].pair {
                true => Holding::Pair(counter),
                false if counter >= FIRST_FIXED => Holding::Fixed(counter - FIRST_FIXED),
                false => Holding::General(counter),
            };
        }
        Ok(holdings)
    }
}

/// The counters of a machine that an event fits, as bits.
fn mask(counters: Counters, general: u32, fixed: u32) -> u64 {
    let all = u64::MAX.checked_shr(64 - general).unwrap_or(0);
    let programmable = match (counters.programmable, counters.fixed) {
        (0, None) => all,
        (some, _) => u64::from(some) & all,
    };
    let fixed = counters.fixed.map(u32::from).filter(|number| *number < fixed);
    programmable | fixed.map_or(0, |number| 1 << (FIRST_FIXED + number))
}

/// A group is led by one event.
fn one_leader(demands: &[&Demand]) -> Result<(), Conflict> {
    let leaders: BTreeSet<usize> = demands.iter().filter_map(|demand| demand.follows).collect();
    if leaders.len() > 1 { Err(Conflict::Leaders) } else { Ok(()) }
}

/// Events with different values in a register need one register each.
fn registers_suffice(demands: &[&Demand], registers: &[ExtraRegister]) -> Result<(), Conflict> {
    let mut wanted: BTreeMap<&str, BTreeSet<&[u64]>> = BTreeMap::new();
    for (name, value) in demands.iter().flat_map(|demand| &demand.registers) {
        wanted.entry(name).or_default().insert(value);
    }
    for (name, values) in wanted {
        let count =
            registers.iter().find(|register| register.name() == name).map_or(0, |register| register.count);
        if values.len() > count {
            return Err(Conflict::Register { name: name.to_owned(), values: values.len(), count });
        }
    }
    Ok(())
}
