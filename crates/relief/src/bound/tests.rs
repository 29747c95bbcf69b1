use iced_x86::{Decoder, DecoderOptions};

use super::*;
use crate::{operands::MemoryTouch, stretch::TracedStep};

/// Turns of a loop of these instructions, with registers as they change: `step` is what each turn does to them.
fn stretch(code: &[u8], turns: usize, start: [u64; 16], step: impl Fn(usize, &mut [u64; 16])) -> Stretch {
    let all: Vec<Instruction> = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).iter().collect();
    let mut registers = start;
    let (mut steps, mut begins, mut at_turn) = (Vec::new(), vec![0], vec![start]);
    for _ in 0..turns {
        for (index, instruction) in all.iter().enumerate() {
            let touches = instruction.op_kinds().any(|kind| kind == OpKind::Memory).then_some(MemoryTouch {
                address: 0x8000,
                bytes: 8,
                is_written: false,
            });
            steps.push(TracedStep {
                instruction: *instruction,
                before: registers,
                touches: touches.into_iter().collect(),
            });
            step(index, &mut registers);
        }
        begins.push(steps.len());
        at_turn.push(registers);
    }
    Stretch::scripted(steps, begins, at_turn)
}

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;

fn found(stretch: &Stretch, turns: usize, memory: u64) -> Option<LoopBound> {
    let code = LoopCode::of(stretch)?;
    bound(&code, stretch, turns, |_, bytes| memory.to_le_bytes()[..bytes].to_vec())
}

#[test]
fn the_end_that_a_pointer_is_compared_with_comes_nearer() {
    // add rax,8; cmp rax,rdx; jne back
    let code = [0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xd0, 0x75, 0xf7];
    let mut start = [0; 16];
    (start[RAX], start[RDX]) = (0x5000, 0x9000);
    let all = stretch(&code, 10, start, |index, registers| {
        if index == 0 {
            registers[RAX] += 8;
        }
    });
    let bound = found(&all, 4, 0).unwrap();
    let by = (0x5000u64 + 32).wrapping_sub(0x9000);
    assert_eq!(bound.change, BoundChange::Register { index: RDX, by });
    assert_eq!(bound.end_step, 12);
}

#[test]
fn a_number_in_memory_is_changed_there() {
    // add rax,1; cmp rax,[rdi]; jb back
    let code = [0x48, 0x83, 0xc0, 0x01, 0x48, 0x3b, 0x07, 0x72, 0xf7];
    let all = stretch(&code, 8, [0; 16], |index, registers| {
        if index == 0 {
            registers[RAX] += 1;
        }
    });
    let bound = found(&all, 5, 1000).unwrap();
    assert_eq!(bound.change, BoundChange::Memory { address: 0x8000, bytes: 8, value: 5 });
}

#[test]
fn a_number_in_the_code_is_changed_there() {
    // add rax,1; cmp rax,100; jne back
    let code = [0x48, 0x83, 0xc0, 0x01, 0x48, 0x83, 0xf8, 0x64, 0x75, 0xf6];
    let all = stretch(&code, 8, [0; 16], |index, registers| {
        if index == 0 {
            registers[RAX] += 1;
        }
    });
    assert_eq!(found(&all, 6, 0).unwrap().change, BoundChange::Immediate { address: 0x1004, value: 6 });
}

#[test]
fn a_counter_begins_later_where_its_end_has_another_use() {
    // imul rdx,r8; add rcx,1; cmp rcx,r8; jne back
    let code = [0x49, 0x0f, 0xaf, 0xd0, 0x48, 0x83, 0xc1, 0x01, 0x4c, 0x39, 0xc1, 0x75, 0xf3];
    let mut start = [0; 16];
    start[8] = 500;
    let all = stretch(&code, 8, start, |index, registers| {
        if index == 1 {
            registers[RCX] += 1;
        }
    });
    assert_eq!(found(&all, 3, 0).unwrap().change, BoundChange::Register { index: RCX, by: 497 });
}

#[test]
fn a_count_to_zero_begins_nearer() {
    // sub rax,1; jne back
    let code = [0x48, 0x83, 0xe8, 0x01, 0x75, 0xfa];
    let mut start = [0; 16];
    start[RAX] = 900;
    let all = stretch(&code, 8, start, |index, registers| {
        if index == 0 {
            registers[RAX] -= 1;
        }
    });
    let by = 0u64.wrapping_sub(895);
    assert_eq!(found(&all, 5, 0).unwrap().change, BoundChange::Register { index: RAX, by });
}

#[test]
fn an_index_that_addresses_data_cannot_begin_elsewhere() {
    // add [rdi+rax*8],rcx; sub rax,1; jne back
    let code = [0x48, 0x01, 0x0c, 0xc7, 0x48, 0x83, 0xe8, 0x01, 0x75, 0xf6];
    let mut start = [0; 16];
    start[RAX] = 900;
    let all = stretch(&code, 8, start, |index, registers| {
        if index == 1 {
            registers[RAX] -= 1;
        }
    });
    assert_eq!(found(&all, 5, 0), None);
}

#[test]
fn conditions() {
    use ConditionCode as C;
    assert_eq!(holds(C::l, u64::MAX, 0, 64), Some(true));
    assert_eq!(holds(C::b, u64::MAX, 0, 64), Some(false));
    assert_eq!(holds(C::l, 0xffff_ffff, 0, 32), Some(true));
    assert_eq!(holds(C::p, 0, 0, 32), None);
}
