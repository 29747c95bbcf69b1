//! A perf.data read from its beginning to its end: records in order of time, each with the event it belongs to.

mod further;
mod kinds;
mod telling;

use std::{collections::BTreeMap, mem};

use pmu::{
    bindings as b, record,
    sampling::{FileSample, RingRecord, turn_words},
};

use crate::{
    attributes::EventAttributes,
    container::{self, PerfContainer},
    error::ImportError,
    facts::FileFacts,
    file_order::FileOrder,
    input::Input,
    order::TimeOrder,
    stream::{RawRecord, RecordStream},
    unpacking::Unpacking,
};
pub use further::FurtherRecords;
use kinds::UserRecord;
use telling::EventsById;

/// Things left out that are named; a damaged file may hold records of any number of kinds.
const MOST_OMISSIONS: usize = 100;

/// What becomes of records.
pub trait RecordConsumer {
    /// A sample of an event, by its index. Where counters were read with it, once for each that moved on.
    fn sample(&mut self, events: &[EventAttributes], event: usize, sample: &FileSample<'_>);

    /// Another record, of this time; 0: before all others.
    fn beside(&mut self, events: &[EventAttributes], time_ns: u64, record: RingRecord<'_>);

    /// All events and what there is to know of the machine, before the first record.
    fn begin(&mut self, _events: &[EventAttributes], _machine: &PerfMachine) {}

    /// Something went wrong: no more is wanted.
    fn has_failed(&self) -> bool {
        false
    }
}

/// What a file says of the machine it was recorded on, and of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfMachine {
    /// Name in the network.
    pub host: Option<String>,
    /// `x86_64`, `aarch64`, …
    pub architecture: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// What the CPU calls itself.
    pub cpu: Option<String>,
    /// Vendor, family, model, stepping.
    pub cpu_id: Option<String>,
    /// CPUs that were online.
    pub cpus_online: Option<u32>,
    /// The version of perf.
    pub perf: Option<String>,
    /// Its command line.
    pub command: Vec<String>,
    /// Build ids by path.
    pub build_ids: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl From<FileFacts> for PerfMachine {
    fn from(facts: FileFacts) -> Self {
        let FileFacts { host, kernel, perf, architecture, cpus_online, cpu, cpu_id, command, build_ids } =
            facts;
        Self { host, architecture, kernel, cpu, cpu_id, cpus_online, perf, command, build_ids }
    }
}

/// What came of reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfOutcome {
    /// It was written to a pipe.
    pub is_pipe: bool,
    /// Bytes that were read.
    pub bytes: u64,
    /// The machine.
    pub machine: PerfMachine,
    /// The events.
    pub events: Vec<EventAttributes>,
    /// Why it was not read to its end, if so.
    pub cut_short: Option<String>,
    /// What is wrong with it otherwise.
    pub faults: Vec<String>,
    /// What was left out, and how often.
    pub omissions: BTreeMap<String, u64>,
    /// Records that made no sense.
    pub malformed: u64,
    /// Records that came too late for their turn.
    pub late: u64,
}

/// Reads a perf.data; `path` is for errors.
pub fn read(
    input: &mut dyn Input,
    path: &str,
    consumer: &mut dyn RecordConsumer,
) -> Result<PerfOutcome, ImportError> {
    read_folder(input, Vec::new(), path, consumer)
}

/// Reads a perf.data with records in further files, as `perf record --threads` writes one for each ring.
pub fn read_folder(
    input: &mut dyn Input,
    further: Vec<FurtherRecords<'_>>,
    path: &str,
    consumer: &mut dyn RecordConsumer,
) -> Result<PerfOutcome, ImportError> {
    let container = container::read(input, path)?;
    if container.events.is_empty() && !container.is_pipe {
        let detail = "it names no event, so that its samples cannot be told apart".to_owned();
        return Err(ImportError::Damaged { path: path.to_owned(), detail });
    }
    let (begin, left) = container.data;
    let mut stream = RecordStream::new(input, begin, left, container.order);
    let mut reading = PerfReading {
        order: TimeOrder::default(),
        unpacking: None,
        reached_ns: 0,
        turned: Vec::new(),
        has_rounds: further.is_empty(),
        core: ReadingCore {
            container,
            by_id: None,
            sections: BTreeMap::new(),
            has_late_sections: false,
            consumer,
            has_begun: false,
            malformed: 0,
            omissions: BTreeMap::new(),
            readings: Default::default(),
        },
    };
    let end = reading.read_all(&mut stream);
    let mut bytes = stream.position();
    let of_further = reading.read_further(further, &mut bytes);
    reading.finish(end.and(of_further).err(), bytes, path)
}

struct PerfReading<'c> {
    order: TimeOrder,
    unpacking: Option<Box<Unpacking>>,
    /// The time of the last record that has one.
    reached_ns: u64,
    /// A record of the other byte order, turned.
    turned: Vec<u8>,
    /// Perf says when it has been through all rings; where each has a file of its own it does not.
    has_rounds: bool,
    core: ReadingCore<'c>,
}

