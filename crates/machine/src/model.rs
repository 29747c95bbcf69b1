//! Machines to be simulated, as data: geometry, widths, queue sizes, latencies and clocks, each with its source.
//!
//! No number here is a result. A bandwidth appears only as the raw rate of a DRAM channel or a link; everything
//! else that a simulated machine achieves comes out of its mechanisms.

mod builtin;
mod check;
mod claim;
mod clocked;
mod execution;
mod latency;
mod parse;
mod scale;
mod size_text;
mod switches;

pub use builtin::UnknownModel;
pub use check::InvalidModel;
pub use execution::{ModelOperation, ModelPort, OpClass};
pub use latency::IdleLatencies;
pub use scale::ScaleError;
pub use switches::{Prefetcher, SwitchError};

use serde::{Deserialize, Serialize};

use crate::{Bytes, Isa};

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What users type after `sim:`.
    pub name: String,
    /// The product it stands for.
    pub title: String,
    /// Where each group of numbers comes from.
    pub sources: Vec<SourceNote>,
    /// Published rows that were used to choose a parameter. Only other rows count as results.
    #[serde(default)]
    pub used_to_choose: Vec<String>,
    /// Physical packages.
    pub sockets: u32,
    /// Cores of each package.
    pub cores_per_socket: u32,
    /// Hardware threads per core: 1 or 2.
    pub threads_per_core: u32,
    /// CPUID vendor, family, model, stepping, for the claimed topology.
    pub identity: ModelIdentity,
    /// Which kernels exist on it.
    pub isa: Isa,
    /// Clocks.
    pub clock: Clocks,
    /// Fetch, decode, prediction.
    pub front_end: FrontEnd,
    /// The out-of-order core.
    pub core: CoreModel,
    /// Level-one data cache.
    pub l1d: PrivateCache,
    /// Level-two cache, private to a core (or shared by `shared_by_cores`, as on Core 2).
    pub l2: PrivateCache,
    /// Last-level cache of a package, if it has one.
    pub l3: Option<SharedCache>,
    /// Address translation.
    pub tlb: TlbModel,
    /// Hardware prefetchers.
    pub prefetch: Prefetchers,
    /// Memory of each package.
    pub memory: MemoryModel,
    /// What joins packages.
    pub link: Option<LinkModel>,
}

/// Where a group of numbers comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceNote {
    /// Tables or keys of the model file, such as `core.ports`, or `l1d, l2`.
    pub what: String,
    /// Manual, paper and section, data sheet, or "assumed" with the reasoning.
    pub from: String,
}

/// What CPUID would say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// `GenuineIntel`, …
    pub vendor: String,
    /// CPUID family.
    pub family: u32,
    /// CPUID model.
    pub model: u32,
    /// CPUID stepping.
    pub stepping: u32,
}

/// Clocks of core and uncore.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// Core cycles per second; may be changed while running.
    pub core_hz: u64,
    /// Cycles per second of the shared cache and the ring.
    pub uncore_hz: u64,
    /// The ring and the shared cache change their clock with the cores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncore_follows_core: bool,
}

/// Fetch, decode, prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontEnd {
    /// Level-one instruction cache.
    pub l1i: CacheGeometry,
    /// Bytes fetched per cycle when not served by the µop cache.
    pub fetch_bytes: u32,
    /// µops the decoded cache holds; 0 if the core has none.
    pub uop_cache_uops: u32,
    /// Instructions decoded per cycle.
    pub decode_width: u32,
    /// Extra cycles for an instruction with a length-changing prefix.
    pub length_change_penalty: u32,
    /// Extra cycles to switch to microcode and back.
    pub microcode_penalty: u32,
    /// Branch predictor.
    pub branch: BranchModel,
    /// Instruction TLB for 4 KiB pages.
    pub itlb: ModelTlb,
}

/// Branch predictor: a table of two-bit counters indexed by address and global history.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchModel {
    /// Log2 of the number of counters.
    pub table_bits: u32,
    /// Bits of global history.
    pub history_bits: u32,
    /// Trip counts a loop predictor remembers; 0 if the core has none.
    pub loop_entries: u32,
    /// Cycles from the branch's resolution to dispatch of the right path.
    pub mispredict_penalty: u32,
    /// Nothing is dispatched behind a wrong guess until it is resolved. No real core does so: to try what follows from wrong paths.
    #[serde(default)]
    pub waits_for_branches: bool,
}

/// The out-of-order core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreModel {
    /// µops dispatched (renamed, allocated) per cycle.
    pub dispatch_width: u32,
    /// µops retired per cycle.
    pub retire_width: u32,
    /// Reorder window.
    pub reorder_entries: u32,
    /// Waiting µops.
    pub scheduler_entries: u32,
    /// Loads in flight.
    pub load_buffer: u32,
    /// Stores from dispatch until they have drained.
    pub store_buffer: u32,
    /// Whether a compare and the branch after it are one µop.
    pub macro_fusion: bool,
    /// Whether a load and its operation (or a store's two parts) take one slot of dispatch and window.
    pub micro_fusion: bool,
    /// Execution ports, each with the operations it can start.
    pub ports: Vec<ModelPort>,
    /// Latency and repeat time per operation.
    pub operations: Vec<ModelOperation>,
    /// Cycles from a store's data to a load it forwards to.
    pub store_forward_latency: u32,
    /// Whether a load that an older store forwards to takes over the stored register when it is renamed, without waiting.
    #[serde(default)]
    pub memory_renaming: bool,
    /// Extra cycles of a load that overlaps an older store it cannot be forwarded from.
    pub blocked_forward_penalty: u32,
    /// Extra cycles of a load or store that crosses a line.
    pub line_split_penalty: u32,
    /// Executions in a row in which a load needed no store of then unknown address, after which it goes past such
    /// stores; before that it waits for their addresses. 0: loads always know.
    #[serde(default)]
    pub load_confidence: u8,
}

