//! What the code of a block says before any sample is looked at.

use machine::profile::{CoreOperation, LevelName, OperationCost, Profile};

use code::{Block, Class, Flow, Instruction, MemoryAccess, Reg, Uop, UopClass, blame::Hold};

use super::entries::LoopEntries;
use crate::findings::ThreadActivity;

/// Bytes of a cache line.
pub(crate) const LINE: u64 = 64;

/// Slots a core fills per cycle. Wide cores do 4 to 8; only the split of a chain's time depends on it.
const SLOTS_PER_CYCLE: f64 = 6.0;

/// Slots that are under way at once: on the smallest cores of today, and on the largest.
pub(crate) const WINDOW_SLOTS: f64 = 200.0;
pub(crate) const LARGEST_WINDOW_SLOTS: f64 = 512.0;

/// A loop is bound by its chain if that takes this much longer than the busiest unit.
const CHAIN_BOUND: f64 = 1.3;

/// Operations of at least this latency can be waited for.
const LONG_CYCLES: f64 = 3.0;

/// What the core waits for if it waits for this instruction.
pub(crate) fn wait_of(block: &Block, instruction: &Instruction) -> ThreadActivity {
    match (Hold::of(block, instruction), instruction.class()) {
        // Nobody pauses but to wait until another thread goes on.
        (_, Class::Pause) => ThreadActivity::OtherThreads,
        (Some(Hold::Loads), _) => ThreadActivity::Loads,
        (Some(Hold::Stores), _) => ThreadActivity::Stores,
        (Some(Hold::Atomics), _) => ThreadActivity::Atomics,
        (Some(Hold::Divides), _) => ThreadActivity::Divides,
        (None, Class::Branch | Class::CallOrReturn) => ThreadActivity::Branches,
        (None, Class::Multiply | Class::FpArithmetic) if latency_of(block, instruction) >= LONG_CYCLES => {
            ThreadActivity::Chains
        }
        (None, _) => ThreadActivity::Executing,
    }
}

/// What operations cost on a core: as measured, else by tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CoreCosts {
    measured: Vec<OperationCost>,
    /// Cycles of a load that waits for the one before it, in the first cache.
    load_cycles: Option<f64>,
    /// Bytes that the widest loads and stores move per cycle, in the first cache.
    widest: Option<(f64, f64)>,
}

impl CoreCosts {
    pub(crate) fn of(profile: Option<&Profile>) -> Self {
        let Some(profile) = profile else { return Self::default() };
        let first = profile.levels.iter().find(|level| level.name == LevelName::Cache(1));
        let latency_ns = first.and_then(|level| level.latency_ns).map(|latency| latency.value);
        let load_cycles = latency_ns.zip(profile.clock).map(|(ns, clock)| ns * clock.add_hz / 1e9);
        let rates = first.and_then(|level| level.one_core.load.zip(level.one_core.store));
        let widest = rates
            .zip(profile.clock)
            .map(|((load, store), clock)| (load.value / clock.add_hz, store.value / clock.add_hz));
        Self { measured: profile.operations.clone(), load_cycles, widest }
    }

    /// Cycles that a string instruction takes for a byte in the first cache: least, usual and most.
    fn string(&self, block: &Block, string: &Instruction) -> [f64; 3] {
        // As on most cores of today.
        const WIDEST: (f64, f64) = (64.0, 32.0);
        // It moves no more at once than the widest loads and stores do. How long it takes to begin and to end depends on how
        // long it is, which is not known: one of 12 KiB was seen to take 1.7 times as long as its bytes.
        const ERRORS: [f64; 3] = [0.9, 1.6, 3.0];
        // Some cores move twice as much.
        const TABLE_ERRORS: [f64; 3] = [0.45, 1.6, 3.0];
        let measured = self.widest.filter(|(load, store)| *load > 0.0 && *store > 0.0);
        let (load, store) = measured.unwrap_or(WIDEST);
        let per_byte = if writes_memory(block, string) { 1.0 / store } else { 1.0 / load };
        let errors = if measured.is_some() { ERRORS } else { TABLE_ERRORS };
        errors.map(|error| error * per_byte)
    }

