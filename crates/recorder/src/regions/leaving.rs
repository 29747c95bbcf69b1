//! Threads that ended, and what they have to say. Whoever has the number of one next is somebody else.

use std::collections::HashMap;

use record::{
    ids::ThreadId,
    regions::{RegionId, RegionVisits},
};

use super::{MarkedMoment, MarkedThread, RegionTally, ThreadRegions};

/// A thread that ended, or executes another program.
#[derive(Debug)]
pub(super) struct LeavingThread {
    pub tid: i32,
    pub ended_ns: u64,
    pub regions: ThreadRegions,
}

/// How long it is waited for the last marks of a thread.
const LONGEST_LAG_NS: u64 = 1_000_000_000;

impl RegionTally {
    /// A thread ended, which had this number in the recording: its marks may still be to come. Whoever has its number next begins
    /// anew, and so does the program that a process executes.
    pub fn ended(&mut self, at: MarkedMoment, thread: ThreadId) {
        let MarkedMoment { tid, time_ns: ended_ns } = at;
        let mut regions = self.threads.remove(&tid).unwrap_or_default();
        regions.index = Some(thread.0);
        let (before, after) = regions.waiting.into_iter().partition(|(time_ns, _)| *time_ns <= ended_ns);
        regions.waiting = before;
        if !after.is_empty() {
            self.threads.entry(tid).or_default().waiting = after;
        }
        self.leaving.entry(tid).or_default().push(LeavingThread { tid, ended_ns, regions });
    }

    /// Whoever had this number at that time.
    pub(super) fn thread_at(&mut self, at: MarkedMoment) -> &mut ThreadRegions {
        let mut earlier = self.leaving.get_mut(&at.tid).into_iter().flatten();
        match earlier.find(|leaving| at.time_ns <= leaving.ended_ns) {
            Some(leaving) => &mut leaving.regions,
            None => self.threads.entry(at.tid).or_default(),
        }
    }

    /// Those whose last marks were read by this moment.
    pub(super) fn forget(&mut self, until_ns: u64) {
        let is_gone =
            |leaving: &mut LeavingThread| leaving.ended_ns.saturating_add(LONGEST_LAG_NS) <= until_ns;
        let mut gone = Vec::new();
        self.leaving.retain(|_, of_number| {
            gone.extend(of_number.extract_if(.., is_gone));
            !of_number.is_empty()
        });
        gone.into_iter().for_each(|leaving| self.tell(leaving));
    }

    /// What a thread has to say that is gone. Regions that are open end with it.
    fn tell(&mut self, LeavingThread { tid, ended_ns, regions: mut thread }: LeavingThread) {
        let mut unended: HashMap<RegionId, u64> = HashMap::new();
        for open in std::mem::take(&mut thread.open) {
            *unended.entry(open.region).or_default() += 1;
            thread.visits.entry(open.region).or_default().wall_ns += ended_ns.saturating_sub(open.began_ns);
        }
        let mut visited = thread.visits.into_iter().filter(|(_, visits)| visits.counted > 0).peekable();
        let Some(index) = thread.index.map(ThreadId) else {
            self.strange += u64::from(visited.peek().is_some());
            return;
        };
        for (region, visits) in visited {
            let of_thread = RegionVisits {
                region,
                thread: index,
                visits: visits.counted,
                unended: unended.get(&region).copied().unwrap_or(0),
                wall_ns: visits.wall_ns,
                waits_ns: visits.waits_ns,
                counts: visits.counts,
            };
            let all = self.ended.entry((region, index));
            all.and_modify(|before| *before = together(before, &of_thread)).or_insert(of_thread);
            let tid = tid.unsigned_abs();
            let marked = MarkedThread { tid, visits: visits.counted, counted: visits.events };
            self.marked.entry(region.0).or_default().push(marked);
        }
    }
}

/// What one thread did in a region before and after it executed another program.
fn together(before: &RegionVisits, after: &RegionVisits) -> RegionVisits {
    RegionVisits {
        visits: before.visits + after.visits,
        unended: before.unended + after.unended,
        wall_ns: before.wall_ns + after.wall_ns,
        waits_ns: match (before.waits_ns, after.waits_ns) {
            (Some(before), Some(after)) => Some(before + after),
            (before, after) => before.or(after),
        },
        counts: match (before.counts, after.counts) {
            (Some(before), Some(after)) => Some(before.and(&after)),
            (before, after) => before.or(after),
        },
        ..*before
    }
}
