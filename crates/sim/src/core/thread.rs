//! One hardware thread: takes blocks and gives each µop its times.

use super::{
    Statistics,
    access::AccessPlace,
    branch::History,
    capacity::Capacity,
    fetch::UopCache,
    hardware::{CoreLimits, Hardware},
    hoisting::Hoisting,
    operation::OperationKind,
    pace::CorePace,
    path::{BranchTimes, Expected},
    scheduler::Scheduler,
    stores::{StoreBuffer, StorePort},
    table::{BlockTable, NO_DESTINATION, NO_SOURCE, REGISTERS, TableOp, UopTable},
};
use crate::{
    access::MemoryPort,
    signal::{CoreObserver, CoreSignal, ObservedWaits},
    source::BlockExecution,
    time::Time,
};

/// A hardware thread.
pub(crate) struct CoreThread<P> {
    /// 0 or 1 in its core.
    index: usize,
    pub(super) limits: CoreLimits,
    pub(super) registers: [u64; REGISTERS],
    dispatch: CorePace,
    retirement: CorePace,
    pub(super) window: Capacity,
    loads: Capacity,
    pub(super) stores: StoreBuffer,
    pub(super) scheduler: Scheduler,
    /// Loads and stores start no earlier: a fence or a locked operation before them.
    pub(super) barrier: u64,
    /// When the front end can deliver the next block.
    pub(super) front_free: u64,
    /// When the block before was dispatched: the front end is at most one block ahead.
    pub(super) front_started: u64,
    pub(super) history: History,
    pub(super) expected: Option<Expected>,
    /// Of the block being executed.
    branch: BranchTimes,
    /// Pages of it that were not in the instruction TLB.
    pub(super) pages_missed: u64,
    /// Which loads may go past stores whose address is not known.
    pub(super) hoisting: Hoisting,
    pub(super) uop_cache: UopCache,
    pub(super) statistics: Statistics,
    /// Watches it during a run, if anything is counted.
    pub(crate) probe: Option<Box<P>>,
    started: u64,
}

impl<P: CoreObserver> CoreThread<P> {
    /// `sharing`: threads of its core, which divide its buffers.
    pub fn new(index: usize, sharing: u32, limits: CoreLimits, model: &machine::model::Model) -> Self {
        let limits = limits.divided(sharing);
        Self {
            index,
            limits,
            registers: [0; REGISTERS],
            dispatch: CorePace::default(),
            retirement: CorePace::default(),
            window: Capacity::new(limits.reorder_entries),
            loads: Capacity::new(limits.load_buffer),
            stores: StoreBuffer::new(limits.store_buffer, limits.line_bytes.ilog2()),
            scheduler: Scheduler::new(limits.scheduler_entries),
            barrier: 0,
            front_free: 0,
            front_started: 0,
            history: History::default(),
            expected: None,
            branch: BranchTimes::default(),
            pages_missed: 0,
            hoisting: Hoisting::new(model.core.load_confidence),
            uop_cache: UopCache::new(&model.front_end, sharing),
            statistics: Statistics::default(),
            probe: None,
            started: 0,
        }
    }

    /// Begins a run at `cycle` with counts at zero. `fresh`: another program than before.
    pub fn begin(&mut self, cycle: u64, fresh: bool, table: &UopTable, hardware: &mut Hardware) {
        self.dispatch = CorePace::default();
        self.retirement = CorePace::default();
        self.dispatch.jump(cycle);
        self.retirement.jump(cycle);
        (self.started, self.front_started) = (cycle, cycle);
        self.statistics = Statistics::default();
        self.expected = None;
        if fresh {
            self.uop_cache.reset(table.blocks.len());
        }
        self.scheduler.follow(cycle);
        hardware.moved(self.index, cycle);
    }

    /// The moment up to which it has dispatched.
    pub fn now(&self, hardware: &Hardware) -> Time {
        hardware.clock.time(self.dispatch.cycle)
    }

    /// Up to when it has asked memory for all it wants: what follows a fence or an atomic operation waits for that.
    fn due_cycle(&self) -> u64 {
        self.dispatch.cycle.max(self.barrier)
    }

