//! What an instruction reads and writes, from iced's tables to our registers and memory operands.

use iced_x86::{
    CodeSize, Instruction as Iced, InstructionInfoFactory, InstructionInfoOptions, MemorySize, Mnemonic,
    OpAccess, OpKind, Register, RflagsBits, UsedMemory, UsedRegister,
};

use crate::{
    idiom::breaks_dependency,
    memory::{AddressForm, MemoryAccess, MemoryOperand},
    operation::{CodeOperation, UopKind, is_bit_string},
    register::{Reg, RegSet},
};

/// The flags kept together in [`Reg::FLAGS`].
const OTHER_FLAGS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;

/// Registers of an instruction, those that only form an address left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegisterUse {
    pub(crate) reads: RegSet,
    pub(crate) writes: RegSet,
}

/// Reads the operands of one instruction at a time, without allocating once warm.
pub(crate) struct DecodedOperands {
    factory: InstructionInfoFactory,
    memory: Vec<MemoryOperand>,
}

impl DecodedOperands {
    pub(crate) fn new() -> Self {
        Self { factory: InstructionInfoFactory::new(), memory: Vec::with_capacity(16) }
    }

    /// The memory operands in program order: reads before writes, lanes of a gather in order.
    pub(crate) fn memory(&mut self, iced: &Iced, operation: CodeOperation) -> &[MemoryOperand] {
        self.memory.clear();
        match operation.kind {
            UopKind::Nop | UopKind::Pause | UopKind::Fence => {}
            UopKind::Prefetch => self.push_explicit(iced, MemoryAccess::Prefetch),
            UopKind::Flush => self.push_explicit(iced, MemoryAccess::Flush),
            _ => self.push_used(iced),
        }
        &self.memory
    }

    fn push_used(&mut self, iced: &Iced) {
        let Self { factory, memory } = self;
        let used = factory.info_options(iced, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory();
        for first in [true, false] {
            for used in used {
                let Some(access) = access(used.access()) else {
                    continue;
                };
                if access.reads() == first {
                    let lanes = if iced.is_vsib() { vsib_lanes(iced) } else { 1 };
                    memory.extend((0..lanes).map(|lane| operand(iced, used, access, lane)));
                }
            }
        }
    }

    /// Accesses that iced does not count as such: nothing is read or written.
    fn push_explicit(&mut self, iced: &Iced, access: MemoryAccess) {
        if !iced.op_kinds().any(|kind| kind == OpKind::Memory) {
            return;
        }
        let address_size = match (iced.memory_base(), iced.memory_index()) {
            (base, index) if base.is_gpr32() || index.is_gpr32() => CodeSize::Code32,
            _ => CodeSize::Code64,
        };
        let base = if iced.is_ip_rel_memory_operand() { Register::None } else { iced.memory_base() };
        let used = UsedMemory::new2(
            iced.memory_segment(),
            base,
            iced.memory_index(),
            iced.memory_index_scale(),
            iced.memory_displacement64(),
            MemorySize::Unknown,
            OpAccess::Read,
            address_size,
            0,
        );
        let lanes = if iced.is_vsib() { vsib_lanes(iced) } else { 1 };
        self.memory.extend((0..lanes).map(|lane| operand(iced, &used, access, lane)));
    }

    /// The registers read and written, apart from the addresses of memory operands.
    pub(crate) fn registers(
        &mut self,
        iced: &Iced,
        operation: CodeOperation,
        has_memory: bool,
    ) -> RegisterUse {
        if matches!(operation.kind, UopKind::Nop | UopKind::Pause | UopKind::Prefetch | UopKind::Flush) {
            return RegisterUse::default();
        }
        let mut bare = *iced;
        // The index of a tile load is the distance of its rows, which its operand does not show.
        if has_memory && iced.memory_size() != MemorySize::Tile {
            bare.set_memory_base(Register::None);
            bare.set_memory_index(Register::None);
            bare.set_segment_prefix(Register::None);
        }
        let used = self.factory.info_options(&bare, InstructionInfoOptions::NO_MEMORY_USAGE).used_registers();
        let mut registers = RegisterUse::default();
        let implicit_stack = moves_stack_pointer(iced);
        for used in used {
            if implicit_stack && used.register() == Register::RSP && used.access() == OpAccess::ReadWrite {
                continue;
            }
            add_register(&mut registers, used);
        }
        if is_address_only(iced.mnemonic()) {
            registers.reads = registers.reads.without(self.addresses());
        }
        if iced.fpu_stack_increment_info().writes_top() {
            registers.writes.insert(Reg::X87);
        }
        if registers.writes.contains(Reg::X87) {
            registers.reads.insert(Reg::X87);
        }
        if breaks_dependency(iced) {
            registers.reads = RegSet::EMPTY;
        }
        add_flags(&mut registers, iced);
        registers
    }

    fn addresses(&self) -> RegSet {
        self.memory.iter().fold(RegSet::EMPTY, |set, operand| set.union(operand.address_registers()))
    }
}

/// Explicit or implicit register operands that are nothing but addresses.
fn is_address_only(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq | Mnemonic::Movdir64b
    )
}

