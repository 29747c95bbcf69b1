//! Instructions, one after the other, into a block.

use iced_x86::{Code, ConditionCode, FlowControl, Instruction as Iced, Mnemonic, OpKind};

use crate::{
    block::{Block, Ending, Totals},
    idiom,
    instruction::{Class, Flow, Instruction, Traits},
    memory::{MemoryAccess, MemoryOperand},
    operands::DecodedOperands,
    operation::{CodeOperation, UopKind, operation_of},
    register::Reg,
    split::{SplitParts, is_locked, split},
    unit::width_bytes,
    uop::{Uop, UopClass},
};

/// Grows a block. Reused from block to block, so that its tables and buffers are made once.
pub(crate) struct Builder {
    operands: DecodedOperands,
    instructions: Vec<Instruction>,
    uops: Vec<Uop>,
    memory: Vec<MemoryOperand>,
    totals: Totals,
    target: Option<u64>,
    fusible: Fusible,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            operands: DecodedOperands::new(),
            instructions: Vec::new(),
            uops: Vec::new(),
            memory: Vec::new(),
            totals: Totals::default(),
            target: None,
            fusible: Fusible::No,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Appends a valid instruction and says where control goes after it.
    pub(crate) fn push(&mut self, iced: &Iced) -> Flow {
        let operation = operation_of(iced);
        let (first_uop, first_memory) = (self.uops.len(), self.memory.len());
        self.memory.extend_from_slice(self.operands.memory(iced, operation));
        let memory = &self.memory[first_memory..];
        let registers = self.operands.registers(iced, operation, !memory.is_empty());
        let parts = SplitParts { iced, operation, registers, memory, first_memory: first_memory as u32 };
        let main = split(&parts, &mut self.uops);
        let uops = &self.uops[first_uop..];
        let flow = flow(iced, operation);
        let fused = self.fusible.takes(iced);
        let instruction = Instruction {
            address: iced.ip(),
            first_uop: first_uop as u32,
            first_memory: first_memory as u32,
            flops: flops(&parts),
            adds: idiom::adds(iced).unwrap_or(0),
            traits: traits(iced, operation),
            uops: uops.len() as u8,
            memory: memory.len() as u8,
            loads: memory.iter().filter(|operand| operand.access().reads()).count() as u8,
            stores: memory.iter().filter(|operand| operand.access().writes()).count() as u8,
            length: iced.len() as u8,
            class: class(&parts, uops, main, flow),
            flow,
        };
        self.totals.add(&instruction, uops, memory, fused);
        if let Some(previous) = self.instructions.last_mut() {
            previous.traits.set(Traits::FUSES_WITH_NEXT, fused);
        }
        self.instructions.push(instruction);
        self.fusible = Fusible::of(iced);
        self.target = near_target(iced);
        flow
    }

    /// The block so far, leaving the builder empty; none if nothing was pushed.
    pub(crate) fn finish(&mut self, ending: Ending) -> Option<Block> {
        if self.instructions.is_empty() {
            return None;
        }
        self.fusible = Fusible::No;
        let block = Block {
            instructions: self.instructions.as_slice().into(),
            uops: self.uops.as_slice().into(),
            memory: self.memory.as_slice().into(),
            target: self.target.take(),
            totals: std::mem::take(&mut self.totals),
            ending,
        };
        self.instructions.clear();
        self.uops.clear();
        self.memory.clear();
        Some(block)
    }
}

