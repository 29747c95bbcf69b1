//! The memory operand whose address is kept with a sample.
//!
//! The rule: take the instruction `skid_instructions` before the sampled one, in the same block, and of its memory
//! operands the first that is read, else the first. Its address is worked out from the registers of the sample, which
//! are those *behind* that instruction: where it overwrites its own base (`mov rax, [rax]`) the address is the next
//! one of the chain, in the same data object. No operand, another block, a register that samples do not carry
//! (vector indices, `fs` and `gs`): no address.

use std::{collections::HashMap, ops::Range};

use code::{Block, Instruction, MemoryOperand, Reg, decode_range};
use pmu::sampling::Registers;
use symbols::Image;

/// Longer functions are not decoded.
const LONGEST_FUNCTION_BYTES: u64 = 256 << 10;

/// Decoded instructions kept; beyond it the cache begins anew.
const KEPT_INSTRUCTIONS: usize = 200_000;

/// Of each instruction of a function by address, the operand to watch when a sample lands there.
type Table = Vec<(u64, Option<MemoryOperand>)>;

/// Finds operands, and remembers the functions it decoded.
#[derive(Debug, Default)]
pub(super) struct Operands {
    skid: usize,
    /// By module and first address.
    functions: HashMap<(usize, u64), Table>,
    instructions: usize,
}

impl Operands {
    pub fn new(skid_instructions: u32) -> Self {
        Self { skid: skid_instructions as usize, ..Self::default() }
    }

    /// The operand to watch for samples at `address` of `image`, the module with this number.
    pub fn find(&mut self, module: usize, image: &Image, address: u64) -> Option<MemoryOperand> {
        let range = image.function_range(address)?;
        if range.end - range.start > LONGEST_FUNCTION_BYTES {
            return None;
        }
        let key = (module, range.start);
        if !self.functions.contains_key(&key) {
            let table = self.table(image, range)?;
            self.remember(key, table);
        }
        let table = self.functions.get(&key)?;
        let index = table.binary_search_by_key(&address, |(at, _)| *at).ok()?;
        table[index].1
    }

    fn table(&self, image: &Image, range: Range<u64>) -> Option<Table> {
        let decoded = decode_range(image.bytes(range.clone())?, range.start, &[]);
        Some(decoded.blocks.iter().flat_map(|block| watched(block, self.skid)).collect())
    }

    fn remember(&mut self, key: (usize, u64), table: Table) {
        if self.instructions > KEPT_INSTRUCTIONS {
            self.functions.clear();
            self.instructions = 0;
        }
        self.instructions += table.len();
        self.functions.insert(key, table);
    }
}

fn watched(block: &Block, skid: usize) -> impl Iterator<Item = (u64, Option<MemoryOperand>)> + '_ {
    let instructions = block.instructions();
    instructions.iter().enumerate().map(move |(index, instruction)| {
        let waited_for = index.checked_sub(skid).map(|index| &instructions[index]);
        (instruction.address(), waited_for.and_then(|waited_for| operand_of(block, waited_for)))
    })
}

fn operand_of(block: &Block, instruction: &Instruction) -> Option<MemoryOperand> {
    let operands = block.memory_of(instruction);
    operands.iter().find(|operand| operand.access().reads()).or_else(|| operands.first()).copied()
}

/// The numbers of the general registers in the kernel's `perf_regs.h`, in the order of their encoding.
const PERF_REGISTERS: [u32; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];

/// The operand's address. `bias` is what the loader added to the module's own addresses.
pub(super) fn address(operand: &MemoryOperand, registers: &Registers<'_>, bias: u64) -> Option<u64> {
    let value = |reg: Reg| {
        let number = PERF_REGISTERS.get(reg.index()).filter(|_| reg.is_general())?;
        registers.get(*number)
    };
    let address = operand.effective_address(value)?;
    // An operand without registers is relative to the code.
    Some(if operand.is_constant() { address.wrapping_add(bias) } else { address })
}

#[cfg(test)]
mod tests {
    use super::*;
    use code::decode_block;

    /// mov rax,[rdi+8]; add rax,[rsi]; mov [rdx],rax; push rax; ret
    const CODE: [u8; 12] = [0x48, 0x8b, 0x47, 0x08, 0x48, 0x03, 0x06, 0x48, 0x89, 0x02, 0x50, 0xc3];

    fn bases(skid: usize) -> Vec<Option<Reg>> {
        let block = decode_block(&CODE, 0x1000).unwrap();
        watched(&block, skid).map(|(_, operand)| operand.and_then(|operand| operand.base())).collect()
    }

    #[test]
    fn the_operand_is_that_of_the_instruction_before_in_the_same_block() {
        let [rdi, rsi, rdx, rsp] = [Reg::RDI, Reg::RSI, Reg::RDX, Reg::RSP].map(Some);
        assert_eq!(bases(0), [rdi, rsi, rdx, rsp, rsp]);
        assert_eq!(bases(1), [None, rdi, rsi, rdx, rsp]);
        assert_eq!(bases(2), [None, None, rdi, rsi, rdx]);
        assert_eq!(bases(9), [None; 5]);
    }

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
}
