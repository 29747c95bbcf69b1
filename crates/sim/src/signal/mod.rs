//! What can be observed: named quantities of a core, cycle by cycle, and of the boxes around the cores.
//!
//! A quantity of a core has a value in every cycle: how many slots retire in it, how many loads are under way. A thing
//! that happens at a moment is a value in one cycle. Boxes (slices, home agents, channels, links) only add up.
//!
//! Cores and memory write here and know nothing of who reads: a core tells a [`CoreObserver`], a memory system writes
//! into its [`BoxWatcher`] what is asked for ([`SignalWatch`]).

mod boxes;
mod observer;
mod retirement;
mod turns;
mod watch;

pub use boxes::{BoxCounts, BoxNumbers};
pub use turns::CounterTurns;
pub use watch::{SignalNote, SignalWatch};

pub(crate) use boxes::BoxWatcher;
pub(crate) use observer::{CoreObserver, Detour, ObservedWaits, WatchedLoad};
pub(crate) use retirement::Retirement;

use crate::supplier::Supplier;

macro_rules! signals {
    ($(#[$doc:meta])* $type:ident: $repr:ty { $($(#[$about:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($repr)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum $type { $($(#[$about])* $name,)* }

        impl $type {
            /// All, with their names in data files.
            pub const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $text),)*];

            /// The one of a name.
            pub fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().find(|(_, known)| *known == name).map(|(signal, _)| *signal)
            }
        }
    };
}

signals! {
    /// A quantity of one hardware thread.
    CoreSignal: u8 {
        Cycles = "cycles",
        ReferenceCycles = "reference_cycles",
        Instructions = "instructions",
        /// Those that neither load nor store.
        InstructionsOther = "instructions_other",
        /// Fused µops, wrong path included.
        SlotsIssued = "slots_issued",
        /// Slots that the front end left empty although there was room, and the core not on its way back from a wrong path.
        SlotsUndelivered = "slots_undelivered",
        /// Cycles in which the switch to microcode holds slots up.
        Microcode = "microcode",
        /// Cycles in which length-changing prefixes hold the decoders up.
        LengthStalls = "length_stalls",
        /// µops that start on a port.
        UopsExecuted = "uops_executed",
        SlotsRetired = "slots_retired",
        /// What fusion saved of them: µops, or instructions, that retired in the slot of another.
        SlotsFused = "slots_fused",
        UopsRetired = "uops_retired",
        Branches = "branches",
        BranchesConditional = "branches_conditional",
        BranchesCall = "branches_call",
        BranchesCallDirect = "branches_call_direct",
        BranchesCallIndirect = "branches_call_indirect",
        BranchesReturn = "branches_return",
        /// Indirect jumps; calls are apart.
        BranchesIndirect = "branches_indirect",
        /// All that are neither calls nor returns.
        BranchesJump = "branches_jump",
        /// Executed on a wrong path; none of them is a call or a return.
        BranchesWrongPath = "branches_wrong_path",
        BranchesTaken = "branches_taken",
        Mispredicts = "mispredicts",
        MispredictsConditional = "mispredicts_conditional",
        /// Cycles between the end of a wrong path and the first right one.
        Recovery = "recovery",
        Loads = "loads",
        Stores = "stores",
        LoadsLocked = "loads_locked",
        LoadsSplit = "loads_split",
        StoresSplit = "stores_split",
        /// Loads that an older store overlaps without holding all of them.
        LoadsBlocked = "loads_blocked",
        /// Loads that waited until the addresses of all older stores were known.
        LoadsBlockedAddress = "loads_blocked_address",
        LoadsWalked = "loads_walked",
        StoresWalked = "stores_walked",
        Divides = "divides",
        DividerBusy = "divider_busy",
        AvxLoads = "avx_loads",
        AvxStores = "avx_stores",
        AvxCalculations = "avx_calculations",
        /// Floating-point instructions by width and precision; a fused multiply-add is two.
        FpScalarDouble = "fp_scalar_double",
        FpScalarSingle = "fp_scalar_single",
        Fp128Double = "fp_128_double",
        Fp128Single = "fp_128_single",
        Fp256Double = "fp_256_double",
        Fp256Single = "fp_256_single",
        Fp512Double = "fp_512_double",
        Fp512Single = "fp_512_single",
        /// Retired loads by who had the line, in the order of [`Supplier`].
        LoadL1 = "load_l1",
        LoadFillBuffer = "load_fill_buffer",
        LoadL2 = "load_l2",
        LoadL3 = "load_l3",
        LoadOtherCoreClean = "load_other_core_clean",
        LoadOtherCoreModified = "load_other_core_modified",
        LoadLocalMemory = "load_local_memory",
        LoadRemoteMemory = "load_remote_memory",
        LoadRemoteModified = "load_remote_modified",
        LoadRemoteClean = "load_remote_clean",
        /// Loads from dispatch to data: those that wait for their address too.
        LoadsPending = "loads_pending",
        /// Loads that missed the L1, from when that is known to their data.
        L1MissesPending = "l1_misses_pending",
        /// Loads that missed the L2, from when that is known to their data.
        L2MissesPending = "l2_misses_pending",
        /// Fill buffers that a demand load waits for.
        FillBuffers = "fill_buffers",
        /// Requests that find no fill buffer free; each tries once and is given the next one in its turn.
        FillBufferRefusals = "fill_buffer_refusals",
        SuperqueueEntries = "superqueue_entries",
        OffcorePendingReads = "offcore_pending_reads",
        OffcorePendingRfos = "offcore_pending_rfos",
        OffcorePendingFetches = "offcore_pending_fetches",
        OffcorePendingPrefetches = "offcore_pending_prefetches",
        /// Cycles in which no slot is issued because the next one finds no room, and where.
        StallAny = "stall_any",
        StallWindow = "stall_window",
        StallScheduler = "stall_scheduler",
        StallLoadBuffer = "stall_load_buffer",
        StallStoreBuffer = "stall_store_buffer",
        /// µops between dispatch and start.
        SchedulerEntries = "scheduler_entries",
        CodeWalks = "code_walks",
        /// Retired instructions whose page was not in the instruction TLB when they were fetched.
        CodeWalksRetired = "code_walks_retired",
        LoadWalks = "load_walks",
        LoadWalkPending = "load_walk_pending",
        LoadSecondLevelTlb = "load_second_level_tlb",
        StoreWalks = "store_walks",
        StoreWalkPending = "store_walk_pending",
        StoreSecondLevelTlb = "store_second_level_tlb",
        L1LinesIn = "l1_lines_in",
        L1WriteBacks = "l1_write_backs",
        /// Requests of the L2 that find their line unmodified, or modified, or not at all.
        L2ReadHits = "l2_read_hits",
        L2ReadHitsModified = "l2_read_hits_modified",
        L2ReadMisses = "l2_read_misses",
        L2RfoHits = "l2_rfo_hits",
        L2RfoHitsModified = "l2_rfo_hits_modified",
        L2RfoMisses = "l2_rfo_misses",
        L2FetchHits = "l2_fetch_hits",
        L2FetchMisses = "l2_fetch_misses",
        L2PrefetchHits = "l2_prefetch_hits",
        L2PrefetchHitsModified = "l2_prefetch_hits_modified",
        L2PrefetchMisses = "l2_prefetch_misses",
        L2LinesIn = "l2_lines_in",
        L2OutClean = "l2_out_clean",
        L2OutModified = "l2_out_modified",
        /// Requests of the core that asked the shared cache; prefetches for that cache alone are not among them.
        L3References = "l3_references",
        L3Misses = "l3_misses",
    }
}

