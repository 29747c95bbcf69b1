//! How code is cut into blocks, and what happens where it is not code.
#![allow(clippy::unwrap_used)]

use code::{Block, Class, DecodeError, Ending, Flow, decode_block, decode_range, disassemble};
use iced_x86::{IcedError, code_asm::*};

const ADDRESS: u64 = 0x40_0000;

fn assemble(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    assembler.assemble(ADDRESS).unwrap()
}

/// A loop with a way out in its middle, as compilers write them.
fn search() -> Vec<u8> {
    assemble(|a| {
        let (mut top, mut found) = (a.create_label(), a.create_label());
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        a.cmp(qword_ptr(rdi + rax * 8), rsi)?;
        a.je(found)?;
        a.inc(rax)?;
        a.cmp(rax, rdx)?;
        a.jb(top)?;
        a.set_label(&mut found)?;
        a.ret()
    })
}

#[test]
fn blocks_begin_at_targets_and_behind_transfers() {
    let bytes = search();
    let blocks = decode_range(&bytes, ADDRESS, &[]).complete().unwrap();
    let shape: Vec<_> =
        blocks.iter().map(|block| (block.instructions().len(), block.ending(), block.flow())).collect();
    assert_eq!(
        shape,
        [
            (1, Ending::Leader, Flow::Sequential),
            (2, Ending::Transfer, Flow::Conditional),
            (3, Ending::Transfer, Flow::Conditional),
            (1, Ending::Transfer, Flow::Return),
        ]
    );
    assert_eq!(blocks[1].target(), Some(blocks[3].address()));
    assert_eq!(blocks[2].target(), Some(blocks[1].address()));
    assert_eq!(blocks[3].fall_through(), None);
    assert_eq!(blocks.iter().map(Block::length_bytes).sum::<u64>(), bytes.len() as u64);
    for (before, after) in blocks.iter().zip(&blocks[1..]) {
        assert_eq!(before.end_address(), after.address());
    }
}

#[test]
fn totals_of_a_block() {
    let decoded = decode_range(&search(), ADDRESS, &[]);
    let totals = decoded.blocks[1].totals();
    assert_eq!((totals.instructions, totals.loads, totals.load_bytes, totals.branches), (2, 1, 8, 1));
    assert_eq!((totals.uops, totals.slots), (3, 1), "load, compare and jump in one slot");
    let step = decoded.blocks[2].totals();
    assert_eq!((step.instructions, step.uops, step.slots, step.stores, step.flops), (3, 3, 2, 0, 0));
}

#[test]
fn instructions_are_found() {
    let decoded = decode_range(&search(), ADDRESS, &[]);
    let step = &decoded.blocks[2];
    let compare = step.instructions()[1];
    assert_eq!(decoded.find(compare.address()), Some((step, 1)));
    assert_eq!(decoded.find(compare.address() + 1), None, "within an instruction");
    assert_eq!(decoded.find(ADDRESS - 1), None);
    assert_eq!(decoded.find(u64::MAX), None);
}

#[test]
fn named_leaders_cut_and_others_do_not() {
    let bytes = assemble(|a| a.add(rax, rbx).and_then(|()| a.add(rax, rcx)).and_then(|()| a.add(rax, rdx)));
    let lengths = |leaders: &[u64]| {
        let blocks = decode_range(&bytes, ADDRESS, leaders).complete().unwrap();
        blocks.iter().map(|block| block.instructions().len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&[]), [3]);
    assert_eq!(lengths(&[ADDRESS + 6, ADDRESS + 3, ADDRESS + 3]), [1, 1, 1]);
    assert_eq!(
        lengths(&[ADDRESS + 1, ADDRESS - 3, ADDRESS + 9, 0, u64::MAX]),
        [3],
        "not at an instruction here"
    );
}

#[test]
fn one_block_stops_at_its_transfer() {
    let bytes = search();
    let block = decode_block(&bytes, ADDRESS).unwrap();
    assert_eq!(
        (block.instructions().len(), block.ending()),
        (3, Ending::Transfer),
        "its target is not yet known"
    );
    assert_eq!(block.index_of(block.instructions()[2].address()), Some(2));
    let straight = decode_block(&assemble(|a| a.mov(rax, rbx)), ADDRESS).unwrap();
    assert_eq!((straight.ending(), straight.fall_through()), (Ending::EndOfBytes, Some(ADDRESS + 3)));
}

