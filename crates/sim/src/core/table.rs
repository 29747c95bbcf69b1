//! Blocks made ready for one core model: what is the same in every execution is worked out once.

use std::collections::HashMap;

use code::{Block, Flow, Instruction, Reg, Uop, UopClass};
use machine::model::{FrontEnd, Model};

use super::{
    CoreError,
    operation::{OperationKind, Timing, Units},
    retirement,
};
use crate::signal::Retirement;

/// Registers with the two below, and more: any byte is one, so that none needs to be checked.
pub(crate) const REGISTERS: usize = 256;
/// A register that is always ready: stands for a missing source.
pub(crate) const NO_SOURCE: u8 = Reg::COUNT as u8;
/// A register nobody reads: stands for a missing destination.
pub(crate) const NO_DESTINATION: u8 = Reg::COUNT as u8 + 1;
/// Bytes assumed where an operand's size is known only when it runs.
const UNSIZED_BYTES: u16 = 8;

/// One µop as a core executes it. A macro-fused pair is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOp {
    pub sources: [u8; Uop::MAX_REGS],
    pub destinations: [u8; Uop::MAX_REGS],
    pub kind: OperationKind,
    pub locked: bool,
    pub non_temporal: bool,
    pub is_branch: bool,
    /// The first of its block.
    pub opens: bool,
    /// Begins a slot of dispatch and window.
    pub begins: bool,
    /// Ends it.
    pub ends: bool,
    /// Of the first in a slot: scheduler entries the slot needs.
    pub scheduled: u8,
    /// Of the first and the last in a slot: its loads.
    pub loads: u8,
    /// Of the first in a slot: stores that begin in it.
    pub stores_begun: u8,
    /// Of the last in a slot: stores whose data is in it. Without micro-fusion that is a slot of its own.
    pub stores_retired: u8,
    /// Of the first of a microcoded instruction: cycles to switch.
    pub microcode: u8,
    pub ports: u16,
    pub latency: u16,
    pub busy: u16,
    pub bytes: u16,
    /// Cycles after the block's first fetch at which the decoders deliver it.
    pub decode_at: u16,
    /// Index into the block's memory operands.
    pub memory: u32,
    /// Of its instruction, from the block's address.
    pub offset: u32,
}

/// What one execution of a block adds to the counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockCounts {
    pub instructions: u64,
    pub slots: u64,
    pub uops: u64,
    pub executed: u64,
    pub loads: u64,
    pub stores: u64,
    pub branches: u64,
}

/// A block as a core executes it.
#[derive(Clone, Debug)]
pub(crate) struct BlockTable {
    pub ops: std::ops::Range<usize>,
    pub address: u64,
    pub end_address: u64,
    pub branch_address: u64,
    /// Where its branch leads, if the code says so.
    pub target: Option<u64>,
    pub flow: Flow,
    /// Cycles the decoders need for it.
    pub decode_cycles: u64,
    /// Of these, for length-changing prefixes.
    pub length_stalls: u64,
    pub counts: BlockCounts,
}

/// All blocks of a source for one model.
#[derive(Debug)]
pub(crate) struct UopTable {
    pub ops: Vec<TableOp>,
    /// What retires with each µop that ends a slot; only looked at by a probe.
    pub retirements: Vec<Retirement>,
    pub blocks: Vec<BlockTable>,
    /// Blocks by the address they begin at.
    by_address: HashMap<u64, usize>,
}

impl UopTable {
    pub fn new(blocks: &[Block], model: &Model) -> Result<Self, CoreError> {
        let units = Units::new(&model.core)?;
        let mut table = Self {
            ops: Vec::new(),
            retirements: Vec::new(),
            blocks: Vec::with_capacity(blocks.len()),
            by_address: blocks.iter().enumerate().map(|(index, block)| (block.address(), index)).collect(),
        };
        for block in blocks {
            table.add(block, model, &units)?;
        }
        Ok(table)
    }

