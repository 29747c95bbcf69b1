//! What our cgroup and affinity mask leave to us of the machine.

use super::{cgroup::Cgroups, kib_field, list};
use crate::{CpuSet, Source, gaps::Gaps, source::ReadError, topology::MachineLimits};

/// Reads affinity, memory and CPU quota.
pub(super) fn limits(source: &Source, gaps: &mut Gaps) -> MachineLimits {
    let status = gaps.take(source.table("proc/self/status")).map(|table| table.text);
    let meminfo = gaps.take(source.table("proc/meminfo")).map(|table| table.text);
    let cgroups = Cgroups::find(source, gaps);
    let mut memory = |field: &str| {
        let text = meminfo.as_deref()?;
        let value = kib_field(text, field);
        if value.is_none() {
            gaps.note(format!("/proc/meminfo, {field}"), "not stated in kB");
        }
        value
    };
    let (memory_total, memory_available) = (memory("MemTotal"), memory("MemAvailable"));
    MachineLimits {
        cpus: allowed(status.as_deref(), "Cpus_allowed_list", gaps).or_else(|| cgroups.cpus(source, gaps)),
        nodes: allowed(status.as_deref(), "Mems_allowed_list", gaps).or_else(|| cgroups.nodes(source, gaps)),
        memory: cgroups.memory(source, gaps),
        cpu_quota: cgroups.cpu_quota(source, gaps),
        memory_total,
        memory_available,
    }
}

/// A list of `/proc/self/status`, which already is the intersection of affinity and cpuset.
fn allowed(status: Option<&str>, field: &str, gaps: &mut Gaps) -> Option<CpuSet> {
    let path = format!("/proc/self/status, {field}");
    let value = status?.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let Some(value) = value.map(str::trim) else {
        gaps.note(path, "not stated");
        return None;
    };
    let set = list(value).filter(|set| !set.is_empty());
    gaps.take(set.ok_or_else(|| ReadError::odd(&path, value, "a list of CPUs or nodes")))
}
