//! Lines that threads share, at least one of them writing.

use std::collections::BTreeSet;

use record::{ids::ThreadId, run::Run};

use super::tally::{LINE, LineSum, ObjectTally};
use crate::{
    findings::{LineUse, ObjectSharing, SharedLine, TimeShare},
    statistics,
};

/// Fewer samples of a thread on a line are chance.
const FEWEST: u64 = 2;

/// Lines listed.
const MOST: usize = 100;

/// Lines that at least two threads touched more than by chance, with a writer among them.
pub(super) fn shared(run: &Run, tally: &ObjectTally) -> Vec<SharedLine> {
    let ranked: Vec<_> = tally.ranked().into_iter().map(|(key, _)| *key).collect();
    let all = tally.loads + tally.other;
    let mut lines: Vec<SharedLine> = Vec::new();
    for (&(_, line), sum) in &tally.lines {
        let Some(sharing) = sharing(sum) else { continue };
        let uses = sum.uses.iter().map(|(at, &samples)| LineUse {
            thread: at.thread,
            tid: run.thread(at.thread).map_or(0, |thread| thread.tid),
            offset: at.offset,
            symbol: at.symbol.unwrap_or(usize::MAX),
            writes: at.writes,
            samples,
        });
        lines.push(SharedLine {
            address: line * LINE,
            object: sum.key.and_then(|key| ranked.iter().position(|other| *other == key)),
            sharing,
            samples: sum.uses.values().sum(),
            waiting: statistics::share(sum.waiting, all).unwrap_or(TimeShare {
                value: 0.0,
                low: 0.0,
                high: 0.0,
            }),
            uses: uses.filter(|found| found.symbol != usize::MAX).collect(),
        });
    }
    lines.sort_by(|a, b| b.waiting.value.total_cmp(&a.waiting.value).then(b.samples.cmp(&a.samples)));
    lines.truncate(MOST);
    lines
}

/// How a line is shared; none if only one thread uses it, or nobody writes.
fn sharing(sum: &LineSum) -> Option<ObjectSharing> {
    let samples_of = |thread: ThreadId| -> u64 {
        sum.uses.iter().filter(|(at, _)| at.thread == thread).map(|(_, samples)| samples).sum()
    };
    let threads: BTreeSet<ThreadId> =
        sum.uses.keys().map(|at| at.thread).filter(|&thread| samples_of(thread) >= FEWEST).collect();
    let uses = || sum.uses.keys().filter(|at| threads.contains(&at.thread));
    if threads.len() < 2 || !uses().any(|at| at.writes) {
        return None;
    }
    // The same bytes, one of the two writing: they communicate.
    let meets = uses()
        .any(|a| uses().any(|b| a.thread != b.thread && a.offset == b.offset && (a.writes || b.writes)));
    Some(if meets { ObjectSharing::True } else { ObjectSharing::False })
}
