//! What retires with a slot, as counters see it.

use super::CoreSignal;

/// What retires with a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retirement {
    pub instructions: u8,
    pub uops: u8,
    /// Instructions that neither load nor store.
    pub others: u8,
    pub loads: u8,
    pub stores: u8,
    pub loads_locked: u8,
    pub branches: u8,
    pub conditional: bool,
    pub call: bool,
    pub returns: bool,
    pub indirect: bool,
    pub divides: u8,
    pub avx_loads: u8,
    pub avx_stores: u8,
    pub avx_calculations: u8,
    /// Floating-point instructions: which signal, how many.
    pub floating: Option<(CoreSignal, u8)>,
    /// Of the instruction that ends, from the block's address.
    pub offset: u32,
}

impl Retirement {
    /// µops beyond the first of its slot, and an instruction fused with a branch.
    pub fn fused(&self) -> u8 {
        self.uops.saturating_sub(1) + self.instructions.saturating_sub(1)
    }

    /// Adds what retires in the same slot.
    pub fn join(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.uops += other.uops;
        self.others += other.others;
        self.loads += other.loads;
        self.stores += other.stores;
        self.loads_locked += other.loads_locked;
        self.branches += other.branches;
        self.conditional |= other.conditional;
        self.call |= other.call;
        self.returns |= other.returns;
        self.indirect |= other.indirect;
        self.divides += other.divides;
        self.avx_loads += other.avx_loads;
        self.avx_stores += other.avx_stores;
        self.avx_calculations += other.avx_calculations;
        self.floating = self.floating.or(other.floating);
        self.offset = other.offset;
    }
}
