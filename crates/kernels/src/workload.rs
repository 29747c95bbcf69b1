//! A plan on this machine: buffers placed and filled, code in executable pages, threads pinned.
//!
//! A kernel's [`Job`] is a plan of one step; a scenario's has many. Both run here.
//!
//! # Safety
//! The code of a part touches what its geometry says, beginning at its offsets, and follows only pointers that lie
//! in a chain. What must hold: every instance is as long as `Instance::allocate` says, nobody writes where a
//! chain lies (the plan refuses such steps), and a part's arguments are used by its own thread alone. That holds by
//! construction of [`crate::assemble`]; the tests run every kernel in every width against a twin.
#![allow(unsafe_code)]

mod data;
mod thread;

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64},
};

use machine::{Bytes, Isa};

use crate::{
    description::StreamPattern,
    draw::{DrawError, DrawTable},
    executable::{CodeError, CodePage},
    geometry::Geometry,
    job::{Job, JobError},
    memory::{Backing, Buffer, MemoryError},
    program::{KernelProgram, ProgramArguments},
    scenario::{Plan, PlanError, PlanPart, PlannedStep, truth::Pass},
    team::{Team, TeamError, Timed},
    truth::TruthCounts,
};
use thread::Gate;
pub use thread::WorkThread;

/// Why work cannot be run as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The job cannot be planned.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A step cannot be changed as asked.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No threads.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// No executable pages.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// No cycle or draw table for this size: an error in memwall's own limits.
    #[error("cannot prepare the data of kernel '{kernel}': {reason}")]
    Data {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
}

/// One thread's code of a step, and its arguments.
struct PartCode {
    page: CodePage,
    arguments: UnsafeCell<Box<ProgramArguments>>,
    /// Kept alive for the code.
    _table: Option<Box<DrawTable>>,
    role: usize,
    turns: u64,
    turn_bytes: u64,
    base: u64,
}

/// A step's code, by thread.
struct StepCode {
    parts: Vec<Option<PartCode>>,
    takes_turns: bool,
    passes: u64,
    /// Whose turn it is: even for the first thread, odd for the second.
    turn: AtomicU64,
}

// SAFETY: the arguments behind the cells are touched by one thread each, through its `WorkThread` alone.
unsafe impl Sync for StepCode {}

/// A plan ready to run, data touched.
pub struct Workload {
    plan: Plan,
    team: Team,
    /// In the order of the plan's instances.
    buffers: Vec<Buffer>,
    steps: Vec<StepCode>,
    gates: Vec<Gate>,
}

/// One timed run of all threads.
#[derive(Clone, Debug)]
pub struct Run {
    /// First thread's start.
    pub start_ns: u64,
    /// Last thread's end.
    pub end_ns: u64,
    /// Each thread by itself.
    pub threads: Vec<Timed<()>>,
}

impl Run {
    /// From the first start to the last end.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Times any thread was pushed off its CPU; `None` if the kernel does not say.
    pub fn involuntary_switches(&self) -> Option<u64> {
        self.threads.iter().map(|thread| thread.involuntary_switches).sum()
    }
}

impl Workload {
    /// A kernel: assembles, starts and pins threads, allocates, touches and fills.
    pub fn prepare(job: &Job) -> Result<Self, WorkloadError> {
        let plan = job.plan(&Isa::native())?;
        let nodes = vec![job.node; plan.instances().len()];
        Self::of_plan(plan, &job.cpus, &nodes)
    }

    /// Starts and pins one thread on each CPU, allocates buffers on `nodes` (one for each instance; `None`: where
    /// its owner touches it first), fills them and loads the code.
    pub fn of_plan(plan: Plan, cpus: &[u32], nodes: &[Option<u32>]) -> Result<Self, WorkloadError> {
        let mut team = Team::start(cpus)?;
        let buffers = data::buffers(&plan, &mut team, nodes)?;
        let steps = plan.steps().iter().map(|step| step_code(step, plan.threads(), &buffers));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        let gates = plan.regions().iter().map(|region| Gate::of(region.threads.len())).collect();
        Ok(Self { plan, team, buffers, steps, gates })
    }

    /// What runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Slows a step down: sets its number of empty operations per iteration and loads its code anew.
    pub fn set_nops(&mut self, step: usize, nops: u64) -> Result<(), WorkloadError> {
        self.plan.set_nops(step, nops)?;
        self.steps[step] = step_code(&self.plan.steps()[step], self.plan.threads(), &self.buffers)?;
        Ok(())
    }

