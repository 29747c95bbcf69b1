//! Which register of a loop around a loop tells how many passes through the inner one have begun.
//!
//! A short loop begins again many times between two samples, and where in it they land tells little of how fast it turns.
//! What counts its passes goes on meanwhile. That tells something only where all passes are alike: each begins with the same
//! places and ends after as many turns.

use crate::{
    Block, Flow, MemoryOperand, Reg, Uop, UopClass,
    blame::{AddressBehind, Routine, WatchedOperand},
};

/// A register that counts the passes of a loop, by `step` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopPasses {
    /// Index of the inner loop's block.
    pub block: usize,
    /// What a pass adds; not 0.
    pub step: i64,
    /// Gives the register of a sample as if it were an address.
    pub counter: WatchedOperand,
}

impl Routine {
    /// What counts the passes of the loop that a sample at `address` was taken in; none if that is no loop of one block, no
    /// other goes around it, nothing counts, or its passes may differ.
    pub fn passes(&self, address: u64) -> Option<LoopPasses> {
        let (_, pacing) = self.pacing(address)?;
        let own = self.spot(address)?.block;
        let block = &self.blocks()[own];
        if !block.is_loop() {
            return None;
        }
        let way: Vec<&Block> = self.way_round(own)?.into_iter().map(|index| &self.blocks()[index]).collect();
        let begins_alike = registers_begun_alike(block, &way);
        let paced = [pacing.operand.base(), pacing.operand.index()].into_iter().flatten();
        if !paced.chain(ended_by(block)).all(|reg| begins_alike[reg.index()]) {
            return None;
        }
        let step_of = |reg: Reg| {
            // How often a loop on the way turns, nobody knows.
            let known = |part: &&Block| part.step_of(reg).filter(|step| *step == 0 || !part.is_loop());
            let step = way.iter().map(known).sum::<Option<i64>>()?;
            (step != 0 && block.step_of(reg) == Some(0)).then_some(step)
        };
        let general = (0..16).filter_map(Reg::general).filter(|&reg| reg != Reg::RSP);
        let counters = general.filter_map(|register| Some((register, step_of(register)?)));
        let (register, step) = counters.min_by_key(|(_, step)| step.unsigned_abs())?;
        let operand = MemoryOperand::at(register);
        let counter = WatchedOperand { operand, behind: AddressBehind::Own, moved_bytes: 0 };
        Some(LoopPasses { block: own, step, counter })
    }

    /// The shortest way from the end of a loop back to its beginning, without it; none if that leads through other functions.
    fn way_round(&self, own: usize) -> Option<Vec<usize>> {
        const LONGEST: usize = 12;
        let stays = |flow| matches!(flow, Flow::Sequential | Flow::Conditional | Flow::Jump);
        let next = |index: usize| {
            let block = &self.blocks()[index];
            let ways = [block.target(), block.fall_through()].into_iter().flatten();
            ways.filter_map(|address| self.spot(address))
                .filter(|spot| spot.index == 0)
                .map(|spot| spot.block)
        };
        let first = next(own).find(|&next| next != own)?;
        let mut ways = vec![vec![first]];
        let mut seen = vec![own, first];
        for _ in 0..LONGEST {
            let mut longer = Vec::new();
            for way in ways {
                let last = way[way.len() - 1];
                if !stays(self.blocks()[last].flow()) {
                    continue;
                }
                if next(last).any(|next| next == own) {
                    return Some(way);
                }
                for after in next(last) {
                    if !seen.contains(&after) {
                        seen.push(after);
                        longer.push(way.iter().copied().chain([after]).collect());
                    }
                }
            }
            ways = longer;
        }
        None
    }
}

/// By register: whether each pass through a loop begins with the same in it, given the way from its end to its beginning.
fn registers_begun_alike(block: &Block, way: &[&Block]) -> [bool; Reg::COUNT] {
    let mut alike = [true; Reg::COUNT];
    for uop in std::iter::once(block).chain(way.iter().copied()).flat_map(Block::uops) {
        uop.destinations().iter().for_each(|reg| alike[reg.index()] = false);
    }
    let stores = way.iter().any(|block| block.totals().stores > 0);
    for uop in way.iter().copied().flat_map(Block::uops) {
        // What is loaded from the same place is the same, if nobody stores there meanwhile.
        let is_alike =
            uop.sources().iter().all(|reg| alike[reg.index()]) && !(uop.class() == UopClass::Load && stores);
        uop.destinations().iter().for_each(|reg| alike[reg.index()] = is_alike);
    }
    alike
}

