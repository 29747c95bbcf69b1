//! What is said of instructions beside their class: prefixes, locks, fusion, gathers.
#![allow(clippy::unwrap_used)]

use code::{Block, MemoryAccess, Reg, UopClass, decode_block};
use iced_x86::{IcedError, code_asm::*};

fn block(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Block {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    decode_block(&assembler.assemble(0x1000).unwrap(), 0x1000).unwrap()
}

fn bytes(bytes: &[u8]) -> Block {
    decode_block(bytes, 0x1000).unwrap()
}

#[test]
fn length_changing_prefixes() {
    let stalls = |block: Block| block.instructions()[0].has_length_changing_prefix();
    assert!(stalls(bytes(&[0x66, 0x81, 0xc3, 0x34, 0x12])), "add bx, 1234h");
    assert!(stalls(bytes(&[0x66, 0xb8, 0x34, 0x12])), "mov ax, 1234h");
    assert!(stalls(bytes(&[0x66, 0xc7, 0x03, 0x34, 0x12])), "mov word [rbx], 1234h");
    assert!(stalls(bytes(&[0x67, 0xa0, 0x78, 0x56, 0x34, 0x12])), "mov al, [12345678h]");
    assert!(!stalls(bytes(&[0x66, 0x83, 0xc3, 0x12])), "add bx, 12h has its immediate in 8 bits anyway");
    assert!(!stalls(bytes(&[0x81, 0xc3, 0x78, 0x56, 0x34, 0x12])), "add ebx, 12345678h");
    assert!(!stalls(bytes(&[0xc2, 0x10, 0x00])), "ret 16");
    assert!(!stalls(bytes(&[0x66, 0x89, 0xd8])), "mov ax, bx");
    assert!(!stalls(bytes(&[0xa0, 1, 2, 3, 4, 5, 6, 7, 8])), "mov al, [0807060504030201h]");
}

#[test]
fn locked_whether_or_not_it_says_so() {
    let locked = block(|a| a.lock().add(qword_ptr(rbx), 1));
    let implicit = block(|a| a.xchg(qword_ptr(rbx), rax));
    for atomic in [locked, implicit] {
        assert!(atomic.instructions()[0].is_locked());
        assert!(atomic.uops().iter().all(|uop| uop.is_locked()));
        assert_eq!(atomic.memory()[0].access(), MemoryAccess::ReadWrite);
    }
    assert!(!block(|a| a.xchg(rbx, rax)).instructions()[0].is_locked());
    assert!(!block(|a| a.add(qword_ptr(rbx), 1)).instructions()[0].is_locked());
}

#[test]
fn non_temporal_and_prefetch() {
    let store = block(|a| a.vmovntpd(zmmword_ptr(rbx), zmm1));
    assert!(store.instructions()[0].is_non_temporal());
    assert!(store.uops().iter().all(|uop| uop.is_non_temporal()));
    assert!(!block(|a| a.vmovapd(zmmword_ptr(rbx), zmm1)).instructions()[0].is_non_temporal());

    let prefetch = block(|a| a.prefetchnta(byte_ptr(rbx + 64)));
    let instruction = prefetch.instructions()[0];
    assert_eq!((instruction.loads(), instruction.stores()), (0, 0));
    assert_eq!((prefetch.memory()[0].access(), prefetch.memory()[0].bytes()), (MemoryAccess::Prefetch, None));
    assert_eq!(prefetch.memory()[0].effective_address(|_| Some(0x100)), Some(0x140));
    assert_eq!(prefetch.uops()[0].class(), UopClass::Prefetch);
}

#[test]
fn microcode_and_repetition() {
    let microcoded = |block: &Block| block.instructions()[0].is_microcoded();
    for routine in [
        block(|a| a.rep().movsb()),
        block(|a| a.cpuid()),
        block(|a| a.lock().cmpxchg16b(xmmword_ptr(rdi))),
        block(|a| a.bts(qword_ptr(rbx), rax)),
        block(|a| a.fsin()),
        block(|a| a.hlt()),
    ] {
        assert!(microcoded(&routine), "{:?}", routine.uops());
    }
    for plain in [block(|a| a.bts(rbx, rax)), block(|a| a.push(rax)), block(|a| a.vaddpd(ymm1, ymm2, ymm3))] {
        assert!(!microcoded(&plain), "{:?}", plain.uops());
    }

    let copy = block(|a| a.rep().movsq());
    assert!(copy.instructions()[0].is_repeated());
    assert_eq!(copy.totals().unsized_accesses, 2);
    assert!(copy.memory().iter().all(|operand| operand.bytes().is_none()));
    let once = block(|a| a.movsq());
    assert!(!once.instructions()[0].is_repeated());
    assert_eq!((once.totals().unsized_accesses, once.totals().load_bytes), (0, 8));
    // `rep ret` pads a return for old predictors and repeats nothing.
    assert!(!bytes(&[0xf3, 0xc3]).instructions()[0].is_repeated());
}

/// Follows temporaries back from the last writer of `destination` and counts the loads behind it.
fn loads_behind(block: &Block, destination: Reg) -> usize {
    let uops = block.uops();
    let mut wanted = vec![destination];
    let mut loads = 0;
    for uop in uops.iter().rev() {
        if let Some(found) = wanted.iter().position(|reg| uop.destinations().contains(reg)) {
            wanted.remove(found);
            loads += usize::from(uop.class() == UopClass::Load);
            wanted.extend(uop.sources().iter().filter(|reg| reg.is_temporary()));
        }
    }
    loads
}

#[test]
fn gathers_wait_for_every_element() {
    let result = Reg::vector(1).unwrap();
    let cases = [
        (block(|a| a.vgatherdpd_3(ymm1, ptr(rbx + xmm2 * 8), ymm3)), 4, 8),
        (block(|a| a.vgatherqps_3(xmm1, ptr(rbx + xmm2 * 4), xmm3)), 2, 4),
        (block(|a| a.vgatherqps(ymm1.k1(), ptr(rbx + zmm2 * 8))), 8, 4),
        (block(|a| a.vpgatherdd(zmm1.k1(), ptr(rbx + zmm2 * 4))), 16, 4),
    ];
    for (gather, elements, bytes) in cases {
        let instruction = gather.instructions()[0];
        assert_eq!((usize::from(instruction.loads()), gather.memory().len()), (elements, elements));
        assert_eq!(gather.totals().load_bytes, (elements * bytes) as u64);
        for (lane, operand) in gather.memory().iter().enumerate() {
            assert_eq!((usize::from(operand.lane()), operand.index()), (lane, Reg::vector(2)));
            assert_eq!(operand.effective_address(|_| Some(0)), None, "the index is in a vector register");
        }
        let touched: Vec<_> = gather.uops().iter().filter_map(|uop| uop.memory()).collect();
        assert_eq!(touched, (0..elements).collect::<Vec<_>>());
        assert_eq!(loads_behind(&gather, result), elements, "{:?}", gather.uops());
        let last = gather.uops().last().unwrap();
        assert!(last.destinations().contains(&result) && last.destinations().len() == 2, "result and mask");
    }
}

#[test]
fn scatters_store_every_element() {
    let scatter = block(|a| a.vscatterdpd(ptr(rbx + ymm2 * 8).k1(), zmm1));
    assert_eq!((scatter.totals().stores, scatter.totals().store_bytes), (8, 64));
    let data = scatter.uops().iter().filter(|uop| uop.class() == UopClass::StoreData);
    assert!(data.clone().all(|uop| uop.sources() == [Reg::vector(1).unwrap()]));
    assert_eq!(data.count(), 8);
    let last = scatter.uops().last().unwrap();
    assert_eq!((last.class(), last.destinations()), (UopClass::MaskLogic, &[Reg::mask(1).unwrap()][..]));
}

fn fuses(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>, jump: [u8; 2]) -> bool {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    let mut code = assembler.assemble(0x1000).unwrap();
    code.extend(jump);
    let block = decode_block(&code, 0x1000).unwrap();
    let [first, second] = block.instructions() else { panic!("two instructions") };
    let separate = block.uops().iter().filter(|uop| !uop.is_fused()).count() as u64;
    assert_eq!(block.totals().slots, separate - u64::from(first.fuses_with_next()));
    assert!(!second.fuses_with_next());
    first.fuses_with_next()
}

#[test]
fn compare_and_jump_share_a_slot() {
    let (jb, je, js, jl) = ([0x72, 0x10], [0x74, 0x10], [0x78, 0x10], [0x7c, 0x10]);
    assert!(fuses(|a| a.cmp(rax, rbx), jb));
    assert!(fuses(|a| a.cmp(rax, 5), je));
    assert!(fuses(|a| a.cmp(rax, qword_ptr(rbx)), je));
    assert!(fuses(|a| a.test(rax, rax), js));
    assert!(fuses(|a| a.dec(rax), je));
    assert!(fuses(|a| a.sub(rax, 1), jl));
    assert!(!fuses(|a| a.cmp(rax, rbx), js), "cmp does not fuse with the sign alone");
    assert!(!fuses(|a| a.dec(rax), jb), "dec leaves the carry alone");
    assert!(!fuses(|a| a.cmp(dword_ptr(rbx), 5), je), "memory and immediate");
    assert!(!fuses(|a| a.add(qword_ptr(rbx), rax), je), "writes memory");
    assert!(!fuses(|a| a.or(rax, rbx), je));
}

#[test]
fn the_stack_pointer_takes_no_slot() {
    let push = block(|a| a.push(rax));
    assert_eq!((push.uops().len(), push.totals().uops, push.totals().slots), (3, 2, 1));
    assert!(push.uops()[1].is_last() && !push.uops()[2].is_last());
    let update = block(|a| a.add(qword_ptr(rbx), rax));
    assert_eq!((update.totals().uops, update.totals().slots), (4, 2));
}
