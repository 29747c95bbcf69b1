//! Hot code that relief could decide on, and what it would cost.

use std::collections::HashMap;

use machine::profile::Profile;
use record::{
    ids::{FunctionId, ModuleId, ThreadId},
    run::Run,
};

use crate::{
    findings::Verdict,
    timer::{Tally, writes_memory},
};

/// Code with a smaller share of the samples is not worth it.
const WORTH: f64 = 0.1;

/// A block that a thread spends much of its time in, which may be one of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct HotBlock {
    /// Its function.
    pub function: FunctionId,
    /// Its module.
    pub module: ModuleId,
    /// Its first address, in the module's own terms.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// The thread with most of its samples.
    pub thread: ThreadId,
    /// Its share of all samples.
    pub user_share: f64,
    /// Between which shares its waiting for memory lies, by the samples.
    pub bounds: (f64, f64),
    /// It stores.
    pub writes: bool,
    /// Nanoseconds of a turn, where addresses tell.
    pub turn_ns: Option<f64>,
}

/// The blocks where the time goes, the hottest first.
pub fn hot_blocks(run: &Run, profile: Option<&Profile>) -> Vec<HotBlock> {
    of_tally(run, &Tally::new(run, profile))
}

pub(crate) fn of_tally(run: &Run, tally: &Tally) -> Vec<HotBlock> {
    let all = run.samples.place.len() as f64;
    let threads = threads_of_blocks(run, tally);
    let mut found = Vec::new();
    for (id, at) in tally.program.blocks.iter().enumerate() {
        let samples = tally.program.samples_of(id);
        if samples < WORTH * all || samples < Verdict::FEWEST_SAMPLES as f64 {
            continue;
        }
        let (Some(block), Some(function)) = (tally.program.block(id), run.functions.get(at.function)) else {
            continue;
        };
        let Some(last) = block.instructions().last() else { continue };
        let Some(&thread) = threads.get(&id) else { continue };
        found.push(HotBlock {
            function: FunctionId::of(at.function),
            module: function.module,
            start: block.address(),
            end: last.next_address(),
            thread,
            user_share: samples / all,
            bounds: tally.bounds_of(id),
            writes: block.instructions().iter().any(|instruction| writes_memory(block, instruction)),
            turn_ns: tally.streams.turn_ns(id),
        });
    }
    found.sort_by(|a, b| b.user_share.total_cmp(&a.user_share));
    found
}

/// The thread with most samples of each block.
fn threads_of_blocks(run: &Run, tally: &Tally) -> HashMap<usize, ThreadId> {
    let mut counts: HashMap<(usize, ThreadId), u64> = HashMap::new();
    for (place, thread) in run.samples.place.iter().zip(&run.samples.thread) {
        if let Some(block) = tally.program.block_of(*place) {
            *counts.entry((block, *thread)).or_insert(0) += 1;
        }
    }
    let mut most: HashMap<usize, (ThreadId, u64)> = HashMap::new();
    for ((block, thread), count) in counts {
        let best = most.entry(block).or_insert((thread, 0));
        if (count, best.0) > (best.1, thread) {
            *best = (thread, count);
        }
    }
    most.into_iter().map(|(block, (thread, _))| (block, thread)).collect()
}
