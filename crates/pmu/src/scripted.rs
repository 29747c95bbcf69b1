//! A kernel that answers as it is told, for tests of everything above the system call.

use std::{
    collections::HashMap,
    io::Read,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use perf_event_open_sys::bindings::perf_event_mmap_page as Page;

use crate::{CounterReading, Errno, EventTarget, KernelEvent, LinuxKernel, Mapping, kernel::RingState};

/// What the code under test asked to open.
#[derive(Clone, Copy, Debug)]
pub struct ScriptedRequest<'a> {
    /// The event.
    pub event: &'a KernelEvent,
    /// Whom it should measure.
    pub target: EventTarget,
    /// Members the group already has, its leader included; 0 for an event on its own.
    pub group: usize,
    /// It is to count only what a control group runs there.
    pub in_cgroup: bool,
}

/// How an opened event behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What it reads once it was started.
    pub reading: CounterReading,
    /// What it reads after that, once each; the last one stays.
    pub later: Vec<CounterReading>,
    /// How many bytes a read gives at most.
    pub read_bytes: usize,
    /// What starting and stopping it answers.
    pub switch: Result<(), Errno>,
    /// What mapping it gives.
    pub map: Result<(Page, Vec<u8>), Errno>,
}

impl Behaviour {
    /// Counts `value`, all the time.
    pub fn counts(value: u64) -> Self {
        Self {
            reading: CounterReading { value, enabled_ns: 1_000, running_ns: 1_000 },
            later: Vec::new(),
            read_bytes: usize::MAX,
            switch: Ok(()),
            map: Ok((Page::default(), Vec::new())),
        }
    }

    /// Opens, and never gets a counter.
    pub fn never_runs() -> Self {
        let reading = CounterReading { value: 0, enabled_ns: 1_000, running_ns: 0 };
        Self { reading, ..Self::counts(0) }
    }

    /// Leaves these bytes in its ring.
    pub fn samples(records: &[u8]) -> Self {
        let mut ring = records.to_vec();
        ring.resize(records.len().next_power_of_two().max(4096), 0);
        let page = Page { data_head: records.len() as u64, ..Default::default() };
        Self { map: Ok((page, ring)), ..Self::counts(1) }
    }
}