    /// The moment up to which other cores go on before it does, as they may want the same lines.
    pub fn due(&self, hardware: &Hardware) -> Time {
        hardware.clock.time(self.due_cycle())
    }

    /// Does nothing until `cycle`; gives the cycles that passed.
    fn idle_until(&mut self, cycle: u64, hardware: &mut Hardware) -> u64 {
        let cycle = cycle.max(hardware.timeline.accounted());
        let passed = cycle.saturating_sub(self.dispatch.cycle);
        if passed > 0 {
            self.dispatch.jump(cycle);
            self.front_free = self.front_free.max(cycle);
        }
        self.scheduler.follow(self.dispatch.cycle);
        if let Some(probe) = &mut self.probe {
            probe.follow(self.dispatch.cycle);
        }
        hardware.moved(self.index, self.dispatch.cycle);
        passed
    }

    /// Waits for its turn.
    pub fn wait_until(&mut self, time: Time, hardware: &mut Hardware) {
        self.statistics.cycles_waiting += self.idle_until(hardware.clock.cycle_at(time), hardware);
    }

    /// Loses time to an interrupt.
    pub fn interrupt(&mut self, lost: Time, hardware: &mut Hardware) {
        let cycle = self.dispatch.cycle + hardware.clock.cycles(lost);
        self.statistics.interrupts += 1;
        self.statistics.cycles_interrupted += self.idle_until(cycle, hardware);
    }

    /// Does not run for now: the core's other thread need not wait for its clock.
    pub fn park(&self, hardware: &mut Hardware) {
        hardware.clocks[self.index] = u64::MAX;
    }

    fn port<'a, M>(&self, clock: &'a super::CoreClock, core: usize, memory: &'a mut M) -> StorePort<'a, M> {
        StorePort {
            memory,
            clock,
            core,
            line_bytes: self.limits.line_bytes,
            split_penalty: self.limits.line_split_penalty,
        }
    }

    /// Lets all stores drain; the moment when everything so far has retired and drained.
    pub fn settle<M: MemoryPort>(&mut self, hardware: &mut Hardware, memory: &mut M) -> Time {
        let clock = hardware.clock;
        let mut port = self.port(&clock, hardware.number, memory);
        let drained = self.stores.drain(&mut port);
        clock.time(drained.max(self.retirement.cycle).max(self.dispatch.cycle))
    }

    /// The counts of the run, once it has settled.
    pub fn finish(&mut self, end: Time, hardware: &Hardware) -> Statistics {
        let mut statistics = self.statistics;
        statistics.cycles = hardware.clock.cycle_at(end).saturating_sub(self.started);
        statistics.cycles_dispatching += self.dispatch.active;
        statistics.cycles_retiring = self.retirement.active;
        statistics
    }

    /// Gives its probe back after a run, with all that memory told of it.
    pub fn take_probe<M: MemoryPort>(&mut self, hardware: &Hardware, memory: &mut M) -> Option<Box<P>> {
        let mut probe = self.probe.take()?;
        memory.take_notes(hardware.number, probe.notes());
        Some(probe)
    }

    /// Executes one block.
    pub fn execute<M: MemoryPort>(
        &mut self,
        table: &UopTable,
        execution: &BlockExecution,
        hardware: &mut Hardware,
        memory: &mut M,
    ) {
        // Two copies of the code: without a probe nothing is spent on looking for one.
        match self.probe {
            None => self.execute_block::<M, false>(table, execution, hardware, memory),
            Some(_) => self.execute_block::<M, true>(table, execution, hardware, memory),
        }
    }

