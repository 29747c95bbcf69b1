//! Context switches turned into how each thread spent each slice of wall time.

use std::collections::BTreeMap;

use record::{ids::ThreadId, run::Slice};

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// On a CPU.
    Running,
    /// Waiting for something.
    Blocked,
    /// Ready, but another runs.
    Preempted,
}

/// One thread's time, between its beginning and its end.
#[derive(Clone, Copy, Debug)]
struct ThreadLife {
    doing: Doing,
    /// Accounted for up to here.
    until_ns: u64,
    current: Slice,
}

/// Sums up what threads do, slice by slice.
#[derive(Debug)]
pub(super) struct ThreadSlices {
    slice_ns: u64,
    /// By thread, those that live.
    lives: BTreeMap<u32, ThreadLife>,
    /// What all of them ran so far.
    running_ns: u64,
}

impl ThreadSlices {
    pub fn new(slice_ns: u64) -> Self {
        Self { slice_ns: slice_ns.max(1), lives: BTreeMap::new(), running_ns: 0 }
    }

    /// A thread begins.
    pub fn begin(&mut self, thread: u32, doing: Doing, at_ns: u64) {
        let slice = u32::try_from(at_ns / self.slice_ns).unwrap_or(u32::MAX);
        let current = Slice { thread: ThreadId(thread), slice, ..Slice::default() };
        self.lives.insert(thread, ThreadLife { doing, until_ns: at_ns, current });
    }

    /// A thread does something else from now on. Finished slices go to `done`.
    pub fn change(&mut self, thread: u32, doing: Doing, at_ns: u64, done: impl FnMut(Slice)) {
        if let Some(life) = self.lives.get_mut(&thread) {
            self.running_ns += life.account(self.slice_ns, at_ns, done);
            life.doing = doing;
        }
    }

    /// What all threads ran, up to their last change.
    pub fn running_ns(&self) -> u64 {
        self.running_ns
    }

    /// A thread ends.
    pub fn end(&mut self, thread: u32, at_ns: u64, mut done: impl FnMut(Slice)) {
        if let Some(mut life) = self.lives.remove(&thread) {
            self.running_ns += life.account(self.slice_ns, at_ns, &mut done);
            emit(&life.current, &mut done);
        }
    }

    /// Accounts for everything up to a moment, so that threads that sleep for long do not pile up slices.
    pub fn advance(&mut self, at_ns: u64, mut done: impl FnMut(Slice)) {
        let lives = self.lives.values_mut();
        self.running_ns += lives.map(|life| life.account(self.slice_ns, at_ns, &mut done)).sum::<u64>();
    }
}

impl ThreadLife {
    /// Gives how much of the time it ran.
    fn account(&mut self, slice_ns: u64, at_ns: u64, mut done: impl FnMut(Slice)) -> u64 {
        let mut running_ns = 0;
        // Records of different CPUs may be a little out of order: time never runs backwards.
        while self.until_ns < at_ns {
            let current = &mut self.current;
            let end_of_slice = (u64::from(current.slice) + 1).saturating_mul(slice_ns);
            let end = end_of_slice.min(at_ns);
            let spent = end - self.until_ns;
            match self.doing {
                Doing::Running => {
                    current.running_ns += spent;
                    running_ns += spent;
                }
                Doing::Blocked => current.blocked_ns += spent,
                Doing::Preempted => current.preempted_ns += spent,
            }
            self.until_ns = end;
            if end == end_of_slice {
                emit(current, &mut done);
                *current = Slice {
                    thread: current.thread,
                    slice: current.slice.saturating_add(1),
                    ..Slice::default()
                };
            }
        }
        running_ns
    }
}

fn emit(slice: &Slice, done: &mut impl FnMut(Slice)) {
    if slice.running_ns + slice.blocked_ns + slice.preempted_ns > 0 {
        done(*slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_is_split_at_the_ends_of_slices() {
        let mut slices = ThreadSlices::new(100);
        let mut done = Vec::new();
        slices.begin(0, Doing::Running, 50);
        slices.change(0, Doing::Blocked, 70, |slice| done.push(slice));
        slices.change(0, Doing::Preempted, 230, |slice| done.push(slice));
        slices.end(0, 240, |slice| done.push(slice));
        slices.change(0, Doing::Running, 300, |slice| done.push(slice));
        slices.advance(900, |slice| done.push(slice));
        let expected = [
            Slice { thread: ThreadId(0), slice: 0, running_ns: 20, blocked_ns: 30, preempted_ns: 0 },
            Slice { thread: ThreadId(0), slice: 1, running_ns: 0, blocked_ns: 100, preempted_ns: 0 },
            Slice { thread: ThreadId(0), slice: 2, running_ns: 0, blocked_ns: 30, preempted_ns: 10 },
        ];
        assert_eq!(done, expected);
    }

    proptest! {
        /// Whatever the order of records, no time is lost or counted twice, and no slice is overfull.
        #[test]
        fn every_nanosecond_is_somewhere(changes in prop::collection::vec((0u64..5000, 0u8..3), 0..40)) {
            let mut slices = ThreadSlices::new(100);
            let mut done = Vec::new();
            slices.begin(0, Doing::Running, 30);
            let mut last = 30;
            for (at, doing) in changes {
                let doing = [Doing::Running, Doing::Blocked, Doing::Preempted][usize::from(doing)];
                slices.change(0, doing, at, |slice| done.push(slice));
                last = last.max(at);
            }
            slices.end(0, last, |slice| done.push(slice));
            let sum = |slice: &Slice| slice.running_ns + slice.blocked_ns + slice.preempted_ns;
            prop_assert_eq!(done.iter().map(sum).sum::<u64>(), last - 30);
            prop_assert!(done.iter().all(|slice| sum(slice) <= 100));
            prop_assert!(done.is_sorted_by_key(|slice| slice.slice));
        }
    }
}
