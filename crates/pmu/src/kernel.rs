//! The line below which a test may put its own kernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::{Errno, Event, Mapping, Target};

/// What perf_event needs from a kernel.
pub trait Kernel: Sync {
    /// `perf_event_open`. `leader` is the first event of the group to join.
    fn open(&self, event: &Event, target: Target, leader: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno>;

    /// Starts or stops an event, or with `group` the whole group it leads.
    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno>;

    /// Reads what an event has to say; gives the number of bytes.
    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// Maps the event's control page and a ring of `data_pages` (a power of two, or none) behind it.
    fn map(&self, fd: BorrowedFd<'_>, data_pages: usize) -> Result<Mapping, Errno>;
}

/// An event's value with the times that say whether it means anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What was counted.
    pub value: u64,
    /// Nanoseconds the event was switched on.
    pub enabled_ns: u64,
    /// Nanoseconds it had a counter. 0: it was never counted, whatever `value` says.
    pub running_ns: u64,
}

impl Reading {
    /// The value, unless the event never had a counter.
    pub fn counted(&self) -> Option<u64> {
        (self.running_ns > 0).then_some(self.value)
    }
}

/// One open event; closed when dropped.
pub struct Counter<'k> {
    kernel: &'k dyn Kernel,
    fd: OwnedFd,
}

impl<'k> Counter<'k> {
    /// Opens `event` on its own.
    pub fn open(kernel: &'k dyn Kernel, event: &Event, target: Target) -> Result<Self, Errno> {
        kernel.open(event, target, None).map(|fd| Self { kernel, fd })
    }

    /// Opens `event` in the group that `self` leads: they count together or not at all.
    pub fn join(&self, event: &Event, target: Target) -> Result<Self, Errno> {
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
    pub fn read(&self) -> Result<Reading, Errno> {
        let mut bytes = [0; size_of::<Reading>()];
        if self.kernel.read(self.fd.as_fd(), &mut bytes)? < bytes.len() {
            return Err(Errno(libc::ENODATA));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let [value, enabled_ns, running_ns] = [0, 1, 2].map(|index| u64::from_ne_bytes(words[index]));
        Ok(Reading { value, enabled_ns, running_ns })
    }

    /// The event's control page, with a ring of `data_pages` for its samples.
    pub fn map(&self, data_pages: usize) -> Result<Mapping, Errno> {
        self.kernel.map(self.fd.as_fd(), data_pages)
    }
}
