//! How much of an instruction's samples is waiting, and for what.
//!
//! A sample lies behind the instruction the core could not retire. Samples also lie behind instructions that were
//! merely executed. What instructions that cannot wait get in the same block is the baseline; a load that hits takes
//! about as long as [`HIT`] of them; only what is beyond that is waiting.

use std::collections::HashSet;

use code::{Block, Class, Flow};
use machine::profile::{LevelName, Profile};

use super::{
    bounds::{CoreLevel, WaitBounds, of_block},
    bubble,
    deciding::BehindBranch,
    entries::LoopEntries,
    facts::{self, ChainShare, CoreCosts, wait_of},
    pool::{self, SamplePool},
    program::{DecodedProgram, ProgramSite},
    relief::RelievedBlocks,
    streams::AddressStreams,
};
use crate::findings::ThreadActivity;

/// A hit in the first cache takes as long as this many other instructions: 4 to 5 cycles against one. On kernels with
/// 24 multiplications per load, in L2 and beyond, 4 comes closest to the time the misses take.
pub(crate) const HIT: f64 = 4.0;

/// Data of this part of the first cache stays there.
const SMALL: f64 = 16.0;

/// Blocks with fewer instructions that cannot wait borrow those of their neighbours.
const FEW: usize = 4;

/// What an instruction's samples mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SampleMeaning {
    /// What the core waits for here.
    pub(crate) activity: ThreadActivity,
    /// Samples beyond the baseline.
    pub(crate) waiting: f64,
    /// Samples of executing.
    pub(crate) executing: f64,
    /// Samples of waiting in a chain of results while nothing misses.
    pub(crate) chained: f64,
    /// Samples of waiting for the first cache: its latency in such a chain, or an atomic on a line of one's own.
    pub(crate) near: f64,
}

impl SampleMeaning {
    /// Of code that only waits for other threads.
    fn spinning(samples: f64) -> Self {
        let activity = ThreadActivity::OtherThreads;
        Self { activity, waiting: samples, executing: 0.0, chained: 0.0, near: 0.0 }
    }

    /// Samples that do not wait for anything far away.
    fn busy(&self) -> f64 {
        self.executing + self.chained + self.near
    }

    /// Divides samples that do not wait for anything far away.
    fn keep_busy(&mut self, samples: f64, chain: ChainShare) {
        (self.chained, self.near) = (samples * chain.results, samples * chain.near);
        self.executing = samples - self.chained - self.near;
    }
}

/// What is known of the core that ran the code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BlameCore {
    /// Bytes of its first data cache.
    pub(crate) first_cache_bytes: f64,
    /// Whether another thread may run on it, and take its part of that: nobody knows where a guest's CPUs are.
    pub(crate) may_be_shared: bool,
    /// Its clock.
    pub(crate) clock_hz: f64,
    /// Where data may come from, from the first cache to memory.
    pub(crate) levels: Vec<CoreLevel>,
    /// The levels are those of the machine, not as on most.
    pub(crate) is_measured: bool,
    /// What its operations cost.
    pub(crate) costs: CoreCosts,
    /// Latency of a dependent load by data set, in bytes and nanoseconds, ascending; none without a profile.
    pub(crate) latencies: Vec<(f64, f64)>,
}

