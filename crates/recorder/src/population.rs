//! Processes and threads, as records tell of them. What ended is forgotten: the file has it.

use std::{collections::HashMap, rc::Rc};

use record::{
    ids::ProcessId,
    run::{Process, RecordedThread},
};

use super::{
    areas::{AreaSpan, FIRST_LOOK_NS},
    spaces::Space,
};

/// A process that lives.
#[derive(Debug)]
pub(super) struct LiveProcess {
    pub id: ProcessId,
    pub about: Process,
    pub space: Space,
    threads: usize,
    /// The next code it maps is the program it executes.
    pub awaits_executable: bool,
    /// When its mappings were last read from procfs.
    pub looked_at_ns: Option<u64>,
    /// The process it was forked from.
    pub parent: Option<ProcessId>,
    /// The files it has loaded, by address; none if that is to be found out.
    pub spans: Option<Rc<[AreaSpan]>>,
    /// When its address space is to be looked at.
    pub look_ns: u64,
}

/// A thread that lives.
#[derive(Debug)]
pub(super) struct LiveThread {
    pub index: u32,
    pub about: RecordedThread,
    pub pid: i32,
    /// At its last sample.
    pub stack_pointer: Option<u64>,
}

/// Who lives.
#[derive(Debug, Default)]
pub(super) struct Population {
    pub processes: HashMap<i32, LiveProcess>,
    pub threads: HashMap<i32, LiveThread>,
    process_count: u32,
    thread_count: u32,
}

impl Population {
    /// A process begins, in place of any other with its number.
    pub fn process(&mut self, pid: i32, parent: Option<i32>, at_ns: u64) -> &mut LiveProcess {
        let inherited = parent.and_then(|parent| self.processes.get(&parent));
        let (name, executable, space) = inherited.map_or_else(Default::default, |parent| {
            (parent.about.name.clone(), parent.about.executable.clone(), parent.space.clone())
        });
        let about = Process {
            pid: pid.cast_unsigned(),
            parent: parent.map(i32::cast_unsigned),
            name,
            executable,
            began_ns: at_ns,
            ended_ns: None,
        };
        let id = ProcessId(self.process_count);
        let parent = inherited.map(|parent| parent.id);
        self.process_count += 1;
        let live = LiveProcess {
            id,
            about,
            space,
            threads: 0,
            awaits_executable: false,
            looked_at_ns: None,
            parent,
            spans: None,
            look_ns: at_ns.saturating_add(FIRST_LOOK_NS),
        };
        self.processes.entry(pid).insert_entry(live).into_mut()
    }

    /// Processes and threads there ever were.
    pub fn counts(&self) -> (usize, usize) {
        (self.process_count as usize, self.thread_count as usize)
    }

    /// A thread of a known process begins.
    pub fn thread(&mut self, pid: i32, tid: i32, at_ns: u64) -> Option<&LiveThread> {
        let process = self.processes.get_mut(&pid)?;
        process.threads += 1;
        let about = RecordedThread {
            tid: tid.cast_unsigned(),
            process: process.id,
            name: process.about.name.clone(),
            began_ns: at_ns,
            ended_ns: None,
        };
        let index = self.thread_count;
        self.thread_count += 1;
        self.threads.insert(tid, LiveThread { index, about, pid, stack_pointer: None });
        self.threads.get(&tid)
    }

    /// Whether a thread is the last of its process.
    pub fn is_last(&self, tid: i32) -> bool {
        let process = self.threads.get(&tid).and_then(|thread| self.processes.get(&thread.pid));
        process.is_some_and(|process| process.threads == 1)
    }

    /// A thread ends; gives it, and its process if that ends with it.
    pub fn end(&mut self, tid: i32, at_ns: u64) -> Option<(LiveThread, Option<LiveProcess>)> {
        let mut thread = self.threads.remove(&tid)?;
        thread.about.ended_ns = Some(at_ns);
        let process = self.processes.get_mut(&thread.pid)?;
        process.threads = process.threads.saturating_sub(1);
        let last = process.threads == 0;
        let ended = last.then(|| self.processes.remove(&thread.pid)).flatten().map(|mut process| {
            process.about.ended_ns = Some(at_ns);
            process
        });
        Some((thread, ended))
    }
}
