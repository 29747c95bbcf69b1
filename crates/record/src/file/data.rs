//! What lay where in memory and call chains, as rows and back.

use rusqlite::{Connection, Row, params};

use super::read::{Trouble, maybe_unsigned, rows, unsigned};
use crate::{
    data::{Area, AreaKind, AreaPages, BlockKind, Data, HeapBlock, HeapLog, Site, Variable},
    ids::{PlaceId, ProcessId, ThreadId},
};

/// What waits to be written.
#[derive(Default)]
pub(super) struct PendingData {
    /// By process, the last known.
    areas: Vec<(ProcessId, Vec<Area>)>,
    pub variables: Vec<Variable>,
    pub sites: Vec<(u32, Site)>,
    pub blocks: Vec<HeapBlock>,
    pub heap: Vec<HeapLog>,
}

impl PendingData {
    /// All of a run.
    pub fn all(data: &Data) -> Self {
        let mut pending = Self {
            areas: Vec::new(),
            variables: data.variables.clone(),
            sites: (0..).zip(data.sites.iter().cloned()).collect(),
            blocks: data.blocks.clone(),
            heap: data.heap.clone(),
        };
        for areas in data.areas.chunk_by(|a, b| a.process == b.process) {
            pending.areas(areas[0].process, areas.to_vec());
        }
        pending
    }

    pub fn areas(&mut self, process: ProcessId, areas: Vec<Area>) {
        self.areas.retain(|(other, _)| *other != process);
        self.areas.push((process, areas));
    }

    pub fn write(&self, to: &Connection) -> rusqlite::Result<()> {
        self.write_areas(to)?;
        let mut insert =
            to.prepare("INSERT INTO variable(process, start, end, name, module) VALUES(?,?,?,?,?)")?;
        for v in &self.variables {
            insert.execute(params![
                v.process,
                v.start.cast_signed(),
                v.end.cast_signed(),
                v.name,
                v.module
            ])?;
        }
        let mut insert = to.prepare("INSERT INTO site VALUES(?,?,?,?,?,?,?,?)")?;
        for (index, s) in &self.sites {
            let (file, line) = s.line.as_ref().map(|(file, line)| (file, line)).unzip();
            let callers = json(&s.callers);
            insert.execute(params![
                index,
                s.function,
                s.module,
                s.address.cast_signed(),
                file,
                line,
                callers,
                s.variable
            ])?;
        }
        let mut insert = to.prepare(
            "INSERT INTO block(process, time_ns, address, size_bytes, kind, tid, site, stands_for_bytes) \
             VALUES(?,?,?,?,?,?,?,?)",
        )?;
        for b in &self.blocks {
            let [time, address, size] = [b.time_ns, b.address, b.size_bytes].map(u64::cast_signed);
            let stands_for = b.stands_for_bytes.map(u64::cast_signed);
            insert.execute(params![
                b.process,
                time,
                address,
                size,
                b.kind.word(),
                b.tid,
                b.site,
                stands_for
            ])?;
        }
        let mut insert =
            to.prepare("INSERT INTO heap_log(process, inherits, began_ns, problem) VALUES(?,?,?,?)")?;
        for log in &self.heap {
            insert.execute(params![log.process, log.inherits, log.began_ns.cast_signed(), log.problem])?;
        }
        Ok(())
    }

    fn write_areas(&self, to: &Connection) -> rusqlite::Result<()> {
        let mut forget = to.prepare("DELETE FROM area WHERE process = ?")?;
        let mut insert = to.prepare(
            "INSERT INTO area(process, start, end, kind, thread, path, resident_bytes, huge_bytes, nodes) \
             VALUES(?,?,?,?,?,?,?,?,?)",
        )?;
        for (process, areas) in &self.areas {
            forget.execute([process])?;
            for a in areas {
                let (kind, thread, path) = match &a.kind {
                    AreaKind::Stack(thread) => ("stack", Some(*thread), None),
                    AreaKind::Heap => ("heap", None, None),
                    AreaKind::File(path) => ("file", None, Some(path)),
                    AreaKind::Anonymous => ("anonymous", None, None),
                };
                let (start, end) = (a.start.cast_signed(), a.end.cast_signed());
                let resident = a.pages.as_ref().map(|pages| pages.resident_bytes.cast_signed());
                let huge = a.pages.as_ref().map(|pages| pages.huge_bytes.cast_signed());
                let nodes = a.pages.as_ref().map(|pages| json(&pages.nodes));
                insert.execute(params![process, start, end, kind, thread, path, resident, huge, nodes])?;
            }
        }
        Ok(())
    }

    /// What there may be much of.
    pub fn drop_measured(&mut self) {
        self.areas = Vec::new();
        self.blocks = Vec::new();
    }

    pub fn clear(&mut self) {
        self.areas.clear();
        self.variables.clear();
        self.sites.clear();
        self.blocks.clear();
        self.heap.clear();
    }
}

/// A list of numbers or texts cannot fail to be JSON.
pub(super) fn json(list: &impl serde::Serialize) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}

fn from_json<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, Trouble> {
    serde_json::from_str(text).map_err(|error| Trouble::Content(format!("{what}: {error}")))
}