impl BlameCore {
    /// The core by its profile, or much like others, at the clock that was measured meanwhile.
    pub(crate) fn of(profile: Option<&Profile>, measured_hz: Option<f64>) -> Self {
        const FIRST_CACHE_BYTES: f64 = 32768.0;
        const CLOCK_HZ: f64 = 3e9;
        let first =
            profile.and_then(|profile| profile.levels.iter().find(|level| level.name == LevelName::Cache(1)));
        let claimed = first.and_then(|level| level.claimed.map(|claimed| claimed.0 as f64));
        let usable = first.and_then(|level| level.usable.map(|usable| usable.value));
        let clock = profile.and_then(|profile| profile.clock).map(|clock| clock.add_hz);
        let or = |value: Option<f64>, default| value.filter(|value| *value > 0.0).unwrap_or(default);
        // What watches may run on a core that sleeps most of the time, at another clock than the program's.
        let is_plausible = |hz: &f64| clock.is_none_or(|clock| (0.75..1.33).contains(&(hz / clock)));
        let clock_hz = measured_hz.filter(is_plausible).unwrap_or(or(clock, CLOCK_HZ));
        let mut measured = CoreLevel::measured(profile);
        // The caches that are the core's own go with its clock.
        let faster = clock.map_or(1.0, |clock| clock_hz / clock);
        let caches = measured.iter_mut().flatten().filter(|level| level.capacity_bytes.is_finite());
        caches.take(2).for_each(|level| level.speed_up(faster));
        Self {
            first_cache_bytes: or(claimed.or(usable), FIRST_CACHE_BYTES),
            may_be_shared: profile.is_some_and(|profile| {
                !matches!(profile.fingerprint.hypervisor.as_str(), "" | "none" | "unknown")
            }),
            clock_hz,
            is_measured: measured.is_some(),
            costs: CoreCosts::of(profile),
            levels: measured.unwrap_or_else(|| CoreLevel::usual(clock_hz)),
            latencies: profile.map_or_else(Vec::new, |profile| {
                profile
                    .latency_curve
                    .iter()
                    .map(|point| (point.size.0 as f64, point.latency_ns.value))
                    .collect()
            }),
        }
    }

    /// The first level that so many bytes fit into.
    pub(crate) fn level_for(&self, bytes: f64) -> Option<&CoreLevel> {
        // What fits the first cache costs nothing more than the code does.
        let found = self.levels.iter().position(|level| bytes <= level.capacity_bytes)?;
        self.levels.get(found).filter(|_| found > 0)
    }

    /// Latency of a load that waits for the one before, somewhere in so many bytes.
    pub(crate) fn latency_ns(&self, bytes: f64) -> f64 {
        let on_curve = self.latencies.iter().find(|(size, _)| *size >= bytes).or(self.latencies.last());
        let by_level = || self.levels.iter().find(|level| bytes <= level.capacity_bytes);
        on_curve.map(|(_, ns)| *ns).or_else(|| by_level().map(|level| level.latency_ns)).unwrap_or(0.0)
    }

