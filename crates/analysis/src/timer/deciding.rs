//! What decides a branch: a branch that waits for a chain of results leaves its samples where one that was guessed wrongly does.

use code::{Block, Flow, Reg, UopClass};

use super::{facts::latency, program::DecodedProgram};

/// Results that take so long may be what a branch is seen to wait for: half of what a wrong guess costs on cores of today.
const LONG_CYCLES: f64 = 8.0;

/// A register that takes so long from turn to turn holds the loop up.
const CARRIED_CYCLES: f64 = 3.0;

/// Blocks of a loop that is looked for around a branch, at most.
const MOST_BLOCKS: usize = 3;

/// What samples behind a branch are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BehindBranch {
    /// Of the branch: what decides it is there at once, or the core has to guess.
    Branch,
    /// Of the chain of results that decides it: it nearly always goes the same way.
    Chain,
    /// Of either: it goes both ways, and the loop waits for what decides it from turn to turn anyway.
    Either,
}

impl BehindBranch {
    /// Of the conditional branch that ends a block.
    pub(crate) fn of(program: &DecodedProgram, id: usize) -> Self {
        let Some(decision) = program.block(id).and_then(Decision::of) else { return Self::Branch };
        match (decision.cycles >= LONG_CYCLES, program.goes_both_ways(id)) {
            (false, _) => Self::Branch,
            (true, false) => Self::Chain,
            (true, true) if is_carried(program, id, &decision) => Self::Either,
            (true, true) => Self::Branch,
        }
    }

    /// Of whatever leads to a block.
    pub(crate) fn before(program: &DecodedProgram, id: usize) -> Self {
        let leads = program.blocks_before(id);
        let mut found = leads.iter().filter(|lead| program.samples_of(**lead) > 0.0);
        let found = found.try_fold(None, |all: Option<Self>, &lead| {
            let own = Self::of(program, lead);
            match (all, own) {
                (_, Self::Branch) => Err(()),
                (None | Some(Self::Chain), own) => Ok(Some(own)),
                (either, _) => Ok(either),
            }
        });
        found.ok().flatten().unwrap_or(Self::Branch)
    }
}

/// What a block's conditional branch hangs on.
struct Decision {
    /// Cycles of operations from the first instruction until it can be taken.
    cycles: f64,
    /// Registers that the block finds when it begins and that it needs for it.
    needs: [bool; Reg::COUNT],
}

impl Decision {
    /// None where there is no such branch, or where it waits for data: what that is like, samples on the load tell.
    fn of(block: &Block) -> Option<Self> {
        let branch = block.uops().iter().rposition(|uop| uop.class() == UopClass::Branch)?;
        if block.flow() != Flow::Conditional {
            return None;
        }
        let mut needs = [false; Reg::COUNT];
        block.uops()[branch].sources().iter().for_each(|reg| needs[reg.index()] = true);
        for uop in block.uops()[..branch].iter().rev() {
            if !uop.destinations().iter().any(|reg| needs[reg.index()]) {
                continue;
            }
            if uop.class() == UopClass::Load && uop.sources().iter().any(|reg| *reg != Reg::RSP) {
                return None;
            }
            uop.destinations().iter().for_each(|reg| needs[reg.index()] = false);
            uop.sources().iter().for_each(|reg| needs[reg.index()] = true);
        }
        let mut ready = [0.0; Reg::COUNT];
        run_through(&mut ready, block);
        let sources = block.uops()[branch].sources().iter();
        let cycles = sources.map(|reg| ready[reg.index()]).fold(0.0, f64::max);
        Some(Self { cycles, needs })
    }
}

/// When results are there at the end of a block, if they were at its beginning as in `ready`.
fn run_through(ready: &mut [f64; Reg::COUNT], block: &Block) {
    for uop in block.uops() {
        let start = uop.sources().iter().map(|reg| ready[reg.index()]).fold(0.0, f64::max);
        uop.destinations().iter().for_each(|reg| ready[reg.index()] = start + latency(uop.class()));
    }
}

/// Whether a loop around the block makes what the branch needs anew in each turn, out of what it was, and takes long to.
fn is_carried(program: &DecodedProgram, id: usize, decision: &Decision) -> bool {
    let mut ways = vec![vec![id]];
    while let Some(way) = ways.pop() {
        let last = way[way.len() - 1];
        for next in program.next_blocks(last) {
            if next == id {
                let mut ready = [0.0; Reg::COUNT];
                let blocks = way.iter().filter_map(|block| program.block(*block));
                blocks.for_each(|block| run_through(&mut ready, block));
                if (0..Reg::COUNT).any(|reg| decision.needs[reg] && ready[reg] >= CARRIED_CYCLES) {
                    return true;
                }
            } else if way.len() < MOST_BLOCKS && !way.contains(&next) {
                ways.push(way.iter().copied().chain([next]).collect());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests;
