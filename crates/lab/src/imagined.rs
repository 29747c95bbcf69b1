//! A machine that exists nowhere, for tests.

use machine::{
    Bytes, CpuSet, Isa, Topology,
    topology::{Cache, CacheKind, CoreKind, Cpu, Node},
};

/// `cpus` cores on one node with L1, L2 and a shared L3 of claimed 32 KiB, 1 MiB and 32 MiB, and 6 GiB free.
pub(crate) fn machine(cpus: u32) -> Topology {
    let all: CpuSet = (0..cpus).collect();
    let cache = |level: u32, size: Bytes, shared_by: CpuSet| Cache {
        level,
        kind: if level == 1 { CacheKind::Data } else { CacheKind::Unified },
        size: Some(size),
        ways: None,
        line: Some(Bytes(64)),
        sets: None,
        shared_by,
    };
    let mut machine = Topology {
        isa: Isa { x86_64: true, ..Isa::default() },
        cpus: (0..cpus)
            .map(|id| Cpu {
                id,
                socket: Some(0),
                die: None,
                core: Some(id),
                node: Some(0),
                siblings: [id].into_iter().collect(),
                kind: CoreKind::Uniform,
            })
            .collect(),
        nodes: vec![Node { id: 0, cpus: all.clone(), memory: Some(Bytes::gib(8)), distances: vec![10] }],
        ..Topology::default()
    };
    for id in 0..cpus {
        machine.caches.push(cache(1, Bytes::kib(32), [id].into_iter().collect()));
        machine.caches.push(cache(2, Bytes::mib(1), [id].into_iter().collect()));
    }
    machine.caches.push(cache(3, Bytes::mib(32), all));
    machine.limits.memory_total = Some(Bytes::gib(8));
    machine.limits.memory_available = Some(Bytes::gib(6));
    machine
}