/// The call chains.
pub(super) fn read_stacks(from: &Connection) -> Result<Vec<Vec<PlaceId>>, Trouble> {
    let texts: Vec<String> = rows(from, "stack", "places", |row| row.get(1))?;
    texts.iter().map(|text| from_json("a call chain", text)).collect()
}

/// Everything about data.
pub(super) fn read(from: &Connection) -> Result<Data, Trouble> {
    Ok(Data {
        areas: areas(from)?,
        variables: variables(from)?,
        sites: sites(from)?,
        blocks: blocks(from)?,
        heap: heap(from)?,
    })
}

fn areas(from: &Connection) -> Result<Vec<Area>, Trouble> {
    let columns = "process, start, end, kind, thread, path, resident_bytes, huge_bytes, nodes";
    // Compared as they are meant: addresses beyond half are negative here.
    let order = "process, start < 0, start";
    let mut statement = from.prepare(&format!("SELECT {columns} FROM area ORDER BY {order}"))?;
    let mut found = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let kind: String = row.get(3)?;
        let kind = match (kind.as_str(), row.get::<_, Option<ThreadId>>(4)?, row.get::<_, Option<String>>(5)?)
        {
            ("stack", Some(thread), _) => AreaKind::Stack(thread),
            ("heap", ..) => AreaKind::Heap,
            ("file", _, Some(path)) => AreaKind::File(path),
            ("anonymous", ..) => AreaKind::Anonymous,
            (kind, ..) => {
                return Err(Trouble::Content(format!("'{kind}' is no kind of area, or lacks what it names")));
            }
        };
        let pages = match (maybe_unsigned(row, 6)?, row.get::<_, Option<String>>(8)?) {
            (Some(resident_bytes), Some(nodes)) => Some(AreaPages {
                resident_bytes,
                huge_bytes: maybe_unsigned(row, 7)?.unwrap_or(0),
                nodes: from_json("the nodes of an area", &nodes)?,
            }),
            _ => None,
        };
        all.push(Area {
            process: row.get(0)?,
            start: unsigned(row, 1)?,
            end: unsigned(row, 2)?,
            kind,
            pages,
        });
    }
    Ok(all)
}

fn variables(from: &Connection) -> Result<Vec<Variable>, Trouble> {
    let mut statement = from.prepare("SELECT process, start, end, name, module FROM variable ORDER BY id")?;
    let found = statement.query_map([], |row| {
        Ok(Variable {
            process: row.get(0)?,
            start: unsigned(row, 1)?,
            end: unsigned(row, 2)?,
            name: row.get(3)?,
            module: row.get(4)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn sites(from: &Connection) -> Result<Vec<Site>, Trouble> {
    // Files of before do not name variables.
    let has_variables = from.prepare("SELECT variable FROM site LIMIT 0").is_ok();
    let variable = if has_variables { "variable" } else { "NULL" };
    let columns = format!("function, module, address, file, line, callers, {variable}");
    let raw = rows(from, "site", &columns, |row| {
        let line: (Option<String>, Option<u32>) = (row.get(4)?, row.get(5)?);
        let site = Site {
            function: row.get(1)?,
            module: row.get(2)?,
            address: unsigned(row, 3)?,
            line: line.0.zip(line.1),
            variable: row.get(7)?,
            callers: Vec::new(),
        };
        Ok((site, row.get::<_, String>(6)?))
    })?;
    raw.into_iter()
        .map(|(site, callers)| Ok(Site { callers: from_json("the callers of a site", &callers)?, ..site }))
        .collect()
}

fn blocks(from: &Connection) -> Result<Vec<HeapBlock>, Trouble> {
    // Files of before do not say.
    let has_estimates = from.prepare("SELECT stands_for_bytes FROM block LIMIT 0").is_ok();
    let stands_for = if has_estimates { "stands_for_bytes" } else { "NULL" };
    let columns = format!("process, time_ns, address, size_bytes, kind, tid, site, {stands_for}");
    let mut statement = from.prepare(&format!("SELECT {columns} FROM block ORDER BY id"))?;
    let mut found = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        all.push(block(row)?);
    }
    // Logs are read one after the other.
    all.sort_by_key(|block| block.time_ns);
    Ok(all)
}

fn block(row: &Row<'_>) -> Result<HeapBlock, Trouble> {
    let kind = row.get_ref(4)?.as_str().ok().and_then(BlockKind::from_word);
    Ok(HeapBlock {
        process: row.get(0)?,
        time_ns: unsigned(row, 1)?,
        address: unsigned(row, 2)?,
        size_bytes: unsigned(row, 3)?,
        kind: kind.ok_or_else(|| Trouble::Content("a block is of no known kind".into()))?,
        tid: row.get(5)?,
        site: row.get(6)?,
        stands_for_bytes: maybe_unsigned(row, 7)?,
    })
}

fn heap(from: &Connection) -> Result<Vec<HeapLog>, Trouble> {
    let mut statement =
        from.prepare("SELECT process, inherits, began_ns, problem FROM heap_log ORDER BY id")?;
    let found = statement.query_map([], |row| {
        Ok(HeapLog {
            process: row.get(0)?,
            inherits: row.get(1)?,
            began_ns: unsigned(row, 2)?,
            problem: row.get(3)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
