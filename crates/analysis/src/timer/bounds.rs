//! Between which shares waiting for memory must lie in a block, whatever its samples seem to say.
//!
//! Where samples land tells what a core could not retire, not why: the operand of an addition and the addition itself are
//! one instruction. Three things do not depend on that: what the code of a turn takes with its data in the first cache,
//! what its lines cost where they come from, by how far its addresses range, and how long a turn took, where its addresses
//! tell. Each gives bounds; what the samples say counts within them.

use code::{Block, Class, Flow, Instruction};
use machine::profile::{LevelName, Profile, ProfileLevel};
use trust::{ErrorSummary, UnseenCase};

use crate::findings::WaitLevel;

use super::{
    blame::BlameCore,
    entries::LoopEntries,
    facts::{
        CoreCosts, LARGEST_WINDOW_SLOTS, LINE, TurnCycles, WINDOW_SLOTS, access_cycles, branches_on_load,
        chase_beside, feeds_itself, slots, writes_memory,
    },
    fetch::{LineFetch, StreamCode},
    program::DecodedProgram,
    streams::{AddressStream, AddressStreams},
};

/// How far the clock of a core may be from what it was when its operations were measured, and what a turn in the program has
/// of others' interrupts.
const CLOCK: f64 = 1.03;

/// Data this much larger or smaller than a cache may or may not lie in it.
pub(crate) const FIT: f64 = 1.5;

/// Data of this part of the first cache lies in it, whichever sets its lines fall into.
const SURELY: f64 = 0.8;

/// The same where another thread may run on the same core: it may have half of the cache.
const SURELY_BESIDE: f64 = 0.4;

/// Misses that cores have under way at once, if none waits for another: the fewest, and the most.
pub(crate) const FEWEST_MISSES: f64 = 10.0;
pub(crate) const MOST_MISSES: f64 = 20.0;

/// Bandwidth is measured with the widest loads and stores; loops with narrow ones get this much less at worst, and from the
/// second cache.
pub(crate) const NARROW: f64 = 2.0;
const NARROW_NEAR: f64 = 1.3;

/// Strings that overwrite whole lines need not read them first, and wait for none of them: they were seen at 2.4 times what
/// other stores to memory get from one core.
const STRING_STORES: f64 = 3.0;

/// Latency is measured on the largest pages there are; on small ones it is this much more at worst.
pub(crate) const SMALL_PAGES: f64 = 1.4;

/// Lines that are fetched ahead arrive beside the code: a turn takes this many times the longer of the two at most.
const BESIDE: f64 = 1.25;

/// Stores to the same line are gathered on their way into the first cache. One that goes to another line takes a write of its
/// own, in a cycle of its own; and where lines do not follow each other, loads behind it may have to begin again, should it turn
/// out to be of the same place.
const SCATTERED_STORE_CYCLES: f64 = 3.0;

/// How far what samples say of code that is no loop, or whose data is not known, may be wrong.
const BLAME_ERROR: f64 = 0.3;

/// Operands behind which fewer of a block's samples lie.
const IDLE: f64 = 0.02;

/// The same downwards where a branch waits for a load: wrong guesses look like waiting for data. And of a loop whose loads do not
/// wait for each other, nobody knows where: one over the first cache leaves most of its samples behind them.
const BRANCH_ERROR: f64 = 0.65;

/// The same upwards of a loop that stores nobody knows where: a store is done for the core before it is written, and once too
/// many wait to be written, what stands still is whatever comes next. And of one that follows a chase nobody knows where: what
/// hangs on a link is done long after it, when the next link is there already.
const QUEUE_ERROR: f64 = 0.65;

/// An interval is never narrower: truths themselves are steady to half of it.
pub(crate) const NARROWEST: f64 = 0.06;

/// A loop that is one chain of results takes no longer beside its load than samples say, times this.
const CHAIN_ERROR: f64 = 1.5;

/// A level that data may come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoreLevel {
    /// Which one.
    pub level: WaitLevel,
    /// What fits; infinite of memory.
    pub capacity_bytes: f64,
    /// Of a load that waits for the one before.
    pub latency_ns: f64,
    /// Of one core.
    pub load_bytes_per_s: f64,
    /// Of one core, stored bytes alone.
    pub store_bytes_per_s: f64,
}

