//! Runs with other numbers of threads, in the recording of one of them: a table of its own, written when all are done.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{FileError, amend::amend, read::Trouble};
use crate::scaling::Scaling;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS scaling(id INTEGER PRIMARY KEY, document TEXT NOT NULL)";

/// Adds what a series of runs found to the recording of one of them.
pub fn add_scaling(path: &Path, scaling: &Scaling) -> Result<(), FileError> {
    // Numbers and text always have a form.
    let document = serde_json::to_string(scaling).unwrap_or_default();
    amend(path, |to| {
        to.execute_batch(TABLE)?;
        to.execute("INSERT OR REPLACE INTO scaling VALUES(0, ?)", params![document]).map(|_| ())
    })
}

pub(super) fn read(from: &Connection) -> Result<Option<Scaling>, Trouble> {
    let Ok(mut statement) = from.prepare("SELECT document FROM scaling WHERE id = 0") else {
        return Ok(None);
    };
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let document: String = row.get(0)?;
    let parsed = serde_json::from_str(&document);
    parsed.map(Some).map_err(|error| Trouble::Content(format!("the table 'scaling' is no series: {error}")))
}