/// All but what holds records back.
struct ReadingCore<'c> {
    container: PerfContainer,
    by_id: Option<EventsById>,
    /// Sections that came with the records of a pipe.
    sections: BTreeMap<u32, Vec<u8>>,
    has_late_sections: bool,
    consumer: &'c mut dyn RecordConsumer,
    has_begun: bool,
    malformed: u64,
    omissions: BTreeMap<String, u64>,
    readings: telling::Increments,
}

impl PerfReading<'_> {
    fn read_all(&mut self, stream: &mut RecordStream<'_>) -> Result<(), String> {
        while self.read_next(stream)? {}
        self.left_over()
    }

    /// Takes the next record; false: there is none, or no more is wanted.
    fn read_next(&mut self, stream: &mut RecordStream<'_>) -> Result<bool, String> {
        let Some(record) = stream.next()? else { return Ok(false) };
        let skip = self.take(record)?;
        if self.core.consumer.has_failed() {
            return Ok(false);
        }
        stream.skip(skip)?;
        Ok(true)
    }

    /// The error says that compressed records end too soon.
    fn left_over(&self) -> Result<(), String> {
        let unpacked = self.unpacking.as_ref().map_or(0, |unpacking| unpacking.left_over());
        if unpacked > 0 {
            return Err(format!("it ends within a compressed record, {unpacked} bytes after its beginning"));
        }
        Ok(())
    }

    /// Takes a record; gives how many bytes of data follow it that are no record.
    fn take(&mut self, record: RawRecord<'_>) -> Result<u64, String> {
        let order = self.core.container.order;
        match UserRecord::of(record, order) {
            None => self.kernel_record(record).map(|()| 0),
            Some(UserRecord::FinishedRound) => {
                self.finish_round();
                Ok(0)
            }
            Some(UserRecord::Compressed(packed)) => {
                let mut unpacking = self.unpacking.take().unwrap_or_default();
                let done = unpacking.unpack(packed, order, |record| match UserRecord::of(record, order) {
                    None => self.kernel_record(record),
                    Some(UserRecord::FinishedRound) => {
                        self.finish_round();
                        Ok(())
                    }
                    Some(other) => self.core.user_record(other).map(drop),
                });
                self.unpacking = Some(unpacking);
                done.map(|()| 0)
            }
            Some(other) => self.core.user_record(other),
        }
    }

    fn finish_round(&mut self) {
        if !self.has_rounds {
            return;
        }
        let core = &mut self.core;
        self.order.finish_round(|record| core.deliver(record));
    }

    fn kernel_record(&mut self, record: RawRecord<'_>) -> Result<(), String> {
        self.core.begin()?;
        if self.core.container.order == FileOrder::Same {
            self.kernel_record_of_here(record);
            return Ok(());
        }
        let RawRecord { kind, misc, body } = record;
        let mut turned = mem::take(&mut self.turned);
        turned.clear();
        turned.extend_from_slice(body);
        turn_words(&mut turned);
        if let Some(event) = self.core.event_of(RawRecord { kind, misc, body: &turned }) {
            self.core.container.events[event].layout.finish_turning(kind, misc, &mut turned);
        }
        self.kernel_record_of_here(RawRecord { kind, misc, body: &turned });
        self.turned = turned;
        Ok(())
    }

    /// In the byte order of this machine.
    fn kernel_record_of_here(&mut self, record: RawRecord<'_>) {
        let Some(event) = self.core.event_of(record) else {
            self.core.omit("records of an event that the file does not describe", 1);
            return;
        };
        let time_ns = self.core.container.events[event].layout.time_of(record.kind, record.body);
        match time_ns.filter(|time| !matches!(*time, 0 | u64::MAX)) {
            None => self.core.deliver(record),
            Some(time_ns) => {
                self.reached_ns = time_ns;
                if self.order.push(time_ns, record) {
                    let core = &mut self.core;
                    self.order.relieve(|record| core.deliver(record));
                }
            }
        }
    }

    fn finish(
        mut self,
        cut_short: Option<String>,
        bytes: u64,
        path: &str,
    ) -> Result<PerfOutcome, ImportError> {
        let core = &mut self.core;
        self.order.finish(|record| core.deliver(record));
        let is_pipe = core.container.is_pipe;
        if let Err(detail) = core.begin() {
            let detail = cut_short.filter(|_| is_pipe).unwrap_or(detail);
            return Err(ImportError::Damaged { path: path.to_owned(), detail });
        }
        // Some of what a pipe says may come at its end.
        if core.has_late_sections {
            core.container.take_sections(std::mem::take(&mut core.sections));
        }
        let ReadingCore { container, malformed, omissions, .. } = self.core;
        let PerfContainer { events, facts, faults, .. } = container;
        let machine = facts.into();
        let late = self.order.late;
        Ok(PerfOutcome { is_pipe, bytes, machine, events, cut_short, faults, omissions, malformed, late })
    }
}

