//! Reading the claimed machine. One file per part; each returns what it found and notes what it did not.

mod arm;
mod cache;
mod cache_cpuid;
mod cgroup;
mod cpu;
mod cpuinfo;
mod hypervisor;
mod identity;
mod limits;
mod mounts;
mod node;

use crate::{CpuSet, Source, Topology, gaps::Gaps};
use cpuinfo::CpuInfo;

/// No Linux machine has more CPUs; a longer list is a damaged file.
const MOST_CPUS: u32 = 16384;

impl Topology {
    /// Reads what the machine claims. Never fails: what is missing is absent and named in
    /// [`Topology::gaps`].
    pub fn read(source: &Source) -> Self {
        let mut gaps = Gaps::default();
        let (cpuid, cpuid_gaps) = source.cpuid();
        let table = gaps.take(source.table("proc/cpuinfo"));
        let info = table.map_or_else(CpuInfo::default, |table| {
            gaps.extend(table.cut);
            CpuInfo::parse(&table.text)
        });
        let arch = identity::arch(source, &info, &mut gaps);
        // An Arm machine has no CPUID to miss.
        if cpuid.is_some() || arch.as_deref().is_none_or(|arch| arch == "x86_64") {
            gaps.extend(cpuid_gaps);
        }
        let online = cpu::online(source, &info, &mut gaps);
        let mut cpus = cpu::cpus(source, &online, arch.as_deref(), &mut gaps);
        let nodes = node::nodes(source, &online, &mut gaps);
        for cpu in &mut cpus {
            cpu.node = nodes.iter().find(|node| node.cpus.contains(cpu.id)).map(|node| node.id);
        }
        let mut caches = cache::caches(source, &cpus, &mut gaps);
        if let Some(cpuid) = &cpuid {
            if caches.is_empty() && !cpus.is_empty() {
                caches = cache_cpuid::caches(cpuid, &cpus, &info, &mut gaps);
            } else {
                cache_cpuid::compare(cpuid, &caches, &mut gaps);
            }
        }
        let limits = limits::limits(source, &mut gaps);
        node::check_memory(&nodes, limits.memory_total, &mut gaps);
        Self {
            cpu: identity::cpu(source, cpuid.as_ref(), &info, arch.as_deref(), &mut gaps),
            isa: identity::isa(source, cpuid.as_ref(), &info),
            hypervisor: hypervisor::name(source, cpuid.as_ref(), &info, &mut gaps),
            offline: cpu::offline(source, &online, &mut gaps),
            limits,
            arch,
            cpus,
            caches,
            nodes,
            gaps: gaps.merged(),
        }
    }
}

/// A list of CPUs or nodes with believable numbers.
fn list(text: &str) -> Option<CpuSet> {
    let believable = |number: &str| number.trim().parse::<u32>().is_ok_and(|number| number < MOST_CPUS);
    (text.is_empty() || text.split([',', '-']).all(believable)).then(|| text.parse().ok())?
}

/// A list with at least one member.
fn some_list(text: &str) -> Option<CpuSet> {
    list(text).filter(|set| !set.is_empty())
}

/// The value in kB of a line such as `MemTotal:  16384 kB`, in bytes.
fn kib_field(text: &str, field: &str) -> Option<crate::Bytes> {
    let line = text.lines().find_map(|line| {
        let (before, after) = line.split_once(':')?;
        (before.split_whitespace().next_back()? == field).then_some(after)
    })?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(crate::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    #[test]
    fn lists_are_bounded() {
        assert_eq!(list(""), Some(CpuSet::default()));
        assert_eq!(some_list(""), None);
        assert_eq!(list("0-3,8").map(|set| set.len()), Some(5));
        for text in ["-1", "0-99999", "x", "4-2", "0,", "0x3"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    #[test]
    fn memory_fields() {
        let text = "Node 0 MemTotal:       8349916 kB\nNode 0 MemFree: x kB\n";
        assert_eq!(kib_field(text, "MemTotal"), Some(Bytes::kib(8349916)));
        assert_eq!(kib_field(text, "MemFree"), None);
        assert_eq!(kib_field(text, "MemUsed"), None);
        assert_eq!(kib_field("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }
}
