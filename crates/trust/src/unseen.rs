//! Error out of sample: what shares of waiting were worth on kernels drawn at random, by what code does with memory and by
//! where its data lies.
//!
//! Rules are made on kernels somebody looked at. How right they are shows on others: every validation draws new ones, and all
//! that were drawn with the same rules on the same machine count.

use machine::Bytes;
use serde::{Deserialize, Serialize};

use crate::KernelPlace;

/// What code does with memory. One loop may do several of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessClass {
    /// Loads from front to back.
    Loads,
    /// Stores from front to back.
    Stores,
    /// Adds to memory in place.
    Updates,
    /// Atomic operations.
    Atomics,
    /// Results that wait for each other from turn to turn.
    Chains,
    /// Steps of more than a line.
    Strides,
    /// Places that were loaded or computed, all over a range.
    Gathers,
    /// Loads that give the address of the next.
    Chases,
    /// Branches on data.
    Branches,
    /// Repeated string instructions, which no kernel has: nothing that they take most of the time of is called sure.
    Strings,
}

impl AccessClass {
    /// All of them, in the order reports show them.
    pub const ALL: [Self; 10] = [
        Self::Loads,
        Self::Stores,
        Self::Updates,
        Self::Atomics,
        Self::Chains,
        Self::Strides,
        Self::Gathers,
        Self::Chases,
        Self::Branches,
        Self::Strings,
    ];

    /// Whether kernels that are drawn at random may do so.
    pub const fn is_drawn(self) -> bool {
        !matches!(self, Self::Strings)
    }

    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loads => "loads",
            Self::Stores => "stores",
            Self::Updates => "updates",
            Self::Atomics => "atomics",
            Self::Chains => "chains",
            Self::Strides => "strides",
            Self::Gathers => "gathers",
            Self::Chases => "chases",
            Self::Branches => "branches",
            Self::Strings => "string instructions",
        }
    }
}

/// The levels that trust is earned for.
pub const LEVELS: [KernelPlace; 4] = [KernelPlace::L1, KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory];

/// One random kernel that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnseenCase {
    /// What the analysis was made of that answered.
    pub rules: String,
    /// Which validation drew it: seconds since 1970.
    pub run: u64,
    /// What it was drawn with.
    pub seed: u64,
    /// What it does with memory.
    pub classes: Vec<AccessClass>,
    /// Where its data lies, by the capacities of the machine.
    pub level: KernelPlace,
    /// Its data, in whole lines.
    pub footprint: Bytes,
    /// The share of its time that waits for memory, by time against its twin, measured twice.
    pub truths: [f64; 2],
    /// Nanoseconds of one turn of it and of its twin, in the middle of all rounds; none of validations before, or if another
    /// process timed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ns: Option<[f64; 2]>,
    /// The share that was found, and the interval it was said to lie in.
    pub found: Option<[f64; 3]>,
    /// Whether there was an answer.
    pub decided: bool,
    /// Whether the answer would be called sure on a machine where everything is trusted.
    pub sure: bool,
    /// At which level it waits; none where it hardly waits, or nobody tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<WaitedLevel>,
    /// Samples behind it.
    pub samples: u64,
    /// Its hot loop was relieved as well: the answer comes of both ways.
    #[serde(default)]
    pub with_relief: bool,
}

/// The level that a kernel was said to wait at, and those that are right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedLevel {
    /// Where most of its waiting was said to be; none where that was left open.
    pub named: Option<KernelPlace>,
    /// Where most of it is by time, and the neighbour where its data lies near the capacity between.
    pub right: Vec<KernelPlace>,
}

/// How often the level was named, and named right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelScore {
    /// Kernels that wait enough for it to matter.
    pub kernels: usize,
    /// Of these, those of which a level was named ...
    pub named: usize,
    /// ... and named right.
    pub right: usize,
}

impl LevelScore {
    fn of<'a>(cases: impl Iterator<Item = &'a UnseenCase>) -> Self {
        let mut score = Self::default();
        for WaitedLevel { named, right } in cases.filter_map(|case| case.waits_at.as_ref()) {
            score.kernels += 1;
            score.named += usize::from(named.is_some());
            score.right += usize::from(named.is_some_and(|named| right.contains(&named)));
        }
        score
    }
}

impl UnseenCase {
    /// Truths that differ by more than this are none.
    pub const UNSTEADY: f64 = 0.03;
    /// Only an answer that is known to so many points may be called sure.
    pub const NARROW: f64 = 0.2;

    /// The mean of both.
    pub fn truth(&self) -> f64 {
        (self.truths[0] + self.truths[1]) / 2.0
    }

    /// Whether both truths are the same.
    pub fn is_steady(&self) -> bool {
        (self.truths[0] - self.truths[1]).abs() <= Self::UNSTEADY
    }

    /// By how much the share is off; none if nothing was decided.
    pub fn error(&self) -> Option<f64> {
        self.found.filter(|_| self.decided).map(|[value, ..]| (value - self.truth()).abs())
    }

    /// Whether the interval holds the truth; none if there is none.
    pub fn holds(&self) -> Option<bool> {
        self.found.map(|[_, low, high]| (low..=high).contains(&self.truth()))
    }

