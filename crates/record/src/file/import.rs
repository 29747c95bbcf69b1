//! What an imported recording has beyond others: the event and period of each sample, samples of events that are no
//! clock, and counts. Recordings of programs have none of these tables.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    RecordedSample,
    read::{Trouble, has_table, unsigned},
};
use crate::{
    count::{CountedInterval, Counts},
    ids::{PlaceId, ThreadId},
    import::{ImportRecord, SampleMode, TallySum},
};

/// Added to a recording that is imported.
pub(super) const TABLES: &str = "
ALTER TABLE sample ADD COLUMN event INTEGER;
ALTER TABLE sample ADD COLUMN period INTEGER;
CREATE TABLE event_sample(
    id INTEGER PRIMARY KEY, event INTEGER NOT NULL, mode INTEGER NOT NULL, time_ns INTEGER NOT NULL,
    thread INTEGER NOT NULL REFERENCES thread, cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place,
    address INTEGER, stack INTEGER REFERENCES stack, period INTEGER
);
CREATE TABLE import(id INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE import_counts(id INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE import_interval(
    id INTEGER PRIMARY KEY, counts INTEGER NOT NULL REFERENCES import_counts, run INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, document TEXT NOT NULL
);
";

/// A sample of an imported event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSample {
    /// Who, when and where.
    pub sample: RecordedSample,
    /// Index of the event.
    pub event: u32,
    /// In which mode it was taken.
    pub mode: SampleMode,
    /// Events since the sample before; none where the file does not say.
    pub period: Option<u64>,
}

/// What waits to be written.
#[derive(Default)]
pub(super) struct PendingImport {
    /// Of each sample of time that waits, event and period; empty unless it is an import.
    pub of_samples: Vec<(u32, Option<u64>)>,
    /// Other samples.
    pub samples: Vec<EventSample>,
    pub record: Option<ImportRecord>,
}

impl PendingImport {
    pub fn clear(&mut self) {
        self.of_samples.clear();
        self.samples.clear();
        self.record = None;
    }

    pub fn drop_measured(&mut self) {
        self.of_samples = Vec::new();
        self.samples = Vec::new();
    }

    /// Samples of time with what is known of their events.
    pub fn write_timed(&self, to: &Connection, samples: &[RecordedSample]) -> rusqlite::Result<()> {
        let mut insert = to.prepare(
            "INSERT INTO sample(time_ns, thread, cpu, place, address, stack, event, period) VALUES(?,?,?,?,?,?,?,?)",
        )?;
        for (s, (event, period)) in samples.iter().zip(&self.of_samples) {
            let address = s.address.map(|address| address.get().cast_signed());
            let period = period.map(u64::cast_signed);
            insert.execute(params![
                s.time_ns.cast_signed(),
                s.thread,
                s.cpu,
                s.place,
                address,
                s.stack,
                event,
                period
            ])?;
        }
        Ok(())
    }

    pub fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        if !self.samples.is_empty() {
            let mut insert = to.prepare(
                "INSERT INTO event_sample(event, mode, time_ns, thread, cpu, place, address, stack, period) \
                 VALUES(?,?,?,?,?,?,?,?,?)",
            )?;
            for EventSample { sample: s, event, mode, period } in &self.samples {
                let address = s.address.map(|address| address.get().cast_signed());
                insert.execute(params![
                    event,
                    mode.number(),
                    s.time_ns.cast_signed(),
                    s.thread,
                    s.cpu,
                    s.place,
                    address,
                    s.stack,
                    period.map(u64::cast_signed)
                ])?;
            }
        }
        self.record.as_ref().map_or(Ok(()), |record| write_record(to, record))
    }
}