/// Signals of a core with a name; those of off-core answers follow.
const NAMED: usize = CoreSignal::NAMES.len();

/// What a core asked of the uncore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum OffcoreRequest {
    /// A load, a page walk, a software prefetch, a prefetch of the L1.
    Read,
    /// A store that must own its line.
    Rfo,
    /// Instruction bytes.
    Fetch,
    /// A prefetch of the L2 for itself.
    Prefetch,
    /// A prefetch of the L2 for the shared cache alone.
    PrefetchL3,
    /// A modified line that leaves the L2.
    WriteBack,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum OffcoreAnswer {
    /// The shared cache had it.
    L3,
    /// Another core of the package was asked and had it unmodified.
    OtherCoreClean,
    /// Another core of the package had it modified.
    OtherCoreModified,
    /// Memory of this package.
    LocalMemory,
    /// Memory of another package.
    RemoteMemory,
    /// A cache of another package had it modified.
    RemoteModified,
    /// A cache of another package had it unmodified and sent it.
    RemoteClean,
    /// Nothing came back but that it was taken on.
    NoData,
}

impl OffcoreRequest {
    /// All, with their names in data files.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::Read, "read"),
        (Self::Rfo, "rfo"),
        (Self::Fetch, "fetch"),
        (Self::Prefetch, "prefetch"),
        (Self::PrefetchL3, "prefetch_l3"),
        (Self::WriteBack, "write_back"),
    ];
}

impl OffcoreAnswer {
    /// All, with their names in data files.
    pub const NAMES: [(Self, &'static str); 8] = [
        (Self::L3, "l3"),
        (Self::OtherCoreClean, "other_core_clean"),
        (Self::OtherCoreModified, "other_core_modified"),
        (Self::LocalMemory, "local_memory"),
        (Self::RemoteMemory, "remote_memory"),
        (Self::RemoteModified, "remote_modified"),
        (Self::RemoteClean, "remote_clean"),
        (Self::NoData, "no_data"),
    ];

    /// The answer of a supplier beyond the L2.
    pub fn of(supplier: Supplier) -> Self {
        match supplier {
            Supplier::L1 | Supplier::FillBuffer | Supplier::L2 | Supplier::L3 => Self::L3,
            Supplier::OtherCoreClean => Self::OtherCoreClean,
            Supplier::OtherCoreModified => Self::OtherCoreModified,
            Supplier::LocalMemory => Self::LocalMemory,
            Supplier::RemoteMemory => Self::RemoteMemory,
            Supplier::RemoteCacheModified => Self::RemoteModified,
            Supplier::RemoteCacheClean => Self::RemoteClean,
        }
    }
}

/// Number of a core's signal: a named one, or an off-core request with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u8);

impl Number {
    /// How many there are.
    pub const COUNT: usize = NAMED + OffcoreRequest::NAMES.len() * OffcoreAnswer::NAMES.len();

