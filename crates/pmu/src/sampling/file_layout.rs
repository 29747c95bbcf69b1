//! Records as they stand in a file of `perf record`: with whatever fields their event was asked for, on whatever kernel.

use perf_event_open_sys::bindings as b;

use super::{
    CallChain, DataSource, KernelSample, Mode, RingRecord, Stamp, UserRegisters, Weight, layout::registers,
    sideband, words::Words,
};
use crate::record;

/// What of an event's attributes says how its records look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// `PERF_SAMPLE_` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_` bits.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_` bits.
    pub branch_sample_type: u64,
    /// User registers by the bits of the architecture's `perf_regs.h`.
    pub user_registers: u64,
    /// Registers at the interrupt, likewise.
    pub interrupt_registers: u64,
    /// Records that are no samples end with a stamp (`sample_id_all`).
    pub stamps_all: bool,
}

/// A sample of a file. What its event was not asked for is `None`.
#[derive(Clone, Copy, Debug)]
pub struct FileSample<'a> {
    /// What the processor was doing.
    pub mode: Mode,
    /// The processor vouches that `ip` is the instruction itself.
    pub exact_ip: bool,
    /// The event's number.
    pub id: Option<u64>,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// Process and thread.
    pub task: Option<(i32, i32)>,
    /// On the clock of the file.
    pub time_ns: Option<u64>,
    /// The data address; `None` also where the processor had none.
    pub address: Option<u64>,
    /// Where it ran.
    pub cpu: Option<u32>,
    /// Events since the sample before.
    pub period: Option<u64>,
    /// Counters of its group.
    pub readings: Option<Readings<'a>>,
    /// The call chain, innermost first.
    pub call_chain: Option<CallChain<'a>>,
    /// Bytes of a tracepoint's or another event's own.
    pub raw_bytes: Option<usize>,
    /// Entries of a branch stack.
    pub branches: Option<u64>,
    /// User registers.
    pub registers: Option<UserRegisters<'a>>,
    /// The user's stack from its pointer on, as far as the kernel could copy it.
    pub stack: Option<&'a [u8]>,
    /// Latencies.
    pub weight: Option<Weight>,
    /// Where the data came from.
    pub data_source: Option<DataSource>,
    /// The physical data address.
    pub physical_address: Option<u64>,
    /// Bytes of the page the data lies in.
    pub data_page_size: Option<u64>,
    /// Bytes of an AUX trace.
    pub aux_bytes: Option<u64>,
}

impl<'a> FileSample<'a> {
    /// The same as of a ring, which always has a time and a thread. Without a CPU that is `u32::MAX`.
    pub fn of_ring(&self) -> Option<KernelSample<'a>> {
        let (pid, tid) = self.task?;
        Some(KernelSample {
            time_ns: self.time_ns?,
            pid,
            tid,
            cpu: self.cpu.unwrap_or(u32::MAX),
            mode: self.mode,
            ip: self.ip,
            exact_ip: self.exact_ip,
            call_chain: self.call_chain,
            registers: self.registers,
            address: self.address,
            physical_address: self.physical_address,
            data_page_size: self.data_page_size,
            weight: self.weight,
            data_source: self.data_source,
            period: self.period,
            id: self.id,
        })
    }
}

/// Counters that were read with a sample.
#[derive(Clone, Copy, Debug)]
pub struct Readings<'a> {
    words: &'a [[u8; 8]],
    each: usize,
    id_at: Option<usize>,
}

impl<'a> Readings<'a> {
    /// The event's number, if asked for, and what its counter held.
    pub fn values(&self) -> impl Iterator<Item = (Option<u64>, u64)> + 'a {
        let (each, id_at) = (self.each, self.id_at);
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        self.words
            .chunks_exact(each)
            .map(move |entry| (id_at.and_then(|at| entry.get(at)).map(word), word(&entry[0])))
    }
}

/// Where the fields of an event's records lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLayout {
    about: FileAttributes,
}

/// All fields that are known here.
const KNOWN_FIELDS: u64 = (b::PERF_SAMPLE_MAX - 1) as u64;

/// Fields of a stamp in the kernel's order, each a word.
const STAMP: [u32; 6] = [
    b::PERF_SAMPLE_TID,
    b::PERF_SAMPLE_TIME,
    b::PERF_SAMPLE_ID,
    b::PERF_SAMPLE_STREAM_ID,
    b::PERF_SAMPLE_CPU,
    b::PERF_SAMPLE_IDENTIFIER,
];

impl FileLayout {
    /// For an event with these attributes.
    pub fn new(about: FileAttributes) -> Self {
        Self { about }
    }

    /// Fields that are newer than this program. The kernel puts new ones behind all others, so that those are read all
    /// the same.
    pub fn unknown_fields(&self) -> u64 {
        self.about.sample_type & !KNOWN_FIELDS
    }

    /// Whether samples have a field of these `PERF_SAMPLE_` bits.
    pub fn has(&self, field: u32) -> bool {
        self.about.sample_type & u64::from(field) != 0
    }

