//! Writes instructions and, beside each, what it does. Counting happens here, where the meaning is known;
//! a test decodes the bytes and must come to the same counts.

use iced_x86::{
    BlockEncoderOptions, Code, IcedError, Instruction, MemoryOperand, Register,
    code_asm::{CodeAssembler, CodeLabel},
};

use crate::{
    program::{InstructionAction, OperandLocation, ProgramAccess, ProgramPiece},
    truth::TruthCounts,
};

/// The argument block's address.
pub const ARGUMENTS: Register = Register::RDI;
/// Position in sequential streams, or the count of iterations.
pub const POSITION: Register = Register::RAX;
/// Where the loop ends.
pub const END: Register = Register::RSI;
/// Passes still to do.
pub const PASSES: Register = Register::RDX;
/// Free within one operation.
pub const SCRATCH: Register = Register::RCX;

/// Loops begin at a multiple of this, as fetch and µop caches like.
const ALIGNMENT: usize = 64;

/// A place in memory as the code addresses it.
#[derive(Clone, Copy)]
pub struct EmittedOperand {
    /// Registers and displacement.
    pub operand: MemoryOperand,
    /// What is there.
    pub at: OperandLocation,
}

impl EmittedOperand {
    /// A field of the argument block.
    pub fn argument(offset: u64) -> Self {
        let operand = MemoryOperand::with_base_displ(ARGUMENTS, offset as i64);
        Self { operand, at: OperandLocation::Argument(offset) }
    }
}

/// Writes code piece by piece.
pub struct Emitter {
    assembler: CodeAssembler,
    pieces: Vec<ProgramPiece>,
    labels: Vec<CodeLabel>,
}

impl Emitter {
    pub fn new() -> Result<Self, IcedError> {
        Ok(Self { assembler: CodeAssembler::new(64)?, pieces: Vec::new(), labels: Vec::new() })
    }

    /// Begins a new piece here and gives its number.
    pub fn begin_piece(&mut self) -> Result<usize, IcedError> {
        let mut label = self.assembler.create_label();
        self.assembler.set_label(&mut label)?;
        self.labels.push(label);
        self.pieces.push(ProgramPiece::default());
        Ok(self.pieces.len() - 1)
    }

    fn piece(&mut self) -> &mut ProgramPiece {
        self.pieces.last_mut().expect("code is emitted after begin_piece")
    }

    /// One instruction that does nothing counted but itself.
    pub fn plain(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), IcedError> {
        self.piece().counts.instructions += 1;
        self.assembler.add_instruction(instruction?)
    }

    /// One instruction that computes `flops`.
    pub fn computes(
        &mut self,
        instruction: Result<Instruction, IcedError>,
        flops: u64,
    ) -> Result<(), IcedError> {
        self.piece().counts.flops += flops;
        self.plain(instruction)
    }

    /// One instruction that touches memory and computes `flops`.
    pub fn touches(
        &mut self,
        instruction: Result<Instruction, IcedError>,
        at: OperandLocation,
        bytes: u64,
        access: ProgramAccess,
        flops: u64,
    ) -> Result<(), IcedError> {
        self.piece().counts += TruthCounts::of_access(access, bytes);
        self.action(InstructionAction::Touch { at, bytes, access });
        self.computes(instruction, flops)
    }

    /// Notes what the code just written does to the kernel's state.
    pub fn action(&mut self, action: InstructionAction) {
        self.piece().actions.push(action);
    }

    /// A jump to a piece already written.
    pub fn jump_back(&mut self, condition: JumpCondition, piece: usize) -> Result<(), IcedError> {
        self.jump(condition, self.labels[piece])
    }

    /// A jump to a label to be placed later.
    pub fn jump(&mut self, condition: JumpCondition, label: CodeLabel) -> Result<(), IcedError> {
        let counts = &mut self.piece().counts;
        counts.instructions += 1;
        counts.branches += 1;
        match condition {
            JumpCondition::Always => self.assembler.jmp(label),
            JumpCondition::Below => self.assembler.jb(label),
            JumpCondition::NotBelow => self.assembler.jae(label),
            JumpCondition::Zero => self.assembler.je(label),
            JumpCondition::NotZero => self.assembler.jne(label),
            JumpCondition::Carry => self.assembler.jc(label),
        }
    }

    /// A label for a forward jump.
    pub fn label(&mut self) -> CodeLabel {
        self.assembler.create_label()
    }

    /// Begins a new piece that a forward jump reaches.
    pub fn begin_piece_at(&mut self, mut label: CodeLabel) -> Result<usize, IcedError> {
        self.assembler.set_label(&mut label)?;
        // Two labels cannot stand on one instruction: the jump's own label serves as the piece's.
        self.labels.push(label);
        self.pieces.push(ProgramPiece::default());
        Ok(self.pieces.len() - 1)
    }

    /// Fills with nops; the count of instructions is what the assembler's longest nops give.
    pub fn pad(&mut self, bytes: usize) -> Result<(), IcedError> {
        const LONGEST_NOP: usize = 9;
        self.piece().counts.instructions += bytes.div_ceil(LONGEST_NOP) as u64;
        self.assembler.nops_with_size(bytes)
    }

    /// Saves a register on the stack.
    pub fn push(&mut self, register: Register, slot: u64) -> Result<(), IcedError> {
        let instruction = Instruction::with1(Code::Push_r64, register);
        self.touches(instruction, OperandLocation::Stack(slot), 8, ProgramAccess::Write, 0)
    }

    /// Restores a register from the stack.
    pub fn pop(&mut self, register: Register, slot: u64) -> Result<(), IcedError> {
        let instruction = Instruction::with1(Code::Pop_r64, register);
        self.touches(instruction, OperandLocation::Stack(slot), 8, ProgramAccess::Read, 0)
    }

    /// Returns to the caller.
    pub fn ret(&mut self) -> Result<(), IcedError> {
        self.piece().counts.branches += 1;
        let instruction = Ok(Instruction::with(Code::Retnq));
        self.touches(instruction, OperandLocation::Stack(0), 8, ProgramAccess::Read, 0)
    }

    /// The code and its pieces. `aligned` is the piece whose distance to the next boundary is returned.
    pub fn finish(mut self, aligned: usize) -> Result<(Vec<u8>, Vec<ProgramPiece>, usize), IcedError> {
        let result =
            self.assembler.assemble_options(0, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
        let starts: Vec<usize> = self
            .labels
            .iter()
            .map(|label| result.label_ip(label).map(|ip| ip as usize))
            .collect::<Result<_, _>>()?;
        let code = result.inner.code_buffer;
        let ends = starts.iter().skip(1).copied().chain([code.len()]);
        for ((piece, &start), end) in self.pieces.iter_mut().zip(&starts).zip(ends) {
            (piece.start, piece.end) = (start, end);
        }
        let missing = (ALIGNMENT - starts[aligned] % ALIGNMENT) % ALIGNMENT;
        Ok((code, self.pieces, missing))
    }
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug)]
pub enum JumpCondition {
    /// Always.
    Always,
    /// Unsigned less.
    Below,
    /// Unsigned greater or equal.
    NotBelow,
    /// The result was zero.
    Zero,
    /// The result was not zero.
    NotZero,
    /// The tested bit was set.
    Carry,
}
