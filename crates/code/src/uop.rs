//! Micro-operations: what a core schedules.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::register::{Reg, RegSet};

/// The unit a µop needs. Latency and ports belong to a machine model, not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum UopClass {
    /// Reads memory.
    Load,
    /// Asks for a line; completes at once.
    Prefetch,
    /// Computes the address of a store.
    StoreAddress,
    /// Delivers the data of a store.
    StoreData,
    /// Integer add, logic, shift, compare, lea, conditional move.
    IntAlu,
    /// Integer multiply, and the bit counting and scattering that shares its unit (popcnt, lzcnt, pdep, crc32).
    IntMul,
    /// Integer divide.
    IntDiv,
    /// Floating-point add, subtract, min, max, compare, round.
    FpAdd,
    /// Floating-point multiply, and approximate reciprocals.
    FpMul,
    /// Fused multiply-add.
    FpFma,
    /// Floating-point divide.
    FpDiv,
    /// Floating-point square root.
    FpSqrt,
    /// Conversion between number formats.
    FpConvert,
    /// Vector integer add, shift, compare, min, max.
    VectorInt,
    /// Vector integer multiply, and what shares its long latency (carry-less multiply, AES, SHA).
    VectorMul,
    /// Bitwise vector logic and blends.
    VectorLogic,
    /// Vector shuffle, insert, extract, widen, narrow.
    VectorShuffle,
    /// Mask register logic.
    MaskLogic,
    /// Copy of a register within its file. Nothing here removes it: a machine model with move elimination may.
    Move,
    /// Copy between general, vector and mask registers.
    Transfer,
    /// A register set to zero by an idiom: no source, no execution unit.
    Zero,
    /// The stack pointer moved by push, pop, call or return: no slot and no unit on cores with a stack engine.
    StackPointer,
    /// Takes a slot and does nothing.
    Nop,
    /// Jump, call or return.
    Branch,
    /// Orders memory or execution.
    Fence,
    /// Flushes or writes back a cache line.
    Flush,
    /// Stands for a microcode routine whose µops are not known here.
    Microcode,
}

impl UopClass {
    /// Number of classes; `class as usize` is below it.
    pub const COUNT: usize = Self::Microcode as usize + 1;
}

const NO_MEMORY: u32 = u32::MAX;

/// One µop, in 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Uop {
    class: UopClass,
    width: u8,
    marks: Marks,
    counts: u8,
    sources: [Reg; Self::MAX_REGS],
    destinations: [Reg; Self::MAX_REGS],
    memory: u32,
}

impl Uop {
    /// The most sources, and the most destinations, of one µop.
    pub const MAX_REGS: usize = 4;

    /// Registers beyond the first [`Uop::MAX_REGS`] are not kept: the caller splits.
    pub(crate) fn new(class: UopClass, width: u16, sources: RegSet, destinations: RegSet) -> Self {
        let (sources, reads) = first(sources);
        let (destinations, writes) = first(destinations);
        Self {
            class,
            width: u8::try_from(width).unwrap_or(u8::MAX),
            marks: Marks::NONE,
            counts: reads | writes << 4,
            sources,
            destinations,
            memory: NO_MEMORY,
        }
    }

    pub(crate) fn with_memory(mut self, operand: Option<u32>) -> Self {
        self.memory = operand.unwrap_or(NO_MEMORY);
        self
    }

    pub(crate) fn mark(&mut self, marks: Marks) {
        self.marks = self.marks.union(marks);
    }

    /// The unit it needs.
    #[inline]
    pub const fn class(&self) -> UopClass {
        self.class
    }

    /// Bytes it works on: the vector width, one element for scalars, the operand size for integers; 255 stands
    /// for anything larger, 0 for not applicable.
    #[inline]
    pub const fn width_bytes(&self) -> u8 {
        self.width
    }

    /// Registers whose values it needs.
    #[inline]
    pub fn sources(&self) -> &[Reg] {
        &self.sources[..usize::from(self.counts & 0xf)]
    }

    /// Registers it writes.
    #[inline]
    pub fn destinations(&self) -> &[Reg] {
        &self.destinations[..usize::from(self.counts >> 4)]
    }

    /// The memory operand it touches, as an index into [`Block::memory`](crate::Block::memory). The store-address
    /// and the store-data µop of a store name the same one.
    #[inline]
    pub const fn memory(&self) -> Option<usize> {
        if self.memory == NO_MEMORY { None } else { Some(self.memory as usize) }
    }

    /// Whether it is the first µop of its instruction.
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.marks.contains(Marks::FIRST)
    }

    /// Whether it is the last µop of its instruction: the instruction retires with it. Only
    /// [`UopClass::StackPointer`] may come behind it, so that a model may drop those.
    #[inline]
    pub const fn is_last(&self) -> bool {
        self.marks.contains(Marks::LAST)
    }

    /// Whether it shares the issue slot of the µop before it on cores with micro-fusion: the operation behind its
    /// load, the store data behind its store address.
    #[inline]
    pub const fn is_fused(&self) -> bool {
        self.marks.contains(Marks::FUSED)
    }

    /// Whether the access bypasses the caches.
    #[inline]
    pub const fn is_non_temporal(&self) -> bool {
        self.marks.contains(Marks::NON_TEMPORAL)
    }

    /// Whether it belongs to an atomic read-modify-write.
    #[inline]
    pub const fn is_locked(&self) -> bool {
        self.marks.contains(Marks::LOCKED)
    }
}

fn first(set: RegSet) -> ([Reg; Uop::MAX_REGS], u8) {
    let mut regs = [Reg::RAX; Uop::MAX_REGS];
    let mut count = 0;
    for (slot, reg) in regs.iter_mut().zip(set.iter()) {
        *slot = reg;
        count += 1;
    }
    (regs, count)
}

impl fmt::Debug for Uop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{} {:?} -> {:?}", self.class, self.width, self.sources(), self.destinations())?;
        if let Some(operand) = self.memory() {
            write!(f, " m{operand}")?;
        }
        Ok(())
    }
}

/// What is said of a µop beside its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const FIRST: Self = Self(1);
    pub(crate) const LAST: Self = Self(2);
    pub(crate) const FUSED: Self = Self(4);
    pub(crate) const NON_TEMPORAL: Self = Self(8);
    pub(crate) const LOCKED: Self = Self(16);

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uop_is_sixteen_bytes() {
        assert_eq!(std::mem::size_of::<Uop>(), 16);
    }

    #[test]
    fn keeps_its_registers_and_width() {
        let sources: RegSet = [Reg::RAX, Reg::CARRY].into_iter().collect();
        let uop = Uop::new(UopClass::IntAlu, 8, sources, RegSet::of(Reg::RDX)).with_memory(Some(3));
        assert_eq!(uop.sources(), [Reg::RAX, Reg::CARRY]);
        assert_eq!(uop.destinations(), [Reg::RDX]);
        assert_eq!(uop.memory(), Some(3));
        assert_eq!(Uop::new(UopClass::Load, 512, sources, RegSet::EMPTY).width_bytes(), 255);
        assert_eq!(Uop::new(UopClass::Nop, 0, RegSet::EMPTY, RegSet::EMPTY).memory(), None);
    }
}