impl CoreLevel {
    /// As measured, from the first cache to memory; levels that lack a number are left out. None without memory and a cache.
    pub fn measured(profile: Option<&Profile>) -> Option<Vec<Self>> {
        let value = |estimate: Option<machine::profile::Estimate>| {
            estimate.map(|found| found.value).filter(|value| *value > 0.0)
        };
        let measured = |level: &ProfileLevel| {
            let capacity_bytes = match &level.name {
                LevelName::Cache(_) => value(level.usable)?,
                LevelName::Memory { local: true, .. } => f64::INFINITY,
                _ => return None,
            };
            let load_bytes_per_s = value(level.one_core.load)?;
            Some(Self {
                level: (&level.name).into(),
                capacity_bytes,
                latency_ns: value(level.latency_ns)?,
                load_bytes_per_s,
                store_bytes_per_s: value(level.one_core.store).unwrap_or(load_bytes_per_s / 2.0),
            })
        };
        let found: Vec<Self> = profile?.levels.iter().filter_map(measured).collect();
        let has_memory = found.last().is_some_and(|last| last.capacity_bytes.is_infinite());
        (found.len() >= 2 && has_memory).then_some(found)
    }

    pub fn speed_up(&mut self, by: f64) {
        self.latency_ns /= by;
        self.load_bytes_per_s *= by;
        self.store_bytes_per_s *= by;
    }

    /// As on most cores of today.
    pub fn usual(clock_hz: f64) -> Vec<Self> {
        // Bytes, cycles, bytes per cycle.
        const USUAL: [(WaitLevel, f64, f64, f64); 4] = [
            (WaitLevel::Cache(1), 32e3, 4.0, 64.0),
            (WaitLevel::Cache(2), 768e3, 14.0, 24.0),
            (WaitLevel::Cache(3), 16e6, 50.0, 8.0),
            (WaitLevel::Memory, f64::INFINITY, 300.0, 4.0),
        ];
        let usual = |(level, capacity_bytes, cycles, bytes): (WaitLevel, f64, f64, f64)| Self {
            level,
            capacity_bytes,
            latency_ns: cycles * 1e9 / clock_hz,
            load_bytes_per_s: bytes * clock_hz,
            store_bytes_per_s: bytes * clock_hz / 2.0,
        };
        USUAL.map(usual).to_vec()
    }
}

/// A share with the bounds it must lie in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitBounds {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// They follow from how many samples lie behind which instruction, so that chance moves them.
    pub is_counted: bool,
}

impl WaitBounds {
    pub const UNKNOWN: Self = Self { value: 0.0, low: 0.0, high: 1.0, is_counted: true };
    /// It waits for no memory.
    pub const NOTHING: Self = Self { value: 0.0, low: 0.0, high: 0.0, is_counted: false };

    /// No way of knowing a share knows it better than [`NARROWEST`].
    fn no_narrower(self) -> Self {
        let missing = ((NARROWEST - (self.high - self.low)) / 2.0).max(0.0);
        Self { low: (self.low - missing).max(0.0), high: (self.high + missing).min(1.0), ..self }
    }

    /// What another way to the same share leaves of it: where the two do not meet one is wrong, and nobody knows which.
    fn beside(self, other: Self) -> Self {
        let meet = self.low <= other.high && other.low <= self.high;
        if meet {
            return self;
        }
        Self { low: self.low.min(other.low), high: self.high.max(other.high), ..self }
    }
}

/// Between which shares of all samples waiting for memory lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MemoryBounds {
    pub low: f64,
    pub high: f64,
    /// The part of the variance of a count of samples that moves the share: how long a turn took, and where its data lies, do
    /// not depend on where samples happened to land.
    pub by_chance: f64,
}

impl MemoryBounds {
    /// Of all blocks, each with its samples, of so many samples in all.
    pub fn of(blocks: impl Iterator<Item = (WaitBounds, f64)>, samples: u64) -> Self {
        let all = samples.max(1) as f64;
        let (mut low, mut high, mut known, mut counted) = (0.0, 0.0, 0.0, 0.0);
        let (mut mean, mut squares, mut within) = (0.0, 0.0, 0.0);
        for (bounds, own) in blocks {
            let (part, share) = (own / all, bounds.value);
            low += bounds.low * part;
            high += bounds.high * part;
            known += part;
            mean += share * part;
            squares += share * share * part;
            if bounds.is_counted {
                counted += part;
                within += share * (1.0 - share) * part;
            }
        }
        // What could not be blamed may be anything.
        let unknown = (1.0 - known).max(0.0);
        let whole = mean * (1.0 - mean);
        let between = (squares - mean * mean).max(0.0);
        let by_chance = if whole > 1e-6 { (within + between) / whole } else { counted + unknown };
        Self { low, high: high + unknown, by_chance: by_chance.clamp(0.0, 1.0) }
    }
}

