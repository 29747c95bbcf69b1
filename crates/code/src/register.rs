//! The registers a dependency can run through, as one byte each.

use std::{fmt, num::NonZeroU8};

use iced_x86::Register;

/// One renamed register.
///
/// Parts of a register are the register: `al`, `ax` and `eax` are [`Reg::RAX`]; `xmm3` and `ymm3` are
/// `Reg::vector(3)`. The flags are two registers, as cores rename them: the carry, and the others together.
/// The x87 stack is one register, so x87 code is seen as one serial chain. Segment bases other than fs and gs
/// are zero in 64-bit mode and do not appear, nor does rip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(NonZeroU8);

const VECTOR: u8 = 16;
const MASK: u8 = 48;
const MMX: u8 = 56;
const TILE: u8 = 64;
const TEMPORARY: u8 = 77;

impl Reg {
    /// How many registers there are; [`Reg::index`] is below it.
    pub const COUNT: usize = TEMPORARY as usize + Self::TEMPORARIES;
    /// How many [temporaries](Reg::temporary) there are.
    pub const TEMPORARIES: usize = 16;

    /// rax and its parts.
    pub const RAX: Self = Self::from_index(0);
    /// rcx and its parts.
    pub const RCX: Self = Self::from_index(1);
    /// rdx and its parts.
    pub const RDX: Self = Self::from_index(2);
    /// rbx and its parts.
    pub const RBX: Self = Self::from_index(3);
    /// The stack pointer.
    pub const RSP: Self = Self::from_index(4);
    /// rbp and its parts.
    pub const RBP: Self = Self::from_index(5);
    /// rsi and its parts.
    pub const RSI: Self = Self::from_index(6);
    /// rdi and its parts.
    pub const RDI: Self = Self::from_index(7);
    /// The carry flag.
    pub const CARRY: Self = Self::from_index(72);
    /// The overflow, sign, zero, auxiliary and parity flags.
    pub const FLAGS: Self = Self::from_index(73);
    /// The whole x87 stack.
    pub const X87: Self = Self::from_index(74);
    /// The base address behind fs, where thread-local data lives.
    pub const FS_BASE: Self = Self::from_index(75);
    /// The base address behind gs.
    pub const GS_BASE: Self = Self::from_index(76);

    /// Callers pass an index below [`Reg::COUNT`].
    const fn from_index(index: u8) -> Self {
        match NonZeroU8::new(index + 1) {
            Some(id) => Self(id),
            None => Self(NonZeroU8::MIN),
        }
    }

    /// The general register of this number in the encoding (0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp … 15 r15).
    pub const fn general(number: u8) -> Option<Self> {
        if number < 16 { Some(Self::from_index(number)) } else { None }
    }

    /// Vector register 0 to 31, in any width.
    pub const fn vector(number: u8) -> Option<Self> {
        if number < 32 { Some(Self::from_index(VECTOR + number)) } else { None }
    }

    /// AVX-512 mask register 0 to 7.
    pub const fn mask(number: u8) -> Option<Self> {
        if number < 8 { Some(Self::from_index(MASK + number)) } else { None }
    }

    /// Temporary 0 to 15: carries a value between the µops of one instruction, never further.
    pub const fn temporary(number: u8) -> Option<Self> {
        if (number as usize) < Self::TEMPORARIES { Some(Self::from_index(TEMPORARY + number)) } else { None }
    }

    /// A dense number below [`Reg::COUNT`], for tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Whether this is one of the sixteen general registers.
    pub const fn is_general(self) -> bool {
        self.index() < VECTOR as usize
    }

    /// Whether this is a vector register.
    pub const fn is_vector(self) -> bool {
        self.index() >= VECTOR as usize && self.index() < MASK as usize
    }

    /// Whether this is an AVX-512 mask register.
    pub const fn is_mask(self) -> bool {
        self.index() >= MASK as usize && self.index() < MMX as usize
    }

    /// Whether this is a temporary.
    pub const fn is_temporary(self) -> bool {
        self.index() >= TEMPORARY as usize
    }

    /// Vector, MMX and tile registers and the x87 stack.
    pub(crate) fn is_vector_like(self) -> bool {
        let is_mmx_or_tile = (MMX as usize..Self::CARRY.index()).contains(&self.index());
        self.is_vector() || is_mmx_or_tile || self == Self::X87
    }

