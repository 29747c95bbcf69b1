//! What keeps a recording that another user sent us from doing more than being read. SQLite runs what a schema says: a view
//! may go on for ever, a computed column may fill the memory, a journal may have a file removed.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use machine::regular;
use rusqlite::{
    Connection,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};

use super::read::Trouble;

/// All tables that are read of any version.
pub(super) const TABLES_READ: [&str; 43] = [
    "about",
    "argument",
    "process",
    "thread",
    "module",
    "function",
    "file",
    "line",
    "inlined_call",
    "inlined_range",
    "place",
    "sample",
    "burst",
    "pass",
    "load",
    "load_sampling",
    "load_translation",
    "stack",
    "slice",
    "area",
    "variable",
    "site",
    "block",
    "heap_log",
    "relief",
    "relief_state",
    "region",
    "region_sample",
    "region_burst",
    "region_visits",
    "region_waits",
    "region_counts",
    "region_event",
    "events_done",
    "sampled_event",
    "scaling",
    "remark",
    "probe",
    "event_sample",
    "import",
    "import_counts",
    "import_interval",
    "rank",
];

/// The longest text or code; functions are kept up to a quarter of a MiB.
const LONGEST_VALUE_BYTES: i32 = 4 << 20;

/// Steps of SQLite between two looks at how many there were.
const STEPS_AT_ONCE: i32 = 1000;

/// Steps for each byte of the file; reading takes less than two.
const STEPS_PER_BYTE: u64 = 16;

/// Steps that even the smallest file may take.
const STEPS_TO_BEGIN: u64 = 10_000_000;

/// With this begins every rollback journal, and ends one that names a journal above it.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The file that SQLite would use together with the one at `path`.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether SQLite may look at what lies beside the file: it would wait for a pipe.
pub(super) fn has_plain_neighbours(path: &Path) -> bool {
    ["-journal", "-wal", "-shm"]
        .iter()
        .all(|ending| fs::symlink_metadata(beside(path, ending)).map_or(true, |found| found.is_file()))
}

/// Whether the journal beside the file names another file, as none of ours does. SQLite would remove that file once it
/// has applied the journal, whatever it is.
pub(super) fn journal_names_a_file(path: &Path) -> bool {
    let ends_so = |mut journal: File| -> io::Result<bool> {
        let mut end = [0; JOURNAL_MAGIC.len()];
        journal.seek(SeekFrom::End(-(JOURNAL_MAGIC.len() as i64)))?;
        journal.read_exact(&mut end)?;
        Ok(end == JOURNAL_MAGIC)
    };
    regular::open_unlinked(&beside(path, "-journal")).and_then(ends_so).unwrap_or(false)
}

/// Bounds what the connection may do, given the size of the file.
pub(super) fn restrain(connection: &Connection, size_bytes: u64) -> Result<(), Trouble> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)?;
    let mut rounds_left =
        size_bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_TO_BEGIN) / STEPS_AT_ONCE as u64;
    connection.progress_handler(
        STEPS_AT_ONCE,
        Some(move || {
            rounds_left = rounds_left.saturating_sub(1);
            rounds_left == 0
        }),
    )?;
    TABLES_READ.iter().try_for_each(|table| check(connection, table))?;
    connection.authorizer(Some(reading_only))?;
    Ok(())
}

/// A table that is read must be one that holds its rows.
fn check(connection: &Connection, table: &str) -> Result<(), Trouble> {
    let strange = || Trouble::Content(format!("'{table}' is no plain table"));
    connection
        .pragma(None, "table_list", table, |row| match row.get::<_, String>("type")?.as_str() {
            "table" => Ok(()),
            _ => Err(rusqlite::Error::InvalidQuery),
        })
        .map_err(
            |error| if matches!(error, rusqlite::Error::InvalidQuery) { strange() } else { error.into() },
        )?;
    let (mut is_stored, mut is_text) = (true, true);
    connection.pragma(None, "table_xinfo", table, |row| {
        is_stored &= row.get::<_, i64>("hidden")? == 0;
        // Whoever is asked for leave below gets names as text, and panics where they are none.
        is_text &= row.get_ref("name")?.as_str().is_ok();
        Ok(())
    })?;
    match (is_stored, is_text) {
        (true, true) => Ok(()),
        (false, _) => Err(strange()),
        (true, false) => Err(Trouble::Content(format!("a column of '{table}' has a name that is no text"))),
    }
}

/// Columns of tables, asked for by ourselves and not by a view.
fn reading_only(asked: AuthContext<'_>) -> Authorization {
    let is_reading = match asked.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Transaction { .. } => true,
        AuthAction::Function { function_name } => function_name.eq_ignore_ascii_case("max"),
        _ => false,
    };
    if is_reading && asked.accessor.is_none() { Authorization::Allow } else { Authorization::Deny }
}
