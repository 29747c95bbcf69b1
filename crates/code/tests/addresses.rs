//! Effective addresses, against values worked out by hand and against iced.
#![allow(clippy::unwrap_used)]

use code::{MemoryOperand, Reg, decode_block};
use iced_x86::{Decoder, DecoderOptions, IcedError, OpKind, Register, code_asm::*};
use proptest::prelude::*;

const ADDRESS: u64 = 0x40_0000;

fn operand(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> MemoryOperand {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    decode_block(&assembler.assemble(ADDRESS).unwrap(), ADDRESS).unwrap().memory()[0]
}

/// Every register holds a value of its own.
fn value(reg: Reg) -> Option<u64> {
    match reg {
        Reg::RBX => Some(0x7fff_0000_1000),
        Reg::RCX => Some(0x10),
        Reg::RSP => Some(0x7ffe_0000_0000),
        Reg::RAX => Some(0x1234_5678_9abc_def0),
        Reg::FS_BASE => Some(0x7000_0000_0000),
        _ => None,
    }
}

#[test]
fn by_hand() {
    let address = |operand: MemoryOperand| operand.effective_address(value);
    let base_index = operand(|a| a.mov(rax, qword_ptr(rbx + rcx * 8 - 8)));
    assert_eq!(address(base_index), Some(0x7fff_0000_1078));
    assert_eq!((base_index.base(), base_index.index()), (Some(Reg::RBX), Some(Reg::RCX)));
    assert_eq!((base_index.scale(), base_index.displacement(), base_index.bytes()), (8, -8, Some(8)));

    assert_eq!(address(operand(|a| a.mov(eax, dword_ptr(rcx * 4 + 0x100)))), Some(0x140));
    assert_eq!(address(operand(|a| a.mov(rax, qword_ptr(rcx + 8).fs()))), Some(0x7000_0000_0018));
    assert_eq!(operand(|a| a.mov(rax, qword_ptr(0x28).fs())).segment(), Some(Reg::FS_BASE));
    assert_eq!(address(operand(|a| a.push(rax))), Some(0x7ffd_ffff_fff8));
    assert_eq!(address(operand(|a| a.pop(rax))), Some(0x7ffe_0000_0000));
    assert_eq!(address(operand(|a| a.mov(rdx, qword_ptr(rdi)))), None, "rdi is not known");
    assert_eq!(address(operand(|a| a.xlatb())), Some(0x7fff_0000_10f0), "rbx + al");
    assert_eq!(address(operand(|a| a.bts(qword_ptr(rbx), rcx))), None, "a bit offset moves it");
    assert_eq!(address(operand(|a| a.bts(qword_ptr(rbx), 3))), Some(0x7fff_0000_1000));
    assert_eq!(
        address(operand(|a| a.lea(rax, qword_ptr(rbx)).and_then(|()| a.mov(rcx, qword_ptr(rbx))))),
        Some(0x7fff_0000_1000)
    );
}

#[test]
fn thirty_two_bit_addresses_wrap_before_the_segment_is_added() {
    // mov eax, [ebx+ecx*8-8], then the same with fs.
    let code = [0x67, 0x8b, 0x44, 0xcb, 0xf8];
    let plain = decode_block(&code, ADDRESS).unwrap().memory()[0];
    assert_eq!(plain.effective_address(value), Some(0x1078));
    let with_fs: Vec<u8> = [&[0x64], &code[..]].concat();
    let thread_local = decode_block(&with_fs, ADDRESS).unwrap().memory()[0];
    assert_eq!(thread_local.effective_address(value), Some(0x7000_0000_1078));
    // mov eax, [ecx-0x20]: 0x10 - 0x20 wraps at 32 bits.
    let wraps = decode_block(&[0x67, 0x8b, 0x41, 0xe0], ADDRESS).unwrap().memory()[0];
    assert_eq!(wraps.effective_address(value), Some(0xffff_fff0));
}

#[test]
fn rip_relative_is_resolved() {
    // mov rax, [rip+0x10], 7 bytes long.
    let block = decode_block(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], ADDRESS).unwrap();
    let operand = block.memory()[0];
    assert!(operand.is_constant());
    assert_eq!(operand.effective_address(|_| None), Some(ADDRESS + 0x17));
    assert!(block.uops()[0].sources().is_empty());
    // prefetcht0 [rip-0x10], 7 bytes long.
    let block = decode_block(&[0x0f, 0x18, 0x0d, 0xf0, 0xff, 0xff, 0xff], ADDRESS).unwrap();
    assert_eq!(block.memory()[0].effective_address(|_| None), Some(ADDRESS - 9));
    // mov eax, [eip+0x10], 7 bytes long.
    let block = decode_block(&[0x67, 0x8b, 0x05, 0x10, 0, 0, 0], ADDRESS).unwrap();
    assert_eq!(block.memory()[0].effective_address(|_| None), Some(ADDRESS + 0x17));
}

/// A value for each full register, the same for both sides.
fn value_of(register: Register, seed: u64) -> u64 {
    match register {
        Register::FS | Register::GS => seed.rotate_left(register as u32 % 64) & 0x7fff_ffff_f000,
        _ if register.is_segment_register() => 0,
        _ => seed.wrapping_mul(register.full_register() as u64 * 2 + 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]
    #[test]
    fn agrees_with_iced(prefixes in prop::collection::vec(prop::sample::select(vec![0x64, 0x65, 0x67]), 0..2), rex in 0x40u8..0x50, modrm in 0u8..0xc0, rest in any::<[u8; 5]>(), seed in any::<u64>()) {
        // mov r, [m] with every addressing form.
        let code: Vec<u8> = prefixes.into_iter().chain([rex, 0x8b, modrm]).chain(rest).collect();
        let iced = Decoder::with_ip(64, &code, ADDRESS, DecoderOptions::NONE).decode();
        prop_assume!(!iced.is_invalid() && iced.op1_kind() == OpKind::Memory);
        let block = decode_block(&code[..iced.len()], ADDRESS).unwrap();
        let expected = iced.virtual_address(1, 0, |register, _, _| {
            let value = value_of(register, seed);
            Some(if register.is_gpr32() { value & 0xffff_ffff } else { value })
        });
        let full = |reg: Reg| match reg {
            Reg::FS_BASE => value_of(Register::FS, seed),
            Reg::GS_BASE => value_of(Register::GS, seed),
            reg => value_of([Register::RAX, Register::RCX, Register::RDX, Register::RBX, Register::RSP, Register::RBP,
                Register::RSI, Register::RDI, Register::R8, Register::R9, Register::R10, Register::R11, Register::R12,
                Register::R13, Register::R14, Register::R15][reg.index()], seed),
        };
        prop_assert_eq!(block.memory()[0].effective_address(|reg| Some(full(reg))), expected);
    }
}
