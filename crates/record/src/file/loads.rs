//! Sampled loads in a recording.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::read::{Trouble, has_table, maybe_unsigned, unsigned};
use crate::{
    ids::{PlaceId, ThreadId},
    loads::{DataOrigin, LoadSample, LoadSamples},
};

/// Sampled loads that wait to be written.
#[derive(Default)]
pub(super) struct PendingLoads {
    /// They were asked for; why they were refused, if so.
    pub asked: Option<Option<String>>,
    pub samples: Vec<LoadSample>,
}

impl PendingLoads {
    pub fn all(loads: &LoadSamples) -> Self {
        let asked = match loads {
            LoadSamples::NotAsked => None,
            LoadSamples::Refused(reason) => Some(Some(reason.clone())),
            LoadSamples::Taken(_) => Some(None),
        };
        Self { asked, samples: loads.taken().to_vec() }
    }

    pub fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        if let Some(refusal) = &self.asked {
            to.execute("INSERT OR REPLACE INTO load_sampling VALUES(0, ?)", [refusal])?;
        }
        let mut insert = to.prepare(
            "INSERT INTO load(time_ns, thread, cpu, place, address, latency_cycles, origin) VALUES(?,?,?,?,?,?,?)",
        )?;
        let mut translated = to.prepare("INSERT INTO load_translation(load, at_hand) VALUES(?,?)")?;
        for s in &self.samples {
            let address = s.address.map(|address| address.get().cast_signed());
            let latency = s.latency_cycles.map(u64::cast_signed);
            let origin = s.origin.map(DataOrigin::word);
            insert.execute(params![
                s.time_ns.cast_signed(),
                s.thread.0,
                s.cpu,
                s.place.0,
                address,
                latency,
                origin
            ])?;
            if let Some(at_hand) = s.translated_at_hand {
                translated.execute(params![to.last_insert_rowid(), at_hand])?;
            }
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.asked = None;
        self.samples.clear();
    }
}

pub(super) fn read(from: &Connection) -> Result<LoadSamples, Trouble> {
    let state =
        from.query_row("SELECT refusal FROM load_sampling WHERE id = 0", [], |row| row.get(0)).optional()?;
    match state {
        None => return Ok(LoadSamples::NotAsked),
        Some(Some(reason)) => return Ok(LoadSamples::Refused(reason)),
        Some(None) => {}
    }
    let mut statement = from.prepare(match has_table(from, "load_translation")? {
        true => {
            "SELECT time_ns, thread, cpu, place, address, latency_cycles, origin, at_hand FROM load \
             LEFT JOIN load_translation ON load = load.id ORDER BY time_ns, id"
        }
        false => {
            "SELECT time_ns, thread, cpu, place, address, latency_cycles, origin, NULL FROM load ORDER BY time_ns, id"
        }
    })?;
    let mut found = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let word: Option<String> = row.get(6)?;
        let origin = word.map(|word| {
            DataOrigin::from_word(&word)
                .ok_or_else(|| Trouble::Content(format!("'{word}' is no origin of data")))
        });
        all.push(LoadSample {
            time_ns: unsigned(row, 0)?,
            thread: ThreadId(row.get(1)?),
            cpu: row.get(2)?,
            place: PlaceId(row.get(3)?),
            address: maybe_unsigned(row, 4)?.and_then(std::num::NonZeroU64::new),
            latency_cycles: maybe_unsigned(row, 5)?,
            origin: origin.transpose()?,
            translated_at_hand: row.get(7)?,
        });
    }
    Ok(LoadSamples::Taken(all))
}
