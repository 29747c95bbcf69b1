//! Instructions: what a block is made of, and what a sample can be blamed on.

use serde::{Deserialize, Serialize};

/// What an instruction mainly does, which is what a core waits for when it cannot retire it.
///
/// One that loads and computes is named by what it computes, and [`Instruction::has_load`] says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Moves memory to a register.
    Load,
    /// Writes memory without reading the same place. May load from another (`push [m]`, `movs`).
    Store,
    /// Reads memory, computes, writes it back; not atomic.
    ReadModifyWrite,
    /// A locked read-modify-write, or a fence.
    AtomicOrFence,
    /// Integer or floating-point division or square root.
    DivideOrSqrt,
    /// Integer multiplication, scalar or vector.
    Multiply,
    /// Other floating-point arithmetic and conversions.
    FpArithmetic,
    /// Vector integer arithmetic, logic and shuffles; mask registers.
    Vector,
    /// Scalar integer arithmetic, logic and register moves.
    Integer,
    /// A jump.
    Branch,
    /// A near call or return.
    CallOrReturn,
    /// Asks for a line in advance.
    Prefetch,
    /// The hint of a spin loop.
    Pause,
    /// Does nothing.
    Nop,
    /// Enters the operating system or reads or sets the state of the machine.
    System,
    /// Anything else: cache flushes, microcode routines.
    Other,
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// To the next instruction.
    Sequential,
    /// To the target or to the next instruction.
    Conditional,
    /// To the target.
    Jump,
    /// To wherever a register or memory says.
    IndirectJump,
    /// To the target, and later back behind it.
    Call,
    /// To wherever a register or memory says, and later back behind it.
    IndirectCall,
    /// To the caller.
    Return,
    /// To the operating system and back (system call, interrupt, transaction).
    System,
    /// To a fault (ud2, int3).
    Trap,
}

impl Flow {
    /// Whether it ends a block.
    pub const fn is_transfer(self) -> bool {
        !matches!(self, Self::Sequential)
    }

    /// Whether it counts as a branch: jumps, calls and returns.
    pub const fn is_branch(self) -> bool {
        !matches!(self, Self::Sequential | Self::System | Self::Trap)
    }

    /// Whether control can arrive at the instruction behind it, at once or after a return.
    pub const fn can_fall_through(self) -> bool {
        !matches!(self, Self::Jump | Self::IndirectJump | Self::Return | Self::Trap)
    }
}

/// One decoded instruction of a [`Block`](crate::Block), which holds its µops and memory operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub(crate) address: u64,
    pub(crate) first_uop: u32,
    pub(crate) first_memory: u32,
    /// What it adds to its own destination, if that is all it does.
    pub(crate) adds: i32,
    pub(crate) flops: u16,
    pub(crate) traits: Traits,
    pub(crate) uops: u8,
    pub(crate) memory: u8,
    pub(crate) loads: u8,
    pub(crate) stores: u8,
    pub(crate) length: u8,
    pub(crate) class: Class,
    pub(crate) flow: Flow,
}

impl Instruction {
    /// Where it lies.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes, 1 to 15.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// The address behind it.
    pub const fn next_address(&self) -> u64 {
        self.address.wrapping_add(self.length as u64)
    }

    /// What it mainly does.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Where control goes after it.
    pub const fn flow(&self) -> Flow {
        self.flow
    }

    /// Memory reads; a gather counts its elements, a prefetch none.
    pub const fn loads(&self) -> u8 {
        self.loads
    }

    /// Memory writes; a scatter counts its elements.
    pub const fn stores(&self) -> u8 {
        self.stores
    }

    /// Whether it reads memory, whatever else it does.
    pub const fn has_load(&self) -> bool {
        self.loads > 0
    }

    /// Whether it writes memory, whatever else it does.
    pub const fn has_store(&self) -> bool {
        self.stores > 0
    }

    /// Floating-point operations, counted as hardware counts them: lanes times one for add, subtract, multiply,
    /// divide, square root, min, max and reciprocals, times two for a fused multiply-add. Masked-off lanes count.
    /// Compares, conversions, rounding and logic are none; tile products, whose size is configured when the
    /// code runs, are not counted.
    pub const fn flops(&self) -> u16 {
        self.flops
    }

    /// Whether it is an atomic read-modify-write: a lock prefix, or `xchg` with memory.
    pub const fn is_locked(&self) -> bool {
        self.traits.contains(Traits::LOCKED)
    }

    /// Whether its µops come from the microcode store. Those listed for it are then a sketch: its accesses and
    /// its dependencies, not its number of µops.
    pub const fn is_microcoded(&self) -> bool {
        self.traits.contains(Traits::MICROCODED)
    }

    /// Whether a prefix changes the length of its immediate or address, which stalls the length decoder
    /// (`66h` with a 16-bit immediate, `67h` with an absolute address).
    pub const fn has_length_changing_prefix(&self) -> bool {
        self.traits.contains(Traits::LENGTH_CHANGING_PREFIX)
    }

    /// Whether its accesses bypass the caches.
    pub const fn is_non_temporal(&self) -> bool {
        self.traits.contains(Traits::NON_TEMPORAL)
    }

    /// Whether it is a repeated string instruction: how much it moves is known only when it runs.
    pub const fn is_repeated(&self) -> bool {
        self.traits.contains(Traits::REPEATED)
    }

    /// Whether the conditional jump behind it shares its slot on cores with macro-fusion (Sandy Bridge and later).
    pub const fn fuses_with_next(&self) -> bool {
        self.traits.contains(Traits::FUSES_WITH_NEXT)
    }

    /// Whether it makes 64 bits of the 32 in its own register: no other number, unless it is too large or negative.
    pub const fn widens_itself(&self) -> bool {
        self.traits.contains(Traits::WIDENS_ITSELF)
    }
}

/// What is said of an instruction beside its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits(u8);

impl Traits {
    pub(crate) const LOCKED: Self = Self(1);
    pub(crate) const MICROCODED: Self = Self(2);
    pub(crate) const LENGTH_CHANGING_PREFIX: Self = Self(4);
    pub(crate) const NON_TEMPORAL: Self = Self(8);
    pub(crate) const REPEATED: Self = Self(16);
    pub(crate) const FUSES_WITH_NEXT: Self = Self(32);
    pub(crate) const WIDENS_ITSELF: Self = Self(64);

    pub(crate) fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        }
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
