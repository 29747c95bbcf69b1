//! Where a loop decides to go on, and what to change so that it ends after a given number of turns.
//!
//! A loop that is left by its own comparison runs as it does in the program: fetched from where loops are fetched from,
//! its one jump taken at no cost. All that has to change is what its counter is compared with.

use std::collections::HashSet;

use iced_x86::{
    ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedRegister,
};

use crate::{kept::LoopCode, operands::general_index, stretch::Stretch};

/// What has to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundChange {
    /// A register holds this at the start; at the end it differs from the recording by the same.
    Register { index: usize, by: u64 },
    /// The instruction compares with this number instead.
    Immediate { address: u64, value: i64 },
    /// Memory holds this, in so many bytes.
    Memory { address: u64, bytes: u64, value: u64 },
}

/// A comparison, its jump, and the steps of both in each turn.
struct Exit<'a> {
    comparison: &'a Instruction,
    condition: ConditionCode,
    /// The loop is left when the jump is taken.
    is_taken_out: bool,
    /// The step of the comparison in each turn.
    steps: Vec<usize>,
    /// The step of the jump in each turn.
    jumps: Vec<usize>,
}

/// A way to end a loop after some turns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoopBound {
    pub change: BoundChange,
    /// The step behind the jump that leaves: registers before it are those at the end.
    pub end_step: usize,
}

/// How the loop is made to end after `turns` turns; none if nothing simple does it.
pub(crate) fn bound(
    code: &LoopCode,
    stretch: &Stretch,
    turns: usize,
    read: impl Fn(u64, usize) -> Vec<u8>,
) -> Option<LoopBound> {
    let uses = RegisterUses::of(code);
    for (address, is_taken_out) in code.exits() {
        let Some(exit) = Exit::find(stretch, address, is_taken_out, turns) else { continue };
        if let Some(change) = exit.change(stretch, &uses, &read) {
            return Some(LoopBound { change, end_step: exit.jumps[turns - 1] + 1 });
        }
    }
    None
}

impl<'a> Exit<'a> {
    /// The jump must come exactly once in each turn, and the flags it looks at from the same instruction.
    fn find(stretch: &'a Stretch, address: u64, is_taken_out: bool, turns: usize) -> Option<Self> {
        let (mut steps, mut jumps) = (Vec::new(), Vec::new());
        let mut condition = ConditionCode::None;
        for window in stretch.turns.windows(2).take(turns) {
            let turn = &stretch.steps[window[0]..window[1]];
            let mut at = turn.iter().enumerate().filter(|(_, step)| step.instruction.ip() == address);
            let (offset, jump) = at.next()?;
            if at.next().is_some() {
                return None;
            }
            condition = jump.instruction.condition_code();
            let needed = jump.instruction.rflags_read();
            let writes = |step: usize| stretch.steps[step].instruction.rflags_modified() & needed != 0;
            jumps.push(window[0] + offset);
            steps.push((0..window[0] + offset).rev().find(|step| writes(*step))?);
        }
        let comparison = &stretch.steps[*steps.first()?].instruction;
        let is_same = steps.iter().all(|step| stretch.steps[*step].instruction.ip() == comparison.ip());
        (is_same && steps.len() == turns).then_some(Self {
            comparison,
            condition,
            is_taken_out,
            steps,
            jumps,
        })
    }

    fn change(
        &self,
        stretch: &Stretch,
        uses: &RegisterUses,
        read: &impl Fn(u64, usize) -> Vec<u8>,
    ) -> Option<BoundChange> {
        match self.comparison.mnemonic() {
            Mnemonic::Cmp => {
                let sides = [self.values(stretch, 0, read)?, self.values(stretch, 1, read)?];
                let other_side = |side: usize| self.other_side(stretch, uses, side, &sides);
                other_side(1).or_else(|| other_side(0)).or_else(|| self.shifted(stretch, uses, &sides))
            }
            Mnemonic::Sub | Mnemonic::Add | Mnemonic::Dec | Mnemonic::Inc => self.counted_down(stretch, uses),
            _ => None,
        }
    }

