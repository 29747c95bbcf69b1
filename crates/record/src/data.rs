//! The data of a run: what lay where in memory, and who had allocated it.

use serde::{Deserialize, Serialize};

use crate::ids::{ProcessId, ThreadId};

/// All that is known about the data of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Address space of each process, as last seen; ordered by process and address.
    pub areas: Vec<Area>,
    /// Variables that samples touched.
    pub variables: Vec<Variable>,
    /// Places in the code that allocated.
    pub sites: Vec<Site>,
    /// Blocks in the order they were allocated.
    pub blocks: Vec<HeapBlock>,
    /// Whether allocations were written down, process by process.
    pub heap: Vec<HeapLog>,
}

/// What a stretch of address space is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AreaKind {
    /// The stack of a thread; of the first thread if the kernel calls it so.
    Stack(ThreadId),
    /// What `brk` grows.
    Heap,
    /// A mapped file.
    File(String),
    /// No file.
    Anonymous,
}

/// A stretch of address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Whose it is.
    pub process: ProcessId,
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// What it is.
    pub kind: AreaKind,
    /// Huge pages and nodes behind it, as last seen; none if the kernel did not say.
    pub pages: Option<AreaPages>,
}

/// Pages behind an area.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaPages {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Of these, on huge pages.
    pub huge_bytes: u64,
    /// Node and resident bytes on it; empty if the kernel did not say.
    pub nodes: Vec<(u32, u64)>,
}

/// A variable of the program or a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Whose it is.
    pub process: ProcessId,
    /// First address in that process.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Its name for people.
    pub name: String,
    /// Path of the file it is in.
    pub module: String,
}

/// A place in the code that allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The function that asked, for people: past wrappers of the allocator where the stack tells.
    pub function: String,
    /// Path of the file it is in.
    pub module: String,
    /// Return address in the module's own terms.
    pub address: u64,
    /// What the source assigns the memory to, where the line tells.
    pub variable: Option<String>,
    /// File and line, where debug information says so.
    pub line: Option<(String, u32)>,
    /// Functions further out, the nearest first, as far as the stack tells.
    pub callers: Vec<String>,
}

/// How a block came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Every block of its size was written down.
    Large,
    /// One of many small ones; its neighbours are most likely like it.
    Small,
    /// Mapped by the program itself.
    Mapped,
    /// Unmapped: whatever lay there is gone.
    Unmapped,
}

impl BlockKind {
    /// The word that files of ours use for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Small => "small",
            Self::Mapped => "mapped",
            Self::Unmapped => "unmapped",
        }
    }

    /// The other way.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Large, Self::Small, Self::Mapped, Self::Unmapped].into_iter().find(|kind| kind.word() == word)
    }
}

/// A block of memory from the moment it was allocated, until another one lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapBlock {
    /// Whose it is.
    pub process: ProcessId,
    /// Nanoseconds since the start of the recording; 0 for what was there before.
    pub time_ns: u64,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// Of one that was chosen among many: bytes of all blocks like it that it stands for, itself among them. None of others, and in
    /// recordings from before it was kept.
    #[serde(default)]
    pub stands_for_bytes: Option<u64>,
    /// How it is known.
    pub kind: BlockKind,
    /// Thread that asked, by number.
    pub tid: u32,
    /// Index of the site; none of unmapped memory.
    pub site: Option<u32>,
}

/// Whether a process wrote its allocations down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapLog {
    /// Whose it is.
    pub process: ProcessId,
    /// The process whose blocks it began with: it was forked.
    pub inherits: Option<ProcessId>,
    /// Since the start of the recording.
    pub began_ns: u64,
    /// Why it is not whole, if so.
    pub problem: Option<String>,
}
