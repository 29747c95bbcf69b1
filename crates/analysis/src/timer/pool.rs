//! Blocks with few samples, looked at together.
//!
//! One sample behind a load says nothing: a core that never waits leaves some there too. In a program without hot loops
//! most samples lie in such blocks. So all of them together give the rate at which an instruction that cannot wait is
//! sampled, and the rate of loads, stores and the rest; what is beyond the first is the part that waits.

use super::{blame::HIT, facts::wait_of, program::DecodedProgram};
use crate::findings::ThreadActivity;

/// A block with fewer samples says nothing by itself.
pub(crate) const THIN: f64 = 16.0;

/// Samples and instructions of thin blocks.
#[derive(Clone, Copy, Debug, Default)]
struct PoolSum {
    samples: f64,
    instructions: f64,
}

impl PoolSum {
    fn rate(&self) -> Option<f64> {
        (self.instructions > 0.0).then(|| self.samples / self.instructions)
    }
}

/// All thin blocks of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct SamplePool {
    by_activity: [PoolSum; ThreadActivity::ALL.len()],
}

impl SamplePool {
    pub fn new(program: &DecodedProgram) -> Self {
        let mut pool = Self::default();
        for id in 0..program.blocks.len() {
            let Some(block) = program.block(id).filter(|_| is_thin(program, id)) else { continue };
            for (site, instruction) in program.sites_of(id).iter().zip(block.instructions()) {
                // The first one also stands for whoever jumped there.
                if site.index > 0 {
                    let sum = &mut pool.by_activity[wait_of(block, instruction) as usize];
                    sum.samples += site.samples;
                    sum.instructions += 1.0;
                }
            }
        }
        pool
    }

    /// Of the samples behind instructions of a kind in thin blocks, the part that is beyond executing.
    pub fn waiting_part(&self, activity: ThreadActivity) -> f64 {
        let rate = |activity: ThreadActivity| self.by_activity[activity as usize].rate();
        let (Some(idle), Some(own)) = (rate(ThreadActivity::Executing), rate(activity)) else { return 0.0 };
        let usual = match activity {
            ThreadActivity::Loads | ThreadActivity::Stores => idle * HIT,
            _ => idle,
        };
        if own > usual { 1.0 - usual / own } else { 0.0 }
    }
}

/// Whether a block has too few samples to be judged by itself.
pub(crate) fn is_thin(program: &DecodedProgram, block: usize) -> bool {
    program.samples_of(block) < THIN
}
