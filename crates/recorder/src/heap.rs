//! Allocations of the program: the library that writes them down goes in, and what it wrote comes out.
//!
//! Programs write to memory that we made and they inherit. The kernel's records say which process has which part of it;
//! notes are read while the program runs, each when all records before it were taken, so that its mappings are known.

mod assigned;
mod authors;
mod entering;
mod folder;
mod marks;
mod reading;
mod remarks;
mod sites;
mod wrappers;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    io,
    path::PathBuf,
};

use ::heap::{Note, NoteFile, NoteRing, PassedOver, ReadAtMarks, VARIABLE};
use record::{file::Writer, ids::ProcessId};

use self::sites::{Frames, SiteKey};
use super::{
    modules::Modules, passing::PassingFolder, population::Population, recorder::RecordWindow,
    regions::RegionTally,
};
pub(super) use authors::Leaving;
pub(super) use entering::{Barrier, barrier};
pub(super) use folder::nobody_else_can_move;

/// The memory that programs write to, the library, and what was read.
#[derive(Debug)]
pub(super) struct Heap {
    folder: PassingFolder,
    library: PathBuf,
    file: NoteFile,
    /// By number of the process.
    authors: HashMap<i32, Author>,
    /// By region of the file.
    rings: HashMap<u64, LiveRing>,
    frames: Frames,
    by_key: HashMap<SiteKey, u32>,
    blocks: u64,
    shortfall: Shortfall,
}

/// What is missing.
#[derive(Debug, Default)]
struct Shortfall {
    /// Blocks beyond the limit.
    left_out: u64,
    /// Notes that found no room.
    dropped: u64,
    /// Notes of processes that could not be told.
    nameless: u64,
    /// Rings that make no sense, or have a clock of their own.
    unreadable: u64,
    /// What went on behind filters of system calls.
    passed_over: PassedOver,
    /// Programs executed that wrote nothing down, by their file.
    silent: BTreeMap<String, u64>,
}

/// A process, and where it writes.
#[derive(Debug)]
struct Author {
    process: ProcessId,
    /// None: nothing was heard of its program yet.
    region: Option<u64>,
    /// The process it was forked from, since it executed nothing.
    parent: Option<Option<ProcessId>>,
    began_ns: u64,
    notes: u64,
    /// Sites by return addresses.
    known: HashMap<[u64; 4], u32>,
}

/// The notes of one executed program and of all that forked from it.
#[derive(Debug)]
struct LiveRing {
    /// Who announced it.
    first: i32,
    announced_ns: u64,
    notes: Notes,
    /// Taken, but newer than the kernel's records that we know.
    waiting: Vec<Note>,
    authors: usize,
    /// Numbers of processes, from their own to ours.
    names: HashMap<u32, i32>,
    /// Numbers that lead to nobody, and how often they were looked for.
    strangers: HashMap<u32, u32>,
}

/// A region, as far as it was looked at.
#[derive(Debug)]
enum Notes {
    /// Nothing was written to it yet: most programs run for a moment only.
    Awaited,
    Ring(NoteRing),
    Unreadable,
}

/// What a note is read with.
pub(super) struct HeapContext<'a> {
    pub population: &'a Population,
    pub window: &'a RecordWindow,
    pub modules: &'a mut Modules,
    pub writer: &'a mut Writer,
    pub regions: &'a mut RegionTally,
}

impl Heap {
    /// Makes the memory, and puts the library into a folder. This is read at marks beside what always is.
    pub fn prepare(at_marks: &ReadAtMarks) -> io::Result<Self> {
        let folder = folder::make()?;
        let library = ::heap::install(folder.path())?;
        let mut file = NoteFile::create()?;
        file.ask(at_marks)?;
        Ok(Self {
            folder,
            library,
            file,
            authors: HashMap::new(),
            rings: HashMap::new(),
            frames: Frames::default(),
            by_key: HashMap::new(),
            blocks: 0,
            shortfall: Shortfall::default(),
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
        [(PRELOAD.into(), preload), (VARIABLE.into(), self.file.variable())]
    }

    /// Whether a file is the library.
    pub fn is_library(&self, path: &str) -> bool {
        self.library.as_os_str() == path
    }

    /// Whether a process forked now inherits the memory.
    pub fn let_inherit(&self, is_inherited: bool) -> io::Result<()> {
        self.file.let_inherit(is_inherited)
    }

    /// Removes the folder. Processes that go on start others with the library: for them it stays, and its path comes
    /// back.
    pub fn remove(self, somebody_goes_on: bool) -> Option<PathBuf> {
        somebody_goes_on.then(|| self.folder.leave())
    }
}