type Script = dyn Fn(ScriptedRequest<'_>) -> Result<Behaviour, Errno> + Send + Sync;

/// A kernel whose every `perf_event_open` is answered by a function.
pub struct Scripted {
    script: Box<Script>,
    opened: Mutex<HashMap<RawFd, ScriptedOpening>>,
    opens: AtomicUsize,
}

struct ScriptedOpening {
    behaviour: Behaviour,
    /// Its place in the order of opening: group reads give members in it.
    order: usize,
    group_read: bool,
    leader: Option<RawFd>,
    started: bool,
    /// The other end of what the caller owns: tells when it was closed.
    far_end: UnixStream,
}

impl ScriptedOpening {
    /// What it reads now; a later read may give more.
    fn next(&mut self) -> CounterReading {
        if !self.started {
            return CounterReading::default();
        }
        let now = self.behaviour.reading;
        if !self.behaviour.later.is_empty() {
            self.behaviour.reading = self.behaviour.later.remove(0);
        }
        now
    }

    fn is_open(&self) -> bool {
        !matches!((&self.far_end).read(&mut [0]), Ok(0))
    }
}

impl Scripted {
    /// Answers every open with `script`.
    ///
    /// ```
    /// use pmu::{Errno, EventTarget, KernelEvent, OpenCounter, scripted::Scripted};
    /// let kernel = Scripted::new(|_| Err(Errno(2)));
    /// let refused = OpenCounter::open(&kernel, &KernelEvent::software(0), EventTarget::ThisThread).err();
    /// assert_eq!(refused.map(|errno| errno.to_string()).as_deref(), Some("ENOENT"));
    /// ```
    pub fn new(
        script: impl Fn(ScriptedRequest<'_>) -> Result<Behaviour, Errno> + Send + Sync + 'static,
    ) -> Self {
        Self { script: Box::new(script), opened: Mutex::default(), opens: AtomicUsize::new(0) }
    }

    /// How many events are open now.
    pub fn open_events(&self) -> usize {
        self.opened().len()
    }

    /// The events that are still open: closed ones leave their group, as in the kernel.
    fn opened(&self) -> MutexGuard<'_, HashMap<RawFd, ScriptedOpening>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|_, event| event.is_open());
        opened
    }

    fn with<T>(
        &self,
        fd: BorrowedFd<'_>,
        answer: impl FnOnce(&mut ScriptedOpening) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.opened().get_mut(&fd.as_raw_fd()).map_or(Err(Errno(libc::EBADF)), answer)
    }
}

impl Scripted {
    fn answer(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
        in_cgroup: bool,
    ) -> Result<OwnedFd, Errno> {
        let leader = leader.map(|fd| fd.as_raw_fd());
        let group = leader.map_or(0, |leader| {
            1 + self.opened().values().filter(|event| event.leader == Some(leader)).count()
        });
        let behaviour = (self.script)(ScriptedRequest { event, target, group, in_cgroup })?;
        // A real descriptor, so that it is owned and closed like a real event.
        let (near_end, far_end) = UnixStream::pair()?;
        far_end.set_nonblocking(true)?;
        let fd = OwnedFd::from(near_end);
        let order = self.opens.fetch_add(1, Ordering::Relaxed);
        // Nothing runs that could call `exec`, so that moment is taken to be now.
        let started = !event.disabled || event.enable_on_exec;
        let group_read = event.group_read;
        let opened = ScriptedOpening { behaviour, order, group_read, leader, started, far_end };
        self.opened().insert(fd.as_raw_fd(), opened);
        Ok(fd)
    }

    /// What reading the whole group of `leader` gives: how many, the times, then the values.
    fn group(&self, leader: RawFd) -> Vec<u64> {
        let mut opened = self.opened();
        let mut members: Vec<_> = opened
            .iter_mut()
            .filter(|(fd, event)| **fd == leader || event.leader == Some(leader))
            .map(|(_, event)| event)
            .collect();
        members.sort_by_key(|event| event.order);
        let readings: Vec<_> = members.into_iter().map(ScriptedOpening::next).collect();
        let times = readings.first().copied().unwrap_or_default();
        let head = [readings.len() as u64, times.enabled_ns, times.running_ns];
        head.into_iter().chain(readings.iter().map(|reading| reading.value)).collect()
    }
}

impl LinuxKernel for Scripted {
    fn open(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        self.answer(event, target, leader, false)
    }

    fn open_in_cgroup(
        &self,
        event: &KernelEvent,
        _cgroup: BorrowedFd<'_>,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        self.answer(event, EventTarget::Cpu(cpu), leader, true)
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        self.with(fd, |event| {
            event.started |= on;
            event.behaviour.switch
        })?;
        for event in self.opened().values_mut().filter(|event| group && event.leader == Some(fd.as_raw_fd()))
        {
            event.started |= on;
        }
        Ok(())
    }

    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        let (whole_group, most) =
            self.with(fd, |event| Ok((event.group_read, event.behaviour.read_bytes)))?;
        let words = if whole_group {
            self.group(fd.as_raw_fd())
        } else {
            let reading = self.with(fd, |event| Ok(event.next()))?;
            vec![reading.value, reading.enabled_ns, reading.running_ns]
        };
        let answer: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        if answer.len() > bytes.len() {
            // The kernel gives a whole reading or none.
            return Err(Errno(libc::ENOSPC));
        }
        let length = answer.len().min(most);
        bytes[..length].copy_from_slice(&answer[..length]);
        Ok(length)
    }

    fn map(&self, fd: BorrowedFd<'_>, _data_pages: usize) -> Result<Mapping, Errno> {
        self.with(fd, |event| {
            let (page, ring) = event.behaviour.map.clone()?;
            Mapping::from_script(page, &ring)
        })
    }

    fn redirect(&self, fd: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.with(to, |_| Ok(()))?;
        self.with(fd, |_| Ok(()))
    }

    fn set_period(&self, fd: BorrowedFd<'_>, period: u64) -> Result<(), Errno> {
        self.with(fd, |_| if period == 0 { Err(Errno(libc::EINVAL)) } else { Ok(()) })
    }

    /// Everything is in the rings already, and nothing more will come.
    fn wait(&self, rings: &[BorrowedFd<'_>], _timeout: Duration) -> Result<Vec<RingState>, Errno> {
        Ok(vec![RingState::Over; rings.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenCounter;

    #[test]
    fn groups_grow_and_shrink() {
        let kernel = Scripted::new(|request| match request.group {
            0 | 1 => Ok(Behaviour::counts(5)),
            2 => Ok(Behaviour::never_runs()),
            _ => Err(Errno(libc::EINVAL)),
        });
        let event = KernelEvent::hardware(0, None);
        let leader = OpenCounter::open(&kernel, &event, EventTarget::ThisThread).unwrap();
        let second = leader.join(&event, EventTarget::ThisThread).unwrap();
        assert_eq!(second.read().unwrap().counted(), None, "not started yet");
        leader.start().unwrap();
        assert_eq!(second.read().unwrap().counted(), Some(5));
        let third = leader.join(&event, EventTarget::ThisThread).unwrap();
        leader.start().unwrap();
        assert_eq!(third.read().unwrap().counted(), None);
        assert_eq!(leader.join(&event, EventTarget::ThisThread).err(), Some(Errno(libc::EINVAL)));
        drop(third);
        assert!(leader.join(&event, EventTarget::ThisThread).is_ok(), "the third left the group");
        drop((leader, second));
        assert_eq!(kernel.open_events(), 0);
    }
}