    /// Whether its interval is narrow enough for it to be called sure.
    fn is_narrow(&self) -> bool {
        // Half a point for how numbers are rounded.
        self.found.is_some_and(|[_, low, high]| high - low <= Self::NARROW + 0.005)
    }

    /// Whether it does this, or has its data there.
    pub fn is_in(&self, part: TrustPart) -> bool {
        match part {
            TrustPart::Class(class) => self.classes.contains(&class),
            TrustPart::Level(level) => self.level == level,
        }
    }
}

/// What trust is earned for apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustPart {
    /// What code does with memory.
    Class(AccessClass),
    /// Where its data lies.
    Level(KernelPlace),
}

impl TrustPart {
    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class(class) => class.name(),
            Self::Level(KernelPlace::Registers) => "no data",
            Self::Level(KernelPlace::L1) => "data in L1",
            Self::Level(KernelPlace::L2) => "data in L2",
            Self::Level(KernelPlace::L3) => "data in L3",
            Self::Level(KernelPlace::Memory) => "data in memory",
        }
    }

    /// All that kernels drawn at random may earn trust for.
    pub fn drawn() -> impl Iterator<Item = Self> {
        Self::all().filter(|part| !matches!(part, Self::Class(class) if !class.is_drawn()))
    }

    /// All that trust is asked for.
    pub fn all() -> impl Iterator<Item = Self> {
        AccessClass::ALL.into_iter().map(Self::Class).chain(LEVELS.into_iter().map(Self::Level))
    }
}

/// Errors over some kernels whose truth is steady.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// How many.
    pub kernels: usize,
    /// Those that got an answer.
    pub decided: usize,
    /// Half of the answers are right to this; none without answers.
    pub median: Option<f64>,
    /// Nine of ten are.
    pub within: Option<f64>,
    /// The one that is furthest off.
    pub worst: Option<f64>,
}

/// What a class or a level is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartStanding {
    /// Nine of ten are right to [`ErrorSummary::CLOSE`].
    Good,
    /// Too many are off by more.
    Off,
    /// More than one in ten is off by more than [`ErrorSummary::ROUGH`], and half by more than [`ErrorSummary::CLOSE`]: it
    /// tells nothing.
    Broken,
    /// Too few were tried.
    Untried,
}

impl ErrorSummary {
    /// Points that nine of ten may be off and still be called sure.
    pub const CLOSE: f64 = 0.15;
    /// Points that nine of ten may be off and still tell much from little.
    pub const ROUGH: f64 = 0.30;
    /// Answers that make a judgement.
    pub const FEWEST: usize = 3;

    fn of<'a>(cases: impl Iterator<Item = &'a UnseenCase>) -> Self {
        let steady: Vec<&UnseenCase> = cases.filter(|case| case.is_steady()).collect();
        let mut errors: Vec<f64> = steady.iter().filter_map(|case| case.error()).collect();
        errors.sort_by(f64::total_cmp);
        Self {
            kernels: steady.len(),
            decided: errors.len(),
            median: quantile(&errors, 0.5),
            within: quantile(&errors, 0.9),
            worst: errors.last().copied(),
        }
    }

    /// What it is worth.
    pub fn standing(&self) -> PartStanding {
        match self.within.filter(|_| self.decided >= Self::FEWEST) {
            None => PartStanding::Untried,
            // A single case that is far off makes a class rough; only if half of them are off does it tell nothing.
            Some(within) if within > Self::ROUGH && self.median > Some(Self::CLOSE) => PartStanding::Broken,
            Some(within) if within > Self::CLOSE => PartStanding::Off,
            Some(_) => PartStanding::Good,
        }
    }
}

/// The smallest value that this part of all values does not exceed.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Errors of one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartErrors {
    /// Of what.
    pub part: TrustPart,
    /// How large.
    #[serde(flatten)]
    pub errors: ErrorSummary,
    /// Of the answers with narrow intervals alone: what may be called sure is one of these.
    #[serde(default)]
    pub narrow: ErrorSummary,
}

/// How right answers were on kernels that no rule was made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfSample {
    /// What the analysis was made of that answered.
    pub rules: String,
    /// Hot loops were relieved as well.
    #[serde(default)]
    pub with_relief: bool,
    /// Validations that drew them.
    pub runs: usize,
    /// The first and the last seed.
    pub seeds: (u64, u64),
    /// Kernels whose two truths differ: they count nowhere.
    pub unsteady: usize,
    /// Over all that are steady.
    pub all: ErrorSummary,
    /// Class by class and level by level; those that no kernel had are left out.
    pub parts: Vec<PartErrors>,
    /// Intervals that hold the truth, ...
    pub held: usize,
    /// ... of so many.
    pub intervals: usize,
    /// Half of the decided ones are no wider.
    pub width: Option<f64>,
    /// Answers that would be called sure, by what the other kernels say of their classes and levels.
    pub high: usize,
    /// Those among them that are off by more than [`ErrorSummary::CLOSE`].
    pub high_and_off: usize,
    /// How often the level was named right.
    #[serde(default)]
    pub levels: LevelScore,
}