impl ReadingCore<'_> {
    fn omit(&mut self, what: &str, count: u64) {
        let what = match self.omissions.len() {
            full if full >= MOST_OMISSIONS && !self.omissions.contains_key(what) => "much else",
            _ => what,
        };
        match self.omissions.get_mut(what) {
            Some(known) => *known += count,
            None => _ = self.omissions.insert(what.to_owned(), count),
        }
    }

    /// Everything is known that has to be known before the first record.
    fn begin(&mut self) -> Result<(), String> {
        if self.has_begun {
            return Ok(());
        }
        if self.container.is_pipe {
            // More may come behind the records.
            self.container.take_sections(self.sections.clone());
        }
        let events = &self.container.events;
        if events.is_empty() {
            return Err("it names no event, so that its samples cannot be told apart".to_owned());
        }
        self.by_id = Some(EventsById::of(events)?);
        for event in events {
            let unknown = event.layout.unknown_fields();
            if unknown != 0 {
                let what = format!("fields of samples that this memwall does not know ({unknown:#x})");
                *self.omissions.entry(what).or_default() += 1;
            }
        }
        self.has_begun = true;
        self.consumer.begin(&self.container.events, &self.container.facts.clone().into());
        Ok(())
    }

    fn event_of(&self, record: RawRecord<'_>) -> Option<usize> {
        self.by_id.as_ref()?.event_of(record)
    }

    /// A record whose turn it is.
    fn deliver(&mut self, record: RawRecord<'_>) {
        let Some(event) = self.event_of(record) else { return };
        let layout = self.container.events[event].layout;
        if record.kind != b::PERF_RECORD_SAMPLE {
            let RawRecord { kind, misc, body } = record;
            let time_ns = layout.time_of(kind, body).filter(|time| *time != u64::MAX).unwrap_or(0);
            return self.beside(time_ns, layout.decode(record::Record { kind, misc, body }));
        }
        match layout.sample(record.misc, record.body) {
            // A fixed period does not stand in the samples.
            Some(sample) => {
                let fixed = self.container.events[event].fixed_period();
                self.sample(event, FileSample { period: sample.period.or(fixed), ..sample });
            }
            None => self.malformed += 1,
        }
    }

    fn beside(&mut self, time_ns: u64, record: RingRecord<'_>) {
        match record {
            RingRecord::Unknown { kind, .. } => self.omit(&kinds::kernel_name(kind), 1),
            RingRecord::Malformed { .. } => self.malformed += 1,
            record => self.consumer.beside(&self.container.events, time_ns, record),
        }
    }

    fn sample(&mut self, event: usize, sample: FileSample<'_>) {
        if sample.branches.is_some() {
            self.omit("branch stacks of samples", 1);
        }
        if sample.raw_bytes.is_some() {
            self.omit("raw data of samples (fields of tracepoints and the like)", 1);
        }
        if sample.aux_bytes.is_some() {
            self.omit("hardware traces within samples", 1);
        }
        let Some(readings) = sample.readings else {
            return self.consumer.sample(&self.container.events, event, &sample);
        };
        for (id, value) in readings.values() {
            // What a counter moved on since it was last read is the period; one that did not move has no sample.
            let told = id.map_or(Some(event), |id| self.by_id.as_ref()?.by_number(id));
            let Some(event) = told else {
                self.omit("counters of an event that the file does not describe", 1);
                continue;
            };
            let period = self.readings.since_last(id, value);
            if period != Some(0) {
                let sample = FileSample { period: period.or(sample.period), id: id.or(sample.id), ..sample };
                self.consumer.sample(&self.container.events, event, &sample);
            }
        }
    }
}
