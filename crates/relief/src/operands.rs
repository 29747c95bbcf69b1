//! Where an instruction touches memory, from the registers before it.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

use crate::ptrace::{Registers, vector_part};

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryTouch {
    pub address: u64,
    pub bytes: u64,
    pub is_written: bool,
}

/// General registers in the order of the instruction set: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
pub(crate) fn general(registers: &Registers) -> [u64; 16] {
    let r = registers;
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15,
    ]
}

/// Their names, in that order.
pub(crate) const GENERAL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The index of a general register, of whatever width.
pub(crate) fn general_index(register: Register) -> Option<usize> {
    GENERAL.iter().position(|full| *full == register.full_register())
}

fn value(registers: &Registers, register: Register) -> u64 {
    match register {
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        other => general_index(other).map_or(0, |index| general(registers)[index]),
    }
}

/// All accesses of an instruction; `vectors` are asked for only where an address is in a vector register.
pub(crate) fn touches(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    registers: &Registers,
    vectors: impl Fn() -> Vec<u8>,
) -> Vec<MemoryTouch> {
    let mut state: Option<Vec<u8>> = None;
    let mut all = Vec::new();
    for memory in factory.info(instruction).used_memory() {
        if memory.access() == OpAccess::NoMemAccess || memory.access() == OpAccess::None {
            continue;
        }
        let is_written = matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let bytes = memory.memory_size().size().max(1) as u64;
        let index_bytes = memory.vsib_size() as usize;
        if index_bytes > 0 {
            state.get_or_insert_with(&vectors);
        }
        let elements = memory.index().size().checked_div(index_bytes).unwrap_or(1);
        for element in 0..elements {
            let known = state.as_deref();
            let address = memory.virtual_address(element, |register, at, width| {
                if register.is_vector_register() {
                    return vector_element(known?, register, at, width);
                }
                Some(value(registers, register))
            });
            if let Some(address) = address {
                all.push(MemoryTouch { address, bytes, is_written });
            }
        }
    }
    all
}

/// An element of a vector register in the layout of `xsave`.
fn vector_element(state: &[u8], register: Register, element: usize, width: usize) -> Option<u64> {
    const XMM: usize = 160;
    let number = register.number();
    let byte = element * width;
    let at = match (number, byte) {
        (0..=15, 0..=15) => XMM + 16 * number + byte,
        (0..=15, 16..=31) => vector_part(2)?.0 + 16 * number + byte - 16,
        (0..=15, _) => vector_part(6)?.0 + 32 * number + byte - 32,
        _ => vector_part(7)?.0 + 64 * (number - 16) + byte,
    };
    let bytes = state.get(at..at + width)?;
    Some(match width {
        4 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)).cast_unsigned(),
        _ => u64::from_le_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    fn decoded(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    /// Some registers.
    pub(crate) fn registers() -> Registers {
        Registers {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: 3,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0x5000,
            orig_rax: 0,
            rip: 0,
            cs: 0,
            eflags: 0,
            rsp: 0x9000,
            ss: 0,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }

    #[test]
    fn addresses_of_operands() {
        let mut factory = InstructionInfoFactory::new();
        // add qword ptr [rdi+rax*8+16], 1
        let add = decoded(&[0x48, 0x83, 0x44, 0xc7, 0x10, 0x01]);
        let found = touches(&mut factory, &add, &registers(), Vec::new);
        assert_eq!(found, [MemoryTouch { address: 0x5028, bytes: 8, is_written: true }]);
        // call writes below the stack pointer
        let call = decoded(&[0xe8, 0, 0, 0, 0]);
        let found = touches(&mut factory, &call, &registers(), Vec::new);
        assert_eq!(found, [MemoryTouch { address: 0x8ff8, bytes: 8, is_written: true }]);
        // lea touches nothing
        assert_eq!(touches(&mut factory, &decoded(&[0x48, 0x8d, 0x07]), &registers(), Vec::new), []);
    }

    #[test]
    fn a_gather_touches_as_many_places_as_it_has_indices() {
        let mut factory = InstructionInfoFactory::new();
        // vpgatherdd xmm1, [rdi+xmm0*4], xmm2
        let gather = decoded(&[0xc4, 0xe2, 0x69, 0x90, 0x0c, 0x87]);
        let mut state = vec![0u8; 1024];
        for (element, index) in [5i32, -1, 7, 1000].into_iter().enumerate() {
            state[160 + 4 * element..164 + 4 * element].copy_from_slice(&index.to_le_bytes());
        }
        let found = touches(&mut factory, &gather, &registers(), || state.clone());
        let places: Vec<u64> = found.iter().map(|touch| touch.address).collect();
        assert_eq!(places, [0x5000 + 20, 0x5000 - 4, 0x5000 + 28, 0x5000 + 4000]);
    }
}
