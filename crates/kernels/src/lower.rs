//! From a description, a width and a geometry to machine code.

mod integer;
mod registers;
mod triangle;
mod vector;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};
use machine::Width;

use self::registers::RegisterSet;
use crate::{
    description::{Description, KernelShape, Op, Operand, OperandPlace, StreamPattern},
    emit::{ARGUMENTS, END, EmittedOperand, Emitter, JumpCondition, PASSES, POSITION, SCRATCH},
    forms::Form,
    geometry::Geometry,
    kernel::Kernel,
    program::{
        AssembleError, InstructionAction, KernelProgram, LoadedNumber, MOST_NUMBERS, OperandLocation,
        ProgramAccess, ProgramNode, Saved, Times, offsets,
    },
};

/// The code of one thread. `role` chooses the body where threads take turns.
pub fn assemble(
    kernel: &Kernel,
    width: Width,
    geometry: &Geometry,
    role: usize,
) -> Result<KernelProgram, AssembleError> {
    let body = match (&kernel.description().shape, role) {
        (KernelShape::Private(body) | KernelShape::Triangle(body), _) => body,
        (KernelShape::Turns { first, .. }, 0) => first,
        (KernelShape::Turns { second, .. }, _) => second,
    };
    let registers = RegisterSet::allocate(kernel, body)?;
    let lower = |pad| {
        let emitter = Emitter::new()?;
        let (form, loaded) = (Form::of(width), [None; MOST_NUMBERS]);
        Lower { kernel, body, width, form, geometry, registers: &registers, loaded, emitter }.run(pad)
    };
    let encoding = |source| AssembleError::Encoding { kernel: kernel.name().to_owned(), source };
    // The first round tells how far the loop is from a boundary, the second moves it there.
    let (_, missing) = lower(0).map_err(encoding)?;
    let (program, _) = lower(missing).map_err(encoding)?;
    Ok(program)
}

/// One round of lowering.
struct Lower<'a> {
    kernel: &'a Kernel,
    body: &'a [Op],
    width: Width,
    form: Form,
    geometry: &'a Geometry,
    registers: &'a RegisterSet,
    /// What each register that holds a number was loaded with last, by slot.
    loaded: [Option<LoadedNumber>; MOST_NUMBERS],
    emitter: Emitter,
}

