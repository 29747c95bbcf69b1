//! A perf.data as a test writes it: hardware events, weights, branch stacks and whatever else the machine at hand cannot
//! record. Nothing here was measured.

mod other_order;

use std::collections::BTreeMap;

use pmu::{bindings as b, record::encode};

use crate::container::{EVENT_DESC, FILE_HEADER, MAGIC, PIPE_HEADER};

/// Bytes of attributes that are written: those of Linux 3.19 and later kernels.
const ATTRIBUTES: usize = 112;

/// An event of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedEvent {
    /// As perf would call it.
    pub name: String,
    /// `PERF_TYPE_` number.
    pub kind: u32,
    /// What of it.
    pub config: u64,
    /// Period, or frequency with the flag for it.
    pub pace: u64,
    /// `PERF_SAMPLE_` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_` bits.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_` bits.
    pub branch_sample_type: u64,
    /// User registers.
    pub registers: u64,
    /// Bits of the flags beside `sample_id_all`, which is set.
    pub flags: u64,
    /// Its number in records.
    pub id: u64,
}

/// Fields of a sample; those that its event does not have are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedSample {
    /// Instruction pointer.
    pub ip: u64,
    /// Process and thread.
    pub task: (i32, i32),
    /// Time.
    pub time_ns: u64,
    /// Data address.
    pub address: u64,
    /// CPU.
    pub cpu: u32,
    /// Period.
    pub period: u64,
    /// What `PERF_SAMPLE_READ` has, word by word.
    pub read: Vec<u64>,
    /// Call chain with its marks.
    pub chain: Vec<u64>,
    /// Raw bytes.
    pub raw: Vec<u8>,
    /// Branches: from, to, flags.
    pub branches: Vec<[u64; 3]>,
    /// User registers.
    pub registers: Vec<u64>,
    /// Stack.
    pub stack: Vec<u8>,
    /// `PERF_SAMPLE_WEIGHT` or its parts.
    pub weight: u64,
    /// `PERF_SAMPLE_DATA_SRC`.
    pub data_source: u64,
}

/// A file in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedFile {
    /// Its events.
    pub events: Vec<ScriptedEvent>,
    /// Its sections by number.
    pub sections: BTreeMap<u32, Vec<u8>>,
    /// Its records, one after the other.
    pub records: Vec<u8>,
}

