//! One instruction into µops.
//!
//! The split is the one every current core makes: a load, the operation, a store address and a store data µop.
//! What differs between cores (an `adc` or `cmov` of two µops, an indexed store that loses its fusion) is left to
//! machine models.

use iced_x86::{Instruction as Iced, Mnemonic, OpKind};

use crate::{
    memory::MemoryOperand,
    operands::{RegisterUse, moves_stack_pointer},
    operation::{CodeOperation, UopKind},
    register::{Reg, RegSet},
    unit::{unit, width_bytes},
    uop::{Marks, Uop, UopClass},
};

/// What is known of an instruction before it is split.
pub(crate) struct SplitParts<'a> {
    pub(crate) iced: &'a Iced,
    pub(crate) operation: CodeOperation,
    pub(crate) registers: RegisterUse,
    pub(crate) memory: &'a [MemoryOperand],
    /// Index of `memory[0]` in the block.
    pub(crate) first_memory: u32,
}

impl<'a> SplitParts<'a> {
    /// The memory operands with their indices in the block.
    fn operands(&self) -> impl Iterator<Item = (u32, &'a MemoryOperand)> + use<'a> {
        (self.first_memory..).zip(self.memory)
    }
}

/// Carries the result of an operation to its store.
const STORED: u8 = 14;
/// Gathers sources that do not fit one µop.
const OVERFLOW: u8 = 15;

fn temporary(number: u8) -> RegSet {
    Reg::temporary(number).into_iter().collect()
}

/// Appends the µops of one instruction to `uops` and returns the class of its main operation.
pub(crate) fn split(parts: &SplitParts<'_>, uops: &mut Vec<Uop>) -> UopClass {
    let first = uops.len();
    let mut splitter = Splitter { parts, uops, class: unit(parts) };
    match parts.operation.kind {
        UopKind::Nop => splitter.emit(UopClass::Nop, 0, RegSet::EMPTY, RegSet::EMPTY),
        UopKind::Pause => splitter.emit(UopClass::Microcode, 0, RegSet::EMPTY, RegSet::EMPTY),
        UopKind::Prefetch => splitter.touch(UopClass::Prefetch),
        UopKind::Flush => splitter.touch(UopClass::Flush),
        _ if parts.iced.mnemonic() == Mnemonic::Leave => splitter.leave(),
        _ if parts.iced.is_vsib() => splitter.vector_indexed(),
        _ => splitter.general(),
    }
    let class = splitter.class;
    mark(parts, &mut uops[first..]);
    class
}

fn mark(parts: &SplitParts<'_>, uops: &mut [Uop]) {
    let locked = is_locked(parts.iced, parts.operation);
    for uop in uops.iter_mut() {
        if locked {
            uop.mark(Marks::LOCKED);
        }
        if parts.operation.is_non_temporal && uop.memory().is_some() {
            uop.mark(Marks::NON_TEMPORAL);
        }
    }
    if let Some(uop) = uops.first_mut() {
        uop.mark(Marks::FIRST);
    }
    let retires = |uop: &&mut Uop| uop.class() != UopClass::StackPointer;
    if let Some(uop) = uops.iter_mut().rfind(retires) {
        uop.mark(Marks::LAST);
    }
}

/// Whether the instruction is an atomic read-modify-write.
pub(crate) fn is_locked(iced: &Iced, operation: CodeOperation) -> bool {
    let exchanges_memory =
        iced.mnemonic() == Mnemonic::Xchg && iced.op_kinds().any(|kind| kind == OpKind::Memory);
    iced.has_lock_prefix() || exchanges_memory || operation.kind == UopKind::Atomic
}

struct Splitter<'a> {
    parts: &'a SplitParts<'a>,
    uops: &'a mut Vec<Uop>,
    class: UopClass,
}

