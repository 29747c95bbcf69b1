//! Rows on their way into the tables.

use rusqlite::{Connection, params};

use super::{
    Code, RecordedSample, about,
    data::{PendingData, json},
    import::PendingImport,
    loads::PendingLoads,
    regions::PendingRegions,
    relief,
    sampled::PendingEvents,
};
use crate::{
    ids::{PlaceId, ProcessId},
    inlined::InlinedCode,
    relief::ReliefRecord,
    run::{About, Module, Place, Process, RecordedThread, Slice},
};

/// What was handed over and is not yet committed.
#[derive(Default)]
pub(super) struct PendingRows {
    pub processes: Vec<(ProcessId, Process)>,
    pub threads: Vec<(u32, RecordedThread)>,
    pub modules: Vec<(u32, Module)>,
    pub places: Vec<(u32, Place)>,
    pub samples: Vec<RecordedSample>,
    pub bursts: Vec<RecordedSample>,
    pub passes: Vec<RecordedSample>,
    pub slices: Vec<Slice>,
    pub stacks: Vec<(u32, Vec<PlaceId>)>,
    pub data: PendingData,
    pub loads: PendingLoads,
    pub relief: ReliefRecord,
    pub regions: PendingRegions,
    pub import: PendingImport,
    pub events: PendingEvents,
    pub remarks: Vec<String>,
    /// What is said of the recording, if it changed.
    pub about: Option<Box<About>>,
}

