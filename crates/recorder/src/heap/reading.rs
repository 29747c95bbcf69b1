//! From notes to blocks and sites.

use std::io;

use ::heap::{Note, NoteKind, NoteRing};
use record::{
    data::{BlockKind, HeapBlock},
    ids::ProcessId,
};

use super::{Heap, HeapContext, LiveRing, Notes, marks};

/// Blocks kept in all: a recording of about 60 MB.
const MOST_BLOCKS: u64 = 1_000_000;

/// Sites kept in all.
const MOST_SITES: usize = 20_000;

/// Notes that wait at a time; others stay where they are, and the ring may become full.
const MOST_WAITING: usize = 1 << 18;

/// A program's own clock may lag behind the record of its mapping by what the scheduler took from it.
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;

/// How long a note waits until it is known whose it is.
const LONGEST_WAIT_NS: u64 = 1_000_000_000;

impl Heap {
    /// Reads what was written before a moment up to which all of the kernel's records were taken.
    pub fn read_all(&mut self, until_ns: u64, around: &mut HeapContext<'_>) {
        let mut regions: Vec<u64> = self.rings.keys().copied().collect();
        regions.sort_unstable();
        for region in regions {
            self.absorb(region, false);
            self.read(region, None, until_ns, around);
        }
    }

    /// Takes the notes of a ring out of it.
    pub(super) fn absorb(&mut self, region: u64, is_over: bool) {
        let Some(live) = self.rings.get_mut(&region) else { return };
        if matches!(live.notes, Notes::Awaited) && self.file.is_written(region) {
            live.open(self.file.ring(region));
            self.shortfall.unreadable += u64::from(matches!(live.notes, Notes::Unreadable));
        }
        let Notes::Ring(ring) = &mut live.notes else { return };
        if live.waiting.len() < MOST_WAITING && ring.take(is_over, |note| live.waiting.push(note)).is_err() {
            live.notes = Notes::Unreadable;
            self.shortfall.unreadable += 1;
        }
    }

    /// Reads the notes that wait, from before a moment: those of one process, or all.
    pub(super) fn read(
        &mut self,
        region: u64,
        only: Option<i32>,
        until_ns: u64,
        around: &mut HeapContext<'_>,
    ) {
        let Some(live) = self.rings.get_mut(&region) else { return };
        let mut waiting = std::mem::take(&mut live.waiting);
        waiting.retain(|note| {
            if note.time_ns > until_ns {
                return true;
            }
            match self.named(region, note.pid, note.time_ns) {
                Some(pid) if only.is_none_or(|only| only == pid) => {
                    self.take(note, pid, around);
                    false
                }
                Some(_) => true,
                None => {
                    let is_hopeless =
                        until_ns.saturating_sub(note.time_ns) > LONGEST_WAIT_NS && only.is_none();
                    self.shortfall.nameless += u64::from(is_hopeless);
                    !is_hopeless
                }
            }
        });
        if let Some(live) = self.rings.get_mut(&region) {
            live.waiting = waiting;
        }
    }

    fn take(&mut self, note: &Note, pid: i32, around: &mut HeapContext<'_>) {
        if note.time_ns >= around.window.end_ns {
            return;
        }
        if marks::take(note, pid, around) {
            if let Some(author) = self.authors.get_mut(&pid) {
                author.notes += 1;
            }
            return;
        }
        let Some(kind) = block_kind(&note.kind) else { return };
        if self.blocks >= MOST_BLOCKS {
            self.shortfall.left_out += 1;
            return;
        }
        self.blocks += 1;
        let site = if note.kind == NoteKind::Unmapped { None } else { self.site(&note.callers, pid, around) };
        let Some(author) = self.authors.get_mut(&pid) else { return };
        author.notes += 1;
        around.writer.block(block(note, kind, author.process, pid, around.window.time(note.time_ns), site));
        if around.writer.is_laden() {
            // If it fails the writer drops what comes, and says so at the end.
            let _ = around.writer.flush();
        }
    }

    fn site(&mut self, callers: &[u64; 4], pid: i32, around: &mut HeapContext<'_>) -> Option<u32> {
        let author = self.authors.get_mut(&pid)?;
        if let Some(known) = author.known.get(callers) {
            return Some(*known);
        }
        let space = &around.population.processes.get(&pid)?.space;
        let (key, site) = self.frames.site(callers, space, around.modules, pid)?;
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None if self.by_key.len() >= MOST_SITES => return None,
            None => {
                let index = u32::try_from(self.by_key.len()).ok()?;
                around.writer.site(index, site);
                self.by_key.insert(key, index);
                index
            }
        };
        author.known.insert(*callers, index);
        Some(index)
    }
}

impl LiveRing {
    /// Looks into a ring that something was written to.
    fn open(&mut self, ring: io::Result<NoteRing>) {
        let Ok(ring) = ring else {
            self.notes = Notes::Unreadable;
            return;
        };
        // In a time namespace of its own nothing could be put in order.
        let lag_ns = self.announced_ns.checked_sub(ring.began_ns());
        let is_readable = lag_ns.is_some_and(|lag_ns| lag_ns < LONGEST_PAUSE_NS);
        self.names.insert(ring.pid(), self.first);
        self.notes = if is_readable { Notes::Ring(ring) } else { Notes::Unreadable };
    }
}

/// None of what is no block.
fn block_kind(kind: &NoteKind) -> Option<BlockKind> {
    Some(match kind {
        NoteKind::Allocated => BlockKind::Large,
        NoteKind::Sampled { .. } => BlockKind::Small,
        NoteKind::Mapped => BlockKind::Mapped,
        NoteKind::Unmapped => BlockKind::Unmapped,
        _ => return None,
    })
}

fn block(
    note: &Note,
    kind: BlockKind,
    process: ProcessId,
    pid: i32,
    time_ns: u64,
    site: Option<u32>,
) -> HeapBlock {
    // In a namespace of its own the first thread's number is known, others have only the program's word.
    let tid = if note.tid == note.pid { pid.cast_unsigned() } else { note.tid };
    let stands_for_bytes =
        matches!(note.kind, NoteKind::Sampled { .. }).then(|| note.stands_for().bytes.round() as u64);
    HeapBlock {
        process,
        time_ns,
        address: note.address,
        size_bytes: note.size_bytes,
        stands_for_bytes,
        kind,
        tid,
        site,
    }
}
