//! Instructions whose result does not depend on their sources, because the sources are the same register.

use iced_x86::{Instruction as Iced, Mnemonic, OpKind, Register};

/// Whether the result is zero: `xor r, r`, `sub r, r`, `vpxor v, w, w`. Needs no unit.
///
/// 8 and 16 bit forms merge into the old value, and masked forms may keep it: they are none.
pub(crate) fn is_zero_idiom(iced: &Iced) -> bool {
    is_cancelling(iced.mnemonic()) && has_equal_sources(iced)
}

/// Whether the result is known without the sources: zero, or all ones (`pcmpeqd v, v`), which needs a unit.
pub(crate) fn breaks_dependency(iced: &Iced) -> bool {
    (is_cancelling(iced.mnemonic()) || is_ones(iced.mnemonic())) && has_equal_sources(iced)
}

/// The constant that an instruction adds to a general register of 32 or 64 bits, if it does nothing else: `add r, 8`,
/// `sub r, 8`, `inc r`, `dec r`, `lea r, [r+8]`.
pub(crate) fn adds(iced: &Iced) -> Option<i32> {
    let register = iced.op0_register();
    if iced.op0_kind() != OpKind::Register || !(register.is_gpr32() || register.is_gpr64()) {
        return None;
    }
    let immediate = || i32::try_from(iced.try_immediate(1).ok()?.cast_signed()).ok();
    match iced.mnemonic() {
        Mnemonic::Add => immediate(),
        Mnemonic::Sub => immediate()?.checked_neg(),
        Mnemonic::Inc => Some(1),
        Mnemonic::Dec => Some(-1),
        Mnemonic::Lea if iced.memory_base() == register && iced.memory_index() == Register::None => {
            i32::try_from(iced.memory_displacement64().cast_signed()).ok()
        }
        _ => None,
    }
}

fn has_equal_sources(iced: &Iced) -> bool {
    let count = iced.op_count();
    if count < 2 || (0..count).any(|n| iced.op_kind(n) != OpKind::Register) {
        return false;
    }
    let source = iced.op_register(count - 1);
    let merges = source.is_gpr8() || source.is_gpr16() || iced.has_op_mask();
    // A compare into a mask register is executed as any other.
    source == iced.op_register(count - 2) && !merges && !iced.op0_register().is_k()
}

#[rustfmt::skip]
fn is_cancelling(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Xor | Sub
            | Pxor | Vpxor | Vpxord | Vpxorq | Xorps | Xorpd | Vxorps | Vxorpd
            | Psubb | Psubw | Psubd | Psubq | Vpsubb | Vpsubw | Vpsubd | Vpsubq
            | Pcmpgtb | Pcmpgtw | Pcmpgtd | Pcmpgtq | Vpcmpgtb | Vpcmpgtw | Vpcmpgtd | Vpcmpgtq
    )
}

#[rustfmt::skip]
fn is_ones(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Pcmpeqb | Pcmpeqw | Pcmpeqd | Pcmpeqq | Vpcmpeqb | Vpcmpeqw | Vpcmpeqd | Vpcmpeqq
    )
}
