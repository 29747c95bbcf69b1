//! Which unit the operation of an instruction needs, and how many bytes it works on there.

use iced_x86::{FlowControl, Instruction as Iced, Mnemonic, OpKind, Register};

use crate::{
    idiom::is_zero_idiom,
    operation::{CodeOperation, UopKind},
    register::Reg,
    split::SplitParts,
    uop::UopClass,
};

/// The unit of the operation itself, loads and stores apart.
pub(crate) fn unit(parts: &SplitParts<'_>) -> UopClass {
    let SplitParts { iced, operation, .. } = parts;
    if iced.is_string_instruction() {
        return UopClass::IntAlu;
    }
    if is_branch(iced, *operation) {
        return UopClass::Branch;
    }
    match operation.kind {
        UopKind::Fence => return UopClass::Fence,
        UopKind::System => return UopClass::Microcode,
        _ => {}
    }
    if is_zero_idiom(iced) {
        return UopClass::Zero;
    }
    if is_insert_from_memory(parts) {
        return UopClass::VectorLogic;
    }
    operation.class.unwrap_or_else(|| unit_by_registers(parts))
}

fn unit_by_registers(parts: &SplitParts<'_>) -> UopClass {
    let SplitParts { operation, registers, memory, .. } = parts;
    let all = registers.reads.union(registers.writes);
    let is_move = operation.kind == UopKind::Move;
    if is_move && memory.is_empty() && registers.reads.len() == 1 && !registers.writes.is_empty() {
        let mut files = all.iter().map(register_file);
        let first = files.next();
        return if files.all(|file| Some(file) == first) { UopClass::Move } else { UopClass::Transfer };
    }
    if all.iter().any(Reg::is_vector_like) {
        // A move that merges (`movsd xmm, xmm`) or is masked is a blend.
        if is_move { UopClass::VectorLogic } else { UopClass::VectorInt }
    } else if all.iter().any(Reg::is_mask) {
        UopClass::MaskLogic
    } else {
        UopClass::IntAlu
    }
}

/// A loaded half or quarter needs no shuffle unit: it is loaded into place and blended.
fn is_insert_from_memory(parts: &SplitParts<'_>) -> bool {
    use Mnemonic::{Vinsertf32x4, Vinsertf32x8, Vinsertf64x2, Vinsertf64x4, Vinsertf128};
    use Mnemonic::{Vinserti32x4, Vinserti32x8, Vinserti64x2, Vinserti64x4, Vinserti128};
    let is_float = matches!(
        parts.iced.mnemonic(),
        Vinsertf128 | Vinsertf32x4 | Vinsertf32x8 | Vinsertf64x2 | Vinsertf64x4
    );
    let is_integer = matches!(
        parts.iced.mnemonic(),
        Vinserti128 | Vinserti32x4 | Vinserti32x8 | Vinserti64x2 | Vinserti64x4
    );
    (is_float || is_integer) && !parts.memory.is_empty()
}

fn is_branch(iced: &Iced, operation: CodeOperation) -> bool {
    use FlowControl::{Exception, Interrupt, Next, XbeginXabortXend};
    let stays = matches!(iced.flow_control(), Next | Interrupt | Exception | XbeginXabortXend);
    !stays && operation.kind != UopKind::System
}

/// Where a register is renamed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegisterFile {
    General,
    Vector,
    Mask,
}

fn register_file(reg: Reg) -> RegisterFile {
    if reg.is_mask() {
        RegisterFile::Mask
    } else if reg.is_vector_like() {
        RegisterFile::Vector
    } else {
        RegisterFile::General
    }
}

/// Bytes the operation works on.
pub(crate) fn width_bytes(parts: &SplitParts<'_>) -> u16 {
    let SplitParts { iced, operation, .. } = parts;
    if operation.is_scalar {
        return u16::from(operation.element_bytes);
    }
    let registers = (0..iced.op_count())
        .filter(|&n| iced.op_kind(n) == OpKind::Register)
        .map(|n| iced.op_register(n))
        .filter(|register| !register.is_k());
    let vector = registers.clone().filter(|register| register.is_vector_register()).map(Register::size).max();
    let bytes =
        vector.or_else(|| registers.map(Register::size).max()).unwrap_or_else(|| iced.memory_size().size());
    u16::try_from(bytes).unwrap_or(u16::MAX)
}
