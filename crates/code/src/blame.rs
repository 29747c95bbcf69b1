//! Whom a sample is blamed on, and whose operand its address is: one rule for whoever records samples and whoever
//! reads them.
//!
//! **Whom.** A core that waits is interrupted when the instruction it waited for retires, and the sample lands behind
//! that one: on most cores the skid is one instruction. So the instruction that many before the sampled one is blamed,
//! in its block or, at the top of a block, at the end of each block that leads there.
//!
//! - A repeated string instruction is interrupted between its steps, and the sample lies on itself.
//! - A conditional jump fused with an instruction that loads retires with it: the load is what was waited for.
//! - Blocks that lead to the same place may end differently: if some would wait for memory or a division and others
//!   not, the sample stays undecided.
//! - A block that nothing is known to lead to is a case of a `switch` if its function jumps indirectly: any of those
//!   jumps leads there. What fills the space between cases is no part of them.
//! - Where nothing leads at all (a function's entry) the first instruction of the block stands for the way there.
//!
//! **Whose operand.** Of the blamed instruction's memory operands the first that is read, else the first. Its address is
//! worked out from the registers of the sample, which are those *behind* the instruction; [`AddressBehind`] says what
//! they still tell.

use std::collections::HashMap;

use crate::{
    block::Block,
    decode::{Decoded, decode_range},
    instruction::{Class, Flow, Instruction},
    memory::MemoryOperand,
    register::Reg,
    uop::{Uop, UopClass},
};

/// A stretch of code, usually a function, and the ways through it.
#[derive(Clone, Debug, Default)]
pub struct Routine {
    decoded: Decoded,
    /// Blocks that lead to a block, by its address.
    leads: HashMap<u64, Vec<usize>>,
    /// Blocks that only an indirect jump can lead to.
    cases: Vec<usize>,
}

/// One instruction of a [`Routine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeSpot {
    /// Its block among [`Routine::blocks`].
    pub block: usize,
    /// Which instruction of the block.
    pub index: usize,
}

/// Whom samples at an address are blamed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// One of these, which all make a core wait for the same kind of thing; usually there is only one.
    Instructions(Vec<CodeSpot>),
    /// Whatever led to the block that begins here, which the code does not tell.
    Entry(CodeSpot),
    /// One of several that differ in kind; this one was sampled.
    Undecided(CodeSpot),
    /// No instruction begins there.
    Unknown,
}

/// What holds a core up that cannot retire an instruction, other than computing and jumping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Data that is read.
    Loads,
    /// Room for data that is written.
    Stores,
    /// A locked access, a fence or a pause.
    Atomics,
    /// A division or a square root.
    Divides,
}

impl Hold {
    /// What an instruction of a block can hold a core up with; none if it only computes, jumps, or uses the top of the
    /// stack or a table of jumps, which are always near.
    pub fn of(block: &Block, instruction: &Instruction) -> Option<Self> {
        // The table of a `switch` or of labels is small, whether it lies at a fixed place or a register points at it.
        let is_table = |operand: &MemoryOperand| {
            instruction.flow() == Flow::IndirectJump
                && (operand.base().is_none() || operand.index().is_some())
        };
        let is_near = |operand: &MemoryOperand| is_stack(operand) || is_table(operand);
        let operands = || block.memory_of(instruction).iter().filter(|operand| !is_near(operand));
        match instruction.class() {
            Class::AtomicOrFence | Class::Pause => Some(Self::Atomics),
            Class::DivideOrSqrt => Some(Self::Divides),
            Class::Prefetch | Class::Nop | Class::System => None,
            _ if operands().any(|operand| operand.access().reads()) => Some(Self::Loads),
            Class::Branch | Class::CallOrReturn => None,
            _ if instruction.has_store() && operands().next().is_some() => Some(Self::Stores),
            _ => None,
        }
    }
}

fn is_stack(operand: &MemoryOperand) -> bool {
    operand.base() == Some(Reg::RSP) && operand.index().is_none()
}

/// Which address the registers of a sample give for an operand of the blamed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressBehind {
    /// The one it used.
    Own,
    /// The one it will use next: it loaded its own address register (`mov r,[r]`).
    Next,
    /// None that it uses: a register of it was overwritten by something that is no address yet, or nobody knows which of
    /// several instructions it was.
    Lost,
}