    /// The register iced names, or none if no dependency is followed through it.
    pub(crate) fn from_iced(register: Register) -> Option<Self> {
        let number = register.number() as u8;
        if register.is_gpr() {
            Self::general(register.full_register().number() as u8)
        } else if register.is_vector_register() {
            Self::vector(number)
        } else if register.is_k() {
            Self::mask(number)
        } else if register.is_mm() {
            Some(Self::from_index(MMX + number % 8))
        } else if register.is_tmm() {
            Some(Self::from_index(TILE + number % 8))
        } else if register.is_st() {
            Some(Self::X87)
        } else {
            match register {
                Register::FS => Some(Self::FS_BASE),
                Register::GS => Some(Self::GS_BASE),
                _ => None,
            }
        }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GENERAL: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
        let index = self.index() as u8;
        match index {
            0..8 => f.write_str(GENERAL[index as usize]),
            8..VECTOR => write!(f, "r{index}"),
            VECTOR..MASK => write!(f, "zmm{}", index - VECTOR),
            MASK..MMX => write!(f, "k{}", index - MASK),
            MMX..TILE => write!(f, "mm{}", index - MMX),
            TILE..72 => write!(f, "tmm{}", index - TILE),
            72 => f.write_str("carry"),
            73 => f.write_str("flags"),
            74 => f.write_str("x87"),
            75 => f.write_str("fs_base"),
            76 => f.write_str("gs_base"),
            _ => write!(f, "tmp{}", index - TEMPORARY),
        }
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of registers in one word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RegSet(u128);

impl RegSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn of(reg: Reg) -> Self {
        Self(1 << reg.index())
    }

    pub(crate) fn insert(&mut self, reg: Reg) {
        self.0 |= 1 << reg.index();
    }

    pub(crate) fn contains(self, reg: Reg) -> bool {
        self.0 >> reg.index() & 1 == 1
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In the order of [`Reg::index`].
    pub(crate) fn iter(self) -> impl Iterator<Item = Reg> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let index = rest.trailing_zeros() as u8;
            rest &= rest - 1;
            Some(Reg::from_index(index))
        })
    }
}

impl FromIterator<Reg> for RegSet {
    fn from_iter<I: IntoIterator<Item = Reg>>(regs: I) -> Self {
        let mut set = Self::EMPTY;
        regs.into_iter().for_each(|reg| set.insert(reg));
        set
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_one_register_with_its_own_name() {
        let all: RegSet = (0..Reg::COUNT as u8).map(Reg::from_index).collect();
        assert_eq!(all.len(), Reg::COUNT);
        let names: std::collections::BTreeSet<String> = all.iter().map(|reg| reg.to_string()).collect();
        assert_eq!(names.len(), Reg::COUNT);
        assert_eq!(std::mem::size_of::<Option<Reg>>(), 1);
    }

    #[test]
    fn parts_are_the_register() {
        for part in [Register::AL, Register::AH, Register::AX, Register::EAX, Register::RAX] {
            assert_eq!(Reg::from_iced(part), Some(Reg::RAX), "{part:?}");
        }
        for part in [Register::DIL, Register::DI, Register::EDI, Register::RDI] {
            assert_eq!(Reg::from_iced(part), Some(Reg::RDI), "{part:?}");
        }
        for (part, full) in [(Register::R9L, 9), (Register::R15D, 15), (Register::BH, 3), (Register::SPL, 4)]
        {
            assert_eq!(Reg::from_iced(part), Reg::general(full), "{part:?}");
        }
        for part in [Register::XMM17, Register::YMM17, Register::ZMM17] {
            assert_eq!(Reg::from_iced(part), Reg::vector(17), "{part:?}");
        }
        assert_eq!(Reg::from_iced(Register::RIP), None);
        assert_eq!(Reg::from_iced(Register::DS), None);
        assert_eq!(Reg::from_iced(Register::None), None);
    }

    #[test]
    fn numbers_outside_are_none() {
        assert_eq!(Reg::general(16), None);
        assert_eq!(Reg::vector(32), None);
        assert_eq!(Reg::mask(8), None);
        assert_eq!(Reg::temporary(16), None);
    }
}
