//! Reading a recording back.

use std::{collections::BTreeMap, io::Read as _, num::NonZeroU64, path::Path, time::Duration};

use machine::regular;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, types::Value};

use super::{
    EventSample, FileError, about, data, guard, import, loads, probes, regions, relief, sampled, scaling,
    schema::{APPLICATION_ID, VERSION},
};
use crate::{
    data::{Area, AreaKind, Data},
    inlined::{InlinedCall, InlinedCode, InlinedRange},
    loads::LoadSamples,
    regions::RegionId,
    run::{
        Function, LineRange, Module, ModuleKind, Place, Process, RecordedThread, Run, Samples, Slice,
        SlowedSampling,
    },
};

/// How long we wait for memwall to finish a commit.
const PATIENCE: Duration = Duration::from_secs(5);

/// Twice the code that is recorded at most: all of it is decoded.
const MOST_CODE_BYTES: usize = 128 << 20;

/// With this begins every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Reads the recording at `path`, also one that was cut off or is still being written.
pub fn read(path: &Path) -> Result<Run, FileError> {
    let run = look_into(path, tables)?;
    check(&run).map_err(|detail| FileError::Damaged { path: path.to_owned(), detail })?;
    Ok(run)
}

/// All samples of an imported recording with their events and periods: those of time first, then the others.
pub fn imported_samples(path: &Path) -> Result<Vec<EventSample>, FileError> {
    look_into(path, |from, _| sampled::all_samples(from))
}

/// Reads of a recording what `look` wants, without letting it do more than being read.
fn look_into<T>(
    path: &Path,
    look: impl FnOnce(&Connection, i64) -> Result<T, Trouble>,
) -> Result<T, FileError> {
    let (connection, version) = open(path)?;
    // One transaction, so that all tables are of the same moment.
    let failed = |error: rusqlite::Error| FileError::reading(path, &error);
    connection.execute_batch("BEGIN").map_err(failed)?;
    let size_bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    let found = guard::restrain(&connection, size_bytes).and_then(|()| look(&connection, version));
    found.map_err(|trouble| match trouble {
        Trouble::Sqlite(error) => failed(error),
        Trouble::Content(detail) => FileError::Damaged { path: path.to_owned(), detail },
    })
}

/// Whether the file at `path` is a recording of any version; also where a process holds it, or was killed writing it.
pub(super) fn is_recording(path: &Path) -> bool {
    // Where SQLite keeps what its application_id is.
    const ID_AT: usize = 68;
    let id = APPLICATION_ID.to_be_bytes();
    let begin = beginning(path, ID_AT + 4).unwrap_or_default();
    begin.starts_with(MAGIC) && begin.get(ID_AT..) == id.get(4..)
}

fn beginning(path: &Path, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    regular::open(path)?.take(bytes as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

fn begins_like_sqlite(path: &Path) -> std::io::Result<bool> {
    beginning(path, MAGIC.len()).map(|begin| begin == MAGIC)
}

/// The connection and the version of what is in it.
fn open(path: &Path) -> Result<(Connection, i64), FileError> {
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => FileError::Missing { path: path.to_owned() },
        _ => FileError::Unreadable { path: path.to_owned(), source },
    };
    let foreign = |is| FileError::Foreign { path: path.to_owned(), is };
    match begins_like_sqlite(path) {
        Ok(true) => {}
        Ok(false) => return Err(foreign("no SQLite file")),
        Err(error) if regular::is_not_regular(&error) => return Err(foreign("not a regular file")),
        Err(error) => return Err(unreadable(error)),
    }
    if !guard::has_plain_neighbours(path) {
        return Err(foreign("its journal is not a regular file"));
    }
    let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read_write = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // A journal left behind is applied only by one who may write.
    let opened = identify(path, read_only).or_else(|error| match error {
        FileError::Interrupted { path, .. } if guard::journal_names_a_file(&path) => {
            let detail = "it names another file, which SQLite would remove".to_owned();
            Err(FileError::Interrupted { path, detail })
        }
        FileError::Interrupted { .. } => identify(path, read_write),
        other => Err(other),
    });
    let (connection, application, version) = opened?;
    match (application, version) {
        (APPLICATION_ID, 1..=VERSION) => Ok((connection, version)),
        (APPLICATION_ID, 0) => Err(FileError::Damaged {
            path: path.to_owned(),
            detail: "memwall was killed before it began".into(),
        }),
        (APPLICATION_ID, found) => Err(FileError::Newer { path: path.to_owned(), found, known: VERSION }),
        _ => Err(foreign("a SQLite file of another program")),
    }
}

/// The connection, application id and version.
fn identify(path: &Path, flags: OpenFlags) -> Result<(Connection, i64, i64), FileError> {
    let work = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get(0));
        let (application, version) = (number("application_id")?, number("user_version")?);
        Ok((connection, application, version))
    };
    work().map_err(|error| FileError::reading(path, &error))
}

