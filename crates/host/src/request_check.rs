//! What a measurement asks of the machine, checked against what the machine has, before anything is measured.

use machine::{Bytes, CpuSet, Topology};

/// A request this machine cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// No CPU was named, or none may be used.
    #[error("no CPU to measure on; this process may use CPUs {usable}")]
    NoCpus {
        /// Online and allowed.
        usable: CpuSet,
    },
    /// The CPU exists and is switched off.
    #[error("CPU {cpu} is offline; online and allowed are {usable}")]
    Offline {
        /// What was asked for.
        cpu: u32,
        /// Online and allowed.
        usable: CpuSet,
    },
    /// The machine has no such CPU.
    #[error("there is no CPU {cpu}; online and allowed are {usable}")]
    NoSuchCpu {
        /// What was asked for.
        cpu: u32,
        /// Online and allowed.
        usable: CpuSet,
    },
    /// The CPU exists, and we may not run there.
    #[error("CPU {cpu} is outside the cpuset of this process; allowed are {usable}")]
    OutsideCpuset {
        /// What was asked for.
        cpu: u32,
        /// Online and allowed.
        usable: CpuSet,
    },
    /// The machine has no such node.
    #[error("there is no NUMA node {node}; nodes are {nodes}")]
    NoSuchNode {
        /// What was asked for.
        node: u32,
        /// What there is.
        nodes: CpuSet,
    },
    /// The node exists, and we may not have memory from it.
    #[error("memory of NUMA node {node} is outside the cpuset of this process; allowed are nodes {allowed}")]
    NodeOutsideCpuset {
        /// What was asked for.
        node: u32,
        /// What is allowed.
        allowed: CpuSet,
    },
    /// No data.
    #[error("size 0 holds no data; the smallest useful size is one line, 64")]
    ZeroSize,
    /// More than can be had.
    #[error("size {size} does not fit: {limit} {why}; ask for less")]
    TooLarge {
        /// What was asked for.
        size: Bytes,
        /// What can be had.
        limit: Bytes,
        /// What sets that limit.
        why: &'static str,
    },
    /// Threads share CPUs, and nobody is there to switch between them.
    #[error(
        "scenario '{scenario}' has {threads} threads on {cpus} CPUs; on a simulated machine each thread needs a CPU \
         of its own"
    )]
    Sharing {
        /// The scenario.
        scenario: String,
        /// Its threads.
        threads: usize,
        /// CPUs for them.
        cpus: usize,
    },
    /// The kernel's number of threads is not the user's choice.
    #[error("kernel '{kernel}' needs exactly {needs} threads, but {got} CPUs were given; name {needs} CPUs")]
    Threads {
        /// The kernel.
        kernel: String,
        /// What it needs.
        needs: usize,
        /// What was asked for.
        got: usize,
    },
}

/// Every CPU exists, is online and allowed, and there is at least one.
pub fn check_cpus(machine: &Topology, cpus: &CpuSet) -> Result<(), BadRequest> {
    let usable = machine.usable_cpus();
    if cpus.is_empty() {
        return Err(BadRequest::NoCpus { usable });
    }
    match cpus.difference(&usable).first() {
        None => Ok(()),
        Some(cpu) if machine.offline.contains(cpu) => Err(BadRequest::Offline { cpu, usable }),
        Some(cpu) if machine.cpus.iter().any(|online| online.id == cpu) => {
            Err(BadRequest::OutsideCpuset { cpu, usable })
        }
        Some(cpu) => Err(BadRequest::NoSuchCpu { cpu, usable }),
    }
}

/// The node exists and we may have memory from it.
pub fn check_node(machine: &Topology, node: u32) -> Result<(), BadRequest> {
    let nodes: CpuSet = machine.nodes.iter().map(|node| node.id).collect();
    // A kernel without NUMA support lists no nodes; its memory is node 0.
    let the_only_one = nodes.is_empty() && node == 0;
    if !nodes.contains(node) && !the_only_one {
        return Err(BadRequest::NoSuchNode { node, nodes });
    }
    match &machine.limits.nodes {
        Some(allowed) if !allowed.contains(node) => {
            Err(BadRequest::NodeOutsideCpuset { node, allowed: allowed.clone() })
        }
        _ => Ok(()),
    }
}

