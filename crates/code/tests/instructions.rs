//! Encodings checked by hand: what each instruction is, and the µops it becomes.
#![allow(clippy::unwrap_used)]

use code::{Block, Class, Uop, decode_block, disassemble};
use iced_x86::{IcedError, code_asm::*};

type Build = fn(&mut CodeAssembler) -> Result<(), IcedError>;

fn assemble(build: Build) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    assembler.assemble(0x1000).unwrap()
}

fn regs(regs: &[code::Reg]) -> String {
    regs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `class:width sources>destinations`, `+` where fused with the µop before.
fn show(uop: &Uop) -> String {
    let fused = if uop.is_fused() { "+" } else { "" };
    let (sources, destinations) = (regs(uop.sources()), regs(uop.destinations()));
    let text = format!("{fused}{:?}:{} {sources}>{destinations}", uop.class(), uop.width_bytes());
    text.trim().to_owned()
}

fn show_all(block: &Block) -> String {
    block.uops().iter().map(show).collect::<Vec<_>>().join(" | ")
}

/// Checks one row: text, class, flops, bytes loaded and stored, µops.
fn check(text: &str, build: Build, class: Class, (flops, loaded, stored): (u64, u64, u64), uops: &str) {
    let bytes = assemble(build);
    assert_eq!(disassemble(&bytes, 0x1000).unwrap(), text);
    let block = decode_block(&bytes, 0x1000).unwrap();
    let [instruction] = block.instructions() else { panic!("{text}: one instruction") };
    let totals = block.totals();
    assert_eq!(instruction.class(), class, "{text}");
    assert_eq!((totals.flops, totals.load_bytes, totals.store_bytes), (flops, loaded, stored), "{text}");
    assert_eq!(show_all(&block), uops, "{text}");
    assert_eq!(usize::from(instruction.length()), bytes.len(), "{text}");
    let ends = block.uops().iter().map(|uop| (uop.is_first(), uop.is_last()));
    assert!(ends.clone().filter(|end| end.0).count() == 1 && ends.filter(|end| end.1).count() == 1, "{text}");
}

macro_rules! table {
    ($($name:ident: $($text:literal, $build:expr, $class:ident, $counts:expr, $uops:literal;)*)*) => {
        $(#[test]
        fn $name() {
            $(check($text, |a| $build(a), Class::$class, $counts, $uops);)*
        })*
    };
}

type A<'a> = &'a mut CodeAssembler;

table! {
    integer:
    "add rax,rbx", |a: A| a.add(rax, rbx), Integer, (0, 0, 0),
        "IntAlu:8 rax,rbx>rax,carry,flags";
    "add eax,[rbx+rcx*4]", |a: A| a.add(eax, dword_ptr(rbx + rcx * 4)), Integer, (0, 4, 0),
        "Load:4 rcx,rbx>tmp0 | +IntAlu:4 rax,tmp0>rax,carry,flags";
    "add [rbx],rax", |a: A| a.add(qword_ptr(rbx), rax), ReadModifyWrite, (0, 8, 8),
        "Load:8 rbx>tmp0 | +IntAlu:8 rax,tmp0>carry,flags,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "cmp dword ptr [rbx],5", |a: A| a.cmp(dword_ptr(rbx), 5), Integer, (0, 4, 0),
        "Load:4 rbx>tmp0 | +IntAlu:4 tmp0>carry,flags";
    "lea rax,[rbx+rcx*8+0x10]", |a: A| a.lea(rax, qword_ptr(rbx + rcx * 8 + 16)), Integer, (0, 0, 0),
        "IntAlu:8 rcx,rbx>rax";
    "inc rax", |a: A| a.inc(rax), Integer, (0, 0, 0),
        "IntAlu:8 rax>rax,flags";
    "adc rax,rbx", |a: A| a.adc(rax, rbx), Integer, (0, 0, 0),
        "IntAlu:8 rax,rbx,carry>rax,carry,flags";
    "mov rax,rbx", |a: A| a.mov(rax, rbx), Integer, (0, 0, 0),
        "Move:8 rbx>rax";
    "mov eax,7", |a: A| a.mov(eax, 7), Integer, (0, 0, 0),
        "IntAlu:4 >rax";
    "mov al,bl", |a: A| a.mov(al, bl), Integer, (0, 0, 0),
        "IntAlu:1 rax,rbx>rax";
    "mov ax,bx", |a: A| a.mov(ax, bx), Integer, (0, 0, 0),
        "IntAlu:2 rax,rbx>rax";
    "movsx rax,bl", |a: A| a.movsx(rax, bl), Integer, (0, 0, 0),
        "IntAlu:8 rbx>rax";
    "cmove rax,rbx", |a: A| a.cmove(rax, rbx), Integer, (0, 0, 0),
        "IntAlu:8 rax,rbx,flags>rax";
    "cmova eax,[rbx]", |a: A| a.cmova(eax, dword_ptr(rbx)), Integer, (0, 4, 0),
        "Load:4 rbx>tmp0 | +IntAlu:4 rax,carry,flags,tmp0>rax";
    "setb al", |a: A| a.setb(al), Integer, (0, 0, 0),
        "IntAlu:1 rax,carry>rax";
    "sete [rbx]", |a: A| a.sete(byte_ptr(rbx)), Store, (0, 0, 1),
        "IntAlu:1 flags>tmp14 | StoreAddress:1 rbx> | +StoreData:1 tmp14>";
    "xchg rax,rbx", |a: A| a.xchg(rax, rbx), Integer, (0, 0, 0),
        "IntAlu:8 rax,rbx>rax,rbx";
    "shl rax,cl", |a: A| a.shl(rax, cl), Integer, (0, 0, 0),
        "IntAlu:8 rax,rcx,carry,flags>rax,carry,flags";
    "shl rax,5", |a: A| a.shl(rax, 5), Integer, (0, 0, 0),
        "IntAlu:8 rax>rax,carry,flags";
    "rol rax,1", |a: A| a.rol(rax, 1), Integer, (0, 0, 0),
        "IntAlu:8 rax,flags>rax,carry,flags";
    "shld rax,rbx,cl", |a: A| a.shld(rax, rbx, cl), Integer, (0, 0, 0),
        "IntAlu:0 rax,rcx,rbx,carry>tmp15 | IntAlu:8 flags,tmp15>rax,carry,flags";
    "shlx rax,rbx,rcx", |a: A| a.shlx(rax, rbx, rcx), Integer, (0, 0, 0),
        "IntAlu:8 rcx,rbx>rax";
    "bt rax,rbx", |a: A| a.bt(rax, rbx), Integer, (0, 0, 0),
        "IntAlu:8 rax,rbx>carry";
    "cdq", |a: A| a.cdq(), Integer, (0, 0, 0),
        "IntAlu:0 rax>rdx";
    multiply_and_divide:
    "imul rax,rbx", |a: A| a.imul_2(rax, rbx), Multiply, (0, 0, 0),
        "IntMul:8 rax,rbx>rax,carry,flags";
    "imul rax,[rax],0x18", |a: A| a.imul_3(rax, qword_ptr(rax), 24), Multiply, (0, 8, 0),
        "Load:8 rax>tmp0 | +IntMul:8 tmp0>rax,carry,flags";
    "mul rbx", |a: A| a.mul(rbx), Multiply, (0, 0, 0),
        "IntMul:8 rax,rbx>rax,rdx,carry,flags";
    "mul qword ptr [rax]", |a: A| a.mul(qword_ptr(rax)), Multiply, (0, 8, 0),
        "Load:8 rax>tmp0 | +IntMul:8 rax,tmp0>rax,rdx,carry,flags";
    "mulx rax,rbx,rcx", |a: A| a.mulx(rax, rbx, rcx), Multiply, (0, 0, 0),
        "IntMul:8 rcx,rdx>rax,rbx";
    "div rcx", |a: A| a.div(rcx), DivideOrSqrt, (0, 0, 0),
        "IntDiv:8 rax,rcx,rdx>rax,rdx";
    "idiv dword ptr [rcx]", |a: A| a.idiv(dword_ptr(rcx)), DivideOrSqrt, (0, 4, 0),
        "Load:4 rcx>tmp0 | +IntDiv:4 rax,rdx,tmp0>rax,rdx";
    "popcnt rax,rbx", |a: A| a.popcnt(rax, rbx), Multiply, (0, 0, 0),
        "IntMul:8 rbx>rax,carry,flags";
    loads_and_stores:
    "mov rax,[rax]", |a: A| a.mov(rax, qword_ptr(rax)), Load, (0, 8, 0),
        "Load:8 rax>rax";
    "mov al,[rbx]", |a: A| a.mov(al, byte_ptr(rbx)), Load, (0, 1, 0),
        "Load:1 rbx>tmp0 | +IntAlu:1 rax,tmp0>rax";
    "movzx eax,byte ptr [rbx]", |a: A| a.movzx(eax, byte_ptr(rbx)), Load, (0, 1, 0),
        "Load:1 rbx>rax";
    "movsxd rax,[rbx]", |a: A| a.movsxd(rax, dword_ptr(rbx)), Load, (0, 4, 0),
        "Load:4 rbx>rax";
    "mov rax,fs:[rbx]", |a: A| a.mov(rax, qword_ptr(rbx).fs()), Load, (0, 8, 0),
        "Load:8 rbx,fs_base>rax";
    "mov [rbx+rcx],eax", |a: A| a.mov(dword_ptr(rbx + rcx), eax), Store, (0, 0, 4),
        "StoreAddress:4 rcx,rbx> | +StoreData:4 rax>";
    "mov qword ptr [rbx],7", |a: A| a.mov(qword_ptr(rbx), 7), Store, (0, 0, 8),
        "StoreAddress:8 rbx> | +StoreData:8 >";
    "movnti [rbx],rax", |a: A| a.movnti(qword_ptr(rbx), rax), Store, (0, 0, 8),
        "StoreAddress:8 rbx> | +StoreData:8 rax>";
    "movbe rax,[rbx]", |a: A| a.movbe(rax, qword_ptr(rbx)), Integer, (0, 8, 0),
        "Load:8 rbx>tmp0 | +IntAlu:8 tmp0>rax";
    "prefetcht0 [rbx+8]", |a: A| a.prefetcht0(byte_ptr(rbx + 8)), Prefetch, (0, 0, 0),
        "Prefetch:0 rbx>";
    "clflush [rbx]", |a: A| a.clflush(byte_ptr(rbx)), Other, (0, 0, 0),
        "Flush:0 rbx>";
    stack:
    "push rax", |a: A| a.push(rax), Store, (0, 0, 8),
        "StoreAddress:8 rsp> | +StoreData:8 rax> | StackPointer:8 rsp>rsp";
    "push rsp", |a: A| a.push(rsp), Store, (0, 0, 8),
        "StoreAddress:8 rsp> | +StoreData:8 rsp> | StackPointer:8 rsp>rsp";
    "push qword ptr [rbx]", |a: A| a.push(qword_ptr(rbx)), Store, (0, 8, 8),
        "Load:8 rbx>tmp0 | StoreAddress:8 rsp> | +StoreData:8 tmp0> | StackPointer:8 rsp>rsp";
    "pop rax", |a: A| a.pop(rax), Load, (0, 8, 0),
        "Load:8 rsp>rax | StackPointer:8 rsp>rsp";
    "pop rsp", |a: A| a.pop(rsp), Load, (0, 8, 0),
        "Load:8 rsp>rsp";
    "pop qword ptr [rbx]", |a: A| a.pop(qword_ptr(rbx)), Store, (0, 8, 8),
        "Load:8 rsp>tmp0 | StoreAddress:8 rbx> | +StoreData:8 tmp0> | StackPointer:8 rsp>rsp";
    "call 0x2000", |a: A| a.call(0x2000), CallOrReturn, (0, 0, 8),
        "StoreAddress:8 rsp> | +StoreData:8 > | Branch:0 > | StackPointer:8 rsp>rsp";
    "call rax", |a: A| a.call(rax), CallOrReturn, (0, 0, 8),
        "StoreAddress:8 rsp> | +StoreData:8 > | Branch:8 rax> | StackPointer:8 rsp>rsp";
    "call qword ptr [rax+8]", |a: A| a.call(qword_ptr(rax + 8)), CallOrReturn, (0, 8, 8),
        "Load:8 rax>tmp0 | StoreAddress:8 rsp> | +StoreData:8 > | Branch:8 tmp0> | StackPointer:8 rsp>rsp";
    "ret", |a: A| a.ret(), CallOrReturn, (0, 8, 0),
        "Load:8 rsp>tmp0 | +Branch:0 tmp0> | StackPointer:8 rsp>rsp";
    "leave", |a: A| a.leave(), Load, (0, 8, 0),
        "IntAlu:8 rbp>rsp | Load:8 rbp>rbp";
    branches:
    "jmp 0x1100", |a: A| a.jmp(0x1100), Branch, (0, 0, 0),
        "Branch:0 >";
    "jmp rax", |a: A| a.jmp(rax), Branch, (0, 0, 0),
        "Branch:8 rax>";
    "jmp qword ptr [rax+rbx*8]", |a: A| a.jmp(qword_ptr(rax + rbx * 8)), Branch, (0, 8, 0),
        "Load:8 rax,rbx>tmp0 | +Branch:8 tmp0>";
    "je 0x1100", |a: A| a.je(0x1100), Branch, (0, 0, 0),
        "Branch:0 flags>";
    "jb 0x1100", |a: A| a.jb(0x1100), Branch, (0, 0, 0),
        "Branch:0 carry>";
    "ja 0x1100", |a: A| a.ja(0x1100), Branch, (0, 0, 0),
        "Branch:0 carry,flags>";
    atomics_and_fences:
    "lock add [rbx],rax", |a: A| a.lock().add(qword_ptr(rbx), rax), AtomicOrFence, (0, 8, 8),
        "Load:8 rbx>tmp0 | +IntAlu:8 rax,tmp0>carry,flags,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "xchg [rbx],rax", |a: A| a.xchg(qword_ptr(rbx), rax), AtomicOrFence, (0, 8, 8),
        "Load:8 rbx>tmp0 | +IntAlu:8 rax,tmp0>rax,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "lock cmpxchg [rbx],rcx", |a: A| a.lock().cmpxchg(qword_ptr(rbx), rcx), AtomicOrFence, (0, 8, 8),
        "Load:8 rbx>tmp0 | +IntAlu:8 rax,rcx,tmp0>rax,carry,flags,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "lock cmpxchg16b [rdi]", |a: A| a.lock().cmpxchg16b(xmmword_ptr(rdi)), AtomicOrFence, (0, 16, 16),
        "Load:16 rdi>tmp0 | IntAlu:0 rax,rcx,rdx,rbx>tmp15 | IntAlu:16 flags,tmp0,tmp15>rax,rdx,flags,tmp14 | StoreAddress:16 rdi> | +StoreData:16 tmp14>";
    "cmpxchg [rbx],rcx", |a: A| a.cmpxchg(qword_ptr(rbx), rcx), ReadModifyWrite, (0, 8, 8),
        "Load:8 rbx>tmp0 | +IntAlu:8 rax,rcx,tmp0>rax,carry,flags,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "mfence", |a: A| a.mfence(), AtomicOrFence, (0, 0, 0),
        "Fence:0 >";
    sse:
    "movaps xmm1,[rbx]", |a: A| a.movaps(xmm1, xmmword_ptr(rbx)), Load, (0, 16, 0),
        "Load:16 rbx>zmm1";
    "movsd xmm1,[rbx]", |a: A| a.movsd_2(xmm1, qword_ptr(rbx)), Load, (0, 8, 0),
        "Load:8 rbx>zmm1";
    "movsd xmm1,xmm2", |a: A| a.movsd_2(xmm1, xmm2), Vector, (0, 0, 0),
        "VectorLogic:8 zmm1,zmm2>zmm1";
    "movhpd xmm1,[rbx]", |a: A| a.movhpd(xmm1, qword_ptr(rbx)), Vector, (0, 8, 0),
        "Load:8 rbx>tmp0 | +VectorShuffle:16 zmm1,tmp0>zmm1";
    "movq rax,xmm1", |a: A| a.movq(rax, xmm1), Vector, (0, 0, 0),
        "Transfer:8 zmm1>rax";
    "movntdq [rbx],xmm1", |a: A| a.movntdq(xmmword_ptr(rbx), xmm1), Store, (0, 0, 16),
        "StoreAddress:16 rbx> | +StoreData:16 zmm1>";
    "addsd xmm1,[rbx]", |a: A| a.addsd(xmm1, qword_ptr(rbx)), FpArithmetic, (1, 8, 0),
        "Load:8 rbx>tmp0 | +FpAdd:8 zmm1,tmp0>zmm1";
    "addpd xmm1,xmm2", |a: A| a.addpd(xmm1, xmm2), FpArithmetic, (2, 0, 0),
        "FpAdd:16 zmm1,zmm2>zmm1";
    "mulps xmm1,xmm2", |a: A| a.mulps(xmm1, xmm2), FpArithmetic, (4, 0, 0),
        "FpMul:16 zmm1,zmm2>zmm1";
    "haddpd xmm1,xmm2", |a: A| a.haddpd(xmm1, xmm2), FpArithmetic, (2, 0, 0),
        "FpAdd:16 zmm1,zmm2>zmm1";
    "divsd xmm1,xmm2", |a: A| a.divsd(xmm1, xmm2), DivideOrSqrt, (1, 0, 0),
        "FpDiv:8 zmm1,zmm2>zmm1";
    "sqrtsd xmm1,xmm2", |a: A| a.sqrtsd(xmm1, xmm2), DivideOrSqrt, (1, 0, 0),
        "FpSqrt:8 zmm1,zmm2>zmm1";
    "sqrtpd xmm1,[rbx]", |a: A| a.sqrtpd(xmm1, xmmword_ptr(rbx)), DivideOrSqrt, (2, 16, 0),
        "Load:16 rbx>tmp0 | +FpSqrt:16 tmp0>zmm1";
    "cvtsi2sd xmm1,rax", |a: A| a.cvtsi2sd(xmm1, rax), FpArithmetic, (0, 0, 0),
        "FpConvert:8 rax,zmm1>zmm1";
    "comisd xmm1,xmm2", |a: A| a.comisd(xmm1, xmm2), FpArithmetic, (0, 0, 0),
        "FpAdd:8 zmm1,zmm2>carry,flags";
    "paddd xmm1,xmm2", |a: A| a.paddd(xmm1, xmm2), Vector, (0, 0, 0),
        "VectorInt:16 zmm1,zmm2>zmm1";
    "pmulld xmm1,xmm2", |a: A| a.pmulld(xmm1, xmm2), Multiply, (0, 0, 0),
        "VectorMul:16 zmm1,zmm2>zmm1";
    "pshufd xmm1,xmm2,3", |a: A| a.pshufd(xmm1, xmm2, 3), Vector, (0, 0, 0),
        "VectorShuffle:16 zmm2>zmm1";
    avx:
    "vmovupd ymm1,[rbx]", |a: A| a.vmovupd(ymm1, ymmword_ptr(rbx)), Load, (0, 32, 0),
        "Load:32 rbx>zmm1";
    "vmovapd [rbx],ymm1", |a: A| a.vmovapd(ymmword_ptr(rbx), ymm1), Store, (0, 0, 32),
        "StoreAddress:32 rbx> | +StoreData:32 zmm1>";
    "vmovntpd [rbx],ymm1", |a: A| a.vmovntpd(ymmword_ptr(rbx), ymm1), Store, (0, 0, 32),
        "StoreAddress:32 rbx> | +StoreData:32 zmm1>";
    "vaddpd ymm1,ymm2,[rbx]", |a: A| a.vaddpd(ymm1, ymm2, ymmword_ptr(rbx)), FpArithmetic, (4, 32, 0),
        "Load:32 rbx>tmp0 | +FpAdd:32 zmm2,tmp0>zmm1";
    "vfmadd231pd ymm1,ymm2,ymm3", |a: A| a.vfmadd231pd(ymm1, ymm2, ymm3), FpArithmetic, (8, 0, 0),
        "FpFma:32 zmm1,zmm2,zmm3>zmm1";
    "vfmadd213sd xmm1,xmm2,[rbx]", |a: A| a.vfmadd213sd(xmm1, xmm2, qword_ptr(rbx)), FpArithmetic, (2, 8, 0),
        "Load:8 rbx>tmp0 | +FpFma:8 zmm1,zmm2,tmp0>zmm1";
    "vsqrtsd xmm1,xmm2,xmm3", |a: A| a.vsqrtsd(xmm1, xmm2, xmm3), DivideOrSqrt, (1, 0, 0),
        "FpSqrt:8 zmm2,zmm3>zmm1";
    "vdivps ymm1,ymm2,ymm3", |a: A| a.vdivps(ymm1, ymm2, ymm3), DivideOrSqrt, (8, 0, 0),
        "FpDiv:32 zmm2,zmm3>zmm1";
    "vbroadcastsd ymm1,[rbx]", |a: A| a.vbroadcastsd(ymm1, qword_ptr(rbx)), Load, (0, 8, 0),
        "Load:8 rbx>zmm1";
    "vbroadcastsd ymm1,xmm2", |a: A| a.vbroadcastsd(ymm1, xmm2), Vector, (0, 0, 0),
        "VectorShuffle:32 zmm2>zmm1";
    "vinsertf128 ymm1,ymm2,[rbx],1", |a: A| a.vinsertf128(ymm1, ymm2, xmmword_ptr(rbx), 1), Vector, (0, 16, 0),
        "Load:16 rbx>tmp0 | +VectorLogic:32 zmm2,tmp0>zmm1";
    "vextractf128 [rbx],ymm1,1", |a: A| a.vextractf128(xmmword_ptr(rbx), ymm1, 1), Store, (0, 0, 16),
        "StoreAddress:16 rbx> | +StoreData:16 zmm1>";
    "vandpd ymm1,ymm2,ymm3", |a: A| a.vandpd(ymm1, ymm2, ymm3), Vector, (0, 0, 0),
        "VectorLogic:32 zmm2,zmm3>zmm1";
    "vmaskmovpd ymm1,ymm2,[rbx]", |a: A| a.vmaskmovpd(ymm1, ymm2, ymmword_ptr(rbx)), Load, (0, 32, 0),
        "Load:32 rbx,zmm2>zmm1";
    "vmaskmovpd [rbx],ymm2,ymm1", |a: A| a.vmaskmovpd(ymmword_ptr(rbx), ymm2, ymm1), Store, (0, 0, 32),
        "StoreAddress:32 rbx> | +StoreData:32 zmm1,zmm2>";
    "vzeroupper", |a: A| a.vzeroupper(), Nop, (0, 0, 0),
        "Nop:0 >";
    avx512:
    "vmovupd zmm1,[rbx]", |a: A| a.vmovupd(zmm1, zmmword_ptr(rbx)), Load, (0, 64, 0),
        "Load:64 rbx>zmm1";
    "vmovapd zmm1{k1},[rbx]", |a: A| a.vmovapd(zmm1.k1(), zmmword_ptr(rbx)), Load, (0, 64, 0),
        "Load:64 rbx>tmp0 | +VectorLogic:64 zmm1,k1,tmp0>zmm1";
    "vmovapd zmm1{k1}{z},[rbx]", |a: A| a.vmovapd(zmm1.k1().z(), zmmword_ptr(rbx)), Load, (0, 64, 0),
        "Load:64 rbx,k1>zmm1";
    "vmovapd [rbx]{k1},zmm1", |a: A| a.vmovapd(zmmword_ptr(rbx).k1(), zmm1), Store, (0, 0, 64),
        "StoreAddress:64 rbx> | +StoreData:64 zmm1,k1>";
    "vaddpd zmm1{k1},zmm2,zmm3", |a: A| a.vaddpd(zmm1.k1(), zmm2, zmm3), FpArithmetic, (8, 0, 0),
        "FpAdd:64 zmm1,zmm2,zmm3,k1>zmm1";
    "vaddps zmm17,zmm2,[rbx]{1to16}", |a: A| a.vaddps(zmm17, zmm2, dword_bcst(rbx)), FpArithmetic, (16, 4, 0),
        "Load:4 rbx>tmp0 | +FpAdd:64 zmm2,tmp0>zmm17";
    "vfmadd231ps zmm1{k1},zmm2,zmm3", |a: A| a.vfmadd231ps(zmm1.k1(), zmm2, zmm3), FpArithmetic, (32, 0, 0),
        "FpFma:64 zmm1,zmm2,zmm3,k1>zmm1";
    "vdivpd zmm1,zmm2,zmm3", |a: A| a.vdivpd(zmm1, zmm2, zmm3), DivideOrSqrt, (8, 0, 0),
        "FpDiv:64 zmm2,zmm3>zmm1";
    "vcmpltpd k1,zmm2,zmm3", |a: A| a.vcmppd(k1, zmm2, zmm3, 1), FpArithmetic, (0, 0, 0),
        "FpAdd:64 zmm2,zmm3>k1";
    "kmovb eax,k1", |a: A| a.kmovb(eax, k1), Vector, (0, 0, 0),
        "Transfer:4 k1>rax";
    "kandw k1,k2,k3", |a: A| a.kandw(k1, k2, k3), Vector, (0, 0, 0),
        "MaskLogic:0 k2,k3>k1";
    "vpternlogd zmm1,zmm2,zmm3,1", |a: A| a.vpternlogd(zmm1, zmm2, zmm3, 1), Vector, (0, 0, 0),
        "VectorLogic:64 zmm1,zmm2,zmm3>zmm1";
    idioms:
    "xor eax,eax", |a: A| a.xor(eax, eax), Integer, (0, 0, 0),
        "Zero:4 >rax,carry,flags";
    "xor al,al", |a: A| a.xor(al, al), Integer, (0, 0, 0),
        "IntAlu:1 rax>rax,carry,flags";
    "sub rax,rax", |a: A| a.sub(rax, rax), Integer, (0, 0, 0),
        "Zero:8 >rax,carry,flags";
    "sbb rax,rax", |a: A| a.sbb(rax, rax), Integer, (0, 0, 0),
        "IntAlu:8 rax,carry>rax,carry,flags";
    "vxorps xmm1,xmm2,xmm2", |a: A| a.vxorps(xmm1, xmm2, xmm2), Vector, (0, 0, 0),
        "Zero:16 >zmm1";
    "pxor xmm1,xmm1", |a: A| a.pxor(xmm1, xmm1), Vector, (0, 0, 0),
        "Zero:16 >zmm1";
    "pxor xmm1,xmm2", |a: A| a.pxor(xmm1, xmm2), Vector, (0, 0, 0),
        "VectorLogic:16 zmm1,zmm2>zmm1";
    "vpxord zmm1{k1},zmm2,zmm2", |a: A| a.vpxord(zmm1.k1(), zmm2, zmm2), Vector, (0, 0, 0),
        "VectorLogic:64 zmm1,k1>zmm1";
    "pcmpeqd xmm1,xmm1", |a: A| a.pcmpeqd(xmm1, xmm1), Vector, (0, 0, 0),
        "VectorInt:16 >zmm1";
    "vpcmpeqd k1,zmm2,zmm2", |a: A| a.vpcmpeqd(k1, zmm2, zmm2), Vector, (0, 0, 0),
        "VectorInt:64 zmm2>k1";
    strings_x87_and_system:
    "movsq [rdi],[rsi]", |a: A| a.movsq(), Store, (0, 8, 8),
        "Load:8 rsi>tmp0 | StoreAddress:8 rdi> | +StoreData:8 tmp0> | IntAlu:8 rsi,rdi>rsi,rdi";
    "rep movsb [rdi],[rsi]", |a: A| a.rep().movsb(), Store, (0, 0, 0),
        "Load:0 rsi>tmp0 | StoreAddress:0 rdi> | +StoreData:0 tmp0> | IntAlu:8 rcx,rsi,rdi>rcx,rsi,rdi";
    "stosq [rdi]", |a: A| a.stosq(), Store, (0, 0, 8),
        "StoreAddress:8 rdi> | +StoreData:8 rax> | IntAlu:8 rdi>rdi";
    "lodsb [rsi]", |a: A| a.lodsb(), Load, (0, 1, 0),
        "Load:1 rsi>tmp0 | IntAlu:1 rax,tmp0>rax | IntAlu:8 rsi>rsi";
    "scasb [rdi]", |a: A| a.scasb(), Integer, (0, 1, 0),
        "Load:1 rdi>tmp0 | IntAlu:1 rax,tmp0>carry,flags | IntAlu:8 rdi>rdi";
    "cmpsd [rsi],[rdi]", |a: A| a.cmpsd(), Integer, (0, 8, 0),
        "Load:4 rsi>tmp0 | Load:4 rdi>tmp1 | IntAlu:4 tmp0,tmp1>carry,flags | IntAlu:8 rsi,rdi>rsi,rdi";
    "fld st,qword ptr [rbx]", |a: A| a.fld(qword_ptr(rbx)), Load, (0, 8, 0),
        "Load:8 rbx>tmp0 | +Move:8 x87,tmp0>x87";
    "fadd st,st(3)", |a: A| a.fadd_2(st0, st3), FpArithmetic, (1, 0, 0),
        "FpAdd:10 x87>x87";
    "fdiv st,qword ptr [rbx]", |a: A| a.fdiv(qword_ptr(rbx)), DivideOrSqrt, (1, 8, 0),
        "Load:8 rbx>tmp0 | +FpDiv:10 x87,tmp0>x87";
    "fstp qword ptr [rbx],st", |a: A| a.fstp(qword_ptr(rbx)), Store, (0, 0, 8),
        "Move:8 x87>x87,tmp14 | StoreAddress:8 rbx> | +StoreData:8 tmp14>";
    "nop [rbx]", |a: A| a.nop_1(dword_ptr(rbx)), Nop, (0, 0, 0),
        "Nop:0 >";
    "pause", |a: A| a.pause(), Pause, (0, 0, 0),
        "Microcode:0 >";
    "syscall", |a: A| a.syscall(), System, (0, 0, 0),
        "Microcode:0 carry,flags>rcx,r11,carry,flags";
    "cpuid", |a: A| a.cpuid(), System, (0, 0, 0),
        "Microcode:0 rax,rcx>rax,rcx,rdx,rbx";
    "hlt", |a: A| a.hlt(), System, (0, 0, 0),
        "Microcode:0 >";
    "ud2", |a: A| a.ud2(), System, (0, 0, 0),
        "Microcode:0 >";
}
