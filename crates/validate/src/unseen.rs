//! Kernels drawn at random under the clock sampler: how right shares of waiting are out of sample.
//!
//! Whoever changes rules of the analysis looks at kernels of [`DEVELOPED`] only; what users are told comes from [`REPORTED`], and
//! every validation draws seeds that none before it drew on this machine.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use kernels::{
    description::{Description, Op, Operand, OperandPlace, RegisterLife, StreamPattern},
    generate::RandomKernel,
    geometry::LINE,
};
use machine::{Bytes, Isa, Profile, Topology};
use trust::{AccessClass, KernelPlace, TrustPart, UnseenCase, WaitedLevel};

use crate::Observer;

/// Seeds of kernels that rules may be made on.
pub const DEVELOPED: Range<u64> = 0..1_000_000;
/// Seeds of kernels that nobody looks at while rules are made: what users are told comes from these.
pub const REPORTED: Range<u64> = 1_000_000..u64::MAX;

/// Kernels in a row that may fail before it is given up.
const MOST_FAILURES: usize = 3;

/// Kernels of every class and level that are wanted before more of what is common: trust is earned for each apart, and what is
/// rare would stay untried over many validations.
const WANTED_EACH: usize = 6;
/// Seeds that are looked at for one with something wanted.
const LOOKED_AT: u64 = 48;

/// What the analysis says of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The share of time that waits for memory, and between which shares it lies.
    pub memory: Option<[f64; 3]>,
    /// Whether that answers the question.
    pub decided: bool,
    /// Whether the answer would be called sure on a machine where everything is trusted.
    pub sure: bool,
    /// The cache, or memory, that most of the waiting is said to be for.
    pub level: Option<KernelPlace>,
}

/// What trying a kernel gave.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOutcome {
    /// The share of its time beyond that of its twin, twice.
    pub truths: [f64; 2],
    /// Nanoseconds of one turn of it and of its twin, where they were timed side by side.
    pub turn_ns: Option<[f64; 2]>,
    /// Samples that were taken of it.
    pub samples: u64,
    /// What was made of them.
    pub answer: Answer,
    /// The levels that are right for it, where it waits enough and somebody looked.
    pub levels: Option<Vec<KernelPlace>>,
}

/// Whoever can run a kernel and its twin, and sample them.
pub trait KernelTrial {
    /// Tries one.
    fn try_kernel(&mut self, kernel: &RandomKernel) -> Result<TrialOutcome, String>;
}

/// Usable bytes of the caches of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// First to third; one that is not there is as large as the one before.
    pub bytes: [Bytes; 3],
}

impl CacheSizes {
    /// As measured, or else as claimed; none if nobody knows the first.
    pub fn of(profile: Option<&Profile>, topology: &Topology, cpu: u32) -> Option<Self> {
        let claimed = topology.data_caches_of(cpu);
        let mut bytes = [Bytes(0); 3];
        for (level, size) in (1..=3).zip(0..3) {
            let measured = profile.and_then(|profile| profile.usable_cache(level));
            let claim = || claimed.iter().find(|cache| cache.level == level).and_then(|cache| cache.size);
            let before = if size == 0 { None } else { Some(bytes[size - 1]) };
            bytes[size] = measured.or_else(claim).or(before)?.max(before.unwrap_or(Bytes(0)));
        }
        Some(Self { bytes })
    }

    /// Where so much data lies.
    pub fn level(&self, footprint: Bytes) -> KernelPlace {
        let fits = |level: usize| footprint <= self.bytes[level];
        match () {
            () if fits(0) => KernelPlace::L1,
            () if fits(1) => KernelPlace::L2,
            () if fits(2) => KernelPlace::L3,
            () => KernelPlace::Memory,
        }
    }
}

/// What a turn takes with its data in each level: in the first cache, with data of half a capacity for each level between,
/// and as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelTimes {
    /// In the first cache.
    pub near_ns: f64,
    /// In the levels beyond, from the second cache to where its data lies.
    pub beyond: Vec<(KernelPlace, f64)>,
}

