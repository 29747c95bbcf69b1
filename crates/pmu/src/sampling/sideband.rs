//! The records beside the samples: who runs, what is mapped, what was lost.

use perf_event_open_sys::bindings as b;

use super::{RingRecord, words::Words};

/// When, who and where: the end of every record that is not a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The process that ran.
    pub pid: i32,
    /// The thread that ran.
    pub tid: i32,
    /// Where it ran.
    pub cpu: u32,
    /// The event's number, if asked for.
    pub id: Option<u64>,
}

/// A piece of memory that was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// When, and by whom.
    pub stamp: Stamp,
    /// The process whose memory it is.
    pub pid: i32,
    /// The thread that mapped it.
    pub tid: i32,
    /// The first address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Which file.
    pub file: MappedFile<'a>,
    /// `PROT_` bits; `None` in the old form of the record.
    pub protection: Option<u32>,
    /// `MAP_` bits; `None` in the old form of the record.
    pub flags: Option<u32>,
    /// Data, not code.
    pub is_data: bool,
    /// The path, or a name such as `[vdso]` or `//anon`.
    pub path: &'a [u8],
}

/// What identifies a mapped file beside its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedFile<'a> {
    /// The build ID in its notes.
    BuildId(&'a [u8]),
    /// Its place in a file system; all 0 for memory without a file.
    Inode {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
        /// The inode.
        inode: u64,
        /// Its generation.
        generation: u64,
    },
    /// The old form of the record says nothing.
    Unknown,
}

/// Decodes any record that is not a sample. `None`: its body ends too soon.
pub(super) fn sideband<'a>(kind: u32, misc: u16, body: &'a [u8], stamp: Stamp) -> Option<RingRecord<'a>> {
    let misc = u32::from(misc);
    let mut words = Words(body);
    Some(match kind {
        b::PERF_RECORD_MMAP | b::PERF_RECORD_MMAP2 => {
            RingRecord::Mmap(mmap(kind == b::PERF_RECORD_MMAP2, misc, words, stamp)?)
        }
        b::PERF_RECORD_COMM => RingRecord::Comm {
            stamp,
            pid: words.i32()?,
            tid: words.i32()?,
            name: words.text(),
            exec: misc & b::PERF_RECORD_MISC_COMM_EXEC != 0,
        },
        b::PERF_RECORD_FORK | b::PERF_RECORD_EXIT => {
            let [pid, parent_pid, tid, parent_tid] = [words.i32()?, words.i32()?, words.i32()?, words.i32()?];
            if kind == b::PERF_RECORD_FORK {
                RingRecord::Fork { stamp, pid, tid, parent_pid, parent_tid }
            } else {
                RingRecord::Exit { stamp, pid, tid, parent_pid, parent_tid }
            }
        }
        b::PERF_RECORD_SWITCH | b::PERF_RECORD_SWITCH_CPU_WIDE => RingRecord::Switch {
            stamp,
            out: misc & b::PERF_RECORD_MISC_SWITCH_OUT != 0,
            preempted: misc & b::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
        },
        b::PERF_RECORD_LOST => {
            words.u64()?;
            RingRecord::Lost { stamp, records: words.u64()? }
        }
        b::PERF_RECORD_LOST_SAMPLES => RingRecord::LostSamples { stamp, samples: words.u64()? },
        b::PERF_RECORD_THROTTLE => RingRecord::Throttle { stamp },
        b::PERF_RECORD_UNTHROTTLE => RingRecord::Unthrottle { stamp },
        _ => RingRecord::Unknown { kind, stamp, body },
    })
}

fn mmap<'a>(is_second: bool, misc: u32, mut words: Words<'a>, stamp: Stamp) -> Option<Mmap<'a>> {
    let (pid, tid) = (words.i32()?, words.i32()?);
    let (start, length, offset) = (words.u64()?, words.u64()?, words.u64()?);
    let (mut file, mut protection, mut flags) = (MappedFile::Unknown, None, None);
    if is_second {
        let identity = words.bytes(24)?;
        file = identify(misc & b::PERF_RECORD_MISC_MMAP_BUILD_ID != 0, identity)?;
        (protection, flags) = (Some(words.u32()?), Some(words.u32()?));
    }
    let is_data = misc & b::PERF_RECORD_MISC_MMAP_DATA != 0;
    Some(Mmap {
        stamp,
        pid,
        tid,
        start,
        length,
        offset,
        file,
        protection,
        flags,
        is_data,
        path: words.text(),
    })
}

fn identify(has_build_id: bool, identity: &[u8]) -> Option<MappedFile<'_>> {
    let (length, id) = (usize::from(*identity.first()?), identity.get(4..)?);
    // Kernels mark records as well whose event did not ask for build ids, where another's did.
    if has_build_id && length <= id.len() {
        return Some(MappedFile::BuildId(&id[..length]));
    }
    let mut words = Words(identity);
    let (major, minor) = (words.u32()?, words.u32()?);
    Some(MappedFile::Inode { major, minor, inode: words.u64()?, generation: words.u64()? })
}
