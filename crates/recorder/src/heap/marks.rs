//! From notes to regions.

use ::heap::{Note, NoteKind, RegionMark};
use record::{
    ids::ThreadId,
    regions::{Region, RegionId},
};
use symbols::Image;

use super::HeapContext;
use crate::regions::{MarkedMoment, RegionKey};

/// Takes a note if it is about regions; whether it was.
pub(super) fn take(note: &Note, pid: i32, around: &mut HeapContext<'_>) -> bool {
    // In a namespace of its own the first thread's number is known, others have only the program's word.
    let tid = if note.tid == note.pid { pid } else { note.tid.cast_signed() };
    let at = MarkedMoment { tid, time_ns: around.window.time(note.time_ns) };
    match &note.kind {
        NoteKind::RegionBegan(mark) => {
            let Some(id) = region(mark, note, pid, around) else { return true };
            let thread = around.population.threads.get(&tid).map(|thread| ThreadId(thread.index));
            around.regions.begin(id, at, thread, note.size_bytes == TELLS_WAITS, around.writer);
        }
        NoteKind::RegionEnded(mark) => {
            if let Some(id) = region(mark, note, pid, around) {
                around.regions.end(id, at, around.writer);
            }
        }
        NoteKind::RegionSkips(mark) => {
            if let Some(id) = region(mark, note, pid, around) {
                around.regions.skip(id, note.size_bytes);
            }
        }
        NoteKind::RegionCounts(counts) => around.regions.counted(at, *counts),
        NoteKind::WaitBegan => around.regions.wait_began(at),
        NoteKind::WaitEnded => around.regions.wait_ended(at, note.size_bytes),
        NoteKind::EventDone => around.regions.event_done(at.time_ns),
        NoteKind::RegionEvent(count) => around.regions.event_counted(at, note.size_bytes, *count),
        NoteKind::EventRefused { errno } => around.regions.event_refused(note.size_bytes, *errno),
        NoteKind::Nothing => {}
        NoteKind::Allocated | NoteKind::Sampled { .. } | NoteKind::Mapped | NoteKind::Unmapped => {
            return false;
        }
    }
    true
}

/// The number with which the beginning of a region says that barriers in it are told as well.
const TELLS_WAITS: u64 = 1;

fn region(mark: &RegionMark, note: &Note, pid: i32, around: &mut HeapContext<'_>) -> Option<RegionId> {
    if let Some(name) = mark.name() {
        let named = || Region { name, is_parallel: false };
        return around.regions.region(RegionKey::Named(*mark), named, around.writer);
    }
    let mapped = *around.population.processes.get(&pid)?.space.at(note.address)?;
    let module = mapped.module;
    // Opened first: the module's own addresses are known only then.
    around.modules.image(module, pid, Some(&mapped));
    let address = around.modules.address(module, Some(&mapped), note.address);
    let named = || {
        let image = around.modules.image(module, pid, Some(&mapped));
        let name = image.and_then(|image| code_name(image, address));
        let name = name.unwrap_or_else(|| format!("parallel region at {address:#x}"));
        Region { name, is_parallel: true }
    };
    around.regions.region(RegionKey::Code { module, address }, named, around.writer)
}

/// A function that begins there, or the place within one: LLVM's runtime says where a region was entered, behind the call.
fn code_name(image: &Image, address: u64) -> Option<String> {
    let function = image.function_at(address)?;
    if function.range.start == address {
        return Some(function.name.into_owned());
    }
    let name = function.demangled();
    let called = address.checked_sub(1)?;
    let line = image.lines_at(called).into_iter().next().and_then(|at| Some((at.file?, at.line?)));
    Some(match line {
        Some((file, line)) => format!("{name} ({}:{line})", file.rsplit('/').next().unwrap_or(&file)),
        None => format!("{name} (at {address:#x})"),
    })
}