    fn measured(&self, class: UopClass) -> Option<&OperationCost> {
        let operation = match class {
            UopClass::FpAdd => CoreOperation::FpAdd,
            UopClass::FpMul => CoreOperation::FpMul,
            UopClass::FpDiv => CoreOperation::FpDiv,
            UopClass::Load => CoreOperation::Load,
            UopClass::StoreData | UopClass::StoreAddress => CoreOperation::Store,
            _ => return None,
        };
        self.cost_of(operation)
    }

    fn cost_of(&self, operation: CoreOperation) -> Option<&OperationCost> {
        self.measured.iter().find(|cost| cost.operation == operation)
    }

    /// Cycles of an atomic on a line that the core has for itself: least, usual and most.
    fn atomic(&self) -> [f64; 3] {
        // Cores of today differ by that much.
        const USUAL: [f64; 3] = [6.0, 18.0, 45.0];
        const ERROR: f64 = 1.2;
        // A load of what was just changed comes once that is in the first cache.
        const THEN_LOADED: f64 = 2.3;
        let measured = self.cost_of(CoreOperation::Atomic).and_then(|cost| cost.per_cycle);
        measured.map_or(USUAL, |rate| [1.0 / (rate * ERROR), 1.0 / rate, THEN_LOADED / rate])
    }

    fn latency(&self, class: UopClass) -> f64 {
        let loaded = self.load_cycles.filter(|cycles| class == UopClass::Load && *cycles > 0.0);
        let own = || self.measured(class).and_then(|cost| cost.latency_cycles);
        loaded.or_else(own).unwrap_or_else(|| latency(class))
    }

    /// Of the slowest of a class: additions were measured, but a maximum is of the same class and takes four cycles where they
    /// take two.
    fn longest_latency(&self, class: UopClass) -> f64 {
        const MAXIMUM: f64 = 4.0;
        let own = self.latency(class);
        match class {
            UopClass::FpAdd => own.max(MAXIMUM),
            // Measured with the simplest address there is.
            UopClass::Load => own.max(latency(class)),
            _ => own,
        }
    }

    fn per_cycle(&self, uop: &Uop) -> f64 {
        // Only operations on one element were measured, and how many bytes the widest loads and stores move.
        let narrow = || self.measured(uop.class()).filter(|_| uop.width_bytes() <= 16)?.per_cycle;
        let wide = || {
            let (load, store) = self.widest.filter(|_| is_wide(uop))?;
            let bytes = match uop.class() {
                UopClass::Load => load,
                UopClass::StoreData | UopClass::StoreAddress => store,
                _ => return None,
            };
            Some(bytes / f64::from(uop.width_bytes()))
        };
        narrow().or_else(wide).unwrap_or_else(|| per_cycle(uop))
    }

    /// At most: some cores do operations of 64 bytes in two halves, others at once; and some load twice as many integers at once
    /// as vectors, of which loads were measured.
    fn most_per_cycle(&self, uop: &Uop) -> f64 {
        let is_access = matches!(uop.class(), UopClass::Load | UopClass::StoreData | UopClass::StoreAddress);
        let is_measured = is_access && self.widest.is_some();
        let is_open = is_wide(uop) && !is_measured || is_integer_load(uop);
        self.per_cycle(uop) * if is_open { 2.0 } else { 1.0 }
    }

    /// How far chains and units may be off, downwards and upwards.
    fn errors(&self) -> [(f64, f64); 2] {
        if self.measured.is_empty() { TABLE_ERRORS } else { MEASURED_ERRORS }
    }
}

/// Of chains tables know more than of units: additions take two cycles on some cores and four on others, but no schedule
/// keeps all units busy.
const TABLE_ERRORS: [(f64, f64); 2] = [(1.5, 1.2), (1.2, 1.4)];

