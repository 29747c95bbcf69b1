//! Random and real bytes: never a panic, nothing lost, and the registers iced says.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use code::{Block, Class, Flow, Reg, Uop, UopClass, decode_block, decode_range, disassemble};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use proptest::prelude::*;

const ADDRESS: u64 = 0x7f00_0000_1000;

/// What must hold of any block.
fn check(block: &Block) {
    assert!(!block.instructions().is_empty());
    let (mut address, mut uops, mut operands) = (block.address(), 0, 0);
    for instruction in block.instructions() {
        assert_eq!(instruction.address(), address);
        address = instruction.next_address();
        let own = block.uops_of(instruction);
        uops += own.len();
        operands += block.memory_of(instruction).len();
        assert!(own[0].is_first() && own.iter().filter(|uop| uop.is_first()).count() == 1);
        assert_eq!(own.iter().filter(|uop| uop.is_last()).count(), 1);
        check_uops(block, instruction, own);
    }
    assert_eq!((uops, operands), (block.uops().len(), block.memory().len()));
    assert_eq!(address, block.end_address());
    let (last, others) = block.instructions().split_last().unwrap();
    assert!(others.iter().all(|instruction| instruction.flow() == Flow::Sequential));
    assert_eq!(last.flow(), block.flow());
    assert!(block.totals().slots <= block.totals().uops);
}

/// Temporaries are written before they are read, and each memory operand is touched by the right µops.
fn check_uops(block: &Block, instruction: &code::Instruction, uops: &[Uop]) {
    let mut written: BTreeSet<Reg> = BTreeSet::new();
    for uop in uops {
        for source in uop.sources().iter().filter(|reg| reg.is_temporary()) {
            assert!(written.contains(source), "{uops:?}");
        }
        written.extend(uop.destinations());
        if let Some(operand) = uop.memory() {
            assert!(block.memory_of(instruction).contains(&block.memory()[operand]));
        }
    }
    let count = |class| uops.iter().filter(|uop| uop.class() == class).count();
    assert_eq!(count(UopClass::Load), usize::from(instruction.loads()), "{uops:?}");
    assert_eq!(count(UopClass::StoreAddress), usize::from(instruction.stores()), "{uops:?}");
    assert_eq!(count(UopClass::StoreData), usize::from(instruction.stores()), "{uops:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_global_rejects: 100_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_decode_or_say_why(bytes in prop::collection::vec(any::<u8>(), 0..64), leaders in prop::collection::vec(0u64..64, 0..4), address in any::<u64>()) {
        if let Ok(block) = decode_block(&bytes, address) {
            check(&block);
            prop_assert!(block.length_bytes() <= bytes.len() as u64);
        }
        let leaders: Vec<u64> = leaders.into_iter().map(|offset| address.wrapping_add(offset)).collect();
        let decoded = decode_range(&bytes, address, &leaders);
        decoded.blocks.iter().for_each(check);
        let length: u64 = decoded.blocks.iter().map(Block::length_bytes).sum();
        prop_assert!(length <= bytes.len() as u64);
        if decoded.gaps.is_empty() {
            prop_assert_eq!(length, bytes.len() as u64);
        }
        let _ = disassemble(&bytes, address);
    }

    #[test]
    fn registers_are_those_of_iced(bytes in any::<[u8; 15]>(), opcode in prop::sample::select(opcodes())) {
        let mut code = opcode.to_vec();
        code.extend(bytes);
        let iced = Decoder::with_ip(64, &code, ADDRESS, DecoderOptions::NONE).decode();
        prop_assume!(!iced.is_invalid());
        compare(&iced, &decode_block(&code[..iced.len()], ADDRESS).unwrap());
    }
}

/// Prefixes that make a random rest a valid instruction of every map more often than chance.
fn opcodes() -> Vec<&'static [u8]> {
    vec![
        &[],
        &[0x48],
        &[0x66],
        &[0xf0],
        &[0xf3],
        &[0xf2],
        &[0x64],
        &[0x67],
        &[0x0f],
        &[0x48, 0x0f],
        &[0x66, 0x0f],
        &[0xf3, 0x0f],
        &[0xf2, 0x0f],
        &[0x0f, 0x38],
        &[0x66, 0x0f, 0x38],
        &[0x66, 0x0f, 0x3a],
        &[0xc5],
        &[0xc5, 0xfd],
        &[0xc4, 0xe2, 0x7d],
        &[0xc4, 0xe3, 0x7d],
        &[0x62, 0xf1, 0xfd, 0x48],
        &[0x62, 0xf1, 0x7c, 0x49],
        &[0x62, 0xf2, 0xfd, 0x49],
        &[0x62, 0xf2, 0x7d, 0xca],
        &[0x62, 0xf3, 0xfd, 0x28],
    ]
}

