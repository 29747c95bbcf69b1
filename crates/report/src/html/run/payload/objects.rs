//! Objects and shared lines.

use std::collections::HashMap;

use analysis::findings::{
    ObjectFinding, ObjectKind, ObjectSharing, Objects, SharedLine, SourceLine, ThreadFinding,
};
use record::ids::ThreadId;
use serde::Serialize;

use super::{MOST_ROWS, ends, name, rounded, tenths};
use crate::terminal::run::{
    code::file_name,
    objects::{allocated, pages},
};

#[derive(Serialize)]
pub(super) struct ObjectRows {
    objects: Vec<ObjectRow>,
    lines: Vec<LineRow>,
}

#[derive(Serialize)]
struct ObjectRow {
    name: String,
    kind: &'static str,
    size: Option<u64>,
    size_missing: Option<String>,
    blocks: u64,
    samples: u64,
    loads: [f64; 3],
    other: f64,
    pattern: &'static str,
    /// Rows of the threads.
    readers: Vec<usize>,
    writers: Vec<usize>,
    pages: String,
    allocated: Option<String>,
    /// Samples whose address is the next one of a chain.
    next_addresses: u64,
    /// Function and line.
    site: Option<String>,
    /// The whole path of that line's file, or of the module.
    source: Option<String>,
    callers: Vec<String>,
    /// Symbol, samples, waiting on loads, whether it writes.
    uses: Vec<(usize, u64, f64, bool)>,
}

#[derive(Serialize)]
struct LineRow {
    address: String,
    object: Option<usize>,
    sharing: &'static str,
    samples: u64,
    waiting: [f64; 3],
    /// Row of the thread, offset, symbol, whether it writes, samples.
    uses: Vec<(usize, u32, usize, bool, u64)>,
}

/// Objects and lines as the tables have them.
pub(super) fn object_rows(objects: &Objects, threads: &[ThreadFinding]) -> ObjectRows {
    let rows = threads.iter().enumerate().map(|(row, thread)| (thread.id, row)).collect();
    ObjectRows {
        objects: objects.objects.iter().take(MOST_ROWS).map(|object| object_row(object, &rows)).collect(),
        lines: objects.shared_lines.iter().take(MOST_ROWS).map(|line| line_row(line, &rows)).collect(),
    }
}

/// Where each thread is among those of the page.
type ThreadRows = HashMap<ThreadId, usize>;

fn object_row(object: &ObjectFinding, threads: &ThreadRows) -> ObjectRow {
    const MOST_USES: usize = 100;
    let site = object.site.as_ref();
    let at = site.map(|site| match &site.source {
        Some(SourceLine { file, line, .. }) => {
            format!("{} ({}:{line})", name(&site.function), name(&file_name(file)))
        }
        None => {
            format!("{} ({:#x} in {})", name(&site.function), site.address, name(&file_name(&site.module)))
        }
    });
    let uses = object.symbols.iter().take(MOST_USES);
    ObjectRow {
        name: name(&object.name),
        kind: kind(object.kind),
        size: object.size_bytes.value().copied(),
        size_missing: object.size_bytes.missing().map(name),
        blocks: object.blocks,
        samples: object.samples,
        loads: ends(&object.load_waiting),
        other: rounded(object.other_waiting),
        pattern: object.pattern.label(),
        readers: object.reader_ids.iter().filter_map(|id| threads.get(id).copied()).collect(),
        writers: object.writer_ids.iter().filter_map(|id| threads.get(id).copied()).collect(),
        pages: name(&pages(object)),
        allocated: object.allocated.as_ref().map(allocated),
        next_addresses: object.next_address_samples,
        site: at,
        source: site.map(|site| name(site.source.as_ref().map_or(&site.module, |source| &source.file))),
        callers: site
            .map(|site| site.callers.iter().map(|caller| name(caller)).collect())
            .unwrap_or_default(),
        uses: uses
            .map(|used| (used.symbol, used.samples, tenths(used.waiting_on_loads), used.writes))
            .collect(),
    }
}

fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Global => "variable",
        ObjectKind::Heap => "heap",
        ObjectKind::Stack => "stack",
        ObjectKind::File => "mapped file",
        ObjectKind::Anonymous => "anonymous memory",
        ObjectKind::Unknown => "unknown",
    }
}

fn line_row(line: &SharedLine, threads: &ThreadRows) -> LineRow {
    const MOST_USES: usize = 32;
    let uses = line.uses.iter().take(MOST_USES);
    LineRow {
        address: format!("{:#x}", line.address),
        object: line.object,
        sharing: match line.sharing {
            ObjectSharing::False => "false",
            ObjectSharing::True => "true",
        },
        samples: line.samples,
        waiting: ends(&line.waiting),
        uses: uses
            .filter_map(|used| {
                Some((*threads.get(&used.thread)?, used.offset, used.symbol, used.writes, used.samples))
            })
            .collect(),
    }
}
