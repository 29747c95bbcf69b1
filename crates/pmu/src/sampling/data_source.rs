//! Where the data of an access came from, as the processor tells it.
//!
//! Kernels describe it twice: as bits of possible levels (`mem_lvl`), and since 4.14 as one level with a mark for
//! remote ones (`mem_lvl_num`, `mem_remote`, later `mem_hops`). The second form is preferred where it says something.

use perf_event_open_sys::bindings as b;

/// A decoded `PERF_SAMPLE_DATA_SRC`. `None` everywhere: not available from this processor or for this access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSource {
    /// As it was in the record.
    pub raw: u64,
    /// What the instruction did.
    pub access: Option<SampledAccess>,
    /// The level that answered, or was missed if `hit` is false.
    pub level: Option<ServedBy>,
    /// Whether the level had the data.
    pub hit: Option<bool>,
    /// How far away the data was.
    pub distance: Option<Distance>,
    /// What other caches said.
    pub snoop: Option<Snoop>,
    /// Where the translation came from.
    pub tlb: Option<TlbOutcome>,
    /// The access was locked.
    pub locked: Option<bool>,
    /// Why a load had to wait for an earlier store.
    pub blocked: Option<Blocked>,
}

/// What an instruction did to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledAccess {
    /// It read.
    Load,
    /// It wrote.
    Store,
    /// It prefetched.
    Prefetch,
    /// It was fetched itself.
    Execute,
}

/// A level of the memory hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServedBy {
    /// A cache in front of the L1.
    L0,
    /// First-level cache.
    L1,
    /// Fill buffer: the line was already on its way.
    FillBuffer,
    /// Second-level cache.
    L2,
    /// The second-level cache's miss-handling buffer.
    L2MissBuffer,
    /// Third-level cache.
    L3,
    /// Fourth-level cache.
    L4,
    /// A cache on the memory's side.
    MemorySideCache,
    /// Some cache, usually another core's.
    AnyCache,
    /// DRAM.
    Ram,
    /// Memory behind CXL.
    Cxl,
    /// Persistent memory.
    Persistent,
    /// A device.
    Io,
    /// Memory that is not cached.
    Uncached,
}

/// How far away data was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// This core's share of the machine.
    Local,
    /// Another core of this node.
    OtherCore,
    /// Another node of this socket.
    OtherNode,
    /// Somewhere remote: the processor does not say where.
    Remote,
    /// Another socket.
    OtherSocket,
    /// Another board, or two hops away.
    OtherBoard,
}

/// What other caches had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snoop {
    /// They were not asked.
    None,
    /// They did not have the line.
    Miss,
    /// One had it, unmodified.
    Hit,
    /// One had it, modified.
    HitModified,
    /// One had it and handed it over.
    Forwarded,
    /// It came from a cache of the same kind nearby.
    Peer,
}

/// How an address was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbOutcome {
    /// Whether the level named had the translation; `None` if the processor does not say.
    pub hit: Option<bool>,
    /// Who translated.
    pub level: Option<TlbServedBy>,
}

/// Who translated an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbServedBy {
    /// The first-level TLB.
    L1,
    /// The second-level TLB.
    L2,
    /// Either TLB: the processor does not tell them apart.
    L1OrL2,
    /// The page walker.
    Walker,
    /// The kernel's fault handler.
    Kernel,
}

/// Why a load could not take its data from an earlier store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The store's data was not there yet, or could not be forwarded.
    pub by_data: bool,
    /// The store's address was not known, or seemed to be the same.
    pub by_address: bool,
}

