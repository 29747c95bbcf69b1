//! Adding to a recording that is done.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction};

use super::{FileError, schema::APPLICATION_ID};

/// Whether a file that SQLite could open is a recording.
pub(super) fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(application == APPLICATION_ID)
}

/// Writes all of it or nothing.
pub(super) fn amend(
    path: &Path,
    write: impl Fn(&Transaction<'_>) -> rusqlite::Result<()>,
) -> Result<(), FileError> {
    let add = || -> rusqlite::Result<bool> {
        let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(std::time::Duration::from_secs(2))?;
        if !is_ours(&connection)? {
            return Ok(false);
        }
        let transaction = connection.transaction()?;
        write(&transaction)?;
        transaction.commit()?;
        Ok(true)
    };
    match add() {
        Ok(true) => Ok(()),
        Ok(false) => Err(FileError::Foreign { path: path.to_owned(), is: "another SQLite file" }),
        Err(error) => Err(FileError::writing(path, &error)),
    }
}
