//! What happened, counted where it happens: the truth that performance events are held against.

/// One level of a core's caches. Each line that is brought in is a fill; it leaves by an eviction or an
/// invalidation, so fills minus both is what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Loads, stores, walks and fetches that found their line.
    pub demand_hits: u64,
    /// Those that found it on its way.
    pub demand_pending: u64,
    /// Those that did not find it.
    pub demand_misses: u64,
    /// Lines that prefetchers brought in.
    pub prefetch_fills: u64,
    /// Lines brought in by a prefetcher that a demand then used, counted once.
    pub prefetch_used: u64,
    /// Lines brought in by a prefetcher that left without use.
    pub prefetch_unused: u64,
    /// Prefetches given up for want of a free buffer.
    pub prefetch_dropped: u64,
    /// Lines brought in, by whomever.
    pub fills: u64,
    /// Unmodified lines that went to make room.
    pub evictions_clean: u64,
    /// Modified lines that went outward to make room.
    pub evictions_modified: u64,
    /// Lines taken away by others: writes of other cores, a shared cache that must hold what is held here.
    pub invalidations: u64,
}

/// Who supplied, counted per [`crate::access::Supplier`] in its order.
pub type SupplierCounts = [u64; 10];

/// One core. Of an L2 that two cores share, each has its own part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Loads.
    pub loads: u64,
    /// Stores that left the store buffer.
    pub stores: u64,
    /// Stores that lost their line to another core before they could write, and asked again.
    pub stores_again: u64,
    /// Stores past the caches.
    pub stores_non_temporal: u64,
    /// Software prefetches.
    pub software_prefetches: u64,
    /// Requests for instruction bytes.
    pub fetches: u64,
    /// Who supplied loads.
    pub loads_by_supplier: SupplierCounts,
    /// Who supplied stores.
    pub stores_by_supplier: SupplierCounts,
    /// Level-one data cache.
    pub l1: LevelStats,
    /// Level-two cache.
    pub l2: LevelStats,
    /// Stores that had to ask the L2 for the line, upgrades included.
    pub rfos: u64,
    /// Stores that found the line here but shared, and asked to own it.
    pub upgrades: u64,
    /// Times a request waited for a fill buffer.
    pub fill_buffer_waits: u64,
    /// Femtoseconds waited for fill buffers.
    pub fill_buffer_wait_fs: u64,
    /// Times a request waited for the superqueue.
    pub superqueue_waits: u64,
    /// Femtoseconds waited for the superqueue.
    pub superqueue_wait_fs: u64,
    /// Femtoseconds that superqueue entries were held, summed over entries.
    pub superqueue_held_fs: u64,
    /// Demand reads that left the L2.
    pub offcore_reads: u64,
    /// Requests to own a line that left the L2.
    pub offcore_rfos: u64,
    /// Instruction reads that left the L2.
    pub offcore_fetches: u64,
    /// Prefetches of the L2 that left it, for the L2 or only for the L3.
    pub offcore_prefetches: u64,
    /// Of these, those for the L3 only.
    pub offcore_prefetches_l3_only: u64,
    /// Modified lines sent out of the L2.
    pub offcore_writebacks: u64,
    /// Whole lines of non-temporal stores sent to memory.
    pub non_temporal_lines: u64,
    /// Lines of non-temporal stores that were sent before they were whole.
    pub non_temporal_partial: u64,
    /// Snoops that came for a line.
    pub snoops: u64,
    /// Of these, those that found it modified.
    pub snoops_modified: u64,
    /// Data translations that missed the first-level TLB.
    pub dtlb_misses: u64,
    /// Instruction translations that missed the instruction TLB.
    pub itlb_misses: u64,
    /// Of both, those that the second level had.
    pub stlb_hits: u64,
    /// Page walks.
    pub walks: u64,
    /// Femtoseconds that walkers were held, summed over walkers.
    pub walk_fs: u64,
    /// Page-table entries read.
    pub walk_reads: u64,
}

/// The shared cache of a package, or its snoop filter where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Demand reads, fetches and walks that asked.
    pub reads: u64,
    /// Requests to own a line that asked.
    pub rfos: u64,
    /// Prefetches that asked.
    pub prefetches: u64,
    /// Modified lines that private caches sent.
    pub writebacks: u64,
    /// Of reads, requests to own and prefetches, those that found the line.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// Of the misses, those of prefetches.
    pub prefetch_misses: u64,
    /// Lines brought in, whether from memory or (victim cache) from private caches.
    pub fills: u64,
    /// Unmodified lines that went to make room.
    pub evictions_clean: u64,
    /// Modified lines that went to memory to make room.
    pub evictions_modified: u64,
    /// Lines that left otherwise: to their only user (victim cache), to other packages, to non-temporal stores.
    pub removals: u64,
    /// Lines taken from private caches because they left here.
    pub back_invalidations: u64,
    /// Snoops sent to cores.
    pub snoops: u64,
    /// Lines that another core of the package had modified and gave.
    pub modified_transfers: u64,
    /// Lines that another core of the package had unmodified and was asked for.
    pub clean_transfers: u64,
    /// Lines given modified to another package.
    pub modified_transfers_out: u64,
    /// Times a miss waited for a free entry.
    pub miss_waits: u64,
}

/// Memory of a package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Lines read, by whomever.
    pub reads: u64,
    /// Of these, for prefetches.
    pub reads_prefetch: u64,
    /// Of all reads, for other packages.
    pub reads_remote: u64,
    /// Lines written.
    pub writes: u64,
    /// Of these, by non-temporal stores.
    pub writes_non_temporal: u64,
    /// Of all writes, from other packages.
    pub writes_remote: u64,
    /// Times a read waited for a place in a controller's queue.
    pub queue_waits: u64,
    /// Times a write waited for a place in a controller's queue.
    pub write_queue_waits: u64,
    /// Times a read waited for its bank.
    pub bank_waits: u64,
    /// Batches of writes, each with two turns of the bus.
    pub write_batches: u64,
    /// Femtoseconds that buses were in use, turns included, summed over channels.
    pub busy_fs: u64,
    /// Lines read by the disturbance.
    pub background: u64,
}

/// Links from one package to another, one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Lines carried.
    pub lines: u64,
    /// Messages without data carried.
    pub messages: u64,
    /// Femtoseconds in use, summed over the links of the pair.
    pub busy_fs: u64,
}
