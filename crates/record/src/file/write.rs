//! Appending to a recording while the program runs.

use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::{
    FileError, about,
    data::{PendingData, json},
    guard,
    loads::PendingLoads,
    schema::{APPLICATION_ID, RESERVE_BYTES, TABLES, VERSION},
};
use crate::{
    data::{Area, HeapBlock, HeapLog, Site, Variable},
    ids::{FunctionId, PlaceId, ThreadId},
    loads::LoadSample,
    run::{About, Function, LineRange, Module, Place, Process, RecordedThread, Run, Slice},
};

/// As long as a reader holds the file, what was measured waits in memory; beyond this many samples we wait for it.
const WAITING_SAMPLES: usize = 1 << 18;

/// The same for blocks of memory.
const WAITING_BLOCKS: usize = 1 << 17;

/// How long we then wait before we give up.
const PATIENCE: Duration = Duration::from_secs(20);

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
    /// For each place in order, its function.
    pub function_of_place: Vec<Option<FunctionId>>,
}

/// Writes one recording. What is handed over waits in memory until [`flush`](Self::flush), so its size is that of
/// half a second of samples.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    pending: PendingRows,
    stopped: bool,
}

#[derive(Default)]
struct PendingRows {
    processes: Vec<(u32, Process)>,
    threads: Vec<(u32, RecordedThread)>,
    modules: Vec<(u32, Module)>,
    places: Vec<(u32, Place)>,
    samples: Vec<RecordedSample>,
    slices: Vec<Slice>,
    stacks: Vec<(u32, Vec<PlaceId>)>,
    data: PendingData,
    loads: PendingLoads,
    remarks: Vec<String>,
}

