//! Integer operations as instructions.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::Lower;
use crate::{
    description::{IntegerOp, Op, Operand, StreamPattern},
    draw,
    emit::{EmittedOperand, SCRATCH},
    numbers::Numbering,
    program::{InstructionAction, LoadedNumber, OperandLocation, ProgramAccess},
};

impl IntegerOp {
    /// With a register as first operand and destination.
    fn code(self) -> Code {
        match self {
            Self::Add => Code::Add_r64_rm64,
            Self::Mul => Code::Imul_r64_rm64,
        }
    }
}

impl Lower<'_> {
    /// One integer operation of copy `copy`.
    pub(super) fn integer_op(&mut self, op: &Op, copy: u64) -> Result<(), IcedError> {
        match op {
            Op::Deref { pointer } => {
                let register = self.registers.integer(pointer);
                let operand = MemoryOperand::with_base(register);
                let instruction = Instruction::with2(Code::Mov_r64_rm64, register, operand);
                self.emitter.touches(instruction, OperandLocation::Pointer, 8, ProgramAccess::Read, 0)
            }
            Op::IntLoad { to, from, bytes } => {
                let memory = self.memory(from, copy, 0);
                let to = self.registers.integer(to);
                let instruction = match bytes {
                    4 => Instruction::with2(Code::Mov_r32_rm32, to.full_register32(), memory.operand),
                    _ => Instruction::with2(Code::Mov_r64_rm64, to, memory.operand),
                };
                self.emitter.touches(instruction, memory.at, *bytes, ProgramAccess::Read, 0)?;
                self.note_number(op, memory.at);
                Ok(())
            }
            Op::IntStore { to, from, bytes } => {
                self.store_integer(self.memory(to, copy, 0), self.registers.integer(from), *bytes)
            }
            Op::Rmw { place, bytes, atomic } => {
                let buffers = match self.description().streams[place.stream].pattern {
                    StreamPattern::Coprime { buffers, .. } => buffers,
                    _ => 1,
                };
                let code = if *bytes == 4 { Code::Inc_rm32 } else { Code::Inc_rm64 };
                for buffer in 0..buffers {
                    let memory = self.memory(place, copy, buffer);
                    let mut instruction = Instruction::with1(code, memory.operand);
                    if let (true, Ok(instruction)) = (*atomic, &mut instruction) {
                        instruction.set_has_lock_prefix(true);
                    }
                    self.emitter.touches(instruction, memory.at, *bytes, ProgramAccess::ReadWrite, 0)?;
                }
                Ok(())
            }
            Op::Integer { kind, to, by } => {
                let to = self.registers.integer(to);
                match by {
                    Operand::Register(by) => self.integer_arithmetic(*kind, to, self.registers.integer(by)),
                    Operand::Memory(place) => {
                        let memory = self.memory(place, copy, 0);
                        let instruction = Instruction::with2(kind.code(), to, memory.operand);
                        self.emitter.touches(instruction, memory.at, 8, ProgramAccess::Read, 0)
                    }
                }
            }
            Op::IntMax { to, by } => {
                let (to, by) = (self.registers.integer(to), self.registers.integer(by));
                self.emitter.plain(Instruction::with2(Code::Cmp_r64_rm64, to, by))?;
                self.emitter.plain(Instruction::with2(Code::Cmovl_r64_rm64, to, by))
            }
            Op::Chain { kind, to, by, times } => {
                let (to, by) = (self.registers.integer(to), self.registers.integer(by));
                (0..self.kernel.amount(*times)).try_for_each(|_| self.integer_arithmetic(*kind, to, by))
            }
            Op::Spread { kind, by, times } => {
                let by = self.registers.integer(by);
                let spread = self.registers.spread.iter().copied().cycle();
                let targets: Vec<_> = spread.take(self.kernel.amount(*times) as usize).collect();
                targets.into_iter().try_for_each(|to| self.integer_arithmetic(*kind, to, by))
            }
            Op::Draw { to, .. } => self.draw(self.registers.integer(to)),
            Op::Step { to, .. } => self.step(self.registers.integer(to)),
            _ => Ok(()),
        }
    }

    /// A number that was just loaded, for whoever goes by it.
    fn note_number(&mut self, op: &Op, at: OperandLocation) {
        let Op::IntLoad { to, .. } = op else { return };
        let OperandLocation::Sequential { stream, offset } = at else { return };
        let numbers = Numbering::of(self.description(), self.geometry, stream);
        if let Some((slot, numbers)) = self.registers.number_slot(to).zip(numbers) {
            let number = LoadedNumber { slot, numbers, offset };
            self.loaded[slot] = Some(number);
            self.emitter.action(InstructionAction::LoadNumber(number));
        }
    }

    pub(super) fn store_integer(
        &mut self,
        to: EmittedOperand,
        from: Register,
        bytes: u64,
    ) -> Result<(), IcedError> {
        let instruction = match bytes {
            4 => Instruction::with2(Code::Mov_rm32_r32, to.operand, from.full_register32()),
            _ => Instruction::with2(Code::Mov_rm64_r64, to.operand, from),
        };
        self.emitter.touches(instruction, to.at, bytes, ProgramAccess::Write, 0)
    }

    fn integer_arithmetic(&mut self, kind: IntegerOp, to: Register, by: Register) -> Result<(), IcedError> {
        self.emitter.plain(Instruction::with2(kind.code(), to, by))
    }

    /// Moves the random sequence on and gives the register of its state.
    pub(super) fn next_random(&mut self) -> Result<Register, IcedError> {
        let random = self.registers.random.expect("allocated with the operation that needs it");
        self.integer_arithmetic(IntegerOp::Mul, random.state, random.factor)?;
        self.integer_arithmetic(IntegerOp::Add, random.state, random.addend)?;
        self.emitter.action(InstructionAction::NextRandom);
        Ok(random.state)
    }

    /// `to` = an element number, through the table: see [`draw::DrawTable::index`].
    fn draw(&mut self, to: Register) -> Result<(), IcedError> {
        let state = self.next_random()?;
        let (table, spare) = self.registers.table.expect("allocated with the operation that needs it");
        let mov = |to: Register, from: Register| Instruction::with2(Code::Mov_r64_rm64, to, from);
        let narrow = |to: Register, from: Register| {
            Instruction::with2(Code::Mov_r32_rm32, to.full_register32(), from.full_register32())
        };
        let shift = |register: Register, by: u32| Instruction::with2(Code::Shr_rm64_imm8, register, by);
        self.emitter.plain(mov(spare, state))?;
        self.emitter.plain(shift(spare, draw::SLOT_SHIFT))?;
        let operand = MemoryOperand::with_base_index_scale(table, spare, 8);
        let entry = Instruction::with2(Code::Mov_r64_rm64, SCRATCH, operand);
        self.emitter.touches(entry, OperandLocation::DrawTable, 8, ProgramAccess::Read, 0)?;
        self.emitter.plain(mov(spare, state))?;
        self.emitter.plain(shift(spare, draw::FRACTION_SHIFT))?;
        self.emitter.plain(narrow(spare, spare))?;
        self.emitter.plain(narrow(to, SCRATCH))?;
        self.emitter.plain(shift(SCRATCH, 32))?;
        self.integer_arithmetic(IntegerOp::Mul, spare, SCRATCH)?;
        self.emitter.plain(shift(spare, 32))?;
        self.integer_arithmetic(IntegerOp::Add, to, spare)?;
        self.emitter.action(InstructionAction::Draw);
        Ok(())
    }

    /// `to` = (to + step) mod elements, without a division.
    fn step(&mut self, to: Register) -> Result<(), IcedError> {
        let walk = self.registers.walk.expect("allocated with the operation that needs it");
        self.integer_arithmetic(IntegerOp::Add, to, walk.step)?;
        self.emitter.plain(Instruction::with2(Code::Mov_r64_rm64, SCRATCH, to))?;
        self.emitter.plain(Instruction::with2(Code::Sub_r64_rm64, SCRATCH, walk.elements))?;
        self.emitter.plain(Instruction::with2(Code::Cmovae_r64_rm64, to, SCRATCH))?;
        self.emitter.action(InstructionAction::Step);
        Ok(())
    }
}