#[test]
fn every_kind_of_transfer() {
    let flow = |bytes: &[u8]| {
        let block = decode_block(bytes, ADDRESS).unwrap();
        (block.flow(), block.target().is_some(), block.fall_through().is_some(), block.totals().branches)
    };
    assert_eq!(flow(&[0xeb, 0x10]), (Flow::Jump, true, false, 1));
    assert_eq!(flow(&[0x75, 0x10]), (Flow::Conditional, true, true, 1));
    assert_eq!(flow(&[0xe3, 0x10]), (Flow::Conditional, true, true, 1), "jrcxz");
    assert_eq!(flow(&[0xe2, 0xfe]), (Flow::Conditional, true, true, 1), "loop");
    assert_eq!(flow(&[0xe8, 0, 0, 0, 0]), (Flow::Call, true, true, 1));
    assert_eq!(flow(&[0xff, 0xd0]), (Flow::IndirectCall, false, true, 1));
    assert_eq!(flow(&[0xff, 0xe0]), (Flow::IndirectJump, false, false, 1));
    assert_eq!(flow(&[0xc3]), (Flow::Return, false, false, 1));
    assert_eq!(flow(&[0x0f, 0x05]), (Flow::System, false, true, 0), "syscall");
    assert_eq!(flow(&[0xcc]), (Flow::Trap, false, false, 0), "int3");
    assert_eq!(flow(&[0x0f, 0x0b]), (Flow::Trap, false, false, 0), "ud2");
    assert_eq!(flow(&[0xc7, 0xf8, 0x10, 0, 0, 0]), (Flow::System, true, true, 0), "xbegin");
    assert_eq!(flow(&[0x90]), (Flow::Sequential, false, true, 0));
}

#[test]
fn errors_say_where() {
    assert_eq!(decode_block(&[], 7), Err(DecodeError::Empty { address: 7 }));
    // nop, then a byte that is no instruction in 64-bit mode.
    let invalid = DecodeError::Invalid { offset: 1, address: ADDRESS + 1 };
    assert_eq!(decode_block(&[0x90, 0x06, 0x90], ADDRESS), Err(invalid));
    let truncated = DecodeError::Truncated { offset: 1, address: ADDRESS + 1 };
    assert_eq!(decode_block(&[0x90, 0x48, 0x8b], ADDRESS), Err(truncated));
    assert!(invalid.to_string().contains("0x400001") && truncated.to_string().contains("0x400001"));
    assert_eq!(disassemble(&[], 0), Err(DecodeError::Empty { address: 0 }));
    assert_eq!(decode_range(&[], ADDRESS, &[ADDRESS]).blocks, []);
}

#[test]
fn decoding_resumes_only_where_code_is_known_to_be() {
    // nop; invalid; nop; ret
    let bytes = [0x90, 0x06, 0x90, 0xc3];
    let gap = DecodeError::Invalid { offset: 1, address: ADDRESS + 1 };
    let blind = decode_range(&bytes, ADDRESS, &[]);
    assert_eq!((blind.blocks.len(), &blind.gaps[..]), (1, &[gap][..]));
    assert_eq!(blind.blocks[0].ending(), Ending::Undecodable);
    assert_eq!(blind.clone().complete(), Err(gap));
    let told = decode_range(&bytes, ADDRESS, &[ADDRESS + 2]);
    assert_eq!((told.blocks.len(), &told.gaps[..]), (2, &[gap][..]));
    assert_eq!(told.blocks[1].address(), ADDRESS + 2);
    // jmp over the gap: its target is known.
    let jump = decode_range(&[0xeb, 0x01, 0x06, 0xc3, 0x06, 0x90, 0x90], ADDRESS, &[]);
    let starts: Vec<u64> = jump.blocks.iter().map(Block::address).collect();
    assert_eq!(starts, [ADDRESS, ADDRESS + 3]);
    assert_eq!(jump.gaps.len(), 2);
    assert_eq!(jump.gaps[1], DecodeError::Invalid { offset: 4, address: ADDRESS + 4 });
}

#[test]
fn long_code_is_cut() {
    let bytes = vec![0x90; Block::MAX_INSTRUCTIONS + 5];
    let block = decode_block(&bytes, ADDRESS).unwrap();
    assert_eq!((block.instructions().len(), block.ending()), (Block::MAX_INSTRUCTIONS, Ending::Full));
    let blocks = decode_range(&bytes, ADDRESS, &[]).complete().unwrap();
    assert_eq!((blocks[0].ending(), blocks[1].instructions().len()), (Ending::Full, 5));
    assert!(blocks[1].instructions().iter().all(|nop| nop.class() == Class::Nop));
}

#[test]
fn addresses_may_wrap() {
    let blocks = decode_range(&[0x90, 0x90, 0xeb, 0xfc], u64::MAX - 1, &[]).complete().unwrap();
    assert_eq!((blocks.len(), blocks[0].address(), blocks[0].end_address()), (1, u64::MAX - 1, 2));
    assert_eq!(blocks[0].index_of(0), Some(2));
}