fn write_record(to: &Connection, record: &ImportRecord) -> rusqlite::Result<()> {
    let own = ImportRecord { counts: Vec::new(), tallies: Vec::new(), ..record.clone() };
    to.execute("INSERT OR REPLACE INTO import VALUES(0, ?)", [text(&own)?])?;
    let mut whole = to.prepare("INSERT OR REPLACE INTO import_counts VALUES(?, ?)")?;
    let mut insert =
        to.prepare("INSERT INTO import_interval(counts, run, end_ns, document) VALUES(?,?,?,?)")?;
    for (index, counts) in record.counts.iter().enumerate() {
        // Intervals may be many: each has a row.
        let mut head = counts.clone();
        for (run, counted) in head.runs.iter_mut().enumerate() {
            for interval in std::mem::take(&mut counted.intervals) {
                let end_ns = interval.end_ns.cast_signed();
                insert.execute(params![index as i64, run as i64, end_ns, text(&interval.counts)?])?;
            }
        }
        whole.execute(params![index as i64, text(&head)?])?;
    }
    Ok(())
}

fn text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn parsed<T: serde::de::DeserializeOwned>(document: &str) -> Result<T, Trouble> {
    serde_json::from_str(document).map_err(|error| Trouble::Content(format!("of an import: {error}")))
}

/// What was imported; none of a recording of a program.
pub(super) fn read(from: &Connection) -> Result<Option<ImportRecord>, Trouble> {
    for table in ["import", "import_counts", "import_interval", "event_sample"] {
        if !has_table(from, table)? {
            return Ok(None);
        }
    }
    let document =
        from.query_row("SELECT document FROM import WHERE id = 0", [], |row| row.get::<_, String>(0));
    let Some(document) = document.optional()? else { return Ok(None) };
    let mut record: ImportRecord = parsed(&document)?;
    record.counts = counts(from)?;
    let mut sum = TallySum::default();
    let mut statement = from.prepare("SELECT event, place FROM sample WHERE event IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        sum.add(row.get(0)?, row.get(1)?, SampleMode::User);
    }
    each_event_sample(from, &mut |found| {
        sum.add(found.event, found.sample.place, found.mode);
        Ok(())
    })?;
    record.tallies = sum.finish();
    Ok(Some(record))
}

fn counts(from: &Connection) -> Result<Vec<Counts>, Trouble> {
    let mut statement = from.prepare("SELECT document FROM import_counts ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut all: Vec<Counts> = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(parsed(&row.get::<_, String>(0)?)?);
    }
    let mut statement =
        from.prepare("SELECT counts, run, end_ns, document FROM import_interval ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (counts, run): (u32, u32) = (row.get(0)?, row.get(1)?);
        let run = all.get_mut(counts as usize).and_then(|counts| counts.runs.get_mut(run as usize));
        let run = run.ok_or_else(|| Trouble::Content("an interval is of no counts".to_owned()))?;
        let interval =
            CountedInterval { end_ns: unsigned(row, 2)?, counts: parsed(&row.get::<_, String>(3)?)? };
        run.intervals.push(interval);
    }
    Ok(all)
}

/// All samples there are.
pub(super) fn all_samples(from: &Connection) -> Result<Vec<EventSample>, Trouble> {
    let mut all = Vec::new();
    let mut statement =
        from.prepare("SELECT event, time_ns, thread, cpu, place, period FROM sample ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sample = RecordedSample {
            time_ns: unsigned(row, 1)?,
            thread: row.get(2)?,
            cpu: row.get(3)?,
            place: row.get(4)?,
            address: None,
            stack: None,
        };
        let period = row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned);
        all.push(EventSample { sample, event: row.get(0)?, mode: SampleMode::User, period });
    }
    each_event_sample(from, &mut |found| {
        all.push(found);
        Ok(())
    })?;
    Ok(all)
}

/// Hands out every row of `event_sample`.
fn each_event_sample(
    from: &Connection,
    each: &mut dyn FnMut(EventSample) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let columns = "event, mode, time_ns, thread, cpu, place, period";
    let mut statement = from.prepare(&format!("SELECT {columns} FROM event_sample ORDER BY id"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mode: u8 = row.get(1)?;
        each(EventSample {
            event: row.get(0)?,
            mode: SampleMode::from_number(mode)
                .ok_or_else(|| Trouble::Content(format!("{mode} is no mode of a sample")))?,
            sample: RecordedSample {
                time_ns: unsigned(row, 2)?,
                thread: row.get::<_, ThreadId>(3)?,
                cpu: row.get(4)?,
                place: row.get::<_, PlaceId>(5)?,
                address: None,
                stack: None,
            },
            period: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        })?;
    }
    Ok(())
}