impl WaitBounds {
    /// The least that may be said to wait. What is known well enough to be called high is promised to
    /// [`ErrorSummary::CLOSE`]: no end of its bounds may lie further away.
    pub(crate) fn least_found(&self) -> f64 {
        let is_narrow = self.high - self.low <= UnseenCase::NARROW;
        if is_narrow { self.low.max(self.high - ErrorSummary::CLOSE) } else { self.low }
    }
}

/// Least and most nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CostRange {
    least: f64,
    /// Of lines that are fetched ahead.
    most: f64,
    /// Of those that are not, at most.
    unforeseen: f64,
    /// More that atomics may wait, should their lines not be fetched ahead.
    alone: f64,
}

/// The share of a block's samples that wait for memory. `blamed` is what its samples say.
pub(crate) fn of_block(
    program: &DecodedProgram,
    streams: &AddressStreams,
    core: &BlameCore,
    id: usize,
    block: &Block,
    blamed: f64,
) -> WaitBounds {
    let all = streams.of_block(id);
    // What a line costs that another core takes away is in no profile.
    let is_shared = all.iter().any(|stream| stream.is_shared);
    let surely = if core.may_be_shared { SURELY_BESIDE } else { SURELY };
    if streams.is_near(id, core.first_cache_bytes)
        && streams.footprint_bytes(id) <= core.first_cache_bytes * surely
        && !is_shared
    {
        // All that it touches lies in the first cache, and nobody else touches it.
        return WaitBounds { value: 0.0, low: 0.0, high: 0.05, is_counted: false };
    }
    // What samples never lie behind is not waited for, wherever it is.
    let is_idle = |stream: &AddressStream| {
        let own: f64 = stream.sites.iter().map(|&site| program.sites[site].samples).sum();
        own <= IDLE * program.samples_of(id)
    };
    let is_known = all.iter().any(|stream| stream.footprint_bytes().is_some())
        && all.iter().all(|stream| stream.footprint_bytes().is_some() || is_idle(stream));
    let repeats = block.is_loop() || block.string().is_some();
    // How long a turn took tells what waits even where nothing tells where its data lies.
    let is_timed = || !all.is_empty() && is_plain(block) && streams.speed(id).is_some();
    if !repeats || is_shared || !is_known && !is_timed() {
        let first_site = program.blocks[id].first_site;
        let unknown = || all.iter().filter(|stream| stream.footprint_bytes().is_none());
        let may_miss = !repeats && may_guess_wrong(program, id, block);
        // What comes from memory holds a core up however much it has under way.
        let is_far = core
            .level_for(streams.footprint_bytes(id) / FIT)
            .is_some_and(|level| level.level == WaitLevel::Memory);
        let may_be_near = match block.is_loop() {
            true => loads_apart(unknown(), block, first_site),
            false => !is_far && loads_apart(all.iter(), block, first_site),
        };
        let down = if may_miss || may_be_near { BRANCH_ERROR } else { BLAME_ERROR };
        let may_be_queued = block.is_loop() && stores_of(unknown(), block, first_site) > 0.0;
        let may_be_hidden = || {
            let beside = if block.is_loop() { Vec::new() } else { program.neighbours(id) };
            beside.into_iter().chain([id]).any(|near| follows_chase(program, streams, near))
        };
        let up = if may_be_queued || may_be_hidden() { QUEUE_ERROR } else { BLAME_ERROR };
        let (low, high) = ((blamed - down).max(0.0), (blamed + up).min(1.0));
        let wide = WaitBounds { value: blamed, low, high, is_counted: true };
        return if is_shared { wide } else { by_chain(block, &core.costs, wide).no_narrower() };
    }
    let entries = LoopEntries::of(program, id);
    let mut code = TurnCycles::of(block, &core.costs, &entries).at(core.clock_hz);
    let first_site = program.blocks[id].first_site;
    let cycle_ns = 1e9 / core.clock_hz;
    let to_lines =
        |stream: &&AddressStream| !stream.is_linear || stream.turn_bytes().is_some_and(|step| step >= LINE);
    code.usual = code.usual.max(stores_of(all.iter().filter(to_lines), block, first_site) * cycle_ns);
    let scattered = all.iter().filter(|stream| !stream.is_linear);
    code.most += stores_of(scattered, block, first_site) * SCATTERED_STORE_CYCLES * cycle_ns;
    let memory = memory_ns(streams, id, core, block, first_site);
    // What a string moves keeps the first cache no busier than the string itself.
    let access_cycles = if block.is_loop() { access_cycles(block, &core.costs) } else { 0.0 };
    let access_ns = access_cycles * 1e9 / core.clock_hz;
    match streams.speed(id) {
        Some(speed) => {
            let turn_ns = speed.turn_ns();
            // A cache of its own gives a core what was measured; of what is shared, others may have left less.
            let is_own = is_known && core.level_for(streams.footprint_bytes(id) * FIT) == core.levels.get(1);
            // Lines of few sets push each other out, and loads of them wait for stores to places that look the same.
            let are_alike = all.iter().any(|stream| stream.sets_apart() > 1);
            let lines_ns = if is_own && !are_alike {
                memory.most + memory.unforeseen + memory.alone
            } else {
                f64::INFINITY
            };
            let by_turn = by_turn(code, lines_ns, turn_ns, CLOCK + speed.error).no_narrower();
            // What lines cost on most machines speaks against nothing that was measured on this one.
            if core.is_measured && is_known && !are_alike {
                by_turn.beside(by_costs(code, access_ns, memory.beside_others()))
            } else {
                by_turn
            }
        }
        None => by_costs(code, access_ns, memory).no_narrower(),
    }
}

