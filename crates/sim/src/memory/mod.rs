//! The memory system: caches, prefetchers, translation, coherence, controllers and links, as one [`MemorySystem`]
//! that answers requests with times. For hits and misses without time there is [`trace`].
//!
//! **State now, data later.** A request changes the state of caches when it is made; each line carries the moment
//! from which its data is there. A second request for a line on its way finds it and waits for that moment.
//! Everything bounded is reserved in time: ports, arrays, slices, buses and links in calendars, buffers as slots.
//!
//! **Latencies add up like this.** A hit in the L1 takes its latency, one in the L2 the L2's, both counted from the
//! load's start. A hit in the L3 takes the L2's latency, the L3's core part and the L3's uncore part. Memory takes
//! all that and its idle latency; memory of another package also two crossings of a link.
//!
//! **Who waits for what.** A miss of the L1 holds a fill buffer until the line is written. A request that leaves the L2
//! holds an entry of the superqueue until it is answered and a modified line that had to make room is taken; a prefetch
//! for the L3 only, which brings nothing back, until the L3 has taken it on. A miss of the L3 holds an entry of its
//! slice until the line is here and a modified line that had to make room is at its home. Demands wait for a buffer,
//! prefetches are dropped without one.
//!
//! **A line that several cores want** goes from one to the next. The slice sends the snoop for it when the core that got
//! it last has confirmed that it came; that core may use it until the snoop arrives, half a snoop later.
//!
//! **What holds what.** An L2 is neither inclusive nor exclusive of the L1s above it: when it drops a line that an
//! L1 still has, the L1 takes over. An inclusive L3 holds all that private caches hold, with a bit per L2; the bit
//! stays when an unmodified line is dropped silently. A victim L3, or none, has an exact snoop filter beside it.
//! Between packages there is an exact directory at home: no snoop is sent in vain. Unmodified copies of other
//! packages do not supply, memory does.
//!
//! **Left out.** DRAM refresh; ring positions (a slice's latency is the mean); instruction caches are the core's, and
//! an inclusive L3 does not empty them.

mod audit;
mod cache;
mod calendar;
mod coherence;
mod combining;
mod departing;
mod disturbance;
mod dram;
mod fault;
mod filter;
mod home;
mod huge;
mod lanes;
mod level;
mod level_one;
mod level_two;
mod link;
mod options;
mod pages;
mod prefetch;
mod slices;
mod spread;
mod stamp;
mod stats;
mod system;
mod telling;
mod tlb;
pub mod trace;
mod uncore;
mod walk;

pub use fault::ModelFault;
pub(crate) use huge::expect;
pub use options::{
    Disturbance, FrameOrder, HUGE_PAGE_BYTES, MemoryOptions, PagePlacement, PageSize, PrefetchSwitches,
    SMALL_PAGE_BYTES,
};
pub use stats::{CoreStats, LevelStats, LinkStats, MemoryStats, SharedStats, SupplierCounts};
pub use system::MemorySystem;
