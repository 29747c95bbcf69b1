//! Regions in a recording.

use rusqlite::{Connection, params};

use super::read::{Trouble, has_table};
use crate::regions::{Region, RegionId, RegionVisits, Regions};

/// What was handed over and is not yet committed. Samples and bursts by their number, from 1 on.
#[derive(Default)]
pub(super) struct PendingRegions {
    pub list: Vec<(RegionId, Region)>,
    pub samples: Vec<(u64, RegionId)>,
    pub bursts: Vec<(u64, RegionId)>,
    pub visits: Vec<RegionVisits>,
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
    let mut visits = Vec::new();
    while let Some(row) = rows.next()? {
        visits.push(RegionVisits {
            region: known(RegionId(row.get(0)?))?,
            thread: row.get(1)?,
            visits: row.get::<_, i64>(2)?.cast_unsigned(),
            unended: row.get::<_, i64>(3)?.cast_unsigned(),
            wall_ns: row.get::<_, i64>(4)?.cast_unsigned(),
        });
    }
    let of_samples = innermost(from, "region_sample", "sample", samples, &known)?;
    let of_bursts = innermost(from, "region_burst", "burst", bursts, &known)?;
    Ok(Regions { of_samples, of_bursts, visits, list })
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