/// The same where the core's own operations were measured.
const MEASURED_ERRORS: [(f64, f64); 2] = [(1.1, 1.15), (1.1, 1.3)];

/// Where a turn begins with a jump, what is fetched behind the jump before it is lost: part of a cycle, or a whole one.
const JUMP_CYCLES: f64 = 1.0;

/// Cycles from operands to result, roughly as on every wide x86 core of the last ten years.
pub(crate) fn latency(class: UopClass) -> f64 {
    match class {
        UopClass::Load => 5.0,
        UopClass::IntMul | UopClass::VectorMul | UopClass::FpAdd | UopClass::Transfer => 3.0,
        UopClass::FpMul | UopClass::FpFma | UopClass::FpConvert => 4.0,
        UopClass::IntDiv | UopClass::FpDiv => 13.0,
        UopClass::FpSqrt => 18.0,
        UopClass::Zero | UopClass::Nop | UopClass::StackPointer | UopClass::Move | UopClass::Prefetch => 0.0,
        _ => 1.0,
    }
}

/// How many µops like this one can begin per cycle.
fn per_cycle(uop: &Uop) -> f64 {
    let narrow = match uop.class() {
        UopClass::StoreData | UopClass::StoreAddress | UopClass::IntMul => 1.0,
        UopClass::IntDiv | UopClass::FpDiv | UopClass::FpSqrt => 0.2,
        UopClass::IntAlu => 4.0,
        UopClass::VectorInt | UopClass::VectorLogic => 3.0,
        _ => 2.0,
    };
    if is_wide(uop) { narrow / 2.0 } else { narrow }
}

fn is_integer_load(uop: &Uop) -> bool {
    uop.class() == UopClass::Load && uop.destinations().iter().any(|reg| reg.is_general())
}

fn is_wide(uop: &Uop) -> bool {
    uop.width_bytes() >= 64
}

fn latency_of(block: &Block, instruction: &Instruction) -> f64 {
    block.uops_of(instruction).iter().map(|uop| latency(uop.class())).fold(0.0, f64::max)
}

/// Of a block that loops on itself: the shares of its time, were nothing to miss, that go to waiting for one result
/// after the other. 0 where the units are busy all the time, or the block is no loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChainShare {
    /// For operations.
    pub results: f64,
    /// For loads that find their data in the first cache.
    pub near: f64,
}

impl ChainShare {
    pub(crate) fn of(block: &Block, entries: &LoopEntries) -> Self {
        let bounding = |of: &dyn Fn(UopClass) -> f64| bounding_chain(block, of, entries, WINDOW_SLOTS);
        let chain = if block.is_loop() { bounding(&latency) } else { 0.0 };
        if chain <= CHAIN_BOUND * busy_cycles(block, per_cycle) {
            return Self::default();
        }
        let share = 1.0 - slot_cycles(block) / chain;
        let free_loads = |class: UopClass| if class == UopClass::Load { 0.0 } else { latency(class) };
        // Another chain may be the longest without loads.
        let near = share * (1.0 - bounding(&free_loads) / chain).clamp(0.0, 1.0);
        Self { results: share - near, near }
    }

    /// Both.
    pub(crate) fn all(self) -> f64 {
        self.results + self.near
    }
}

/// Cycles of one turn of a loop, if nothing misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnCycles {
    /// On a core that is better than the tables say.
    pub least: f64,
    /// By the tables.
    pub usual: f64,
    /// On one that is worse.
    pub most: f64,
}

