//! Findings about data: which objects the core waited for, and lines that threads share.

use record::{data::HeapBlock, ids::ThreadId};
use serde::{Deserialize, Serialize};

use super::{Flagged, KnownLimits, Pattern, SourceLine, TimeShare};

/// Data that samples touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objects {
    /// Samples of memory instructions whose address came back, as a share of all samples of memory instructions.
    pub addressed: Option<TimeShare>,
    /// Objects, those with most waiting on loads first.
    pub objects: Vec<ObjectFinding>,
    /// Lines that more than one thread touched with at least one writing, those with most samples first.
    pub shared_lines: Vec<SharedLine>,
    /// Code and data of flagged intervals alone; none if no interval is flagged.
    pub flagged: Option<Flagged>,
    /// What limits this view, in plain sentences.
    pub remarks: Vec<String>,
}

/// What kind of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A variable of the program or a library, by its symbol.
    Global,
    /// Blocks allocated at one place in the code, of one class of sizes.
    Heap,
    /// A thread's stack.
    Stack,
    /// A mapped file.
    File,
    /// Memory without a file that no allocation explains.
    Anonymous,
    /// No mapping is known for the address.
    Unknown,
}

/// Which object it is, by the rows of its recording: names may stand for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectId {
    /// A variable, by its index among those of the run.
    Variable(u32),
    /// Blocks of one allocation site and one class of sizes.
    Heap {
        /// Index of the site.
        site: u32,
        /// Blocks of 2ⁿ bytes and more, below twice that.
        size_class: u32,
    },
    /// A stretch of address space, by its index.
    Area(u32),
    /// No mapping is known.
    Unknown,
}

impl ObjectId {
    /// What a block belongs to; none of one that nobody is known to have asked for.
    pub(crate) fn of_block(block: &HeapBlock) -> Option<Self> {
        Some(Self::Heap { site: block.site?, size_class: block.size_bytes.max(1).ilog2() })
    }
}

/// One object, or all blocks of one allocation site and class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectFinding {
    /// Which one it is in the recording.
    pub id: ObjectId,
    /// For people: a variable's name, `block of 64 MiB from build_table`, `stack of thread 17`.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
    /// Where it was allocated, if it was.
    pub site: Option<ObjectSite>,
    /// Bytes of all its blocks together.
    pub size_bytes: KnownLimits<u64>,
    /// Blocks it stands for; 1 of a variable.
    pub blocks: u64,
    /// Bytes of all blocks that were allocated there in the course of the run, whether they are still there or not; none of what was not
    /// allocated, or where the recording does not tell.
    pub allocated: Option<AllocatedBytes>,
    /// Samples of instructions that touched it.
    pub samples: u64,
    /// Of these, samples whose address is the next one of a chain (`mov r,[r]`): taken to lie in the same object.
    pub next_address_samples: u64,
    /// Share of all waiting on loads.
    pub load_waiting: TimeShare,
    /// Share of all waiting on stores, atomics and fences.
    pub other_waiting: f64,
    /// How it is walked through.
    pub pattern: Pattern,
    /// Numbers of the threads whose samples read it.
    pub readers: Vec<u32>,
    /// Numbers of the threads whose samples wrote it.
    pub writers: Vec<u32>,
    /// The readers, in the same order, as the recording tells them apart.
    pub reader_ids: Vec<ThreadId>,
    /// The writers, in the same order, as the recording tells them apart.
    pub writer_ids: Vec<ThreadId>,
    /// Huge pages and nodes behind it.
    pub pages: KnownLimits<ObjectPages>,
    /// Functions that touch it, by [`super::Findings::symbols`], those with most waiting first.
    pub symbols: Vec<ObjectUse>,
}

/// What was allocated in all, estimated where only some blocks were written down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocatedBytes {
    /// Without bias.
    pub bytes: f64,
    /// In 95 of 100 recordings the truth lies no further away; 0 where all blocks were written down.
    pub error: f64,
    /// Blocks that were written down.
    pub noted: u64,
}

/// Where memory was allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectSite {
    /// Function that asked, for people.
    pub function: String,
    /// File it is in.
    pub module: String,
    /// Return address in the module's own terms.
    pub address: u64,
    /// Line, if debug information says so.
    pub source: Option<SourceLine>,
    /// Functions further out, as far as known, the nearest first.
    pub callers: Vec<String>,
}

/// Pages of the mappings that an object lies in: the kernel tells no smaller parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPages {
    /// Bytes of the mappings; other objects may lie there as well.
    pub mapped_bytes: u64,
    /// Bytes on huge pages.
    pub huge_bytes: u64,
    /// Bytes on each node: node, bytes.
    pub nodes: Vec<(u32, u64)>,
}

/// A function's use of an object.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectUse {
    /// Index among [`super::Findings::symbols`].
    pub symbol: usize,
    /// Samples.
    pub samples: u64,
    /// Samples waiting on loads.
    pub waiting_on_loads: f64,
    /// Whether it writes.
    pub writes: bool,
}

/// A line that several threads touch, at least one of them writing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedLine {
    /// Address of the line.
    pub address: u64,
    /// Index among [`Objects::objects`], if it lies in one.
    pub object: Option<usize>,
    /// Different offsets by different threads, or the same one.
    pub sharing: ObjectSharing,
    /// Samples on it.
    pub samples: u64,
    /// Share of all waiting for memory.
    pub waiting: TimeShare,
    /// Who touched it where.
    pub uses: Vec<LineUse>,
}

/// How a line is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectSharing {
    /// Different offsets by different threads: a candidate for padding.
    False,
    /// The same offset by different threads: they communicate, or fight.
    True,
}

/// One thread's use of one offset of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineUse {
    /// The thread, as the recording tells it apart.
    pub thread: ThreadId,
    /// Its number.
    pub tid: u32,
    /// Offset within the line.
    pub offset: u32,
    /// Index among [`super::Findings::symbols`].
    pub symbol: usize,
    /// Whether it writes there.
    pub writes: bool,
    /// Samples.
    pub samples: u64,
}