impl DataSource {
    /// Takes the word apart.
    pub fn decode(raw: u64) -> Self {
        let field = |shift: u32, bits: u32| (raw >> shift) as u32 & ((1 << bits) - 1);
        let levels = field(b::PERF_MEM_LVL_SHIFT, 14);
        let number = field(b::PERF_MEM_LVLNUM_SHIFT, 4);
        let is_remote = field(b::PERF_MEM_REMOTE_SHIFT, 1) == b::PERF_MEM_REMOTE_REMOTE;
        let level = level_by_number(number).or_else(|| level_by_bits(levels));
        let hops = field(b::PERF_MEM_HOPS_SHIFT, 3);
        Self {
            raw,
            access: access(field(b::PERF_MEM_OP_SHIFT, 5)),
            level,
            hit: hit(levels, b::PERF_MEM_LVL_HIT, b::PERF_MEM_LVL_MISS),
            distance: level.map(|_| distance(hops, is_remote, levels)),
            snoop: snoop(field(b::PERF_MEM_SNOOP_SHIFT, 5), field(b::PERF_MEM_SNOOPX_SHIFT, 2)),
            tlb: tlb(field(b::PERF_MEM_TLB_SHIFT, 7)),
            locked: match field(b::PERF_MEM_LOCK_SHIFT, 2) {
                lock if lock & b::PERF_MEM_LOCK_NA != 0 => None,
                lock => Some(lock & b::PERF_MEM_LOCK_LOCKED != 0),
            },
            blocked: match field(b::PERF_MEM_BLK_SHIFT, 3) {
                block if block & b::PERF_MEM_BLK_NA != 0 || block == 0 => None,
                block => Some(Blocked {
                    by_data: block & b::PERF_MEM_BLK_DATA != 0,
                    by_address: block & b::PERF_MEM_BLK_ADDR != 0,
                }),
            },
        }
    }

    /// The data came from beyond this node, if that is known.
    pub fn is_remote(&self) -> Option<bool> {
        self.distance.map(|distance| distance >= Distance::OtherNode)
    }
}

fn access(bits: u32) -> Option<SampledAccess> {
    [
        (b::PERF_MEM_OP_LOAD, SampledAccess::Load),
        (b::PERF_MEM_OP_STORE, SampledAccess::Store),
        (b::PERF_MEM_OP_PFETCH, SampledAccess::Prefetch),
        (b::PERF_MEM_OP_EXEC, SampledAccess::Execute),
    ]
    .into_iter()
    .find_map(|(bit, access)| (bits & bit != 0).then_some(access))
}

fn level_by_number(number: u32) -> Option<ServedBy> {
    Some(match number {
        b::PERF_MEM_LVLNUM_L0 => ServedBy::L0,
        b::PERF_MEM_LVLNUM_L1 => ServedBy::L1,
        b::PERF_MEM_LVLNUM_L2 => ServedBy::L2,
        b::PERF_MEM_LVLNUM_L2_MHB => ServedBy::L2MissBuffer,
        b::PERF_MEM_LVLNUM_L3 => ServedBy::L3,
        b::PERF_MEM_LVLNUM_L4 => ServedBy::L4,
        b::PERF_MEM_LVLNUM_MSC => ServedBy::MemorySideCache,
        b::PERF_MEM_LVLNUM_UNC => ServedBy::Uncached,
        b::PERF_MEM_LVLNUM_CXL => ServedBy::Cxl,
        b::PERF_MEM_LVLNUM_IO => ServedBy::Io,
        b::PERF_MEM_LVLNUM_ANY_CACHE => ServedBy::AnyCache,
        b::PERF_MEM_LVLNUM_LFB => ServedBy::FillBuffer,
        b::PERF_MEM_LVLNUM_RAM => ServedBy::Ram,
        b::PERF_MEM_LVLNUM_PMEM => ServedBy::Persistent,
        _ => return None,
    })
}