impl OutOfSample {
    /// Of the cases with these rules that samples alone answered; none of none.
    pub fn of(cases: &[UnseenCase], rules: &str) -> Option<Self> {
        Self::of_way(cases, rules, false)
    }

    /// Of those whose hot loops were relieved as well.
    pub fn with_relief(cases: &[UnseenCase], rules: &str) -> Option<Self> {
        Self::of_way(cases, rules, true)
    }

    fn of_way(cases: &[UnseenCase], rules: &str, with_relief: bool) -> Option<Self> {
        let of = |relieved: bool| {
            let is_own = move |case: &&UnseenCase| case.rules == rules && case.with_relief == relieved;
            cases.iter().filter(is_own).collect::<Vec<_>>()
        };
        let (alone, cases) = (of(false), of(with_relief));
        let seeds = || cases.iter().map(|case| case.seed);
        let mut runs: Vec<u64> = cases.iter().map(|case| case.run).collect();
        runs.sort_unstable();
        runs.dedup();
        let steady: Vec<&UnseenCase> = cases.iter().copied().filter(|case| case.is_steady()).collect();
        let mut widths: Vec<f64> = steady
            .iter()
            .filter(|case| case.decided)
            .filter_map(|case| case.found.map(|[_, low, high]| high - low))
            .collect();
        widths.sort_by(f64::total_cmp);
        let high: Vec<&UnseenCase> =
            steady.iter().copied().filter(|case| is_high(case, &cases, &alone)).collect();
        let part = |part: TrustPart| {
            let own = cases.iter().copied().filter(|case| case.is_in(part));
            PartErrors { part, errors: ErrorSummary::of(own), narrow: vouching(part, &cases, &alone, None) }
        };
        Some(Self {
            rules: rules.to_owned(),
            with_relief,
            runs: runs.len(),
            seeds: (seeds().min()?, seeds().max()?),
            unsteady: cases.len() - steady.len(),
            all: ErrorSummary::of(cases.iter().copied()),
            parts: TrustPart::all().map(part).filter(|one| one.errors.kernels > 0).collect(),
            held: steady.iter().filter(|case| case.holds() == Some(true)).count(),
            intervals: steady.iter().filter(|case| case.holds().is_some()).count(),
            width: quantile(&widths, 0.5),
            high: high.len(),
            high_and_off: high.iter().filter(|case| case.error() > Some(ErrorSummary::CLOSE)).count(),
            levels: LevelScore::of(steady.iter().copied()),
        })
    }

    /// As if everything had been tried and nothing were ever off: what an answer is worth by itself.
    pub fn flawless() -> Self {
        let plenty = 1000;
        let errors = ErrorSummary {
            kernels: plenty,
            decided: plenty,
            median: Some(0.0),
            within: Some(0.0),
            worst: Some(0.0),
        };
        Self {
            rules: String::new(),
            with_relief: false,
            runs: 1,
            seeds: (0, 0),
            unsteady: 0,
            all: errors,
            parts: TrustPart::all().map(|part| PartErrors { part, errors, narrow: errors }).collect(),
            held: plenty,
            intervals: plenty,
            width: Some(0.0),
            high: plenty,
            high_and_off: 0,
            levels: LevelScore { kernels: plenty, named: plenty, right: plenty },
        }
    }

    /// Errors of one class or level.
    pub fn part(&self, part: TrustPart) -> ErrorSummary {
        self.parts.iter().find(|one| one.part == part).map_or_else(ErrorSummary::default, |one| one.errors)
    }

    /// Errors of its answers with narrow intervals.
    pub fn narrow_part(&self, part: TrustPart) -> ErrorSummary {
        self.parts.iter().find(|one| one.part == part).map_or_else(ErrorSummary::default, |one| one.narrow)
    }
}

/// Errors of the narrow answers that speak for a part, but for those of one seed. Relieved kernels are few: where they gave too few
/// narrow answers of a part, those that samples alone gave speak beside them.
fn vouching(part: TrustPart, own: &[&UnseenCase], alone: &[&UnseenCase], but: Option<u64>) -> ErrorSummary {
    let wanted = |case: &&UnseenCase| Some(case.seed) != but && case.is_in(part) && case.is_narrow();
    let found = ErrorSummary::of(own.iter().copied().filter(wanted));
    let relieved = own.iter().copied().filter(|case| case.with_relief);
    match found.decided < ErrorSummary::FEWEST {
        true => ErrorSummary::of(relieved.chain(alone.iter().copied()).filter(wanted)),
        false => found,
    }
}

/// Whether an answer would be called sure, by what other kernels say of its classes and its level.
fn is_high(case: &UnseenCase, all: &[&UnseenCase], alone: &[&UnseenCase]) -> bool {
    let others = |part: TrustPart| vouching(part, all, alone, Some(case.seed)).standing();
    let parts = case.classes.iter().copied().map(TrustPart::Class).chain([TrustPart::Level(case.level)]);
    case.decided && case.sure && parts.into_iter().all(|part| others(part) == PartStanding::Good)
}

#[cfg(test)]
mod tests;