    /// Where the event's number lies in a sample's body.
    pub fn id_in_sample(&self) -> Option<usize> {
        if self.has(b::PERF_SAMPLE_IDENTIFIER) {
            return Some(0);
        }
        let before = [b::PERF_SAMPLE_IP, b::PERF_SAMPLE_TID, b::PERF_SAMPLE_TIME, b::PERF_SAMPLE_ADDR];
        self.has(b::PERF_SAMPLE_ID).then(|| 8 * before.iter().filter(|field| self.has(**field)).count())
    }

    /// How far before the end of any other record's body it lies.
    pub fn id_before_end(&self) -> Option<usize> {
        let wanted = match (self.has(b::PERF_SAMPLE_IDENTIFIER), self.has(b::PERF_SAMPLE_ID)) {
            (true, _) => b::PERF_SAMPLE_IDENTIFIER,
            (_, true) => b::PERF_SAMPLE_ID,
            _ => return None,
        };
        self.before_end(wanted)
    }

    /// The time of a record, if it has one.
    #[inline]
    pub fn time_of(&self, kind: u32, body: &[u8]) -> Option<u64> {
        let at = if kind == b::PERF_RECORD_SAMPLE {
            if !self.has(b::PERF_SAMPLE_TIME) {
                return None;
            }
            let before = [b::PERF_SAMPLE_IDENTIFIER, b::PERF_SAMPLE_IP, b::PERF_SAMPLE_TID];
            8 * before.iter().filter(|field| self.has(**field)).count()
        } else {
            body.len().checked_sub(self.before_end(b::PERF_SAMPLE_TIME)?)?
        };
        body.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
    }

    /// How far before the end of a record a field of its stamp lies.
    pub(super) fn before_end(&self, wanted: u32) -> Option<usize> {
        if !self.about.stamps_all || !self.has(wanted) {
            return None;
        }
        let from = STAMP.iter().position(|field| *field == wanted)?;
        Some(8 * STAMP[from..].iter().filter(|field| self.has(**field)).count())
    }

    pub(super) fn stamp_length(&self) -> usize {
        let fields = STAMP.iter().filter(|field| self.has(**field)).count();
        if self.about.stamps_all { 8 * fields } else { 0 }
    }

