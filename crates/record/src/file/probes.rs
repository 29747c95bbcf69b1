//! Probes in a recording: a table of their own, written when the recording is done. Recordings without it had none.

use std::path::Path;

use machine::probe::{ProbeReading, ProbedChase};
use rusqlite::{Connection, params};

use super::{FileError, amend::amend, read::Trouble};
use crate::probe::{ProbeOutcome, Probes};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS probe(
    id INTEGER PRIMARY KEY, moment TEXT NOT NULL, what TEXT NOT NULL, bytes INTEGER, value REAL, reason TEXT
)";

const MOMENTS: [&str; 2] = ["before", "after"];

/// Adds what probes found to a recording that is done.
pub fn add_probes(path: &Path, probes: &Probes) -> Result<(), FileError> {
    amend(path, |to| {
        to.execute_batch(TABLE)?;
        MOMENTS
            .into_iter()
            .zip([&probes.before, &probes.after])
            .try_for_each(|(moment, probed)| write(to, moment, probed))
    })
}

fn write(to: &Connection, moment: &str, probed: &ProbeOutcome) -> rusqlite::Result<()> {
    let mut insert = to.prepare("INSERT INTO probe(moment, what, bytes, value, reason) VALUES(?,?,?,?,?)")?;
    let mut row = |what: &str, bytes: Option<u64>, value: Option<f64>, reason: Option<&str>| {
        insert.execute(params![moment, what, bytes.map(u64::cast_signed), value, reason]).map(|_| ())
    };
    match probed {
        ProbeOutcome::NotAsked => Ok(()),
        ProbeOutcome::LeftOut(reason) => row("left_out", None, None, Some(reason)),
        ProbeOutcome::Reading(reading) => {
            row("took_ns", None, Some(reading.took_ns), None)?;
            row("load_bytes_per_s", Some(reading.memory.bytes), Some(reading.load_bytes_per_s), None)?;
            row("memory_ns", Some(reading.memory.bytes), Some(reading.memory.latency_ns), None)?;
            if let Some(level) = reading.level {
                row("cache_level", None, Some(level.into()), None)?;
            }
            reading
                .chases
                .iter()
                .try_for_each(|chase| row("cache_ns", Some(chase.bytes), Some(chase.latency_ns), None))
        }
    }
}

pub(super) fn read(from: &Connection) -> Result<Probes, Trouble> {
    // Versions count what an older reader would misunderstand; this it does not look at.
    if from.prepare("SELECT id FROM probe").is_err() {
        return Ok(Probes::default());
    }
    let [before, after] = MOMENTS.map(|moment| read_moment(from, moment));
    Ok(Probes { before: before?, after: after? })
}

fn read_moment(from: &Connection, moment: &str) -> Result<ProbeOutcome, Trouble> {
    let mut statement =
        from.prepare("SELECT what, bytes, value, reason FROM probe WHERE moment = ? ORDER BY id LIMIT 100")?;
    let mut found = statement.query([moment])?;
    let mut chases = Vec::new();
    let (mut level, mut memory, mut speed, mut took_ns) = (None, None, None, None);
    let mut is_empty = true;
    while let Some(row) = found.next()? {
        is_empty = false;
        let what: String = row.get(0)?;
        if what == "left_out" {
            return Ok(ProbeOutcome::LeftOut(row.get(3)?));
        }
        let (bytes, value): (Option<i64>, f64) = (row.get(1)?, row.get(2)?);
        if !value.is_finite() || value < 0.0 {
            return Err(Trouble::Content(format!("'{what}' of a probe is {value}")));
        }
        let chase = ProbedChase { bytes: bytes.map_or(0, i64::cast_unsigned), latency_ns: value };
        match what.as_str() {
            "took_ns" => took_ns = Some(value),
            "load_bytes_per_s" => speed = Some(value),
            "memory_ns" => memory = Some(chase),
            "cache_level" => level = Some(value as u32),
            "cache_ns" => chases.push(chase),
            // Of a later version.
            _ => {}
        }
    }
    match (memory, speed, took_ns) {
        _ if is_empty => Ok(ProbeOutcome::NotAsked),
        (Some(memory), Some(load_bytes_per_s), Some(took_ns)) => {
            Ok(ProbeOutcome::Reading(ProbeReading { level, chases, memory, load_bytes_per_s, took_ns }))
        }
        _ => Err(Trouble::Content(format!("the probe {moment} the program is not whole"))),
    }
}
