//! A plan on this machine: buffers placed and filled, code in executable pages, threads pinned.
//!
//! # Safety
//! The code of a part touches what its geometry says, beginning at its offsets, and follows only pointers that lie
//! in a chain. What must hold: every instance is as long as [`Instance::allocate`] says, nobody writes where a
//! chain lies (the plan refuses such steps), and a part's arguments are used by its own thread alone.
#![allow(unsafe_code)]

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use machine::Bytes;

use super::{
    layout::Instance,
    plan::{Part, Plan, PlannedStep},
};
use crate::{
    cycle::{self, Spacing},
    description::Pattern,
    draw::DrawTable,
    executable::CodePage,
    geometry::LINE,
    memory::{Backing, Buffer, Placement},
    program::Arguments,
    team::{Team, Timed},
    workload::{WorkloadError, arguments_for},
};

/// How long a thread spins for others before it gives its CPU away.
const SPINS: u32 = 10_000;

/// A part's code and arguments.
struct Actor {
    page: CodePage,
    arguments: UnsafeCell<Box<Arguments>>,
    /// Kept alive for the code.
    _table: Option<Box<DrawTable>>,
    role: usize,
    turns: u64,
    turn_bytes: u64,
    base: u64,
}

/// A step's actors, by thread.
struct Act {
    actors: Vec<Option<Actor>>,
    takes_turns: bool,
    passes: u64,
    /// Whose turn it is: even for the first thread, odd for the second.
    turn: AtomicU64,
}

// SAFETY: the arguments behind the cells are touched by one thread each, through its `Player` alone.
unsafe impl Sync for Act {}

/// Where threads of a region meet.
#[derive(Default)]
struct Gate {
    missing: AtomicUsize,
    round: AtomicUsize,
}

/// A plan ready to be run.
pub struct Stage {
    team: Team,
    /// In the order of the plan's instances.
    buffers: Vec<Buffer>,
    acts: Vec<Act>,
    gates: Vec<(Gate, usize)>,
}

impl Stage {
    /// Starts and pins one thread on each CPU, allocates buffers on `nodes` (one for each instance; `None`: where
    /// its owner touches it first), fills them and loads the code.
    pub fn prepare(plan: &Plan, cpus: &[u32], nodes: &[Option<u32>]) -> Result<Self, WorkloadError> {
        let mut team = Team::start(cpus)?;
        let seed = plan.scenario().seed;
        let filled = team.setup(|thread| {
            let instances = plan.instances().iter().enumerate();
            instances
                .filter(|(_, instance)| instance.thread.unwrap_or(0) == thread)
                .map(|(index, instance)| {
                    let pages = plan.scenario().buffers[instance.buffer].pages;
                    let node = nodes.get(index).copied().flatten();
                    Ok((index, filled(instance, Placement { pages, node }, seed)?))
                })
                .collect::<Result<Vec<_>, WorkloadError>>()
        })?;
        let mut buffers = Vec::new();
        for part in filled {
            buffers.extend(part?);
        }
        buffers.sort_by_key(|(index, _)| *index);
        let buffers: Vec<Buffer> = buffers.into_iter().map(|(_, buffer)| buffer).collect();
        let acts = plan.steps().iter().map(|step| act(step, plan.threads(), &buffers));
        let acts = acts.collect::<Result<Vec<_>, _>>()?;
        let gates = plan.regions().iter().map(|region| (Gate::default(), region.threads.len())).collect();
        Ok(Self { team, buffers, acts, gates })
    }

    /// Loads the code of a step anew, after its plan changed.
    pub fn reload(&mut self, plan: &Plan, step: usize) -> Result<(), WorkloadError> {
        self.acts[step] = act(&plan.steps()[step], plan.threads(), &self.buffers)?;
        Ok(())
    }

    /// Lets every thread do `work`, started together. `interrupt` ends all waiting of threads for each other.
    pub fn play<R: Send>(
        &mut self,
        interrupt: &AtomicBool,
        work: impl Fn(&mut Player<'_>) -> R + Sync,
    ) -> Result<Vec<Timed<R>>, WorkloadError> {
        for act in &mut self.acts {
            *act.turn.get_mut() = 0;
        }
        for (gate, members) in &mut self.gates {
            *gate.missing.get_mut() = *members;
        }
        let (acts, gates) = (&self.acts, &self.gates);
        let played = self.team.run(|thread| {
            let mut player = Player { thread, acts, gates, interrupt, taken: vec![0; acts.len()] };
            work(&mut player)
        })?;
        Ok(played)
    }

    /// Pages behind an instance so far; `None` if the kernel does not say.
    pub fn backing(&self, instance: usize) -> Option<Backing> {
        self.buffers.get(instance)?.backing()
    }

    /// The CPU of each thread.
    pub fn cpus(&self) -> &[u32] {
        self.team.cpus()
    }
}

/// What one thread may do. There is one for each thread, on that thread.
pub struct Player<'a> {
    thread: usize,
    acts: &'a [Act],
    gates: &'a [(Gate, usize)],
    interrupt: &'a AtomicBool,
    /// Turns taken in each step so far.
    taken: Vec<u64>,
}