impl ScriptedEvent {
    fn attributes(&self) -> Vec<u8> {
        const STAMPS_ALL: u64 = 1 << 18;
        let mut words = [0; ATTRIBUTES / 8];
        words[0] = (ATTRIBUTES as u64) << 32 | u64::from(self.kind);
        words[1..6].copy_from_slice(&[
            self.config,
            self.pace,
            self.sample_type,
            self.read_format,
            self.flags | STAMPS_ALL,
        ]);
        (words[9], words[10]) = (self.branch_sample_type, self.registers);
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    fn has(&self, field: u32) -> bool {
        self.sample_type & u64::from(field) != 0
    }

    /// The body of a sample.
    pub fn body(&self, sample: &ScriptedSample) -> Vec<u8> {
        let mut body = Body(Vec::new());
        let (pid, tid) = sample.task;
        let task = u64::from(pid.cast_unsigned()) | u64::from(tid.cast_unsigned()) << 32;
        let fixed = [
            (b::PERF_SAMPLE_IDENTIFIER, self.id),
            (b::PERF_SAMPLE_IP, sample.ip),
            (b::PERF_SAMPLE_TID, task),
            (b::PERF_SAMPLE_TIME, sample.time_ns),
            (b::PERF_SAMPLE_ADDR, sample.address),
            (b::PERF_SAMPLE_ID, self.id),
            (b::PERF_SAMPLE_STREAM_ID, self.id),
            (b::PERF_SAMPLE_CPU, sample.cpu.into()),
            (b::PERF_SAMPLE_PERIOD, sample.period),
        ];
        fixed.iter().filter(|(field, _)| self.has(*field)).for_each(|(_, word)| body.words(&[*word]));
        self.long_fields(sample, &mut body);
        let last = [
            (b::PERF_SAMPLE_WEIGHT, sample.weight),
            (b::PERF_SAMPLE_WEIGHT_STRUCT, sample.weight),
            (b::PERF_SAMPLE_DATA_SRC, sample.data_source),
            (b::PERF_SAMPLE_TRANSACTION, 0),
            (b::PERF_SAMPLE_PHYS_ADDR, 0),
            (b::PERF_SAMPLE_CGROUP, 0),
            (b::PERF_SAMPLE_DATA_PAGE_SIZE, 0),
            (b::PERF_SAMPLE_CODE_PAGE_SIZE, 0),
            (b::PERF_SAMPLE_AUX, 0),
        ];
        last.iter().filter(|(field, _)| self.has(*field)).for_each(|(_, word)| body.words(&[*word]));
        body.0
    }

    fn long_fields(&self, sample: &ScriptedSample, body: &mut Body) {
        if self.has(b::PERF_SAMPLE_READ) {
            body.words(&sample.read);
        }
        if self.has(b::PERF_SAMPLE_CALLCHAIN) {
            body.words(&[sample.chain.len() as u64]);
            body.words(&sample.chain);
        }
        if self.has(b::PERF_SAMPLE_RAW) {
            let padded = (4 + sample.raw.len()).next_multiple_of(8) - 4;
            body.0.extend((padded as u32).to_ne_bytes());
            body.0.extend(&sample.raw);
            body.0.resize(body.0.len() + padded - sample.raw.len(), 0);
        }
        if self.has(b::PERF_SAMPLE_BRANCH_STACK) {
            body.words(&[sample.branches.len() as u64]);
            if self.branch_sample_type & u64::from(b::PERF_SAMPLE_BRANCH_HW_INDEX) != 0 {
                body.words(&[7]);
            }
            sample.branches.iter().for_each(|branch| body.words(branch));
            if self.branch_sample_type & u64::from(b::PERF_SAMPLE_BRANCH_COUNTERS) != 0 {
                sample.branches.iter().for_each(|_| body.words(&[1]));
            }
        }
        if self.has(b::PERF_SAMPLE_REGS_USER) {
            let abi = if sample.registers.is_empty() { 0 } else { 2 };
            body.words(&[abi]);
            body.words(&sample.registers);
        }
        if self.has(b::PERF_SAMPLE_STACK_USER) {
            body.words(&[sample.stack.len() as u64]);
            body.0.extend(&sample.stack);
            if !sample.stack.is_empty() {
                body.words(&[sample.stack.len() as u64]);
            }
        }
    }

    /// The stamp at the end of a record that is no sample.
    fn stamp(&self, task: (i32, i32), time_ns: u64) -> Vec<u8> {
        let mut body = Body(Vec::new());
        let task = u64::from(task.0.cast_unsigned()) | u64::from(task.1.cast_unsigned()) << 32;
        let fields = [
            (b::PERF_SAMPLE_TID, task),
            (b::PERF_SAMPLE_TIME, time_ns),
            (b::PERF_SAMPLE_ID, self.id),
            (b::PERF_SAMPLE_STREAM_ID, self.id),
            (b::PERF_SAMPLE_CPU, 0),
            (b::PERF_SAMPLE_IDENTIFIER, self.id),
        ];
        fields.iter().filter(|(field, _)| self.has(*field)).for_each(|(_, word)| body.words(&[*word]));
        body.0
    }
}

struct Body(Vec<u8>);

impl Body {
    fn words(&mut self, words: &[u64]) {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }
}

/// A text of a section: its length with padding, and the text.
fn text(text: &str) -> Vec<u8> {
    let length = (text.len() + 1).next_multiple_of(64);
    let mut bytes = (length as u32).to_ne_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(4 + length, 0);
    bytes
}

impl ScriptedFile {
    /// With these events.
    pub fn of(events: Vec<ScriptedEvent>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Adds a section that is one text: 3 is the host, 6 the architecture, 8 the CPU, 9 its id.
    pub fn say(&mut self, section: u32, words: &str) {
        self.sections.insert(section, text(words));
    }

    /// Adds a record as it is.
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.records.extend(encode(kind, misc, body));
    }

    /// Adds a sample of an event, by index.
    pub fn sample(&mut self, event: usize, misc: u16, sample: &ScriptedSample) {
        let body = self.events[event].body(sample);
        self.record(b::PERF_RECORD_SAMPLE, misc, &body);
    }

    /// Adds the name that a thread has by executing a program.
    pub fn execute(&mut self, task: (i32, i32), time_ns: u64, name: &str) {
        let mut body = [task.0.to_ne_bytes(), task.1.to_ne_bytes()].concat();
        body.extend(name.as_bytes());
        body.resize((body.len() + 1).next_multiple_of(8), 0);
        body.extend(self.events[0].stamp(task, time_ns));
        self.record(b::PERF_RECORD_COMM, b::PERF_RECORD_MISC_COMM_EXEC as u16, &body);
    }

