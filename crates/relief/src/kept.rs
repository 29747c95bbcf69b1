//! The loop itself, moved elsewhere: its instructions once, with their own jumps, and every way out leading to one end.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Code, FlowControl, Instruction, MemoryOperand, Register};
use record::relief::ReliefRefusal;

use crate::{
    listing::{Label, Labels, Listing, at, load, made, store},
    straight::Segment,
    stretch::{Stretch, TracedStep},
    stub::{COUNTER, KEPT, Stub, WAY_OUT},
};

/// The distinct instructions of a stretch, by address.
#[derive(Debug)]
pub(crate) struct LoopCode {
    by_address: BTreeMap<u64, Instruction>,
    mark: u64,
}

impl LoopCode {
    /// None if its jumps cannot be moved: where one goes is known only when it is executed, or it returns to who called
    /// before the stretch began.
    pub fn of(stretch: &Stretch) -> Option<Self> {
        let mark = stretch.steps.first()?.instruction.ip();
        let mut depth = 0usize;
        for step in &stretch.steps {
            match step.instruction.flow_control() {
                FlowControl::IndirectBranch | FlowControl::IndirectCall => return None,
                FlowControl::Call => depth += 1,
                FlowControl::Return => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        let by_address = stretch.steps.iter().map(|step| (step.instruction.ip(), step.instruction)).collect();
        Some(Self { by_address, mark })
    }

    /// Whether an address is one of its instructions'.
    pub fn holds(&self, address: u64) -> bool {
        self.by_address.contains_key(&address)
    }

    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.by_address.values()
    }

    /// Addresses that lead out of it, in a fixed order.
    pub fn ways_out(&self) -> Vec<u64> {
        let mut found = BTreeSet::new();
        for instruction in self.instructions() {
            let flow = instruction.flow_control();
            if matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                found.insert(instruction.near_branch_target());
            }
            if !matches!(flow, FlowControl::UnconditionalBranch | FlowControl::Return) {
                found.insert(instruction.next_ip());
            }
        }
        found.into_iter().filter(|address| !self.holds(*address)).collect()
    }

    /// Lays it out. Each way out notes in the stub's data which one it is and goes to `end`. `swapped` takes the place of
    /// the instruction at its address; with `counts` turns are added up.
    pub fn lay_out(
        &self,
        stub: &Stub,
        swapped: Option<&Instruction>,
        counts: bool,
    ) -> Result<Vec<Segment>, ReliefRefusal> {
        let (end, counts) = (stub.end, counts.then_some(stub.data()));
        let mut labels = Labels::default();
        let mut places: BTreeMap<u64, Label> =
            self.by_address.keys().map(|address| (*address, labels.next())).collect();
        let mut outs = Listing::default();
        for (number, address) in (0..).zip(self.ways_out()) {
            let label = labels.next();
            outs.put(
                label,
                made(Instruction::with2(Code::Mov_rm64_imm32, at(stub.data() + WAY_OUT), number))?,
            );
            outs.put(labels.next(), made(Instruction::with_branch(Code::Jmp_rel32_64, end))?);
            places.insert(address, label);
        }
        let mut entry = Listing::default();
        // A call of what was never stepped into stays as it is.
        let target = |address: u64| places.get(&address).map_or(address, |label| label.0);
        entry.put(labels.next(), made(Instruction::with_branch(Code::Jmp_rel32_64, target(self.mark)))?);
        let mut body = Listing::default();
        let mut all = self.by_address.iter().peekable();
        while let Some((address, instruction)) = all.next() {
            let mut label = places[address];
            if let Some(data) = counts.filter(|_| *address == self.mark) {
                for counting in counter(data)? {
                    body.put(label, counting);
                    label = labels.next();
                }
            }
            let mut instruction = *swapped.filter(|swapped| swapped.ip() == *address).unwrap_or(instruction);
            let next = self.by_address[address].next_ip();
            let flow = instruction.flow_control();
            if matches!(
                flow,
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call
            ) {
                instruction.set_near_branch64(target(instruction.near_branch_target()));
            }
            body.put(label, instruction);
            let goes_on = !matches!(flow, FlowControl::UnconditionalBranch | FlowControl::Return);
            if goes_on && all.peek().is_none_or(|(following, _)| **following != next) {
                let onward = made(Instruction::with_branch(Code::Jmp_rel32_64, target(next)))?;
                body.put(labels.next(), onward);
            }
        }
        let near = self.by_address.keys().next().copied().unwrap_or(self.mark);
        Ok(vec![
            Segment { listing: entry, near: near & !63 },
            Segment { listing: body, near },
            Segment { listing: outs, near: near & !63 },
        ])
    }

    /// Conditional jumps of which one side leads out, with whether it is the taken one.
    pub fn exits(&self) -> Vec<(u64, bool)> {
        let conditional = |instruction: &&Instruction| instruction.is_jcc_short_or_near();
        let mut found = Vec::new();
        for instruction in self.instructions().filter(conditional) {
            let taken_out = !self.holds(instruction.near_branch_target());
            let passed_out = !self.holds(instruction.next_ip());
            if taken_out != passed_out {
                found.push((instruction.ip(), taken_out));
            }
        }
        found
    }

    /// Stretches of addresses that it covers, neighbours together.
    pub fn ranges(steps: &[TracedStep]) -> Vec<(u64, u64)> {
        let spans: BTreeSet<(u64, u64)> =
            steps.iter().map(|step| (step.instruction.ip(), step.instruction.next_ip())).collect();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }
}

/// Adds one to the counter, and leaves registers and flags as they are.
fn counter(data: u64) -> Result<[Instruction; 5], ReliefRefusal> {
    let more = MemoryOperand::with_base_displ(Register::RCX, 1);
    Ok([
        store(data + KEPT, Register::RCX)?,
        load(Register::RCX, data + COUNTER)?,
        made(Instruction::with2(Code::Lea_r64_m, Register::RCX, more))?,
        store(data + COUNTER, Register::RCX)?,
        load(Register::RCX, data + KEPT)?,
    ])
}