impl PendingRows {
    pub fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to.prepare("INSERT OR REPLACE INTO process VALUES(?,?,?,?,?,?,?)")?;
        for (id, p) in &self.processes {
            let (began, ended) = (p.began_ns.cast_signed(), p.ended_ns.map(u64::cast_signed));
            insert.execute(params![id, p.pid, p.parent, p.name, p.executable, began, ended])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO thread VALUES(?,?,?,?,?,?)")?;
        for (index, t) in &self.threads {
            let (began, ended) = (t.began_ns.cast_signed(), t.ended_ns.map(u64::cast_signed));
            insert.execute(params![index, t.tid, t.process, t.name, began, ended])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO module VALUES(?,?,?,?,?)")?;
        for (index, m) in &self.modules {
            insert.execute(params![index, m.path, m.kind.word(), m.build_id, m.problem])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO place VALUES(?,?,?,?)")?;
        for (index, p) in &self.places {
            insert.execute(params![index, p.module, p.address.cast_signed(), p.function])?;
        }
        let mut insert = to.prepare("INSERT OR REPLACE INTO stack VALUES(?,?)")?;
        for (index, places) in &self.stacks {
            insert.execute(params![index, json(places)])?;
        }
        if let Some(about) = &self.about {
            write_about(to, about)?;
        }
        self.data.write(to)?;
        self.write_measured(to)
    }

    /// What there may be much of.
    pub fn drop_measured(&mut self) {
        self.samples = Vec::new();
        self.bursts = Vec::new();
        self.passes = Vec::new();
        self.slices = Vec::new();
        self.loads.samples = Vec::new();
        self.regions.drop_measured();
        self.import.drop_measured();
        self.events.drop_measured();
        self.data.drop_measured();
    }

    fn write_measured(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut insert = to
            .prepare("INSERT INTO sample(time_ns, thread, cpu, place, address, stack) VALUES(?,?,?,?,?,?)")?;
        let is_import = !self.import.of_samples.is_empty();
        if is_import {
            self.import.write_timed(to, &self.samples)?;
        }
        for s in self.samples.iter().filter(|_| !is_import) {
            let address = s.address.map(|address| address.get().cast_signed());
            insert.execute(params![s.time_ns.cast_signed(), s.thread, s.cpu, s.place, address, s.stack])?;
        }
        for (table, samples) in [("burst", &self.bursts), ("pass", &self.passes)] {
            let into = format!("INSERT INTO {table}(time_ns, thread, cpu, place, address) VALUES(?,?,?,?,?)");
            let mut insert = to.prepare(&into)?;
            for s in samples {
                let address = s.address.map(|address| address.get().cast_signed());
                insert.execute(params![s.time_ns.cast_signed(), s.thread, s.cpu, s.place, address])?;
            }
        }
        let mut insert = to.prepare(
            "INSERT INTO slice(thread, slice, running_ns, blocked_ns, preempted_ns) VALUES(?,?,?,?,?)",
        )?;
        for s in &self.slices {
            let [running, blocked, preempted] =
                [s.running_ns, s.blocked_ns, s.preempted_ns].map(u64::cast_signed);
            insert.execute(params![s.thread, s.slice, running, blocked, preempted])?;
        }
        self.loads.write(to)?;
        relief::write(to, &self.relief)?;
        self.regions.write(to)?;
        self.import.write(to)?;
        self.events.write(to)?;
        let mut insert = to.prepare("INSERT INTO remark(text) VALUES(?)")?;
        self.remarks.iter().try_for_each(|text| insert.execute([text]).map(drop))
    }

    /// Keeps the room for the next batch.
    pub fn clear(&mut self) {
        self.processes.clear();
        self.threads.clear();
        self.modules.clear();
        self.places.clear();
        self.samples.clear();
        self.bursts.clear();
        self.passes.clear();
        self.slices.clear();
        self.stacks.clear();
        self.data.clear();
        self.loads.clear();
        self.relief = ReliefRecord::NotAsked;
        self.regions.clear();
        self.import.clear();
        self.events.clear();
        self.remarks.clear();
        self.about = None;
    }
}

pub(super) fn write_about(to: &Connection, about: &About) -> rusqlite::Result<()> {
    to.execute("DELETE FROM about", [])?;
    to.execute("DELETE FROM argument", [])?;
    let mut insert = to.prepare("INSERT INTO about VALUES(?,?)")?;
    about::pairs(about).into_iter().try_for_each(|pair| insert.execute(pair).map(drop))?;
    let mut insert = to.prepare("INSERT INTO argument VALUES(?,?)")?;
    about
        .command
        .iter()
        .enumerate()
        .try_for_each(|(index, text)| insert.execute(params![index as i64, text]).map(drop))
}

pub(super) fn write_code(to: &Connection, code: &Code) -> rusqlite::Result<()> {
    let mut insert = to.prepare("INSERT INTO function VALUES(?,?,?,?,?,?,?)")?;
    for (index, f) in code.functions.iter().enumerate() {
        let (start, end) = (f.start.cast_signed(), f.end.cast_signed());
        insert.execute(params![index as i64, f.module, f.symbol, f.name, start, end, f.code])?;
    }
    let mut insert = to.prepare("INSERT INTO file VALUES(?,?)")?;
    for (index, path) in code.files.iter().enumerate() {
        insert.execute(params![index as i64, path])?;
    }
    let mut insert = to.prepare("INSERT INTO line VALUES(?,?,?,?,?,?)")?;
    for (index, l) in code.lines.iter().enumerate() {
        let (start, end) = (l.start.cast_signed(), l.end.cast_signed());
        insert.execute(params![index as i64, l.module, start, end, l.file, l.line])?;
    }
    write_inlined(to, &code.inlined)?;
    let mut update = to.prepare("UPDATE place SET function = ? WHERE id = ?")?;
    for (index, function) in code.function_of_place.iter().enumerate() {
        update.execute(params![function, index as i64])?;
    }
    Ok(())
}

fn write_inlined(to: &Connection, inlined: &InlinedCode) -> rusqlite::Result<()> {
    let mut insert = to.prepare("INSERT INTO inlined_call VALUES(?,?,?,?,?)")?;
    for (index, call) in inlined.calls.iter().enumerate() {
        insert.execute(params![index as i64, call.function, call.file, call.line, call.caller])?;
    }
    let mut insert = to.prepare("INSERT INTO inlined_range VALUES(?,?,?,?,?)")?;
    for (index, range) in inlined.ranges.iter().enumerate() {
        let (start, end) = (range.start.cast_signed(), range.end.cast_signed());
        insert.execute(params![index as i64, range.module, start, end, range.call])?;
    }
    Ok(())
}
