//! Placing memory on a node.

use pmu::Errno;
use record::doctor::Capability;

use super::{
    Patient,
    row::{RowSubject, counted, named},
};

const SUBJECT: RowSubject = RowSubject {
    key: "numa_binding",
    name: "NUMA binding",
    tried: "bound a fresh page to each node that has memory, touched it, and asked which node it lies on",
    unlocks: "local and remote latency and bandwidth, buffers where a measurement wants them",
};

pub(super) fn binding(patient: Patient<'_>) -> Capability {
    let nodes = nodes(patient);
    let tried: Vec<_> = nodes.iter().map(|&node| (node, patient.system.bind_page(node))).collect();
    let refused =
        tried.iter().filter_map(|(_, result)| result.err()).max_by_key(|errno| errno.is_permission());
    let astray: Vec<_> = tried
        .iter()
        .filter_map(|(node, result)| match result {
            Ok(landed) if landed == node => None,
            Ok(landed) => Some(format!("{node} (landed on {landed})")),
            Err(errno) => Some(format!("{node} ({errno})")),
        })
        .collect();
    match (astray.len(), refused) {
        (0, _) if nodes.len() == 1 => SUBJECT.found("works; there is one node only"),
        (0, _) => SUBJECT.found(format!("works on {}", counted(nodes.len(), "node"))),
        (bad, _) if bad < nodes.len() => SUBJECT.found(format!(
            "works on {} of {} nodes, not on {}",
            nodes.len() - bad,
            nodes.len(),
            named(&astray, 4)
        )),
        (_, Some(errno)) => refusal(errno),
        _ => SUBJECT.missing(format!("pages go elsewhere: node {}", named(&astray, 4))),
    }
}

/// Nodes with memory that our cpuset allows; node 0 where the machine states none.
fn nodes(patient: Patient<'_>) -> Vec<u32> {
    let topology = patient.topology;
    let allowed = |node: u32| topology.limits.nodes.as_ref().is_none_or(|nodes| nodes.contains(node));
    let has_memory = |node: &&machine::topology::MemoryNode| node.memory.is_none_or(|memory| memory.0 > 0);
    let nodes: Vec<_> =
        topology.nodes.iter().filter(has_memory).map(|node| node.id).filter(|&node| allowed(node)).collect();
    if nodes.is_empty() { vec![0] } else { nodes }
}

fn refusal(errno: Errno) -> Capability {
    match errno.0 {
        libc::ENOSYS => SUBJECT.missing(format!("{errno}: this kernel was built without NUMA")),
        // Containers allow mbind only with this capability.
        _ if errno.is_permission() => SUBJECT.blocked(
            format!("{errno}: a seccomp filter (a container's) forbids mbind"),
            Some("docker run --cap-add SYS_NICE IMAGE".to_owned()),
        ),
        _ => SUBJECT.missing(format!("{errno}: the kernel refuses it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use record::doctor::CapabilityState;

    #[test]
    fn every_node_is_tried() {
        let mut script = Script::new();
        assert_eq!(binding(script.patient()).detail, "works; there is one node only");
        script.nodes(4);
        assert_eq!(binding(script.patient()).detail, "works on 4 nodes");
        script.system.bind = |node| if node == 3 { Ok(0) } else { Ok(node) };
        let row = binding(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "works on 3 of 4 nodes, not on 3 (landed on 0)")
        );
        script.topology.limits.nodes = Some("0-1".parse().unwrap());
        assert_eq!(binding(script.patient()).detail, "works on 2 nodes");
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        script.system.bind = |_| Err(Errno(libc::EPERM));
        let row = binding(script.patient());
        assert_eq!(
            (row.state, row.unlock_with.as_deref()),
            (CapabilityState::Blocked, Some("docker run --cap-add SYS_NICE IMAGE"))
        );
        script.system.bind = |_| Err(Errno(libc::ENOSYS));
        assert_eq!(binding(script.patient()).state, CapabilityState::Missing);
        script.system.bind = |_| Ok(9);
        assert_eq!(binding(script.patient()).state, CapabilityState::Missing);
    }
}
