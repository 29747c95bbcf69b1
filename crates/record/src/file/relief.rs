//! Relieved loops in a recording.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::read::{Trouble, has_table};
use crate::{
    ids::ModuleId,
    relief::{ReliefCost, ReliefRecord, ReliefRefusal, RelievedLoop},
};

/// Writes what relief found, in place of what was there.
pub(super) fn write(to: &Connection, relief: &ReliefRecord) -> rusqlite::Result<()> {
    let refusal = match relief {
        ReliefRecord::NotAsked => return Ok(()),
        ReliefRecord::Refused(refusal) => Some(refusal),
        ReliefRecord::Tried { .. } => None,
    };
    let cost = match relief {
        ReliefRecord::Tried { cost, .. } => Some(text(cost)?),
        _ => None,
    };
    let refusal = refusal.map(text).transpose()?;
    to.execute("INSERT OR REPLACE INTO relief_state VALUES(0, ?, ?)", params![refusal, cost])?;
    let mut insert = to.prepare("INSERT OR REPLACE INTO relief VALUES(?,?,?,?,?,?,?,?,?)")?;
    for (index, found) in relief.loops().iter().enumerate() {
        let (share, near, turn) = (found.share, found.near_ns, found.turn_ns);
        insert.execute(params![
            index as i64,
            found.module,
            found.tid,
            share.map(|share| share.value),
            share.map(|share| share.low),
            share.map(|share| share.high),
            near.map(|near| near.value),
            turn.map(|turn| turn.value),
            text(found)?,
        ])?;
    }
    Ok(())
}

fn text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Reads it; recordings that were made before there was relief have none.
pub(super) fn read(from: &Connection) -> Result<ReliefRecord, Trouble> {
    for table in ["relief_state", "relief"] {
        if !has_table(from, table)? {
            return Ok(ReliefRecord::NotAsked);
        }
    }
    let state = from.query_row("SELECT refusal, cost FROM relief_state WHERE id = 0", [], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
    });
    let Some((refusal, cost)) = state.optional()? else { return Ok(ReliefRecord::NotAsked) };
    if let Some(refusal) = refusal {
        return Ok(ReliefRecord::Refused(parsed::<ReliefRefusal>(&refusal)?));
    }
    let cost = cost.map_or_else(|| Ok(ReliefCost::default()), |cost| parsed(&cost))?;
    let mut statement = from.prepare("SELECT module, document FROM relief ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut loops = Vec::new();
    while let Some(row) = rows.next()? {
        let mut found: RelievedLoop = parsed(&row.get::<_, String>(1)?)?;
        found.module = row.get::<_, ModuleId>(0)?;
        loops.push(found);
    }
    Ok(ReliefRecord::Tried { loops, cost })
}

fn parsed<T: serde::de::DeserializeOwned>(document: &str) -> Result<T, Trouble> {
    serde_json::from_str(document).map_err(|error| Trouble::Content(format!("of relief: {error}")))
}
