//! Several cores and one memory system.
//!
//! The thread that is furthest behind goes on by one block, so that requests of all cores reach the shared parts
//! nearly in the order of time. The skew between two threads is at most the time one block takes to dispatch; within
//! a thread, requests lie ahead of its clock by at most what its window holds.
//!
//! Two threads on one core share ports, dispatch slots, instruction cache and predictor, and have one half each of
//! window, scheduler, load and store buffer and µop cache. Each retires at full width, one that waits for its turn
//! leaves its half unused, and each sees the port use of the other a block at a time.

mod watch;

use std::sync::Arc;

use code::Block;
use kernels::draw::SplitMix;
use machine::model::{InvalidModel, Model};

use crate::{
    access::MemoryPort,
    core::{
        CoreError, Statistics,
        hardware::{Hardware, THREADS},
        table::UopTable,
        thread::CoreThread,
    },
    pmu::{Probe, SharedBank},
    source::{BlockExecution, BlockSource, SourceStep},
    time::Time,
};

/// A source and where it runs.
pub struct EngineJob<'a> {
    /// Core, counted over all packages.
    pub core: usize,
    /// Hardware thread of the core: 0, or 1 where the model has two.
    pub thread: usize,
    /// Whether the run may end before it does: interference, not the work that is measured.
    pub background: bool,
    /// What runs.
    pub source: &'a mut dyn BlockSource,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// When it ended, all stores drained; for background jobs that were stopped, when.
    pub end: Time,
    /// Whether it came to its end.
    pub complete: bool,
    /// What it did. The activity is that of its core, up to the end of the whole run.
    pub statistics: Statistics,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOutcome {
    /// All jobs started then.
    pub start: Time,
    /// The last job that is not in the background ended then.
    pub end: Time,
    /// In the order given.
    pub jobs: Vec<JobOutcome>,
}

impl EngineOutcome {
    /// From the start to the end.
    pub fn elapsed(&self) -> Time {
        self.end.since(self.start)
    }
}

/// Interrupts: every core loses time now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// Of the moments.
    pub seed: u64,
    /// From one to the next, on average; between half and one and a half times this.
    pub every: Time,
    /// What one costs.
    pub lasts: Time,
}

/// Why a run could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model contradicts itself.
    #[error(transparent)]
    Model(#[from] InvalidModel),
    /// The core cannot execute the code.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// A place that the model does not have, or that is taken.
    #[error(
        "core {core} thread {thread} cannot be used: the model has {cores} cores of {threads} threads, one job each"
    )]
    BadPlace {
        /// Core asked for.
        core: usize,
        /// Thread asked for.
        thread: usize,
        /// Cores of the model.
        cores: usize,
        /// Threads per core of the model.
        threads: usize,
    },
    /// All jobs wait for each other.
    #[error("all {jobs} jobs wait for each other's turn; start every thread of a kernel that takes turns")]
    AllBlocked {
        /// Jobs that wait.
        jobs: usize,
    },
}

/// A core and its threads.
struct EngineCore {
    hardware: Hardware,
    threads: Vec<CoreThread<Probe>>,
    /// The program each thread ran last.
    programs: [Option<Arc<[Block]>>; THREADS],
}

/// Cores and a memory system.
pub struct Engine<M> {
    model: Model,
    memory: M,
    /// Those that have run anything.
    cores: Vec<Option<EngineCore>>,
    tables: Vec<(Arc<[Block]>, Arc<UopTable>)>,
    interrupts: Option<Interrupts>,
    bank: Option<SharedBank>,
    now: Time,
}

/// A job while it runs.
struct Running {
    core: usize,
    thread: usize,
    background: bool,
    table: Arc<UopTable>,
    /// When it goes on; none if it waits for another or has ended.
    due: Option<Time>,
    next_interrupt: Time,
    random: SplitMix,
    outcome: Option<(Time, bool)>,
}

/// Programs whose tables are kept.
const KEPT_TABLES: usize = 64;

impl<M: MemoryPort> Engine<M> {
    /// All cores of a model on a memory system.
    pub fn new(model: &Model, memory: M) -> Result<Self, EngineError> {
        model.check()?;
        UopTable::new(&[], model)?;
        let cores = model.sockets as usize * model.cores_per_socket as usize;
        Ok(Self {
            model: model.clone(),
            memory,
            cores: (0..cores).map(|_| None).collect(),
            tables: Vec::new(),
            interrupts: None,
            bank: None,
            now: Time::ZERO,
        })
    }

    /// The memory system.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory system, to be set up between runs.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The end of the last run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Interrupts from the next run on.
    pub fn set_interrupts(&mut self, interrupts: Option<Interrupts>) {
        self.interrupts = interrupts;
    }

