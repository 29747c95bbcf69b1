//! What each mnemonic computes, found once from its name.
//!
//! Mnemonics are regular (`v` for the VEX form, `ps`/`pd`/`ss`/`sd` for the element), so a few rules over names
//! cover their two thousand spellings, and a new spelling of a known operation needs no line here.

use std::sync::LazyLock;

use iced_x86::{Instruction as Iced, Mnemonic, OpKind};

use crate::uop::UopClass::{self, *};

/// What an instruction is, apart from its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodeOperation {
    /// The unit that computes; none where the registers decide (integer, vector or mask).
    pub(crate) class: Option<UopClass>,
    pub(crate) kind: UopKind,
    /// Floating-point operations per lane.
    pub(crate) flops: u8,
    /// Bytes of one element; 0 where it is not floating-point arithmetic.
    pub(crate) element_bytes: u8,
    /// Works on one element, not on the whole register.
    pub(crate) is_scalar: bool,
    /// Its µops come from microcode.
    pub(crate) is_microcoded: bool,
    /// Bypasses the caches.
    pub(crate) is_non_temporal: bool,
}

/// How the splitter treats an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UopKind {
    /// Registers and loaded values in, registers and stored values out.
    #[default]
    Compute,
    /// Value unchanged: the load or the store is all there is to it.
    Move,
    /// A move if it stores, a computation between registers and behind a load.
    MoveToMemory,
    /// A move if it loads, a computation otherwise.
    MoveFromMemory,
    /// No operands that matter.
    Nop,
    Pause,
    Fence,
    Prefetch,
    Flush,
    /// Enters the operating system, or reads or sets the machine's state.
    System,
    /// Atomic without a lock prefix.
    Atomic,
}

impl CodeOperation {
    const fn compute(class: UopClass) -> Self {
        Self { class: Some(class), ..Self::AUTO }
    }

    const fn of_kind(kind: UopKind) -> Self {
        Self { kind, ..Self::AUTO }
    }

    const AUTO: Self = Self {
        class: None,
        kind: UopKind::Compute,
        flops: 0,
        element_bytes: 0,
        is_scalar: false,
        is_microcoded: false,
        is_non_temporal: false,
    };

    const fn microcoded(mut self) -> Self {
        self.is_microcoded = true;
        self
    }
}

/// What `mnemonic` computes.
pub(crate) fn operation(mnemonic: Mnemonic) -> CodeOperation {
    static TABLE: LazyLock<Vec<CodeOperation>> = LazyLock::new(|| {
        Mnemonic::values().map(|mnemonic| classify(&format!("{mnemonic:?}").to_ascii_lowercase())).collect()
    });
    TABLE.get(mnemonic as usize).copied().unwrap_or_default()
}

/// The same for one instruction: string instructions share names with vector ones (`movsd`, `cmpsd`).
pub(crate) fn operation_of(iced: &Iced) -> CodeOperation {
    let operation = operation(iced.mnemonic());
    if iced.is_string_instruction() {
        return CodeOperation { kind: operation.kind, ..CodeOperation::compute(IntAlu).microcoded() };
    }
    let is_microcoded = operation.is_microcoded || iced.is_privileged() || is_bit_string(iced);
    let kind = if iced.is_privileged() { UopKind::System } else { operation.kind };
    CodeOperation { is_microcoded, kind, ..operation }
}

/// Bit tests with a register offset reach beyond their operand.
pub(crate) fn is_bit_string(iced: &Iced) -> bool {
    use Mnemonic::{Bt, Btc, Btr, Bts};
    matches!(iced.mnemonic(), Bt | Btc | Btr | Bts)
        && iced.op0_kind() == OpKind::Memory
        && iced.op1_kind() == OpKind::Register
}

fn classify(name: &str) -> CodeOperation {
    let stem = name.strip_prefix('v').unwrap_or(name);
    control(name)
        .or_else(|| integer(name))
        .or_else(|| x87(name))
        .or_else(|| moves(stem))
        .or_else(|| floating(stem))
        .or_else(|| vector(stem))
        .unwrap_or_default()
}

/// `list` is separated by blanks, as are all lists here.
fn is_one_of(name: &str, list: &str) -> bool {
    list.split_ascii_whitespace().any(|word| name == word)
}

fn any_prefix(name: &str, list: &str) -> bool {
    list.split_ascii_whitespace().any(|prefix| name.starts_with(prefix))
}