impl Splitter<'_> {
    fn general(&mut self) {
        let RegisterUse { mut reads, mut writes } = self.parts.registers;
        let pointers = self.string_pointers(writes);
        reads = reads.without(pointers);
        writes = writes.without(pointers);
        let is_call = self.parts.iced.mnemonic() == Mnemonic::Call;
        let stores = self.parts.memory.iter().any(|operand| operand.access().writes());
        if self.is_plain_load(reads, stores) {
            self.loads(|_| writes, reads);
        } else {
            let loaded = self.loads(temporary, RegSet::EMPTY);
            let inputs = reads.union(loaded);
            if stores && self.is_move_to_memory(writes) {
                self.stores(inputs, RegSet::EMPTY);
            } else if is_call {
                self.stores(RegSet::EMPTY, RegSet::EMPTY);
                self.compute(inputs, writes);
            } else {
                let result = if stores { temporary(STORED) } else { RegSet::EMPTY };
                self.compute(inputs, writes.union(result));
                self.stores(result, RegSet::EMPTY);
            }
        }
        if !pointers.is_empty() {
            self.emit(UopClass::IntAlu, 8, pointers, pointers);
        }
        if moves_stack_pointer(self.parts.iced) && !writes.contains(Reg::RSP) {
            self.emit(UopClass::StackPointer, 8, RegSet::of(Reg::RSP), RegSet::of(Reg::RSP));
        }
    }

    /// The pointers and the counter a string instruction steps, apart from its data.
    fn string_pointers(&self, writes: RegSet) -> RegSet {
        if !self.parts.iced.is_string_instruction() {
            return RegSet::EMPTY;
        }
        let pointers: RegSet = [Reg::RSI, Reg::RDI, Reg::RCX].into_iter().collect();
        writes.intersection(pointers)
    }

    /// Whether the load µop alone does the job. A zeroing mask only selects; anything else that is read merges.
    fn is_plain_load(&self, reads: RegSet, stores: bool) -> bool {
        let is_move = matches!(self.parts.operation.kind, UopKind::Move | UopKind::MoveFromMemory);
        let loads = self.parts.memory.iter().filter(|operand| operand.access().reads()).count();
        let is_selecting = reads.iter().all(Reg::is_mask) || is_masked_move(self.parts.iced);
        is_move && loads == 1 && !stores && is_selecting
    }

    fn is_move_to_memory(&self, writes: RegSet) -> bool {
        matches!(self.parts.operation.kind, UopKind::Move | UopKind::MoveToMemory) && writes.is_empty()
    }

    /// Emits the loads and returns where their values are.
    fn loads(&mut self, destination: impl Fn(u8) -> RegSet, selectors: RegSet) -> RegSet {
        let mut loaded = RegSet::EMPTY;
        let mut number = 0;
        for (index, operand) in self.parts.operands() {
            if operand.access().reads() {
                let destination = destination(number);
                let sources = operand.address_registers().union(selectors);
                self.emit_memory(UopClass::Load, operand, index, sources, destination);
                loaded = loaded.union(destination);
                number += 1;
            }
        }
        loaded
    }

    fn stores(&mut self, data: RegSet, selectors: RegSet) {
        for (index, operand) in self.parts.operands() {
            if operand.access().writes() {
                let sources = operand.address_registers().union(selectors);
                self.emit_memory(UopClass::StoreAddress, operand, index, sources, RegSet::EMPTY);
                let address = self.uops.len();
                self.emit_memory(UopClass::StoreData, operand, index, data, RegSet::EMPTY);
                if let Some(data) = self.uops.get_mut(address) {
                    data.mark(Marks::FUSED);
                }
            }
        }
    }

    /// The operation itself, fused with its load where there is exactly one.
    fn compute(&mut self, sources: RegSet, destinations: RegSet) {
        let behind_load = self.uops.last().is_some_and(|uop| uop.class() == UopClass::Load);
        let one_load = self.parts.memory.iter().filter(|operand| operand.access().reads()).count() == 1;
        let start = self.uops.len();
        self.emit(self.class, width_bytes(self.parts), sources, destinations);
        let fuses = behind_load && one_load && !self.parts.operation.is_microcoded;
        if let Some(uop) = self.uops.get_mut(start).filter(|_| fuses) {
            uop.mark(Marks::FUSED);
        }
    }

    /// Gathers: all element loads, then their merge. Scatters: all element stores, then the mask.
    fn vector_indexed(&mut self) {
        let RegisterUse { reads, writes } = self.parts.registers;
        let selectors = gather_mask(self.parts.iced);
        if self.parts.memory.iter().any(|operand| operand.access().writes()) {
            self.stores(reads.without(selectors), selectors);
            self.emit(UopClass::MaskLogic, 8, selectors, writes);
        } else {
            let loaded = self.loads(temporary, selectors);
            self.emit(UopClass::VectorShuffle, width_bytes(self.parts), reads.union(loaded), writes);
        }
    }

    /// `rsp = rbp; pop rbp`: the stack pointer must not wait for the load.
    fn leave(&mut self) {
        let frame = RegSet::of(Reg::RBP);
        self.emit(UopClass::IntAlu, 8, frame, RegSet::of(Reg::RSP));
        self.loads(|_| frame, RegSet::EMPTY);
    }

    /// Prefetches and flushes.
    fn touch(&mut self, class: UopClass) {
        for (index, operand) in self.parts.operands() {
            let selectors = gather_mask(self.parts.iced);
            self.emit_memory(
                class,
                operand,
                index,
                operand.address_registers().union(selectors),
                RegSet::EMPTY,
            );
        }
        if self.parts.memory.is_empty() {
            self.emit(class, 0, RegSet::EMPTY, RegSet::EMPTY);
        }
    }

    fn emit_memory(
        &mut self,
        class: UopClass,
        operand: &MemoryOperand,
        index: u32,
        sources: RegSet,
        destinations: RegSet,
    ) {
        let sources = self.reduce(UopClass::IntAlu, sources);
        let width = operand.bytes().unwrap_or(0);
        self.uops.push(Uop::new(class, width, sources, destinations).with_memory(Some(index)));
    }

    fn emit(&mut self, class: UopClass, width: u16, sources: RegSet, destinations: RegSet) {
        let sources = self.reduce(class, sources);
        let mut rest = destinations;
        loop {
            let now: RegSet = rest.iter().take(Uop::MAX_REGS).collect();
            rest = rest.without(now);
            self.uops.push(Uop::new(class, width, sources, now));
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Combines sources, as many as fit one µop at a time, until the rest fits too.
    fn reduce(&mut self, class: UopClass, mut sources: RegSet) -> RegSet {
        while sources.len() > Uop::MAX_REGS {
            let now: RegSet = sources.iter().take(Uop::MAX_REGS).collect();
            let free = now.iter().filter(|reg| reg.is_temporary()).last();
            let combined = free.map_or(temporary(OVERFLOW), RegSet::of);
            self.uops.push(Uop::new(class, 0, now, combined));
            sources = sources.without(now).union(combined);
        }
        sources
    }
}

/// Moves under a vector mask (`vmaskmovpd`, `vpmaskmovd`).
fn is_masked_move(iced: &Iced) -> bool {
    use Mnemonic::{Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    matches!(iced.mnemonic(), Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq)
}

/// What selects the elements of a gather or scatter: a mask register, or the third operand of the AVX2 form.
fn gather_mask(iced: &Iced) -> RegSet {
    if !iced.is_vsib() {
        return RegSet::EMPTY;
    }
    let register = if iced.has_op_mask() { iced.op_mask() } else { iced.op2_register() };
    Reg::from_iced(register).into_iter().collect()
}
