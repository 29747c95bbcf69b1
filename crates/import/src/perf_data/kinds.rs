//! Kinds of records: those that perf itself writes, and names of those that are not imported.

use pmu::bindings as b;

use crate::{file_order::FileOrder, stream::RawRecord};

/// A record that perf wrote, not the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum UserRecord<'a> {
    /// All rings were read once.
    FinishedRound,
    /// Records that were compressed.
    Compressed(&'a [u8]),
    /// An event's attributes and numbers, in a pipe.
    Attributes(&'a [u8]),
    /// A section, in a pipe: its number and contents.
    Section(u64, &'a [u8]),
    /// The build id of a file, in a pipe.
    BuildId(&'a [u8]),
    /// So many bytes of something else follow, which is called so.
    DataFollows(&'static str, u64),
    /// Nothing that a recording would have.
    Bookkeeping,
    /// Of no use here; what it is called.
    LeftOut(&'static str),
    /// Newer than this program.
    Unknown(u32),
}

/// Kinds from here on are perf's own.
const FIRST: u32 = 64;

impl<'a> UserRecord<'a> {
    /// What a record is; `None`: the kernel wrote it.
    pub fn of(record: RawRecord<'a>, order: FileOrder) -> Option<Self> {
        if record.kind < FIRST {
            return None;
        }
        let body = record.body;
        let word = |at: usize| order.word(body, at);
        let half = |at: usize| order.half(body, at).map(u64::from);
        Some(match record.kind {
            64 => Self::Attributes(body),
            // Padded to whole words.
            66 => Self::DataFollows("formats of tracepoints", half(0).unwrap_or(0).next_multiple_of(8)),
            67 => Self::BuildId(body),
            68 => Self::FinishedRound,
            70 => Self::LeftOut("descriptions of hardware traces"),
            71 => Self::DataFollows("hardware traces (Intel PT, Arm SPE and the like)", word(0).unwrap_or(0)),
            72 => Self::LeftOut("errors of hardware traces"),
            75..=77 => Self::LeftOut("counts of 'perf stat record'"),
            80 => word(0).map_or(Self::Unknown(80), |feature| Self::Section(feature, &body[8..])),
            81 => Self::Compressed(body),
            83 => {
                let length = word(0).and_then(|length| usize::try_from(length).ok());
                let packed = length.and_then(|length| body.get(8..8usize.checked_add(length)?));
                packed.map_or(Self::Unknown(83), Self::Compressed)
            }
            65 | 69 | 73 | 74 | 78 | 79 | 82 => Self::Bookkeeping,
            84 => Self::LeftOut("descriptions of BPF programs"),
            85 | 86 => Self::LeftOut("statistics of the scheduler"),
            kind => Self::Unknown(kind),
        })
    }
}

/// What a record of the kernel is called that is not imported.
pub(super) fn kernel_name(kind: u32) -> String {
    let name = match kind {
        b::PERF_RECORD_READ => "counters read at the end of a task",
        b::PERF_RECORD_AUX => "announcements of hardware traces (AUX)",
        b::PERF_RECORD_ITRACE_START => "beginnings of hardware traces",
        b::PERF_RECORD_NAMESPACES => "namespaces of tasks",
        b::PERF_RECORD_KSYMBOL => "symbols that the kernel registered",
        b::PERF_RECORD_BPF_EVENT => "BPF programs that were loaded",
        b::PERF_RECORD_CGROUP => "control groups",
        b::PERF_RECORD_TEXT_POKE => "changes of the kernel's code",
        b::PERF_RECORD_AUX_OUTPUT_HW_ID => "numbers of hardware traces",
        22 => "call chains that came later than their samples",
        kind => return format!("records of kind {kind}, newer than this memwall"),
    };
    name.to_owned()
}