/// Whether what a turn takes at least and at most is known of all its instructions.
fn is_plain(block: &Block) -> bool {
    let is_odd = |class| matches!(class, Class::AtomicOrFence | Class::Pause | Class::System | Class::Other);
    !block.instructions().iter().any(|instruction| is_odd(instruction.class()))
}

/// Whether samples that seem to wait for data may lie behind a wrong guess: where a branch or a jump waits for what was loaded,
/// in the cases that such a jump leads to, and where the first instruction behind a guess touches memory.
fn may_guess_wrong(program: &DecodedProgram, id: usize, block: &Block) -> bool {
    let seen = |blocks: Vec<usize>| blocks.into_iter().filter(|next| program.samples_of(*next) > 0.0).count();
    // A check that never fails is guessed right, and leads nowhere else.
    let goes_on_in = || match block.flow() {
        Flow::IndirectJump => seen(program.cases_beside(id)),
        _ => seen(program.next_blocks(id)),
    };
    let touches_first =
        || block.instructions().first().is_some_and(|first| !block.memory_of(first).is_empty());
    program.is_case(id)
        || branches_on_load(block) && goes_on_in() > 1
        || touches_first() && program.is_guessed(id)
}

/// A loop that is nothing but one chain through a load spends its time along that chain: samples that do not lie behind the
/// load are of operations whose latency is known, and a hit of the load takes as long in proportion.
fn by_chain(block: &Block, costs: &CoreCosts, wide: WaitBounds) -> WaitBounds {
    let Some(beside) = chase_beside(block, costs) else { return wide };
    // Samples beside the load may also be there by chance: they tell how long the code takes at most.
    let busy = (1.0 - wide.value) * beside * CHAIN_ERROR;
    WaitBounds { low: (1.0 - busy).clamp(wide.low, wide.value), ..wide }
}

/// The instructions that belong to some of a block's streams.
fn instructions_of<'a, 'b>(
    streams: impl Iterator<Item = &'a AddressStream>,
    block: &'b Block,
    first_site: usize,
) -> impl Iterator<Item = &'b Instruction> {
    let sites = streams.flat_map(|stream| &stream.sites);
    sites.filter_map(move |site| block.instructions().get(site - first_site))
}