    /// Lets every thread do `work`, started together. `interrupt` ends all waiting of threads for each other.
    pub fn run_threads<R: Send>(
        &mut self,
        interrupt: &AtomicBool,
        work: impl Fn(&mut WorkThread<'_>) -> R + Sync,
    ) -> Result<Vec<Timed<R>>, WorkloadError> {
        for step in &mut self.steps {
            *step.turn.get_mut() = 0;
        }
        self.gates.iter_mut().for_each(Gate::reset);
        let (plan, steps, gates) = (&self.plan, &self.steps, &self.gates);
        Ok(self.team.run(|number| work(&mut WorkThread::new(number, plan, steps, gates, interrupt)))?)
    }

    /// Runs `passes` passes of the first step, which is all there is of a kernel, on all threads, started together.
    pub fn run(&mut self, passes: u64) -> Result<Run, WorkloadError> {
        let never = AtomicBool::new(false);
        let threads = self.run_threads(&never, |thread| {
            thread.run_passes(0, passes);
        })?;
        let start_ns = threads.iter().map(|thread| thread.start_ns).min().unwrap_or(0);
        let end_ns = threads.iter().map(|thread| thread.end_ns).max().unwrap_or(0);
        Ok(Run { start_ns, end_ns, threads })
    }

    /// The first step, which is all there is of a kernel.
    pub fn step(&self) -> &PlannedStep {
        &self.plan.steps()[0]
    }

    /// What one pass of the first step does.
    pub fn pass(&self) -> Result<Pass, DrawError> {
        self.step().pass()
    }

    /// What a run of `passes` does from call to return, thread by thread. Exact.
    pub fn counts(&self, passes: u64) -> Vec<TruthCounts> {
        self.step().parts.iter().map(|part| self.step().counts(part, passes)).collect()
    }

    /// Data set of the first step as used, rounded to whole iterations.
    pub fn size(&self) -> Bytes {
        self.step().size()
    }

    /// Copies of this process have the data too: whoever relieves its loops needs it there.
    pub fn go_into_copies(&self) {
        self.buffers.iter().for_each(Buffer::go_into_copies);
    }

    /// Pages behind all buffers; `None` if the kernel does not say.
    pub fn backing(&self) -> Option<Backing> {
        let nothing = Backing { huge: Bytes(0), total: Bytes(0) };
        self.buffers.iter().map(Buffer::backing).try_fold(nothing, |sum, backing| {
            let backing = backing?;
            let (huge, total) = (sum.huge.0 + backing.huge.0, sum.total.0 + backing.total.0);
            Some(Backing { huge: Bytes(huge), total: Bytes(total) })
        })
    }

    /// Pages behind one of the plan's instances so far; `None` if the kernel does not say.
    pub fn backing_of(&self, instance: usize) -> Option<Backing> {
        self.buffers.get(instance)?.backing()
    }

    /// Runs `work` once on each thread, outside any timed run: to open what watches the thread, say.
    pub fn on_each_thread<F, R>(&mut self, work: F) -> Result<Vec<R>, TeamError>
    where
        F: Fn(usize) -> R + Sync,
        R: Send,
    {
        self.team.setup(work)
    }

    /// The part of a thread in the first step.
    fn part(&self, thread: usize) -> &PlanPart {
        &self.step().parts[thread]
    }

    fn part_code(&self, thread: usize) -> &PartCode {
        self.steps[0].parts[thread].as_ref().expect("every thread has its part of a kernel")
    }

    /// Where the machine code of one thread of a kernel lies, to match samples with.
    pub fn code_address(&self, thread: usize) -> u64 {
        self.part_code(thread).page.address()
    }

    /// Machine code of one thread of a kernel, for decoding.
    pub fn program(&self, thread: usize) -> &KernelProgram {
        &self.part(thread).program
    }

    /// The arguments of one thread of a kernel: what the code was given and left behind.
    pub fn arguments(&self, thread: usize) -> &ProgramArguments {
        // SAFETY: threads write through the cell only while `run_threads` borrows the workload mutably.
        unsafe { &*self.part_code(thread).arguments.get() }
    }

    /// The geometry of one thread of a kernel.
    pub fn geometry(&self, thread: usize) -> &Geometry {
        &self.part(thread).geometry
    }

    /// The words of the buffer that a thread owns.
    pub fn words_mut(&mut self, thread: usize) -> Option<&mut [u64]> {
        let owns = |instance: usize| self.plan.instances()[instance].thread.unwrap_or(0) == thread;
        let instance = self.part(thread).instance.filter(|&instance| owns(instance))?;
        Some(self.buffers[instance].as_mut_slice::<u64>())
    }
}

fn step_code(step: &PlannedStep, threads: usize, buffers: &[Buffer]) -> Result<StepCode, WorkloadError> {
    let mut parts: Vec<Option<PartCode>> = (0..threads).map(|_| None).collect();
    for part in &step.parts {
        parts[part.thread] = Some(part_code(step, part, buffers)?);
    }
    Ok(StepCode { parts, takes_turns: step.takes_turns(), passes: step.passes, turn: AtomicU64::new(0) })
}

fn part_code(step: &PlannedStep, part: &PlanPart, buffers: &[Buffer]) -> Result<PartCode, WorkloadError> {
    let page = CodePage::new(&part.program.code)?;
    let mut arguments = arguments_for(part);
    if let Some(instance) = part.instance {
        arguments.bases = part.bases(buffers[instance].as_ptr() as u64);
    }
    let table = match step.kernel.description().streams.first().map(|stream| stream.pattern) {
        Some(StreamPattern::Drawn { distribution, .. }) => {
            let table = DrawTable::new(distribution, part.geometry.elements);
            let table = Box::new(table.map_err(|error| data::failed(step.kernel.name(), &error))?);
            arguments.table = table.entries().as_ptr() as u64;
            Some(table)
        }
        _ => None,
    };
    Ok(PartCode {
        page,
        base: arguments.bases[0],
        arguments: UnsafeCell::new(arguments),
        _table: table,
        role: part.role,
        turns: part.geometry.turns,
        turn_bytes: part.geometry.end(),
    })
}

/// What the code of one thread is given, but for addresses and passes.
fn arguments_for(part: &PlanPart) -> Box<ProgramArguments> {
    let geometry = &part.geometry;
    let mut arguments = Box::<ProgramArguments>::default();
    part.program.set_values(&mut arguments);
    arguments.end = geometry.end();
    arguments.random = part.random;
    (arguments.elements, arguments.step) = (geometry.elements, geometry.element_step);
    (arguments.row_begin, arguments.row_end) = (geometry.rows.0 * 8, geometry.rows.1 * 8);
    arguments.row_pitch = geometry.pitch;
    arguments
}

#[cfg(test)]
mod tests;
