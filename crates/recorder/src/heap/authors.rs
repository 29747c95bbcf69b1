//! Who writes to which ring: told by the kernel's records of programs that begin, fork and end.

use std::fs;

use ::heap::{NoteFile, PassedOver};
use pmu::sampling::{MappedFile, Mmap};
use record::{data::HeapLog, ids::ProcessId};

use super::{Author, Heap, HeapContext, LiveRing, Notes};
use crate::{
    procfs,
    recorder::{NEVER, RecordWindow},
};

/// How often a number is looked for among those that write to a ring.
const MOST_LOOKS: u32 = 5;

/// Why a process writes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It executes another program.
    Executes,
    /// It ended, or the recording does.
    Ends,
}

impl Heap {
    /// A process begins to execute a program.
    pub fn executed(&mut self, pid: i32, process: ProcessId, at_ns: u64) {
        self.authors.insert(pid, Author::new(process, None, None, at_ns));
    }

    /// A process was forked from another: it writes where that one writes.
    pub fn forked(
        &mut self,
        pid: i32,
        parent: i32,
        process: ProcessId,
        parent_process: Option<ProcessId>,
        at_ns: u64,
    ) {
        let Some(region) = self.authors.get(&parent).map(|parent| parent.region) else { return };
        if let Some(ring) = region.and_then(|region| self.rings.get_mut(&region)) {
            ring.authors += 1;
        }
        self.authors.insert(pid, Author::new(process, region, Some(parent_process), at_ns));
    }

    /// Whether a mapping is a program's word that a region is its own.
    pub fn announced(&mut self, mmap: &Mmap<'_>) -> bool {
        let is_ours = match mmap.file {
            MappedFile::Inode { inode, .. } => inode == self.file.inode(),
            _ => true,
        };
        if !is_ours || mmap.path != NoteFile::PATH.as_bytes() {
            return false;
        }
        let Some(region) = self.file.region_at(mmap.offset) else { return true };
        let is_taken = self.rings.contains_key(&region);
        let Some(author) = self.authors.get_mut(&mmap.pid) else { return true };
        if is_taken || author.region.is_some() || author.parent.is_some() {
            return true;
        }
        author.region = Some(region);
        let live = LiveRing {
            first: mmap.pid,
            announced_ns: mmap.stamp.time_ns,
            notes: Notes::Awaited,
            waiting: Vec::new(),
            authors: 1,
            names: Default::default(),
            strangers: Default::default(),
        };
        self.rings.insert(region, live);
        true
    }

    /// A process writes no more: reads what it wrote before a moment.
    pub fn left(&mut self, pid: i32, at_ns: u64, leaving: Leaving, around: &mut HeapContext<'_>) {
        let Some(region) = self.authors.get(&pid).map(|author| author.region) else { return };
        if let Some(region) = region {
            let is_last = self.rings.get(&region).is_some_and(|ring| ring.authors == 1);
            self.absorb(region, is_last && at_ns != NEVER);
            self.read(region, Some(pid), at_ns, around);
        }
        let Some(author) = self.authors.remove(&pid) else { return };
        match region {
            None if author.parent.is_none() => self.silent(pid, around),
            None => {}
            Some(region) => self.sign_off(region, pid, &author, leaving, around),
        }
    }

    fn silent(&mut self, pid: i32, around: &HeapContext<'_>) {
        let process = around.population.processes.get(&pid);
        let executable = process.and_then(|process| process.about.executable.clone());
        *self.shortfall.silent.entry(executable.unwrap_or_default()).or_default() += 1;
    }