/// Stores of a turn to some of its streams.
fn stores_of<'a>(streams: impl Iterator<Item = &'a AddressStream>, block: &Block, first_site: usize) -> f64 {
    let instructions = instructions_of(streams, block, first_site);
    instructions.filter(|instruction| writes_memory(block, instruction)).count() as f64
}

/// Whether a block has a load that feeds its own address, and nothing tells where its data lies.
fn follows_chase(program: &DecodedProgram, streams: &AddressStreams, id: usize) -> bool {
    let Some(block) = program.block(id) else { return false };
    let unknown = streams.of_block(id).iter().filter(|stream| stream.footprint_bytes().is_none());
    instructions_of(unknown, block, program.blocks[id].first_site)
        .any(|instruction| feeds_itself(block, instruction))
}

/// Whether some streams have loads, none of which feeds its own address: a core has many of those under way, and is often as
/// fast as it can be with samples behind each of them.
fn loads_apart<'a>(
    streams: impl Iterator<Item = &'a AddressStream>,
    block: &Block,
    first_site: usize,
) -> bool {
    let mut loads = instructions_of(streams, block, first_site).filter(|instruction| instruction.has_load());
    let Some(first) = loads.next() else { return false };
    !std::iter::once(first).chain(loads).any(|instruction| feeds_itself(block, instruction))
}

/// What a turn took, to the factor `error`, and what its code and its lines take; those at most.
fn by_turn(code: TurnCycles, lines_ns: f64, turn_ns: f64, error: f64) -> WaitBounds {
    let share = |code_ns: f64| (1.0 - code_ns / turn_ns).clamp(0.0, 1.0);
    // A turn that took less than its code should: the tables are wrong for this core, nobody knows how far.
    let is_wrong = turn_ns * error < code.least;
    let least = if is_wrong { code.least.min(code.usual / 2.0) } else { code.least };
    // Nothing waits longer for lines than they take.
    let high = share(least / error).min(lines_ns * BESIDE * error / turn_ns);
    let low = share(code.most * error).min(high);
    let value = if is_wrong { (low + high) / 2.0 } else { share(code.usual).clamp(low, high) };
    WaitBounds { value, low, high, is_counted: false }
}

/// A turn takes at least the longer of code and memory, and at most both, or not much more than the longer where lines are
/// fetched ahead: while a line moves into the first cache, that may serve no loads and stores (`access_ns`).
fn by_costs(code: TurnCycles, access_ns: f64, memory: CostRange) -> WaitBounds {
    let low = 1.0 - code.most / memory.least.max(code.most);
    let at_most = |unforeseen: f64| {
        let beside = unforeseen + memory.most + code.least;
        let most_ns = beside.min(((memory.most + access_ns).max(code.least) + unforeseen) * BESIDE);
        (1.0 - code.least / most_ns).max(low)
    };
    let (usual, high) = (at_most(memory.unforeseen), at_most(memory.unforeseen + memory.alone));
    // Most likely lines cost what lies between the least and the most, and arrive beside the code.
    let likely_ns = (memory.least * (memory.most + memory.unforeseen)).sqrt();
    let value = (1.0 - code.usual / likely_ns.max(code.usual)).clamp(low, usual);
    WaitBounds { value, low, high, is_counted: false }
}

impl CostRange {
    /// Where others draw as much as this program does, lines take twice as long.
    fn beside_others(self) -> Self {
        Self { most: 2.0 * self.most, unforeseen: 2.0 * self.unforeseen, alone: 2.0 * self.alone, ..self }
    }
}

