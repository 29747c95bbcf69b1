//! NUMA nodes.

use super::{kib_field, list, some_list};
use crate::{Bytes, CpuSet, Source, gaps::Gaps, source::ReadError, topology::MemoryNode};

const NODES: &str = "sys/devices/system/node";
/// Local distance is 10 by definition, 255 means unreachable.
const DISTANCES: std::ops::RangeInclusive<u32> = 1..=255;

/// Every online node, ascending.
pub(super) fn nodes(source: &Source, online: &CpuSet, gaps: &mut Gaps) -> Vec<MemoryNode> {
    if !source.exists(NODES) {
        gaps.note(format!("/{NODES}"), "missing: this kernel has no NUMA support, or hides it");
        return Vec::new();
    }
    let listed = gaps.take(source.value(&format!("{NODES}/online"), "a list of nodes", some_list));
    let ids = listed.unwrap_or_else(|| {
        let numbers = gaps.take(source.numbered(NODES, "node")).unwrap_or_default();
        numbers.into_iter().filter(|&node| node < super::MOST_CPUS).collect()
    });
    let node = |id| MemoryNode {
        id,
        cpus: cpus(source, id, gaps).intersection(online),
        memory: gaps.take(memory(source, id)),
        distances: gaps.take(distances(source, id, ids.len())).unwrap_or_default(),
    };
    let nodes: Vec<MemoryNode> = ids.iter().map(node).collect();
    check_has_cpu(source, &nodes, gaps);
    nodes
}

/// The CPUs of a node, or else the links to them.
fn cpus(source: &Source, node: u32, gaps: &mut Gaps) -> CpuSet {
    match gaps.take(source.value(&format!("{NODES}/node{node}/cpulist"), "a list of CPUs", list)) {
        Some(cpus) => cpus,
        None => {
            source.numbered(&format!("{NODES}/node{node}"), "cpu").unwrap_or_default().into_iter().collect()
        }
    }
}

fn memory(source: &Source, node: u32) -> Result<Bytes, ReadError> {
    let path = format!("{NODES}/node{node}/meminfo");
    source.value(&path, "a MemTotal in kB", |text| kib_field(text, "MemTotal"))
}

/// One distance for each online node.
fn distances(source: &Source, node: u32, nodes: usize) -> Result<Vec<u32>, ReadError> {
    let wanted = format!("{nodes} distance{}", if nodes == 1 { "" } else { "s" });
    source.value(&format!("{NODES}/node{node}/distance"), &wanted, |text| {
        let values: Option<Vec<u32>> = text
            .split_whitespace()
            .map(|word| word.parse().ok().filter(|value| DISTANCES.contains(value)))
            .collect();
        values.filter(|values| values.len() == nodes)
    })
}

/// A node without CPUs is normal (memory only), unless the kernel says that it has some.
fn check_has_cpu(source: &Source, nodes: &[MemoryNode], gaps: &mut Gaps) {
    let path = format!("{NODES}/has_cpu");
    let Some(with_cpus) = gaps.take_if_there(source.value(&path, "a list of nodes", list)) else {
        return;
    };
    for node in nodes.iter().filter(|node| node.cpus.is_empty() && with_cpus.contains(node.id)) {
        gaps.note(format!("/{path}"), format!("says node {} has CPUs, but none of them is online", node.id));
    }
}

/// Guests whose memory is plugged in on demand claim all of it at once; the nodes know what is there.
pub(super) fn check_memory(nodes: &[MemoryNode], total: Option<Bytes>, gaps: &mut Gaps) {
    let (Some(total), Some(of_nodes)) =
        (total, nodes.iter().map(|node| node.memory).collect::<Option<Vec<_>>>())
    else {
        return;
    };
    let sum = Bytes(of_nodes.iter().fold(0, |sum, memory| sum.saturating_add(memory.0)));
    if !nodes.is_empty() && sum.0.abs_diff(total.0) > total.0 / 10 {
        gaps.note("/proc/meminfo, MemTotal", format!("claims {total} where the nodes claim {sum}"));
    }
}