/// The target of a direct near branch.
pub(crate) fn near_target(iced: &Iced) -> Option<u64> {
    let is_near =
        matches!(iced.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    is_near.then(|| iced.near_branch_target())
}

/// Where control goes after an instruction.
fn flow(iced: &Iced, operation: CodeOperation) -> Flow {
    let is_system = operation.kind == UopKind::System;
    match iced.flow_control() {
        FlowControl::Next => Flow::Sequential,
        FlowControl::Exception => Flow::Trap,
        FlowControl::Interrupt if matches!(iced.mnemonic(), Mnemonic::Int3 | Mnemonic::Int1) => Flow::Trap,
        FlowControl::Interrupt | FlowControl::XbeginXabortXend => Flow::System,
        // A return from the kernel does not come back.
        FlowControl::Return => Flow::Return,
        _ if is_system => Flow::System,
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::ConditionalBranch => Flow::Conditional,
        FlowControl::Call => Flow::Call,
        FlowControl::IndirectCall => Flow::IndirectCall,
    }
}

fn flops(parts: &SplitParts<'_>) -> u16 {
    let CodeOperation { flops, element_bytes, is_scalar, .. } = parts.operation;
    let lanes = match (element_bytes, is_scalar) {
        (0, _) => return 0,
        (_, true) => 1,
        (bytes, false) => width_bytes(parts) / u16::from(bytes),
    };
    lanes * u16::from(flops)
}

fn traits(iced: &Iced, operation: CodeOperation) -> Traits {
    let repeated = iced.has_rep_prefix() || iced.has_repe_prefix() || iced.has_repne_prefix();
    let mut traits = Traits::default();
    traits.set(Traits::LOCKED, is_locked(iced, operation));
    traits.set(Traits::MICROCODED, operation.is_microcoded);
    traits.set(Traits::NON_TEMPORAL, operation.is_non_temporal);
    traits.set(Traits::REPEATED, repeated && iced.is_string_instruction());
    traits.set(Traits::LENGTH_CHANGING_PREFIX, has_length_changing_prefix(iced));
    traits.set(Traits::WIDENS_ITSELF, widens_itself(iced));
    traits
}

/// `mov ecx,ecx`, `movsxd rcx,ecx`, `cdqe`.
fn widens_itself(iced: &Iced) -> bool {
    let is_move = matches!(iced.code(), Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Movsxd_r64_rm32);
    let is_same = || {
        iced.op1_kind() == OpKind::Register
            && iced.op0_kind() == OpKind::Register
            && iced.op0_register().full_register() == iced.op1_register().full_register()
    };
    iced.code() == Code::Cdqe || is_move && is_same()
}

/// `66h` shortens an immediate to 16 bits, `67h` the absolute address of `mov al, [moffs]`. `ret` and `enter` have
/// a 16-bit immediate whatever the prefixes.
fn has_length_changing_prefix(iced: &Iced) -> bool {
    use iced_x86::Code::{Mov_AL_moffs8, Mov_AX_moffs16, Mov_EAX_moffs32, Mov_RAX_moffs64};
    use iced_x86::Code::{Mov_moffs8_AL, Mov_moffs16_AX, Mov_moffs32_EAX, Mov_moffs64_RAX};
    let immediate = iced.op_kinds().any(|kind| kind == OpKind::Immediate16)
        && !matches!(iced.mnemonic(), Mnemonic::Ret | Mnemonic::Retf | Mnemonic::Enter);
    let absolute = matches!(
        iced.code(),
        Mov_AL_moffs8
            | Mov_AX_moffs16
            | Mov_EAX_moffs32
            | Mov_RAX_moffs64
            | Mov_moffs8_AL
            | Mov_moffs16_AX
            | Mov_moffs32_EAX
            | Mov_moffs64_RAX
    );
    immediate || (absolute && iced.memory_displ_size() == 4)
}

fn class(parts: &SplitParts<'_>, uops: &[Uop], main: UopClass, flow: Flow) -> Class {
    let writes = |access| parts.memory.iter().any(|operand| operand.access() == access);
    match parts.operation.kind {
        UopKind::Nop => return Class::Nop,
        UopKind::Pause => return Class::Pause,
        UopKind::Prefetch => return Class::Prefetch,
        UopKind::Fence => return Class::AtomicOrFence,
        UopKind::System => return Class::System,
        UopKind::Flush => return Class::Other,
        _ if is_locked(parts.iced, parts.operation) => return Class::AtomicOrFence,
        _ => {}
    }
    match flow {
        Flow::Call | Flow::IndirectCall | Flow::Return => return Class::CallOrReturn,
        Flow::Conditional | Flow::Jump | Flow::IndirectJump => return Class::Branch,
        Flow::System | Flow::Trap => return Class::System,
        Flow::Sequential => {}
    }
    let only_loads = uops.iter().any(|uop| uop.class() == UopClass::Load)
        && uops.iter().all(|uop| matches!(uop.class(), UopClass::Load | UopClass::StackPointer));
    match main {
        UopClass::IntDiv | UopClass::FpDiv | UopClass::FpSqrt => Class::DivideOrSqrt,
        _ if writes(MemoryAccess::ReadWrite) => Class::ReadModifyWrite,
        _ if writes(MemoryAccess::Write) => Class::Store,
        _ if only_loads || is_load(parts, main) => Class::Load,
        UopClass::IntMul | UopClass::VectorMul => Class::Multiply,
        UopClass::FpAdd | UopClass::FpMul | UopClass::FpFma | UopClass::FpConvert => Class::FpArithmetic,
        UopClass::Microcode => Class::Other,
        _ if is_x87(parts) => Class::FpArithmetic,
        _ if is_vector(parts) => Class::Vector,
        _ => Class::Integer,
    }
}

fn is_x87(parts: &SplitParts<'_>) -> bool {
    parts.registers.reads.contains(Reg::X87)
}

/// Loads that need a second µop to put the value in place (partial registers, merging masks, gathers, the x87
/// stack).
fn is_load(parts: &SplitParts<'_>, main: UopClass) -> bool {
    let is_move =
        matches!(parts.operation.kind, UopKind::Move | UopKind::MoveFromMemory) || parts.iced.is_vsib();
    let is_leave = parts.iced.mnemonic() == Mnemonic::Leave;
    !parts.memory.is_empty() && (is_move || is_leave || main == UopClass::Move)
}

fn is_vector(parts: &SplitParts<'_>) -> bool {
    let all = parts.registers.reads.union(parts.registers.writes);
    all.iter().any(|reg| reg.is_vector_like() || reg.is_mask())
}

/// Whether an instruction can share its slot with a conditional jump right behind it, by the rules of Sandy Bridge
/// and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fusible {
    No,
    /// test, and: with every condition.
    Any,
    /// cmp, add, sub: not with sign, parity and overflow alone.
    Comparison,
    /// inc, dec: carry neither, which they leave alone.
    Step,
}

