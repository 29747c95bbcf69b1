//! Recordings: read, analysed and written down in every form.

use std::{fs, path::Path};

use analysis::{reading::Reading, timer::TimerOptions};
use report::{json::RunDocument, terminal::run::Detail};
use rusqlite::{Connection, types::Value};

use crate::seeds;

/// Bytes of an edit: table, column, row (two), kind of value, the value (eight).
const EDIT_BYTES: usize = 13;

/// Any bytes in the place of a recording.
pub fn file(bytes: &[u8]) -> bool {
    let Ok(folder) = seeds::folder() else { return false };
    let path = folder.path().join("a.sqlite");
    fs::write(&path, bytes).is_ok() && is_read(&path)
}

/// A sound database with values that the recorder would not have written: the bytes say which.
pub fn values(bytes: &[u8]) -> bool {
    let Ok(folder) = seeds::folder() else { return false };
    let path = folder.path().join("a.sqlite");
    let Some((which, edits)) = bytes.split_first() else { return false };
    let recordings = seeds::recordings();
    let Some(recording) = recordings.get(usize::from(*which) % recordings.len().max(1)) else { return false };
    fs::write(&path, recording).is_ok() && edit(&path, edits).is_ok() && is_read(&path)
}

fn edit(path: &Path, edits: &[u8]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    let tables = names(&connection, "SELECT name FROM sqlite_master WHERE type = ?1 ORDER BY name", "table")?;
    let transaction = connection.transaction()?;
    for edit in edits.chunks_exact(EDIT_BYTES).take(64) {
        let table = &tables[usize::from(edit[0]) % tables.len()];
        let columns = names(&transaction, "SELECT name FROM pragma_table_info(?1)", table)?;
        let column = &columns[usize::from(edit[1]) % columns.len()];
        let row = u16::from_le_bytes([edit[2], edit[3]]);
        let update = format!(
            "UPDATE OR IGNORE {table} SET {column} = ?1
             WHERE rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET ?2 % max(1, (SELECT count(*) FROM {table})))"
        );
        // What the schema forbids nobody can write.
        let _ = transaction.execute(&update, rusqlite::params![value(edit[4], &edit[5..]), row]);
    }
    transaction.commit()
}

fn names(connection: &Connection, query: &str, of: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare(query)?.query_map([of], |row| row.get(0))?.collect()
}

fn value(kind: u8, bytes: &[u8]) -> Value {
    let number = i64::from_le_bytes(bytes.try_into().unwrap_or_default());
    match kind % 7 {
        0 => Value::Null,
        1 => Value::Integer(number),
        2 => Value::Integer(number >> 40),
        3 => Value::Integer(number.rem_euclid(16)),
        4 => Value::Real(f64::from_bits(number.cast_unsigned())),
        5 => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        _ => Value::Blob(bytes.to_vec()),
    }
}

fn is_read(path: &Path) -> bool {
    let Ok(run) = record::file::read(path) else { return false };
    let reading = Reading::of(&run, None, &TimerOptions::default());
    let detail = Detail { top: None, verbose: true };
    let _ = report::terminal::run::text(&reading.findings, Some(&reading.objects), detail, 100);
    let _ = serde_json::to_vec(&RunDocument::new(&reading));
    let no_source = report::html::SourceReading { text: Box::new(|_| None), otherwise: None };
    let _ = report::html::recording(&run, &reading, None, &no_source);
    let _ = report::export::folded(&run);
    let _ = serde_json::to_vec(&report::export::firefox(&run, &reading.findings));
    true
}