impl AddressBehind {
    /// For an instruction of a block.
    pub fn of(block: &Block, instruction: &Instruction) -> Self {
        // Between its steps, and behind the last, its registers point at what it touches.
        if instruction.is_repeated() {
            return Self::Own;
        }
        // The registers behind it are those of the return.
        if matches!(instruction.flow(), Flow::Call | Flow::IndirectCall) {
            return Self::Lost;
        }
        let own = block.uops_of(instruction);
        let registers = |operand: &MemoryOperand| [operand.base(), operand.index()];
        let operands = block.memory_of(instruction);
        let mut addressing = operands.iter().flat_map(registers).flatten();
        let writes = |uop: &Uop, reg: Reg| uop.destinations().contains(&reg);
        if !addressing.clone().any(|reg| own.iter().any(|uop| writes(uop, reg))) {
            return Self::Own;
        }
        // A pointer that was loaded is the next address, unless something else changes it before it is used. The next
        // link of an unrolled chain loads it again, which gives an address as well.
        let overwritten = |reg: &Reg| own.iter().any(|uop| writes(uop, *reg));
        let others = || {
            let foreign =
                |other: &&Instruction| other.address() != instruction.address() && !other.widens_itself();
            let uops = block.instructions().iter().filter(foreign).flat_map(|other| block.uops_of(other));
            uops.filter(|uop| uop.class() != UopClass::Load)
        };
        let changed = addressing.any(|reg| overwritten(&reg) && others().any(|uop| writes(uop, reg)));
        let is_pointer = operands.iter().all(|operand| operand.index().is_none());
        if !changed && (is_pointer || block.is_loop()) { Self::Next } else { Self::Lost }
    }
}

/// The operand whose address a sample carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedOperand {
    /// The operand.
    pub operand: MemoryOperand,
    /// What the registers of the sample say of its address.
    pub behind: AddressBehind,
    /// How far they have moved on from the last byte that was touched.
    pub(crate) moved_bytes: u8,
}

impl WatchedOperand {
    /// The operand to watch of an instruction: the first that is read, else the first.
    pub fn choose<'b>(block: &'b Block, instruction: &Instruction) -> Option<&'b MemoryOperand> {
        let operands = block.memory_of(instruction);
        operands.iter().find(|operand| operand.access().reads()).or(operands.first())
    }

    /// The address, given the registers of the sample; none if they do not tell.
    pub fn address(&self, value_of: impl Fn(Reg) -> Option<u64>) -> Option<u64> {
        if self.behind == AddressBehind::Lost {
            return None;
        }
        Some(self.operand.effective_address(value_of)?.wrapping_sub(self.moved_bytes.into()))
    }
}

impl Routine {
    /// Decodes the code that begins at `address`.
    pub fn new(bytes: &[u8], address: u64) -> Self {
        let mut decoded = decode_range(bytes, address, &[]);
        let mut leads = known_leads(&decoded.blocks, &[]);
        let filled = filled(&decoded.blocks, &leads);
        if !filled.is_empty() {
            decoded = decode_range(bytes, address, &filled);
            leads = known_leads(&decoded.blocks, &filled);
        }
        let mut routine = Self { decoded, leads, cases: Vec::new() };
        routine.find_cases();
        routine
    }

    /// Lets indirect jumps lead to what nothing else leads to.
    fn find_cases(&mut self) {
        let blocks = &self.decoded.blocks;
        let jumps: Vec<usize> =
            (0..blocks.len()).filter(|&index| blocks[index].flow() == Flow::IndirectJump).collect();
        if jumps.is_empty() {
            return;
        }
        let is_case = |&index: &usize| {
            !self.leads.contains_key(&blocks[index].address())
                && blocks[index].instructions().iter().any(|one| one.class() != Class::Nop)
        };
        self.cases = (1..blocks.len()).filter(is_case).collect();
        for &case in &self.cases {
            self.leads.insert(self.decoded.blocks[case].address(), jumps.clone());
        }
    }

    /// Blocks that only its indirect jumps can lead to: cases of a `switch`.
    pub fn cases(&self) -> &[usize] {
        &self.cases
    }

    /// Its blocks, by address.
    pub fn blocks(&self) -> &[Block] {
        &self.decoded.blocks
    }

