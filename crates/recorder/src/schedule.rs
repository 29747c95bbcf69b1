//! What threads do, as procfs tells it: the state of those that are there when we attach, and where perf_event is
//! refused all there is to see.

use std::{collections::BTreeMap, fs};

use record::{ids::ThreadId, run::Slice};

use super::{procfs, slices::Doing};

/// The threads of a process with their names and what they do.
pub(super) fn threads(pid: i32) -> std::io::Result<Vec<(i32, String, Doing)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default().trim_end().to_owned();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        all.push((tid, name, doing(&stat)));
    }
    all.sort_unstable_by_key(|(tid, ..)| *tid);
    Ok(all)
}

fn doing(stat: &str) -> Doing {
    match procfs::state(stat) {
        Some('R') => Doing::Running,
        _ => Doing::Blocked,
    }
}

/// Time on a CPU and time ready to run, in nanoseconds.
fn schedstat(pid: i32, tid: i32) -> Option<(u64, u64)> {
    procfs::schedstat(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)
}

/// The children that a process started and that still live.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| procfs::children(&list).collect::<Vec<_>>()).collect()
}

/// Watches threads by asking again and again.
#[derive(Debug, Default)]
pub(super) struct ScheduleWatch {
    /// By thread number, what it had when last asked.
    known: BTreeMap<i32, SeenThread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenThread {
    index: u32,
    at_ns: u64,
    running_ns: u64,
    ready_ns: u64,
}

impl ScheduleWatch {
    /// Asks for a thread; `index` is its index in the recording. Gives what it did since it was last asked for, as a
    /// part of the slice that ends now.
    pub fn ask(&mut self, pid: i32, tid: i32, index: u32, at_ns: u64, slice_ns: u64) -> Option<Slice> {
        let (running_ns, ready_ns) = schedstat(pid, tid)?;
        let now = SeenThread { index, at_ns, running_ns, ready_ns };
        // A number may be used again.
        let before = self.known.insert(tid, now).filter(|before| before.index == index)?;
        Some(between(index, before, now, slice_ns))
    }

    /// Forgets threads that are gone.
    pub fn keep(&mut self, is_alive: impl Fn(i32) -> bool) {
        self.known.retain(|tid, _| is_alive(*tid));
    }
}

fn between(thread: u32, before: SeenThread, now: SeenThread, slice_ns: u64) -> Slice {
    let wall_ns = now.at_ns.saturating_sub(before.at_ns);
    let running_ns = now.running_ns.saturating_sub(before.running_ns).min(wall_ns);
    let preempted_ns = now.ready_ns.saturating_sub(before.ready_ns).min(wall_ns - running_ns);
    let slice = u32::try_from(before.at_ns / slice_ns.max(1)).unwrap_or(u32::MAX);
    let blocked_ns = wall_ns - running_ns - preempted_ns;
    Slice { thread: ThreadId(thread), slice, running_ns, preempted_ns, blocked_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_wall_time() {
        let before = SeenThread { index: 3, at_ns: 210, running_ns: 50, ready_ns: 7 };
        let now = |at_ns, ready_ns| SeenThread { index: 3, at_ns, running_ns: 90, ready_ns };
        let slice = between(3, before, now(310, 17), 100);
        let expected =
            Slice { thread: ThreadId(3), slice: 2, running_ns: 40, preempted_ns: 10, blocked_ns: 50 };
        assert_eq!(slice, expected);
        // Counters of the kernel may be ahead of our clock.
        let slice = between(3, before, now(220, 90), 100);
        assert_eq!((slice.running_ns, slice.preempted_ns, slice.blocked_ns), (10, 0, 0));
    }

    #[test]
    fn this_process_has_threads() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(threads(own).unwrap().iter().any(|(tid, ..)| *tid == own));
        assert!(threads(i32::MAX).is_err());
    }
}
