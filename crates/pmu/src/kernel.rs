//! The line below which a test may put its own kernel.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use crate::{Errno, EventTarget, KernelEvent, Mapping};

/// What perf_event needs from a kernel.
pub trait LinuxKernel: Sync {
    /// `perf_event_open`. `leader` is the first event of the group to join.
    fn open(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno>;

    /// `perf_event_open` for everything that a control group, given by its open directory, runs on one CPU.
    fn open_in_cgroup(
        &self,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno>;

    /// Starts or stops an event, or with `group` the whole group it leads.
    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno>;

    /// Reads what an event has to say; gives the number of bytes.
    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// Maps the event's control page and a ring of `data_pages` (a power of two, or none) behind it.
    fn map(&self, fd: BorrowedFd<'_>, data_pages: usize) -> Result<Mapping, Errno>;

    /// Lets an event write into the ring of another one on the same CPU.
    fn redirect(&self, fd: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Changes the period of a sampling event, not that of events inherited from it earlier.
    fn set_period(&self, fd: BorrowedFd<'_>, period: u64) -> Result<(), Errno>;

    /// Sleeps until a ring wants to be read, or the time is over. Gives how each descriptor stands.
    fn wait(&self, rings: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<RingState>, Errno>;
}

/// What [`LinuxKernel::wait`] found out about a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingState {
    /// Less in it than its watermark.
    Quiet,
    /// Enough in it to be read.
    Ready,
    /// What the event measured is gone: nothing more will come.
    Over,
}

/// An event's value with the times that say whether it means anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// What was counted.
    pub value: u64,
    /// Nanoseconds the event was switched on.
    pub enabled_ns: u64,
    /// Nanoseconds it had a counter. 0: it was never counted, whatever `value` says.
    pub running_ns: u64,
}

impl CounterReading {
    /// What the kernel wrote for one event; `None` if it is not all there.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map(|word| u64::from_ne_bytes(*word));
        Some(Self { value: word(0)?, enabled_ns: word(1)?, running_ns: word(2)? })
    }

    /// What the kernel wrote for a group of `members`; `None` if it is another number or not all there.
    pub fn parse_group(bytes: &[u8], members: usize) -> Option<Vec<Self>> {
        let words = bytes.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map(|word| u64::from_ne_bytes(*word));
        if word(0)? != members as u64 {
            return None;
        }
        let (enabled_ns, running_ns) = (word(1)?, word(2)?);
        let values = words.get(GROUP_HEAD..GROUP_HEAD + members)?;
        let reading = |value: &[u8; 8]| Self { value: u64::from_ne_bytes(*value), enabled_ns, running_ns };
        Some(values.iter().map(reading).collect())
    }

    /// The value, unless the event never had a counter.
    pub fn counted(&self) -> Option<u64> {
        (self.running_ns > 0).then_some(self.value)
    }
}

/// Words before the values of a group: how many, time enabled, time running.
const GROUP_HEAD: usize = 3;

/// One open event; closed when dropped.
pub struct OpenCounter<'k> {
    kernel: &'k dyn LinuxKernel,
    fd: OwnedFd,
}

impl<'k> OpenCounter<'k> {
    /// Opens `event` on its own.
    pub fn open(
        kernel: &'k dyn LinuxKernel,
        event: &KernelEvent,
        target: EventTarget,
    ) -> Result<Self, Errno> {
        kernel.open(event, target, None).map(|fd| Self { kernel, fd })
    }

    /// Opens `event` on its own, for what a control group runs on one CPU.
    pub fn open_in_cgroup(
        kernel: &'k dyn LinuxKernel,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
    ) -> Result<Self, Errno> {
        kernel.open_in_cgroup(event, cgroup, cpu, None).map(|fd| Self { kernel, fd })
    }

    /// Opens `event` in the group that `self` leads, for the same control group on the same CPU.
    pub fn join_in_cgroup(
        &self,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
    ) -> Result<Self, Errno> {
        let fd = self.kernel.open_in_cgroup(event, cgroup, cpu, Some(self.fd.as_fd()))?;
        Ok(Self { kernel: self.kernel, fd })
    }

    /// Opens `event` in the group that `self` leads: they count together or not at all.
    pub fn join(&self, event: &KernelEvent, target: EventTarget) -> Result<Self, Errno> {
        let fd = self.kernel.open(event, target, Some(self.fd.as_fd()))?;
        Ok(Self { kernel: self.kernel, fd })
    }

    /// Starts the event and those that joined it.
    pub fn start(&self) -> Result<(), Errno> {
        self.kernel.switch(self.fd.as_fd(), true, true)
    }

    /// Stops the event and those that joined it.
    pub fn stop(&self) -> Result<(), Errno> {
        self.kernel.switch(self.fd.as_fd(), false, true)
    }

    /// The value so far. `ENODATA`: a pinned group lost its counters.
    pub fn read(&self) -> Result<CounterReading, Errno> {
        let mut bytes = [0; size_of::<CounterReading>()];
        let length = self.kernel.read(self.fd.as_fd(), &mut bytes)?;
        CounterReading::parse(&bytes[..length.min(bytes.len())]).ok_or(Errno(libc::ENODATA))
    }

    /// The values of a group of `members`, leader first; the leader must have been opened with
    /// [`KernelEvent::group_read`].
    pub fn read_group(&self, members: usize) -> Result<Vec<CounterReading>, Errno> {
        let mut bytes = vec![0; (GROUP_HEAD + members) * 8];
        let length = self.kernel.read(self.fd.as_fd(), &mut bytes)?;
        CounterReading::parse_group(&bytes[..length.min(bytes.len())], members).ok_or(Errno(libc::ENODATA))
    }

    /// The event's control page, with a ring of `data_pages` for its samples.
    pub fn map(&self, data_pages: usize) -> Result<Mapping, Errno> {
        self.kernel.map(self.fd.as_fd(), data_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_group_must_be_as_large_as_asked() {
        let group = bytes(&[2, 10, 5, 7, 8]);
        let reading = |value| CounterReading { value, enabled_ns: 10, running_ns: 5 };
        assert_eq!(CounterReading::parse_group(&group, 2), Some(vec![reading(7), reading(8)]));
        assert_eq!(CounterReading::parse_group(&group, 1), None);
        assert_eq!(CounterReading::parse_group(&group, 3), None);
        assert_eq!(CounterReading::parse_group(&group[..39], 2), None);
        assert_eq!(CounterReading::parse(&group[..23]), None);
    }

    proptest! {
        #[test]
        fn no_buffer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), members in 0usize..10) {
            let _ = CounterReading::parse(&bytes);
            let group = CounterReading::parse_group(&bytes, members);
            prop_assert!(group.is_none_or(|group| group.len() == members && bytes.len() >= (3 + members) * 8));
        }
    }
}