impl LevelTimes {
    /// Levels from the second cache to where data lies, with the data to try each with: half of what it holds; none for the
    /// last, which is the kernel itself.
    pub fn wanted(caches: &CacheSizes, footprint: Bytes) -> Vec<(KernelPlace, Option<Bytes>)> {
        let [_, second, third] = caches.bytes;
        let mut wanted = Vec::new();
        for (place, size) in [(KernelPlace::L2, second), (KernelPlace::L3, third)] {
            let half = Bytes(size.0 / 2);
            if half >= footprint {
                wanted.push((place, None));
                return wanted;
            }
            wanted.push((place, Some(half)));
        }
        wanted.push((KernelPlace::Memory, None));
        wanted
    }

    /// The level that adds most to the time of a turn; where data lies within half as much again of a capacity, the level on
    /// its other side is right as well.
    pub fn right(&self, caches: &CacheSizes, footprint: Bytes) -> Vec<KernelPlace> {
        const NEAR: f64 = 1.5;
        let mut inner_ns = self.near_ns;
        let mut most: Option<(f64, KernelPlace)> = None;
        for (place, ns) in &self.beyond {
            let added = ns - inner_ns;
            if most.is_none_or(|(largest, _)| added > largest) {
                most = Some((added, *place));
            }
            inner_ns = *ns;
        }
        let Some((_, most)) = most else { return Vec::new() };
        const BEYOND: [KernelPlace; 3] = [KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory];
        let is_near = |capacity: Bytes| {
            let ratio = footprint.0 as f64 / capacity.0.max(1) as f64;
            (1.0 / NEAR..=NEAR).contains(&ratio)
        };
        let mut right = vec![most];
        for (pair, capacity) in BEYOND.windows(2).zip(&caches.bytes[1..]) {
            if pair.contains(&most) && is_near(*capacity) {
                right.extend(pair.iter().filter(|place| **place != most));
            }
        }
        right
    }
}

/// Which kernels to try.
#[derive(Clone, Debug)]
pub struct UnseenRequest {
    /// How many.
    pub number: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Cases that were tried before by the same rules: kernels with what few of them had are preferred. None: seed after seed.
    pub before: Option<Vec<UnseenCase>>,
    /// Which validation this is: seconds since 1970.
    pub run: u64,
    /// What the analysis is made of.
    pub rules: String,
    /// Where data lies.
    pub caches: CacheSizes,
    /// Whoever tries them relieves their loops as well.
    pub with_relief: bool,
}

/// The first seed that no kept case has.
pub fn next_seed(kept: &[UnseenCase]) -> u64 {
    let reported = kept.iter().map(|case| case.seed).filter(|seed| REPORTED.contains(seed));
    reported.max().map_or(REPORTED.start, |seed| seed + 1)
}

/// What came of trying random kernels.
#[derive(Debug, Default)]
pub struct UnseenOutcome {
    /// Those that were tried now.
    pub cases: Vec<UnseenCase>,
    /// It ran to its end.
    pub done: bool,
    /// What was left out, and why.
    pub missing: Option<String>,
}