    /// The blocks known to lead to an address within it, calls from itself left out.
    pub fn leads_to(&self, address: u64) -> &[usize] {
        self.leads.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The instruction that begins at an address.
    pub fn spot(&self, address: u64) -> Option<CodeSpot> {
        let after = self.blocks().partition_point(|block| block.address() <= address);
        let block = after.checked_sub(1)?;
        Some(CodeSpot { block, index: self.blocks()[block].index_of(address)? })
    }

    /// Whom samples at an address are blamed on, on a core whose samples land `skid` instructions behind.
    pub fn blame(&self, address: u64, skid: usize) -> Blame {
        let Some(sampled) = self.spot(address) else { return Blame::Unknown };
        let block = &self.blocks()[sampled.block];
        if block.instructions()[sampled.index].is_repeated() {
            return Blame::Instructions(vec![sampled]);
        }
        match sampled.index.checked_sub(skid) {
            Some(index) => {
                Blame::Instructions(vec![CodeSpot { index: behind_fusion(block, index), ..sampled }])
            }
            None => self.blame_before(sampled, skid - sampled.index),
        }
    }

    /// Blames the instruction `back` before the first of a block: that of any block that leads there.
    fn blame_before(&self, sampled: CodeSpot, back: usize) -> Blame {
        let mut spots = Vec::new();
        for &block in self.leads_to(self.blocks()[sampled.block].address()) {
            let before = &self.blocks()[block];
            if let Some(index) = before.instructions().len().checked_sub(back) {
                spots.push(CodeSpot { block, index: behind_fusion(before, index) });
            }
        }
        let hold = |spot: &CodeSpot| {
            let block = &self.blocks()[spot.block];
            Hold::of(block, &block.instructions()[spot.index])
        };
        match spots.first().map(hold) {
            None => Blame::Entry(CodeSpot { index: 0, ..sampled }),
            Some(first) if spots.iter().all(|spot| hold(spot) == first) => Blame::Instructions(spots),
            Some(_) => Blame::Undecided(sampled),
        }
    }

    /// The operand whose address a sample at `address` carries; none if who is blamed touches no memory or is not known.
    pub fn watched(&self, address: u64, skid: usize) -> Option<WatchedOperand> {
        let (spots, is_certain) = match self.blame(address, skid) {
            Blame::Instructions(spots) => (spots, true),
            Blame::Entry(spot) => (vec![spot], false),
            Blame::Undecided(_) | Blame::Unknown => return None,
        };
        let mut all = spots.iter().map(|spot| self.operand(*spot, address));
        let first = all.next()??;
        // Who may have been one of several is watched only if they touch the same.
        let is_certain = is_certain && all.all(|other| other == Some(first));
        Some(WatchedOperand { behind: if is_certain { first.behind } else { AddressBehind::Lost }, ..first })
    }

    pub(crate) fn operand(&self, spot: CodeSpot, sampled: u64) -> Option<WatchedOperand> {
        let block = self.blocks().get(spot.block)?;
        let instruction = block.instructions().get(spot.index)?;
        let operand = *WatchedOperand::choose(block, instruction)?;
        // The last step of a repeated instruction has moved its registers behind the data.
        let is_done = instruction.is_repeated() && instruction.address() != sampled;
        let behind = AddressBehind::of(block, instruction);
        Some(WatchedOperand { operand, behind, moved_bytes: is_done.into() })
    }
}

/// A jump fused with the instruction before it retires with it: a load in that one is what it waits for.
fn behind_fusion(block: &Block, index: usize) -> usize {
    match index.checked_sub(1).and_then(|before| block.instructions().get(before)) {
        Some(before) if before.fuses_with_next() && before.has_load() => index - 1,
        _ => index,
    }
}

/// Which blocks lead to which addresses by what their last instructions say, calls left out. What fills the space before
/// `filled` addresses leads nowhere.
fn known_leads(blocks: &[Block], filled: &[u64]) -> HashMap<u64, Vec<usize>> {
    let mut leads: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, block) in blocks.iter().enumerate() {
        let is_call = matches!(block.flow(), Flow::Call | Flow::IndirectCall);
        let is_filling = block.instructions().iter().all(|one| one.class() == Class::Nop);
        let next = block.fall_through().filter(|next| !(is_filling && filled.contains(next)));
        for target in [block.target().filter(|_| !is_call), next].into_iter().flatten() {
            leads.entry(target).or_default().push(index);
        }
    }
    leads
}

/// Where code begins behind instructions that only fill space: those that nothing leads to do nothing, and are nobody's
/// first.
fn filled(blocks: &[Block], leads: &HashMap<u64, Vec<usize>>) -> Vec<u64> {
    let behind = |block: &Block| {
        let code = block.instructions().iter().position(|one| one.class() != Class::Nop)?;
        (code > 0 && !leads.contains_key(&block.address())).then(|| block.instructions()[code].address())
    };
    blocks.iter().skip(1).filter_map(behind).collect()
}
