//! Which operand of a loop tells in which turn it is, wherever in the loop a sample lands. A repeated string instruction is a
//! loop of its own, byte by byte.

use crate::{
    Block, Instruction, MemoryOperand, Reg, UopClass,
    blame::{AddressBehind, CodeSpot, Routine, WatchedOperand},
};

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
    /// The operand whose address, by the registers of a sample at `address`, tells in which turn of its loop it was taken,
    /// give or take one; none if that is no loop, or no operand moves by the same distance with every turn. A repeated string
    /// instruction that was sampled tells which byte it is at.
    pub fn pacing(&self, address: u64) -> Option<(CodeSpot, WatchedOperand)> {
        let sampled = self.spot(address)?;
        let block = self.blocks().get(sampled.block)?;
        if let Some(string) = block.string() {
            let is_sampled = string.address() == address;
            return is_sampled.then(|| Some((sampled, self.operand(sampled, address)?))).flatten();
        }
        if !block.is_loop() {
            return None;
        }
        block.instructions().iter().enumerate().find_map(|(index, instruction)| {
            // Registers of a repeated instruction move within a turn.
            let operand =
                *WatchedOperand::choose(block, instruction).filter(|_| !instruction.is_repeated())?;
            let tells = block.moves_by_constant(&operand);
            let watched = WatchedOperand { operand, behind: AddressBehind::Own, moved_bytes: 0 };
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
            let (spot, watched) = routine.pacing(0x1000 + at).expect("a loop");
            assert_eq!(spot, CodeSpot { block: 0, index: 1 }, "what stays where it is tells nothing");
            assert_eq!(watched.address(|reg| (reg == Reg::RSI).then_some(0x7000)), Some(0x7000));
        }
        assert_eq!(routine.pacing(0x1013), None, "no loop");
    }

    #[test]
    fn a_repeated_string_instruction_paces_itself_and_nothing_else_does() {
        // mov rcx,rdx; rep movsb; ret
        let routine = Routine::new(&[0x48, 0x89, 0xd1, 0xf3, 0xa4, 0xc3], 0x1000);
        let (spot, watched) = routine.pacing(0x1003).expect("a string");
        assert_eq!(spot, CodeSpot { block: 0, index: 1 });
        assert_eq!(watched.address(|reg| (reg == Reg::RSI).then_some(0x7000)), Some(0x7000));
        assert_eq!(routine.pacing(0x1005), None, "its registers are those of the next one");
        // rep stosb; dec rdx; jne 0
        let in_a_loop = Routine::new(&[0xf3, 0xaa, 0x48, 0xff, 0xca, 0x75, 0xf9], 0x1000);
        assert_eq!(in_a_loop.pacing(0x1000), None, "turns are not bytes");
    }

    #[test]
    fn a_chase_has_no_pace() {
        // mov rax,[rax]; dec rcx; jne 0
        let routine = Routine::new(&[0x48, 0x8b, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf8], 0x1000);
        assert_eq!(routine.pacing(0x1000), None);
    }
}
