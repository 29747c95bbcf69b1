//! What the threads of a core share.

use machine::model::Model;

use super::{branch::Predictor, clock::CoreClock, fetch::Tags, timeline::CoreTimeline};

/// Threads a core can have.
pub(crate) const THREADS: usize = 2;
/// Cycles in which slots given to both threads are remembered.
const SHARED_CYCLES: usize = 1 << 12;

/// Sizes and times of a core that are used for every µop, as 64-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreLimits {
    pub dispatch_width: u64,
    pub retire_width: u64,
    pub reorder_entries: u32,
    pub scheduler_entries: u32,
    pub load_buffer: u32,
    pub store_buffer: u32,
    pub mispredict_penalty: u64,
    pub waits_for_branches: bool,
    pub store_forward_latency: u64,
    pub memory_renaming: bool,
    pub blocked_forward_penalty: u64,
    pub line_split_penalty: u64,
    pub line_bytes: u64,
    /// Cycles until the first and the second cache have looked a line up.
    pub lookups: [u64; 2],
}

impl CoreLimits {
    /// `model` has been checked.
    pub fn new(model: &Model) -> Self {
        let core = &model.core;
        Self {
            dispatch_width: core.dispatch_width.into(),
            retire_width: core.retire_width.into(),
            reorder_entries: core.reorder_entries,
            scheduler_entries: core.scheduler_entries,
            load_buffer: core.load_buffer,
            store_buffer: core.store_buffer,
            mispredict_penalty: model.front_end.branch.mispredict_penalty.into(),
            waits_for_branches: model.front_end.branch.waits_for_branches,
            store_forward_latency: core.store_forward_latency.into(),
            memory_renaming: core.memory_renaming,
            blocked_forward_penalty: core.blocked_forward_penalty.into(),
            line_split_penalty: core.line_split_penalty.into(),
            line_bytes: model.l1d.geometry.line.0.next_power_of_two(),
            lookups: [model.l1d.latency.into(), model.l2.latency.into()],
        }
    }

    /// What is left to each of `threads` threads: buffers are divided, widths are not.
    pub fn divided(mut self, threads: u32) -> Self {
        for entries in [
            &mut self.reorder_entries,
            &mut self.scheduler_entries,
            &mut self.load_buffer,
            &mut self.store_buffer,
        ] {
            *entries = (*entries / threads.max(1)).max(1);
        }
        self
    }
}

/// What the threads of a core share: ports, clock, predictor, instruction cache and TLB.
pub(crate) struct Hardware {
    /// Number of the core in the memory system.
    pub number: usize,
    pub limits: CoreLimits,
    pub clock: CoreClock,
    pub timeline: CoreTimeline,
    pub predictor: Predictor,
    pub l1i: Tags,
    pub itlb: Tags,
    /// Dispatch clock of each thread; the largest number for one that does not run.
    pub clocks: [u64; THREADS],
    /// Slots given away per cycle, as (cycle, slots); only where two threads share them.
    shared_slots: Option<Box<[(u64, u64)]>>,
}

impl Hardware {
    /// `model` has been checked.
    pub fn new(number: usize, model: &Model) -> Self {
        Self {
            number,
            limits: CoreLimits::new(model),
            clock: CoreClock::new(model.clock.core_hz),
            timeline: CoreTimeline::default(),
            predictor: Predictor::new(&model.front_end.branch),
            l1i: Tags::cache(&model.front_end.l1i),
            itlb: Tags::tlb(&model.front_end.itlb),
            clocks: [u64::MAX; THREADS],
            shared_slots: None,
        }
    }

    /// Whether two threads share the dispatch slots from now on.
    pub fn share_slots(&mut self, shared: bool) {
        self.shared_slots = shared.then(|| vec![(0, 0); SHARED_CYCLES].into_boxed_slice());
    }

    /// Takes a dispatch slot at or after `cycle` that no thread has taken.
    #[inline]
    pub fn take_slot(&mut self, cycle: u64) -> u64 {
        let Some(slots) = &mut self.shared_slots else { return cycle };
        let mut cycle = cycle;
        loop {
            let (of, taken) = &mut slots[cycle as usize & (SHARED_CYCLES - 1)];
            if *of != cycle {
                (*of, *taken) = (cycle, 0);
            }
            if *taken < self.limits.dispatch_width {
                *taken += 1;
                return cycle;
            }
            cycle += 1;
        }
    }

    /// The dispatch clock of a thread has moved on: cycles before all of them are history.
    #[inline]
    pub fn moved(&mut self, thread: usize, clock: u64) {
        self.clocks[thread] = clock;
        let behind = self.clocks[0].min(self.clocks[1]);
        if behind != u64::MAX {
            self.timeline.account_rows(behind);
        }
    }
}
