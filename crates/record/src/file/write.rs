//! Appending to a recording while the program runs.

use std::{num::NonZeroU64, path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{
    FileError, OlderRecording,
    beside::RecordingFile,
    data::PendingData,
    import,
    loads::PendingLoads,
    probes::add_probes,
    rows::{PendingRows, write_about, write_code},
    sampled::{self, EventSample},
    scaling::add_scaling,
    schema::{APPLICATION_ID, RESERVE_BYTES, TABLES, VERSION},
};
use crate::{
    data::{Area, HeapBlock, HeapLog, Site, Variable},
    ids::{FunctionId, PlaceId, ProcessId, ThreadId},
    import::ImportRecord,
    inlined::InlinedCode,
    loads::LoadSample,
    probe::Probes,
    regions::{EventsDone, Region, RegionId, RegionVisits},
    relief::ReliefRecord,
    run::{About, Function, LineRange, Module, Place, Process, RecordedThread, Run, Samples, Slice},
    sampled::RecordedEvent,
};

/// As long as a reader holds the file, what was measured waits in memory; beyond this many samples we leave the file to it
/// and go on with a copy.
const WAITING_SAMPLES: usize = 1 << 18;

/// The same for blocks of memory.
const WAITING_BLOCKS: usize = 1 << 17;

/// How long we wait for the reader before we do.
const PATIENCE: Duration = Duration::from_secs(2);

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedSample {
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
    /// The thread that ran.
    pub thread: ThreadId,
    /// CPU it ran on.
    pub cpu: u16,
    /// Where it was.
    pub place: PlaceId,
    /// See [`Samples::address`](crate::run::Samples::address).
    pub address: Option<NonZeroU64>,
    /// Index of the call chain, if there was one.
    pub stack: Option<u32>,
}

/// The code that samples landed in, worked out at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// The functions.
    pub functions: Vec<Function>,
    /// Source files.
    pub files: Vec<String>,
    /// Source lines.
    pub lines: Vec<LineRange>,
    /// Inlined functions.
    pub inlined: InlinedCode,
    /// For each place in order, its function.
    pub function_of_place: Vec<Option<FunctionId>>,
}

/// Writes one recording. What is handed over waits in memory until [`flush`](Self::flush), so its size is that of
/// half a second of samples.
pub struct Writer {
    connection: Connection,
    // Closed after the connection: closing any descriptor of a file lets go of SQLite's locks on it.
    file: RecordingFile,
    pending: PendingRows,
    stopped: bool,
    /// Samples handed to SQLite in commits that succeeded.
    committed: u64,
    older: Option<OlderRecording>,
}

impl Writer {
    /// Begins a recording that is to be at `path`, and is beside it until [`settle`](Self::settle). Unless that comes, it
    /// goes away with the writer, and whatever is at `path` stays.
    pub fn create(path: &Path, about: &About) -> Result<Self, FileError> {
        let file = RecordingFile::begin(path)?;
        let failed = |error: rusqlite::Error| FileError::creating(path, &error);
        let connection = connect(file.path()).map_err(failed)?;
        let pending = PendingRows::default();
        let mut writer = Self { connection, file, pending, stopped: false, committed: 0, older: None };
        writer.prepare(about).map_err(failed)?;
        Ok(writer)
    }

