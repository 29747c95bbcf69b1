//! A kernel that answers as it is told, for tests of everything above the system call.

use std::{
    collections::HashMap,
    io::Read,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    sync::{Mutex, MutexGuard, PoisonError},
};

use perf_event_open_sys::bindings::perf_event_mmap_page as Page;

use crate::{Errno, Event, Kernel, Mapping, Reading, Target};

/// What the code under test asked to open.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The event.
    pub event: &'a Event,
    /// Whom it should measure.
    pub target: Target,
    /// Members the group already has, its leader included; 0 for an event on its own.
    pub group: usize,
}

/// How an opened event behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What it reads once it was started.
    pub reading: Reading,
    /// What mapping it gives.
    pub map: Result<(Page, Vec<u8>), Errno>,
}

impl Behaviour {
    /// Counts `value`, all the time.
    pub fn counts(value: u64) -> Self {
        Self {
            reading: Reading { value, enabled_ns: 1_000, running_ns: 1_000 },
            map: Ok((Page::default(), Vec::new())),
        }
    }

    /// Opens, and never gets a counter.
    pub fn never_runs() -> Self {
        let reading = Reading { value: 0, enabled_ns: 1_000, running_ns: 0 };
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

type Script = dyn Fn(Request<'_>) -> Result<Behaviour, Errno> + Send + Sync;

/// A kernel whose every `perf_event_open` is answered by a function.
pub struct Scripted {
    script: Box<Script>,
    opened: Mutex<HashMap<RawFd, Opened>>,
}

struct Opened {
    behaviour: Behaviour,
    leader: Option<RawFd>,
    started: bool,
    /// The other end of what the caller owns: tells when it was closed.
    far_end: UnixStream,
}

impl Opened {
    fn is_open(&self) -> bool {
        !matches!((&self.far_end).read(&mut [0]), Ok(0))
    }
}

impl Scripted {
    /// Answers every open with `script`.
    ///
    /// ```
    /// use pmu::{Counter, Errno, Event, Target, scripted::Scripted};
    /// let kernel = Scripted::new(|_| Err(Errno(2)));
    /// let refused = Counter::open(&kernel, &Event::software(0), Target::ThisThread).err();
    /// assert_eq!(refused.map(|errno| errno.to_string()).as_deref(), Some("ENOENT"));
    /// ```
    pub fn new(script: impl Fn(Request<'_>) -> Result<Behaviour, Errno> + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), opened: Mutex::default() }
    }

    /// How many events are open now.
    pub fn open_events(&self) -> usize {
        self.opened().len()
    }

    /// The events that are still open: closed ones leave their group, as in the kernel.
    fn opened(&self) -> MutexGuard<'_, HashMap<RawFd, Opened>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|_, event| event.is_open());
        opened
    }

    fn with<T>(
        &self,
        fd: BorrowedFd<'_>,
        answer: impl FnOnce(&mut Opened) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.opened().get_mut(&fd.as_raw_fd()).map_or(Err(Errno(libc::EBADF)), answer)
    }
}

impl Kernel for Scripted {
    fn open(&self, event: &Event, target: Target, leader: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
        let leader = leader.map(|fd| fd.as_raw_fd());
        let group = leader.map_or(0, |leader| {
            1 + self.opened().values().filter(|event| event.leader == Some(leader)).count()
        });
        let behaviour = (self.script)(Request { event, target, group })?;
        // A real descriptor, so that it is owned and closed like a real event.
        let (near_end, far_end) = UnixStream::pair()?;
        far_end.set_nonblocking(true)?;
        let fd = OwnedFd::from(near_end);
        self.opened().insert(fd.as_raw_fd(), Opened { behaviour, leader, started: !event.disabled, far_end });
        Ok(fd)
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        self.with(fd, |event| {
            event.started |= on;
            Ok(())
        })?;
        for event in self.opened().values_mut().filter(|event| group && event.leader == Some(fd.as_raw_fd()))
        {
            event.started |= on;
        }
        Ok(())
    }

    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        self.with(fd, |event| {
            let reading = if event.started { event.behaviour.reading } else { Reading::default() };
            let words = [reading.value, reading.enabled_ns, reading.running_ns].map(u64::to_ne_bytes);
            let answer = words.as_flattened();
            let length = answer.len().min(bytes.len());
            bytes[..length].copy_from_slice(&answer[..length]);
            Ok(length)
        })
    }

    fn map(&self, fd: BorrowedFd<'_>, _data_pages: usize) -> Result<Mapping, Errno> {
        self.with(fd, |event| {
            let (page, ring) = event.behaviour.map.clone()?;
            Mapping::from_script(page, &ring)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    #[test]
    fn groups_grow_and_shrink() {
        let kernel = Scripted::new(|request| match request.group {
            0 | 1 => Ok(Behaviour::counts(5)),
            2 => Ok(Behaviour::never_runs()),
            _ => Err(Errno(libc::EINVAL)),
        });
        let event = Event::hardware(0, None);
        let leader = Counter::open(&kernel, &event, Target::ThisThread).unwrap();
        let second = leader.join(&event, Target::ThisThread).unwrap();
        assert_eq!(second.read().unwrap().counted(), None, "not started yet");
        leader.start().unwrap();
        assert_eq!(second.read().unwrap().counted(), Some(5));
        let third = leader.join(&event, Target::ThisThread).unwrap();
        leader.start().unwrap();
        assert_eq!(third.read().unwrap().counted(), None);
        assert_eq!(leader.join(&event, Target::ThisThread).err(), Some(Errno(libc::EINVAL)));
        drop(third);
        assert!(leader.join(&event, Target::ThisThread).is_ok(), "the third left the group");
        drop((leader, second));
        assert_eq!(kernel.open_events(), 0);
    }
}
