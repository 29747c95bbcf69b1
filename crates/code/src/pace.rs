//! Which operand or register of a loop tells in which turn it is, wherever in the loop a sample lands. A repeated string
//! instruction is a loop of its own, byte by byte.

use crate::{
    Block, Instruction, MemoryOperand, Reg, UopClass,
    blame::{AddressBehind, CodeSpot, Routine, WatchedOperand},
};

/// What tells in which turn of its loop a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPace {
    /// The address of this instruction's operand.
    Operand(CodeSpot),
    /// A register that turns of this block count in, by `step` each.
    Counter {
        /// Index of the block.
        block: usize,
        /// What a turn adds; not 0.
        step: i64,
    },
}

impl Block {
    /// Whether it jumps back to itself.
    pub fn is_loop(&self) -> bool {
        self.target() == Some(self.address())
    }

    /// The repeated string instruction that an execution spends its time in; none in a loop, whose turns are something else.
    pub fn string(&self) -> Option<&Instruction> {
        self.instructions().iter().find(|instruction| instruction.is_repeated() && !self.is_loop())
    }

    /// Whether an execution changes a register of the operand's address.
    pub fn is_moved(&self, operand: &MemoryOperand) -> bool {
        [operand.base(), operand.index()].into_iter().flatten().any(|reg| self.is_written(reg))
    }

    /// Whether each execution moves the operand by the same distance: its registers are left alone, or changed by nothing but
    /// themselves and what is left alone.
    pub fn moves_by_constant(&self, operand: &MemoryOperand) -> bool {
        let registers = || [operand.base(), operand.index()].into_iter().flatten();
        self.is_moved(operand) && registers().all(|reg| self.changes_by_constant(reg))
    }

    fn is_written(&self, reg: Reg) -> bool {
        self.uops().iter().any(|uop| uop.destinations().contains(&reg))
    }

    /// The general register that changes least by constants alone with every execution, and by how much. None beside a repeated
    /// instruction, whose steps are turns as well.
    fn counter(&self) -> Option<(Reg, i64)> {
        if self.instructions().iter().any(Instruction::is_repeated) {
            return None;
        }
        let general = (0..16).filter_map(Reg::general).filter(|&reg| reg != Reg::RSP);
        let steps = general.filter_map(|reg| Some((reg, self.step_of(reg).filter(|step| *step != 0)?)));
        steps.min_by_key(|(_, step)| step.unsigned_abs())
    }

    /// Whether the load overwrites a register of its own address, and nothing else changes any of them.
    fn is_overwritten_by_itself(&self, load: &Instruction, operand: &MemoryOperand) -> bool {
        let registers = || [operand.base(), operand.index()].into_iter().flatten();
        let writers = |reg: Reg| {
            let writes = move |instruction: &&Instruction| {
                self.uops_of(instruction).iter().any(|uop| uop.destinations().contains(&reg))
            };
            self.instructions().iter().filter(writes)
        };
        let is_load = |other: &Instruction| other.address() == load.address();
        registers().any(|reg| writers(reg).next().is_some())
            && registers().all(|reg| writers(reg).all(is_load))
    }

    fn changes_by_constant(&self, reg: Reg) -> bool {
        let writes = self.uops().iter().filter(|uop| uop.destinations().contains(&reg));
        writes.into_iter().all(|uop| {
            let simple = uop.class() == UopClass::IntAlu;
            let from_self = uop.sources().contains(&reg);
            // A source that is no general register is the flags: a conditional move is not constant.
            let constant = |source: &Reg| *source == reg || source.is_general() && !self.is_written(*source);
            simple && from_self && uop.sources().iter().all(constant)
        })
    }
}

impl Routine {
    /// What tells, by the registers of a sample at `address`, in which turn of its loop it was taken, give or take one: the
    /// operand that moves by the same distance with every turn, or where none does the register that counts turns, as if it were
    /// an address. None if that is no loop, or nothing counts. A repeated string instruction that was sampled tells which byte it
    /// is at.
    pub fn pacing(&self, address: u64) -> Option<(LoopPace, WatchedOperand)> {
        let sampled = self.spot(address)?;
        let block = self.blocks().get(sampled.block)?;
        if let Some(string) = block.string() {
            let is_sampled = string.address() == address;
            return is_sampled
                .then(|| Some((LoopPace::Operand(sampled), self.operand(sampled, address)?)))
                .flatten();
        }
        if !block.is_loop() {
            return None;
        }
        let steady = block.instructions().iter().enumerate().find_map(|(index, instruction)| {
            // Registers of a repeated instruction move within a turn.
            let operand =
                *WatchedOperand::choose(block, instruction).filter(|_| !instruction.is_repeated())?;
            let tells = block.moves_by_constant(&operand);
            tells.then_some((LoopPace::Operand(CodeSpot { index, ..sampled }), operand))
        });
        let (pace, operand) = steady.or_else(|| {
            let (counter, step) = block.counter()?;
            Some((LoopPace::Counter { block: sampled.block, step }, MemoryOperand::at(counter)))
        })?;
        Some((pace, WatchedOperand { operand, behind: AddressBehind::Own, moved_bytes: 0 }))
    }

