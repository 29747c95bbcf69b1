//! Vector operations as instructions.

use iced_x86::{Code, IcedError, Instruction, Register};

use super::{Lower, registers::VECTOR_SCRATCH};
use crate::{
    description::{Arithmetic, Op, Operand},
    emit::{EmittedOperand, SCRATCH},
    forms::Form,
    program::ProgramAccess,
};

/// The last operand of a vector instruction.
#[derive(Clone, Copy)]
enum VectorSource {
    Register(usize),
    Memory(EmittedOperand),
}

impl Lower<'_> {
    /// One vector operation of copy `copy`, in the given form.
    pub(super) fn vector_op(&mut self, op: &Op, form: Form, copy: u64) -> Result<(), IcedError> {
        let number = |name: &String| self.registers.vector(name, copy);
        match op {
            Op::Load { to, from } => self.load_vector(form, number(to), self.memory(from, copy, 0)),
            Op::LoadHalves { to, from } => self.load_halves(form, number(to), self.memory(from, copy, 0)),
            Op::Store { to, from, non_temporal: false } => {
                self.store_vector(form, self.memory(to, copy, 0), number(from))
            }
            Op::Store { to, from, non_temporal: true } => {
                self.store_past_caches(form, self.memory(to, copy, 0), number(from))
            }
            Op::Arithmetic { kind, to, left, right } => {
                let (to, left) = (number(to), number(left));
                let right = match *kind == Arithmetic::AddIntegers && form.bytes(self.element()) < 16 {
                    true => self.in_register(right, form, copy)?,
                    false => self.source(right, form, copy)?,
                };
                self.arithmetic(form, *kind, to, left, right)
            }
            Op::Fma { to, a, b, c } => {
                let [to, a, c] = [to, a, c].map(number);
                let b = self.source(b, form, copy)?;
                self.multiply_add(form, to, a, b, c)
            }
            _ => Ok(()),
        }
    }

    fn element(&self) -> u64 {
        self.description().element
    }

    /// Legacy 128-bit operands in memory must be aligned; others are loaded first.
    fn source(&mut self, operand: &Operand, form: Form, copy: u64) -> Result<VectorSource, IcedError> {
        match operand {
            Operand::Register(name) => Ok(VectorSource::Register(self.registers.vector(name, copy))),
            Operand::Memory(place) => {
                let memory = self.memory(place, copy, 0);
                if form == Form::Xmm && !self.aligned(place) {
                    self.load_vector(form, VECTOR_SCRATCH, memory)?;
                    return Ok(VectorSource::Register(VECTOR_SCRATCH));
                }
                Ok(VectorSource::Memory(memory))
            }
        }
    }

    /// Operations without a form for single elements take whole registers.
    fn in_register(&mut self, operand: &Operand, form: Form, copy: u64) -> Result<VectorSource, IcedError> {
        match operand {
            Operand::Register(name) => Ok(VectorSource::Register(self.registers.vector(name, copy))),
            Operand::Memory(place) => {
                self.load_vector(form, VECTOR_SCRATCH, self.memory(place, copy, 0))?;
                Ok(VectorSource::Register(VECTOR_SCRATCH))
            }
        }
    }

    pub(super) fn load_vector(
        &mut self,
        form: Form,
        to: usize,
        from: EmittedOperand,
    ) -> Result<(), IcedError> {
        let instruction = Instruction::with2(form.load(self.element()), form.register(to), from.operand);
        self.emitter.touches(instruction, from.at, form.bytes(self.element()), ProgramAccess::Read, 0)
    }

    pub(super) fn store_vector(
        &mut self,
        form: Form,
        to: EmittedOperand,
        from: usize,
    ) -> Result<(), IcedError> {
        let instruction = Instruction::with2(form.store(self.element()), to.operand, form.register(from));
        self.emitter.touches(instruction, to.at, form.bytes(self.element()), ProgramAccess::Write, 0)
    }

    /// Single elements have no such store of their own: they go through an integer register.
    fn store_past_caches(&mut self, form: Form, to: EmittedOperand, from: usize) -> Result<(), IcedError> {
        let bytes = form.bytes(self.element());
        let source = form.register(from);
        let instruction = match form.store_non_temporal() {
            Some(code) => Instruction::with2(code, to.operand, source),
            None if bytes == 4 => {
                let low = SCRATCH.full_register32();
                self.emitter.plain(Instruction::with2(Code::Movd_rm32_xmm, low, source))?;
                Instruction::with2(Code::Movnti_m32_r32, to.operand, low)
            }
            None => {
                self.emitter.plain(Instruction::with2(Code::Movq_rm64_xmm, SCRATCH, source))?;
                Instruction::with2(Code::Movnti_m64_r64, to.operand, SCRATCH)
            }
        };
        self.emitter.touches(instruction, to.at, bytes, ProgramAccess::NonTemporal, 0)
    }

    /// Lower half, then the upper one inserted, as compilers do to avoid line splits (roehl2016 §2.4).
    fn load_halves(&mut self, form: Form, to: usize, from: EmittedOperand) -> Result<(), IcedError> {
        let Some((load, insert)) = form.halves() else {
            return self.load_vector(form, to, from);
        };
        let half = form.bytes(self.element()) / 2;
        let narrow = if form == Form::Zmm { Form::Ymm } else { Form::Xmm };
        let low = Instruction::with2(load, narrow.register(to), from.operand);
        self.emitter.touches(low, from.at, half, ProgramAccess::Read, 0)?;
        let mut upper = from;
        upper.operand.displacement += half as i64;
        upper.at = from.at.beyond(half);
        let register = form.register(to);
        let high = Instruction::with4(insert, register, register, upper.operand, 1);
        self.emitter.touches(high, upper.at, half, ProgramAccess::Read, 0)
    }

    fn copy_vector(&mut self, form: Form, to: usize, from: usize) -> Result<(), IcedError> {
        self.emitter.plain(Instruction::with2(form.copy(), form.register(to), form.register(from)))
    }

    fn arithmetic(
        &mut self,
        form: Form,
        kind: Arithmetic,
        to: usize,
        left: usize,
        right: VectorSource,
    ) -> Result<(), IcedError> {
        let (code, flops) = (form.arithmetic(kind, self.element()), kind.flops());
        if form.three_operands() {
            return self.compute(form, code, to, Some(left), right, flops);
        }
        match right {
            _ if to == left => self.compute(form, code, to, None, right, flops),
            VectorSource::Register(right) if right == to && kind != Arithmetic::Div => {
                self.compute(form, code, to, None, VectorSource::Register(left), flops)
            }
            VectorSource::Register(right) if right == to => {
                self.copy_vector(form, VECTOR_SCRATCH, right)?;
                self.copy_vector(form, to, left)?;
                self.compute(form, code, to, None, VectorSource::Register(VECTOR_SCRATCH), flops)
            }
            _ => {
                self.copy_vector(form, to, left)?;
                self.compute(form, code, to, None, right, flops)
            }
        }
    }

    /// `to = a · b + c`, fused where the form has it.
    fn multiply_add(
        &mut self,
        form: Form,
        to: usize,
        a: usize,
        b: VectorSource,
        c: usize,
    ) -> Result<(), IcedError> {
        let Some([times_memory, times, plus]) = form.fma(self.element()) else {
            return self.multiply_then_add(form, to, a, b, c);
        };
        match b {
            _ if to == c => self.compute(form, plus, to, Some(a), b, 2),
            VectorSource::Memory(_) if to == a => self.compute(form, times_memory, to, Some(c), b, 2),
            VectorSource::Register(b) if to == a || to == b => {
                let other = if to == a { b } else { a };
                self.compute(form, times, to, Some(other), VectorSource::Register(c), 2)
            }
            _ => {
                self.copy_vector(form, to, c)?;
                self.compute(form, plus, to, Some(a), b, 2)
            }
        }
    }

    fn multiply_then_add(
        &mut self,
        form: Form,
        to: usize,
        a: usize,
        b: VectorSource,
        c: usize,
    ) -> Result<(), IcedError> {
        // The product goes to the scratch register unless nothing there is still needed.
        let product = if to == c { VECTOR_SCRATCH } else { to };
        match b {
            // The unaligned operand was loaded into the scratch register: multiply there.
            VectorSource::Register(VECTOR_SCRATCH) => {
                self.arithmetic(
                    form,
                    Arithmetic::Mul,
                    VECTOR_SCRATCH,
                    VECTOR_SCRATCH,
                    VectorSource::Register(a),
                )?;
                self.arithmetic(form, Arithmetic::Add, to, VECTOR_SCRATCH, VectorSource::Register(c))
            }
            _ => {
                self.arithmetic(form, Arithmetic::Mul, product, a, b)?;
                self.arithmetic(form, Arithmetic::Add, to, product, VectorSource::Register(c))
            }
        }
    }

    /// One computing instruction; `middle` is the operand that legacy forms lack.
    fn compute(
        &mut self,
        form: Form,
        code: Code,
        to: usize,
        middle: Option<usize>,
        last: VectorSource,
        per_lane: u64,
    ) -> Result<(), IcedError> {
        let flops = per_lane * form.lanes(self.element());
        let bytes = form.bytes(self.element());
        let to = form.register(to);
        let middle = middle.map(|number| form.register(number));
        match (last, middle) {
            (VectorSource::Memory(memory), Some(middle)) => {
                let instruction = Instruction::with3(code, to, middle, memory.operand);
                self.emitter.touches(instruction, memory.at, bytes, ProgramAccess::Read, flops)
            }
            (VectorSource::Memory(memory), None) => {
                let instruction = Instruction::with2(code, to, memory.operand);
                self.emitter.touches(instruction, memory.at, bytes, ProgramAccess::Read, flops)
            }
            (VectorSource::Register(number), Some(middle)) => {
                let instruction = Instruction::with3(code, to, middle, form.register(number));
                self.emitter.computes(instruction, flops)
            }
            (VectorSource::Register(number), None) => {
                self.emitter.computes(Instruction::with2(code, to, form.register(number)), flops)
            }
        }
    }

    /// Adds `from` to `to`, both in the given form.
    pub(super) fn add_vectors(&mut self, form: Form, to: usize, from: usize) -> Result<(), IcedError> {
        self.arithmetic(form, Arithmetic::Add, to, to, VectorSource::Register(from))
    }

    /// Sets a vector register to zero.
    pub(super) fn clear_vector(&mut self, form: Form, number: usize) -> Result<(), IcedError> {
        let register = Register::XMM0 + number as u32;
        let instruction = if form.three_operands() {
            // Clearing the lower 128 bits in VEX form clears the whole register.
            Instruction::with3(Code::VEX_Vxorps_xmm_xmm_xmmm128, register, register, register)
        } else {
            Instruction::with2(Code::Xorps_xmm_xmmm128, register, register)
        };
        self.emitter.plain(instruction)
    }
}