    /// Adds a mapping of a file with a build id.
    pub fn map(&mut self, task: (i32, i32), time_ns: u64, range: (u64, u64), path: &str, build_id: &[u8]) {
        let mut body = [task.0.to_ne_bytes(), task.1.to_ne_bytes()].concat();
        body.extend([range.0, range.1 - range.0, 0].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend([build_id.len() as u8, 0, 0, 0]);
        body.extend(build_id);
        body.resize(body.len() + 20 - build_id.len().min(20), 0);
        body.extend([5u32, 2].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend(path.as_bytes());
        body.resize((body.len() + 1).next_multiple_of(8), 0);
        body.extend(self.events[0].stamp(task, time_ns));
        let misc = b::PERF_RECORD_MISC_MMAP_BUILD_ID | b::PERF_RECORD_MISC_USER;
        self.record(b::PERF_RECORD_MMAP2, misc as u16, &body);
    }

    /// Adds the mapping of the kernel's own code, which begins with a symbol.
    pub fn map_kernel(&mut self, range: (u64, u64), symbol: &str) {
        let mut body = [(-1i32).to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        body.extend([range.0, range.1 - range.0, range.0].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend(format!("[kernel.kallsyms]{symbol}").as_bytes());
        body.resize((body.len() + 1).next_multiple_of(8), 0);
        body.extend(self.events[0].stamp((0, 0), 0));
        self.record(b::PERF_RECORD_MMAP, b::PERF_RECORD_MISC_KERNEL as u16, &body);
    }

    /// All rings were read.
    pub fn finish_round(&mut self) {
        self.record(68, 0, &[]);
    }

    /// The section that names events.
    fn descriptions(&self) -> Vec<u8> {
        let head = [self.events.len() as u32, ATTRIBUTES as u32];
        let mut bytes: Vec<u8> = head.iter().flat_map(|half| half.to_ne_bytes()).collect();
        for event in &self.events {
            bytes.extend(event.attributes());
            bytes.extend(1u32.to_ne_bytes());
            bytes.extend(text(&event.name));
            bytes.extend(event.id.to_ne_bytes());
        }
        bytes
    }

    /// As `perf record -o FILE` writes it.
    pub fn file(&self) -> Vec<u8> {
        let mut sections = self.sections.clone();
        sections.entry(EVENT_DESC).or_insert_with(|| self.descriptions());
        let each = ATTRIBUTES as u64 + 16;
        let ids_at = FILE_HEADER;
        let attributes_at = ids_at + 8 * self.events.len() as u64;
        let data_at = attributes_at + each * self.events.len() as u64;
        let mut flags = [0u64; 4];
        sections.keys().for_each(|bit| flags[*bit as usize / 64] |= 1 << (bit % 64));
        let mut words = vec![FILE_HEADER, each, attributes_at, each * self.events.len() as u64];
        words.extend([data_at, self.records.len() as u64, 0, 0]);
        words.extend(flags);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(self.events.iter().flat_map(|event| event.id.to_ne_bytes()));
        for (index, event) in self.events.iter().enumerate() {
            bytes.extend(event.attributes());
            bytes.extend([ids_at + 8 * index as u64, 8].iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes.extend(&self.records);
        let mut at = bytes.len() as u64 + 16 * sections.len() as u64;
        for section in sections.values() {
            bytes.extend([at, section.len() as u64].iter().flat_map(|word| word.to_ne_bytes()));
            at += section.len() as u64;
        }
        bytes.extend(sections.values().flatten());
        bytes
    }

    /// As `perf record -o -` writes it.
    pub fn pipe(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(PIPE_HEADER.to_ne_bytes());
        for event in &self.events {
            let body = [event.attributes(), event.id.to_ne_bytes().to_vec()].concat();
            bytes.extend(encode(64, 0, &body));
        }
        let mut sections = self.sections.clone();
        sections.entry(EVENT_DESC).or_insert_with(|| self.descriptions());
        for (section, contents) in &sections {
            bytes.extend(encode(
                80,
                0,
                &[u64::from(*section).to_ne_bytes().to_vec(), contents.clone()].concat(),
            ));
        }
        bytes.extend(&self.records);
        bytes
    }

    /// The same with its records compressed, as `perf record -z` does; `newer` as from Linux 6.16 on. The packed bytes are
    /// cut into records of at most `most` bytes.
    pub fn compressed(&self, most: usize, newer: bool) -> Option<Self> {
        let mut packed = vec![0; zstd_safe::compress_bound(self.records.len())];
        let length = zstd_safe::compress(&mut packed[..], &self.records, 1).ok()?;
        let mut file = Self { records: Vec::new(), ..self.clone() };
        for piece in packed[..length].chunks(most) {
            if newer {
                let mut body = [&(piece.len() as u64).to_ne_bytes()[..], piece].concat();
                body.resize(body.len().next_multiple_of(8), 0);
                file.record(83, 0, &body);
            } else {
                file.record(81, 0, piece);
            }
        }
        Some(file)
    }
}