/// Everything that is not a computation.
fn control(name: &str) -> Option<CodeOperation> {
    const SYSTEM: &str = "cpuid rdpmc rdrand rdseed rdpid rdpru rdpkru wrpkru xgetbv syscall sysenter int uiret \
        rdfsbase rdgsbase wrfsbase wrgsbase xbegin xend xabort xtest umwait tpause umonitor monitorx \
        mwaitx vmcall vmfunc vmmcall enclu ud0 ud1 ud2 ptwrite senduipi clui stui testui ldtilecfg \
        sttilecfg in out insb insw insd outsb outsw outsd sgdt sidt sldt smsw str enqcmd xsusldtrk xresldtrk";
    const SYSTEM_FAMILIES: &str = "rdtsc xsave xrstor fxsave fxrstor int1 int3 iret";
    let kind = match name {
        "nop" | "reservednop" | "fnop" | "endbr64" | "endbr32" | "wait" => UopKind::Nop,
        "pause" => return Some(CodeOperation::of_kind(UopKind::Pause).microcoded()),
        // Done when registers are renamed; the upper halves it clears carry no dependency worth following.
        "vzeroupper" => UopKind::Nop,
        "mfence" | "lfence" | "sfence" | "serialize" => UopKind::Fence,
        "clflush" | "clflushopt" | "clwb" | "cldemote" => UopKind::Flush,
        "aadd" | "aand" | "aor" | "axor" => UopKind::Atomic,
        _ if name.starts_with("cmp") && name.ends_with("xadd") => UopKind::Atomic,
        _ if name.starts_with("prefetch") || name.contains("gatherpf") || name.contains("scatterpf") => {
            UopKind::Prefetch
        }
        _ if any_prefix(name, SYSTEM_FAMILIES) || is_one_of(name, SYSTEM) => UopKind::System,
        _ => return None,
    };
    let operation = CodeOperation::of_kind(kind);
    Some(if kind == UopKind::System { operation.microcoded() } else { operation })
}

fn integer(name: &str) -> Option<CodeOperation> {
    const MULTIPLY: &str = "imul mul mulx popcnt lzcnt tzcnt bsf bsr pdep pext crc32";
    const MOVES: &str =
        "mov movzx push pop movsb movsw movsq stosb stosw stosd stosq lodsb lodsw lodsd lodsq";
    const MICROCODED: &str = "clzero cmpxchg8b cmpxchg16b rcl rcr xlatb loop loope loopne enter \
        pushfq popfq pushf popf lar lsl \
        verr verw cld std";
    Some(match name {
        "div" | "idiv" => CodeOperation::compute(IntDiv),
        "movsx" | "movsxd" => {
            CodeOperation { class: Some(IntAlu), ..CodeOperation::of_kind(UopKind::MoveFromMemory) }
        }
        "movnti" | "movdiri" | "movdir64b" => {
            CodeOperation { is_non_temporal: true, ..CodeOperation::of_kind(UopKind::Move) }
        }
        _ if is_one_of(name, MULTIPLY) => CodeOperation::compute(IntMul),
        _ if is_one_of(name, MOVES) => CodeOperation::of_kind(UopKind::Move),
        _ if is_one_of(name, MICROCODED) => CodeOperation::compute(IntAlu).microcoded(),
        _ => return None,
    })
}

/// x87 arithmetic counts one operation of an 80-bit element. What no rule names is a microcode routine.
fn x87(name: &str) -> Option<CodeOperation> {
    const COMPARE: &str = "com ucom tst abs chs xam rndint";
    const MOVES: &str = "ld st stp xch ld1 ldz free freep ncstp decstp";
    let arithmetic = |class| CodeOperation {
        flops: 1,
        element_bytes: 10,
        is_scalar: true,
        ..CodeOperation::compute(class)
    };
    let stem = name.strip_prefix("fi").or_else(|| name.strip_prefix('f'))?;
    Some(match stem {
        "add" | "addp" | "sub" | "subp" | "subr" | "subrp" => arithmetic(FpAdd),
        "mul" | "mulp" => arithmetic(FpMul),
        "div" | "divp" | "divr" | "divrp" => arithmetic(FpDiv),
        "sqrt" => arithmetic(FpSqrt),
        "sttp" => CodeOperation::compute(FpConvert),
        _ if any_prefix(stem, COMPARE) => CodeOperation::compute(FpAdd),
        _ if is_one_of(stem, MOVES) || stem.starts_with("cmov") => CodeOperation::compute(Move),
        _ => CodeOperation::compute(Microcode).microcoded(),
    })
}