    fn width(&self) -> u32 {
        let bytes = match self.comparison.op0_kind() {
            OpKind::Memory => self.comparison.memory_size().size(),
            _ => self.comparison.op0_register().size(),
        };
        u32::try_from(8 * bytes).unwrap_or(64).clamp(8, 64)
    }

    /// An operand of the comparison in each turn.
    fn values(
        &self,
        stretch: &Stretch,
        operand: u32,
        read: &impl Fn(u64, usize) -> Vec<u8>,
    ) -> Option<Vec<u64>> {
        let of = |step: &usize| {
            let step = &stretch.steps[*step];
            match self.comparison.op_kind(operand) {
                OpKind::Register => Some(step.before[general_index(self.comparison.op_register(operand))?]),
                OpKind::Memory => {
                    let touch = step.touches.first()?;
                    let bytes = read(touch.address, usize::try_from(touch.bytes).ok()?);
                    let mut word = [0; 8];
                    word.get_mut(..bytes.len())?.copy_from_slice(&bytes);
                    Some(u64::from_le_bytes(word))
                }
                _ => self.comparison.try_immediate(operand).ok(),
            }
        };
        self.steps.iter().map(|step| Some(of(step)? & mask(self.width()))).collect()
    }

    /// Leaves after exactly the turns asked for, if both sides were these.
    fn ends_in_time(&self, left: impl Fn(usize) -> u64, right: impl Fn(usize) -> u64) -> bool {
        let last = self.steps.len() - 1;
        (0..=last).all(|turn| {
            let is_taken = holds(self.condition, left(turn), right(turn), self.width());
            is_taken.is_some_and(|is_taken| (is_taken == self.is_taken_out) == (turn == last))
        })
    }

    /// Compares with another number: `side` stays the same in all turns, and nothing else looks at it.
    fn other_side(
        &self,
        stretch: &Stretch,
        uses: &RegisterUses,
        side: usize,
        sides: &[Vec<u64>; 2],
    ) -> Option<BoundChange> {
        let (own, other) = (&sides[side], &sides[1 - side]);
        if own.iter().any(|value| value != &own[0]) {
            return None;
        }
        let mask = mask(self.width());
        let last = *other.last()?;
        let before = other.len().checked_sub(2).map_or(last, |at| other[at]);
        let fits = |value: &u64| match side {
            1 => self.ends_in_time(|turn| other[turn], |_| *value),
            _ => self.ends_in_time(|_| *value, |turn| other[turn]),
        };
        let value = [last, before, last.wrapping_add(1) & mask, last.wrapping_sub(1) & mask]
            .into_iter()
            .find(fits)?;
        let operand = u32::try_from(side).ok()?;
        match self.comparison.op_kind(operand) {
            OpKind::Register => {
                let index = general_index(self.comparison.op_register(operand))?;
                let is_free = uses.is_read_only_by(index, &[self.comparison.ip()]) && !uses.is_written(index);
                is_free.then_some(BoundChange::Register { index, by: value.wrapping_sub(own[0]) })
            }
            OpKind::Memory => {
                let touch = stretch.steps[self.steps[0]].touches.first()?;
                let is_same = |step: &usize| stretch.steps[*step].touches.first() == Some(touch);
                let overlaps = |address: u64, bytes: u64| {
                    address < touch.address + touch.bytes && touch.address < address + bytes
                };
                let others =
                    stretch.steps.iter().filter(|step| step.instruction.ip() != self.comparison.ip());
                let is_touched =
                    others.flat_map(|step| &step.touches).any(|other| overlaps(other.address, other.bytes));
                (self.steps.iter().all(is_same) && !is_touched).then_some(BoundChange::Memory {
                    address: touch.address,
                    bytes: touch.bytes,
                    value,
                })
            }
            _ => {
                let value = sign_extended(value, self.width());
                i32::try_from(value).ok()?;
                Some(BoundChange::Immediate { address: self.comparison.ip(), value })
            }
        }
    }

