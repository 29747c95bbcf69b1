//! The memory file that programs inherit.

use std::{
    ffi::OsString,
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd},
    sync::atomic::Ordering::Relaxed,
};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, Mode, SealFlags, SeekFrom},
    io::FdFlags,
    process::Resource,
};

use crate::{
    ring::{self, NoteRing, REGION_BYTES},
    shared::SharedWords,
};

/// Bytes before the first region: whole pages on every machine.
const HEAD_BYTES: u64 = 1 << 16;

/// Programs that may be executed in one recording, each with a region. Room costs nothing until it is written to.
const REGIONS: u64 = 1 << 16;

/// The same where the kernel hands out no memory that it may not have: there it is reserved, since a page that cannot be
/// had would end the program.
const RESERVED_REGIONS: u64 = 64;

/// Words of the head, and which is which.
const HEAD: usize = ASKED + MOST_EVENTS * EVENT_WORDS;
const TURNED_AWAY: usize = 0;
const LIMITED: usize = 1;
const UNMAPPABLE: usize = 2;
const CLOCK: usize = 3;
const EVENTS: usize = 4;
const ASKED: usize = 5;

/// Events that can be counted at marks, and the words that say how each is opened: whom it follows, and the kernel's form.
const MOST_EVENTS: usize = 32;
const EVENT_WORDS: usize = 24;

/// An event that threads count at their marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedEvent {
    /// The one that leads its group, among those before it; none if it leads or is alone.
    pub leader: Option<usize>,
    /// The kernel's form of it (`perf_event_attr`), which says its own size.
    pub attr: Vec<u8>,
}

/// What threads read at their marks, beside page faults and context switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAtMarks {
    /// Their processor time.
    pub clock: bool,
    /// Events, by number.
    pub events: Vec<MarkedEvent>,
}

/// Programs that wrote nothing down, by their own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    /// There was no region left.
    pub turned_away: u64,
    /// Their address space is limited: what a region takes they may need.
    pub limited: u64,
    /// The region could not be mapped.
    pub unmappable: u64,
}

/// A file in memory that programs write notes to.
#[derive(Debug)]
pub struct NoteFile {
    file: OwnedFd,
    head: SharedWords,
    device: u64,
    inode: u64,
    regions: u64,
    is_reserved: bool,
    asks: bool,
    /// The system preloads libraries into all programs, which may watch what programs call.
    others_come_first: bool,
}

impl NoteFile {
    /// The name of the file, as the kernel reports it.
    pub const PATH: &str = "/memfd:memwall-heap (deleted)";

    /// Makes it, with a descriptor whose number is likely to be left alone.
    pub fn create() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("memwall-heap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let commits_all =
            fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "2");
        let regions = if commits_all { RESERVED_REGIONS } else { REGIONS };
        let bytes = HEAD_BYTES + regions * REGION_BYTES as u64;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(&file, bytes)?;
        if commits_all {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        }
        rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let about = rustix::fs::fstat(&file)?;
        let head = SharedWords::map(file.as_fd(), 0, HEAD * 8)?;
        // Programs claim regions by moving it on: they inherit the same one.
        rustix::fs::seek(&file, SeekFrom::Start(HEAD_BYTES))?;
        let file = rustix::io::fcntl_dupfd_cloexec(&file, number())?;
        Ok(Self {
            file,
            head,
            device: about.st_dev,
            inode: about.st_ino,
            regions,
            is_reserved: commits_all,
            asks: false,
            others_come_first: fs::exists("/etc/ld.so.preload").unwrap_or(true),
        })
    }

    /// Has programs that are started from now on read this at marks.
    pub fn ask(&mut self, wanted: &ReadAtMarks) -> io::Result<()> {
        let fits = |event: &MarkedEvent| event.attr.len() <= (EVENT_WORDS - 1) * 8;
        if wanted.events.len() > MOST_EVENTS || !wanted.events.iter().all(fits) {
            return Err(io::Error::other(format!("more than {MOST_EVENTS} events at marks")));
        }
        for (number, event) in wanted.events.iter().enumerate() {
            let at = ASKED + number * EVENT_WORDS;
            let leader = event.leader.map_or(0, |leader| leader as u64 + 1);
            self.head.word(at).store(leader, Relaxed);
            for (index, bytes) in event.attr.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                self.head.word(at + 1 + index).store(u64::from_ne_bytes(word), Relaxed);
            }
        }
        self.head.word(CLOCK).store(wanted.clock.into(), Relaxed);
        self.head.word(EVENTS).store(wanted.events.len() as u64, Relaxed);
        self.asks = wanted.clock || !wanted.events.is_empty();
        Ok(())
    }

    /// Whether programs that are started now inherit the descriptor.
    pub fn let_inherit(&self, is_inherited: bool) -> io::Result<()> {
        let flags = if is_inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
        Ok(rustix::io::fcntl_setfd(&self.file, flags)?)
    }

    /// Value of the [variable](crate::VARIABLE).
    pub fn variable(&self) -> OsString {
        const ASKS: u64 = 1;
        const OTHERS_COME_FIRST: u64 = 2;
        // Only who is told that there is something looks into the head.
        let told = u64::from(self.asks) * ASKS + u64::from(self.others_come_first) * OTHERS_COME_FIRST;
        let told = if told == 0 { String::new() } else { format!(":{told}") };
        format!("{}:{}:{}{told}", self.file.as_raw_fd(), self.device, self.inode).into()
    }

    /// Which region lies at an offset of the file.
    pub fn region_at(&self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(HEAD_BYTES)?;
        let number = behind / REGION_BYTES as u64;
        (behind.is_multiple_of(REGION_BYTES as u64) && number < self.regions).then_some(number)
    }

    /// The inode of the file.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether anything was written to a region. Looking into it would take memory for it.
    pub fn is_written(&self, region: u64) -> bool {
        let mut first = [0; ring::TOLD_BY * 8];
        let read = rustix::io::pread(&self.file, &mut first, offset(region));
        read.is_ok_and(|bytes| first[..bytes].iter().any(|byte| *byte != 0))
    }

    /// Maps a region.
    pub fn ring(&self, region: u64) -> io::Result<NoteRing> {
        NoteRing::map(self.file.as_fd(), offset(region))
    }

    /// Gives the memory of a region back that nobody writes to any more.
    pub fn release(&self, region: u64) {
        if !self.is_reserved {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it is refused the memory stays until the end.
            let _ = rustix::fs::fallocate(&self.file, hole, offset(region), REGION_BYTES as u64);
        }
    }

    /// Regions that were claimed so far.
    pub fn claimed(&self) -> u64 {
        let behind = rustix::fs::tell(&self.file).unwrap_or(HEAD_BYTES);
        (behind.saturating_sub(HEAD_BYTES) / REGION_BYTES as u64).min(self.regions)
    }

    /// Programs that wrote nothing down.
    pub fn absences(&self) -> Absences {
        let count = |index| self.head.word(index).load(Relaxed);
        Absences { turned_away: count(TURNED_AWAY), limited: count(LIMITED), unmappable: count(UNMAPPABLE) }
    }
}

fn offset(region: u64) -> u64 {
    HEAD_BYTES + region * REGION_BYTES as u64
}

/// From which number on the descriptor may be. Above what shells number themselves, below 256: a higher one would make the
/// kernel copy a longer table at each fork.
fn number() -> RawFd {
    const WANTED: u64 = 190;
    const ROOM: u64 = 8;
    let most = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    RawFd::try_from(WANTED.min(most.saturating_sub(ROOM))).unwrap_or(0)
}
