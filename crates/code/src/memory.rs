//! Memory operands: which bytes an instruction touches, and how.

use serde::{Deserialize, Serialize};

use crate::register::{Reg, RegSet};

/// What an instruction does to the memory an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAccess {
    /// Only reads it.
    Read,
    /// Only writes it.
    Write,
    /// Reads, then writes it.
    ReadWrite,
    /// Asks for the line and waits for nothing.
    Prefetch,
    /// Writes the line back or drops it (clflush, clwb, cldemote).
    Flush,
}

impl MemoryAccess {
    /// Whether data is read.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether data is written.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// How base, index and displacement make an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// Their sum, in 64 bits.
    Bits64,
    /// Their sum, cut to 32 bits (address-size prefix).
    Bits32,
    /// The index is the lowest byte of its register (xlat).
    ByteIndex,
    /// The index is one lane of a vector register (gathers, scatters).
    VectorIndex,
    /// A register adds a bit offset (bt and its kin with a register operand).
    BitOffset,
}

/// One memory access of an instruction.
///
/// A gather or scatter has one operand per element. Implicit operands (stack, string instructions) are here too.
/// The address is the one before the instruction changes any register: a push writes at `rsp - 8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    pub(crate) displacement: i64,
    pub(crate) bytes: u16,
    pub(crate) base: Option<Reg>,
    pub(crate) index: Option<Reg>,
    pub(crate) segment: Option<Reg>,
    pub(crate) scale: u8,
    pub(crate) lane: u8,
    pub(crate) access: MemoryAccess,
    pub(crate) form: AddressForm,
}

impl MemoryOperand {
    /// What lies where a register points to.
    pub(crate) const fn at(register: Reg) -> Self {
        Self {
            displacement: 0,
            bytes: 8,
            base: Some(register),
            index: None,
            segment: None,
            scale: 1,
            lane: 0,
            access: MemoryAccess::Read,
            form: AddressForm::Bits64,
        }
    }

    /// What the instruction does to it.
    pub const fn access(&self) -> MemoryAccess {
        self.access
    }

    /// How many bytes are accessed; none where that is only known when the code runs (`rep movs`, `xsave`) or no
    /// data moves (prefetch, flush). A masked access counts whole.
    pub const fn bytes(&self) -> Option<u16> {
        if self.bytes == 0 { None } else { Some(self.bytes) }
    }

    /// The base register; none also for rip-relative operands, whose displacement is already the address.
    pub const fn base(&self) -> Option<Reg> {
        self.base
    }

    /// The index register; a vector register for gathers and scatters.
    pub const fn index(&self) -> Option<Reg> {
        self.index
    }

    /// What the index is multiplied by: 1, 2, 4 or 8.
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// The constant part; the whole address where there is neither base nor index.
    pub const fn displacement(&self) -> i64 {
        self.displacement
    }

    /// [`Reg::FS_BASE`] or [`Reg::GS_BASE`] where one of them is added.
    pub const fn segment(&self) -> Option<Reg> {
        self.segment
    }

    /// Which element of a gather or scatter this is; 0 otherwise.
    pub const fn lane(&self) -> u8 {
        self.lane
    }

    /// Whether the address is the same at every execution: no register takes part.
    pub const fn is_constant(&self) -> bool {
        self.base.is_none()
            && self.index.is_none()
            && self.segment.is_none()
            && !matches!(self.form, AddressForm::BitOffset)
    }

    /// The address, given the registers as they were before the instruction.
    ///
    /// None where a register is unknown to `value_of`, where it comes from a vector register (gathers), or where
    /// a bit offset in a register moves it (`bts [m], r`).
    pub fn effective_address(&self, value_of: impl Fn(Reg) -> Option<u64>) -> Option<u64> {
        let part = |reg: Option<Reg>| reg.map_or(Some(0), &value_of);
        let index = match self.form {
            AddressForm::VectorIndex | AddressForm::BitOffset => return None,
            AddressForm::ByteIndex => part(self.index)? & 0xff,
            AddressForm::Bits64 | AddressForm::Bits32 => part(self.index)?,
        };
        let mut offset = part(self.base)?
            .wrapping_add(index.wrapping_mul(u64::from(self.scale)))
            .wrapping_add_signed(self.displacement);
        if self.form == AddressForm::Bits32 {
            offset &= 0xffff_ffff;
        }
        Some(offset.wrapping_add(part(self.segment)?))
    }

    pub(crate) fn address_registers(&self) -> RegSet {
        [self.base, self.index, self.segment].into_iter().flatten().collect()
    }
}