impl Lower<'_> {
    fn description(&self) -> &Description {
        self.kernel.description()
    }

    fn run(mut self, pad: usize) -> Result<(KernelProgram, usize), IcedError> {
        let prologue = self.emitter.begin_piece()?;
        let values = self.prologue()?;
        self.emitter.pad(pad)?;
        let triangle = matches!(self.description().shape, KernelShape::Triangle(_));
        let (loops, aligned) = if triangle { self.rows()? } else { self.passes()? };
        let epilogue = self.emitter.begin_piece()?;
        let results = self.epilogue()?;
        let node = |piece| ProgramNode::Piece { piece, skips: None };
        let (width, element) = (self.width, self.description().element);
        let (code, pieces, missing) = self.emitter.finish(aligned)?;
        let flow = vec![node(prologue), loops, node(epilogue)];
        Ok((KernelProgram { code, pieces, flow, results, values, width, element }, missing))
    }

    /// Saves registers and loads what the loop needs. Gives the first values of vector registers.
    fn prologue(&mut self) -> Result<Vec<f64>, IcedError> {
        for (slot, &register) in self.registers.saved.iter().enumerate() {
            self.emitter.push(register, slot as u64 + 1)?;
        }
        self.load_argument(END, offsets::END)?;
        self.load_argument(PASSES, offsets::PASSES)?;
        for (register, offset) in self.registers.arguments.clone() {
            self.load_argument(register, offset)?;
        }
        for (register, value) in self.registers.integers.clone() {
            self.emitter.plain(Instruction::with2(Code::Mov_r64_imm64, register, value as u64))?;
        }
        let mut values = Vec::new();
        for (number, value) in self.registers.floats.clone() {
            let memory = EmittedOperand::argument(offsets::VALUES + 64 * values.len() as u64);
            self.load_vector(self.form, number, memory)?;
            values.push(value);
        }
        Ok(values)
    }

    fn load_argument(&mut self, register: Register, offset: u64) -> Result<(), IcedError> {
        let memory = EmittedOperand::argument(offset);
        let instruction = Instruction::with2(Code::Mov_r64_rm64, register, memory.operand);
        self.emitter.touches(instruction, memory.at, 8, ProgramAccess::Read, 0)
    }

    /// The passes over the loop, and the piece where the loop begins.
    fn passes(&mut self) -> Result<(ProgramNode, usize), IcedError> {
        let outer = self.emitter.begin_piece()?;
        self.clear(POSITION)?;
        self.emitter.action(InstructionAction::Rewind);
        for (register, offset) in self.walking_pointers() {
            self.load_argument(register, offset)?;
        }
        let first = self.emitter.begin_piece()?;
        let mut nodes = Vec::new();
        let mut current = first;
        for copy in 0..self.description().unroll {
            for op in self.body {
                self.op(op, copy, &mut current, &mut nodes)?;
            }
        }
        self.advance_and_repeat(self.geometry.step, first)?;
        nodes.push(ProgramNode::Piece { piece: current, skips: None });
        let tail = self.emitter.begin_piece()?;
        self.emitter.plain(Instruction::with1(Code::Dec_rm64, PASSES))?;
        self.emitter.jump_back(JumpCondition::NotZero, outer)?;
        let inner = ProgramNode::Loop { times: Times::Iterations, body: nodes };
        let body = vec![
            ProgramNode::Piece { piece: outer, skips: None },
            inner,
            ProgramNode::Piece { piece: tail, skips: None },
        ];
        Ok((ProgramNode::Loop { times: Times::Passes, body }, first))
    }

    fn clear(&mut self, register: Register) -> Result<(), IcedError> {
        let low = register.full_register32();
        self.emitter.plain(Instruction::with2(Code::Xor_r32_rm32, low, low))
    }

    /// Pointers that move on with the position, and where in the arguments they begin.
    fn walking_pointers(&self) -> Vec<(Register, u64)> {
        let description = self.description();
        let walks = |stream: usize| {
            matches!(
                description.streams[stream].pattern,
                StreamPattern::Sequential { .. } | StreamPattern::Numbers { .. }
            )
        };
        let of_stream = |stream: usize| Some((self.registers.bases[stream]?, offsets::base(stream)));
        let streams = (0..description.streams.len()).filter(|&stream| description.pointers && walks(stream));
        streams.filter_map(of_stream).collect()
    }

    /// Moves the position on and jumps back while it is below the end.
    fn advance_and_repeat(&mut self, bytes: u64, first: usize) -> Result<(), IcedError> {
        let code = if bytes < 128 { Code::Add_rm64_imm8 } else { Code::Add_rm64_imm32 };
        for (pointer, _) in self.walking_pointers() {
            self.emitter.plain(Instruction::with2(code, pointer, bytes as i32))?;
        }
        self.emitter.plain(Instruction::with2(code, POSITION, bytes as i32))?;
        self.emitter.action(InstructionAction::Advance(bytes));
        self.emitter.plain(Instruction::with2(Code::Cmp_r64_rm64, POSITION, END))?;
        self.emitter.jump_back(JumpCondition::Below, first)
    }

    /// One operation of copy `copy`. Operations with branches end the current piece and begin another.
    fn op(
        &mut self,
        op: &Op,
        copy: u64,
        current: &mut usize,
        nodes: &mut Vec<ProgramNode>,
    ) -> Result<(), IcedError> {
        match op {
            Op::Load { .. }
            | Op::LoadHalves { .. }
            | Op::Store { .. }
            | Op::Arithmetic { .. }
            | Op::Fma { .. } => self.vector_op(op, self.form, copy),
            Op::Nops { times } => self.nop_loop(self.kernel.amount(*times), current, nodes),
            Op::Coin { heads, tails, by } => self.coin([heads, tails, by], current, nodes),
            Op::Branch { on, below, heads, tails, by } => {
                self.branch(on, *below, [heads, tails, by], current, nodes)
            }
            other => self.integer_op(other, copy),
        }
    }

    /// A counted loop of nops, as helm2019 §4.3.1 writes it.
    fn nop_loop(
        &mut self,
        times: u64,
        current: &mut usize,
        nodes: &mut Vec<ProgramNode>,
    ) -> Result<(), IcedError> {
        if times == 0 {
            return Ok(());
        }
        self.emitter.plain(Instruction::with2(
            Code::Mov_r32_imm32,
            SCRATCH.full_register32(),
            times as i32,
        ))?;
        nodes.push(ProgramNode::Piece { piece: *current, skips: None });
        let piece = self.emitter.begin_piece()?;
        self.emitter.plain(Ok(Instruction::with(Code::Nopd)))?;
        self.emitter.plain(Instruction::with1(Code::Dec_rm64, SCRATCH))?;
        self.emitter.jump_back(JumpCondition::NotZero, piece)?;
        nodes.push(ProgramNode::Loop {
            times: Times::Fixed(times),
            body: vec![ProgramNode::Piece { piece, skips: None }],
        });
        *current = self.emitter.begin_piece()?;
        Ok(())
    }

    /// A branch on the top bit of the random sequence.
    fn coin(
        &mut self,
        names: [&String; 3],
        current: &mut usize,
        nodes: &mut Vec<ProgramNode>,
    ) -> Result<(), IcedError> {
        let random = self.next_random()?;
        self.emitter.plain(Instruction::with2(Code::Bt_rm64_imm8, random, 63))?;
        let [heads, tails] = self.two_ways(JumpCondition::Carry, names, current, nodes)?;
        nodes.push(ProgramNode::Coin { heads, tails });
        Ok(())
    }

    /// A branch on a number that was loaded.
    fn branch(
        &mut self,
        on: &str,
        below: u64,
        names: [&String; 3],
        current: &mut usize,
        nodes: &mut Vec<ProgramNode>,
    ) -> Result<(), IcedError> {
        let compare = Instruction::with2(Code::Cmp_rm64_imm32, self.registers.integer(on), below as i32);
        self.emitter.plain(compare)?;
        let [heads, tails] = self.two_ways(JumpCondition::NotBelow, names, current, nodes)?;
        let slot = self.registers.number_slot(on);
        let on =
            slot.and_then(|slot| self.loaded[slot]).expect("the parser lets branches go by numbers only");
        nodes.push(ProgramNode::Branch { on, below, heads, tails });
        Ok(())
    }

    /// Adds to one register or jumps and adds to the other: the two pieces.
    fn two_ways(
        &mut self,
        to_tails: JumpCondition,
        names: [&String; 3],
        current: &mut usize,
        nodes: &mut Vec<ProgramNode>,
    ) -> Result<[usize; 2], IcedError> {
        let [heads, tails, by] = names.map(|name| self.registers.integer(name));
        let (on_tails, after) = (self.emitter.label(), self.emitter.label());
        self.emitter.jump(to_tails, on_tails)?;
        nodes.push(ProgramNode::Piece { piece: *current, skips: None });
        let heads_piece = self.emitter.begin_piece()?;
        self.emitter.plain(Instruction::with2(Code::Add_r64_rm64, heads, by))?;
        self.emitter.jump(JumpCondition::Always, after)?;
        let tails_piece = self.emitter.begin_piece_at(on_tails)?;
        self.emitter.plain(Instruction::with2(Code::Add_r64_rm64, tails, by))?;
        *current = self.emitter.begin_piece_at(after)?;
        Ok([heads_piece, tails_piece])
    }

    /// Saves results, restores registers and returns.
    fn epilogue(&mut self) -> Result<Vec<Saved>, IcedError> {
        let mut results = Vec::new();
        for (name, number) in self.registers.vector_results.clone() {
            let memory = EmittedOperand::argument(offsets::RESULTS + 64 * results.len() as u64);
            self.store_vector(self.form, memory, number)?;
            results.push(Saved { name, vector: true });
        }
        for (name, register) in self.registers.integer_results.clone() {
            let memory = EmittedOperand::argument(offsets::RESULTS + 64 * results.len() as u64);
            self.store_integer(memory, register, 8)?;
            results.push(Saved { name, vector: false });
        }
        if let Some(random) = &self.registers.random {
            self.store_integer(EmittedOperand::argument(offsets::RANDOM), random.state, 8)?;
        }
        if self.body.iter().any(|op| matches!(op, Op::Store { non_temporal: true, .. })) {
            self.emitter.plain(Ok(Instruction::with(Code::Sfence)))?;
        }
        if matches!(self.form, Form::Ymm | Form::Zmm) {
            self.emitter.plain(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        }
        for (slot, &register) in self.registers.saved.iter().enumerate().rev() {
            self.emitter.pop(register, slot as u64 + 1)?;
        }
        self.emitter.ret()?;
        Ok(results)
    }

    /// Where a place of copy `copy` is; `buffer` counts the parts of a coprime stream.
    fn memory(&self, place: &OperandPlace, copy: u64, buffer: u64) -> EmittedOperand {
        let OperandPlace { stream, offset, index } = place;
        let (stream, offset) = (*stream, *offset as u64);
        let base = self.registers.bases[stream].unwrap_or(ARGUMENTS);
        let triangle = matches!(self.description().shape, KernelShape::Triangle(_));
        match self.description().streams[stream].pattern {
            StreamPattern::Sequential { .. } | StreamPattern::Numbers { .. } => {
                let offset = copy * self.geometry.stride + offset;
                let operand = match self.description().pointers {
                    true => MemoryOperand::with_base_displ_size(base, offset as i64, 1),
                    false => {
                        MemoryOperand::with_base_index_scale_displ_size(base, POSITION, 1, offset as i64, 1)
                    }
                };
                let at = match (triangle, stream) {
                    (true, 0) => OperandLocation::Matrix { offset },
                    _ => OperandLocation::Sequential { stream, offset },
                };
                EmittedOperand { operand, at }
            }
            StreamPattern::Fixed => {
                let operand = MemoryOperand::with_base_displ_size(base, offset as i64, 1);
                EmittedOperand { operand, at: OperandLocation::Fixed { stream, offset } }
            }
            StreamPattern::Drawn { element, .. } | StreamPattern::Coprime { element, .. } => {
                let index = self.registers.integer(index.as_deref().unwrap_or_default());
                let offset = buffer * self.geometry.pitch + offset;
                let operand = MemoryOperand::with_base_index_scale_displ_size(
                    base,
                    index,
                    element as u32,
                    offset as i64,
                    1,
                );
                EmittedOperand { operand, at: OperandLocation::Element { stream, offset, element } }
            }
            StreamPattern::Gathered { element } => {
                let number = index.as_deref().unwrap_or_default();
                let slot = self.registers.number_slot(number).unwrap_or_default();
                let number = self.registers.integer(number);
                let operand =
                    MemoryOperand::with_base_index_scale_displ_size(base, number, element as u32, 0, 1);
                EmittedOperand { operand, at: OperandLocation::Gathered { stream, element, slot } }
            }
            StreamPattern::Cycle { .. } => unreachable!("the parser lets only deref touch a cycle"),
        }
    }

    /// Whether an address is a multiple of 16 in every iteration, as legacy memory operands demand.
    fn aligned(&self, place: &OperandPlace) -> bool {
        place.offset % 16 == 0
            && match self.description().streams[place.stream].pattern {
                StreamPattern::Sequential { .. } => self.geometry.stride.is_multiple_of(16),
                StreamPattern::Fixed => true,
                _ => false,
            }
    }
}

/// The places an operation touches.
pub fn places(op: &Op) -> Option<&OperandPlace> {
    match op {
        Op::Load { from: place, .. }
        | Op::LoadHalves { from: place, .. }
        | Op::Store { to: place, .. }
        | Op::IntLoad { from: place, .. }
        | Op::IntStore { to: place, .. }
        | Op::Rmw { place, .. }
        | Op::Integer { by: Operand::Memory(place), .. }
        | Op::Arithmetic { right: Operand::Memory(place), .. }
        | Op::Fma { b: Operand::Memory(place), .. } => Some(place),
        _ => None,
    }
}
