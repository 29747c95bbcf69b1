//! Regions in a recording.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::read::{Trouble, has_table};
use crate::{
    ids::ThreadId,
    regions::{EventsDone, Region, RegionCounts, RegionId, RegionVisits, Regions},
};

/// What was handed over and is not yet committed. Samples and bursts by their number, from 1 on.
#[derive(Default)]
pub(super) struct PendingRegions {
    pub list: Vec<(RegionId, Region)>,
    pub samples: Vec<(u64, RegionId)>,
    pub bursts: Vec<(u64, RegionId)>,
    pub visits: Vec<RegionVisits>,
    pub events: Option<EventsDone>,
}

impl PendingRegions {
    pub fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to.prepare("INSERT OR REPLACE INTO region VALUES(?,?,?)")?;
        for (RegionId(id), region) in &self.list {
            insert.execute(params![id, region.name, region.is_parallel])?;
        }
        for (table, rows) in [("region_sample", &self.samples), ("region_burst", &self.bursts)] {
            let mut insert = to.prepare(&format!("INSERT OR REPLACE INTO {table} VALUES(?,?)"))?;
            for (number, RegionId(region)) in rows {
                insert.execute(params![number.cast_signed(), region])?;
            }
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO region_visits VALUES(?,?,?,?,?)")?;
        for one in &self.visits {
            let [visits, unended, wall] = [one.visits, one.unended, one.wall_ns].map(u64::cast_signed);
            insert.execute(params![one.region.0, one.thread, visits, unended, wall])?;
        }
        self.write_counts(to)?;
        if let Some(events) = &self.events {
            let [done, skipped, last] = [events.done, events.skipped, events.last_ns].map(u64::cast_signed);
            let first = events.first_ns.map(u64::cast_signed);
            let mut insert = to.prepare("INSERT OR REPLACE INTO events_done VALUES(0,?,?,?,?)")?;
            insert.execute(params![done, skipped, first, last])?;
        }
        Ok(())
    }

    fn write_counts(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to.prepare("INSERT OR REPLACE INTO region_waits VALUES(?,?,?)")?;
        for (one, waits) in self.visits.iter().filter_map(|one| Some((one, one.waits_ns?))) {
            insert.execute(params![one.region.0, one.thread, waits.cast_signed()])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO region_counts VALUES(?,?,?,?,?,?,?)")?;
        for (one, counts) in self.visits.iter().filter_map(|one| Some((one, one.counts?))) {
            let [visits, minor, major, voluntary, involuntary] = [
                counts.visits,
                counts.minor_faults,
                counts.major_faults,
                counts.voluntary_switches,
                counts.involuntary_switches,
            ]
            .map(u64::cast_signed);
            insert.execute(params![
                one.region.0,
                one.thread,
                visits,
                minor,
                major,
                voluntary,
                involuntary
            ])?;
        }
        Ok(())
    }

    /// What there may be much of.
    pub fn drop_measured(&mut self) {
        (self.samples, self.bursts) = (Vec::new(), Vec::new());
    }

    pub fn clear(&mut self) {
        self.list.clear();
        self.samples.clear();
        self.bursts.clear();
        self.visits.clear();
        self.events = None;
    }
}

/// Reads them; recordings of before there were regions have none. So many samples and bursts there are.
pub(super) fn read(from: &Connection, (samples, bursts): (usize, usize)) -> Result<Regions, Trouble> {
    for table in ["region", "region_sample", "region_burst", "region_visits"] {
        if !has_table(from, table)? {
            return Ok(Regions::default());
        }
    }
    let mut statement = from.prepare("SELECT name, is_parallel FROM region ORDER BY id")?;
    let list = statement.query_map([], |row| Ok(Region { name: row.get(0)?, is_parallel: row.get(1)? }))?;
    let list = list.collect::<Result<Vec<_>, _>>()?;
    let known = |RegionId(id): RegionId| match (id as usize) < list.len() {
        true => Ok(RegionId(id)),
        false => Err(Trouble::Content(format!("region {id} is none of {}", list.len()))),
    };
    let mut statement = from.prepare(
        "SELECT region, thread, visits, unended, wall_ns FROM region_visits ORDER BY region, thread",
    )?;
    let mut rows = statement.query([])?;
    let waits = by_thread(from, "region_waits", |row| number(row, 2))?;
    let counts = by_thread(from, "region_counts", |row| {
        Ok(RegionCounts {
            visits: number(row, 2)?,
            minor_faults: number(row, 3)?,
            major_faults: number(row, 4)?,
            voluntary_switches: number(row, 5)?,
            involuntary_switches: number(row, 6)?,
        })
    })?;
    let mut visits = Vec::new();
    while let Some(row) = rows.next()? {
        let key = (row.get(0)?, row.get(1)?);
        visits.push(RegionVisits {
            region: known(RegionId(key.0))?,
            thread: key.1,
            visits: number(row, 2)?,
            unended: number(row, 3)?,
            wall_ns: number(row, 4)?,
            waits_ns: waits.get(&key).copied(),
            counts: counts.get(&key).copied(),
        });
    }
    let of_samples = innermost(from, "region_sample", "sample", samples, &known)?;
    let of_bursts = innermost(from, "region_burst", "burst", bursts, &known)?;
    Ok(Regions { of_samples, of_bursts, visits, list, events: events(from)? })
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// What a table says of threads in regions; nothing in recordings of before there was one.
fn by_thread<T>(
    from: &Connection,
    table: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<HashMap<(u32, ThreadId), T>, Trouble> {
    if !has_table(from, table)? {
        return Ok(HashMap::new());
    }
    let mut statement = from.prepare(&format!("SELECT * FROM {table}"))?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), read(row)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn events(from: &Connection) -> Result<Option<EventsDone>, Trouble> {
    if !has_table(from, "events_done")? {
        return Ok(None);
    }
    let mut statement = from.prepare("SELECT done, skipped, first_ns, last_ns FROM events_done")?;
    let mut rows = statement.query_map([], |row| {
        Ok(EventsDone {
            done: number(row, 0)?,
            skipped: number(row, 1)?,
            first_ns: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
            last_ns: number(row, 3)?,
        })
    })?;
    Ok(rows.next().transpose()?)
}

/// By sample; nothing if no sample lies in a region.
fn innermost(
    from: &Connection,
    table: &str,
    column: &str,
    count: usize,
    known: &dyn Fn(RegionId) -> Result<RegionId, Trouble>,
) -> Result<Vec<Option<RegionId>>, Trouble> {
    let mut statement = from.prepare(&format!("SELECT {column}, region FROM {table}"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.resize(count, None);
        let number = row.get::<_, i64>(0)?;
        let region = known(RegionId(row.get(1)?))?;
        // A recording that was cut off may know more of regions than of samples.
        if let Some(place) = usize::try_from(number - 1).ok().and_then(|index| found.get_mut(index)) {
            *place = Some(region);
        }
    }
    Ok(found)
}
