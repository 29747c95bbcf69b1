//! Machine code that is written for a copy: instructions with labels, and memory at absolute addresses.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand, Register,
};
use record::relief::{ReliefBarrier, ReliefRefusal};

/// Labels stand where no code lies.
const LABELS: u64 = 0x1000_0000_0000_0000;

/// A place in a listing, before it has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label(pub u64);

/// Hands out labels.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    count: u64,
}

impl Labels {
    pub fn next(&mut self) -> Label {
        self.count += 1;
        Label(LABELS + 16 * self.count)
    }
}

/// Instructions that lie side by side.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    instructions: Vec<Instruction>,
}

impl Listing {
    /// Adds an instruction behind a label.
    pub fn put(&mut self, label: Label, mut instruction: Instruction) {
        instruction.set_ip(label.0);
        self.instructions.push(instruction);
    }

    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Bytes that it takes at most, with every jump in its longest form.
    pub fn most_bytes(&self) -> u64 {
        const LONGEST_JUMP: u64 = 24;
        let of = |instruction: &Instruction| match instruction.flow_control() {
            iced_x86::FlowControl::Next => 16,
            _ => LONGEST_JUMP,
        };
        self.instructions.iter().map(of).sum::<u64>() + 16
    }

    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
}

/// Encodes listings that jump to each other, each at its address.
pub(crate) fn encode(listings: &[(&Listing, u64)]) -> Result<Vec<Vec<u8>>, ReliefRefusal> {
    let blocks: Vec<InstructionBlock<'_>> = listings
        .iter()
        .map(|(listing, address)| InstructionBlock::new(listing.instructions(), *address))
        .collect();
    let encoded = BlockEncoder::encode_slice(64, &blocks, BlockEncoderOptions::NONE);
    let encoded =
        encoded.map_err(|error| ReliefRefusal::new(ReliefBarrier::UnknownInstruction, error.to_string()))?;
    Ok(encoded.into_iter().map(|block| block.code_buffer).collect())
}

/// The operand at an absolute address, reached relative to the instruction.
pub(crate) fn at(address: u64) -> MemoryOperand {
    MemoryOperand::with_base_displ_size(Register::RIP, address.cast_signed(), 8)
}

/// An instruction that iced knows how to make from these operands; none that we ask for fails.
pub(crate) fn made(
    instruction: Result<Instruction, iced_x86::IcedError>,
) -> Result<Instruction, ReliefRefusal> {
    instruction.map_err(|error| ReliefRefusal::new(ReliefBarrier::UnknownInstruction, error.to_string()))
}

/// `mov register, [address]`.
pub(crate) fn load(register: Register, address: u64) -> Result<Instruction, ReliefRefusal> {
    made(Instruction::with2(Code::Mov_r64_rm64, register, at(address)))
}

/// `mov [address], register`.
pub(crate) fn store(address: u64, register: Register) -> Result<Instruction, ReliefRefusal> {
    made(Instruction::with2(Code::Mov_rm64_r64, at(address), register))
}

/// A jump, or a call, to a label.
pub(crate) fn jump(code: Code, to: Label) -> Result<Instruction, ReliefRefusal> {
    made(Instruction::with_branch(code, to.0))
}