    /// The block that begins at an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    fn add(&mut self, block: &Block, model: &Model, units: &Units) -> Result<(), CoreError> {
        let first = self.ops.len();
        let mut decoder = Decoder::new(block, &model.front_end);
        let mut fuses = false;
        for instruction in block.instructions() {
            let decode_at = decoder.next(instruction);
            let fused_before =
                std::mem::replace(&mut fuses, model.core.macro_fusion && instruction.fuses_with_next());
            let start = self.ops.len();
            for uop in block.uops_of(instruction).iter().filter(|uop| uop.class() != UopClass::StackPointer) {
                let mut op = make(block, instruction, uop, units)?;
                op.decode_at = decode_at;
                op.begins = !(model.core.micro_fusion && uop.is_fused());
                if fused_before && self.ops.len() == start && start > first && self.fuse(&op) {
                    continue;
                }
                self.ops.push(op);
                self.retirements.push(Retirement { uops: 1, ..Retirement::default() });
            }
            if let Some(last) = self.retirements[first..].last_mut() {
                last.join(&retirement::of(block, instruction));
            }
            if instruction.is_microcoded()
                && let Some(op) = self.ops.get_mut(start)
            {
                op.microcode = model.front_end.microcode_penalty.min(255) as u8;
                op.begins = true;
            }
        }
        let ops = first..self.ops.len();
        if let Some(op) = self.ops.get_mut(first) {
            op.opens = true;
        }
        close_slots(&mut self.ops[first..]);
        retirement::close_slots(&self.ops[first..], &mut self.retirements[first..]);
        self.blocks.push(BlockTable {
            counts: count(block, &self.ops[ops.clone()]),
            ops,
            address: block.address(),
            end_address: block.end_address(),
            target: block.target(),
            branch_address: block.instructions().last().map_or(0, Instruction::address),
            flow: block.flow(),
            decode_cycles: u64::from(decoder.cycle) + 1,
            length_stalls: decoder.stalled.into(),
        });
        Ok(())
    }

    /// Makes the compare just added and this branch one µop; false if their registers do not fit one.
    fn fuse(&mut self, branch: &TableOp) -> bool {
        let Some(compare) = self.ops.last_mut() else { return false };
        let made = compare.destinations;
        let needed =
            branch.sources.into_iter().filter(|source| !made.contains(source) && *source != NO_SOURCE);
        let mut sources: Vec<u8> =
            compare.sources.into_iter().filter(|&source| source != NO_SOURCE).collect();
        sources.extend(needed);
        sources.sort_unstable();
        sources.dedup();
        if sources.len() > Uop::MAX_REGS || compare.kind != OperationKind::Execute {
            return false;
        }
        compare.sources = padded(sources.into_iter(), NO_SOURCE);
        (compare.ports, compare.latency, compare.busy) = (branch.ports, branch.latency, branch.busy);
        compare.is_branch = true;
        true
    }
}

fn padded(registers: impl Iterator<Item = u8>, filler: u8) -> [u8; Uop::MAX_REGS] {
    let mut all = [filler; Uop::MAX_REGS];
    all.iter_mut().zip(registers).for_each(|(slot, register)| *slot = register);
    all
}

fn make(block: &Block, instruction: &Instruction, uop: &Uop, units: &Units) -> Result<TableOp, CoreError> {
    let operand = uop.memory().and_then(|index| block.memory().get(index));
    let bytes = operand.map_or(0, |operand| operand.bytes().unwrap_or(UNSIZED_BYTES));
    let Timing { kind, ports, latency, busy } = units.timing(uop, bytes, instruction.address())?;
    let index = |reg: &Reg| reg.index() as u8;
    Ok(TableOp {
        sources: padded(uop.sources().iter().map(index), NO_SOURCE),
        destinations: padded(uop.destinations().iter().map(index), NO_DESTINATION),
        kind,
        locked: uop.is_locked(),
        non_temporal: uop.is_non_temporal(),
        is_branch: uop.class() == UopClass::Branch,
        opens: false,
        begins: true,
        ends: true,
        scheduled: 0,
        loads: 0,
        stores_begun: 0,
        stores_retired: 0,
        microcode: 0,
        ports,
        latency,
        busy,
        bytes,
        decode_at: 0,
        memory: uop.memory().unwrap_or(0) as u32,
        offset: instruction.address().wrapping_sub(block.address()) as u32,
    })
}

/// Marks the last µop of each slot and sums up what the slot needs.
fn close_slots(ops: &mut [TableOp]) {
    let mut start = 0;
    while start < ops.len() {
        let end =
            ops[start + 1..].iter().position(|op| op.begins).map_or(ops.len(), |found| start + 1 + found);
        let slot = &mut ops[start..end];
        let of = |wanted: fn(OperationKind) -> bool| {
            slot.iter().filter(|op| wanted(op.kind)).count().min(255) as u8
        };
        let scheduled = of(|kind| !matches!(kind, OperationKind::Free | OperationKind::Fence));
        let loads = of(|kind| matches!(kind, OperationKind::Load | OperationKind::Prefetch));
        let addresses = of(|kind| kind == OperationKind::StoreAddress);
        let data = of(|kind| kind == OperationKind::StoreData);
        slot.iter_mut().for_each(|op| (op.begins, op.ends) = (false, false));
        if let Some(first) = slot.first_mut() {
            (first.begins, first.scheduled, first.loads, first.stores_begun) =
                (true, scheduled, loads, addresses);
        }
        if let Some(last) = slot.last_mut() {
            (last.ends, last.loads, last.stores_retired) = (true, loads, data);
        }
        start = end;
    }
}

