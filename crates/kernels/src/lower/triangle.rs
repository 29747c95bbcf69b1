//! The upper-triangular matrix-vector product of roehl2016 §2.4.
//!
//! A row begins at its diagonal, which is seldom the beginning of a vector: single elements lead up to the
//! next whole iteration, then vectors follow, as a compiler would do it. Nothing below the diagonal is touched,
//! so that the work of a thread is exactly the elements of its rows.

use iced_x86::{Code, IcedError, Instruction, Register};

use super::{Lower, registers::VECTOR_SCRATCH};
use crate::{
    description::RegisterLife,
    emit::{END, EmittedOperand, JumpCondition, PASSES, POSITION},
    forms::Form,
    program::{InstructionAction, OperandLocation, ProgramAccess, ProgramNode, Times, offsets},
};

impl Lower<'_> {
    /// The passes over this thread's rows, and the piece where the inner loop begins.
    pub(super) fn rows(&mut self) -> Result<(ProgramNode, usize), IcedError> {
        let [matrix, result, row, row_end] = self.registers.rows.expect("allocated for a triangle");
        let outer = self.emitter.begin_piece()?;
        let fields = [
            (matrix, offsets::base(0)),
            (result, offsets::base(2)),
            (row, offsets::ROW_BEGIN),
            (row_end, offsets::ROW_END),
        ];
        fields.into_iter().try_for_each(|(register, offset)| self.load_argument(register, offset))?;
        self.emitter.action(InstructionAction::Rewind);
        let (row_nodes, vectors) = self.row(matrix, result, row, row_end)?;
        let tail = self.emitter.begin_piece()?;
        self.emitter.plain(Instruction::with1(Code::Dec_rm64, PASSES))?;
        self.emitter.jump_back(JumpCondition::NotZero, outer)?;
        let piece = |piece| ProgramNode::Piece { piece, skips: None };
        let body = vec![piece(outer), ProgramNode::Loop { times: Times::Rows, body: row_nodes }, piece(tail)];
        Ok((ProgramNode::Loop { times: Times::Passes, body }, vectors))
    }

    fn row(
        &mut self,
        matrix: Register,
        result: Register,
        row: Register,
        row_end: Register,
    ) -> Result<(Vec<ProgramNode>, usize), IcedError> {
        let lanes = self.lanes();
        let step = self.geometry.step;
        let start = self.emitter.begin_piece()?;
        self.emitter.plain(Instruction::with2(Code::Mov_r64_rm64, POSITION, row))?;
        self.emitter.action(InstructionAction::RowStart);
        lanes.iter().try_for_each(|&lane| self.clear_vector(self.form, lane))?;
        let (vectors_label, done_label) = (self.emitter.label(), self.emitter.label());
        self.test_position(step)?;
        self.emitter.jump(JumpCondition::Zero, vectors_label)?;

        let head = self.emitter.begin_piece()?;
        let scalar = Form::scalar_beside(self.width);
        self.body.iter().try_for_each(|op| self.vector_op(op, scalar, 0))?;
        self.emitter.plain(Instruction::with2(Code::Add_rm64_imm8, POSITION, 8))?;
        self.emitter.action(InstructionAction::Advance(8));
        self.test_position(step)?;
        self.emitter.jump_back(JumpCondition::NotZero, head)?;

        let check = self.emitter.begin_piece_at(vectors_label)?;
        self.emitter.plain(Instruction::with2(Code::Cmp_r64_rm64, POSITION, END))?;
        self.emitter.jump(JumpCondition::NotBelow, done_label)?;

        let vectors = self.emitter.begin_piece()?;
        for copy in 0..self.description().unroll {
            self.body.iter().try_for_each(|op| self.vector_op(op, self.form, copy))?;
        }
        self.advance_and_repeat(step, vectors)?;

        let done = self.emitter.begin_piece_at(done_label)?;
        lanes.iter().skip(1).try_for_each(|&lane| self.add_vectors(self.form, lanes[0], lane))?;
        self.sum_elements(lanes[0])?;
        let place = EmittedOperand {
            operand: iced_x86::MemoryOperand::with_base(result),
            at: OperandLocation::RowResult,
        };
        self.store_vector(scalar, place, lanes[0])?;
        let pitch = EmittedOperand::argument(offsets::ROW_PITCH);
        let next = Instruction::with2(Code::Add_r64_rm64, matrix, pitch.operand);
        self.emitter.touches(next, pitch.at, 8, ProgramAccess::Read, 0)?;
        self.emitter.plain(Instruction::with2(Code::Add_rm64_imm8, result, 8))?;
        self.emitter.plain(Instruction::with2(Code::Add_rm64_imm8, row, 8))?;
        self.emitter.action(InstructionAction::NextRow);
        self.emitter.plain(Instruction::with2(Code::Cmp_r64_rm64, row, row_end))?;
        self.emitter.jump_back(JumpCondition::Below, start)?;

        let piece = |piece, skips| ProgramNode::Piece { piece, skips };
        let repeat = |times, body| ProgramNode::Loop { times, body: vec![piece(body, None)] };
        let nodes = vec![
            piece(start, Some(Times::Head)),
            repeat(Times::Head, head),
            piece(check, Some(Times::Vectors)),
            repeat(Times::Vectors, vectors),
            piece(done, None),
        ];
        Ok((nodes, vectors))
    }

    /// The registers the row is summed in, one per copy of the body.
    fn lanes(&self) -> Vec<usize> {
        let register =
            self.description().registers.iter().find(|register| register.life == RegisterLife::Lanes);
        let name = &register.expect("checked by the parser").name;
        (0..self.description().unroll).map(|copy| self.registers.vector(name, copy)).collect()
    }

    /// Sets the zero flag if the position is at the beginning of a whole iteration.
    fn test_position(&mut self, step: u64) -> Result<(), IcedError> {
        self.emitter.plain(Instruction::with2(Code::Test_rm64_imm32, POSITION, step as i32 - 1))
    }

    /// Adds the elements of a vector register into its lowest element.
    fn sum_elements(&mut self, number: usize) -> Result<(), IcedError> {
        let xmm = |number: usize| Register::XMM0 + number as u32;
        let ymm = |number: usize| Register::YMM0 + number as u32;
        if self.form == Form::Zmm {
            let zmm = Register::ZMM0 + number as u32;
            let code = Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
            self.emitter.plain(Instruction::with3(code, ymm(VECTOR_SCRATCH), zmm, 1))?;
            self.add_vectors(Form::Ymm, number, VECTOR_SCRATCH)?;
        }
        if matches!(self.form, Form::Zmm | Form::Ymm) {
            let code = Code::VEX_Vextractf128_xmmm128_ymm_imm8;
            self.emitter.plain(Instruction::with3(code, xmm(VECTOR_SCRATCH), ymm(number), 1))?;
            let add = Code::VEX_Vaddpd_xmm_xmm_xmmm128;
            self.emitter
                .computes(Instruction::with3(add, xmm(number), xmm(number), xmm(VECTOR_SCRATCH)), 2)?;
            let high = Code::VEX_Vunpckhpd_xmm_xmm_xmmm128;
            self.emitter.plain(Instruction::with3(high, xmm(VECTOR_SCRATCH), xmm(number), xmm(number)))?;
            return self.add_vectors(Form::VexScalar, number, VECTOR_SCRATCH);
        }
        if self.form == Form::Xmm {
            let copy = Instruction::with2(Code::Movaps_xmm_xmmm128, xmm(VECTOR_SCRATCH), xmm(number));
            self.emitter.plain(copy)?;
            let high = Code::Unpckhpd_xmm_xmmm128;
            self.emitter.plain(Instruction::with2(high, xmm(VECTOR_SCRATCH), xmm(VECTOR_SCRATCH)))?;
            self.add_vectors(Form::Scalar, number, VECTOR_SCRATCH)?;
        }
        Ok(())
    }
}