    fn prepare(&mut self, about: &About) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO reserve(room) VALUES(zeroblob(?))", [RESERVE_BYTES])?;
        write_about(&transaction, about)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()
    }

    /// Puts the recording where it was asked for: there is something to keep. An older one of that name gets another.
    pub fn settle(&mut self) -> Result<(), FileError> {
        self.older = self.file.settle()?;
        self.reconnect()
    }

    /// The recording that had the name before.
    pub fn older(&self) -> Option<&OlderRecording> {
        self.older.as_ref()
    }

    /// SQLite must know the file by the name it has now: its journal is found by that.
    fn reconnect(&mut self) -> Result<(), FileError> {
        self.connection =
            connect(self.file.path()).map_err(|error| FileError::writing(self.file.place(), &error))?;
        Ok(())
    }

    /// Samples that are in the recording; none if it is gone, or what is there cannot be read.
    pub fn samples(&self) -> Option<u64> {
        self.file.check().ok()?;
        // Rows are numbered from 1, and none is ever removed.
        let last = "SELECT coalesce(max(id), 0) FROM sample";
        let found = self.connection.query_row(last, [], |row| row.get(0).map(i64::cast_unsigned));
        found
            .or_else(|error| match FileError::writing(self.file.place(), &error) {
                FileError::Locked { .. } => Ok(self.committed),
                _ => Err(error),
            })
            .ok()
    }

    /// A new process, or one that changed.
    pub fn process(&mut self, id: ProcessId, process: &Process) {
        self.pending.processes.push((id, process.clone()));
    }

    /// A new thread, or one that changed.
    pub fn thread(&mut self, index: u32, thread: &RecordedThread) {
        self.pending.threads.push((index, thread.clone()));
    }

    /// A new module, or one that changed.
    pub fn module(&mut self, index: u32, module: &Module) {
        self.pending.modules.push((index, module.clone()));
    }

    /// A new place.
    pub fn place(&mut self, index: u32, place: &Place) {
        self.pending.places.push((index, place.clone()));
    }

    /// A sample; its thread and place have been handed over before.
    pub fn sample(&mut self, sample: RecordedSample) {
        if !self.stopped {
            self.pending.samples.push(sample);
        }
    }

    /// A sample of a burst; its thread and place have been handed over before.
    pub fn burst_sample(&mut self, sample: RecordedSample) {
        if !self.stopped {
            self.pending.bursts.push(sample);
        }
    }

    /// A sample with the register that counts the passes of its loop in place of an address; thread and place as above.
    pub fn pass(&mut self, sample: RecordedSample) {
        if !self.stopped {
            self.pending.passes.push(sample);
        }
    }

    /// What follows is imported: samples have events and periods, and there are others beside those of time.
    pub fn begin_import(&mut self) -> Result<(), FileError> {
        let made = self.connection.execute_batch(import::TABLES);
        made.map_err(|error| FileError::writing(self.file.place(), &error))?;
        self.begin_events()
    }

    /// There will be samples of events beside those of the clock.
    pub fn begin_events(&mut self) -> Result<(), FileError> {
        let made = self.connection.execute_batch(sampled::TABLES);
        made.map_err(|error| FileError::writing(self.file.place(), &error))
    }

    /// A sample of time that is imported: of this event, with this period.
    pub fn imported_sample(&mut self, sample: RecordedSample, event: u32, period: Option<u64>) {
        if !self.stopped {
            self.pending.samples.push(sample);
            self.pending.import.of_samples.push((event, period));
        }
    }

    /// A sample of an event that is not the clock, or not of user mode; its thread and place have been handed over before.
    pub fn event_sample(&mut self, sample: EventSample) {
        if !self.stopped {
            self.pending.events.samples.push(sample);
        }
    }

    /// The region that such a sample lies in. They have numbers, from 1 on in the order they are handed over.
    pub fn event_region(&mut self, number: u64, region: RegionId) {
        if !self.stopped {
            self.pending.events.regions.push((number, region));
        }
    }

    /// What was sampled beside the clock, in all.
    pub fn sampled_events(&mut self, list: Vec<RecordedEvent>) {
        self.pending.events.list = list;
    }

    /// Where an imported recording comes from.
    pub fn import(&mut self, record: ImportRecord) {
        self.pending.import.record = Some(record);
    }

    /// Loads were asked for: `refusal` says why they cannot be had, if so.
    pub fn loads_asked(&mut self, refusal: Option<&str>) {
        self.pending.loads.asked = Some(refusal.map(str::to_owned));
    }

    /// A sampled load; its thread and place have been handed over before.
    pub fn load(&mut self, load: LoadSample) {
        if !self.stopped {
            self.pending.loads.samples.push(load);
        }
    }

    /// A new call chain: places from the sampled one outwards.
    pub fn stack(&mut self, index: u32, places: &[PlaceId]) {
        self.pending.stacks.push((index, places.to_vec()));
    }

    /// The address space of a process, in place of what was known of it before.
    pub fn areas(&mut self, process: ProcessId, areas: Vec<Area>) {
        if !self.stopped {
            self.pending.data.areas(process, areas);
        }
    }

    /// A variable that samples touched.
    pub fn variable(&mut self, variable: Variable) {
        self.pending.data.variables.push(variable);
    }

    /// A new place that allocated.
    pub fn site(&mut self, index: u32, site: Site) {
        self.pending.data.sites.push((index, site));
    }

    /// A block of memory; its site has been handed over before. Many wait in memory: [`flush`](Self::flush) now and
    /// then.
    pub fn block(&mut self, block: HeapBlock) {
        if !self.stopped {
            self.pending.data.blocks.push(block);
        }
    }

    /// Whether a process wrote its allocations down.
    pub fn heap_log(&mut self, log: HeapLog) {
        self.pending.data.heap.push(log);
    }

    /// Enough waits to be worth a commit.
    pub fn is_laden(&self) -> bool {
        self.pending.samples.len() > WAITING_SAMPLES
            || self.pending.bursts.len() > WAITING_SAMPLES
            || self.pending.events.samples.len() > WAITING_SAMPLES
            || self.pending.loads.samples.len() > WAITING_SAMPLES
            || self.pending.data.blocks.len() > WAITING_BLOCKS
    }

    /// How a thread spent a slice.
    pub fn slice(&mut self, slice: Slice) {
        if !self.stopped {
            self.pending.slices.push(slice);
        }
    }

    /// A region that began for the first time.
    pub fn region(&mut self, id: RegionId, region: Region) {
        self.pending.regions.list.push((id, region));
    }

    /// The region that a sample lies in. Samples have numbers, from 1 on in the order they are handed over.
    pub fn sample_region(&mut self, number: u64, region: RegionId) {
        if !self.stopped {
            self.pending.regions.samples.push((number, region));
        }
    }

    /// The same of a sample of a burst.
    pub fn burst_region(&mut self, number: u64, region: RegionId) {
        if !self.stopped {
            self.pending.regions.bursts.push((number, region));
        }
    }

    /// What a thread did in a region, in all.
    pub fn region_visits(&mut self, visits: RegionVisits) {
        self.pending.regions.visits.push(visits);
    }

    /// Events that the program has done with, in all.
    pub fn events_done(&mut self, events: EventsDone) {
        self.pending.regions.events = Some(events);
    }

    /// What relief found.
    pub fn relief(&mut self, relief: ReliefRecord) {
        self.pending.relief = relief;
    }

    /// What samples stand for has changed: what is said of the recording goes with the next commit.
    pub fn about(&mut self, about: &About) {
        self.pending.about = Some(Box::new(about.clone()));
    }

    /// Something the reader should know.
    pub fn remark(&mut self, text: &str) {
        self.pending.remarks.push(text.to_owned());
    }

    /// Commits what was handed over. While a reader holds the file this may do nothing, and the next call does it.
    ///
    /// On an error what was committed before stays in the file, the rest is lost, and every later sample and slice
    /// is dropped; [`finish`](Self::finish) is still worth trying.
    pub fn flush(&mut self) -> Result<(), FileError> {
        if self.stopped {
            return Ok(());
        }
        let full = self.is_laden();
        let done = match full {
            true => self.commit_somewhere(None),
            false => self.commit(Duration::ZERO, None),
        };
        match done {
            Ok(()) => Ok(()),
            Err(FileError::Locked { .. }) if !full => Ok(()),
            Err(error) => {
                self.stopped = true;
                self.pending.drop_measured();
                Err(error)
            }
        }
    }

    /// Writes how it ended and the code of the samples, in the room that was kept for it where no other is left, and
    /// [settles](Self::settle) the recording if that is still to be done.
    ///
    /// If there is too little room even for that, at least how it ended is written. Nothing can be handed over after it.
    pub fn finish(&mut self, about: &About, code: &Code) -> Result<(), FileError> {
        if self.stopped {
            // Without room for a journal on disk; a kill within this last commit would damage the file.
            self.connection
                .pragma_update(None, "journal_mode", "MEMORY")
                .map_err(|error| FileError::writing(self.file.place(), &error))?;
        }
        if let Err(error) = self.commit_somewhere(Some((about, code))) {
            if !matches!(error, FileError::Full { .. } | FileError::Unwritable { .. }) {
                return Err(error);
            }
            let _ = self.connection.pragma_update(None, "journal_mode", "MEMORY");
            self.pending.drop_measured();
            self.pending.remarks.push(format!("The names and code of the functions are missing: {error}."));
            self.commit(PATIENCE, Some((about, &Code::default())))?;
            return Err(error);
        }
        if !self.file.is_settled() {
            self.settle()?;
        }
        self.file.check()
    }

    /// Commits to the file, or to a copy that takes its place where a reader does not let go of it.
    fn commit_somewhere(&mut self, last: Option<(&About, &Code)>) -> Result<(), FileError> {
        match self.commit(PATIENCE, last) {
            Err(FileError::Locked { .. }) => {
                self.leave_to_readers()?;
                self.commit(PATIENCE, last)
            }
            done => done,
        }
    }

    /// Goes on with a copy in the place of the file; who has that open goes on reading it as it is.
    fn leave_to_readers(&mut self) -> Result<(), FileError> {
        let mut copy = self.file.successor()?;
        // SQLite takes no other names.
        let into =
            copy.path().to_str().ok_or_else(|| FileError::Locked { path: self.file.place().to_owned() })?;
        self.connection
            .execute("VACUUM INTO ?", [into])
            .map_err(|error| FileError::writing(self.file.place(), &error))?;
        if self.file.is_settled() {
            copy.settle()?;
        }
        // The older file is closed only with its connection.
        let left = std::mem::replace(&mut self.file, copy);
        self.reconnect()?;
        drop(left);
        Ok(())
    }

    /// One transaction with all that is pending, and with `last` the end of the recording.
    fn commit(&mut self, patience: Duration, last: Option<(&About, &Code)>) -> Result<(), FileError> {
        self.file.check()?;
        let pending = &self.pending;
        let mut work = || {
            self.connection.busy_timeout(patience)?;
            let transaction = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
            if last.is_some() {
                transaction.execute_batch("DROP TABLE IF EXISTS reserve")?;
            }
            pending.write(&transaction)?;
            if let Some((about, code)) = last {
                write_about(&transaction, about)?;
                write_code(&transaction, code)?;
            }
            transaction.commit()
        };
        work().map_err(|error| FileError::writing(self.file.place(), &error))?;
        self.committed += self.pending.samples.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Opens a file that is there, to be appended to.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let settings = [
        // The journal exists only within a commit, and the file is touched only then.
        ("journal_mode", "DELETE"),
        ("cache_spill", "OFF"),
        // Survives our death, not the machine's; waiting for the disk would disturb the program.
        ("synchronous", "OFF"),
        // Rows are only ever appended: a small cache is enough, and it is all that grows with the recording.
        ("cache_size", "-1024"),
        // Checked once, by the reader.
        ("foreign_keys", "OFF"),
    ];
    settings.iter().try_for_each(|(name, value)| connection.pragma_update(None, name, value))?;
    Ok(connection)
}