impl TurnCycles {
    /// By what operations cost on the core; of a string instruction by the byte.
    pub(crate) fn of(block: &Block, costs: &CoreCosts, entries: &LoopEntries) -> Self {
        if let Some(string) = block.string() {
            let [least, usual, most] = costs.string(block, string);
            return Self { least, usual, most };
        }
        let longest_chain = chain_cycles(block, |class| costs.longest_latency(class));
        let latency = |class| costs.latency(class);
        let bounding_chain = |window| bounding_chain(block, latency, entries, window);
        let handed_on = loads_of_stored(block) as f64 * HANDED_ON_CYCLES;
        let busy = busy_cycles(block, |uop| costs.per_cycle(uop));
        let least_busy = busy_cycles(block, |uop| costs.most_per_cycle(uop));
        let [(chain_down, chain_up), (busy_down, busy_up)] = costs.errors();
        // Nothing passes an atomic, but what is before it may still be under way.
        let atomics = block.instructions().iter().filter(|one| one.class() == Class::AtomicOrFence).count();
        let atomics = costs.atomic().map(|cycles| cycles * atomics as f64);
        Self {
            least: (bounding_chain(LARGEST_WINDOW_SLOTS) / chain_down)
                .max(least_busy / busy_down)
                .max(atomics[0]),
            usual: bounding_chain(WINDOW_SLOTS).max(busy).max(atomics[1]),
            most: (longest_chain * chain_up).max(busy * busy_up + JUMP_CYCLES) + atomics[2] + handed_on,
        }
    }

    /// The same as nanoseconds.
    pub(crate) fn at(self, clock_hz: f64) -> Self {
        let ns = |cycles: f64| cycles * 1e9 / clock_hz;
        Self { least: ns(self.least), usual: ns(self.usual), most: ns(self.most) }
    }
}

/// Cycles that the busiest kind of unit needs.
fn busy_cycles(block: &Block, per_cycle: impl Fn(&Uop) -> f64) -> f64 {
    let mut uses = [0.0; UopClass::COUNT];
    for uop in block.uops() {
        uses[uop.class() as usize] += 1.0 / per_cycle(uop);
    }
    uses.into_iter().fold(slot_cycles(block), f64::max)
}

/// Slots that one execution of a block takes.
pub(crate) fn slots(block: &Block) -> f64 {
    block.totals().slots.max(1) as f64
}

fn slot_cycles(block: &Block) -> f64 {
    block.totals().slots as f64 / SLOTS_PER_CYCLE
}

/// Cycles that one turn of the loop adds to its longest chain of results.
fn chain_cycles(block: &Block, latency: impl Fn(UopClass) -> f64) -> f64 {
    chain_cycles_of(block, latency, |_| true)
}

/// The same of the chains that bound its time: those that go on through its entries, and the others as far as they are longer
/// than what is under way at once.
fn bounding_chain(
    block: &Block,
    latency: impl Fn(UopClass) -> f64,
    entries: &LoopEntries,
    window_slots: f64,
) -> f64 {
    let kept = chain_cycles_of(block, &latency, |reg| entries.keeps(reg));
    kept.max(chain_cycles(block, &latency) * entries.bound_part(block, window_slots))
}

/// Cycles that one turn adds to the longest chain of results through registers that are kept from turn to turn.
fn chain_cycles_of(block: &Block, latency: impl Fn(UopClass) -> f64, keeps: impl Fn(usize) -> bool) -> f64 {
    const WARM: usize = 4;
    const TURNS: usize = 8;
    let mut ready = [0.0f64; Reg::COUNT];
    let mut warm = 0.0;
    for turn in 0..TURNS {
        if turn == WARM {
            warm = ready.iter().copied().fold(0.0, f64::max);
        }
        let begins_anew = ready.iter_mut().enumerate().filter(|(reg, _)| !keeps(*reg));
        begins_anew.for_each(|(_, ready)| *ready = 0.0);
        for uop in block.uops() {
            let start = uop.sources().iter().map(|reg| ready[reg.index()]).fold(0.0, f64::max);
            for reg in uop.destinations() {
                ready[reg.index()] = start + latency(uop.class());
            }
        }
    }
    (ready.iter().copied().fold(0.0, f64::max) - warm) / (TURNS - WARM) as f64
}

