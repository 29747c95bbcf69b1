//! What an imported recording has beyond others: the event and period of each sample of time, and counts. Recordings of
//! programs have none of these tables.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    RecordedSample,
    read::{Trouble, has_table, unsigned},
};
use crate::{
    count::{CountedInterval, Counts},
    import::ImportRecord,
};

/// Added to a recording that is imported.
pub(super) const TABLES: &str = "
ALTER TABLE sample ADD COLUMN event INTEGER;
ALTER TABLE sample ADD COLUMN period INTEGER;
CREATE TABLE import(id INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE import_counts(id INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE import_interval(
    id INTEGER PRIMARY KEY, counts INTEGER NOT NULL REFERENCES import_counts, run INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, document TEXT NOT NULL
);
";

/// What waits to be written.
#[derive(Default)]
pub(super) struct PendingImport {
    /// Of each sample of time that waits, event and period; empty unless it is an import.
    pub of_samples: Vec<(u32, Option<u64>)>,
    pub record: Option<ImportRecord>,
}

impl PendingImport {
    pub fn clear(&mut self) {
        self.of_samples.clear();
        self.record = None;
    }

    pub fn drop_measured(&mut self) {
        self.of_samples = Vec::new();
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
        self.record.as_ref().map_or(Ok(()), |record| write_record(to, record))
    }
}

fn write_record(to: &Connection, record: &ImportRecord) -> rusqlite::Result<()> {
    let own = ImportRecord { counts: Vec::new(), ..record.clone() };
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

pub(super) fn text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(super) fn parsed<T: serde::de::DeserializeOwned>(document: &str) -> Result<T, Trouble> {
    serde_json::from_str(document)
        .map_err(|error| Trouble::Content(format!("of events or an import: {error}")))
}

/// What was imported; none of a recording of a program.
pub(super) fn read(from: &Connection) -> Result<Option<ImportRecord>, Trouble> {
    for table in ["import", "import_counts", "import_interval"] {
        if !has_table(from, table)? {
            return Ok(None);
        }
    }
    let document =
        from.query_row("SELECT document FROM import WHERE id = 0", [], |row| row.get::<_, String>(0));
    let Some(document) = document.optional()? else { return Ok(None) };
    let mut record: ImportRecord = parsed(&document)?;
    record.counts = counts(from)?;
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