/// Size and associativity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheGeometry {
    /// Capacity; in a file a number of bytes or a text such as `"32K"`.
    #[serde(deserialize_with = "size_text::read")]
    pub size: Bytes,
    /// Associativity.
    pub ways: u32,
    /// Line size.
    #[serde(deserialize_with = "size_text::read")]
    pub line: Bytes,
    /// Which line goes when another comes.
    pub replacement: Replacement,
}

/// Which line goes when another comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one unused for longest.
    Lru,
    /// A binary tree's approximation of that.
    TreePlru,
    /// Any, by a seeded sequence.
    Random,
}

/// A cache of a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateCache {
    /// Size and associativity.
    pub geometry: CacheGeometry,
    /// Load-to-use cycles of a hit, counted from the load's issue.
    pub latency: u32,
    /// Misses in flight: fill buffers of the L1, the superqueue of the L2.
    pub misses_in_flight: u32,
    /// Core cycles a fill from below occupies this cache.
    pub fill_cycles: u32,
    /// Core cycles sending an evicted, modified line down occupies this cache.
    pub evict_cycles: u32,
    /// Core cycles between two requests served to the level above.
    pub serve_cycles: u32,
    /// Cores that share it: 1, or 2 on Core 2's L2.
    pub shared_by_cores: u32,
}

/// A last-level cache in slices. A load that hits here takes the L2's latency and `core_latency` in core cycles, and
/// `latency` in uncore cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCache {
    /// Of all slices together.
    pub geometry: CacheGeometry,
    /// Addresses are spread over this many slices by a hash.
    pub slices: u32,
    /// Holds everything the private caches hold, or only what they evicted.
    pub inclusion: Inclusion,
    /// Uncore cycles from request to data, ring included, as a mean over slices.
    pub latency: u32,
    /// Core cycles added to that: the way from L2 to the ring and back.
    pub core_latency: u32,
    /// Uncore cycles between two accesses of one slice.
    pub slice_cycles: u32,
    /// Uncore cycles added when another core's copy must be asked for.
    pub snoop_latency: u32,
    /// Misses in flight to memory, per slice.
    pub misses_in_flight: u32,
}

/// What a last-level cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All that the private caches hold; evicting here evicts there.
    Inclusive,
    /// Filled by evictions of the private caches only.
    Victim,
}

/// Two levels of data TLB and page walks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbModel {
    /// First level, 4 KiB pages.
    pub l1_small: ModelTlb,
    /// First level, 2 MiB pages.
    pub l1_huge: ModelTlb,
    /// Second level, shared by instructions and data; 2 MiB pages only if `l2_holds_huge`.
    pub l2: ModelTlb,
    /// Whether the second level holds 2 MiB pages too.
    pub l2_holds_huge: bool,
    /// Cycles of a hit in the second level.
    pub l2_latency: u32,
    /// Cycles of a walk besides its memory accesses.
    pub walk_cycles: u32,
    /// Page table levels that page-structure caches usually spare (a walk then reads 4 − this many entries).
    pub walk_levels_cached: u32,
    /// Walks in flight.
    pub walkers: u32,
}

/// One level of a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTlb {
    /// Translations held.
    pub entries: u32,
    /// Associativity; equal to `entries` for a fully associative one.
    pub ways: u32,
}

/// Hardware prefetchers; each can be switched at run time like on real machines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetchers {
    /// Next line into the L1 on ascending accesses.
    pub l1_next_line: bool,
    /// Stride by instruction address into the L1.
    pub l1_stride: bool,
    /// The line's other half of a 128-byte pair into the L2.
    pub l2_adjacent: bool,
    /// The streamer of the L2.
    pub l2_streamer: Option<Streamer>,
}

/// The L2 streamer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streamer {
    /// Streams tracked, one per page and direction.
    pub streams: u32,
    /// Farthest line ahead of the demand, in lines.
    pub distance: u32,
    /// Lines requested per triggering access.
    pub degree: u32,
    /// When this many or more requests are in flight, fills go to the L3 only.
    pub l3_only_above: u32,
}

/// Memory behind one package.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryModel {
    /// Channels.
    pub channels: u32,
    /// Raw rate of one channel, bytes per second (transfers per second times 8).
    pub channel_bytes_per_s: u64,
    /// What a load takes from memory beyond a hit in the last-level cache when nothing else runs, nanoseconds: row
    /// activation and the line's transfer included.
    pub idle_latency_ns: f64,
    /// Banks per channel.
    pub banks: u32,
    /// A bank's time from one row to another, nanoseconds.
    pub row_cycle_ns: f64,
    /// Time a channel loses when it turns from reading to writing or back, nanoseconds.
    pub turnaround_ns: f64,
    /// Requests a channel's controller can hold.
    pub queue: u32,
    /// All of the package's memory.
    #[serde(deserialize_with = "size_text::read")]
    pub size: Bytes,
}

/// A link between packages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// Links between a pair of packages.
    pub links: u32,
    /// Raw rate of one link in one direction, bytes per second.
    pub bytes_per_s: u64,
    /// Bytes on the wire for a line of 64 (data flits with their headers).
    pub line_bytes: u32,
    /// Bytes on the wire for a request or a snoop without data.
    pub message_bytes: u32,
    /// One way, nanoseconds.
    pub latency_ns: f64,
    /// Requests to other packages in flight, per package.
    pub requests_in_flight: u32,
    /// A package that has a line unmodified sends it, instead of leaving that to memory.
    #[serde(default)]
    pub forwards_clean: bool,
}