/// Vector and mask moves. `stem` is the name without its `v`.
fn moves(stem: &str) -> Option<CodeOperation> {
    const WHOLE: &str = "lddqu movdq2q movq2dq movap movup movdqa movdqu kmov maskmovp pmaskmov";
    let shuffles = |kind| CodeOperation { class: Some(VectorShuffle), ..CodeOperation::of_kind(kind) };
    let scalar = |element_bytes| CodeOperation {
        element_bytes,
        is_scalar: true,
        ..CodeOperation::of_kind(UopKind::Move)
    };
    let non_temporal = CodeOperation { is_non_temporal: true, ..CodeOperation::of_kind(UopKind::Move) };
    Some(match stem {
        "movq" | "movsd" => scalar(8),
        "movd" | "movss" => scalar(4),
        "movw" | "movsh" => scalar(2),
        "movddup" | "movsldup" | "movshdup" | "pbroadcastd" | "pbroadcastq" => {
            shuffles(UopKind::MoveFromMemory)
        }
        "movlps" | "movlpd" | "movhps" | "movhpd" => shuffles(UopKind::MoveToMemory),
        "maskmovdqu" | "maskmovq" => non_temporal.microcoded(),
        _ if any_prefix(stem, "extractf extracti") => shuffles(UopKind::MoveToMemory),
        _ if stem.starts_with("broadcast") => shuffles(UopKind::MoveFromMemory),
        _ if stem.starts_with("movnt") => non_temporal,
        _ if any_prefix(stem, WHOLE) => CodeOperation::of_kind(UopKind::Move),
        _ => return None,
    })
}

/// Floating-point operations: a base and an element suffix.
fn floating(stem: &str) -> Option<CodeOperation> {
    let (base, suffix) = stem.split_at_checked(stem.len().checked_sub(2)?)?;
    let element = |suffix| {
        Some(match suffix {
            "ps" => (4, false),
            "ss" => (4, true),
            "pd" => (8, false),
            "sd" => (8, true),
            "ph" => (2, false),
            "sh" => (2, true),
            _ => return None,
        })
    };
    if any_prefix(stem, "cvt bcstne") {
        let scalar_source = ["sd", "ss", "sh"].into_iter().find(|name| stem.contains(&format!("{name}2")));
        let scalar = element(suffix).filter(|element| element.1).or_else(|| element(scalar_source?));
        let (element_bytes, is_scalar) = scalar.unwrap_or_default();
        return Some(CodeOperation { element_bytes, is_scalar, ..CodeOperation::compute(FpConvert) });
    }
    let (element_bytes, is_scalar) = element(suffix)?;
    let (class, flops) = floating_base(base, is_scalar)?;
    let counts_lanes = !matches!(class, VectorLogic | VectorShuffle | Transfer);
    let element_bytes = if counts_lanes { element_bytes } else { 0 };
    Some(CodeOperation {
        flops,
        element_bytes,
        is_scalar: is_scalar && counts_lanes,
        ..CodeOperation::compute(class)
    })
}

/// The unit, and the operations per lane.
fn floating_base(base: &str, is_scalar: bool) -> Option<(UopClass, u8)> {
    Some(match base {
        "add" | "sub" | "addsub" | "hadd" | "hsub" | "min" | "max" | "range" => (FpAdd, 1),
        "cmp" | "comi" | "ucomi" | "round" | "rndscale" | "reduce" | "getexp" | "getmant" | "fixupimm"
        | "scalef" | "fpclass" | "frcz" => (FpAdd, 0),
        "mul" | "rcp" | "rsqrt" | "rcp14" | "rsqrt14" | "rcp28" | "rsqrt28" => (FpMul, 1),
        "div" => (FpDiv, 1),
        "sqrt" => (FpSqrt, 1),
        "dp" => (FpMul, 2),
        // Two products of half-size elements into each lane.
        "dpbf16" => (FpFma, 4),
        // Four products and sums into each lane.
        "4fmadd" | "4fnmadd" => (FpFma, 8),
        // Complex: a pair of lanes makes one number, the scalar form works on one pair.
        "fmulc" | "fcmulc" => (FpMul, if is_scalar { 6 } else { 3 }),
        "fmaddc" | "fcmaddc" => (FpFma, if is_scalar { 8 } else { 4 }),
        _ if any_prefix(base, "fmadd fmsub fnmadd fnmsub") => (FpFma, 2),
        "and" | "andn" | "or" | "xor" | "blend" | "blendv" | "blendm" | "test" => (VectorLogic, 0),
        _ if any_prefix(base, "shuf unpck perm insert extract expand compress") => (VectorShuffle, 0),
        "movmsk" => (Transfer, 0),
        _ => return None,
    })
}