    /// Lets a PMU count what runs from now on.
    pub fn attach(&mut self, bank: SharedBank) {
        self.bank = Some(bank);
    }

    /// Another clock for a core from now on. Everything has drained between runs, as real cores wait for that too.
    pub fn set_core_clock(&mut self, core: usize, hz: u64) -> Result<(), EngineError> {
        let now = self.now;
        let hardware = &mut self.core(core, 0, 1)?.hardware;
        let cycle = hardware.clock.cycle_at(now);
        hardware.clock.change(hz.max(1), cycle);
        self.memory.core_clock_changed(core, hz.max(1), now);
        Ok(())
    }

    /// The core, made at its first use, with as many threads as asked for at least.
    fn core(&mut self, core: usize, thread: usize, sharing: u32) -> Result<&mut EngineCore, EngineError> {
        let threads = (self.model.threads_per_core as usize).clamp(1, THREADS);
        let cores = self.cores.len();
        let bad = EngineError::BadPlace { core, thread, cores, threads };
        let Some(slot) = self.cores.get_mut(core).filter(|_| thread < threads) else { return Err(bad) };
        let found = match slot.take() {
            Some(found) => found,
            None => EngineCore {
                hardware: Hardware::new(core, &self.model),
                threads: Vec::new(),
                programs: [None, None],
            },
        };
        let found = slot.insert(found);
        if found.threads.len() != sharing as usize {
            // Buffers are divided anew; all has drained.
            let limits = found.hardware.limits;
            let make = |index| CoreThread::new(index, sharing, limits, &self.model);
            found.threads = (0..sharing as usize).map(make).collect();
            found.programs = [None, None];
            found.hardware.share_slots(sharing > 1);
        }
        Ok(found)
    }

    fn table(&mut self, blocks: &Arc<[Block]>) -> Result<Arc<UopTable>, EngineError> {
        if let Some((_, table)) = self.tables.iter().find(|(known, _)| Arc::ptr_eq(known, blocks)) {
            return Ok(table.clone());
        }
        let table = Arc::new(UopTable::new(blocks, &self.model)?);
        if self.tables.len() == KEPT_TABLES {
            self.tables.remove(0);
        }
        self.tables.push((blocks.clone(), table.clone()));
        Ok(table)
    }