/// Several bits may be set ("L3 or remote cache"): the farthest one bounds what the access cost.
fn level_by_bits(bits: u32) -> Option<ServedBy> {
    const REMOTE_CACHE: u32 = b::PERF_MEM_LVL_REM_CCE1 | b::PERF_MEM_LVL_REM_CCE2;
    const RAM: u32 = b::PERF_MEM_LVL_LOC_RAM | b::PERF_MEM_LVL_REM_RAM1 | b::PERF_MEM_LVL_REM_RAM2;
    [
        (b::PERF_MEM_LVL_UNC, ServedBy::Uncached),
        (b::PERF_MEM_LVL_IO, ServedBy::Io),
        (RAM, ServedBy::Ram),
        (REMOTE_CACHE, ServedBy::AnyCache),
        (b::PERF_MEM_LVL_L3, ServedBy::L3),
        (b::PERF_MEM_LVL_L2, ServedBy::L2),
        (b::PERF_MEM_LVL_LFB, ServedBy::FillBuffer),
        (b::PERF_MEM_LVL_L1, ServedBy::L1),
    ]
    .into_iter()
    .find_map(|(bit, level)| (bits & bit != 0).then_some(level))
}

fn distance(hops: u32, is_remote: bool, levels: u32) -> Distance {
    const ONE_HOP: u32 = b::PERF_MEM_LVL_REM_RAM1 | b::PERF_MEM_LVL_REM_CCE1;
    const TWO_HOPS: u32 = b::PERF_MEM_LVL_REM_RAM2 | b::PERF_MEM_LVL_REM_CCE2;
    match hops {
        b::PERF_MEM_HOPS_0 => Distance::OtherCore,
        b::PERF_MEM_HOPS_1 => Distance::OtherNode,
        b::PERF_MEM_HOPS_2 => Distance::OtherSocket,
        b::PERF_MEM_HOPS_3 => Distance::OtherBoard,
        _ if levels & TWO_HOPS != 0 => Distance::OtherBoard,
        _ if is_remote || levels & ONE_HOP != 0 => Distance::Remote,
        _ => Distance::Local,
    }
}

fn snoop(bits: u32, more: u32) -> Option<Snoop> {
    let modified = bits & b::PERF_MEM_SNOOP_HITM != 0;
    Some(match (bits, more) {
        _ if modified => Snoop::HitModified,
        (_, more) if more & b::PERF_MEM_SNOOPX_FWD != 0 => Snoop::Forwarded,
        (_, more) if more & b::PERF_MEM_SNOOPX_PEER != 0 => Snoop::Peer,
        (bits, _) if bits & b::PERF_MEM_SNOOP_HIT != 0 => Snoop::Hit,
        (bits, _) if bits & b::PERF_MEM_SNOOP_MISS != 0 => Snoop::Miss,
        (bits, _) if bits & b::PERF_MEM_SNOOP_NONE != 0 => Snoop::None,
        _ => return None,
    })
}

fn tlb(bits: u32) -> Option<TlbOutcome> {
    const BOTH: u32 = b::PERF_MEM_TLB_L1 | b::PERF_MEM_TLB_L2;
    if bits == 0 || bits & b::PERF_MEM_TLB_NA != 0 {
        return None;
    }
    let level = match bits {
        bits if bits & BOTH == BOTH => Some(TlbServedBy::L1OrL2),
        bits if bits & b::PERF_MEM_TLB_L1 != 0 => Some(TlbServedBy::L1),
        bits if bits & b::PERF_MEM_TLB_L2 != 0 => Some(TlbServedBy::L2),
        bits if bits & b::PERF_MEM_TLB_WK != 0 => Some(TlbServedBy::Walker),
        bits if bits & b::PERF_MEM_TLB_OS != 0 => Some(TlbServedBy::Kernel),
        _ => None,
    };
    Some(TlbOutcome { hit: hit(bits, b::PERF_MEM_TLB_HIT, b::PERF_MEM_TLB_MISS), level })
}

