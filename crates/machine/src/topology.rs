//! The machine as it claims to be.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Bytes, CpuSet, Isa};

/// Sockets, cores, caches and nodes as sysfs, procfs and CPUID state them. What could not be read is `None`
/// and listed in [`Topology::gaps`]: nothing is guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// `x86_64`, `aarch64`, …
    pub arch: Option<String>,
    /// Vendor, family, model, stepping and names.
    pub cpu: CpuIdentity,
    /// What kernels may use.
    pub isa: Isa,
    /// The hypervisor's name if the machine is a guest. `Some("unknown")` if it hides its name.
    pub hypervisor: Option<String>,
    /// Online CPUs, ascending.
    pub cpus: Vec<Cpu>,
    /// CPUs that exist and are switched off.
    pub offline: CpuSet,
    /// One entry per physical cache.
    pub caches: Vec<Cache>,
    /// NUMA nodes, ascending.
    pub nodes: Vec<MemoryNode>,
    /// What our cgroup and affinity mask leave to us.
    pub limits: MachineLimits,
    /// What could not be read, in words.
    pub gaps: Vec<Gap>,
}

/// Who made the CPU and what it calls itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuIdentity {
    /// `GenuineIntel`, `AuthenticAMD`, or the Arm implementer.
    pub vendor: Option<String>,
    /// The brand string.
    pub model_name: Option<String>,
    /// CPUID family, extended family included.
    pub family: Option<u32>,
    /// CPUID model, extended model included; on Arm the part number.
    pub model: Option<u32>,
    /// CPUID stepping; on Arm variant and revision.
    pub stepping: Option<u32>,
    /// Microcode revision as the kernel shows it.
    pub microcode: Option<String>,
}

/// One logical CPU that is online.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The kernel's number.
    pub id: u32,
    /// Physical package.
    pub socket: Option<u32>,
    /// Die within the package.
    pub die: Option<u32>,
    /// Core within the die, as numbered by the kernel.
    pub core: Option<u32>,
    /// The NUMA node that lists it.
    pub node: Option<u32>,
    /// Logical CPUs of the same core, itself included.
    pub siblings: CpuSet,
    /// Which kind of core, on hybrid machines.
    pub kind: CoreKind,
}

/// The kind of a core. Ordinary machines have one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// Not a hybrid machine.
    #[default]
    Uniform,
    /// Intel's P-core, Arm's big core.
    Performance,
    /// Intel's E-core, Arm's little core.
    Efficient,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One physical cache and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3, …
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Claimed capacity.
    pub size: Option<Bytes>,
    /// Associativity.
    pub ways: Option<u32>,
    /// Line size.
    pub line: Option<Bytes>,
    /// Number of sets.
    pub sets: Option<u32>,
    /// Online CPUs that share it.
    pub shared_by: CpuSet,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryNode {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs; may be none (memory-only nodes).
    pub cpus: CpuSet,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// Distance to each node, in the order of [`Topology::nodes`].
    pub distances: Vec<u32>,
}

/// What we may use of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLimits {
    /// CPUs our affinity mask and cpuset allow.
    pub cpus: Option<CpuSet>,
    /// Nodes our cpuset allows memory from.
    pub nodes: Option<CpuSet>,
    /// The smallest memory limit on the path of our cgroup; `None` if unlimited or unknown.
    pub memory: Option<Bytes>,
    /// CPU time our cgroup may use, in CPUs (1.5 means one and a half); `None` if unlimited or unknown.
    pub cpu_quota: Option<f64>,
    /// All memory of the machine.
    pub memory_total: Option<Bytes>,
    /// Memory that can be had without swapping, now.
    pub memory_available: Option<Bytes>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The file or leaf.
    pub what: String,
    /// Why it gave nothing.
    pub why: String,
}

impl Topology {
    /// Data and unified caches seen by `cpu`, innermost first.
    pub fn data_caches_of(&self, cpu: u32) -> Vec<&Cache> {
        let mut caches: Vec<_> = self
            .caches
            .iter()
            .filter(|cache| cache.kind != CacheKind::Instruction && cache.shared_by.contains(cpu))
            .collect();
        caches.sort_by_key(|cache| cache.level);
        caches
    }

    /// The line size of the innermost data cache that states one; 64 bytes where none does, as on every x86-64.
    pub fn line(&self) -> Bytes {
        self.caches
            .iter()
            .filter(|cache| cache.kind != CacheKind::Instruction)
            .find_map(|cache| cache.line)
            .unwrap_or(Bytes(64))
    }

    /// CPUs we may run on: online and allowed.
    pub fn usable_cpus(&self) -> CpuSet {
        let online: CpuSet = self.cpus.iter().map(|cpu| cpu.id).collect();
        match &self.limits.cpus {
            Some(allowed) => online.intersection(allowed),
            None => online,
        }
    }

    /// One usable CPU per core, so that work on them does not share a core.
    pub fn usable_cores(&self) -> CpuSet {
        let usable = self.usable_cpus();
        self.cpus
            .iter()
            .filter(|cpu| usable.contains(cpu.id))
            .filter(|cpu| cpu.siblings.intersection(&usable).first().is_none_or(|first| first == cpu.id))
            .map(|cpu| cpu.id)
            .collect()
    }

    /// How many sockets are known.
    pub fn sockets(&self) -> usize {
        self.cpus.iter().filter_map(|cpu| cpu.socket).collect::<BTreeSet<_>>().len()
    }

    /// The online CPUs of each core, by first CPU.
    pub fn cores(&self) -> Vec<CpuSet> {
        let first = |cpu: &&Cpu| cpu.siblings.first().is_none_or(|first| first == cpu.id);
        self.cpus.iter().filter(first).map(|cpu| cpu.siblings.clone()).collect()
    }

    /// How much memory a measurement may take: the least of what is available and what the cgroup allows.
    pub fn memory_for_us(&self) -> Option<Bytes> {
        [self.limits.memory, self.limits.memory_available].into_iter().flatten().min()
    }
}
