//! What a core did, counted where it happens. What counters can see is in [`crate::signal`].

/// Kinds of supplier, see [`crate::access::Supplier`].
pub const SUPPLIERS: usize = 10;

/// Counts of one hardware thread, and the activity of its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Cycles from the start to the last retirement and the last store's commit.
    pub cycles: u64,
    /// Dispatch slots of the right path: fused µops.
    pub slots_dispatched: u64,
    /// Dispatch slots that mispredicted branches wasted.
    pub slots_wrong_path: u64,
    /// Retired slots.
    pub slots_retired: u64,
    /// µops started on a port, unfused, right path.
    pub uops_executed: u64,
    /// µops of wrong paths that started on a port, unfused.
    pub uops_wrong_path: u64,
    /// Retired µops, unfused; those that need no port included.
    pub uops_retired: u64,
    /// Retired instructions.
    pub instructions: u64,
    /// Retired branches.
    pub branches: u64,
    /// Of these, mispredicted.
    pub branches_mispredicted: u64,
    /// Retired loads.
    pub loads: u64,
    /// Retired stores.
    pub stores: u64,
    /// Loads that crossed a line.
    pub loads_split: u64,
    /// Stores that crossed a line.
    pub stores_split: u64,
    /// Loads served by an older store still in the store buffer.
    pub loads_forwarded: u64,
    /// Loads that had to wait until an overlapping store had drained.
    pub loads_blocked: u64,
    /// Loads that waited for the addresses of older stores.
    pub loads_blocked_address: u64,
    /// Loads by who had the line, in the order of [`crate::access::Supplier`]; of a split load the slower part.
    pub loads_by_supplier: [u64; SUPPLIERS],
    /// Cycles of all loads together from start to data.
    pub load_cycles: u64,
    /// Cycles in which at least one slot was dispatched, wrong path included.
    pub cycles_dispatching: u64,
    /// Cycles in which at least one slot retired.
    pub cycles_retiring: u64,
    /// Cycles in which the next slot was not there because of fetch, decoding or a misprediction.
    pub stall_front_end: u64,
    /// Cycles in which the next slot found the reorder window full.
    pub stall_window: u64,
    /// Cycles in which the next slot found the scheduler full.
    pub stall_scheduler: u64,
    /// Cycles in which the next load found the load buffer full.
    pub stall_load_buffer: u64,
    /// Cycles in which the next store found the store buffer full.
    pub stall_store_buffer: u64,
    /// Cycles in which a source had nothing to execute: waiting for its turn.
    pub cycles_waiting: u64,
    /// Cycles lost to interrupts.
    pub cycles_interrupted: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Lines of code asked of the memory system.
    pub fetch_misses: u64,
    /// Pages of code not in the instruction TLB.
    pub itlb_misses: u64,
    /// Blocks delivered by the decoders.
    pub blocks_decoded: u64,
    /// Blocks delivered by the µop cache.
    pub blocks_from_uop_cache: u64,
    /// What the ports of the core did, both threads together.
    pub activity: CoreActivity,
}

impl Statistics {
    /// Cycles in which nothing was dispatched.
    pub fn cycles_without_dispatch(&self) -> u64 {
        self.cycles.saturating_sub(self.cycles_dispatching)
    }

    /// Cycles in which nothing retired.
    pub fn cycles_without_retirement(&self) -> u64 {
        self.cycles.saturating_sub(self.cycles_retiring)
    }
}

/// What the ports of a core did, cycle by cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreActivity {
    /// Cycles looked at.
    pub cycles: u64,
    /// Cycles with at least one, two, three, four ports busy. A wide access that keeps a port for several cycles
    /// counts in each.
    pub executing: [u64; 4],
    /// Cycles in which a load was pending: started, data not there.
    pub load_pending: u64,
    /// Cycles in which a load that missed the L1 was pending.
    pub l1_miss_pending: u64,
    /// Cycles in which a load that missed the L2 was pending.
    pub l2_miss_pending: u64,
    /// Cycles in which no port was busy while a load was pending.
    pub stall_load_pending: u64,
    /// Cycles in which no port was busy while a load that missed the L1 was pending.
    pub stall_l1_miss_pending: u64,
    /// Cycles in which no port was busy while a load that missed the L2 was pending.
    pub stall_l2_miss_pending: u64,
}

impl CoreActivity {
    /// Cycles in which no port was busy.
    pub fn without_execution(&self) -> u64 {
        self.cycles.saturating_sub(self.executing[0])
    }
}
