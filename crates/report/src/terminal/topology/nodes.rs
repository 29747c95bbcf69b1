//! NUMA nodes and how far they are from each other.

use std::collections::BTreeMap;

use machine::{CpuSet, topology::MemoryNode};

use super::spaced;
use crate::layout::prose::{listed, width, wrap};

/// One line per node, then the distances.
pub(super) fn text(nodes: &[MemoryNode], columns: usize) -> String {
    let labels: Vec<String> = nodes.iter().map(label).collect();
    let widest = labels.iter().map(|label| width(label)).max().unwrap_or_default();
    let mut out = String::new();
    for (node, label) in nodes.iter().zip(&labels) {
        let cpus = match node.cpus.len() {
            0 => "no online CPU".into(),
            1 => format!("CPU {}", node.cpus),
            _ => format!("CPUs {}", spaced(&node.cpus)),
        };
        out += &wrap(&format!("  {label:widest$}  "), &cpus, columns);
    }
    if nodes.len() > 1 {
        out += &distances(nodes, columns);
    }
    out
}

fn label(node: &MemoryNode) -> String {
    let memory = node.memory.map_or("memory not known".into(), |memory| memory.to_string());
    format!("node {:<3} {memory}", node.id)
}

/// A matrix where it fits, or else each node's neighbours by distance.
fn distances(nodes: &[MemoryNode], columns: usize) -> String {
    const HEAD: usize = 12;
    const CELL: usize = 5;
    if HEAD + CELL * nodes.len() > columns {
        return nodes.iter().map(|node| neighbours(node, nodes, columns)).collect();
    }
    let row = |head: String, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{head:<HEAD$}{cells}\n")
    };
    let mut out = row("  distance".into(), nodes.iter().map(|node| node.id.to_string()).collect());
    for node in nodes {
        let head = format!("  from {}", node.id);
        out += &match node.distances.len() == nodes.len() {
            true => row(head, node.distances.iter().map(u32::to_string).collect()),
            false => format!("{head:<HEAD$}not known\n"),
        };
    }
    out
}

fn neighbours(node: &MemoryNode, nodes: &[MemoryNode], columns: usize) -> String {
    let first = format!("  from {}: ", node.id);
    if node.distances.len() != nodes.len() {
        return wrap(&first, "distances not known", columns);
    }
    let mut by_distance: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for (distance, other) in node.distances.iter().zip(nodes) {
        by_distance.entry(*distance).or_default().insert(other.id);
    }
    let texts: Vec<String> =
        by_distance.iter().map(|(distance, others)| format!("{distance} to {others}")).collect();
    wrap(&first, &listed(&texts), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u32) -> Vec<MemoryNode> {
        let distance = |a: u32, b: u32| if a == b { 10 } else { 20 };
        (0..count)
            .map(|id| MemoryNode {
                id,
                cpus: CpuSet::default(),
                memory: None,
                distances: (0..count).map(|other| distance(id, other)).collect(),
            })
            .collect()
    }

    #[test]
    fn many_nodes_are_told_by_distance() {
        let wide = text(&nodes(3), 60);
        assert!(wide.contains("from 1       20   10   20"), "{wide}");
        let narrow = text(&nodes(16), 60);
        assert!(narrow.contains("from 3: 10 to 3 and 20 to 0-2,4-15"), "{narrow}");
        assert!(narrow.lines().all(|line| width(line) <= 60), "{narrow}");
    }

    #[test]
    fn unknown_distances_are_said() {
        let mut three = nodes(3);
        three[1].distances.clear();
        assert!(text(&three, 60).contains("\n  from 1    not known\n"), "{}", text(&three, 60));
    }
}