/// Of a loop that waits for nothing but one chain through a load: what a turn takes in the first cache, as a multiple of what it
/// takes beside that load. None of other loops.
pub(crate) fn chase_beside(block: &Block, costs: &CoreCosts) -> Option<f64> {
    let chases = block.instructions().iter().any(|instruction| feeds_itself(block, instruction));
    let chain = chain_cycles(block, |class| costs.latency(class));
    let busy = busy_cycles(block, |uop| costs.per_cycle(uop));
    if !block.is_loop() || !chases || chain <= CHAIN_BOUND * busy {
        return None;
    }
    let beside =
        chain_cycles(block, |class| if class == UopClass::Load { 0.0 } else { costs.latency(class) });
    (beside > 0.0).then(|| chain / beside)
}

/// Cycles that a load of what was just stored may take: some cores hand it on at once, others only once the store is done.
const HANDED_ON_CYCLES: f64 = 6.0;

/// Loads of what the same turn has stored before.
fn loads_of_stored(block: &Block) -> usize {
    type Stored = (Option<Reg>, Option<Reg>, i64, i64);
    let mut stored: Vec<Stored> = Vec::new();
    let mut found = 0;
    for operand in block.instructions().iter().flat_map(|instruction| block.memory_of(instruction)) {
        let (base, index) = (operand.base(), operand.index());
        let (from, bytes) = (operand.displacement(), i64::from(operand.bytes().unwrap_or(8)));
        let overlaps =
            |&(b, i, at, length): &Stored| (b, i) == (base, index) && from < at + length && at < from + bytes;
        found += usize::from(operand.access().reads() && stored.iter().any(overlaps));
        if operand.access().writes() {
            stored.push((base, index, from, bytes));
        }
    }
    found
}

/// Cycles in which a turn's loads and stores keep the first cache busy.
pub(crate) fn access_cycles(block: &Block, costs: &CoreCosts) -> f64 {
    let of = |class: UopClass| {
        block
            .uops()
            .iter()
            .filter(|uop| uop.class() == class)
            .map(|uop| 1.0 / costs.per_cycle(uop))
            .sum::<f64>()
    };
    of(UopClass::Load).max(of(UopClass::StoreData))
}

/// Whether what a block branches on, or where it jumps to, needs a load of the block: a wrong guess is then seen where the load
/// is.
pub(crate) fn branches_on_load(block: &Block) -> bool {
    let mut tainted = [false; Reg::COUNT];
    let mut found = false;
    for uop in block.uops() {
        let from = uop.class() == UopClass::Load || reads(uop, &tainted);
        found = uop.class() == UopClass::Branch && reads(uop, &tainted);
        for reg in uop.destinations() {
            tainted[reg.index()] = from;
        }
    }
    found && matches!(block.flow(), Flow::Conditional | Flow::IndirectJump)
}

/// Whether an instruction writes to memory.
pub(crate) fn writes_memory(block: &Block, instruction: &Instruction) -> bool {
    block.memory_of(instruction).iter().map(|operand| operand.access()).any(MemoryAccess::writes)
}

/// Whether a load's result reaches its own address when the block is executed again: the next one waits for this one. What
/// a lookup loads may lie in a register of its address too, and is overwritten before the next.
pub(crate) fn feeds_itself(block: &Block, instruction: &Instruction) -> bool {
    let own = block.uops_of(instruction);
    let Some(load) = own.iter().find(|uop| uop.class() == UopClass::Load) else { return false };
    let Some(at) = block.uops().iter().position(|uop| std::ptr::eq(uop, load)) else { return false };
    let mut tainted = [false; Reg::COUNT];
    load.destinations().iter().for_each(|reg| tainted[reg.index()] = true);
    for uop in block.uops()[at + 1..].iter().chain(&block.uops()[..at]) {
        let from = reads(uop, &tainted);
        for reg in uop.destinations() {
            tainted[reg.index()] = from;
        }
    }
    reads(load, &tainted)
}

fn reads(uop: &Uop, tainted: &[bool; Reg::COUNT]) -> bool {
    uop.sources().iter().any(|reg| tainted[reg.index()])
}

#[cfg(test)]
mod tests;