/// Tries random kernels one by one; each is handed to the observer as it is done.
pub fn try_kernels(
    trial: &mut dyn KernelTrial,
    request: &UnseenRequest,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> UnseenOutcome {
    let mut outcome = UnseenOutcome { done: true, ..UnseenOutcome::default() };
    let (isa, mut failures) = (Isa::native(), 0);
    let mut seed = request.first_seed;
    for number in 0..request.number {
        if interrupt.load(Ordering::Relaxed) {
            outcome.done = false;
            outcome.missing = Some("interrupted; those that were tried count".to_owned());
            break;
        }
        let drawn = draw(seed, request, &outcome.cases, &isa);
        seed = drawn.as_ref().map_or(seed, |kernel| kernel.seed);
        let what = if request.with_relief { "random kernel, relieved," } else { "random kernel" };
        observer.progress(&format!("{what} {seed}"), number as f64 / request.number.max(1) as f64);
        match drawn.and_then(|kernel| Ok((trial.try_kernel(&kernel)?, kernel))) {
            Ok((found, kernel)) => {
                let case = case(request, &kernel, &found);
                observer.keep_case(&case);
                outcome.cases.push(case);
                failures = 0;
            }
            Err(why) => {
                outcome.missing = Some(format!("random kernel {seed}: {why}"));
                failures += 1;
            }
        }
        if failures == MOST_FAILURES {
            break;
        }
        seed += 1;
    }
    outcome
}

/// The next kernel from a seed on that has what fewest had; the very next once all have enough. What the answers were plays
/// no part.
fn draw(seed: u64, request: &UnseenRequest, tried: &[UnseenCase], isa: &Isa) -> Result<RandomKernel, String> {
    let kernel = |seed| RandomKernel::draw(seed, isa).map_err(|error| error.to_string());
    let Some(before) = &request.before else { return kernel(seed) };
    let own =
        before.iter().filter(|case| case.rules == request.rules && case.with_relief == request.with_relief);
    let own: Vec<&UnseenCase> = own.chain(tried).filter(|case| case.is_steady()).collect();
    let number = |part: TrustPart| own.iter().filter(|case| case.is_in(part)).count();
    let mut wanted: Vec<(usize, TrustPart)> = TrustPart::drawn().map(|part| (number(part), part)).collect();
    wanted.retain(|(number, _)| *number < WANTED_EACH);
    wanted.sort_unstable();
    let ahead =
        (seed..seed + LOOKED_AT).take_while(|_| !wanted.is_empty()).filter_map(|seed| kernel(seed).ok());
    let preferred = ahead.min_by_key(|kernel| {
        let level = request.caches.level(kernel.footprint());
        let classes = classes(kernel.kernel.description());
        let has = |(_, part): &(usize, TrustPart)| match part {
            TrustPart::Class(class) => classes.contains(class),
            TrustPart::Level(place) => *place == level,
        };
        wanted.iter().position(has).unwrap_or(wanted.len())
    });
    preferred.map_or_else(|| kernel(seed), Ok)
}

fn case(request: &UnseenRequest, kernel: &RandomKernel, found: &TrialOutcome) -> UnseenCase {
    let footprint = kernel.footprint();
    UnseenCase {
        rules: request.rules.clone(),
        run: request.run,
        seed: kernel.seed,
        classes: classes(kernel.kernel.description()),
        level: request.caches.level(footprint),
        footprint,
        truths: found.truths,
        turn_ns: found.turn_ns,
        found: found.answer.memory,
        decided: found.answer.decided,
        sure: found.answer.sure,
        waits_at: found.levels.clone().map(|right| WaitedLevel { named: found.answer.level, right }),
        samples: found.samples,
        with_relief: request.with_relief,
    }
}

/// What a kernel does with memory, by its description.
pub fn classes(description: &Description) -> Vec<AccessClass> {
    let mut found: Vec<AccessClass> = Vec::new();
    for op in description.ops() {
        found.extend(access(description, op));
        let chained = |name: &str| {
            description.register(name).is_some_and(|register| register.life == RegisterLife::Chain)
        };
        match op {
            Op::Arithmetic { to, .. }
            | Op::Fma { to, .. }
            | Op::Integer { to, .. }
            | Op::IntMax { to, .. }
                if chained(to) =>
            {
                found.push(AccessClass::Chains);
            }
            Op::Chain { .. } => found.push(AccessClass::Chains),
            Op::Branch { .. } => found.push(AccessClass::Branches),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

/// How one operation touches memory.
fn access(description: &Description, op: &Op) -> Option<AccessClass> {
    let plain = |place: &OperandPlace, otherwise: AccessClass| match description.streams[place.stream].pattern
    {
        StreamPattern::Sequential { stride: Some(stride) } if stride > LINE => AccessClass::Strides,
        StreamPattern::Gathered { .. } | StreamPattern::Drawn { .. } => AccessClass::Gathers,
        _ => otherwise,
    };
    Some(match op {
        Op::Deref { .. } => AccessClass::Chases,
        Op::Rmw { atomic: true, .. } => AccessClass::Atomics,
        Op::Rmw { place, .. } => plain(place, AccessClass::Updates),
        Op::Store { to, .. } | Op::IntStore { to, .. } => plain(to, AccessClass::Stores),
        Op::Load { from, .. } | Op::LoadHalves { from, .. } | Op::IntLoad { from, .. } => {
            plain(from, AccessClass::Loads)
        }
        Op::Arithmetic { right: Operand::Memory(from), .. }
        | Op::Fma { b: Operand::Memory(from), .. }
        | Op::Integer { by: Operand::Memory(from), .. } => plain(from, AccessClass::Loads),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