    fn sign_off(
        &mut self,
        region: u64,
        pid: i32,
        author: &Author,
        leaving: Leaving,
        around: &mut HeapContext<'_>,
    ) {
        let Some(live) = self.rings.get_mut(&region) else { return };
        live.names.retain(|_, name| *name != pid);
        live.authors = live.authors.saturating_sub(1);
        // Forked only to execute something else: what it has is not its parent's.
        if author.parent.is_none() || author.notes > 0 || leaving == Leaving::Ends {
            around.writer.heap_log(row(author, live, around.window));
        }
        if live.authors == 0 {
            if let Notes::Ring(ring) = &live.notes {
                self.shortfall.dropped += ring.dropped() + ring.unfinished;
                let PassedOver { programs, forked } = ring.passed_over();
                self.shortfall.passed_over.programs += programs;
                self.shortfall.passed_over.forked += forked;
            }
            if !matches!(live.notes, Notes::Awaited) {
                self.file.release(region);
            }
            self.shortfall.nameless += live.waiting.len() as u64;
            self.rings.remove(&region);
        }
    }

    /// Everybody who still writes, at the end of the recording.
    pub fn left_at_the_end(&mut self, around: &mut HeapContext<'_>) {
        let mut all: Vec<i32> = self.authors.keys().copied().collect();
        all.sort_unstable();
        all.into_iter().for_each(|pid| self.left(pid, NEVER, Leaving::Ends, around));
    }

    /// Which process is meant by a number that a note has, as it was at that time.
    pub(super) fn named(&mut self, region: u64, number: u32, time_ns: u64) -> Option<i32> {
        let is_author = |pid: i32| {
            let author = self.authors.get(&pid)?;
            (author.region == Some(region) && author.began_ns <= time_ns).then_some(pid)
        };
        let live = self.rings.get_mut(&region)?;
        if let Some(known) = live.names.get(&number) {
            return is_author(*known);
        }
        let looks = live.strangers.entry(number).or_default();
        if *looks >= MOST_LOOKS {
            return None;
        }
        *looks += 1;
        // The same as ours, unless it lives in a namespace of its own. One that is gone cannot be asked.
        let same = i32::try_from(number).ok().and_then(is_author);
        let found = same.filter(|pid| own_number(*pid).is_none_or(|own| own == number)).or_else(|| {
            let mut others = self.authors.keys().filter(|pid| is_author(**pid).is_some());
            let is_it = |pid: &&i32| own_number(**pid) == Some(number);
            let found = others.find(is_it).copied()?;
            others.find(is_it).is_none().then_some(found)
        })?;
        live.strangers.remove(&number);
        live.names.insert(number, found);
        Some(found)
    }
}

impl Author {
    fn new(
        process: ProcessId,
        region: Option<u64>,
        parent: Option<Option<ProcessId>>,
        began_ns: u64,
    ) -> Self {
        Self { process, region, parent, began_ns, notes: 0, known: Default::default() }
    }
}

fn row(author: &Author, live: &LiveRing, window: &RecordWindow) -> HeapLog {
    let problem = match &live.notes {
        Notes::Awaited => None,
        Notes::Unreadable => Some("its notes could not be read".to_owned()),
        Notes::Ring(ring) if ring.is_closed() => {
            Some("it locked its memory: blocks from then on are missing".to_owned())
        }
        Notes::Ring(ring) if ring.is_taken_away() => {
            Some("it took the memory for them away: blocks from then on are missing".to_owned())
        }
        Notes::Ring(ring) if ring.is_confined() => Some(
            "it, or a process forked from it, limited its address space: blocks of that one are missing from then on".to_owned(),
        ),
        Notes::Ring(ring) if ring.is_silenced() => {
            Some("it forbade itself to read the time: blocks from then on are missing".to_owned())
        }
        Notes::Ring(ring) => {
            let dropped = ring.dropped();
            (dropped > 0)
                .then(|| format!("{dropped} blocks came faster than they could be read, and are missing"))
        }
    };
    HeapLog {
        process: author.process,
        inherits: author.parent.flatten(),
        began_ns: window.time(author.began_ns),
        problem,
    }
}

/// The number that a living process has in its own namespace.
fn own_number(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    procfs::own_number(&status)
}
