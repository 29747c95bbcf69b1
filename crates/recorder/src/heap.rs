//! Allocations of the program: the library that writes them down goes in, and what it wrote comes out.
//!
//! Logs lie in a folder of our own, one per process and program it executed. They are read and removed when the process
//! ends or executes another program, as long as its mappings are known; the rest at the end.

mod entering;
mod sites;
mod wrappers;

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ::heap::{FOLDER_VARIABLE, LogReader, LogState, Note, NoteKind};
use machine::private;
use record::{
    data::{BlockKind, HeapBlock, HeapLog},
    file::Writer,
};
use rustix::fs::StatVfsMountFlags;
use tempfile::TempDir;

use self::sites::{Frames, SiteKey};
use super::{modules::Modules, recorder::RecordWindow, spaces::Space};
pub(super) use entering::{Barrier, barrier, why_no_log};

/// Blocks kept in all: a recording of about 60 MB.
const MOST_BLOCKS: u64 = 1_000_000;

/// Sites kept in all.
const MOST_SITES: usize = 20_000;

/// The folder, and what was read from it.
#[derive(Debug)]
pub(super) struct Heap {
    folder: TempDir,
    library: PathBuf,
    frames: Frames,
    by_key: HashMap<SiteKey, u32>,
    blocks: u64,
    /// Blocks beyond the limit.
    pub left_out: u64,
    /// Logs that could not be read.
    pub unreadable: u64,
    pub logs: u64,
}

/// Whose log is read.
#[derive(Clone, Copy)]
pub(super) struct LogOwner<'a> {
    pub pid: i32,
    pub process: u32,
    /// The process it was forked from.
    pub parent: Option<u32>,
    pub space: &'a Space,
}

impl Heap {
    /// Makes the folder and puts the library there.
    pub fn prepare() -> io::Result<Self> {
        let folder = folder()?;
        let library = ::heap::install(folder.path())?;
        Ok(Self {
            folder,
            library,
            frames: Frames::default(),
            by_key: HashMap::new(),
            blocks: 0,
            left_out: 0,
            unreadable: 0,
            logs: 0,
        })
    }

    /// What the program needs in its environment.
    pub fn environment(&self) -> [(OsString, OsString); 2] {
        const PRELOAD: &str = "LD_PRELOAD";
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        [(PRELOAD.into(), preload), (FOLDER_VARIABLE.into(), self.folder.path().as_os_str().to_owned())]
    }

