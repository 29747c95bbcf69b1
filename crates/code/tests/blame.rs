//! Whom a sample is blamed on, and whose operand its address is.
#![allow(clippy::unwrap_used)]

use code::{
    Reg,
    blame::{AddressBehind, Blame, Hold, Routine},
};
use iced_x86::{IcedError, code_asm::*};

const ADDRESS: u64 = 0x40_0000;

fn routine(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Routine {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    Routine::new(&assembler.assemble(ADDRESS).unwrap(), ADDRESS)
}

/// Addresses of all instructions.
fn addresses(routine: &Routine) -> Vec<u64> {
    routine.blocks().iter().flat_map(|block| block.instructions()).map(|found| found.address()).collect()
}

/// By instruction, counted through all blocks: which are blamed when it is sampled.
fn blamed(routine: &Routine, sampled: usize, skid: usize) -> Option<Vec<usize>> {
    let all = addresses(routine);
    match routine.blame(all[sampled], skid) {
        Blame::Instructions(spots) => {
            let address = |spot: &code::blame::CodeSpot| {
                routine.blocks()[spot.block].instructions()[spot.index].address()
            };
            let number = |spot| all.iter().position(|at| *at == address(spot)).unwrap();
            Some(spots.iter().map(number).collect())
        }
        _ => None,
    }
}

/// The address that a sample carries whose general registers all have these values.
fn address_of(routine: &Routine, sampled: usize, registers: &[(Reg, u64)]) -> Option<u64> {
    let watched = routine.watched(addresses(routine)[sampled], 1)?;
    watched.address(|wanted| registers.iter().find(|(reg, _)| *reg == wanted).map(|(_, value)| *value))
}

const COUNT: (Reg, u64) = (Reg::RCX, 9);

#[test]
fn filling_is_blamed_on_itself_wherever_its_pointer_comes_from() {
    let argument = routine(|a| {
        a.mov(rcx, qword_ptr(rbx))?;
        a.rep().stosb()?;
        a.ret()
    });
    let computed = routine(|a| {
        a.mov(rcx, qword_ptr(rbx))?;
        a.lea(rdi, qword_ptr(rdx + 0x40))?;
        a.rep().stosb()?;
        a.ret()
    });
    for (routine, fill) in [(&argument, 1), (&computed, 2)] {
        assert_eq!(blamed(routine, fill, 1), Some(vec![fill]));
        let registers = [(Reg::RDI, 0x7000), (Reg::RBX, 0x10), (Reg::RDX, 0x20), COUNT];
        assert_eq!(address_of(routine, fill, &registers), Some(0x7000), "what is filled, not the count");
        let watched = routine.watched(addresses(routine)[fill], 1).unwrap();
        assert_eq!((watched.behind, watched.operand.access().writes()), (AddressBehind::Own, true));
        // Behind it the pointer lies behind the data.
        assert_eq!(blamed(routine, fill + 1, 1), Some(vec![fill]));
        assert_eq!(address_of(routine, fill + 1, &registers), Some(0x6fff));
    }
}

#[test]
fn copying_carries_the_address_it_reads() {
    let copy = routine(|a| a.rep().movsb().and_then(|()| a.ret()));
    let registers = [(Reg::RSI, 0x1000), (Reg::RDI, 0x2000), COUNT];
    assert_eq!(address_of(&copy, 0, &registers), Some(0x1000));
    assert!(copy.watched(ADDRESS, 1).unwrap().operand.access().reads());
}

#[test]
fn the_skid_says_how_far_before_the_sample() {
    let code = routine(|a| {
        a.mov(rax, qword_ptr(rdi + 8))?;
        a.add(rax, qword_ptr(rsi))?;
        a.mov(qword_ptr(rdx), rax)?;
        a.push(rax)?;
        a.ret()
    });
    let bases = |skid| {
        let base = |address: &u64| code.watched(*address, skid)?.operand.base();
        addresses(&code).iter().map(base).collect::<Vec<_>>()
    };
    let [first, second, third, stack] = [Reg::RDI, Reg::RSI, Reg::RDX, Reg::RSP].map(Some);
    assert_eq!(bases(0), [first, second, third, stack, stack]);
    assert_eq!(bases(1)[1..], [first, second, third, stack]);
    assert_eq!(bases(2)[2..], [first, second, third]);
    // At the entry nobody knows who led there: no address, however the registers look.
    assert_eq!(code.blame(ADDRESS, 1), Blame::Entry(code.spot(ADDRESS).unwrap()));
    assert_eq!(address_of(&code, 0, &[(Reg::RDI, 1)]), None);
    assert_eq!(code.blame(ADDRESS + 1, 1), Blame::Unknown, "within an instruction");
}

/// xor eax,eax; top: cmp [rdi+rax*8],rsi; je found; inc rax; cmp rax,rdx; jb top; found: ret
fn search() -> Routine {
    routine(|a| {
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
fn a_jump_fused_with_a_load_waits_for_it_also_across_blocks() {
    let search = search();
    // Behind the jump lies another block; its only way in is the fused pair.
    assert_eq!(blamed(&search, 3, 1), Some(vec![1]));
    assert_eq!(address_of(&search, 3, &[(Reg::RDI, 0x1000), (Reg::RAX, 2)]), Some(0x1010));
    // The top has two ways in that compute or jump.
    assert_eq!(blamed(&search, 1, 1), Some(vec![0, 5]));
    assert_eq!(search.watched(addresses(&search)[1], 1), None);
    // The end has a load and a jump before it.
    assert_eq!(
        search.blame(addresses(&search)[6], 1),
        Blame::Undecided(search.spot(addresses(&search)[6]).unwrap())
    );
    assert_eq!(search.leads_to(addresses(&search)[6]), [1, 2]);
}

#[test]
fn of_several_ways_in_the_address_is_kept_if_all_touch_the_same() {
    let direct = |second: AsmRegister64| {
        routine(|a| {
            let (mut top, mut end) = (a.create_label(), a.create_label());
            a.set_label(&mut top)?;
            a.cmp(qword_ptr(second), rdx)?;
            a.je(end)?;
            a.cmp(qword_ptr(rbx), rdx)?;
            a.je(end)?;
            a.jmp(top)?;
            a.set_label(&mut end)?;
            a.ret()
        })
    };
    for (second, expected) in [(rbx, Some(0x500)), (rsi, None)] {
        let code = direct(second);
        assert_eq!(blamed(&code, 5, 1), Some(vec![0, 2]));
        assert_eq!(address_of(&code, 5, &[(Reg::RBX, 0x500), (Reg::RSI, 0x600)]), expected);
    }
}

#[test]
fn behind_a_call_the_registers_are_others() {
    let code = routine(|a| {
        a.call(qword_ptr(rax + 24))?;
        a.add(rax, 1)?;
        a.ret()
    });
    assert_eq!(blamed(&code, 1, 1), Some(vec![0]));
    let watched = code.watched(addresses(&code)[1], 1).unwrap();
    assert_eq!((watched.behind, watched.operand.base()), (AddressBehind::Lost, Some(Reg::RAX)));
    assert_eq!(address_of(&code, 1, &[(Reg::RAX, 0x1000)]), None);
}

#[test]
fn a_register_that_was_loaded_is_the_next_address_or_none() {
    let behind = |build: &dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>| {
        let code = routine(|a| build(a).and_then(|()| a.nop()));
        code.watched(addresses(&code)[1], 1).unwrap().behind
    };
    assert_eq!(behind(&|a| a.mov(rax, qword_ptr(rax))), AddressBehind::Next);
    assert_eq!(behind(&|a| a.mov(rax, qword_ptr(rbx + rax * 8))), AddressBehind::Lost, "an index");
    assert_eq!(behind(&|a| a.mov(rcx, qword_ptr(rbx + rax * 8))), AddressBehind::Own);
    let changed = routine(|a| {
        a.mov(rax, qword_ptr(rax))?;
        a.shl(rax, 3)?;
        a.ret()
    });
    assert_eq!(changed.watched(addresses(&changed)[1], 1).unwrap().behind, AddressBehind::Lost);
}

/// Links that are indices: `while (next[i] != i) i = next[i]`.
#[test]
fn an_index_that_is_only_widened_is_the_next_address_in_a_loop() {
    type Step = fn(&mut CodeAssembler) -> Result<(), IcedError>;
    let behind = |between: Step| {
        let code = routine(|a| {
            let mut top = a.create_label();
            a.set_label(&mut top)?;
            between(a)?;
            a.mov(ecx, dword_ptr(rdi + rcx * 4))?;
            a.cmp(edx, ecx)?;
            a.jne(top)
        });
        code.watched(addresses(&code)[2], 1).unwrap().behind
    };
    let widening: [Step; 2] = [|a| a.mov(ecx, ecx), |a| a.movsxd(rcx, ecx)];
    assert_eq!(widening.map(behind), [AddressBehind::Next; 2]);
    let others: [Step; 4] =
        [|a| a.mov(ecx, eax), |a| a.movzx(ecx, cl), |a| a.shl(ecx, 1), |a| a.movsxd(rcx, eax)];
    assert_eq!(others.map(behind), [AddressBehind::Lost; 4]);
    let extended = routine(|a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.cdqe()?;
        a.mov(eax, dword_ptr(rdi + rax * 4))?;
        a.test(eax, eax)?;
        a.jne(top)
    });
    assert_eq!(extended.watched(addresses(&extended)[2], 1).unwrap().behind, AddressBehind::Next);
}

#[test]
fn what_holds_a_core_up() {
    let hold = |build: &dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>| {
        let code = routine(build);
        let block = &code.blocks()[0];
        Hold::of(block, &block.instructions()[0])
    };
    assert_eq!(hold(&|a| a.add(rax, qword_ptr(rbx))), Some(Hold::Loads));
    assert_eq!(hold(&|a| a.call(qword_ptr(rbx))), Some(Hold::Loads));
    assert_eq!(hold(&|a| a.rep().stosb()), Some(Hold::Stores));
    assert_eq!(hold(&|a| a.lock().inc(qword_ptr(rbx))), Some(Hold::Atomics));
    assert_eq!(hold(&|a| a.div(rbx)), Some(Hold::Divides));
    for near in
        [hold(&|a| a.push(rax)), hold(&|a| a.ret()), hold(&|a| a.jmp(rax)), hold(&|a| a.imul_2(rax, rbx))]
    {
        assert_eq!(near, None);
    }
}

/// top: movzx eax,[rdi]; inc rdi; jmp rax or [table+rax*8]; nop; one: add rbx,[rsi]; jmp top; nop; two: sub rbx,rcx; jmp top
fn switch(jump: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Routine {
    routine(|a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.movzx(eax, byte_ptr(rdi))?;
        a.inc(rdi)?;
        jump(a)?;
        a.nop()?;
        a.add(rbx, qword_ptr(rsi))?;
        a.jmp(top)?;
        a.nop()?;
        a.sub(rbx, rcx)?;
        a.jmp(top)
    })
}

#[test]
fn cases_of_a_switch_begin_behind_what_fills_space_and_are_blamed_on_its_jump() {
    for switch in [switch(|a| a.jmp(rax)), switch(|a| a.jmp(qword_ptr(rax * 8 + 0x40_2000)))] {
        let jump = 2;
        for first in [4, 7] {
            assert_eq!(blamed(&switch, first, 1), Some(vec![jump]), "{first}");
            let spot = switch.spot(addresses(&switch)[first]).unwrap();
            assert_eq!(spot.index, 0, "what fills the space before it is no part of it");
            assert!(switch.cases().contains(&spot.block));
        }
        assert_eq!(switch.cases().len(), 2);
        let block = &switch.blocks()[0];
        assert_eq!(Hold::of(block, &block.instructions()[jump]), None, "a table of jumps is near");
    }
}

#[test]
fn a_jump_through_a_pointer_in_data_can_wait_for_it() {
    let hold = |threaded: Routine| {
        let block = &threaded.blocks()[0];
        Hold::of(block, &block.instructions()[2])
    };
    assert_eq!(hold(switch(|a| a.jmp(qword_ptr(rdi)))), Some(Hold::Loads));
    // Labels are listed one after the other, and the list is short.
    assert_eq!(hold(switch(|a| a.jmp(qword_ptr(rdx + rax * 8)))), None);
}

#[test]
fn without_an_indirect_jump_nothing_is_a_case() {
    let code = routine(|a| {
        let mut end = a.create_label();
        a.jmp(end)?;
        a.nop()?;
        a.sub(rbx, rcx)?;
        a.set_label(&mut end)?;
        a.ret()
    });
    assert_eq!(code.cases(), [] as [usize; 0]);
    let unreached = addresses(&code)[2];
    assert_eq!(code.blame(unreached, 1), Blame::Entry(code.spot(unreached).unwrap()));
}