/// Both bits or neither say nothing.
fn hit(bits: u32, hit: u32, miss: u32) -> Option<bool> {
    match (bits & hit != 0, bits & miss != 0) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts fields where the kernel has them: operation, levels, snoop, lock, TLB.
    fn old(operation: u32, levels: u32, snoop: u32, lock: u32, tlb: u32) -> u64 {
        let place = |field: u32, shift: u32| u64::from(field) << shift;
        place(operation, 0) | place(levels, 5) | place(snoop, 19) | place(lock, 24) | place(tlb, 26)
    }

    /// Level number, remote, more snoop, block, hops.
    fn new(number: u32, remote: u32, snoop: u32, block: u32, hops: u32) -> u64 {
        let place = |field: u32, shift: u32| u64::from(field) << shift;
        place(number, 33) | place(remote, 37) | place(snoop, 38) | place(block, 40) | place(hops, 43)
    }

    #[test]
    fn the_old_bits_alone() {
        let levels = b::PERF_MEM_LVL_HIT | b::PERF_MEM_LVL_L3;
        let tlb = b::PERF_MEM_TLB_HIT | b::PERF_MEM_TLB_L1 | b::PERF_MEM_TLB_L2;
        let source = DataSource::decode(old(2, levels, b::PERF_MEM_SNOOP_HITM, 2, tlb));
        assert_eq!((source.access, source.level), (Some(SampledAccess::Load), Some(ServedBy::L3)));
        assert_eq!((source.hit, source.distance), (Some(true), Some(Distance::Local)));
        assert_eq!((source.snoop, source.locked), (Some(Snoop::HitModified), Some(true)));
        assert_eq!(source.tlb, Some(TlbOutcome { hit: Some(true), level: Some(TlbServedBy::L1OrL2) }));
        assert_eq!((source.blocked, source.is_remote()), (None, Some(false)));

        let remote = DataSource::decode(old(4, b::PERF_MEM_LVL_HIT | b::PERF_MEM_LVL_REM_RAM1, 2, 0, 0x26));
        assert_eq!((remote.access, remote.level), (Some(SampledAccess::Store), Some(ServedBy::Ram)));
        assert_eq!((remote.is_remote(), remote.snoop), (Some(true), Some(Snoop::None)));
        assert_eq!(remote.tlb, Some(TlbOutcome { hit: None, level: Some(TlbServedBy::Walker) }));
    }

    #[test]
    fn the_number_goes_before_the_bits() {
        let levels = old(2, b::PERF_MEM_LVL_MISS | b::PERF_MEM_LVL_L3, 0, 1, 1);
        let source = DataSource::decode(levels | new(b::PERF_MEM_LVLNUM_RAM, 1, 0, 2, 0));
        assert_eq!((source.level, source.hit), (Some(ServedBy::Ram), Some(false)));
        assert_eq!((source.distance, source.is_remote()), (Some(Distance::Remote), Some(true)));
        assert_eq!((source.tlb, source.locked, source.snoop), (None, None, None));
        assert_eq!(source.blocked, Some(Blocked { by_data: true, by_address: false }));
        let hops = DataSource::decode(new(b::PERF_MEM_LVLNUM_ANY_CACHE, 1, b::PERF_MEM_SNOOPX_PEER, 1, 1));
        assert_eq!((hops.level, hops.distance), (Some(ServedBy::AnyCache), Some(Distance::OtherCore)));
        assert_eq!((hops.snoop, hops.blocked, hops.is_remote()), (Some(Snoop::Peer), None, Some(false)));
    }

    #[test]
    fn nothing_known_is_nothing_said() {
        let levels = old(1, b::PERF_MEM_LVL_NA, b::PERF_MEM_SNOOP_NA, 1, b::PERF_MEM_TLB_NA);
        let source = DataSource::decode(levels | new(b::PERF_MEM_LVLNUM_NA, 0, 0, 1, 0));
        let known = (source.access, source.level, source.hit, source.distance, source.snoop, source.tlb);
        assert_eq!(known, (None, None, None, None, None, None));
        assert_eq!((source.locked, source.blocked), (None, None));
    }
}
