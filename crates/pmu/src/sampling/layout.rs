//! From the bytes of a record to its meaning, for the fields that were asked for.

use perf_event_open_sys::bindings;

use super::{
    Abi, CallChain, DataSource, Fields, KernelSample, Mmap, Mode, Stamp, UserRegisters, Weight, sideband,
    words::Words,
};
use crate::record;

/// A record from a ring.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RingRecord<'a> {
    /// A sample.
    Sample(KernelSample<'a>),
    /// Memory was mapped.
    Mmap(Mmap<'a>),
    /// A thread has a new name.
    Comm {
        /// When, and where.
        stamp: Stamp,
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name, at most 15 bytes.
        name: &'a [u8],
        /// It has the name from executing a program: all its memory is new.
        exec: bool,
    },
    /// A thread or process was started.
    Fork {
        /// When, and where.
        stamp: Stamp,
        /// The new one's process: that of the parent if it is a thread.
        pid: i32,
        /// The new thread.
        tid: i32,
        /// Who started it.
        parent_pid: i32,
        /// The thread that started it.
        parent_tid: i32,
    },
    /// A thread ended.
    Exit {
        /// When, and where.
        stamp: Stamp,
        /// Its process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The parent's process.
        parent_pid: i32,
        /// The parent's thread.
        parent_tid: i32,
    },
    /// The thread in the stamp came to a CPU or left it.
    Switch {
        /// When, who and where.
        stamp: Stamp,
        /// It left.
        out: bool,
        /// It left although it could have gone on.
        preempted: bool,
    },
    /// The ring was full.
    Lost {
        /// When there was room again.
        stamp: Stamp,
        /// How many records of any kind are missing here.
        records: u64,
    },
    /// The processor or the kernel dropped samples before they came to the ring.
    LostSamples {
        /// When it was noticed.
        stamp: Stamp,
        /// How many.
        samples: u64,
    },
    /// Too many samples: the kernel pauses the event.
    Throttle {
        /// Since when.
        stamp: Stamp,
    },
    /// The event goes on.
    Unthrottle {
        /// Since when.
        stamp: Stamp,
    },
    /// A record of a kind that nobody asked for or that is newer than this program.
    Unknown {
        /// `PERF_RECORD_` number.
        kind: u32,
        /// When, who and where.
        stamp: Stamp,
        /// What it holds, without the stamp.
        body: &'a [u8],
    },
    /// Bytes that do not make sense: a record shorter than its kind, or a ring whose lengths do not add up.
    Malformed {
        /// `PERF_RECORD_` number; `None` where not even that can be told.
        kind: Option<u32>,
        /// How many bytes were given up.
        bytes: usize,
    },
}

/// Where the fields of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    fields: Fields,
    struct_weight: bool,
    time_in_sample: usize,
    stamp_length: usize,
}

impl RecordLayout {
    /// The layout for what was asked for; `struct_weight` if the kernel splits weights into three numbers.
    pub fn new(fields: Fields, struct_weight: bool) -> Self {
        let words = 1 + usize::from(fields.ip) + usize::from(fields.id);
        Self {
            fields,
            struct_weight,
            time_in_sample: 8 * words,
            stamp_length: 8 * (3 + usize::from(fields.id)),
        }
    }

    /// What the record says.
    #[inline]
    pub fn decode<'a>(&self, raw: record::Record<'a>) -> RingRecord<'a> {
        let malformed = RingRecord::Malformed { kind: Some(raw.kind), bytes: raw.body.len() };
        if raw.kind == bindings::PERF_RECORD_SAMPLE {
            return self.sample(raw.misc, raw.body).map_or(malformed, RingRecord::Sample);
        }
        let Some((body, stamp)) = self.split(raw.body) else {
            return malformed;
        };
        // Nobody here asked for build ids: whose records are marked as having them heard of a mapping beside somebody who did.
        let build_id = bindings::PERF_RECORD_MISC_MMAP_BUILD_ID as u16;
        let misc = if raw.kind == bindings::PERF_RECORD_MMAP2 { raw.misc & !build_id } else { raw.misc };
        sideband::sideband(raw.kind, misc, body, stamp).unwrap_or(malformed)
    }

    /// Decodes a sample's body. `None`: it ends too soon.
    #[inline]
    fn sample<'a>(&self, misc: u16, body: &'a [u8]) -> Option<KernelSample<'a>> {
        let fields = &self.fields;
        let mut words = Words(body);
        // The order is the kernel's.
        let id = opt(fields.id, || words.u64())?;
        let ip = opt(fields.ip, || words.u64())?;
        let (pid, tid) = (words.i32()?, words.i32()?);
        let time_ns = words.u64()?;
        let address = opt(fields.address, || words.u64())?.filter(|address| *address != 0);
        let (cpu, _) = (words.u32()?, words.u32()?);
        let period = opt(fields.period, || words.u64())?;
        let call_chain = opt(fields.call_chain.is_some(), || {
            let count = words.u64()?;
            words.words(count).map(|bytes| CallChain(bytes.as_chunks().0))
        })?;
        let registers =
            opt(fields.user_registers != 0, || registers(&mut words, fields.user_registers))?.flatten();
        let weight = opt(fields.weight, || words.u64())?;
        let data_source = opt(fields.data_source, || words.u64())?.map(DataSource::decode);
        let physical_address = opt(fields.physical_address, || words.u64())?.filter(|address| *address != 0);
        let data_page_size = opt(fields.data_page_size, || words.u64())?.filter(|size| *size != 0);
        Some(KernelSample {
            time_ns,
            pid,
            tid,
            cpu,
            mode: Mode::of(misc),
            ip,
            exact_ip: u32::from(misc) & bindings::PERF_RECORD_MISC_EXACT_IP != 0,
            call_chain,
            registers,
            address,
            physical_address,
            data_page_size,
            weight: weight
                .map(|word| if self.struct_weight { Weight::parts(word) } else { Weight::Whole(word) }),
            data_source,
            period,
            id,
        })
    }

    /// Where the time lies in a record of this kind and size, counted from its header's start.
    #[inline]
    pub(super) fn time_offset(&self, kind: u32, size: usize) -> Option<usize> {
        let offset = if kind == bindings::PERF_RECORD_SAMPLE {
            record::HEADER + self.time_in_sample
        } else {
            // The stamp begins with the thread, then comes the time.
            size.checked_sub(self.stamp_length)? + 8
        };
        (offset >= record::HEADER + 8 && offset + 8 <= size).then_some(offset)
    }

    fn split<'a>(&self, body: &'a [u8]) -> Option<(&'a [u8], Stamp)> {
        let (body, end) = body.split_at_checked(body.len().checked_sub(self.stamp_length)?)?;
        let mut words = Words(end);
        let (pid, tid, time_ns) = (words.i32()?, words.i32()?, words.u64()?);
        let (cpu, _) = (words.u32()?, words.u32()?);
        Some((body, Stamp { time_ns, pid, tid, cpu, id: words.u64() }))
    }
}

/// `None`: the field should be there and is not. `Some(None)`: it was not asked for.
#[inline]
fn opt<T>(asked: bool, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
    if asked { read().map(Some) } else { Some(None) }
}

/// `Some(None)`: the kernel had no registers to give.
#[inline]
pub(super) fn registers<'a>(words: &mut Words<'a>, mask: u64) -> Option<Option<UserRegisters<'a>>> {
    let abi = match words.u64()? {
        0 => return Some(None),
        1 => Abi::Bits32,
        _ => Abi::Bits64,
    };
    let values = words.words(mask.count_ones().into())?.as_chunks().0;
    Some(Some(UserRegisters { abi, mask, values }))
}