    /// Begins with another count: what counts is looked at by nobody but itself and the comparison.
    fn shifted(&self, stretch: &Stretch, uses: &RegisterUses, sides: &[Vec<u64>; 2]) -> Option<BoundChange> {
        for side in [0, 1] {
            let operand = u32::try_from(side).ok()?;
            if self.comparison.op_kind(operand) != OpKind::Register || self.width() != 64 {
                continue;
            }
            let Some(index) = general_index(self.comparison.op_register(operand)) else { continue };
            if !uses.counts_alone(index, self.comparison.ip()) {
                continue;
            }
            let last = self.steps.len() - 1;
            let by = sides[1 - side][last].wrapping_sub(sides[side][last]);
            let moved = |turn: usize| sides[side][turn].wrapping_add(by);
            let fits = match side {
                0 => self.ends_in_time(moved, |turn| sides[1][turn]),
                _ => self.ends_in_time(|turn| sides[0][turn], moved),
            };
            if fits && !stretch.steps.is_empty() {
                return Some(BoundChange::Register { index, by });
            }
        }
        None
    }

    /// Counts to zero from nearer.
    fn counted_down(&self, stretch: &Stretch, uses: &RegisterUses) -> Option<BoundChange> {
        if !matches!(self.condition, ConditionCode::ne | ConditionCode::e) || self.width() != 64 {
            return None;
        }
        let index = general_index(self.comparison.op0_register())
            .filter(|_| self.comparison.op0_kind() == OpKind::Register)?;
        if !uses.counts_alone(index, self.comparison.ip()) {
            return None;
        }
        let after = |step: &usize| stretch.steps.get(step + 1).map(|step| step.before[index]);
        let results: Vec<u64> = self.steps.iter().map(after).collect::<Option<_>>()?;
        let by = 0u64.wrapping_sub(*results.last()?);
        let fits = self.ends_in_time(|turn| results[turn].wrapping_add(by), |_| 0);
        fits.then_some(BoundChange::Register { index, by })
    }
}

fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

fn sign_extended(value: u64, width: u32) -> i64 {
    (value << (64 - width)).cast_signed() >> (64 - width)
}

/// Whether a jump on this condition is taken behind `cmp left, right`; none of conditions that no counter uses.
fn holds(condition: ConditionCode, left: u64, right: u64, width: u32) -> Option<bool> {
    let (signed_left, signed_right) = (sign_extended(left, width), sign_extended(right, width));
    Some(match condition {
        ConditionCode::e => left == right,
        ConditionCode::ne => left != right,
        ConditionCode::b => left < right,
        ConditionCode::ae => left >= right,
        ConditionCode::be => left <= right,
        ConditionCode::a => left > right,
        ConditionCode::l => signed_left < signed_right,
        ConditionCode::ge => signed_left >= signed_right,
        ConditionCode::le => signed_left <= signed_right,
        ConditionCode::g => signed_left > signed_right,
        _ => return None,
    })
}

/// Which instructions of a loop look at which general registers, and which change them.
struct RegisterUses {
    reads: [HashSet<u64>; 16],
    writes: [HashSet<u64>; 16],
}

impl RegisterUses {
    fn of(code: &LoopCode) -> Self {
        let mut uses = Self { reads: Default::default(), writes: Default::default() };
        let mut factory = InstructionInfoFactory::new();
        for instruction in code.instructions() {
            for used in factory.info(instruction).used_registers() {
                uses.note(instruction, used);
            }
        }
        uses
    }

    fn note(&mut self, instruction: &Instruction, used: &UsedRegister) {
        let Some(index) = general_index(used.register()).filter(|_| used.register() != Register::None) else {
            return;
        };
        let (reads, writes) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write => (false, true),
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
            _ => (true, true),
        };
        if reads {
            self.reads[index].insert(instruction.ip());
        }
        if writes {
            self.writes[index].insert(instruction.ip());
        }
    }

    fn is_written(&self, index: usize) -> bool {
        !self.writes[index].is_empty()
    }

    fn is_read_only_by(&self, index: usize, addresses: &[u64]) -> bool {
        self.reads[index].iter().all(|address| addresses.contains(address))
    }

    /// Read only by what changes it, and by the comparison.
    fn counts_alone(&self, index: usize, comparison: u64) -> bool {
        let changing = &self.writes[index];
        changing.len() == 1
            && self.reads[index].iter().all(|address| *address == comparison || changing.contains(address))
    }
}

#[cfg(test)]
mod tests;
