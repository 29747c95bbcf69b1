//! Caches from CPUID: in place of sysfs where a guest has none there, and as a second opinion.

use std::collections::{BTreeMap, HashMap};

use super::cpuinfo::CpuInfo;
use crate::{
    Bytes, CpuSet,
    cpuid::{Cpuid, CpuidCache},
    gaps::Gaps,
    topology::{Cache, CacheKind, CoreKind, Cpu},
};

/// The caches of all CPUs from the leaf of one of them. Sharing comes from the APIC numbers in procfs; where
/// those are missing only caches of a single core can be placed.
pub(super) fn caches(cpuid: &Cpuid, cpus: &[Cpu], info: &CpuInfo, gaps: &mut Gaps) -> Vec<Cache> {
    let leaf = leaf_name(cpuid);
    if cpus.iter().any(|cpu| cpu.kind != CoreKind::Uniform) {
        gaps.note(leaf, "cannot stand in for sysfs: it describes one kind of core of a hybrid machine");
        return Vec::new();
    }
    let claimed = cpuid.caches();
    if claimed.is_empty() {
        gaps.note(leaf, "lists no cache either");
        return Vec::new();
    }
    gaps.note(&leaf, "used for the caches, since sysfs has none; all CPUs are taken to be alike");
    let apic_ids: HashMap<u32, u32> =
        info.each("apicid").filter_map(|(cpu, id)| Some((cpu, id.parse().ok()?))).collect();
    let mut caches = Vec::new();
    for cache in &claimed {
        match shared_sets(cache, cpus, &apic_ids) {
            Some(sets) => caches.extend(sets.into_iter().map(|shared_by| placed(cache, shared_by))),
            None => {
                let why = "cannot be placed: /proc/cpuinfo does not state the APIC numbers that share it";
                gaps.note(format!("{leaf}, {}", cache_name(cache)), why);
            }
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.shared_by.first()));
    caches
}

fn placed(cache: &CpuidCache, shared_by: CpuSet) -> Cache {
    Cache {
        level: cache.level,
        kind: cache.kind,
        size: Some(cache.size),
        ways: Some(cache.ways),
        line: Some(cache.line),
        sets: cache.sets,
        shared_by,
    }
}

/// The sets of CPUs that share one instance of `cache`: APIC numbers equal above the bits of the sharing.
fn shared_sets(cache: &CpuidCache, cpus: &[Cpu], apic_ids: &HashMap<u32, u32>) -> Option<Vec<CpuSet>> {
    if cache.apic_ids == 1 {
        return Some(cpus.iter().map(|cpu| CpuSet::from_iter([cpu.id])).collect());
    }
    let shift = cache.apic_ids.next_power_of_two().trailing_zeros();
    let mut sets: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in cpus {
        sets.entry(apic_ids.get(&cpu.id)? >> shift).or_default().insert(cpu.id);
    }
    Some(sets.into_values().collect())
}

/// Notes each cache whose size CPUID and sysfs state differently. On hybrid machines one match is enough:
/// CPUID speaks for the kind of core it ran on.
pub(super) fn compare(cpuid: &Cpuid, caches: &[Cache], gaps: &mut Gaps) {
    for claimed in cpuid.caches() {
        let sizes: Vec<Bytes> = caches
            .iter()
            .filter(|cache| cache.level == claimed.level && cache.kind == claimed.kind)
            .filter_map(|cache| cache.size)
            .collect();
        if let Some(size) = sizes.first().filter(|_| !sizes.contains(&claimed.size)) {
            let why = format!("claims {} where sysfs claims {size}", claimed.size);
            gaps.note(format!("{}, {}", leaf_name(cpuid), cache_name(&claimed)), why);
        }
    }
}

fn leaf_name(cpuid: &Cpuid) -> String {
    format!("CPUID leaf {:#x}", cpuid.cache_leaf())
}

fn cache_name(cache: &CpuidCache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    format!("L{}{kind}", cache.level)
}