/// There are data, and they fit into what memory the cgroup and the machine leave us, now; on `node` if bound
/// to one.
pub fn check_size(machine: &Topology, size: Bytes, node: Option<u32>) -> Result<(), BadRequest> {
    if size.0 == 0 {
        return Err(BadRequest::ZeroSize);
    }
    let on_node = machine.nodes.iter().find(|known| Some(known.id) == node).and_then(|node| node.memory);
    let limits = [
        (machine.limits.memory, "is the memory limit of this process's cgroup"),
        (on_node, "is all the memory of that node"),
        (machine.limits.memory_total, "is all the memory of this machine"),
        (machine.limits.memory_available, "of memory is available now"),
    ];
    for (limit, why) in limits {
        if let Some(limit) = limit.filter(|&limit| size > limit) {
            return Err(BadRequest::TooLarge { size, limit, why });
        }
    }
    Ok(())
}

/// The kernel runs with this many threads.
pub fn check_threads(kernel: &str, needs: Option<usize>, got: usize) -> Result<(), BadRequest> {
    match needs {
        Some(needs) if needs != got => Err(BadRequest::Threads { kernel: kernel.to_owned(), needs, got }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imagined::machine;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    #[test]
    fn cpus_we_cannot_have() {
        let mut machine = machine(4);
        machine.offline = set("4-5");
        machine.limits.cpus = Some(set("0-2"));
        assert_eq!(check_cpus(&machine, &set("0,2")), Ok(()));
        assert!(matches!(check_cpus(&machine, &set("")), Err(BadRequest::NoCpus { .. })));
        assert!(matches!(check_cpus(&machine, &set("0,3")), Err(BadRequest::OutsideCpuset { cpu: 3, .. })));
        assert!(matches!(check_cpus(&machine, &set("5")), Err(BadRequest::Offline { cpu: 5, .. })));
        assert!(matches!(check_cpus(&machine, &set("9")), Err(BadRequest::NoSuchCpu { cpu: 9, .. })));
    }

    #[test]
    fn nodes_we_cannot_have() {
        let mut machine = machine(2);
        assert_eq!(check_node(&machine, 0), Ok(()));
        assert!(matches!(check_node(&machine, 3), Err(BadRequest::NoSuchNode { .. })));
        machine.limits.nodes = Some(set("1"));
        assert!(matches!(check_node(&machine, 0), Err(BadRequest::NodeOutsideCpuset { .. })));
        machine.nodes.clear();
        machine.limits.nodes = None;
        assert_eq!(check_node(&machine, 0), Ok(()));
    }

    #[test]
    fn sizes_we_cannot_have() {
        let mut machine = machine(2);
        machine.limits.memory = Some(Bytes::gib(1));
        assert_eq!(check_size(&machine, Bytes::mib(512), None), Ok(()));
        assert_eq!(check_size(&machine, Bytes(0), None), Err(BadRequest::ZeroSize));
        let error = check_size(&machine, Bytes::gib(2), None).expect_err("too large").to_string();
        assert!(error.contains("cgroup") && error.contains("1 GiB"), "{error}");
        machine.limits.memory = None;
        machine.nodes[0].memory = Some(Bytes::gib(1));
        assert_eq!(check_size(&machine, Bytes::gib(2), None), Ok(()));
        assert!(matches!(check_size(&machine, Bytes::gib(2), Some(0)), Err(BadRequest::TooLarge { .. })));
        assert!(matches!(check_size(&machine, Bytes::gib(7), None), Err(BadRequest::TooLarge { .. })));
    }

    #[test]
    fn kernels_with_a_fixed_number_of_threads() {
        assert_eq!(check_threads("load", None, 7), Ok(()));
        assert_eq!(check_threads("producer-consumer", Some(2), 2), Ok(()));
        assert!(check_threads("producer-consumer", Some(2), 1).is_err());
    }
}