    /// What a record says that is no sample. A stamp that the file does not have is all 0: before everything.
    pub fn decode<'a>(&self, raw: record::Record<'a>) -> RingRecord<'a> {
        let malformed = RingRecord::Malformed { kind: Some(raw.kind), bytes: raw.body.len() };
        let split = raw.body.len().checked_sub(self.stamp_length());
        let Some((body, end)) = split.and_then(|at| raw.body.split_at_checked(at)) else { return malformed };
        let Some(stamp) = self.stamp(end) else { return malformed };
        sideband::sideband(raw.kind, raw.misc, body, stamp).unwrap_or(malformed)
    }

    fn stamp(&self, end: &[u8]) -> Option<Stamp> {
        let mut stamp = Stamp { time_ns: 0, pid: 0, tid: 0, cpu: 0, id: None };
        if end.is_empty() {
            return Some(stamp);
        }
        let mut words = Words(end);
        for field in STAMP.into_iter().filter(|field| self.has(*field)) {
            match field {
                b::PERF_SAMPLE_TID => (stamp.pid, stamp.tid) = (words.i32()?, words.i32()?),
                b::PERF_SAMPLE_TIME => stamp.time_ns = words.u64()?,
                b::PERF_SAMPLE_CPU => (stamp.cpu, _) = (words.u32()?, words.u32()?),
                b::PERF_SAMPLE_STREAM_ID => _ = words.u64()?,
                _ => stamp.id = Some(words.u64()?),
            }
        }
        Some(stamp)
    }

    /// Decodes a sample's body. `None`: it ends too soon.
    pub fn sample<'a>(&self, misc: u16, body: &'a [u8]) -> Option<FileSample<'a>> {
        let mut words = Words(body);
        // The order is the kernel's.
        let identifier = self.word(&mut words, b::PERF_SAMPLE_IDENTIFIER)?;
        let ip = self.word(&mut words, b::PERF_SAMPLE_IP)?;
        let task = match self.has(b::PERF_SAMPLE_TID) {
            true => Some((words.i32()?, words.i32()?)),
            false => None,
        };
        let time_ns = self.word(&mut words, b::PERF_SAMPLE_TIME)?;
        let address = self.word(&mut words, b::PERF_SAMPLE_ADDR)?.filter(|address| *address != 0);
        let id = self.word(&mut words, b::PERF_SAMPLE_ID)?;
        self.word(&mut words, b::PERF_SAMPLE_STREAM_ID)?;
        let cpu = self.word(&mut words, b::PERF_SAMPLE_CPU)?.map(|word| word as u32);
        let period = self.word(&mut words, b::PERF_SAMPLE_PERIOD)?;
        let mut sample = FileSample {
            mode: Mode::of(misc),
            exact_ip: u32::from(misc) & b::PERF_RECORD_MISC_EXACT_IP != 0,
            id: identifier.or(id),
            ip,
            task,
            time_ns,
            address,
            cpu,
            period,
            readings: None,
            call_chain: None,
            raw_bytes: None,
            branches: None,
            registers: None,
            stack: None,
            weight: None,
            data_source: None,
            physical_address: None,
            data_page_size: None,
            aux_bytes: None,
        };
        self.long_fields(&mut words, &mut sample)?;
        self.last_fields(&mut words, &mut sample)?;
        Some(sample)
    }

    /// Those of any length.
    fn long_fields<'a>(&self, words: &mut Words<'a>, sample: &mut FileSample<'a>) -> Option<()> {
        if self.has(b::PERF_SAMPLE_READ) {
            sample.readings = Some(self.readings(words)?);
        }
        if self.has(b::PERF_SAMPLE_CALLCHAIN) {
            let count = words.u64()?;
            sample.call_chain = Some(CallChain(words.words(count)?.as_chunks().0));
        }
        if self.has(b::PERF_SAMPLE_RAW) {
            let length = words.u32()? as usize;
            words.bytes(length)?;
            sample.raw_bytes = Some(length);
        }
        if self.has(b::PERF_SAMPLE_BRANCH_STACK) {
            sample.branches = Some(self.branches(words)?);
        }
        if self.has(b::PERF_SAMPLE_REGS_USER) {
            sample.registers = registers(words, self.about.user_registers)?;
        }
        if self.has(b::PERF_SAMPLE_STACK_USER) {
            let length = words.u64()?;
            let room = words.bytes(usize::try_from(length).ok()?)?;
            // How much of it the kernel could fill stands behind it, where there is one.
            let filled = if length == 0 { 0 } else { words.u64()? };
            sample.stack = Some(&room[..usize::try_from(filled).unwrap_or(room.len()).min(room.len())]);
        }
        Some(())
    }

    fn last_fields<'a>(&self, words: &mut Words<'a>, sample: &mut FileSample<'a>) -> Option<()> {
        let some = |value: &u64| *value != 0;
        let whole = self.word(words, b::PERF_SAMPLE_WEIGHT)?.map(Weight::Whole);
        sample.weight = match self.has(b::PERF_SAMPLE_WEIGHT_STRUCT) {
            true => Some(Weight::parts(words.u64()?)),
            false => whole,
        };
        sample.data_source = self.word(words, b::PERF_SAMPLE_DATA_SRC)?.map(DataSource::decode);
        self.word(words, b::PERF_SAMPLE_TRANSACTION)?;
        if self.has(b::PERF_SAMPLE_REGS_INTR) {
            registers(words, self.about.interrupt_registers)?;
        }
        sample.physical_address = self.word(words, b::PERF_SAMPLE_PHYS_ADDR)?.filter(some);
        self.word(words, b::PERF_SAMPLE_CGROUP)?;
        sample.data_page_size = self.word(words, b::PERF_SAMPLE_DATA_PAGE_SIZE)?.filter(some);
        self.word(words, b::PERF_SAMPLE_CODE_PAGE_SIZE)?;
        if self.has(b::PERF_SAMPLE_AUX) {
            let length = words.u64()?;
            words.bytes(usize::try_from(length).ok()?)?;
            sample.aux_bytes = Some(length);
        }
        Some(())
    }

    /// `None`: the field should be there and is not. `Some(None)`: it was not asked for.
    #[inline]
    fn word(&self, words: &mut Words<'_>, field: u32) -> Option<Option<u64>> {
        if self.has(field) { words.u64().map(Some) } else { Some(None) }
    }

    pub(super) fn readings<'a>(&self, words: &mut Words<'a>) -> Option<Readings<'a>> {
        let has = |bit: u32| self.about.read_format & u64::from(bit) != 0;
        let times = [b::PERF_FORMAT_TOTAL_TIME_ENABLED, b::PERF_FORMAT_TOTAL_TIME_RUNNING];
        let times = times.into_iter().filter(|bit| has(*bit)).count();
        let id_at = has(b::PERF_FORMAT_ID).then_some(1);
        let each = 1 + usize::from(has(b::PERF_FORMAT_ID)) + usize::from(has(b::PERF_FORMAT_LOST));
        if has(b::PERF_FORMAT_GROUP) {
            let count = words.u64()?;
            words.bytes(8 * times)?;
            let all = words.words(count.checked_mul(each as u64)?)?.as_chunks().0;
            return Some(Readings { words: all, each, id_at });
        }
        // A single counter has its times between value and number.
        let all = words.bytes(8 * (each + times))?.as_chunks().0;
        Some(Readings { words: all, each: each + times, id_at: id_at.map(|at| at + times) })
    }

    fn branches(&self, words: &mut Words<'_>) -> Option<u64> {
        const ENTRY_WORDS: u64 = 3;
        let has = |bit: u32| self.about.branch_sample_type & u64::from(bit) != 0;
        let count = words.u64()?;
        if has(b::PERF_SAMPLE_BRANCH_HW_INDEX) {
            words.u64()?;
        }
        words.words(count.checked_mul(ENTRY_WORDS)?)?;
        if has(b::PERF_SAMPLE_BRANCH_COUNTERS) {
            words.words(count)?;
        }
        Some(count)
    }
}
