//! Samples of events other than the clock, of imports and of recordings that were asked for them.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::{
    RecordedSample,
    import::{parsed, text},
    read::{Trouble, has_table, unsigned},
};
use crate::{
    ids::{PlaceId, ThreadId},
    import::ImportRecord,
    regions::RegionId,
    sampled::{RecordedEvent, SampleMode, SampledEvents, SummedSample, TallySum},
};

/// Added to a recording that has such samples.
pub(super) const TABLES: &str = "
CREATE TABLE event_sample(
    id INTEGER PRIMARY KEY, event INTEGER NOT NULL, mode INTEGER NOT NULL, time_ns INTEGER NOT NULL,
    thread INTEGER NOT NULL REFERENCES thread, cpu INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES place,
    address INTEGER, stack INTEGER REFERENCES stack, period INTEGER
);
CREATE TABLE sampled_event(id INTEGER PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE region_event(sample INTEGER PRIMARY KEY, region INTEGER NOT NULL REFERENCES region);
";

/// A sample of an event.
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
pub(super) struct PendingEvents {
    pub samples: Vec<EventSample>,
    /// The events themselves, where they are not an import's.
    pub list: Vec<RecordedEvent>,
    /// By number of a sample, from 1 on.
    pub regions: Vec<(u64, RegionId)>,
}

impl PendingEvents {
    pub fn clear(&mut self) {
        self.samples.clear();
        self.list.clear();
        self.regions.clear();
    }

    pub fn drop_measured(&mut self) {
        (self.samples, self.regions) = (Vec::new(), Vec::new());
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
        for (index, event) in self.list.iter().enumerate() {
            to.execute(
                "INSERT OR REPLACE INTO sampled_event VALUES(?, ?)",
                params![index as i64, text(event)?],
            )?;
        }
        for (number, RegionId(region)) in &self.regions {
            to.execute(
                "INSERT OR REPLACE INTO region_event VALUES(?, ?)",
                params![number.cast_signed(), region],
            )?;
        }
        Ok(())
    }
}

/// What was sampled beside the clock, summed up by slices of this length; nothing of a recording that has none.
pub(super) fn read(
    from: &Connection,
    import: Option<&ImportRecord>,
    slice_ns: u64,
) -> Result<SampledEvents, Trouble> {
    if !has_table(from, "event_sample")? {
        return Ok(SampledEvents::default());
    }
    let mut list = match import {
        Some(import) => import.events.clone(),
        None => own_events(from)?,
    };
    // Written before anything was sampled, so that a recording that was cut off has them too.
    let counts_are_open = import.is_none();
    let regions = regions(from)?;
    let mut sum = TallySum::new(slice_ns);
    if import.is_some() {
        let columns = "event, place, time_ns, period";
        let mut statement = from.prepare(&format!("SELECT {columns} FROM sample WHERE event IS NOT NULL"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            sum.add(SummedSample {
                event: row.get(0)?,
                place: row.get(1)?,
                mode: SampleMode::User,
                region: None,
                time_ns: unsigned(row, 2)?,
                period: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
            });
        }
    }
    each_event_sample(from, &mut |number, found| {
        if let Some(event) = list.get_mut(found.event as usize).filter(|_| counts_are_open) {
            event.samples += 1;
            event.in_kernel += u64::from(found.mode == SampleMode::Kernel);
            event.period = found.period.map(|period| event.period.unwrap_or(0).saturating_add(period));
        }
        sum.add(SummedSample {
            event: found.event,
            place: found.sample.place,
            mode: found.mode,
            region: regions.get(&number).copied(),
            time_ns: found.sample.time_ns,
            period: found.period,
        });
    })?;
    Ok(sum.finish(list))
}

fn own_events(from: &Connection) -> Result<Vec<RecordedEvent>, Trouble> {
    if !has_table(from, "sampled_event")? {
        return Ok(Vec::new());
    }
    let mut statement = from.prepare("SELECT document FROM sampled_event ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(parsed(&row.get::<_, String>(0)?)?);
    }
    Ok(all)
}

fn regions(from: &Connection) -> Result<HashMap<i64, RegionId>, Trouble> {
    if !has_table(from, "region_event")? {
        return Ok(HashMap::new());
    }
    let mut statement = from.prepare("SELECT sample, region FROM region_event")?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, RegionId(row.get(1)?))))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// All samples of an import.
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
    each_event_sample(from, &mut |_, found| all.push(found))?;
    Ok(all)
}

/// Hands out every row of `event_sample` with its number.
fn each_event_sample(from: &Connection, each: &mut dyn FnMut(i64, EventSample)) -> Result<(), Trouble> {
    let columns = "event, mode, time_ns, thread, cpu, place, period, id";
    let mut statement = from.prepare(&format!("SELECT {columns} FROM event_sample ORDER BY id"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mode: u8 = row.get(1)?;
        let found = EventSample {
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
        };
        each(row.get(7)?, found);
    }
    Ok(())
}