    #[inline(never)]
    fn execute_block<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        table: &UopTable,
        execution: &BlockExecution,
        hardware: &mut Hardware,
        memory: &mut M,
    ) {
        let Some(block) = table.blocks.get(execution.block) else { return };
        if hardware.clocks[self.index] == u64::MAX {
            // It was parked: the core may have gone on without it.
            self.idle_until(0, hardware);
        }
        let clock = hardware.clock;
        let mut port = self.port(&clock, hardware.number, memory);
        self.stores.follow_lines(self.due_cycle(), &mut port);
        self.check_target(block.address, table, hardware);
        let (start, decoded) = self.fetch(execution.block, table, hardware, &mut port);
        let (mut dispatched, mut done) = (0, 0);
        self.branch = BranchTimes::default();
        for (position, op) in table.ops[block.ops.clone()].iter().enumerate() {
            if op.begins {
                let fetched = if decoded { start + u64::from(op.decode_at) } else { start };
                dispatched = self.dispatch::<M, WATCHED>(op, fetched, hardware, &mut port);
                done = dispatched + 1;
                if op.opens {
                    self.front_started = dispatched;
                }
            }
            let complete = self.complete::<M, WATCHED>(op, block, execution, dispatched, hardware, &mut port);
            let [first, second, third, fourth] = op.destinations.map(usize::from);
            self.registers[first] = complete;
            self.registers[second] = complete;
            if op.destinations[2] != NO_DESTINATION {
                self.registers[third] = complete;
                self.registers[fourth] = complete;
            }
            done = done.max(complete);
            if op.is_branch {
                self.branch = BranchTimes { dispatched, resolved: complete };
            }
            if op.ends {
                self.retire(op, done, &mut port);
                if WATCHED && let Some(probe) = &mut self.probe {
                    let retirement = &table.retirements[block.ops.start + position];
                    probe.retire(self.retirement.cycle, retirement, block.address);
                    let missed = std::mem::take(&mut self.pages_missed);
                    probe.pulse(CoreSignal::CodeWalksRetired, self.retirement.cycle, missed);
                }
            }
        }
        self.count(block);
        self.leave(execution.block, execution.taken, table, hardware);
        self.stores.send_until(self.dispatch.cycle, &mut port);
        self.scheduler.follow(self.dispatch.cycle);
        if WATCHED && let Some(probe) = &mut self.probe {
            if execution.taken || (block.flow.is_branch() && block.flow != code::Flow::Conditional) {
                probe.pulse(CoreSignal::BranchesTaken, self.retirement.cycle, 1);
            }
            port.memory.take_notes(port.core, probe.notes());
            probe.follow(self.dispatch.cycle);
        }
        hardware.moved(self.index, self.dispatch.cycle);
    }

    /// Starts a µop when its sources are there; the cycle in which its result can be used.
    #[inline]
    fn complete<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        block: &BlockTable,
        execution: &BlockExecution,
        dispatched: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> u64 {
        let [first, second, third, fourth] = op.sources.map(usize::from);
        let mut ready = (dispatched + 1).max(self.registers[first]).max(self.registers[second]);
        if op.sources[2] != NO_SOURCE {
            ready = ready.max(self.registers[third]).max(self.registers[fourth]);
        }
        if matches!(op.kind, OperationKind::Load | OperationKind::Prefetch) {
            ready = ready.max(self.barrier);
            if self.stores.addressed() > ready && self.hoisting.guesses() && op.kind == OperationKind::Load {
                ready = self.wait_for_addresses::<WATCHED>(block.address + u64::from(op.offset), ready);
            }
            if op.locked {
                ready = self.alone(ready, port);
            }
        }
        if op.kind.is_special() {
            return self.complete_special::<M, WATCHED>(op, dispatched, ready, hardware, port);
        }
        let at = match op.busy <= 1 {
            true => hardware.timeline.reserve(op.ports, ready),
            false => hardware.timeline.reserve_run(op.ports, ready, op.busy.into()),
        };
        self.started::<WATCHED>(at);
        match op.kind {
            OperationKind::Load | OperationKind::Prefetch | OperationKind::StoreAddress => {
                let address = execution.addresses.get(op.memory as usize).copied().unwrap_or(0);
                let instruction = block.address + u64::from(op.offset);
                let bytes = op.bytes.into();
                let place =
                    AccessPlace { address, bytes, instruction, crosses: port.crosses(address, bytes) };
                self.access::<M, WATCHED>(op, place, ready, at, hardware, port)
            }
            OperationKind::StoreData => {
                let known = at + u64::from(op.latency);
                self.stores.data(ready, known);
                known
            }
            _ => at + u64::from(op.latency),
        }
    }

    /// The same for a µop that is more, or less, than one start on a port.
    #[inline(never)]
    fn complete_special<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        dispatched: u64,
        ready: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> u64 {
        match op.kind {
            OperationKind::Divide => {
                let at = hardware.timeline.reserve_divider(op.ports, ready, op.busy.into());
                self.started::<WATCHED>(at);
                if WATCHED && let Some(probe) = &mut self.probe {
                    probe.span(CoreSignal::DividerBusy, at, at + u64::from(op.busy));
                }
                at + u64::from(op.latency)
            }
            OperationKind::Fence => self.fence(ready, port),
            _ => dispatched,
        }
    }

    /// A µop of the slot just dispatched starts on its port.
    #[inline]
    pub(super) fn started<const WATCHED: bool>(&mut self, at: u64) {
        self.scheduler.start(at);
        if WATCHED && let Some(probe) = &mut self.probe {
            probe.start(self.dispatch.cycle, at);
        }
    }

    /// Of the block executed last.
    pub(super) fn branch_times(&self) -> BranchTimes {
        self.branch
    }

    /// When the slot that is being executed was dispatched.
    pub(super) fn dispatched(&self) -> u64 {
        self.dispatch.cycle
    }

    fn count(&mut self, block: &BlockTable) {
        let (counts, statistics) = (&block.counts, &mut self.statistics);
        statistics.instructions += counts.instructions;
        statistics.slots_dispatched += counts.slots;
        statistics.slots_retired += counts.slots;
        statistics.uops_retired += counts.uops;
        statistics.uops_executed += counts.executed;
        statistics.loads += counts.loads;
        statistics.stores += counts.stores;
        statistics.branches += counts.branches;
    }

    /// The cycle in which a slot is dispatched: all it needs must have room.
    #[inline]
    fn dispatch<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        fetched: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> u64 {
        let next = self.dispatch.next(self.limits.dispatch_width);
        let here = (next.max(fetched)) + u64::from(op.microcode);
        let statistics = &mut self.statistics;
        statistics.stall_front_end += here - next;
        let mut at = here;
        let window = self.window.room_at();
        if window > here {
            statistics.stall_window += window - here;
            at = window;
        }
        let mut loads = 0;
        if op.loads > 0 {
            loads = self.loads.room_at();
            statistics.stall_load_buffer += loads.saturating_sub(here);
            at = at.max(loads);
        }
        let mut stores = 0;
        if op.stores_begun > 0 {
            stores = self.stores.room_at(port);
            statistics.stall_store_buffer += stores.saturating_sub(here);
            at = at.max(stores);
        }
        let scheduler = self.scheduler.admit(op.scheduled, at);
        if scheduler > at {
            // Full then means full since `here`: nothing was dispatched in between.
            statistics.stall_scheduler += scheduler - here;
            at = scheduler;
        }
        at = hardware.take_slot(at);
        if WATCHED && let Some(probe) = &mut self.probe {
            let used = if next == self.dispatch.cycle { self.dispatch.used } else { 0 };
            // A scheduler with room says so by giving the moment it was asked for.
            let scheduler = if scheduler > here.max(window).max(loads).max(stores) { scheduler } else { 0 };
            let width = self.limits.dispatch_width;
            probe.span(CoreSignal::Microcode, here - u64::from(op.microcode), here);
            probe.dispatch(&ObservedWaits {
                from: next,
                delivered: here,
                window,
                loads,
                stores,
                scheduler,
                at,
                used,
                width,
            });
        }
        self.dispatch.take(at);
        at
    }

    #[inline(always)]
    fn retire<M: MemoryPort>(&mut self, op: &TableOp, done: u64, port: &mut StorePort<'_, M>) {
        let at = done.max(self.retirement.next(self.limits.retire_width));
        self.retirement.take(at);
        self.window.push(at);
        for _ in 0..op.loads {
            self.loads.push(at);
        }
        for _ in 0..op.stores_retired {
            self.stores.retire(at);
            if op.locked {
                self.finish_locked(port);
            }
        }
    }

    /// Loads and stores behind an atomic operation wait until its store is everywhere.
    #[cold]
    fn finish_locked<M: MemoryPort>(&mut self, port: &mut StorePort<'_, M>) {
        let drained = self.stores.drain(port);
        self.barrier = port.drain_write_combining(drained);
    }

    /// The cycle after which everything so far has retired.
    pub(super) fn retired(&self) -> u64 {
        self.retirement.cycle
    }
}
