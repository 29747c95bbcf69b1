//! The address that is kept with a sample: that of the operand the rule of blame names, from the sample's registers.
//!
//! No operand, registers that do not tell, or some that samples do not carry (vector indices, `fs` and `gs`): no address.

use std::collections::HashMap;

use code::{
    Reg,
    blame::{Routine, WatchedOperand},
    pace::LoopPace,
};
use pmu::sampling::UserRegisters;
use symbols::Image;

/// Longer functions are not decoded.
const LONGEST_FUNCTION_BYTES: u64 = 256 << 10;

/// Decoded instructions kept; beyond it the cache begins anew.
const KEPT_INSTRUCTIONS: usize = 100_000;

/// What to watch for samples at a place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlaceOperands {
    /// The operand of the instruction that they are blamed on, or where that tells no address the loop's own chase.
    pub watched: Option<WatchedOperand>,
    /// What tells in which turn of its loop they were taken.
    pub pacing: Option<(LoopPace, WatchedOperand)>,
    /// What tells in which pass through that loop, which begins at this address.
    pub passes: Option<(u64, WatchedOperand)>,
}

impl PlaceOperands {
    /// Whether what paces the loop is an address.
    pub fn is_paced_by_address(&self) -> bool {
        matches!(self.pacing, Some((LoopPace::Operand(_), _)))
    }
}

/// Finds operands, and remembers the functions it decoded.
#[derive(Debug, Default)]
pub(super) struct Operands {
    skid: usize,
    /// By module and first address.
    routines: HashMap<(usize, u64), Routine>,
    instructions: usize,
}

impl Operands {
    pub fn new(skid_instructions: u32) -> Self {
        Self { skid: skid_instructions as usize, ..Self::default() }
    }

    /// The operands to watch for samples at `address` of `image`, the module with this number.
    pub fn find(&mut self, module: usize, image: &Image, address: u64) -> Option<PlaceOperands> {
        let range = image.function_range(address)?;
        if range.end - range.start > LONGEST_FUNCTION_BYTES {
            return None;
        }
        self.find_in(module, range.start, || image.bytes(range), address)
    }

    /// The same in the function that begins at `start`; its code is asked for once.
    pub fn find_in<'c>(
        &mut self,
        module: usize,
        start: u64,
        code: impl FnOnce() -> Option<&'c [u8]>,
        address: u64,
    ) -> Option<PlaceOperands> {
        let key = (module, start);
        if !self.routines.contains_key(&key) {
            let routine = Routine::new(code()?, start);
            self.remember(key, routine);
        }
        let routine = self.routines.get(&key)?;
        let chased = routine.chased(address, self.skid).map(|(_, chased)| chased);
        Some(PlaceOperands {
            watched: chased.or_else(|| routine.watched(address, self.skid)),
            pacing: routine.pacing(address),
            passes: routine
                .passes(address)
                .map(|passes| (routine.blocks()[passes.block].address(), passes.counter)),
        })
    }

    fn remember(&mut self, key: (usize, u64), routine: Routine) {
        if self.instructions > KEPT_INSTRUCTIONS {
            self.routines.clear();
            self.instructions = 0;
        }
        self.instructions += routine.blocks().iter().map(|block| block.instructions().len()).sum::<usize>();
        self.routines.insert(key, routine);
    }
}

/// The numbers of the general registers in the kernel's `perf_regs.h`, in the order of their encoding.
const PERF_REGISTERS: [u32; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];

/// The operand's address. `bias` is what the loader added to the module's own addresses.
pub(super) fn address(
    watched: &WatchedOperand,
    registers: Option<&UserRegisters<'_>>,
    bias: u64,
) -> Option<u64> {
    let registers = registers?;
    let value = |reg: Reg| {
        let number = PERF_REGISTERS.get(reg.index()).filter(|_| reg.is_general())?;
        registers.get(*number)
    };
    let address = watched.address(value)?;
    // An operand without registers is relative to the code.
    Some(if watched.operand.is_constant() { address.wrapping_add(bias) } else { address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_under_the_kernels_numbers() {
        let numbers: std::collections::BTreeSet<_> = PERF_REGISTERS.into_iter().collect();
        assert_eq!(numbers.len(), 16);
        // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi in the order of the encoding; ax, bx, cx, dx, si, di, bp, sp in
        // the kernel's.
        assert_eq!(PERF_REGISTERS[Reg::RBX.index()], 1);
        assert_eq!(PERF_REGISTERS[Reg::RSP.index()], 7);
        assert_eq!(PERF_REGISTERS[Reg::RBP.index()], 6);
        assert_eq!(PERF_REGISTERS[Reg::RDI.index()], 5);
        assert!(
            PERF_REGISTERS.iter().all(|number| pmu::sampling::Fields::GENERAL_REGISTERS >> number & 1 == 1)
        );
    }

    /// Samples land in whatever code the loader and the C library have, also where nobody ever looked.
    #[test]
    fn wherever_a_sample_lands_in_the_libraries_of_this_process_nothing_panics() {
        let own = i32::try_from(std::process::id()).unwrap();
        let maps = crate::memory::maps(own).unwrap();
        let files: std::collections::BTreeSet<_> =
            maps.into_iter().map(|line| line.path).filter(|path| path.contains(".so")).collect();
        let mut watched = 0;
        for (number, file) in files.iter().enumerate() {
            let image = Image::open(file.as_ref(), None).unwrap();
            for skid in 0..3 {
                let mut operands = Operands::new(skid);
                for range in image.function_ranges() {
                    let found = range.filter_map(|address| operands.find(number, &image, address)?.watched);
                    watched += found.count();
                }
            }
        }
        assert!(watched > 1000, "{watched}");
    }
}