impl Player<'_> {
    /// Which thread this is.
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Waits for the other threads of a region. `false` if interrupted instead.
    pub fn meet(&mut self, region: usize) -> bool {
        let (gate, members) = &self.gates[region];
        // ATOMICS: the last arrival resets the gate before it opens it; release and acquire order what threads
        // did before the gate before what others do behind it.
        let round = gate.round.load(Ordering::Acquire);
        if gate.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            gate.missing.store(*members, Ordering::Relaxed);
            gate.round.store(round.wrapping_add(1), Ordering::Release);
            return !self.interrupt.load(Ordering::Relaxed);
        }
        self.wait(|| gate.round.load(Ordering::Acquire) != round)
    }

    /// Runs this thread's part of a step; nothing if it has none. `false` if interrupted before its end.
    pub fn run(&mut self, step: usize) -> bool {
        let act = &self.acts[step];
        self.run_passes(step, act.passes)
    }

    /// The same with another number of passes.
    pub fn run_passes(&mut self, step: usize, passes: u64) -> bool {
        let act = &self.acts[step];
        let Some(actor) = &act.actors[self.thread] else { return true };
        if act.takes_turns {
            return self.take_turns(step, act, actor, passes);
        }
        // SAFETY: this thread's arguments, and `&mut self` means that no other call of it is under way.
        unsafe { (*actor.arguments.get()).passes = passes };
        // SAFETY: as above.
        unsafe { actor.call() };
        true
    }

    fn take_turns(&mut self, step: usize, act: &Act, actor: &Actor, passes: u64) -> bool {
        for turn in 0..actor.turns * passes {
            let mine = 2 * self.taken[step] + actor.role as u64;
            // ATOMICS: acquire pairs with the release below: what the other thread wrote is seen.
            if !self.wait(|| act.turn.load(Ordering::Acquire) == mine) {
                return false;
            }
            // SAFETY: this thread's arguments, and `&mut self` means that no other call of it is under way.
            unsafe {
                (*actor.arguments.get()).passes = 1;
                (*actor.arguments.get()).bases[0] = actor.base + turn % actor.turns * actor.turn_bytes;
                actor.call();
            }
            act.turn.store(mine + 1, Ordering::Release);
            self.taken[step] += 1;
        }
        true
    }

    /// Until `done`, or `false` if interrupted first.
    fn wait(&self, done: impl Fn() -> bool) -> bool {
        let mut spins = 0;
        while !done() {
            if self.interrupt.load(Ordering::Relaxed) {
                return false;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                // Threads may share a CPU.
                std::thread::yield_now();
            }
        }
        true
    }
}

impl Actor {
    /// # Safety
    /// Only the actor's own thread may call, and only once at a time.
    unsafe fn call(&self) {
        // SAFETY: the code was assembled for these arguments, whose buffers live in the stage.
        unsafe { self.page.call((&raw mut **self.arguments.get()).cast()) }
    }
}

fn act(step: &PlannedStep, threads: usize, buffers: &[Buffer]) -> Result<Act, WorkloadError> {
    let mut actors: Vec<Option<Actor>> = (0..threads).map(|_| None).collect();
    for part in &step.parts {
        actors[part.thread] = Some(actor(step, part, buffers)?);
    }
    Ok(Act { actors, takes_turns: step.takes_turns(), passes: step.passes, turn: AtomicU64::new(0) })
}

fn actor(step: &PlannedStep, part: &Part, buffers: &[Buffer]) -> Result<Actor, WorkloadError> {
    let page = CodePage::new(&part.program.code)?;
    let mut arguments = arguments_for(&part.program, &part.geometry, part.random);
    if let Some(instance) = part.instance {
        arguments.bases = part.bases(buffers[instance].as_ptr() as u64);
    }
    let pattern = step.kernel.description().streams.first().map(|stream| stream.pattern);
    let table = match pattern {
        Some(Pattern::Drawn { distribution, .. }) => {
            let table = DrawTable::new(distribution, part.geometry.elements);
            let data = |error| data_error(step.kernel.name(), &error);
            let table = Box::new(table.map_err(data)?);
            arguments.table = table.entries().as_ptr() as u64;
            Some(table)
        }
        _ => None,
    };
    Ok(Actor {
        page,
        base: arguments.bases[0],
        arguments: UnsafeCell::new(arguments),
        _table: table,
        role: part.role,
        turns: part.geometry.turns,
        turn_bytes: part.geometry.end(),
    })
}

fn data_error(kernel: &str, error: &dyn std::error::Error) -> WorkloadError {
    WorkloadError::Data { kernel: kernel.to_owned(), reason: error.to_string() }
}

/// A buffer with what its steps expect to find: pointers where they are followed, ordinary numbers elsewhere, so
/// that no kernel meets subnormals or overflows. Runs on the thread whose CPU is to touch it first.
fn filled(instance: &Instance, placement: Placement, seed: u64) -> Result<Buffer, WorkloadError> {
    let mut buffer = Buffer::allocate(instance.allocate, placement)?;
    buffer.touch();
    match instance.element {
        4 => buffer.as_mut_slice::<u32>().fill(1.0f32.to_bits()),
        _ => buffer.as_mut_slice::<u64>().fill(1.0f64.to_bits()),
    }
    let base = buffer.as_ptr() as u64;
    for chain in &instance.chains {
        let spacing = Spacing::every_stride(Bytes(LINE), Bytes(chain.stride));
        let spacing = spacing.map_err(|error| data_error("chase", &error))?;
        let words = (chain.offset / 8) as usize..((chain.offset + chain.bytes) / 8) as usize;
        cycle::fill_cycle(&mut buffer.as_mut_slice::<u64>()[words], base + chain.offset, spacing, seed)
            .map_err(|error| data_error("chase", &error))?;
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests;