impl Writer {
    /// Begins a recording at `path`. A recording of that name is replaced, any other file is left alone.
    pub fn create(path: &Path, about: &About) -> Result<Self, FileError> {
        make_way(path)?;
        let failed = |error: rusqlite::Error| FileError::Uncreatable {
            path: path.to_owned(),
            detail: error.to_string(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // SQLite would leave the mode to the umask; its journal takes that of the file.
        machine::private::create_new_file(path)
            .map_err(|error| FileError::Uncreatable { path: path.to_owned(), detail: error.to_string() })?;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let mut writer =
            Self { connection, path: path.to_owned(), pending: PendingRows::default(), stopped: false };
        writer.prepare(about).map_err(failed)?;
        Ok(writer)
    }

    fn prepare(&mut self, about: &About) -> rusqlite::Result<()> {
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
        for (name, value) in settings {
            self.connection.pragma_update(None, name, value)?;
        }
        self.connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO reserve(room) VALUES(zeroblob(?))", [RESERVE_BYTES])?;
        write_about(&transaction, about)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new process, or one that changed.
    pub fn process(&mut self, index: u32, process: &Process) {
        self.pending.processes.push((index, process.clone()));
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
    pub fn areas(&mut self, process: u32, areas: Vec<Area>) {
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
        self.pending.samples.len() > WAITING_SAMPLES || self.pending.data.blocks.len() > WAITING_BLOCKS
    }

    /// How a thread spent a slice.
    pub fn slice(&mut self, slice: Slice) {
        if !self.stopped {
            self.pending.slices.push(slice);
        }
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
        let patience = if full { PATIENCE } else { Duration::ZERO };
        match self.commit(patience, None) {
            Ok(()) => Ok(()),
            Err(FileError::Busy { .. }) if !full => Ok(()),
            Err(error) => {
                self.stopped = true;
                self.pending.drop_measured();
                Err(error)
            }
        }
    }

    /// Writes how it ended and the code of the samples, in the room that was kept for it where no other is left.
    ///
    /// If there is too little room even for that, at least how it ended is written. Nothing can be handed over after it.
    pub fn finish(&mut self, about: &About, code: &Code) -> Result<(), FileError> {
        if self.stopped {
            // Without room for a journal on disk; a kill within this last commit would damage the file.
            self.connection
                .pragma_update(None, "journal_mode", "MEMORY")
                .map_err(|error| FileError::writing(&self.path, &error))?;
        }
        let whole = self.commit(PATIENCE, Some((about, code)));
        let Err(error) = whole else { return Ok(()) };
        if !matches!(error, FileError::Full { .. } | FileError::Unwritable { .. }) {
            return Err(error);
        }
        let _ = self.connection.pragma_update(None, "journal_mode", "MEMORY");
        self.pending.drop_measured();
        self.pending.remarks.push(format!("The names and code of the functions are missing: {error}."));
        self.commit(PATIENCE, Some((about, &Code::default())))?;
        Err(error)
    }

    /// One transaction with all that is pending, and with `last` the end of the recording.
    fn commit(&mut self, patience: Duration, last: Option<(&About, &Code)>) -> Result<(), FileError> {
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
        work().map_err(|error| FileError::writing(&self.path, &error))?;
        self.pending.clear();
        Ok(())
    }
}

/// Writes a whole run to a new file.
pub fn write(path: &Path, run: &Run) -> Result<(), FileError> {
    let mut writer = Writer::create(path, &run.about)?;
    let numbered = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    run.processes.iter().enumerate().for_each(|(index, item)| writer.process(numbered(index), item));
    run.threads.iter().enumerate().for_each(|(index, item)| writer.thread(numbered(index), item));
    run.modules.iter().enumerate().for_each(|(index, item)| writer.module(numbered(index), item));
    run.places.iter().enumerate().for_each(|(index, item)| {
        writer.place(numbered(index), &Place { function: None, ..item.clone() });
    });
    run.remarks.iter().for_each(|text| writer.remark(text));
    run.slices.iter().for_each(|slice| writer.slice(*slice));
    run.stacks.iter().enumerate().for_each(|(index, places)| writer.stack(numbered(index), places));
    writer.pending.data = PendingData::all(&run.data);
    writer.pending.loads = PendingLoads::all(&run.loads);
    let samples = &run.samples;
    for index in 0..samples.time_ns.len() {
        writer.sample(RecordedSample {
            time_ns: samples.time_ns[index],
            thread: samples.thread[index],
            cpu: samples.cpu[index],
            place: samples.place[index],
            address: samples.address[index],
            stack: samples.stack.get(index).copied().flatten(),
        });
        if index % WAITING_SAMPLES == WAITING_SAMPLES - 1 {
            writer.flush()?;
        }
    }
    let code = Code {
        functions: run.functions.clone(),
        files: run.files.clone(),
        lines: run.lines.clone(),
        function_of_place: run.places.iter().map(|place| place.function).collect(),
    };
    writer.finish(&run.about, &code)
}

/// Removes an older recording at `path`, and refuses to remove anything else.
fn make_way(path: &Path) -> Result<(), FileError> {
    let uncreatable =
        |error: std::io::Error| FileError::Uncreatable { path: path.to_owned(), detail: error.to_string() };
    let length = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(uncreatable(error)),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(FileError::Occupied { path: path.to_owned() }),
    };
    if length > 0 && !super::read::is_recording(path) {
        return Err(FileError::Occupied { path: path.to_owned() });
    }
    // An old journal would be applied to the new file.
    match fs::remove_file(guard::beside(path, "-journal")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(uncreatable(error)),
        _ => {}
    }
    fs::remove_file(path).map_err(uncreatable)
}

impl PendingRows {
    fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to.prepare("INSERT OR REPLACE INTO process VALUES(?,?,?,?,?,?,?)")?;
        for (index, p) in &self.processes {
            let (began, ended) = (p.began_ns.cast_signed(), p.ended_ns.map(u64::cast_signed));
            insert.execute(params![index, p.pid, p.parent, p.name, p.executable, began, ended])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO thread VALUES(?,?,?,?,?,?)")?;
        for (index, t) in &self.threads {
            let (began, ended) = (t.began_ns.cast_signed(), t.ended_ns.map(u64::cast_signed));
            insert.execute(params![index, t.tid, t.process, t.name, began, ended])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO module VALUES(?,?,?,?,?)")?;
        for (index, m) in &self.modules {
            insert.execute(params![index, m.path, m.kind.word(), m.build_id, m.problem])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO place VALUES(?,?,?,?)")?;
        for (index, p) in &self.places {
            insert.execute(params![index, p.module, p.address.cast_signed(), p.function])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO stack VALUES(?,?)")?;
        for (index, places) in &self.stacks {
            insert.execute(params![index, json(places)])?;
        }
        self.data.write(to)?;
        self.write_measured(to)
    }

    /// What there may be much of.
    fn drop_measured(&mut self) {
        self.samples = Vec::new();
        self.slices = Vec::new();
        self.loads.samples = Vec::new();
        self.data.drop_measured();
    }

    fn write_measured(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to
            .prepare("INSERT INTO sample(time_ns, thread, cpu, place, address, stack) VALUES(?,?,?,?,?,?)")?;
        for s in &self.samples {
            let address = s.address.map(|address| address.get().cast_signed());
            insert.execute(params![s.time_ns.cast_signed(), s.thread, s.cpu, s.place, address, s.stack])?;
        }
        let mut insert = to.prepare(
            "INSERT INTO slice(thread, slice, running_ns, blocked_ns, preempted_ns) VALUES(?,?,?,?,?)",
        )?;
        for s in &self.slices {
            let [running, blocked, preempted] =
                [s.running_ns, s.blocked_ns, s.preempted_ns].map(u64::cast_signed);
            insert.execute(params![s.thread, s.slice, running, blocked, preempted])?;
        }
        self.loads.write(to)?;
        let mut insert = to.prepare("INSERT INTO remark(text) VALUES(?)")?;
        self.remarks.iter().try_for_each(|text| insert.execute([text]).map(drop))
    }

    /// Keeps the room for the next batch.
    fn clear(&mut self) {
        self.processes.clear();
        self.threads.clear();
        self.modules.clear();
        self.places.clear();
        self.samples.clear();
        self.slices.clear();
        self.stacks.clear();
        self.data.clear();
        self.loads.clear();
        self.remarks.clear();
    }
}

fn write_about(to: &Connection, about: &About) -> rusqlite::Result<()> {
    to.execute("DELETE FROM about", [])?;
    to.execute("DELETE FROM argument", [])?;
    let mut insert = to.prepare("INSERT INTO about VALUES(?,?)")?;
    about::pairs(about).into_iter().try_for_each(|pair| insert.execute(pair).map(drop))?;
    let mut insert = to.prepare("INSERT INTO argument VALUES(?,?)")?;
    about
        .command
        .iter()
        .enumerate()
        .try_for_each(|(index, text)| insert.execute(params![index as i64, text]).map(drop))
}

fn write_code(to: &Connection, code: &Code) -> rusqlite::Result<()> {
    let mut insert = to.prepare("INSERT INTO function VALUES(?,?,?,?,?,?,?)")?;
    for (index, f) in code.functions.iter().enumerate() {
        let (start, end) = (f.start.cast_signed(), f.end.cast_signed());
        insert.execute(params![index as i64, f.module, f.symbol, f.name, start, end, f.code])?;
    }
    let mut insert = to.prepare("INSERT INTO file VALUES(?,?)")?;
    for (index, path) in code.files.iter().enumerate() {
        insert.execute(params![index as i64, path])?;
    }
    let mut insert = to.prepare("INSERT INTO line VALUES(?,?,?,?,?,?)")?;
    for (index, l) in code.lines.iter().enumerate() {
        let (start, end) = (l.start.cast_signed(), l.end.cast_signed());
        insert.execute(params![index as i64, l.module, start, end, l.file, l.line])?;
    }
    let mut update = to.prepare("UPDATE place SET function = ? WHERE id = ?")?;
    for (index, function) in code.function_of_place.iter().enumerate() {
        update.execute(params![function, index as i64])?;
    }
    Ok(())
}