    /// Latency of a hit in the first cache as a share of that of a load within `extent_bytes`.
    fn hit_share(&self, extent_bytes: f64) -> f64 {
        // Cycles up to this many bytes, as on most cores of today, where no profile says better.
        const USUAL: [(f64, f64); 3] = [(1e6, 20.0), (16e6, 60.0), (f64::INFINITY, 250.0)];
        const USUAL_HIT: f64 = 4.0;
        let above = self.latencies.iter().find(|(bytes, _)| *bytes >= extent_bytes).or(self.latencies.last());
        let share = match (self.latencies.first(), above) {
            (Some((_, hit)), Some((_, latency))) if *latency > 0.0 => hit / latency,
            _ => {
                let usual = USUAL.iter().find(|(bytes, _)| *bytes >= extent_bytes);
                USUAL_HIT / usual.map_or(USUAL[2].1, |(_, cycles)| *cycles)
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// What each site's samples mean, and between which bounds the waiting of each block lies.
pub(crate) fn meanings(
    program: &DecodedProgram,
    streams: &AddressStreams,
    core: &BlameCore,
    relieved: &RelievedBlocks<'_>,
) -> (Vec<SampleMeaning>, Vec<WaitBounds>, Vec<WaitBounds>) {
    let mut bounds = Vec::with_capacity(program.blocks.len());
    let mut by_samples = Vec::with_capacity(program.blocks.len());
    let mut meanings = Vec::with_capacity(program.sites.len());
    let mut baselines = vec![0.0; program.blocks.len()];
    let pool = SamplePool::new(program);
    let chasing: HashSet<usize> =
        program.chased.iter().flatten().map(|&site| program.sites[site].block).collect();
    for (id, baseline) in baselines.iter_mut().enumerate() {
        let Some(block) = program.block(id) else {
            bounds.push(WaitBounds::UNKNOWN);
            by_samples.push(WaitBounds::UNKNOWN);
            continue;
        };
        if program.spins(id) {
            meanings.extend(program.sites_of(id).iter().map(|site| SampleMeaning::spinning(site.samples)));
            bounds.push(WaitBounds::NOTHING);
            by_samples.push(WaitBounds::NOTHING);
            continue;
        }
        let judge = Judge::new(program, streams, id, block, core, &pool);
        *baseline = judge.baseline;
        let first = meanings.len();
        for offset in 0..block.instructions().len() {
            meanings.push(judge.meaning(program.blocks[id].first_site + offset));
        }
        let samples = program.samples_of(id);
        let share = if samples > 0.0 { memory_waiting(&meanings[first..]) / samples } else { 0.0 };
        let own = of_block(program, streams, core, id, block, share);
        let found = relieved.join(id, own);
        by_samples.push(own);
        leave_executing(&mut meanings[first..], found.value * samples, judge.chain);
        judge.leave_waiting(&mut meanings[first..], found.value * samples);
        let is_relieved = relieved.measured(id).is_some();
        if is_relieved || streams.speed(id).is_some() || chasing.contains(&id) {
            // How long a turn takes was measured, or follows from where its chase goes: what its code cannot have taken was
            // waiting, wherever samples lie.
            let least = if is_relieved { found.value } else { found.least_found() };
            give_waiting(&mut meanings[first..], least * samples);
        }
        bounds.push(found);
    }
    bubble::find(program, &baselines, &mut meanings);
    (meanings, bounds, by_samples)
}

/// Gives to waiting for memory what it still lacks of `least` measured samples: a core that waits for data may show it behind
/// whatever needs that data.
fn give_waiting(meanings: &mut [SampleMeaning], least: f64) {
    if least <= memory_waiting(meanings) {
        return;
    }
    // Of what takes its time by itself, what hangs on a load seems to take that load's time too.
    for meaning in meanings.iter_mut().filter(|meaning| meaning.activity == ThreadActivity::Chains) {
        meaning.chained += std::mem::take(&mut meaning.waiting);
    }
    let room = SampleMeaning::busy;
    let (missing, rooms) = (least - memory_waiting(meanings), meanings.iter().map(room).sum::<f64>());
    if rooms <= 0.0 {
        return;
    }
    let left = 1.0 - (missing / rooms).min(1.0);
    for meaning in
        meanings.iter_mut().filter(|meaning| meaning.activity.is_memory() || meaning.waiting <= 0.0)
    {
        let moved = room(meaning) * (1.0 - left);
        if !meaning.activity.is_memory() {
            meaning.activity = ThreadActivity::Loads;
        }
        meaning.waiting += moved;
        meaning.executing *= left;
        meaning.chained *= left;
        meaning.near *= left;
    }
}

/// Takes from the waiting for memory of a block what is beyond `most` samples.
fn leave_executing(meanings: &mut [SampleMeaning], most: f64, chain: ChainShare) {
    let waiting = memory_waiting(meanings);
    if waiting <= most {
        return;
    }
    let part = 1.0 - most / waiting;
    for meaning in meanings.iter_mut().filter(|meaning| meaning.activity.is_memory()) {
        let moved = meaning.waiting * part;
        meaning.waiting -= moved;
        if meaning.activity == ThreadActivity::Atomics {
            // An atomic operation on a line of one's own is slow by itself, and nothing passes it.
            meaning.near += moved;
        } else {
            meaning.keep_busy(meaning.busy() + moved, chain);
        }
    }
}

fn memory_waiting(meanings: &[SampleMeaning]) -> f64 {
    meanings.iter().filter(|meaning| meaning.activity.is_memory()).map(|meaning| meaning.waiting).sum()
}

/// What a branch makes a core wait for.
fn behind(found: BehindBranch) -> ThreadActivity {
    match found {
        BehindBranch::Branch => ThreadActivity::Branches,
        BehindBranch::Chain => ThreadActivity::Chains,
        BehindBranch::Either => ThreadActivity::Undecided,
    }
}

struct Judge<'a> {
    program: &'a DecodedProgram,
    streams: &'a AddressStreams,
    core: &'a BlameCore,
    block: &'a Block,
    /// What an instruction gets on average that nothing holds up.
    mean: f64,
    /// What most of those get at most.
    baseline: f64,
    /// What a load gets that hits the first cache.
    hit: f64,
    chain: ChainShare,
    is_near: bool,
    is_guessed: bool,
    /// All blocks with few samples, if this is one of them.
    pool: Option<&'a SamplePool>,
}

impl<'a> Judge<'a> {
    fn new(
        program: &'a DecodedProgram,
        streams: &'a AddressStreams,
        id: usize,
        block: &'a Block,
        core: &'a BlameCore,
        pool: &'a SamplePool,
    ) -> Self {
        let is_near = streams.is_near(id, core.first_cache_bytes);
        let mut judge = Self {
            program,
            streams,
            core,
            block,
            mean: 0.0,
            baseline: 0.0,
            hit: 0.0,
            chain: ChainShare::of(block, &LoopEntries::of(program, id)),
            is_near,
            is_guessed: program.is_entered_by_guess(id),
            pool: pool::is_thin(program, id).then_some(pool),
        };
        (judge.mean, judge.baseline, judge.hit) = judge.find_baselines(id);
        judge
    }

    /// Gives to waiting for memory what it lacks of `least` samples, as far as loads and stores beyond the first cache have
    /// samples for it.
    fn leave_waiting(&self, meanings: &mut [SampleMeaning], least: f64) {
        let held_by_others = |meaning: &SampleMeaning| {
            matches!(
                meaning.activity,
                ThreadActivity::Atomics
                    | ThreadActivity::Divides
                    | ThreadActivity::Branches
                    | ThreadActivity::Undecided
            ) && meaning.waiting > 0.0
        };
        if self.is_near || meanings.iter().any(held_by_others) {
            return;
        }
        let room = |meaning: &SampleMeaning| match meaning.activity {
            ThreadActivity::Loads | ThreadActivity::Stores => (meaning.busy() - self.mean).max(0.0),
            _ => 0.0,
        };
        let (missing, rooms) = (least - memory_waiting(meanings), meanings.iter().map(room).sum::<f64>());
        if missing <= 0.0 || rooms <= 0.0 {
            return;
        }
        let part = (missing / rooms).min(1.0);
        for meaning in meanings {
            let moved = room(meaning) * part;
            let left = (meaning.busy() - moved).max(0.0);
            meaning.waiting += moved;
            meaning.keep_busy(left, self.chain);
        }
    }

    /// The mean of what cannot wait, for a hit a few times that, but no less than most of those get.
    fn find_baselines(&self, id: usize) -> (f64, f64, f64) {
        let mut counts = self.idle_counts(self.program.sites_of(id), self.block);
        if counts.len() < FEW {
            for other in self.program.neighbours(id) {
                if let Some(block) = self.program.block(other) {
                    counts.extend(self.idle_counts(self.program.sites_of(other), block));
                }
            }
        }
        if counts.is_empty() {
            return (0.0, 0.0, 0.0);
        }
        counts.sort_by(f64::total_cmp);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let upper = counts[counts.len() * 3 / 4];
        (mean, upper.max(mean), upper.max(mean * HIT))
    }

    /// Samples of those instructions that the core cannot wait for.
    fn idle_counts(&self, sites: &[ProgramSite], block: &Block) -> Vec<f64> {
        let decides = |site: &ProgramSite| {
            bubble::compare_index(block) == Some(site.index) && self.program.goes_both_ways(site.block)
        };
        let idle = |site: &ProgramSite| {
            // What decides a guess begins once the guess before is known.
            let instruction = block.instructions().get(site.index).filter(|_| !decides(site))?;
            let idle = match wait_of(block, instruction) {
                ThreadActivity::Executing => site.index > 0,
                ThreadActivity::Chains => block.is_loop(),
                ThreadActivity::Loads | ThreadActivity::Stores => {
                    let is_jumped_to = site.index == 0 && self.program.is_jumped_to(site.block);
                    self.is_hit(site) && !facts::feeds_itself(block, instruction) && !is_jumped_to
                }
                _ => false,
            };
            idle.then_some(site.samples)
        };
        sites.iter().filter_map(idle).collect()
    }

    fn meaning(&self, id: usize) -> SampleMeaning {
        let site = &self.program.sites[id];
        let activity = self.activity(site);
        // What may be of one cause or another is no executing.
        let is_open = activity == ThreadActivity::Undecided;
        let mut waiting =
            if activity.is_waiting() || is_open { self.excess(site.samples, activity) } else { 0.0 };
        if let Some(hit) = self.hit_share(id, site) {
            waiting = waiting.min(site.samples * (1.0 - hit));
        }
        let mut meaning = SampleMeaning { activity, waiting, executing: 0.0, chained: 0.0, near: 0.0 };
        meaning.keep_busy(site.samples - waiting, self.chain);
        meaning
    }

    /// Of a load that waits for itself and misses: the share of its time that a hit would take too.
    fn hit_share(&self, id: usize, site: &ProgramSite) -> Option<f64> {
        let instruction = self.block.instructions().get(site.index)?;
        let footprint = self.streams.of(id)?.footprint_bytes()?;
        let misses = !self.is_near && facts::feeds_itself(self.block, instruction);
        misses.then(|| self.core.hit_share(footprint))
    }

    /// What is beyond the baseline by more than chance.
    fn excess(&self, samples: f64, activity: ThreadActivity) -> f64 {
        if let Some(pool) = self.pool {
            return samples * pool.waiting_part(activity);
        }
        let baseline = match activity {
            ThreadActivity::Loads | ThreadActivity::Stores => self.hit,
            _ => self.baseline,
        };
        let chance = 2.0 * baseline.sqrt();
        if samples > baseline + chance { samples - baseline } else { 0.0 }
    }

    fn activity(&self, site: &ProgramSite) -> ThreadActivity {
        let Some(instruction) = self.block.instructions().get(site.index) else {
            return ThreadActivity::Undecided;
        };
        let wait = wait_of(self.block, instruction);
        match wait {
            ThreadActivity::Loads | ThreadActivity::Stores if self.is_hit(site) => {
                if facts::feeds_itself(self.block, instruction) {
                    ThreadActivity::Loads
                } else if site.index == 0 && self.program.is_jumped_to(site.block) {
                    ThreadActivity::Branches
                } else {
                    ThreadActivity::Executing
                }
            }
            // The bubble behind a wrong guess shows behind the first instruction of the right path.
            // Instructions that enter the kernel or read its clocks are slow by themselves.
            // Of a loop that is a chain of results, its first instruction waits for the turn before, whose end is foreseen.
            ThreadActivity::Executing
                if site.index == 0
                    && self.is_guessed
                    && instruction.class() != Class::System
                    && self.chain.all() <= 0.0 =>
            {
                behind(BehindBranch::before(self.program, site.block))
            }
            // Where it leads is in the code: nobody guesses, and what is fetched behind it comes a cycle or two later.
            ThreadActivity::Branches if instruction.flow() == Flow::Jump => ThreadActivity::Executing,
            ThreadActivity::Branches if instruction.flow() == Flow::Conditional => {
                behind(BehindBranch::of(self.program, site.block))
            }
            ThreadActivity::Chains if self.chain.all() > 0.0 => ThreadActivity::Executing,
            other => other,
        }
    }

    /// Whether the addresses say that it cannot miss: the thread stays within the first cache, alone, or has touched
    /// the line just before.
    fn is_hit(&self, site: &ProgramSite) -> bool {
        let id = self.program.blocks[site.block].first_site + site.index;
        let Some(stream) = self.streams.of(id) else { return false };
        let Some(extent) = stream.extent_bytes() else { return stream.is_second_touch(id) };
        // What is small by itself stays in the first cache beside whatever else passes through.
        let is_near = extent * SMALL <= self.core.first_cache_bytes
            || self.streams.is_near(site.block, self.core.first_cache_bytes);
        is_near && !stream.is_shared || stream.is_second_touch(id)
    }
}

#[cfg(test)]
mod tests;