impl Fusible {
    fn of(iced: &Iced) -> Self {
        let fusible = match iced.mnemonic() {
            Mnemonic::Test | Mnemonic::And => Self::Any,
            Mnemonic::Cmp | Mnemonic::Add | Mnemonic::Sub => Self::Comparison,
            Mnemonic::Inc | Mnemonic::Dec => Self::Step,
            _ => return Self::No,
        };
        let compares = matches!(iced.mnemonic(), Mnemonic::Test | Mnemonic::Cmp);
        let in_memory = iced.op_kinds().any(|kind| kind == OpKind::Memory);
        let stores = iced.op0_kind() == OpKind::Memory && !compares;
        let has_immediate =
            iced.op_count() == 2 && !matches!(iced.op1_kind(), OpKind::Register | OpKind::Memory);
        if stores || (in_memory && has_immediate) { Self::No } else { fusible }
    }

    fn takes(self, jump: &Iced) -> bool {
        use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne};
        if !jump.is_jcc_short_or_near() {
            return false;
        }
        match self {
            Self::No => false,
            Self::Any => true,
            Self::Comparison => matches!(jump.condition_code(), a | ae | b | be | e | ne | g | ge | l | le),
            Self::Step => matches!(jump.condition_code(), e | ne | g | ge | l | le),
        }
    }
}
