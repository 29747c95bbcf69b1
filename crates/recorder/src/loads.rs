//! Loads that the processor samples itself, beside the clock.

use machine::CpuSet;
use pmu::{
    LinuxKernel, Pmu, Scope,
    sampling::{
        DataSource, Distance, SampledAccess, Sampler, SamplerRequest, SamplingFailure, SamplingPace,
        ServedBy, Sideband, Snoop, TlbServedBy, precise_loads,
    },
};
use record::loads::DataOrigin;

/// Faster loads are sampled too: what is near belongs into the median.
const FEWEST_CYCLES: u16 = 3;

/// One sampler per kind of core that can sample loads. `Err`: why there is none; `explain` turns a refusal of the kernel
/// into words.
pub(super) fn open<'k>(
    kernel: &'k dyn LinuxKernel,
    pmus: &[Pmu],
    rate_hz: u32,
    scope: &Scope,
    cpus: &CpuSet,
    explain: impl Fn(&SamplingFailure) -> String,
) -> Result<Vec<Sampler<'k>>, String> {
    let found = precise_loads(pmus, FEWEST_CYCLES).map_err(|error| error.to_string())?;
    let request = |loads| SamplerRequest {
        // The clock's sampler tells who runs what.
        sideband: Sideband::default(),
        // How often loads come nobody knows beforehand: the kernel adjusts the period, and jitter with it.
        pace: SamplingPace::PerSecond(rate_hz.into()),
        jitter: None,
        ..SamplerRequest::loads(loads, 1, scope.clone(), cpus)
    };
    let open = |loads| Sampler::open(kernel, &request(loads)).map_err(|failure| explain(&failure));
    found.iter().map(open).collect()
}

/// Whether a sample is one of a load: some processors sample whatever they execute.
pub(super) fn is_load(source: &DataSource) -> bool {
    source.access == Some(SampledAccess::Load)
}

/// Where the data came from; none if the processor does not say, or names only a level that did not have it.
pub(super) fn origin(source: &DataSource) -> Option<DataOrigin> {
    let level = source.level.filter(|_| source.hit != Some(false))?;
    let is_remote = source.is_remote() == Some(true);
    let from_other_core = source.distance == Some(Distance::OtherCore)
        || matches!(source.snoop, Some(Snoop::HitModified | Snoop::Forwarded | Snoop::Peer));
    Some(match level {
        ServedBy::Io | ServedBy::Uncached => DataOrigin::Other,
        _ if is_remote => DataOrigin::Remote,
        ServedBy::L0 | ServedBy::L1 => DataOrigin::L1,
        ServedBy::FillBuffer => DataOrigin::FillBuffer,
        ServedBy::L2 | ServedBy::L2MissBuffer => DataOrigin::L2,
        ServedBy::AnyCache => DataOrigin::OtherCore,
        ServedBy::L3 | ServedBy::L4 | ServedBy::MemorySideCache if from_other_core => DataOrigin::OtherCore,
        ServedBy::L3 | ServedBy::L4 | ServedBy::MemorySideCache => DataOrigin::L3,
        ServedBy::Ram | ServedBy::Cxl | ServedBy::Persistent => DataOrigin::Dram,
        _ => DataOrigin::Other,
    })
}

/// Whether the address was translated without a page walk; none if the processor does not say.
pub(super) fn translated_at_hand(source: &DataSource) -> Option<bool> {
    let found = source.tlb?;
    match (found.hit?, found.level) {
        (false, _) | (true, Some(TlbServedBy::Walker | TlbServedBy::Kernel)) => Some(false),
        (true, Some(_)) => Some(true),
        (true, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmu::bindings as b;

    /// A word of the kernel: what the instruction did, levels, snoop.
    fn source(operation: u32, levels: u32, snoop: u32) -> DataSource {
        DataSource::decode(u64::from(operation) | u64::from(levels) << 5 | u64::from(snoop) << 19)
    }

    #[test]
    fn levels_and_neighbours_are_told_apart() {
        let hit = |level| source(b::PERF_MEM_OP_LOAD, b::PERF_MEM_LVL_HIT | level, b::PERF_MEM_SNOOP_NONE);
        for (level, expected) in [
            (b::PERF_MEM_LVL_L1, DataOrigin::L1),
            (b::PERF_MEM_LVL_LFB, DataOrigin::FillBuffer),
            (b::PERF_MEM_LVL_L2, DataOrigin::L2),
            (b::PERF_MEM_LVL_L3, DataOrigin::L3),
            (b::PERF_MEM_LVL_LOC_RAM, DataOrigin::Dram),
            (b::PERF_MEM_LVL_REM_RAM1, DataOrigin::Remote),
            (b::PERF_MEM_LVL_REM_CCE1, DataOrigin::Remote),
            (b::PERF_MEM_LVL_UNC, DataOrigin::Other),
        ] {
            assert_eq!(origin(&hit(level)), Some(expected), "{level:#x}");
        }
        let modified =
            source(b::PERF_MEM_OP_LOAD, b::PERF_MEM_LVL_HIT | b::PERF_MEM_LVL_L3, b::PERF_MEM_SNOOP_HITM);
        assert_eq!(origin(&modified), Some(DataOrigin::OtherCore));
        let missed = source(b::PERF_MEM_OP_LOAD, b::PERF_MEM_LVL_MISS | b::PERF_MEM_LVL_L3, 0);
        assert_eq!(origin(&missed), None, "what missed did not answer");
        assert_eq!(origin(&source(b::PERF_MEM_OP_NA, b::PERF_MEM_LVL_NA, 0)), None);
        assert!(is_load(&modified) && !is_load(&source(b::PERF_MEM_OP_STORE, 0, 0)));
    }

    #[test]
    fn loads_that_waited_for_a_page_walk_are_told() {
        let told = |bits: u32| {
            let source = DataSource::decode(u64::from(b::PERF_MEM_OP_LOAD) | u64::from(bits) << 26);
            translated_at_hand(&source)
        };
        let (hit, miss, first) = (b::PERF_MEM_TLB_HIT, b::PERF_MEM_TLB_MISS, b::PERF_MEM_TLB_L1);
        assert_eq!(told(hit | first), Some(true));
        assert_eq!(told(hit | first | b::PERF_MEM_TLB_L2), Some(true), "Intel does not tell its two apart");
        assert_eq!(told(hit | b::PERF_MEM_TLB_WK), Some(false), "the walker had it");
        assert_eq!(told(miss | b::PERF_MEM_TLB_L2), Some(false));
        assert_eq!((told(hit), told(b::PERF_MEM_TLB_NA), told(0)), (None, None, None));
    }
}
