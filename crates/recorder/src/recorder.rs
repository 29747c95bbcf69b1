//! From the kernel's records to the recording.

mod events;
mod functions;
mod landing;
mod mappings;
mod restrained;
mod samples;
mod tasks;

use std::collections::{HashMap, HashSet};

use pmu::sampling::{RingRecord, Sampler};
use record::{file::Writer, ids::ModuleId, run::Place};
use symbols::PerfMap;

use super::{
    areas,
    bursts::Bursts,
    chains::Chains,
    event_sampling::{EventSampler, QueuedEvent},
    heap::Heap,
    known_work::GeneratedCode,
    memory::CodePages,
    modules::Modules,
    onlooker::{CopiesOfProgram, RecentSamples},
    operand::{Operands, PlaceOperands},
    population::Population,
    regions::RegionTally,
    schedule::ScheduleWatch,
    session::now_ns,
    slices::{Doing, ThreadSlices},
    unwinding::StackUnwinding,
    variables::Variables,
};

/// Time beyond this is never reached: about 500 years.
pub(super) const NEVER: u64 = u64::MAX;

/// Places that are kept, so that memory stays bounded; a program's samples lie at far fewer.
pub(super) const MOST_PLACES: usize = 1 << 19;

/// What is known of a place beside what the recording says.
#[derive(Clone, Copy, Debug)]
struct KnownSpace {
    index: u32,
    operands: PlaceOperands,
}

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCounts {
    pub samples: u64,
    pub lost: u64,
    pub lost_loads: u64,
    pub lost_events: u64,
    pub throttled: u64,
    pub malformed: u64,
    pub unmapped: u64,
    /// At places beyond those that are kept.
    pub crowded: u64,
    /// In the library that writes allocations down; not in the recording.
    pub own: u64,
    /// Threads left a CPU.
    pub switches: u64,
}

/// Takes records in order of time and hands the writer what they mean.
pub(super) struct Recorder {
    pub writer: Writer,
    pub modules: Modules,
    pub pages: CodePages,
    pub places: Vec<Place>,
    /// Whether samples landed on a place; others are known as callers only.
    pub sampled: Vec<bool>,
    pub chains: Chains,
    /// Code of this process that was generated, if that is what is recorded: samples elsewhere belong to whoever runs it.
    pub generated: Vec<GeneratedCode>,
    /// What the program writes down about its allocations, if it does.
    pub heap: Option<Heap>,
    /// Regions that it marks.
    pub regions: RegionTally,
    pub counts: RecordCounts,
    /// Samples that an onlooker has not seen yet, if there is one.
    pub recent: Option<RecentSamples>,
    /// So many of them are kept at most.
    pub most_recent: usize,
    /// Processes of which nothing is recorded.
    pub copies: Option<CopiesOfProgram>,
    /// When the first process ended.
    pub root_ended_ns: Option<u64>,
    /// Samples of events that wait for the records before them.
    queued: Vec<QueuedEvent>,
    /// By process, the thread of imported samples that no thread is named of.
    nameless: HashMap<i32, u32>,
    /// Samples have registers, so that addresses of operands can be worked out.
    pub has_registers: bool,
    /// It is known when threads ran.
    pub keeps_slices: bool,
    /// Records are of the whole machine: only those of the program from this moment on count.
    pub sifts_from_ns: Option<u64>,
    /// Places that are kept.
    pub most_places: usize,
    /// Follows stacks that samples bring along.
    pub unwinding: StackUnwinding,
    /// Functions of the kernel, if they are known.
    pub kernel_names: Option<PerfMap>,
    by_place: HashMap<(usize, u64), KnownSpace>,
    /// By module and first address of a loop, how many samples are noted with their pass.
    passes: HashMap<(ModuleId, u64), u32>,
    /// By module and return address, the place of the call; none if no call stands there.
    callers: HashMap<(usize, u64), Option<u32>>,
    /// The chain of the current sample.
    chain: Vec<u32>,
    variables: Variables,
    has_one_node: bool,
    operands: Operands,
    population: Population,
    slices: ThreadSlices,
    window: RecordWindow,
    root: i32,
}

/// Which part of the kernel's time is recorded, on the kernel's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordWindow {
    /// The recording's zero.
    pub origin_ns: u64,
    /// How long after the program's exec the zero lies; `None` if it is already known.
    pub delay_after_exec_ns: Option<u64>,
    /// Nothing is recorded from here on.
    pub end_ns: u64,
}

impl RecordWindow {
    pub fn time(&self, at_ns: u64) -> u64 {
        at_ns.min(self.end_ns).saturating_sub(self.origin_ns)
    }

    fn contains(&self, at_ns: u64) -> bool {
        (self.origin_ns..self.end_ns).contains(&at_ns)
    }
}