    /// Of an off-core request with its answer.
    pub const fn offcore(request: OffcoreRequest, answer: OffcoreAnswer) -> Self {
        Self((NAMED + request as usize * OffcoreAnswer::NAMES.len() + answer as usize) as u8)
    }

    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<CoreSignal> for Number {
    fn from(signal: CoreSignal) -> Self {
        Self(signal as u8)
    }
}

/// A set of a core's signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set([u64; Set::WORDS]);

// All numbers must fit a set.
const _: () = assert!(Number::COUNT <= Set::WORDS * u64::BITS as usize);

impl Set {
    const WORDS: usize = 3;

    /// Adds one.
    pub fn insert(&mut self, number: Number) {
        self.0[number.index() / 64] |= 1 << (number.index() % 64);
    }

    /// Whether it has one.
    #[inline]
    pub const fn has(self, number: Number) -> bool {
        self.0[number.index() / 64] >> (number.index() % 64) & 1 == 1
    }

    /// Whether it has a named one.
    #[inline]
    pub const fn wants(self, signal: CoreSignal) -> bool {
        self.has(Number(signal as u8))
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// All of both.
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

signals! {
    /// A quantity of a box outside the cores.
    BoxSignal: u8 {
        /// Ticks of the box's clock.
        Clock = "clock",
        /// Lookups of a slice.
        LookupReads = "lookup_reads",
        LookupRfos = "lookup_rfos",
        LookupPrefetches = "lookup_prefetches",
        LookupOwningPrefetches = "lookup_owning_prefetches",
        LookupWriteBacks = "lookup_write_backs",
        LookupSnoops = "lookup_snoops",
        VictimsModified = "victims_modified",
        VictimsExclusive = "victims_exclusive",
        VictimsShared = "victims_shared",
        ReadMissesLocal = "read_misses_local",
        ReadMissesRemote = "read_misses_remote",
        PrefetchMisses = "prefetch_misses",
        OwningPrefetchMisses = "owning_prefetch_misses",
        /// Reads that missed, summed over the ticks they were under way.
        ReadMissesLocalPending = "read_misses_local_pending",
        ReadMissesRemotePending = "read_misses_remote_pending",
        /// What a home agent is asked for.
        HomeReadsLocal = "home_reads_local",
        HomeReadsRemote = "home_reads_remote",
        HomeWritesLocal = "home_writes_local",
        HomeWritesRemote = "home_writes_remote",
        DirectorySnoops = "directory_snoops",
        DirectoryNoSnoops = "directory_no_snoops",
        /// Lines of a channel.
        ChannelReads = "channel_reads",
        ChannelWrites = "channel_writes",
        /// What a link carries, seen from a package.
        LinesOut = "lines_out",
        LinesIn = "lines_in",
        MessagesOut = "messages_out",
        MessagesIn = "messages_in",
    }
}

impl BoxSignal {
    /// How many there are.
    pub const COUNT: usize = Self::NAMES.len();
    /// Its bit in a set of them.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Retired loads by supplier.
pub(crate) const LOADS_BY_SUPPLIER: [CoreSignal; 10] = [
    CoreSignal::LoadL1,
    CoreSignal::LoadFillBuffer,
    CoreSignal::LoadL2,
    CoreSignal::LoadL3,
    CoreSignal::LoadOtherCoreClean,
    CoreSignal::LoadOtherCoreModified,
    CoreSignal::LoadLocalMemory,
    CoreSignal::LoadRemoteMemory,
    CoreSignal::LoadRemoteModified,
    CoreSignal::LoadRemoteClean,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_names_are_found() {
        let mut seen = std::collections::BTreeSet::new();
        for (signal, name) in CoreSignal::NAMES {
            assert_eq!(CoreSignal::named(name), Some(*signal));
            assert!(seen.insert(Number::from(*signal)));
        }
        for (request, _) in OffcoreRequest::NAMES {
            for (answer, _) in OffcoreAnswer::NAMES {
                assert!(seen.insert(Number::offcore(request, answer)));
            }
        }
        assert_eq!(seen.len(), Number::COUNT);
        let mut set = Set::default();
        set.insert(Number::offcore(OffcoreRequest::Rfo, OffcoreAnswer::LocalMemory));
        assert!(!set.is_empty() && !set.wants(CoreSignal::Cycles));
    }
}
