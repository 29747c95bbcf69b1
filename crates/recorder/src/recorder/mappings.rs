//! What processes have mapped.

use std::{rc::Rc, time::Instant};

use pmu::sampling::{MappedFile, Mmap};
use record::run::ModuleKind;

use super::Recorder;
use crate::{
    areas::{self, AreaSpan, Knowledge},
    memory,
    spaces::Mapped,
};

/// A process whose mappings seem to be incomplete is looked at again after this time.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

impl Recorder {
    pub(super) fn mmap(&mut self, mmap: &Mmap<'_>) {
        if mmap.pid <= 0 || self.heap.as_mut().is_some_and(|heap| heap.announced(mmap)) {
            return;
        }
        let at_ns = self.window.time(mmap.stamp.time_ns);
        self.ensure_process(mmap.pid, at_ns);
        self.map(mmap.pid, (mmap.start, mmap.length, mmap.offset), mmap.path, mmap.file);
    }

    pub(super) fn map(
        &mut self,
        pid: i32,
        (start, length, offset): (u64, u64, u64),
        path: &[u8],
        file: MappedFile<'_>,
    ) {
        let module = self.modules.number(pid, path, file);
        // Special mappings have no file; what the kernel says of their offset means nothing.
        let kind = self.modules.get(module).about.kind;
        let offset = if kind == ModuleKind::Vdso { 0 } else { offset };
        let Some(process) = self.population.processes.get_mut(&pid) else { return };
        process.spans = None;
        process.space.map(Mapped { start, end: start.saturating_add(length), offset, module });
        if process.awaits_executable && kind == ModuleKind::File {
            process.awaits_executable = false;
            process.about.executable = Some(self.modules.get(module).about.path.clone());
            self.writer.process(process.id, &process.about);
        }
    }

    /// Reads what a process has mapped, where records of it are missing. False: not now.
    pub(super) fn look_at(&mut self, pid: i32, at_ns: u64) -> bool {
        let Some(process) = self.population.processes.get_mut(&pid) else { return false };
        if process.looked_at_ns.is_some_and(|last| at_ns < last.saturating_add(LOOK_AGAIN_NS)) {
            return false;
        }
        process.looked_at_ns = Some(at_ns);
        let Ok(lines) = memory::maps(pid) else { return false };
        for line in &lines {
            // Known pieces stay: their records say more.
            let process = self.population.processes.get(&pid);
            let is_known = process
                .and_then(|process| process.space.at(line.start))
                .is_some_and(|mapped| mapped.end >= line.end && mapped.offset_of(line.start) == line.offset);
            if !is_known {
                let file = MappedFile::Inode { major: 0, minor: 0, inode: line.inode, generation: 0 };
                self.map(pid, (line.start, line.end - line.start, line.offset), line.path.as_bytes(), file);
            }
        }
        true
    }

    /// The files that a process has loaded, by address.
    pub(crate) fn spans(&mut self, pid: i32) -> Option<Rc<[AreaSpan]>> {
        let process = self.population.processes.get_mut(&pid)?;
        if let Some(spans) = &process.spans {
            return Some(Rc::clone(spans));
        }
        let modules = &mut self.modules;
        let mut spans: Vec<AreaSpan> =
            process.space.iter().filter_map(|mapped| modules.span(pid, mapped)).collect();
        spans.sort_unstable_by_key(|span| (span.start, span.end));
        spans.dedup();
        let spans: Rc<[AreaSpan]> = spans.into();
        process.spans = Some(Rc::clone(&spans));
        Some(spans)
    }

    /// Looks at the address spaces of processes that are due, or with `all` of all.
    pub fn look_around(&mut self, at_ns: u64, all: bool) {
        let at_ns = self.window.time(at_ns);
        let due = self.population.processes.iter().filter(|(_, process)| all || process.look_ns <= at_ns);
        let due: Vec<i32> = due.map(|(pid, _)| *pid).collect();
        for pid in due {
            let began = Instant::now();
            self.look_at_areas(pid);
            if let Some(process) = self.population.processes.get_mut(&pid) {
                let age_ns = at_ns.saturating_sub(process.about.began_ns);
                process.look_ns = at_ns.saturating_add(areas::next_look_ns(age_ns, began.elapsed()));
            }
        }
    }

    fn look_at_areas(&mut self, pid: i32) {
        let Some(spans) = self.spans(pid) else { return };
        let Some(process) = self.population.processes.get(&pid) else { return };
        let threads = self.population.threads.values().filter(|thread| thread.pid == pid);
        let stack_pointers: Vec<(u32, u64)> =
            threads.filter_map(|thread| Some((thread.index, thread.stack_pointer?))).collect();
        let loaded: Vec<(AreaSpan, String)> = spans
            .iter()
            .map(|span| (span.clone(), self.modules.get(span.module).about.path.clone()))
            .collect();
        let knowledge = Knowledge {
            process: process.id,
            main_thread: self.population.threads.get(&pid).map(|thread| thread.index),
            stack_pointers: &stack_pointers,
            loaded: &loaded,
            one_node: self.has_one_node,
        };
        if let Some(areas) = areas::look(pid, &knowledge) {
            self.writer.areas(process.id, areas);
        }
    }
}