impl Recorder {
    /// `root` is the process that was started or attached to.
    pub fn new(
        writer: Writer,
        root: i32,
        window: RecordWindow,
        slice_ns: u64,
        skid_instructions: u32,
    ) -> Self {
        Self {
            writer,
            modules: Modules::default(),
            pages: CodePages::default(),
            places: Vec::new(),
            sampled: Vec::new(),
            chains: Chains::default(),
            generated: Vec::new(),
            heap: None,
            regions: RegionTally::default(),
            counts: RecordCounts::default(),
            recent: None,
            most_recent: usize::MAX,
            copies: None,
            root_ended_ns: None,
            queued: Vec::new(),
            nameless: HashMap::new(),
            has_registers: true,
            keeps_slices: true,
            sifts_from_ns: None,
            most_places: MOST_PLACES,
            unwinding: StackUnwinding::default(),
            kernel_names: None,
            by_place: HashMap::new(),
            passes: HashMap::new(),
            callers: HashMap::new(),
            chain: Vec::new(),
            variables: Variables::default(),
            has_one_node: areas::has_one_node(),
            operands: Operands::new(skid_instructions),
            population: Population::default(),
            slices: ThreadSlices::new(slice_ns),
            window,
            root,
        }
    }

    pub fn window(&self) -> RecordWindow {
        self.window
    }

    /// The recording's zero is this moment of the kernel's clock.
    pub fn begin_at(&mut self, origin_ns: u64) {
        self.window.origin_ns = origin_ns;
    }

    /// Notes who is there already: the process with these threads, their names and what they do.
    pub fn known(&mut self, pid: i32, parent: Option<i32>, name: &str, threads: &[(i32, String, Doing)]) {
        let process = self.population.process(pid, parent, 0);
        process.about.name = name.to_owned();
        process.about.executable = std::fs::read_link(format!("/proc/{pid}/exe"))
            .ok()
            .map(|path| path.to_string_lossy().into_owned());
        self.writer.process(process.id, &process.about);
        for (tid, name, doing) in threads {
            self.begin_thread(pid, *tid, 0, *doing);
            self.rename_thread(*tid, name);
        }
        self.look_at(pid, 0);
    }

    /// Notes a thread of a process that is about to execute generated code, and nothing else of that process.
    pub fn known_work(&mut self, pid: i32, tid: i32, code: GeneratedCode) {
        let process = self.population.process(pid, None, 0);
        process.about.name.clone_from(&code.name);
        self.writer.process(process.id, &process.about);
        self.begin_thread(pid, tid, 0, Doing::Blocked);
        self.map(
            pid,
            (code.start, code.bytes.len() as u64, 0),
            b"//anon",
            pmu::sampling::MappedFile::Unknown,
        );
        self.generated.push(code);
    }

    /// Notes a process and threads that procfs shows.
    pub fn seen(&mut self, pid: i32, parent: Option<i32>, threads: &[(i32, String, Doing)], at_ns: u64) {
        let at_ns = self.window.time(at_ns);
        if !self.population.processes.contains_key(&pid) {
            let process = self.population.process(pid, parent, at_ns);
            self.writer.process(process.id, &process.about);
        }
        for (tid, name, _) in threads {
            if !self.population.threads.contains_key(tid) {
                // Asked for what it did, not told of its switches: no slices of its own.
                if let Some(thread) = self.population.thread(pid, *tid, at_ns) {
                    self.writer.thread(thread.index, &thread.about);
                }
            }
            self.rename_thread(*tid, name);
            if *tid == pid
                && let Some(process) = self.population.processes.get_mut(&pid)
                && process.about.name != *name
            {
                name.clone_into(&mut process.about.name);
                self.writer.process(process.id, &process.about);
            }
        }
    }

    /// Asks procfs what a thread did since it was last asked for.
    pub fn ask(&mut self, watch: &mut ScheduleWatch, pid: i32, tid: i32, at_ns: u64, slice_ns: u64) {
        let Some(thread) = self.population.threads.get(&tid) else { return };
        let is_due = self.window.contains(at_ns);
        let slice = watch.ask(pid, tid, thread.index, self.window.time(at_ns), slice_ns);
        if let Some(slice) = slice.filter(|_| is_due) {
            self.writer.slice(slice);
        }
    }

