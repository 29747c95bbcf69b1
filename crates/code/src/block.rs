//! Blocks: straight-line code, decoded once and executed many times.

use serde::{Deserialize, Serialize};

use crate::{
    instruction::{Flow, Instruction},
    memory::MemoryOperand,
    register::Reg,
    uop::{Uop, UopClass},
};

/// Why a block ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its last instruction transfers control.
    Transfer,
    /// The next instruction is the target of a branch, or was named as a leader.
    Leader,
    /// The bytes end.
    EndOfBytes,
    /// What follows is not an instruction.
    Undecodable,
    /// It has [`Block::MAX_INSTRUCTIONS`].
    Full,
}

/// What one execution of a block amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Instructions.
    pub instructions: u64,
    /// µops, [`UopClass::StackPointer`] left out.
    pub uops: u64,
    /// Issue slots on a core with micro- and macro-fusion.
    pub slots: u64,
    /// Memory reads; each element of a gather is one.
    pub loads: u64,
    /// Memory writes; each element of a scatter is one.
    pub stores: u64,
    /// Bytes read by the operands whose size is known.
    pub load_bytes: u64,
    /// Bytes written by the operands whose size is known.
    pub store_bytes: u64,
    /// Reads and writes whose size is only known when they run; counted, but not in the bytes.
    pub unsized_accesses: u64,
    /// Floating-point operations, see [`Instruction::flops`].
    pub flops: u64,
    /// Jumps, calls and returns.
    pub branches: u64,
}

/// Straight-line code: control enters at the top and leaves at the bottom.
///
/// The µops lie in one array in program order, and each memory operand has one place in
/// [`memory`](Self::memory): an execution of the block is its list of addresses in that order and, if it ends in
/// a conditional or indirect branch, where that went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub(crate) instructions: Box<[Instruction]>,
    pub(crate) uops: Box<[Uop]>,
    pub(crate) memory: Box<[MemoryOperand]>,
    pub(crate) target: Option<u64>,
    pub(crate) totals: Totals,
    pub(crate) ending: Ending,
}

impl Block {
    /// Longer straight-line code is cut into several blocks.
    pub const MAX_INSTRUCTIONS: usize = 1 << 16;

    /// Where its first instruction lies.
    pub fn address(&self) -> u64 {
        self.instructions.first().map_or(0, Instruction::address)
    }

    /// The address behind its last instruction.
    pub fn end_address(&self) -> u64 {
        self.instructions.last().map_or(0, Instruction::next_address)
    }

    /// Its length.
    pub fn length_bytes(&self) -> u64 {
        self.end_address().wrapping_sub(self.address())
    }

    /// Its instructions, at least one, in order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// All its µops, in program order.
    pub fn uops(&self) -> &[Uop] {
        &self.uops
    }

    /// All its memory operands, in program order: reads of an instruction before its writes.
    pub fn memory(&self) -> &[MemoryOperand] {
        &self.memory
    }

    /// The µops of one of its instructions.
    pub fn uops_of(&self, instruction: &Instruction) -> &[Uop] {
        let first = instruction.first_uop as usize;
        self.uops.get(first..first + usize::from(instruction.uops)).unwrap_or_default()
    }

    /// The memory operands of one of its instructions.
    pub fn memory_of(&self, instruction: &Instruction) -> &[MemoryOperand] {
        let first = instruction.first_memory as usize;
        self.memory.get(first..first + usize::from(instruction.memory)).unwrap_or_default()
    }

    /// Which of its instructions begins at `address`.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        let offset = |at: u64| at.wrapping_sub(self.address());
        self.instructions.binary_search_by_key(&offset(address), |found| offset(found.address())).ok()
    }

    /// Why it ends.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Where control goes after its last instruction; sequential if the block ends without a transfer.
    pub fn flow(&self) -> Flow {
        self.instructions.last().map_or(Flow::Sequential, Instruction::flow)
    }

    /// The target its last instruction names; none for indirect branches and returns.
    pub fn target(&self) -> Option<u64> {
        self.target
    }

    /// What one execution adds to a general register by constants alone: nothing if it is left alone; none if something else
    /// writes it.
    pub fn step_of(&self, reg: Reg) -> Option<i64> {
        let writes = |instruction: &&Instruction| {
            self.uops_of(instruction).iter().any(|uop| uop.destinations().contains(&reg))
        };
        let mut sum = 0i64;
        for instruction in self.instructions().iter().filter(writes) {
            match instruction.adds {
                0 => return None,
                step => sum += i64::from(step),
            }
        }
        Some(sum)
    }

    /// The address control can fall through to, at once or when a call returns.
    pub fn fall_through(&self) -> Option<u64> {
        self.flow().can_fall_through().then(|| self.end_address())
    }

    /// What one execution amounts to.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

impl Totals {
    /// Counts one instruction, `fused` if it shares the slot of the one before it.
    pub(crate) fn add(
        &mut self,
        instruction: &Instruction,
        uops: &[Uop],
        memory: &[MemoryOperand],
        fused: bool,
    ) {
        let executed = || uops.iter().filter(|uop| uop.class() != UopClass::StackPointer);
        self.instructions += 1;
        self.uops += executed().count() as u64;
        self.slots += executed().filter(|uop| !uop.is_fused()).count() as u64 - u64::from(fused);
        self.loads += u64::from(instruction.loads);
        self.stores += u64::from(instruction.stores);
        self.flops += u64::from(instruction.flops);
        self.branches += u64::from(instruction.flow.is_branch());
        for operand in memory {
            let (reads, writes) = (operand.access().reads(), operand.access().writes());
            match operand.bytes() {
                Some(bytes) => {
                    self.load_bytes += u64::from(bytes) * u64::from(reads);
                    self.store_bytes += u64::from(bytes) * u64::from(writes);
                }
                None => self.unsized_accesses += u64::from(reads) + u64::from(writes),
            }
        }
    }
}
