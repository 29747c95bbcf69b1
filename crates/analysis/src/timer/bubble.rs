//! The bubble behind a wrongly guessed branch, seen on both of its sides.
//!
//! While a core fetches the right path it has nothing to retire: samples lie behind the first instruction of that path.
//! Before that, the core waited for what decides the branch: the compare before it, whose operands begin to be computed
//! only once the wrong path of the branch before is gone. That excess is of the same cause where the paths behind show
//! the bubble, and executing where they do not.

use code::{Block, Flow};

use super::{blame::SampleMeaning, program::DecodedProgram};
use crate::findings::ThreadActivity;

/// Gives the excess of compares before branches to branches where the paths behind them show the bubble.
/// `baselines` are those of the blocks.
pub(crate) fn find(program: &DecodedProgram, baselines: &[f64], meanings: &mut [SampleMeaning]) {
    for (id, baseline) in baselines.iter().enumerate() {
        let Some(site) = compare_site(program, id) else { continue };
        let excess = meanings[site].executing - baseline;
        if meanings[site].activity != ThreadActivity::Executing || excess <= 2.0 * baseline.sqrt() {
            continue;
        }
        let behind: f64 = program
            .next_blocks(id)
            .into_iter()
            .map(|next| &meanings[program.blocks[next].first_site])
            .filter(|first| first.activity == ThreadActivity::Branches)
            .map(|first| first.waiting)
            .sum();
        // Deciding takes as long as some more instructions, not many times as long as the bubble.
        if behind * 4.0 >= excess {
            let meaning = &mut meanings[site];
            meaning.activity = ThreadActivity::Branches;
            meaning.waiting = excess;
            meaning.executing -= excess;
        }
    }
}

/// The instruction before a block's conditional branch: what decides it.
fn compare_site(program: &DecodedProgram, id: usize) -> Option<usize> {
    Some(program.blocks[id].first_site + compare_index(program.block(id)?)?)
}

/// The same as its index in the block.
pub(crate) fn compare_index(block: &Block) -> Option<usize> {
    block.instructions().len().checked_sub(2).filter(|_| block.flow() == Flow::Conditional)
}
