//! From notes to regions.

use ::heap::{Note, RegionMark};
use record::{ids::ThreadId, regions::Region};

use super::HeapContext;
use crate::regions::RegionKey;

/// What a mark says of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    Began,
    Ended,
    Skips,
}

/// Takes a mark of a process.
pub(super) fn take(kind: MarkKind, mark: &RegionMark, note: &Note, pid: i32, around: &mut HeapContext<'_>) {
    let Some((key, region)) = named(mark, note.address, pid, around) else { return };
    let Some(id) = around.regions.region(key, || region, around.writer) else { return };
    // In a namespace of its own the first thread's number is known, others have only the program's word.
    let tid = if note.tid == note.pid { pid } else { note.tid.cast_signed() };
    let time_ns = around.window.time(note.time_ns);
    match kind {
        MarkKind::Began => {
            let thread = around.population.threads.get(&tid).map(|thread| ThreadId(thread.index));
            around.regions.begin(id, tid, thread, time_ns, around.writer);
        }
        MarkKind::Ended => around.regions.end(id, tid, time_ns, around.writer),
        MarkKind::Skips => around.regions.skip(id, note.size_bytes),
    }
}

/// By its name, or by the function that it is.
fn named(
    mark: &RegionMark,
    code: u64,
    pid: i32,
    around: &mut HeapContext<'_>,
) -> Option<(RegionKey, Region)> {
    if let Some(name) = mark.name() {
        return Some((RegionKey::Named(*mark), Region { name, is_parallel: false }));
    }
    let mapped = *around.population.processes.get(&pid)?.space.at(code)?;
    let module = mapped.module;
    // Opened first: the module's own addresses are known only then.
    around.modules.image(module, pid, Some(&mapped));
    let address = around.modules.address(module, Some(&mapped), code);
    let image = around.modules.image(module, pid, Some(&mapped));
    let function = image.and_then(|image| Some(image.function_at(address)?.name.into_owned()));
    let name = function.unwrap_or_else(|| format!("parallel region at {address:#x}"));
    Some((RegionKey::Code { module, address }, Region { name, is_parallel: true }))
}