    /// Takes what the rings hold by now.
    pub fn drain(
        &mut self,
        clock: &mut Sampler<'_>,
        loads: &mut [Sampler<'_>],
        events: &mut [EventSampler<'_>],
        bursts: &mut Bursts<'_>,
    ) {
        let now = now_ns();
        self.beside_copies(|recorder, copies| {
            for EventSampler { event, sampler } in events {
                sampler.drain(|record| recorder.queue_event(*event, &record, copies));
            }
        });
        self.beside_copies(|recorder, copies| {
            clock.drain(|record| recorder.take_unless_copied(record, copies))
        });
        self.land_events(NEVER);
        // What was mapped stands in the other rings, which come first.
        for loads in loads {
            loads.drain(|record| self.take_load(record));
        }
        // After the records of who runs what, and before what was marked meanwhile.
        self.beside_copies(|recorder, copies| {
            bursts.drain(|record| recorder.take_burst(&record, copies));
        });
        self.advance(now);
    }

    /// Takes all that the last bursts left.
    pub fn drain_all_bursts(&mut self, bursts: &mut Bursts<'_>) {
        self.beside_copies(|recorder, copies| {
            bursts.drain_all(|record| recorder.take_burst(&record, copies));
        });
    }

    /// Takes all that the rings of samplers hold that were stopped.
    pub fn drain_all(
        &mut self,
        clock: &mut Sampler<'_>,
        loads: &mut [Sampler<'_>],
        events: &mut [EventSampler<'_>],
    ) {
        self.beside_copies(|recorder, copies| {
            for EventSampler { event, sampler } in events {
                sampler.drain_all(|record| recorder.queue_event(*event, &record, copies));
            }
        });
        self.beside_copies(|recorder, copies| {
            clock.drain_all(|record| recorder.take_unless_copied(record, copies))
        });
        self.land_events(NEVER);
        for loads in loads {
            loads.drain_all(|record| self.take_load(record));
        }
    }

    /// Does something while no copy can be begun that is not known.
    fn beside_copies<T>(&mut self, act: impl FnOnce(&mut Self, Option<&HashSet<i32>>) -> T) -> T {
        let copies = self.copies.clone();
        let known =
            copies.as_ref().map(|copies| copies.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        act(self, known.as_deref())
    }

    /// Takes one record, if it is the program's.
    pub(super) fn take_unless_copied(&mut self, record: RingRecord<'_>, copies: Option<&HashSet<i32>>) {
        // A copy has one thread, which has its number.
        let pid = match &record {
            RingRecord::Sample(sample) => sample.pid,
            RingRecord::Mmap(mmap) => mmap.pid,
            RingRecord::Comm { pid, .. } | RingRecord::Fork { pid, .. } => *pid,
            RingRecord::Exit { tid, .. } => *tid,
            RingRecord::Switch { stamp, .. } => stamp.tid,
            _ => 0,
        };
        if !Self::is_copy(copies, pid) && self.is_of_program(&record) {
            self.take(record);
        }
    }

    pub fn population(&self) -> &Population {
        &self.population
    }

    /// Takes one record.
    pub(super) fn take(&mut self, record: RingRecord<'_>) {
        match record {
            RingRecord::Sample(sample) => self.sample(&sample),
            RingRecord::Mmap(mmap) if !mmap.is_data => self.mmap(&mmap),
            RingRecord::Comm { stamp, pid, tid, name, exec } => {
                self.land_events(stamp.time_ns);
                self.comm(stamp, pid, tid, &String::from_utf8_lossy(name), exec);
            }
            RingRecord::Fork { stamp, pid, tid, parent_pid, .. } => self.fork(stamp, pid, tid, parent_pid),
            RingRecord::Exit { stamp, tid, .. } => {
                self.land_events(stamp.time_ns);
                self.exit(stamp, tid);
            }
            RingRecord::Switch { stamp, out, preempted } => self.switch(stamp, out, preempted),
            RingRecord::Lost { records, .. } => self.counts.lost += records,
            RingRecord::LostSamples { samples, .. } => self.counts.lost += samples,
            RingRecord::Throttle { .. } => self.counts.throttled += 1,
            RingRecord::Malformed { .. } => self.counts.malformed += 1,
            _ => {}
        }
    }

    fn take_burst(&mut self, record: &RingRecord<'_>, copies: Option<&HashSet<i32>>) {
        if let RingRecord::Sample(sample) = record
            && !Self::is_copy(copies, sample.pid)
        {
            self.burst(sample);
        }
    }

    /// Takes one record of a sampler of loads.
    fn take_load(&mut self, record: RingRecord<'_>) {
        match record {
            RingRecord::Sample(sample) => self.load(&sample),
            RingRecord::Lost { records: lost, .. } | RingRecord::LostSamples { samples: lost, .. } => {
                self.counts.lost_loads += lost;
            }
            RingRecord::Malformed { .. } => self.counts.malformed += 1,
            _ => {}
        }
    }

    /// Hands over finished slices and notes of allocations, up to a moment of the kernel's clock before which all
    /// records were taken.
    pub fn advance(&mut self, at_ns: u64) {
        self.with_heap(|heap, around| heap.read_all(at_ns, around));
        let writer = &mut self.writer;
        self.regions.settle(self.window.time(at_ns), writer);
        self.slices.advance(self.window.time(at_ns), |slice| writer.slice(slice));
    }

    /// Nothing that happens after this moment is recorded.
    pub fn close(&mut self, at_ns: u64) {
        self.window.end_ns = at_ns;
    }

    /// Somebody still runs, as far as we know.
    pub fn has_survivors(&self) -> bool {
        let mut known = self.population.processes.keys();
        known.any(|pid| std::path::Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok())
    }

    /// Ends all that still lives.
    pub fn end(&mut self, at_ns: u64) {
        self.with_heap(Heap::left_at_the_end);
        let at_ns = self.window.time(at_ns);
        self.regions.finish(at_ns, &mut self.writer);
        for thread in self.population.threads.values() {
            let writer = &mut self.writer;
            self.slices.end(thread.index, at_ns, |slice| writer.slice(slice));
        }
    }
}