/// The general registers that decide when a loop ends.
fn ended_by(block: &Block) -> Vec<Reg> {
    let written_last = |reg: &Reg| block.uops().iter().rev().find(|uop| uop.destinations().contains(reg));
    let sources = |uop: Option<&Uop>| uop.map(|uop| uop.sources().to_vec()).unwrap_or_default();
    let branch = block.uops().iter().rev().find(|uop| uop.class() == UopClass::Branch);
    let compared = sources(branch).iter().flat_map(|flags| sources(written_last(flags))).collect::<Vec<_>>();
    // What is compared with may have been loaded.
    let loaded = compared.iter().filter(|reg| !reg.is_general());
    let loaded_from = loaded.flat_map(|reg| sources(written_last(reg))).collect::<Vec<_>>();
    compared.into_iter().chain(loaded_from).filter(|reg| reg.is_general()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop over `inc [r8+rax]` up to `rsi`, between what begins and what ends each turn of the loop around it.
    fn nest(begin: &[u8], end: &[u8]) -> Routine {
        // inc qword ptr [r8+rax]; add rax,8; cmp rax,rsi; jb inner
        let inner = [0x49, 0xff, 0x04, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xf0, 0x72, 0xf3];
        let back = -i8::try_from(begin.len() + inner.len() + end.len() + 2).expect("a short jump");
        // jne begin; ret
        Routine::new(&[begin, &inner, end, &[0x75, back.cast_unsigned(), 0xc3]].concat(), 0x1000)
    }

    const XOR_EAX: [u8; 2] = [0x31, 0xc0];
    const DEC_RDX: [u8; 3] = [0x48, 0xff, 0xca];

    #[test]
    fn a_loop_around_a_loop_counts_its_passes() {
        let routine = nest(&XOR_EAX, &DEC_RDX);
        for at in [2, 6, 10, 13] {
            let passes = routine.passes(0x1000 + at).expect("two loops");
            assert_eq!((passes.block, passes.step), (1, -1));
            assert_eq!(passes.counter.address(|reg| (reg == Reg::RDX).then_some(77)), Some(77));
        }
        assert_eq!(routine.passes(0x1000), None, "not in the inner one");
    }

    #[test]
    fn passes_that_may_differ_are_not_counted() {
        // Each goes on where the one before ended.
        assert_eq!(nest(&[0x90, 0x90], &DEC_RDX).passes(0x1002), None);
        // mov rax,rdx: each begins elsewhere.
        assert_eq!(nest(&[0x48, 0x89, 0xd0], &DEC_RDX).passes(0x1003), None);
        // inc rsi: each is longer than the one before.
        assert_eq!(nest(&XOR_EAX, &[&[0x48, 0xff, 0xc6][..], &DEC_RDX].concat()).passes(0x1002), None);
        // mov rsi,[rdi]: as long as what nobody changes says; mov rsi,[rdi+rdx]: as what another place says.
        assert!(nest(&[&XOR_EAX[..], &[0x48, 0x8b, 0x37]].concat(), &DEC_RDX).passes(0x1005).is_some());
        assert_eq!(nest(&[&XOR_EAX[..], &[0x48, 0x8b, 0x34, 0x17]].concat(), &DEC_RDX).passes(0x1006), None);
        // mov rdx,[rdi]; test rdx,rdx: counted by nothing.
        assert_eq!(nest(&XOR_EAX, &[0x48, 0x8b, 0x17, 0x48, 0x85, 0xd2]).passes(0x1002), None);
    }

    #[test]
    fn a_loop_on_the_way_counts_nothing() {
        // dec rdx; jne to itself; test rbx,rbx: how often it turned, nobody knows.
        let beside = [0x48, 0xff, 0xca, 0x75, 0xfb, 0x48, 0x85, 0xdb];
        assert_eq!(nest(&XOR_EAX, &beside).passes(0x1002), None);
    }
}
