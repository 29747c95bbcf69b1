//! Which rank of a program of several processes a recording is of: a table of its own, written when the recording is done.
//! Recordings without it are of no rank.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::{
    FileError,
    amend::{amend, is_ours},
};

/// A rank as its launcher numbers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchedRank {
    /// From 0.
    pub rank: u32,
    /// How many there are, if the launcher says so.
    pub ranks: Option<u32>,
    /// The name of the machine it ran on.
    pub node: String,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS rank(
    id INTEGER PRIMARY KEY, rank INTEGER NOT NULL, ranks INTEGER, node TEXT NOT NULL
)";

/// Adds to a recording that is done which rank it is of.
pub fn add_rank(path: &Path, rank: &LaunchedRank) -> Result<(), FileError> {
    amend(path, |to| {
        to.execute_batch(TABLE)?;
        let values = params![rank.rank, rank.ranks, rank.node];
        to.execute("INSERT OR REPLACE INTO rank VALUES(0, ?, ?, ?)", values).map(|_| ())
    })
}

/// The rank that a recording is of; none if it is of none. Whether the recording can be read at all says
/// [`read`](super::read()).
pub fn rank_of(path: &Path) -> Option<LaunchedRank> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).ok()?;
    if !is_ours(&connection).unwrap_or(false) {
        return None;
    }
    super::guard::restrain(&connection, 0).ok()?;
    let row = "SELECT rank, ranks, node FROM rank WHERE id = 0";
    let found = connection.query_row(row, [], |row| {
        Ok(LaunchedRank { rank: row.get(0)?, ranks: row.get(1)?, node: row.get(2)? })
    });
    found.optional().ok().flatten()
}