/// What the lines of one turn cost beyond the first cache.
fn memory_ns(
    streams: &AddressStreams,
    id: usize,
    core: &BlameCore,
    block: &Block,
    first_site: usize,
) -> CostRange {
    let all_bytes = streams.footprint_bytes(id);
    let streams = streams.of_block(id);
    let least_bytes: f64 = streams.iter().filter_map(AddressStream::least_footprint_bytes).sum();
    // Where another thread has its part of the first cache, data may be as if it were larger than that.
    let may_miss = core.may_be_shared && all_bytes > core.first_cache_bytes * SURELY_BESIDE;
    let far_bytes = FIT * if may_miss { all_bytes.max(core.first_cache_bytes) } else { all_bytes };
    let (near, far) = (core.level_for(least_bytes / FIT), core.level_for(far_bytes));
    let hit_ns = core.levels.first().map_or(0.0, |level| level.latency_ns);
    let beyond_hit = |bytes: f64| (core.latency_ns(bytes) - hit_ns).max(0.0);
    let mut sum = CostRange::default();
    let mut scattered = ScatteredMisses::default();
    let is_string = block.string().is_some();
    // Beside a string instruction other operands are touched once, not once for each byte.
    for stream in streams.iter().filter(|stream| stream.is_linear || !is_string) {
        // What is small beside the first cache keeps its place there.
        if stream.footprint_bytes().is_none_or(|bytes| bytes * 8.0 <= core.first_cache_bytes) {
            continue;
        }
        let code = StreamCode::of(stream, block, first_site);
        let bytes = stream.bytes_per_turn();
        let transfer = |level: &CoreLevel| code.transfer_ns(stream, level);
        let own_bytes = stream.least_footprint_bytes().unwrap_or(least_bytes);
        match code.fetch {
            // Nothing passes an atomic: its line is not waited for beside others, unless it was fetched ahead.
            LineFetch::Atomic => {
                sum.least += near.map_or(0.0, transfer);
                let alone = bytes / LINE as f64 * beyond_hit(far_bytes) * SMALL_PAGES;
                let ahead = far.map_or(0.0, transfer) * NARROW;
                sum.unforeseen += ahead;
                sum.alone += (alone - ahead).max(0.0);
            }
            LineFetch::Chased(chases) => {
                sum.least += chases * beyond_hit(own_bytes / FIT);
                sum.unforeseen += chases * beyond_hit(far_bytes) * SMALL_PAGES;
            }
            LineFetch::Ahead => {
                let is_second = far.is_some_and(|far| core.levels.get(1) == Some(far));
                let narrow = if is_second { NARROW_NEAR } else { NARROW };
                let most = far.map_or(0.0, transfer) * narrow;
                let whole_lines = if is_string && code.writes { STRING_STORES } else { 1.0 };
                sum.least += near.map_or(0.0, transfer) / whole_lines;
                // How far ahead lines are fetched from memory, prefetchers differ.
                let is_memory = far.is_some_and(|far| far.level == WaitLevel::Memory);
                *(if is_memory { &mut sum.unforeseen } else { &mut sum.most }) += most;
            }
            LineFetch::Scattered => {
                scattered.add(stream, near.map_or(0.0, transfer), far.map_or(0.0, transfer));
            }
        }
    }
    let at_once = |window: f64, most: f64| at_once(block, scattered.lines, window, most);
    let least = scattered.lines * beyond_hit(least_bytes / FIT) / at_once(LARGEST_WINDOW_SLOTS, MOST_MISSES);
    // A stride that prefetchers know costs no more than moving its lines.
    sum.least += if scattered.is_foreseeable { least.min(scattered.least_ns) } else { least };
    let most = scattered.lines * beyond_hit(far_bytes) * SMALL_PAGES / at_once(WINDOW_SLOTS, FEWEST_MISSES);
    sum.unforeseen += most.max(scattered.most_ns * NARROW);
    sum
}

/// Misses under way at once of a block with so many a turn: as many as turns are, and as the core can keep.
pub(crate) fn at_once(block: &Block, lines: f64, window_slots: f64, most: f64) -> f64 {
    let turns = (window_slots / slots(block)).max(1.0);
    (turns * lines).clamp(1.0, most)
}

/// Lines of a turn that do not follow each other.
#[derive(Clone, Copy, Debug)]
struct ScatteredMisses {
    lines: f64,
    /// What moving them takes.
    least_ns: f64,
    most_ns: f64,
    /// Every turn moves all of them by the same distance.
    is_foreseeable: bool,
}

impl Default for ScatteredMisses {
    fn default() -> Self {
        Self { lines: 0.0, least_ns: 0.0, most_ns: 0.0, is_foreseeable: true }
    }
}

impl ScatteredMisses {
    fn add(&mut self, stream: &AddressStream, least_ns: f64, most_ns: f64) {
        let lines = stream.bytes_per_turn() / LINE as f64;
        self.lines += if stream.may_step_further() { stream.lines_per_turn() as f64 } else { lines };
        self.least_ns += least_ns;
        self.most_ns += most_ns;
        self.is_foreseeable &= stream.is_linear;
    }
}

#[cfg(test)]
pub(crate) mod tests;