fn count(block: &Block, ops: &[TableOp]) -> BlockCounts {
    let totals = block.totals();
    let of = |wanted: fn(&TableOp) -> bool| ops.iter().filter(|op| wanted(op)).count() as u64;
    BlockCounts {
        instructions: totals.instructions,
        slots: of(|op| op.begins),
        uops: ops.len() as u64,
        executed: of(|op| !matches!(op.kind, OperationKind::Free | OperationKind::Fence)),
        loads: totals.loads,
        stores: totals.stores,
        branches: totals.branches,
    }
}

/// When the decoders deliver each instruction of a block.
struct Decoder<'a> {
    model: &'a FrontEnd,
    /// Where the first fetch window begins.
    window: u64,
    decoded: u32,
    stalled: u32,
    cycle: u32,
}

impl<'a> Decoder<'a> {
    fn new(block: &Block, model: &'a FrontEnd) -> Self {
        let bytes = u64::from(model.fetch_bytes.max(1));
        Self { model, window: block.address() / bytes * bytes, decoded: 0, stalled: 0, cycle: 0 }
    }

    fn next(&mut self, instruction: &Instruction) -> u16 {
        let last_byte = instruction.next_address().wrapping_sub(1).wrapping_sub(self.window);
        let fetched = (last_byte / u64::from(self.model.fetch_bytes.max(1))) as u32;
        if instruction.has_length_changing_prefix() {
            self.stalled += self.model.length_change_penalty;
        }
        let decoded = self.decoded / self.model.decode_width.max(1);
        self.decoded += 1;
        self.cycle = self.cycle.max(fetched.max(decoded) + self.stalled);
        u16::try_from(self.cycle).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use code::decode_block;

    /// vaddpd ymm0, ymm0, [rdi]; vmovupd [rsi], ymm0; cmp rax, rsi; jb.
    const CODE: [u8; 13] = [0xc5, 0xfd, 0x58, 0x07, 0xc5, 0xfd, 0x11, 0x06, 0x48, 0x39, 0xf0, 0x72, 0xf3];

    fn table(model: &Model, bytes: &[u8]) -> Result<UopTable, CoreError> {
        UopTable::new(&[decode_block(bytes, 0x1000).expect("a block")], model)
    }

    fn model(name: &str) -> Model {
        Model::builtin(name).expect("a model")
    }

    #[test]
    fn fusion_decides_the_slots() {
        let slots = |micro, macros| {
            let mut model = model("haswell-ep-e5-2680v3");
            (model.core.micro_fusion, model.core.macro_fusion) = (micro, macros);
            let table = table(&model, &CODE).expect("a table");
            let counts = table.blocks[0].counts;
            let begun: u8 = table.ops.iter().map(|op| op.stores_begun).sum();
            let retired: u8 = table.ops.iter().map(|op| op.stores_retired).sum();
            assert_eq!((begun, retired), (1, 1));
            assert_eq!(table.ops.iter().filter(|op| op.is_branch).count(), 1);
            (counts.slots, counts.uops, counts.instructions)
        };
        assert_eq!(slots(true, true), (3, 5, 4));
        assert_eq!(slots(false, true), (5, 5, 4));
        assert_eq!(slots(true, false), (4, 6, 4));
    }

    #[test]
    fn a_wide_access_keeps_a_narrow_port_for_longer() {
        let busy = |name| {
            let table = table(&model(name), &CODE).expect("a table");
            let of = |kind| table.ops.iter().find(|op| op.kind == kind).map(|op| op.busy);
            (of(OperationKind::Load), of(OperationKind::StoreData))
        };
        assert_eq!(busy("haswell-ep-e5-2680v3"), (Some(1), Some(1)));
        assert_eq!(busy("sandy-bridge-ep-e5-2670"), (Some(2), Some(2)));
    }

    #[test]
    fn decoding_takes_bytes_width_and_prefixes() {
        let model = model("haswell-ep-e5-2680v3");
        let cycles = |bytes: &[u8]| table(&model, bytes).expect("a table").blocks[0].decode_cycles;
        assert_eq!(cycles(&[0x90; 8]), 2, "four instructions per cycle");
        // mov rax, imm64: ten bytes each, sixteen per cycle.
        let long = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0].repeat(8);
        assert_eq!(cycles(&long), 5);
        // add ax, imm16
        assert_eq!(cycles(&[0x66, 0x05, 0x34, 0x12]), 1 + u64::from(model.front_end.length_change_penalty));
    }

    #[test]
    fn what_no_port_runs_is_named() {
        use machine::model::OpClass;
        let mut model = model("tiny");
        model.core.ports.iter_mut().for_each(|port| port.runs.retain(|&class| class != OpClass::FloatAdd));
        let error = table(&model, &CODE).expect_err("no adder");
        assert_eq!(error, CoreError::NoPort { address: 0x1000, class: OpClass::FloatAdd });
        model.core.ports = vec![model.core.ports[0].clone(); 13];
        assert_eq!(
            UopTable::new(&[], &model).expect_err("13 ports"),
            CoreError::TooManyPorts { ports: 13, most: 12 }
        );
    }
}