pub(super) enum Trouble {
    Sqlite(rusqlite::Error),
    Content(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn tables(from: &Connection, version: i64) -> Result<Run, Trouble> {
    let has_data = version >= 2;
    let about_pairs: BTreeMap<String, Value> = from
        .prepare("SELECT key, value FROM about")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let command = rows(from, "argument", "text", |row| row.get(1))?;
    let mut samples_of_time = samples(from, "sample", has_data)?;
    let later = |table| match has_table(from, table)? {
        true => samples(from, table, false),
        false => Ok(Samples::default()),
    };
    let (bursts, passes) = (later("burst")?, later("pass")?);
    let mut about = about::from_pairs(&about_pairs, command).map_err(Trouble::Content)?;
    let import = import::read(from)?.map(Box::new);
    let mut regions = regions::read(from, (samples_of_time.time_ns.len(), bursts.time_ns.len()))?;
    if let Some(slowed) = &mut about.slowed {
        thin(&mut samples_of_time, &mut regions.of_samples, slowed);
        // All that are left count.
        slowed.counted_before = 1.0;
    }
    Ok(Run {
        sampled: sampled::read(from, import.as_deref(), about.slice_ns)?,
        about,
        processes: rows(from, "process", "pid, parent_pid, name, executable, began_ns, ended_ns", process)?,
        threads: rows(from, "thread", "tid, process, name, began_ns, ended_ns", thread)?,
        modules: modules(from)?,
        functions: rows(from, "function", "module, symbol, name, start, end, code", function)?,
        files: rows(from, "file", "path", |row| row.get(1))?,
        lines: rows(from, "line", "module, start, end, file, line", line)?,
        inlined: if version >= 4 { inlined(from)? } else { InlinedCode::default() },
        places: rows(from, "place", "module, address, function", place)?,
        loads: if version >= 3 { loads::read(from)? } else { LoadSamples::NotAsked },
        relief: relief::read(from)?,
        regions,
        samples: samples_of_time,
        bursts,
        passes,
        probes: probes::read(from)?,
        scaling: scaling::read(from)?,
        import,
        stacks: if has_data { data::read_stacks(from)? } else { Vec::new() },
        data: if has_data { data::read(from)? } else { Data::default() },
        slices: slices(from)?,
        remarks: rows_from(from, "remark", "text", 1, |row| row.get(1))?,
    })
}

/// All rows of `table` in order. Their numbers must be 0, 1, 2 and so on, since other tables name them by it.
pub(super) fn rows<T>(
    from: &Connection,
    table: &str,
    columns: &str,
    of: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Trouble> {
    rows_from(from, table, columns, 0, of)
}

fn rows_from<T>(
    from: &Connection,
    table: &str,
    columns: &str,
    first: i64,
    of: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Trouble> {
    let mut statement = from.prepare(&format!("SELECT id, {columns} FROM {table} ORDER BY id"))?;
    let mut found = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let (id, expected): (i64, i64) = (row.get(0)?, first + all.len() as i64);
        if id != expected {
            return Err(Trouble::Content(format!("row {expected} of table {table} is missing")));
        }
        all.push(of(row)?);
    }
    Ok(all)
}

/// SQLite's integers are signed; times and addresses are not.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

pub(super) fn maybe_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

fn process(row: &Row<'_>) -> rusqlite::Result<Process> {
    Ok(Process {
        pid: row.get(1)?,
        parent: row.get(2)?,
        name: row.get(3)?,
        executable: row.get(4)?,
        began_ns: unsigned(row, 5)?,
        ended_ns: maybe_unsigned(row, 6)?,
    })
}

fn thread(row: &Row<'_>) -> rusqlite::Result<RecordedThread> {
    Ok(RecordedThread {
        tid: row.get(1)?,
        process: row.get(2)?,
        name: row.get(3)?,
        began_ns: unsigned(row, 4)?,
        ended_ns: maybe_unsigned(row, 5)?,
    })
}

fn modules(from: &Connection) -> Result<Vec<Module>, Trouble> {
    let raw = rows(from, "module", "path, kind, build_id, problem", |row| {
        Ok((row.get(1)?, row.get::<_, String>(2)?, row.get(3)?, row.get(4)?))
    })?;
    raw.into_iter()
        .map(|(path, kind, build_id, problem)| {
            let kind = ModuleKind::from_word(&kind)
                .ok_or_else(|| Trouble::Content(format!("'{kind}' is no kind of module")))?;
            Ok(Module { path, kind, build_id, problem })
        })
        .collect()
}

fn function(row: &Row<'_>) -> rusqlite::Result<Function> {
    Ok(Function {
        module: row.get(1)?,
        symbol: row.get(2)?,
        name: row.get(3)?,
        start: unsigned(row, 4)?,
        end: unsigned(row, 5)?,
        code: row.get(6)?,
    })
}

fn line(row: &Row<'_>) -> rusqlite::Result<LineRange> {
    Ok(LineRange {
        module: row.get(1)?,
        start: unsigned(row, 2)?,
        end: unsigned(row, 3)?,
        file: row.get(4)?,
        line: row.get(5)?,
    })
}

fn inlined(from: &Connection) -> Result<InlinedCode, Trouble> {
    let calls = rows(from, "inlined_call", "function, file, line, caller", |row| {
        Ok(InlinedCall { function: row.get(1)?, file: row.get(2)?, line: row.get(3)?, caller: row.get(4)? })
    })?;
    let ranges = rows(from, "inlined_range", "module, start, end, call", |row| {
        Ok(InlinedRange {
            module: row.get(1)?,
            start: unsigned(row, 2)?,
            end: unsigned(row, 3)?,
            call: row.get(4)?,
        })
    })?;
    Ok(InlinedCode { ranges, calls })
}

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place { module: row.get(1)?, address: unsigned(row, 2)?, function: row.get(3)? })
}

fn slices(from: &Connection) -> Result<Vec<Slice>, Trouble> {
    let mut statement =
        from.prepare("SELECT thread, slice, running_ns, blocked_ns, preempted_ns FROM slice ORDER BY id")?;
    let found = statement.query_map([], |row| {
        Ok(Slice {
            thread: row.get(0)?,
            slice: row.get(1)?,
            running_ns: unsigned(row, 2)?,
            blocked_ns: unsigned(row, 3)?,
            preempted_ns: unsigned(row, 4)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Whether there is a table that recordings of any version may lack.
pub(super) fn has_table(from: &Connection, name: &str) -> Result<bool, Trouble> {
    let is_there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?";
    Ok(from.query_row(is_there, [name], |_| Ok(())).optional()?.is_some())
}

fn samples(from: &Connection, table: &str, has_stacks: bool) -> Result<Samples, Trouble> {
    // Only room to begin with; a wrong number costs nothing but time, and little room if it is too large.
    let count: Option<i64> = from.query_row(&format!("SELECT max(id) FROM {table}"), [], |row| row.get(0))?;
    let room = usize::try_from(count.unwrap_or(0)).unwrap_or(0).min(1 << 22);
    let mut samples = Samples {
        time_ns: Vec::with_capacity(room),
        thread: Vec::with_capacity(room),
        cpu: Vec::with_capacity(room),
        place: Vec::with_capacity(room),
        address: Vec::with_capacity(room),
        stack: Vec::with_capacity(if has_stacks { room } else { 0 }),
    };
    let stack = if has_stacks { "stack" } else { "NULL" };
    let mut statement = from
        .prepare(&format!("SELECT time_ns, thread, cpu, place, address, {stack} FROM {table} ORDER BY id"))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        samples.time_ns.push(unsigned(row, 0)?);
        samples.thread.push(row.get(1)?);
        samples.cpu.push(row.get(2)?);
        samples.place.push(row.get(3)?);
        samples.address.push(maybe_unsigned(row, 4)?.and_then(NonZeroU64::new));
        samples.stack.push(row.get(5)?);
    }
    if samples.stack.iter().all(Option::is_none) {
        samples.stack = Vec::new();
    }
    if !samples.time_ns.is_sorted() {
        sort(&mut samples);
    }
    Ok(samples)
}

/// Leaves out samples of before sampling was slowed down, by chance, so that all stand for the same time.
fn thin(samples: &mut Samples, regions: &mut Vec<Option<RegionId>>, slowed: &SlowedSampling) {
    let counts: Vec<bool> =
        samples.time_ns.iter().enumerate().map(|(number, &time_ns)| slowed.counts(number, time_ns)).collect();
    fn keep<T>(column: &mut Vec<T>, counts: &[bool]) {
        let mut which = counts.iter();
        // Columns may be empty as a whole.
        column.retain(|_| which.next().is_none_or(|counts| *counts));
    }
    keep(&mut samples.time_ns, &counts);
    keep(&mut samples.thread, &counts);
    keep(&mut samples.cpu, &counts);
    keep(&mut samples.place, &counts);
    keep(&mut samples.address, &counts);
    keep(&mut samples.stack, &counts);
    keep(regions, &counts);
}

fn sort(samples: &mut Samples) {
    let mut order: Vec<usize> = (0..samples.time_ns.len()).collect();
    order.sort_by_key(|&index| samples.time_ns[index]);
    fn pick<T: Copy>(column: &mut Vec<T>, order: &[usize]) {
        *column = order.iter().map(|&index| column[index]).collect();
    }
    pick(&mut samples.time_ns, &order);
    pick(&mut samples.thread, &order);
    pick(&mut samples.cpu, &order);
    pick(&mut samples.place, &order);
    pick(&mut samples.address, &order);
    if !samples.stack.is_empty() {
        pick(&mut samples.stack, &order);
    }
}

/// Every number that names a row of another table must name one that exists.
fn check(run: &Run) -> Result<(), String> {
    let within = |what: &str, largest: Option<u32>, count: usize| match largest {
        Some(largest) if largest as usize >= count => {
            Err(format!("{what} {largest} is named, but there are {count}"))
        }
        _ => Ok(()),
    };
    let code_bytes: usize =
        run.functions.iter().filter_map(|function| Some(function.code.as_ref()?.len())).sum();
    if code_bytes > MOST_CODE_BYTES {
        return Err(format!("it holds {code_bytes} bytes of code, more than is ever recorded"));
    }
    within("process", run.threads.iter().map(|thread| thread.process.0).max(), run.processes.len())?;
    within("thread", run.samples.thread.iter().map(|id| id.0).max(), run.threads.len())?;
    within("thread", run.bursts.thread.iter().map(|id| id.0).max(), run.threads.len())?;
    within("place", run.bursts.place.iter().map(|id| id.0).max(), run.places.len())?;
    within("thread", run.passes.thread.iter().map(|id| id.0).max(), run.threads.len())?;
    within("place", run.passes.place.iter().map(|id| id.0).max(), run.places.len())?;
    within("thread", run.slices.iter().map(|slice| slice.thread.0).max(), run.threads.len())?;
    within("thread", run.loads.taken().iter().map(|load| load.thread.0).max(), run.threads.len())?;
    within("place", run.loads.taken().iter().map(|load| load.place.0).max(), run.places.len())?;
    within("thread", run.regions.visits.iter().map(|one| one.thread.0).max(), run.threads.len())?;
    within("module", run.relief.loops().iter().map(|found| found.module.0).max(), run.modules.len())?;
    within("place", run.samples.place.iter().map(|id| id.0).max(), run.places.len())?;
    let tallies = &run.sampled.tallies;
    within("place", tallies.iter().map(|tally| tally.place.0).max(), run.places.len())?;
    within("event", tallies.iter().map(|tally| tally.event).max(), run.sampled.list.len())?;
    let regions = tallies.iter().filter_map(|tally| Some(tally.region?.0));
    within("region", regions.max(), run.regions.list.len())?;
    let modules = run.places.iter().map(|place| place.module.0);
    let modules = modules.chain(run.functions.iter().map(|function| function.module.0));
    within("module", modules.chain(run.lines.iter().map(|line| line.module.0)).max(), run.modules.len())?;
    within(
        "function",
        run.places.iter().filter_map(|place| Some(place.function?.0)).max(),
        run.functions.len(),
    )?;
    within("file", run.lines.iter().map(|line| line.file).max(), run.files.len())?;
    let InlinedCode { ranges, calls } = &run.inlined;
    within("module", ranges.iter().map(|range| range.module.0).max(), run.modules.len())?;
    within("inlined call", ranges.iter().map(|range| range.call).max(), calls.len())?;
    within("file", calls.iter().filter_map(|call| call.file).max(), run.files.len())?;
    if let Some(index) =
        (0..calls.len()).find(|&index| calls[index].caller.is_some_and(|caller| caller as usize >= index))
    {
        return Err(format!("inlined call {index} is inside of a later one"));
    }
    within("stack", run.samples.stack.iter().flatten().copied().max(), run.stacks.len())?;
    within("place", run.stacks.iter().flatten().map(|id| id.0).max(), run.places.len())?;
    let processes = run.data.areas.iter().map(|area| area.process);
    let processes = processes.chain(run.data.variables.iter().map(|variable| variable.process));
    let processes = processes.chain(run.data.blocks.iter().map(|block| block.process));
    let processes = processes.chain(run.data.heap.iter().map(|log| log.process));
    let processes = processes.chain(run.data.heap.iter().filter_map(|log| log.inherits));
    within("process", processes.map(|id| id.0).max(), run.processes.len())?;
    within("thread", run.data.areas.iter().filter_map(stack_of).max(), run.threads.len())?;
    within("site", run.data.blocks.iter().filter_map(|block| block.site).max(), run.data.sites.len())
}

fn stack_of(area: &Area) -> Option<u32> {
    match area.kind {
        AreaKind::Stack(thread) => Some(thread.0),
        _ => None,
    }
}
