//! Lines that threads share, at least one of them writing.

use std::collections::BTreeSet;

use record::{ids::ThreadId, run::Run};

use super::tally::{At, LINE, LineSum, ObjectTally};
use crate::{
    findings::{LineUse, ObjectSharing, SharedLine, TimeShare},
    statistics,
};

/// Fewer samples of a thread on a line are chance.
const FEWEST: u64 = 2;

/// So many samples of each thread on one line are none.
const MANY: u64 = 10;

/// A line of whose samples this share waits is not where its readers are.
const FOUGHT_FOR: f64 = 0.3;

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
    let is_written = uses().any(|at| at.writes);
    // Stores seldom hold a core up and may have no sample at all. A line that nobody writes stays where it is read: two threads that
    // wait for it again and again take it from each other.
    let is_fought_for = sum.waiting >= FOUGHT_FOR * sum.uses.values().sum::<u64>() as f64
        && threads.iter().all(|&thread| samples_of(thread) >= MANY);
    if threads.len() < 2 || !(is_written || is_fought_for) {
        return None;
    }
    // The same bytes, one of the two writing: they communicate.
    let writes = |a: &At, b: &At| a.writes || b.writes || !is_written;
    let meets = uses().any(|a| uses().any(|b| a.thread != b.thread && a.offset == b.offset && writes(a, b)));
    Some(if meets { ObjectSharing::True } else { ObjectSharing::False })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(waiting: f64, offsets: [u32; 2], writes: bool) -> LineSum {
        let at = |thread: u32, offset: u32, writes: bool| At {
            thread: ThreadId(thread),
            offset,
            symbol: None,
            writes,
        };
        let mut uses = std::collections::BTreeMap::from([
            (at(0, offsets[0], false), 100),
            (at(1, offsets[1], false), 100),
        ]);
        if writes {
            uses.insert(at(0, offsets[0], true), 1);
        }
        LineSum { key: None, waiting, uses }
    }

    #[test]
    fn a_line_that_two_threads_wait_for_is_written_though_no_store_was_sampled() {
        assert_eq!(sharing(&line(0.0, [0, 8], true)), Some(ObjectSharing::False));
        assert_eq!(sharing(&line(120.0, [0, 8], false)), Some(ObjectSharing::False));
        assert_eq!(sharing(&line(120.0, [8, 8], false)), Some(ObjectSharing::True));
        // Read by both, waited for by neither.
        assert_eq!(sharing(&line(5.0, [0, 8], false)), None);
    }
}