    /// Runs all jobs, started together, until those not in the background have ended. Caches stay as they are left.
    pub fn run(&mut self, jobs: &mut [EngineJob<'_>]) -> Result<EngineOutcome, EngineError> {
        let start = self.now;
        let mut running = self.start(jobs)?;
        let watched = self.begin_watch(&running);
        let mut execution = BlockExecution::default();
        while running.iter().any(|job| job.outcome.is_none() && !job.background) {
            let (next, limit) = furthest_behind(&running).ok_or(EngineError::AllBlocked {
                jobs: running.iter().filter(|job| job.outcome.is_none()).count(),
            })?;
            // It goes on until another is further behind.
            loop {
                let woken = self.step(&mut running[next], jobs[next].source, &mut execution);
                let job = &running[next];
                if woken || job.due.is_none_or(|due| due > limit) {
                    if woken {
                        wake(&mut running, start);
                    }
                    break;
                }
            }
        }
        let outcome = self.finish(start, &mut running);
        if let Some(watched) = watched {
            self.end_watch(&watched, &outcome, &running);
        }
        Ok(outcome)
    }

    fn start(&mut self, jobs: &[EngineJob<'_>]) -> Result<Vec<Running>, EngineError> {
        let start = self.now;
        let sharing = |core: usize| jobs.iter().filter(|job| job.core == core).map(|job| job.thread).max();
        let mut running: Vec<Running> = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let table = self.table(job.source.blocks())?;
            let threads = sharing(job.core).map_or(1, |last| last.min(THREADS - 1) + 1);
            let taken = running.iter().any(|other| (other.core, other.thread) == (job.core, job.thread));
            let core = self.core(job.core, job.thread, threads as u32)?;
            if taken {
                let (cores, threads) = (self.cores.len(), self.model.threads_per_core as usize);
                return Err(EngineError::BadPlace { core: job.core, thread: job.thread, cores, threads });
            }
            let cycle = core.hardware.clock.cycle_at(start);
            core.hardware.timeline.begin(cycle);
            let fresh =
                !core.programs[job.thread].as_ref().is_some_and(|ran| Arc::ptr_eq(ran, job.source.blocks()));
            core.programs[job.thread] = Some(job.source.blocks().clone());
            core.threads[job.thread].begin(cycle, fresh, &table, &mut core.hardware);
            let seed = self.interrupts.map_or(0, |interrupts| interrupts.seed) ^ start.0;
            let mut random = SplitMix::new(seed.wrapping_add(number as u64));
            let next_interrupt = start + self.interrupt_distance(&mut random);
            running.push(Running {
                core: job.core,
                thread: job.thread,
                background: job.background,
                table,
                due: Some(start),
                next_interrupt,
                random,
                outcome: None,
            });
        }
        Ok(running)
    }

    fn interrupt_distance(&self, random: &mut SplitMix) -> Time {
        match self.interrupts {
            Some(Interrupts { every, .. }) => Time(every.0 / 2 + random.below(every.0)),
            None => Time(u64::MAX / 2),
        }
    }

    /// One block of a job. True if it has settled, so that others may go on.
    fn step(
        &mut self,
        job: &mut Running,
        source: &mut dyn BlockSource,
        execution: &mut BlockExecution,
    ) -> bool {
        let Some(Some(EngineCore { hardware, threads, .. })) = self.cores.get_mut(job.core) else {
            return false;
        };
        let thread = &mut threads[job.thread];
        match source.poll(execution) {
            SourceStep::Execute => thread.execute(&job.table, execution, hardware, &mut self.memory),
            SourceStep::ExecuteAt(time) => {
                thread.wait_until(time, hardware);
                thread.execute(&job.table, execution, hardware, &mut self.memory);
            }
            SourceStep::Settle => {
                let at = thread.settle(hardware, &mut self.memory);
                source.settled(at);
                // Others come up to that moment before it goes on.
                job.due = Some(thread.now(hardware).max(at));
                return true;
            }
            SourceStep::Blocked => {
                thread.park(hardware);
                job.due = None;
                return false;
            }
            SourceStep::End => {
                let end = thread.settle(hardware, &mut self.memory);
                thread.park(hardware);
                job.due = None;
                job.outcome = Some((end, true));
                return true;
            }
        }
        let now = thread.now(hardware);
        job.due = Some(thread.due(hardware));
        if now >= job.next_interrupt
            && let Some(interrupts) = self.interrupts
        {
            thread.interrupt(interrupts.lasts, hardware);
            job.due = Some(thread.due(hardware));
            job.next_interrupt = thread.now(hardware) + self.interrupt_distance(&mut job.random);
        }
        false
    }

    /// Stops background jobs, lets all drain and adds up.
    fn finish(&mut self, start: Time, running: &mut [Running]) -> EngineOutcome {
        let (mut end, mut last) = (start, start);
        for job in running.iter_mut() {
            let Some(Some(EngineCore { hardware, threads, .. })) = self.cores.get_mut(job.core) else {
                continue;
            };
            let (ended, _) = *job
                .outcome
                .get_or_insert_with(|| (threads[job.thread].settle(hardware, &mut self.memory), false));
            last = last.max(ended);
            if !job.background {
                end = end.max(ended);
            }
        }
        self.now = last;
        let jobs = running.iter().map(|job| self.outcome(job, end)).collect();
        EngineOutcome { start, end, jobs }
    }

    fn outcome(&mut self, job: &Running, run_end: Time) -> JobOutcome {
        let (end, complete) = job.outcome.unwrap_or((run_end, false));
        let Some(Some(EngineCore { hardware, threads, .. })) = self.cores.get_mut(job.core) else {
            return JobOutcome { end, complete, statistics: Statistics::default() };
        };
        let mut statistics = threads[job.thread].finish(end, hardware);
        threads[job.thread].park(hardware);
        hardware.timeline.account(hardware.clock.cycle_at(run_end.max(end)));
        statistics.activity = hardware.timeline.activity();
        JobOutcome { end, complete, statistics }
    }
}

/// The job that is furthest behind, and how far the next one is.
fn furthest_behind(running: &[Running]) -> Option<(usize, Time)> {
    let mut best: Option<(usize, Time)> = None;
    let mut second = Time(u64::MAX);
    for (index, job) in running.iter().enumerate() {
        let Some(due) = job.due else { continue };
        match best {
            Some((_, least)) if due >= least => second = second.min(due),
            _ => {
                second = best.map_or(second, |(_, least)| least);
                best = Some((index, due));
            }
        }
    }
    best.map(|(index, _)| (index, second))
}

/// Lets those that wait ask again.
fn wake(running: &mut [Running], start: Time) {
    for job in running.iter_mut().filter(|job| job.due.is_none() && job.outcome.is_none()) {
        job.due = Some(start);
    }
}