/// Writes a whole run to a new file.
pub fn write(path: &Path, run: &Run) -> Result<(), FileError> {
    let mut writer = Writer::create(path, &run.about)?;
    let numbered = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    run.processes.iter().enumerate().for_each(|(index, item)| writer.process(ProcessId::of(index), item));
    run.threads.iter().enumerate().for_each(|(index, item)| writer.thread(numbered(index), item));
    run.modules.iter().enumerate().for_each(|(index, item)| writer.module(numbered(index), item));
    run.places.iter().enumerate().for_each(|(index, item)| {
        writer.place(numbered(index), &Place { function: None, ..item.clone() });
    });
    run.remarks.iter().for_each(|text| writer.remark(text));
    run.slices.iter().for_each(|slice| writer.slice(*slice));
    run.stacks.iter().enumerate().for_each(|(index, places)| writer.stack(numbered(index), places));
    writer.pending.data = PendingData::all(&run.data);
    writer.pending.relief = run.relief.clone();
    let numbered_regions = |of: &[Option<RegionId>]| {
        let inside = of.iter().enumerate().filter_map(|(index, region)| Some((index as u64 + 1, (*region)?)));
        inside.collect::<Vec<_>>()
    };
    run.regions.list.iter().enumerate().for_each(|(index, region)| {
        writer.region(RegionId(numbered(index)), region.clone());
    });
    writer.pending.regions.samples = numbered_regions(&run.regions.of_samples);
    writer.pending.regions.bursts = numbered_regions(&run.regions.of_bursts);
    writer.pending.regions.visits.clone_from(&run.regions.visits);
    writer.pending.regions.events = run.regions.events;
    if let Some(import) = &run.import {
        writer.begin_import()?;
        writer.import(ImportRecord::clone(import));
    }
    writer.pending.loads = PendingLoads::all(&run.loads);
    let of = |samples: &Samples, index: usize| RecordedSample {
        time_ns: samples.time_ns[index],
        thread: samples.thread[index],
        cpu: samples.cpu[index],
        place: samples.place[index],
        address: samples.address[index],
        stack: samples.stack.get(index).copied().flatten(),
    };
    (0..run.bursts.time_ns.len()).for_each(|index| writer.burst_sample(of(&run.bursts, index)));
    (0..run.passes.time_ns.len()).for_each(|index| writer.pass(of(&run.passes, index)));
    for index in 0..run.samples.time_ns.len() {
        writer.sample(of(&run.samples, index));
        if index % WAITING_SAMPLES == WAITING_SAMPLES - 1 {
            writer.flush()?;
        }
    }
    let code = Code {
        functions: run.functions.clone(),
        files: run.files.clone(),
        lines: run.lines.clone(),
        inlined: run.inlined.clone(),
        function_of_place: run.places.iter().map(|place| place.function).collect(),
    };
    writer.finish(&run.about, &code)?;
    drop(writer);
    if run.probes != Probes::default() {
        add_probes(path, &run.probes)?;
    }
    run.scaling.as_ref().map_or(Ok(()), |scaling| add_scaling(path, scaling))
}
