//! What one thread of a workload may do: meet others, run its part of a step, take turns.
//!
//! # Safety
//! Code is called here. What must hold: there is one [`WorkThread`] for each thread, on that thread, so that its
//! arguments are used by nobody else.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{PartCode, StepCode};
use crate::scenario::Plan;

/// How long a thread spins for others before it gives its CPU away.
const SPINS: u32 = 10_000;

/// Where threads of a region meet.
#[derive(Default)]
pub(super) struct Gate {
    members: usize,
    missing: AtomicUsize,
    round: AtomicUsize,
}

impl Gate {
    pub fn of(members: usize) -> Self {
        Self { members, ..Self::default() }
    }

    /// Nobody is here: a run that was interrupted may have left some behind.
    pub fn reset(&mut self) {
        *self.missing.get_mut() = self.members;
    }
}

/// What one thread may do. There is one for each thread, on that thread.
pub struct WorkThread<'a> {
    number: usize,
    plan: &'a Plan,
    steps: &'a [StepCode],
    gates: &'a [Gate],
    interrupt: &'a AtomicBool,
}

impl<'a> WorkThread<'a> {
    pub(super) fn new(
        number: usize,
        plan: &'a Plan,
        steps: &'a [StepCode],
        gates: &'a [Gate],
        interrupt: &'a AtomicBool,
    ) -> Self {
        Self { number, plan, steps, gates, interrupt }
    }

    /// Which thread this is.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What runs.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Waits for the other threads of a region. `false` if interrupted instead.
    pub fn meet(&mut self, region: usize) -> bool {
        let gate = &self.gates[region];
        // ATOMICS: the last arrival resets the gate before it opens it; release and acquire order what threads
        // did before the gate before what others do behind it.
        let round = gate.round.load(Ordering::Acquire);
        if gate.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            gate.missing.store(gate.members, Ordering::Relaxed);
            gate.round.store(round.wrapping_add(1), Ordering::Release);
            return !self.interrupt.load(Ordering::Relaxed);
        }
        self.wait(|| gate.round.load(Ordering::Acquire) != round)
    }

    /// Runs this thread's part of a step; nothing if it has none. `false` if interrupted before its end.
    pub fn run(&mut self, step: usize) -> bool {
        self.run_passes(step, self.steps[step].passes)
    }

    /// The same with another number of passes.
    pub fn run_passes(&mut self, step: usize, passes: u64) -> bool {
        let step = &self.steps[step];
        let Some(part) = &step.parts[self.number] else { return true };
        if step.takes_turns {
            return self.take_turns(step, part, passes);
        }
        // SAFETY: this thread's arguments, and `&mut self` means that no other call of it is under way.
        unsafe { (*part.arguments.get()).passes = passes };
        // SAFETY: as above.
        unsafe { part.call() };
        true
    }

    /// Two threads in turn: the turn counter is even for the first, odd for the second.
    fn take_turns(&mut self, step: &StepCode, part: &PartCode, passes: u64) -> bool {
        let role = part.role as u64;
        // ATOMICS: acquire pairs with the release below: what the other thread wrote is seen. Relaxed is enough
        // where only this thread's own turns are counted.
        let taken = (step.turn.load(Ordering::Relaxed) + 1 - role) / 2;
        for turn in 0..part.turns * passes {
            let mine = 2 * (taken + turn) + role;
            if !self.wait(|| step.turn.load(Ordering::Acquire) == mine) {
                return false;
            }
            // SAFETY: this thread's arguments, and `&mut self` means that no other call of it is under way.
            unsafe {
                (*part.arguments.get()).passes = 1;
                (*part.arguments.get()).bases[0] = part.base + turn % part.turns * part.turn_bytes;
                part.call();
            }
            step.turn.store(mine + 1, Ordering::Release);
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

impl PartCode {
    /// # Safety
    /// Only the part's own thread may call, and only once at a time.
    unsafe fn call(&self) {
        // SAFETY: the code was assembled for these arguments, whose buffers live in the workload.
        unsafe { self.page.call((&raw mut **self.arguments.get()).cast()) }
    }
}