    /// A loop's load that the next turn's waits for, and an address it goes to, by the registers of a sample wherever in the
    /// loop it lands: they hold nothing but such addresses. None if the loop has no such load, or the sample carries the address of
    /// the operand that it is blamed on.
    pub fn chased(&self, address: u64, skid: usize) -> Option<(CodeSpot, WatchedOperand)> {
        if self.watched(address, skid).is_some_and(|watched| watched.behind != AddressBehind::Lost) {
            return None;
        }
        let sampled = self.spot(address)?;
        let block = self.blocks().get(sampled.block).filter(|block| block.is_loop())?;
        block.instructions().iter().enumerate().find_map(|(index, instruction)| {
            let operand = *WatchedOperand::choose(block, instruction).filter(|_| instruction.has_load())?;
            let tells = block.is_overwritten_by_itself(instruction, &operand);
            let watched = WatchedOperand { operand, behind: AddressBehind::Next, moved_bytes: 0 };
            tells.then_some((CodeSpot { index, ..sampled }, watched))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_paced_by_what_moves_with_every_turn() {
        // mov rcx,[rdx]; add rax,[rsi]; mulsd xmm0,xmm1; add rsi,8; cmp rsi,rdi; jne 0; ret
        let code = [
            0x48, 0x8b, 0x0a, 0x48, 0x03, 0x06, 0xf2, 0x0f, 0x59, 0xc1, 0x48, 0x83, 0xc6, 0x08, 0x48, 0x39,
            0xfe, 0x75, 0xed, 0xc3,
        ];
        let routine = Routine::new(&code, 0x1000);
        for at in [0, 3, 6, 10, 14, 17] {
            let (pace, watched) = routine.pacing(0x1000 + at).expect("a loop");
            let own = LoopPace::Operand(CodeSpot { block: 0, index: 1 });
            assert_eq!(pace, own, "what stays where it is tells nothing");
            assert_eq!(watched.address(|reg| (reg == Reg::RSI).then_some(0x7000)), Some(0x7000));
        }
        assert_eq!(routine.pacing(0x1013), None, "no loop");
    }

    #[test]
    fn a_repeated_string_instruction_paces_itself_and_nothing_else_does() {
        // mov rcx,rdx; rep movsb; ret
        let routine = Routine::new(&[0x48, 0x89, 0xd1, 0xf3, 0xa4, 0xc3], 0x1000);
        let (pace, watched) = routine.pacing(0x1003).expect("a string");
        assert_eq!(pace, LoopPace::Operand(CodeSpot { block: 0, index: 1 }));
        assert_eq!(watched.address(|reg| (reg == Reg::RSI).then_some(0x7000)), Some(0x7000));
        assert_eq!(routine.pacing(0x1005), None, "its registers are those of the next one");
        // rep stosb; dec rdx; jne 0
        let in_a_loop = Routine::new(&[0xf3, 0xaa, 0x48, 0xff, 0xca, 0x75, 0xf9], 0x1000);
        assert_eq!(in_a_loop.pacing(0x1000), None, "turns are not bytes");
    }

    #[test]
    fn where_nothing_moves_a_counter_tells_the_turn() {
        // mov rax,[rax]; add rcx,rsi; sub rdx,2; jne 0
        let routine =
            Routine::new(&[0x48, 0x8b, 0x00, 0x48, 0x01, 0xf1, 0x48, 0x83, 0xea, 0x02, 0x75, 0xf4], 0x1000);
        let (pace, watched) = routine.pacing(0x1003).expect("a loop");
        assert_eq!(pace, LoopPace::Counter { block: 0, step: -2 });
        assert_eq!(watched.address(|reg| (reg == Reg::RDX).then_some(77)), Some(77));
        // mov rax,[rax]; test rax,rax; jne 0
        let uncounted = Routine::new(&[0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8], 0x1000);
        assert_eq!(uncounted.pacing(0x1000), None);
    }

    #[test]
    fn a_chase_tells_where_it_goes_wherever_it_is_sampled() {
        // mov rax,[rax]; imul rcx,rcx; dec rdx; jne 0
        let routine =
            Routine::new(&[0x48, 0x8b, 0x00, 0x48, 0x0f, 0xaf, 0xc9, 0x48, 0xff, 0xca, 0x75, 0xf4], 0x1000);
        assert_eq!(routine.chased(0x1003, 1), None, "the load itself is blamed");
        for at in [7, 10] {
            let (spot, watched) = routine.chased(0x1000 + at, 1).expect("a chase");
            assert_eq!(spot, CodeSpot { block: 0, index: 0 });
            assert_eq!(watched.address(|reg| (reg == Reg::RAX).then_some(0x7000)), Some(0x7000));
        }
        // mov rax,[rax]; add rax,8; dec rdx; jne 0
        let moved =
            Routine::new(&[0x48, 0x8b, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0xff, 0xca, 0x75, 0xf4], 0x1000);
        assert_eq!(moved.chased(0x1007, 1), None, "between the two it is no address of the chase");
        // mov rax,[rcx]; dec rdx; jne 0
        let still = Routine::new(&[0x48, 0x8b, 0x01, 0x48, 0xff, 0xca, 0x75, 0xf8], 0x1000);
        assert_eq!(still.chased(0x1006, 1), None);
    }
}