/// Whether the stack pointer moves by a constant as part of the instruction, beside its operands.
pub(crate) fn moves_stack_pointer(iced: &Iced) -> bool {
    use Mnemonic::{Call, Pop, Popfq, Push, Pushfq, Ret};
    matches!(iced.mnemonic(), Push | Pop | Call | Ret | Pushfq | Popfq) && iced.stack_pointer_increment() != 0
}

fn access(access: OpAccess) -> Option<MemoryAccess> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(MemoryAccess::Read),
        OpAccess::Write | OpAccess::CondWrite => Some(MemoryAccess::Write),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(MemoryAccess::ReadWrite),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

fn operand(iced: &Iced, used: &UsedMemory, access: MemoryAccess, lane: u8) -> MemoryOperand {
    let form = if used.index().is_vector_register() {
        AddressForm::VectorIndex
    } else if is_bit_string(iced) {
        AddressForm::BitOffset
    } else if used.index().is_gpr8() {
        AddressForm::ByteIndex
    } else if used.address_size() == CodeSize::Code32 {
        AddressForm::Bits32
    } else {
        AddressForm::Bits64
    };
    MemoryOperand {
        displacement: used.displacement() as i64,
        bytes: u16::try_from(used.memory_size().size()).unwrap_or(0),
        base: Reg::from_iced(used.base()),
        index: Reg::from_iced(used.index()),
        segment: Reg::from_iced(used.segment()),
        scale: used.scale() as u8,
        lane,
        access,
        form,
    }
}

/// Elements a gather or scatter accesses: as many as both its indices and its data have.
fn vsib_lanes(iced: &Iced) -> u8 {
    let index_bytes = if iced.is_vsib64() { 8 } else { 4 };
    let indices = iced.memory_index().size() / index_bytes;
    let element_bytes = iced.memory_size().element_size().max(1);
    let data = (0..iced.op_count())
        .filter(|&n| iced.op_kind(n) == OpKind::Register && iced.op_register(n).is_vector_register())
        .map(|n| iced.op_register(n).size() / element_bytes)
        .min();
    indices.min(data.unwrap_or(indices)).min(16) as u8
}

fn add_register(registers: &mut RegisterUse, used: &UsedRegister) {
    let Some(reg) = Reg::from_iced(used.register()) else {
        return;
    };
    let (reads, writes, keeps) = match used.access() {
        OpAccess::Read | OpAccess::CondRead => (true, false, false),
        OpAccess::Write => (false, true, false),
        // The old value stays where the condition fails.
        OpAccess::CondWrite => (false, true, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true, false),
        OpAccess::None | OpAccess::NoMemAccess => return,
    };
    // An 8 or 16 bit write merges into the old value; iced reports a 32 bit write as one of 64 bits.
    let merges = writes && (used.register().is_gpr8() || used.register().is_gpr16());
    if reads || keeps || merges {
        registers.reads.insert(reg);
    }
    if writes {
        registers.writes.insert(reg);
    }
}

fn add_flags(registers: &mut RegisterUse, iced: &Iced) {
    let (read, changed) = (iced.rflags_read(), iced.rflags_modified());
    let written = iced.rflags_written() | iced.rflags_cleared() | iced.rflags_set();
    if read & RflagsBits::CF != 0 {
        registers.reads.insert(Reg::CARRY);
    }
    if read & OTHER_FLAGS != 0 {
        registers.reads.insert(Reg::FLAGS);
    }
    // Left undefined only: nobody may rely on it, so it is no write.
    if written & RflagsBits::CF != 0 {
        registers.writes.insert(Reg::CARRY);
    }
    if written & OTHER_FLAGS != 0 {
        registers.writes.insert(Reg::FLAGS);
        if changed & OTHER_FLAGS != OTHER_FLAGS {
            registers.reads.insert(Reg::FLAGS);
        }
    }
    if shifts_by_cl(iced) {
        // A count of zero leaves the flags alone.
        registers.reads = registers.reads.union(registers.writes.intersection(FLAG_REGISTERS));
    }
}

const FLAG_REGISTERS: RegSet = RegSet::of(Reg::CARRY).union(RegSet::of(Reg::FLAGS));

fn shifts_by_cl(iced: &Iced) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let last = iced.op_count().saturating_sub(1);
    matches!(iced.mnemonic(), Shl | Sal | Shr | Sar | Rol | Ror | Rcl | Rcr | Shld | Shrd)
        && iced.op_kind(last) == OpKind::Register
        && iced.op_register(last) == Register::CL
}