    /// Reads and removes the logs that a process began before `until_ns`.
    pub fn collect(
        &mut self,
        owner: LogOwner<'_>,
        until_ns: u64,
        window: &RecordWindow,
        modules: &mut Modules,
        writer: &mut Writer,
    ) {
        /// A number may be free again while the next is in use.
        const GAPS: u32 = 3;
        let (mut number, mut missing) = (0, 0);
        while missing < GAPS {
            let path = self.folder.path().join(format!("{}.{number}.heap", owner.pid));
            number += 1;
            match File::open(&path).map(LogReader::new) {
                Err(_) => missing += 1,
                Ok(Ok(reader)) if reader.log.began_ns > until_ns => {}
                Ok(Ok(reader)) => {
                    self.logs += 1;
                    self.read(reader, owner, window, modules, writer);
                    let _ = fs::remove_file(path);
                }
                Ok(Err(_)) => {
                    self.unreadable += 1;
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    fn read(
        &mut self,
        mut reader: LogReader<File>,
        owner: LogOwner<'_>,
        window: &RecordWindow,
        modules: &mut Modules,
        writer: &mut Writer,
    ) {
        // Of this log only: other processes have other addresses.
        let mut known: HashMap<[u64; 4], Option<u32>> = HashMap::new();
        let mut is_cut = false;
        loop {
            let note = match reader.next() {
                Ok(Some(note)) => note,
                Ok(None) => break,
                Err(_) => {
                    is_cut = true;
                    break;
                }
            };
            if note.time_ns >= window.end_ns {
                continue;
            }
            if self.blocks >= MOST_BLOCKS {
                self.left_out += 1;
                continue;
            }
            self.blocks += 1;
            let site = match note.kind {
                NoteKind::Unmapped => None,
                _ => *known
                    .entry(note.callers)
                    .or_insert_with(|| self.site(&note.callers, owner, modules, writer)),
            };
            writer.block(block(&note, owner.process, window.time(note.time_ns), site));
            if writer.is_laden() {
                // If it fails the writer drops what comes, and says so at the end.
                let _ = writer.flush();
            }
        }
        let log = &reader.log;
        writer.heap_log(HeapLog {
            process: owner.process,
            inherits: owner.parent.filter(|_| log.forked),
            began_ns: window.time(log.began_ns),
            problem: problem(log.state, is_cut),
        });
    }

    fn site(
        &mut self,
        callers: &[u64],
        owner: LogOwner<'_>,
        modules: &mut Modules,
        writer: &mut Writer,
    ) -> Option<u32> {
        let (key, site) = self.frames.site(callers, owner.space, modules, owner.pid)?;
        if let Some(index) = self.by_key.get(&key) {
            return Some(*index);
        }
        if self.by_key.len() >= MOST_SITES {
            return None;
        }
        let index = u32::try_from(self.by_key.len()).ok()?;
        writer.site(index, site);
        self.by_key.insert(key, index);
        Some(index)
    }

    /// Removes the folder. Processes that go on start others with the library: for them it stays, and its path comes
    /// back.
    pub fn remove(self, somebody_goes_on: bool) -> Option<PathBuf> {
        if !somebody_goes_on {
            return None;
        }
        let folder = self.folder.keep();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path() != self.library {
                let _ = fs::remove_file(entry.path());
            }
        }
        Some(folder)
    }
}

/// A folder that programs may be loaded from, with a name that `LD_PRELOAD` can hold.
fn folder() -> io::Result<TempDir> {
    let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    let is_fit = |place: &Path| {
        let text = place.as_os_str().as_encoded_bytes();
        let name_fits = text.first() == Some(&b'/') && !text.iter().any(|byte| b": $".contains(byte));
        let flags = rustix::fs::statvfs(place).map(|about| about.f_flag);
        let may_load = flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC));
        name_fits && may_load && nobody_else_can_move(place)
    };
    let mut trouble = io::Error::other("no folder for temporary files from which programs may be loaded");
    for place in places.iter().filter(|place| is_fit(place)) {
        let builder = &mut tempfile::Builder::new();
        match builder.prefix("memwall-heap-").permissions(private::folder_permissions()).tempdir_in(place) {
            Ok(folder) => return Ok(folder),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

/// Whether no other user but root can put something else in the place of what is in a folder: it and all folders above
/// it belong to us or root, and where others may write, they may not remove what is not theirs.
fn nobody_else_can_move(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let us = rustix::process::geteuid().as_raw();
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|folder| {
        fs::metadata(folder).is_ok_and(|about| {
            let is_guarded = about.mode() & OTHERS_WRITE == 0 || about.mode() & STICKY != 0;
            is_guarded && [0, us].contains(&about.uid())
        })
    })
}

fn block(note: &Note, process: u32, time_ns: u64, site: Option<u32>) -> HeapBlock {
    let kind = match note.kind {
        NoteKind::Allocated => BlockKind::Large,
        NoteKind::Sampled => BlockKind::Small,
        NoteKind::Mapped => BlockKind::Mapped,
        NoteKind::Unmapped => BlockKind::Unmapped,
    };
    HeapBlock {
        process,
        time_ns,
        address: note.address,
        size_bytes: note.size_bytes,
        kind,
        tid: note.tid,
        site,
    }
}

fn problem(state: LogState, is_cut: bool) -> Option<String> {
    match (state, is_cut) {
        (_, true) => Some("the end of the log could not be read".into()),
        (LogState::Full, _) => Some("the log was full: later blocks are missing".into()),
        (LogState::NoSpace, _) => Some("the log could not grow: later blocks are missing".into()),
        (LogState::Whole, _) => None,
    }
}