/// Our name for a register of iced, by its own names and sizes.
fn name(register: Register) -> Option<String> {
    let number = register.number();
    if register.is_gpr() {
        Some(format!("{:?}", register.full_register()).to_ascii_lowercase())
    } else if register.is_vector_register() {
        Some(format!("zmm{number}"))
    } else if register.is_k() {
        Some(format!("k{number}"))
    } else if register.is_mm() {
        Some(format!("mm{number}"))
    } else if register.is_tmm() {
        Some(format!("tmm{number}"))
    } else if register.is_st() {
        Some("x87".to_owned())
    } else if matches!(register, Register::FS | Register::GS) {
        Some(format!("{register:?}_base").to_ascii_lowercase())
    } else {
        None
    }
}

fn names<'a>(regs: impl Iterator<Item = &'a Reg>) -> BTreeSet<String> {
    let followed = regs.filter(|reg| !reg.is_temporary() && **reg != Reg::CARRY && **reg != Reg::FLAGS);
    followed.map(ToString::to_string).collect()
}

/// Everything iced reads we read, and nothing is written that it does not write. We read more where a write
/// merges, and less where an idiom or a rule says that no dependency follows.
fn compare(iced: &Instruction, block: &Block) {
    let [instruction] = block.instructions() else { panic!("one instruction") };
    let reads = names(block.uops().iter().flat_map(Uop::sources));
    let writes = names(block.uops().iter().flat_map(Uop::destinations));
    if matches!(instruction.class(), Class::Nop) {
        assert!(reads.is_empty() && writes.is_empty());
        return;
    }
    let mut factory = InstructionInfoFactory::new();
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    let mut kept = BTreeSet::new();
    for used in factory.info(iced).used_registers() {
        let Some(name) = name(used.register()) else {
            continue;
        };
        let access = used.access();
        if matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            read.insert(name.clone());
        }
        let is_write =
            !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess);
        let is_partial = used.register().is_gpr8() || used.register().is_gpr16();
        if is_write && (is_partial || access == OpAccess::CondWrite) {
            kept.insert(name.clone());
        }
        if is_write {
            written.insert(name);
        }
    }
    let stack = iced.fpu_stack_increment_info().writes_top();
    if stack || written.contains("x87") {
        kept.insert("x87".to_owned());
        written.insert("x87".to_owned());
    }
    if is_ones(iced.mnemonic()) && reads.is_empty() {
        read.clear();
    }
    let text = format!("{iced:?} {:?}", block.uops());
    assert_eq!(writes, written, "writes of {text}");
    let expected: BTreeSet<String> = read.union(&kept).cloned().collect();
    assert_eq!(reads, expected, "reads of {text}");
}

fn is_ones(mnemonic: Mnemonic) -> bool {
    let name = format!("{mnemonic:?}").to_ascii_lowercase();
    name.contains("pcmpeq") || name.contains("pcmpgt") || name.contains("psub")
}

/// The section of this name in a 64-bit little-endian ELF file.
fn section<'a>(file: &'a [u8], name: &str) -> Option<(u64, &'a [u8])> {
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (headers, count) = (number(0x28, 8)? as usize, number(0x3c, 2)? as usize);
    let header = |n: usize| headers + n * 64;
    let strings = number(header(number(0x3e, 2)? as usize) + 0x18, 8)? as usize;
    let found = (0..count).map(header).find(|&at| {
        let start = strings + number(at, 4).unwrap_or(0) as usize;
        file.get(start..start + name.len() + 1) == Some([name.as_bytes(), &[0]].concat().as_slice())
    })?;
    let (offset, size) = (number(found + 0x18, 8)? as usize, number(found + 0x20, 8)? as usize);
    Some((number(found + 0x10, 8)?, file.get(offset..offset + size)?))
}

#[test]
fn real_code_decodes_whole() {
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let (address, text) = section(&file, ".text").expect("an ELF file with code");
    let text = &text[..text.len().min(1 << 20)];
    let decoded = decode_range(text, address, &[]);
    decoded.blocks.iter().for_each(check);
    let instructions: usize = decoded.blocks.iter().map(|block| block.instructions().len()).sum();
    let length: u64 = decoded.blocks.iter().map(Block::length_bytes).sum();
    assert!(length * 100 >= text.len() as u64 * 99, "compiled code is code: {length} of {}", text.len());
    // x86-64 instructions are about four bytes long.
    assert!((text.len() / 8..text.len() / 2).contains(&instructions), "{instructions} in {}", text.len());
    let loads: u64 = decoded.blocks.iter().map(|block| block.totals().loads).sum();
    assert!((instructions as u64 / 20..instructions as u64).contains(&loads), "{loads} of {instructions}");
}
