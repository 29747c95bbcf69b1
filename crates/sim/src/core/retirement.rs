//! What retires with a slot, in the terms that counters use.

use code::{Block, Flow, Instruction, UopClass};

use super::table::TableOp;
use crate::signal::{CoreSignal, Retirement};

/// Bytes of a vector from which on it counts as AVX.
const AVX_BYTES: u8 = 32;

/// What an instruction adds when its last µop retires.
pub(super) fn of(block: &Block, instruction: &Instruction) -> Retirement {
    let uops = block.uops_of(instruction);
    let wide = |uop: &code::Uop| uop.width_bytes() >= AVX_BYTES;
    let touches_wide = block
        .memory_of(instruction)
        .iter()
        .any(|operand| operand.bytes().is_some_and(|bytes| bytes >= AVX_BYTES.into()));
    let calculates = uops.iter().any(|uop| wide(uop) && computes(uop.class()));
    let flow = instruction.flow();
    Retirement {
        instructions: 1,
        uops: 0,
        others: u8::from(!instruction.has_load() && !instruction.has_store()),
        loads: instruction.loads(),
        stores: instruction.stores(),
        loads_locked: u8::from(uops.iter().any(|uop| uop.is_locked() && uop.class() == UopClass::Load)),
        branches: u8::from(flow.is_branch()),
        conditional: flow == Flow::Conditional,
        call: matches!(flow, Flow::Call | Flow::IndirectCall),
        returns: flow == Flow::Return,
        indirect: matches!(flow, Flow::IndirectJump | Flow::IndirectCall),
        divides: uops.iter().filter(|uop| divides(uop.class())).count() as u8,
        avx_loads: u8::from(touches_wide && instruction.has_load()),
        avx_stores: u8::from(touches_wide && instruction.has_store()),
        avx_calculations: u8::from(calculates),
        floating: floating(uops, instruction),
        offset: instruction.address().wrapping_sub(block.address()) as u32,
    }
}

fn divides(class: UopClass) -> bool {
    matches!(class, UopClass::IntDiv | UopClass::FpDiv | UopClass::FpSqrt)
}

fn computes(class: UopClass) -> bool {
    use UopClass as C;
    matches!(
        class,
        C::FpAdd
            | C::FpMul
            | C::FpFma
            | C::FpDiv
            | C::FpSqrt
            | C::FpConvert
            | C::VectorInt
            | C::VectorMul
            | C::VectorLogic
            | C::VectorShuffle
    )
}

/// Floating-point instructions by width and precision; a fused multiply-add is two.
fn floating(uops: &[code::Uop], instruction: &Instruction) -> Option<(CoreSignal, u8)> {
    use CoreSignal as S;
    let flops = u32::from(instruction.flops());
    let uop = uops.iter().find(|uop| {
        matches!(
            uop.class(),
            UopClass::FpAdd | UopClass::FpMul | UopClass::FpFma | UopClass::FpDiv | UopClass::FpSqrt
        )
    })?;
    let times = if uop.class() == UopClass::FpFma { 2 } else { 1 };
    let lanes = flops / times;
    if lanes == 0 {
        return None;
    }
    let width = u32::from(uop.width_bytes());
    let double = width / lanes >= 8;
    let signal = match (width, double) {
        (0..=8, true) => S::FpScalarDouble,
        (0..=8, false) => S::FpScalarSingle,
        (9..=16, true) => S::Fp128Double,
        (9..=16, false) => S::Fp128Single,
        (17..=32, true) => S::Fp256Double,
        (17..=32, false) => S::Fp256Single,
        (_, true) => S::Fp512Double,
        (_, false) => S::Fp512Single,
    };
    Some((signal, times as u8))
}

/// Gathers what retires in each slot at its last µop.
pub(super) fn close_slots(ops: &[TableOp], retirements: &mut [Retirement]) {
    for place in 1..ops.len() {
        if !ops[place].begins {
            let mut slot = std::mem::take(&mut retirements[place - 1]);
            slot.join(&retirements[place]);
            retirements[place] = slot;
        }
    }
}
