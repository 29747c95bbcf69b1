//! Processes and threads that begin, end, are renamed, run and wait.

use pmu::sampling::Stamp;
use record::ids::ThreadId;

use super::Recorder;
use crate::{
    areas::FIRST_LOOK_NS,
    heap::{Heap, HeapContext, Leaving},
    regions::MarkedMoment,
    slices::Doing,
};

impl Recorder {
    /// The index of a thread, also of one whose beginning was lost.
    pub(super) fn thread_of(&mut self, pid: i32, tid: i32, at_ns: u64) -> Option<u32> {
        if pid <= 0 || tid <= 0 {
            return None;
        }
        if let Some(thread) = self.population.threads.get(&tid) {
            return Some(thread.index);
        }
        self.ensure_process(pid, at_ns);
        self.begin_thread(pid, tid, at_ns, Doing::Running)
    }

    pub(super) fn ensure_process(&mut self, pid: i32, at_ns: u64) {
        if !self.population.processes.contains_key(&pid) {
            let process = self.population.process(pid, None, at_ns);
            self.writer.process(process.id, &process.about);
        }
    }

    pub(super) fn begin_thread(&mut self, pid: i32, tid: i32, at_ns: u64, doing: Doing) -> Option<u32> {
        let thread = self.population.thread(pid, tid, at_ns)?;
        self.writer.thread(thread.index, &thread.about);
        let index = thread.index;
        if self.keeps_slices {
            self.slices.begin(index, doing, at_ns);
        }
        Some(index)
    }

    pub(super) fn rename_thread(&mut self, tid: i32, name: &str) {
        if let Some(thread) = self.population.threads.get_mut(&tid)
            && thread.about.name != name
        {
            name.clone_into(&mut thread.about.name);
            self.writer.thread(thread.index, &thread.about);
        }
    }

    pub(super) fn comm(&mut self, stamp: Stamp, pid: i32, tid: i32, name: &str, exec: bool) {
        if exec
            && pid == self.root
            && let Some(delay_ns) = self.window.delay_after_exec_ns.take()
        {
            self.window.origin_ns = stamp.time_ns.saturating_add(delay_ns);
        }
        let at_ns = self.window.time(stamp.time_ns);
        self.ensure_process(pid, at_ns);
        if exec {
            // Whatever thread did it, the process goes on with one thread that has its number.
            if !self.population.threads.contains_key(&pid) {
                self.begin_thread(pid, pid, at_ns, Doing::Running);
            }
        }
        if exec {
            self.with_heap(|heap, around| heap.left(pid, stamp.time_ns, Leaving::Executes, around));
            self.close_regions(pid, at_ns);
        }
        if let Some(process) = self.population.processes.get_mut(&pid) {
            if exec {
                process.space = Default::default();
                process.spans = None;
                process.look_ns = at_ns.saturating_add(FIRST_LOOK_NS);
                process.awaits_executable = true;
                process.looked_at_ns = None;
                if let Some(heap) = &mut self.heap {
                    heap.executed(pid, process.id, stamp.time_ns);
                }
            }
            if (exec || tid == pid) && process.about.name != name {
                name.clone_into(&mut process.about.name);
                self.writer.process(process.id, &process.about);
            }
        }
        self.rename_thread(tid, name);
    }

    /// A process executes another program: what its threads were in is over.
    fn close_regions(&mut self, pid: i32, at_ns: u64) {
        for (&tid, thread) in self.population.threads.iter().filter(|(_, thread)| thread.pid == pid) {
            self.regions.ended(MarkedMoment { tid, time_ns: at_ns }, ThreadId(thread.index));
        }
    }

    pub(super) fn fork(&mut self, stamp: Stamp, pid: i32, tid: i32, parent_pid: i32) {
        let at_ns = self.window.time(stamp.time_ns);
        if pid != parent_pid {
            let process = self.population.process(pid, Some(parent_pid), at_ns);
            self.writer.process(process.id, &process.about);
            if let Some(heap) = &mut self.heap {
                heap.forked(pid, parent_pid, process.id, process.parent, stamp.time_ns);
            }
        }
        self.ensure_process(pid, at_ns);
        self.begin_thread(pid, tid, at_ns, Doing::Preempted);
    }

    pub(super) fn exit(&mut self, stamp: Stamp, tid: i32) {
        let at_ns = self.window.time(stamp.time_ns);
        if self.population.is_last(tid) {
            let pid = self.population.threads.get(&tid).map_or(tid, |thread| thread.pid);
            self.with_heap(|heap, around| heap.left(pid, stamp.time_ns, Leaving::Ends, around));
        }
        let Some((thread, process)) = self.population.end(tid, at_ns) else { return };
        self.regions.ended(MarkedMoment { tid, time_ns: at_ns }, ThreadId(thread.index));
        let writer = &mut self.writer;
        self.slices.end(thread.index, at_ns, |slice| writer.slice(slice));
        writer.thread(thread.index, &thread.about);
        if let Some(process) = process {
            writer.process(process.id, &process.about);
            if process.about.pid == self.root.cast_unsigned() {
                self.root_ended_ns.get_or_insert(stamp.time_ns);
            }
        }
    }

    pub(super) fn switch(&mut self, stamp: Stamp, out: bool, preempted: bool) {
        let doing = match (out, preempted) {
            (false, _) => Doing::Running,
            (true, true) => Doing::Preempted,
            (true, false) => Doing::Blocked,
        };
        let at_ns = self.window.time(stamp.time_ns);
        self.counts.switches += u64::from(out);
        if let Some(thread) = self.population.threads.get(&stamp.tid) {
            let writer = &mut self.writer;
            self.slices.change(thread.index, doing, at_ns, |slice| writer.slice(slice));
        }
    }

    /// Does something with what the program wrote down about its allocations, if it does.
    pub(super) fn with_heap(&mut self, act: impl FnOnce(&mut Heap, &mut HeapContext<'_>)) {
        let Some(heap) = &mut self.heap else { return };
        let mut around = HeapContext {
            population: &self.population,
            window: &self.window,
            modules: &mut self.modules,
            writer: &mut self.writer,
            regions: &mut self.regions,
        };
        act(heap, &mut around);
    }
}
