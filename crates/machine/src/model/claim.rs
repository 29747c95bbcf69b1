//! A model's machine as it would claim to be.

use super::{CacheGeometry, Model};
use crate::{
    Bytes, CpuSet, Topology,
    topology::{Cache, CacheKind, CoreKind, Cpu, CpuIdentity, MachineLimits, MemoryNode},
};

/// Distances as firmware usually states them: to itself, and to a node one link away.
const NEAR: u32 = 10;
const FAR: u32 = 21;

impl Model {
    /// All cores of the machine.
    pub fn cores(&self) -> u32 {
        self.sockets * self.cores_per_socket
    }

    /// What sysfs and CPUID would say on this machine. CPUs are numbered as Linux does on servers: the first thread
    /// of every core, socket by socket, then the second threads.
    pub fn topology(&self) -> Topology {
        let cpus: Vec<Cpu> = (0..self.cores() * self.threads_per_core).map(|id| self.cpu(id)).collect();
        let all: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        let memory_total = Bytes(self.memory.size.0.saturating_mul(u64::from(self.sockets)));
        Topology {
            arch: Some("x86_64".to_owned()),
            cpu: CpuIdentity {
                vendor: Some(self.identity.vendor.clone()),
                model_name: Some(format!("{} (simulated)", self.title)),
                family: Some(self.identity.family),
                model: Some(self.identity.model),
                stepping: Some(self.identity.stepping),
                microcode: None,
            },
            isa: self.isa,
            hypervisor: None,
            cpus,
            offline: CpuSet::default(),
            caches: self.caches(),
            nodes: (0..self.sockets).map(|socket| self.node(socket)).collect(),
            limits: MachineLimits {
                cpus: Some(all),
                nodes: Some((0..self.sockets).collect()),
                memory: None,
                cpu_quota: None,
                memory_total: Some(memory_total),
                memory_available: Some(memory_total),
            },
            gaps: Vec::new(),
        }
    }

    fn cpu(&self, id: u32) -> Cpu {
        let core = id % self.cores();
        let socket = core / self.cores_per_socket;
        Cpu {
            id,
            socket: Some(socket),
            die: Some(0),
            core: Some(core % self.cores_per_socket),
            node: Some(socket),
            siblings: self.threads(core..core + 1),
            kind: CoreKind::Uniform,
        }
    }

    /// CPUs of a range of cores.
    fn threads(&self, cores: std::ops::Range<u32>) -> CpuSet {
        (0..self.threads_per_core)
            .flat_map(|thread| cores.clone().map(move |core| thread * self.cores() + core))
            .collect()
    }

    /// Cores grouped by `cores` neighbours.
    fn groups(&self, cores: u32) -> impl Iterator<Item = CpuSet> {
        (0..self.cores() / cores).map(move |group| self.threads(group * cores..(group + 1) * cores))
    }

    fn caches(&self) -> Vec<Cache> {
        let mut caches = Vec::new();
        let mut add = |level, kind, geometry: &CacheGeometry, cores| {
            caches.extend(self.groups(cores).map(|shared_by| cache(level, kind, geometry, shared_by)));
        };
        add(1, CacheKind::Data, &self.l1d.geometry, 1);
        add(1, CacheKind::Instruction, &self.front_end.l1i, 1);
        add(2, CacheKind::Unified, &self.l2.geometry, self.l2.shared_by_cores);
        if let Some(l3) = &self.l3 {
            add(3, CacheKind::Unified, &l3.geometry, self.cores_per_socket);
        }
        caches
    }

    fn node(&self, socket: u32) -> MemoryNode {
        let first = socket * self.cores_per_socket;
        MemoryNode {
            id: socket,
            cpus: self.threads(first..first + self.cores_per_socket),
            memory: Some(self.memory.size),
            distances: (0..self.sockets).map(|other| if other == socket { NEAR } else { FAR }).collect(),
        }
    }
}

fn cache(level: u32, kind: CacheKind, geometry: &CacheGeometry, shared_by: CpuSet) -> Cache {
    let sets = geometry.size.0 / (u64::from(geometry.ways) * geometry.line.0);
    Cache {
        level,
        kind,
        size: Some(geometry.size),
        ways: Some(geometry.ways),
        line: Some(geometry.line),
        sets: u32::try_from(sets).ok(),
        shared_by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consistent(model: &Model) {
        let topology = model.topology();
        let name = &model.name;
        assert_eq!(topology.sockets(), model.sockets as usize, "{name}");
        assert_eq!(topology.cores().len(), model.cores() as usize, "{name}");
        assert_eq!(topology.usable_cores().len(), model.cores() as usize, "{name}");
        assert_eq!(topology.cpus.len(), (model.cores() * model.threads_per_core) as usize, "{name}");
        assert!(topology.cpus.iter().enumerate().all(|(i, cpu)| cpu.id as usize == i), "{name}");
        let levels = 2 + usize::from(model.l3.is_some());
        for cpu in &topology.cpus {
            assert_eq!(cpu.siblings.len(), model.threads_per_core as usize, "{name}");
            assert!(cpu.siblings.contains(cpu.id), "{name}");
            let caches = topology.data_caches_of(cpu.id);
            assert_eq!(caches.len(), levels, "{name}");
            assert!(caches.windows(2).all(|pair| pair[0].size < pair[1].size), "{name}");
            let node = &topology.nodes[cpu.node.expect("a node") as usize];
            assert!(node.cpus.contains(cpu.id) && cpu.socket == cpu.node, "{name}");
        }
        for cache in &topology.caches {
            let [Some(size), Some(line)] = [cache.size, cache.line] else { panic!("{name}: {cache:?}") };
            let [Some(ways), Some(sets)] = [cache.ways, cache.sets] else { panic!("{name}: {cache:?}") };
            assert_eq!(u64::from(ways) * u64::from(sets) * line.0, size.0, "{name}");
        }
        for (i, node) in topology.nodes.iter().enumerate() {
            assert_eq!(node.distances.len(), topology.nodes.len(), "{name}");
            assert!(node.distances.iter().enumerate().all(|(j, &d)| d == if i == j { 10 } else { 21 }));
        }
        assert!(topology.gaps.is_empty() && topology.hypervisor.is_none(), "{name}");
    }

    #[test]
    fn every_model_claims_a_consistent_machine() {
        for name in Model::builtin_names() {
            let mut model = Model::builtin(name).expect("a model");
            consistent(&model);
            model.threads_per_core = 2;
            consistent(&model);
        }
    }

    #[test]
    fn pairs_share_the_l2_of_core_2() {
        let topology = Model::builtin("core2-e5430").expect("a model").topology();
        let shared: Vec<String> =
            topology.caches.iter().filter(|c| c.level == 2).map(|c| c.shared_by.to_string()).collect();
        assert_eq!(shared, ["0-1", "2-3"]);
    }

    #[test]
    fn second_threads_follow_all_first_ones() {
        let mut model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
        model.threads_per_core = 2;
        let topology = model.topology();
        assert_eq!(topology.cpus[0].siblings.to_string(), "0,24");
        assert_eq!(topology.nodes[1].cpus.to_string(), "12-23,36-47");
    }
}