/// Vector integer operations; what no rule names is left to the registers.
fn vector(stem: &str) -> Option<CodeOperation> {
    const LOGIC: &str = "pand por pxor pternlog ptest pblend pcmov";
    const MULTIPLY: &str = "pmul pmadd pmac pdp psadbw dbpsadbw mpsadbw pclmul gf2p8 aes sha sm3 sm4 tdp";
    const SHUFFLE: &str = "pshuf punpck perm pperm palignr align insert extract pinsr pextr pbroadcast pack pexpand \
        pcompress pmovsx pmovzx pslldq psrldq movhlps movlhps shuf";
    const STRINGS: &str = "pcmpestr pcmpistr";
    Some(match stem {
        "zeroall" => CodeOperation::compute(Zero).microcoded(),
        "emms" | "femms" | "ldmxcsr" | "stmxcsr" => CodeOperation::compute(Microcode).microcoded(),
        "pmovmskb" => CodeOperation::compute(Transfer),
        _ if any_prefix(stem, STRINGS) => CodeOperation::compute(VectorMul).microcoded(),
        _ if any_prefix(stem, LOGIC) => CodeOperation::compute(VectorLogic),
        // Mask to vector and back stay with the vector units.
        _ if stem.starts_with("pmovm2") || stem.ends_with("2m") => CodeOperation::compute(VectorInt),
        _ if any_prefix(stem, MULTIPLY) => CodeOperation::compute(VectorMul),
        _ if any_prefix(stem, SHUFFLE) || stem.starts_with("pmov") => CodeOperation::compute(VectorShuffle),
        _ if any_prefix(stem, "gather pgather scatter pscatter") => {
            CodeOperation::compute(VectorShuffle).microcoded()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_found_with_its_lanes() {
        let cases = [
            (Mnemonic::Addsd, FpAdd, 1, 8, true),
            (Mnemonic::Vsubps, FpAdd, 1, 4, false),
            (Mnemonic::Vmaxph, FpAdd, 1, 2, false),
            (Mnemonic::Vfmadd231pd, FpFma, 2, 8, false),
            (Mnemonic::Vfnmsub132ss, FpFma, 2, 4, true),
            (Mnemonic::Vfmaddsub213ps, FpFma, 2, 4, false),
            (Mnemonic::Mulps, FpMul, 1, 4, false),
            (Mnemonic::Vrsqrt14pd, FpMul, 1, 8, false),
            (Mnemonic::Vdivsd, FpDiv, 1, 8, true),
            (Mnemonic::Sqrtpd, FpSqrt, 1, 8, false),
            (Mnemonic::Fdivrp, FpDiv, 1, 10, true),
            (Mnemonic::Fiadd, FpAdd, 1, 10, true),
            (Mnemonic::Ucomisd, FpAdd, 0, 8, true),
            (Mnemonic::Vdpps, FpMul, 2, 4, false),
        ];
        for (mnemonic, class, flops, element_bytes, is_scalar) in cases {
            let expected = CodeOperation { flops, element_bytes, is_scalar, ..CodeOperation::compute(class) };
            assert_eq!(operation(mnemonic), expected, "{mnemonic:?}");
        }
    }

    #[test]
    fn names_that_look_like_others() {
        let class = |mnemonic| operation(mnemonic).class;
        assert_eq!(class(Mnemonic::Pmaxsd), None, "an integer maximum, decided by its registers");
        assert_eq!(class(Mnemonic::Vpermpd), Some(VectorShuffle));
        assert_eq!(class(Mnemonic::Vphaddsw), None);
        assert_eq!(class(Mnemonic::Fisttp), Some(FpConvert));
        assert_eq!(class(Mnemonic::Vpmultishiftqb), Some(VectorMul));
        assert_eq!(class(Mnemonic::Vpmovm2d), Some(VectorInt));
        assert_eq!(class(Mnemonic::Vpmovqd), Some(VectorShuffle));
        assert_eq!(class(Mnemonic::Vpsrldq), Some(VectorShuffle));
        assert_eq!(class(Mnemonic::Vpsrld), None);
        assert_eq!(class(Mnemonic::Vcvtps2pd), Some(FpConvert));
        assert_eq!(
            operation(Mnemonic::Vmovntpd),
            CodeOperation { is_non_temporal: true, ..CodeOperation::of_kind(UopKind::Move) }
        );
        assert_eq!(operation(Mnemonic::Inc).kind, UopKind::Compute);
        assert_eq!(operation(Mnemonic::Int).kind, UopKind::System);
        assert_eq!(operation(Mnemonic::Test), CodeOperation::AUTO);
        assert_eq!(operation(Mnemonic::Cmpxchg).kind, UopKind::Compute);
        assert_eq!(operation(Mnemonic::Cmpzxadd).kind, UopKind::Atomic);
    }
}
