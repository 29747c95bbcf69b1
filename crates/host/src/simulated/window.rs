//! Part of a source's work, so that one can be warmed up, stopped and gone on with.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use code::Block;
use sim::{
    source::{BlockExecution, BlockSource, SourceStep},
    time::Time,
};

use super::progress::SimulationProgress;

/// The flag is looked at, and progress told, once in so many steps.
const STEPS_PER_LOOK: u32 = 4096;

/// Goes on with `inner` until so many instructions are given, or until interrupted.
pub(super) struct Window<'a, S> {
    inner: &'a mut S,
    left: u64,
    interrupt: &'a AtomicBool,
    steps: u32,
    ended: bool,
    serial: Serial,
    watched: Option<&'a SimulationProgress>,
    /// Instructions given and not yet told.
    untold: u64,
}

/// Whether each block waits until the one before has retired.
enum Serial {
    /// It does not.
    No,
    /// It does; the one before was given.
    Given,
    /// It does; the one before retired then.
    Since(Time),
}

impl<'a, S: BlockSource> Window<'a, S> {
    /// The next `instructions` of `inner`, in whole blocks.
    pub fn new(inner: &'a mut S, instructions: u64, interrupt: &'a AtomicBool) -> Self {
        Self {
            inner,
            left: instructions,
            interrupt,
            steps: 0,
            ended: false,
            serial: Serial::No,
            watched: None,
            untold: 0,
        }
    }

    /// The same, told as it goes on.
    pub fn watched(mut self, progress: &'a SimulationProgress) -> Self {
        self.watched = Some(progress);
        self
    }

    /// The same, block by block: a core looks far ahead, and what it asks for next must not be asked before others
    /// have come as far. For work that waits for every block anyway.
    pub fn serial(mut self) -> Self {
        self.serial = Serial::Since(Time::ZERO);
        self
    }
}

impl<S: BlockSource> Window<'_, S> {
    fn tell(&mut self) {
        let untold = std::mem::take(&mut self.untold);
        self.watched.into_iter().for_each(|progress| progress.add(untold));
    }

    fn advance(&mut self, execution: &mut BlockExecution) -> SourceStep {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            self.ended |= self.interrupt.load(Ordering::Relaxed);
            self.tell();
        }
        if self.left == 0 || self.ended {
            return SourceStep::End;
        }
        if matches!(self.serial, Serial::Given) {
            return SourceStep::Settle;
        }
        let mut step = self.inner.poll(execution);
        // Whoever it waits for may have been interrupted and will not come.
        if step == SourceStep::Blocked && self.interrupt.load(Ordering::Relaxed) {
            self.ended = true;
            return SourceStep::End;
        }
        if let (SourceStep::Execute, Serial::Since(at)) = (step, &self.serial) {
            step = SourceStep::ExecuteAt(*at);
            self.serial = Serial::Given;
        }
        if matches!(step, SourceStep::Execute | SourceStep::ExecuteAt(_)) {
            let instructions =
                self.inner.blocks().get(execution.block).map_or(1, |block| block.totals().instructions);
            self.left = self.left.saturating_sub(instructions.max(1));
            self.untold += instructions;
        }
        step
    }
}

impl<S: BlockSource> BlockSource for Window<'_, S> {
    fn blocks(&self) -> &Arc<[Block]> {
        self.inner.blocks()
    }

    fn next(&mut self, execution: &mut BlockExecution) -> bool {
        matches!(self.poll(execution), SourceStep::Execute | SourceStep::ExecuteAt(_))
    }

    fn poll(&mut self, execution: &mut BlockExecution) -> SourceStep {
        let step = self.advance(execution);
        if step == SourceStep::End {
            self.tell();
        }
        step
    }

    fn settled(&mut self, at: Time) {
        match self.serial {
            Serial::No => self.inner.settled(at),
            _ => self.serial = Serial::Since(at),
        }
    }
}
