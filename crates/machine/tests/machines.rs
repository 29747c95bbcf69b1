//! Machines of many shapes, read from trees of files.

mod trees;

use std::collections::BTreeSet;

use machine::{
    Bytes, CpuSet, Source, Topology, Width,
    profile::Fingerprint,
    topology::{Cache, CacheKind, CoreKind},
};
use trees::{arm_server, epyc, guest, haswell_ep, hybrid, smt_off};

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn of_level(machine: &Topology, level: u32, kind: CacheKind) -> Vec<&Cache> {
    machine.caches.iter().filter(|cache| (cache.level, cache.kind) == (level, kind)).collect()
}

#[test]
fn two_socket_haswell_with_smt() {
    let machine = haswell_ep().read();
    assert_eq!(machine.gaps, []);
    assert_eq!(machine.arch.as_deref(), Some("x86_64"));
    assert_eq!(machine.cpu.model_name.as_deref(), Some("Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz"));
    let signature = (machine.cpu.family, machine.cpu.model, machine.cpu.stepping);
    assert_eq!(signature, (Some(6), Some(63), Some(2)));
    assert_eq!(machine.cpu.microcode.as_deref(), Some("0x49"));
    assert_eq!(machine.hypervisor, None);
    assert_eq!(machine.isa.widest(), Some(Width::Avx2));

    assert_eq!((machine.sockets(), machine.cores().len(), machine.cpus.len()), (2, 24, 48));
    assert_eq!(machine.cpus[36].siblings, set("12,36"));
    assert_eq!(
        (machine.cpus[36].socket, machine.cpus[36].node, machine.cpus[36].core),
        (Some(1), Some(1), Some(0))
    );
    assert_eq!(machine.usable_cores(), set("0-23"));

    let l1 = of_level(&machine, 1, CacheKind::Data);
    assert_eq!((l1.len(), l1[0].size, l1[0].ways, l1[0].sets), (24, Some(Bytes::kib(32)), Some(8), Some(64)));
    assert_eq!(of_level(&machine, 1, CacheKind::Instruction).len(), 24);
    let l3 = of_level(&machine, 3, CacheKind::Unified);
    assert_eq!((l3.len(), l3[1].size, l3[1].ways), (2, Some(Bytes::mib(30)), Some(20)));
    assert_eq!(l3[1].shared_by, set("12-23,36-47"));
    let seen: Vec<_> = machine.data_caches_of(47).iter().filter_map(|cache| cache.size).collect();
    assert_eq!(seen, [Bytes::kib(32), Bytes::kib(256), Bytes::mib(30)]);

    assert_eq!(machine.nodes[1].distances, [21, 10]);
    assert_eq!(machine.nodes[0].memory, Some(Bytes::kib(65_842_112)));
    assert_eq!(machine.limits.memory, None);
    assert_eq!(machine.limits.cpu_quota, None);
    assert_eq!(machine.limits.memory_available, Some(Bytes::kib(131_902_012 / 2)));
}

#[test]
fn epyc_has_eight_l3_per_socket() {
    let machine = epyc().read();
    assert_eq!(machine.gaps, []);
    assert_eq!((machine.sockets(), machine.cores().len(), machine.cpus.len()), (2, 128, 256));
    let l3 = of_level(&machine, 3, CacheKind::Unified);
    assert_eq!(l3.len(), 16);
    assert!(l3.iter().all(|cache| cache.size == Some(Bytes::mib(32)) && cache.shared_by.len() == 16));
    assert_eq!(l3[1].shared_by, set("8-15,136-143"));
    assert_eq!((machine.cpu.family, machine.cpu.model), (Some(25), Some(1)));
}

#[test]
fn hybrid_desktop_has_two_kinds() {
    let machine = hybrid().read();
    assert_eq!(machine.gaps, []);
    let of_kind =
        |kind| machine.cpus.iter().filter(|cpu| cpu.kind == kind).map(|cpu| cpu.id).collect::<CpuSet>();
    assert_eq!(of_kind(CoreKind::Performance), set("0-15"));
    assert_eq!(of_kind(CoreKind::Efficient), set("16-23"));
    assert_eq!(machine.cores().len(), 16);
    let l2 = of_level(&machine, 2, CacheKind::Unified);
    let clusters: Vec<_> = l2.iter().filter(|cache| cache.size == Some(Bytes::mib(2))).collect();
    assert_eq!((l2.len(), clusters.len()), (10, 2));
    assert_eq!(clusters[1].shared_by, set("20-23"));
    let l1: BTreeSet<_> = of_level(&machine, 1, CacheKind::Data).iter().map(|cache| cache.size).collect();
    assert_eq!(l1, BTreeSet::from([Some(Bytes::kib(48)), Some(Bytes::kib(32))]));
}

#[test]
fn hybrid_without_pmu_folders_uses_the_types() {
    let tree = hybrid();
    tree.remove("sys/devices/cpu_core").remove("sys/devices/cpu_atom");
    assert!(tree.read().cpus.iter().all(|cpu| cpu.kind == CoreKind::Uniform));
    tree.write("sys/devices/system/cpu/types/intel_core_0/cpulist", "0-15");
    tree.write("sys/devices/system/cpu/types/intel_atom_0/cpulist", "16-23");
    let machine = tree.read();
    assert_eq!((machine.cpus[3].kind, machine.cpus[20].kind), (CoreKind::Performance, CoreKind::Efficient));
}

#[test]
fn offline_cpus_exist_and_are_off() {
    let machine = smt_off().read();
    assert_eq!(machine.gaps, []);
    assert_eq!(machine.offline, set("5,8-15"));
    assert_eq!(machine.usable_cpus(), set("0-4,6-7"));
    assert_eq!(machine.cores().len(), 7);
    assert_eq!(of_level(&machine, 3, CacheKind::Unified)[0].ways, Some(11));
    assert_eq!(machine.isa.widest(), Some(Width::Avx512));
}

#[test]
fn guest_with_limits() {
    let machine = guest().read();
    assert_eq!(machine.gaps, []);
    assert_eq!(machine.hypervisor.as_deref(), Some("KVM"));
    assert_eq!(machine.limits.memory, Some(Bytes::gib(2)));
    assert_eq!(machine.limits.cpu_quota, Some(1.5));
    assert_eq!(machine.memory_for_us(), Some(Bytes::gib(2)));
    assert_eq!(machine.offline, CpuSet::default());
}

#[test]
fn arm_server_has_no_cpuid_to_miss() {
    let machine = arm_server().read();
    assert_eq!(machine.arch.as_deref(), Some("aarch64"));
    assert_eq!(machine.cpu.vendor.as_deref(), Some("Arm"));
    assert_eq!(machine.cpu.model_name.as_deref(), Some("Neoverse-N1"));
    assert_eq!((machine.cpu.model, machine.cpu.stepping), (Some(0xd0c), Some(0x31)));
    assert_eq!(machine.isa.widest(), None);
    assert_eq!(machine.hypervisor, None);
    assert!(machine.cpus.iter().all(|cpu| cpu.kind == CoreKind::Uniform));
    let gaps: Vec<_> = machine.gaps.iter().map(|gap| gap.what.as_str()).collect();
    assert_eq!(gaps, ["/sys/devices/system/cpu/cpu[0-63]/topology/die_id"]);
}

#[test]
fn little_arm_cores_are_told_by_capacity() {
    let tree = arm_server();
    for cpu in 0..4 {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), "530");
    }
    tree.write("sys/devices/system/cpu/cpu9/cpu_capacity", "930");
    let machine = tree.read();
    assert_eq!((machine.cpus[3].kind, machine.cpus[9].kind), (CoreKind::Efficient, CoreKind::Performance));
}

#[test]
fn hypervisors_are_named_by_whoever_knows() {
    let tree = guest();
    tree.remove("cpuid.txt");
    assert_eq!(tree.read().hypervisor.as_deref(), Some("unknown"));
    tree.write("sys/class/dmi/id/sys_vendor", "QEMU");
    assert_eq!(tree.read().hypervisor.as_deref(), Some("KVM or QEMU"));
    tree.write("sys/hypervisor/type", "xen");
    assert_eq!(tree.read().hypervisor.as_deref(), Some("Xen"));

    let tree = arm_server();
    tree.write("sys/class/dmi/id/product_name", "m6g.16xlarge");
    assert_eq!(tree.read().hypervisor.as_deref(), Some("Amazon EC2"));
    tree.remove("sys/class");
    assert!(tree.read().gaps.iter().any(|gap| gap.what == "hypervisor"));

    // A bare x86 machine sold by the same maker is not a guest.
    let tree = haswell_ep();
    tree.write("sys/class/dmi/id/sys_vendor", "Amazon EC2");
    assert_eq!(tree.read().hypervisor, None);
}

#[test]
fn without_caches_in_sysfs_cpuid_stands_in() {
    let tree = guest();
    let before = tree.read();
    for cpu in 0..2 {
        tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    }
    let after = tree.read();
    assert_eq!(after.caches, before.caches);
    assert!(after.gaps.iter().any(|gap| gap.what == "CPUID leaf 0x4" && gap.why.contains("sysfs has none")));

    // Without APIC numbers only private caches have a place.
    tree.write("proc/cpuinfo", "processor : 0\n\nprocessor : 1");
    let after = tree.read();
    assert_eq!(after.caches.iter().map(|cache| cache.level).max(), Some(2));
    assert!(after.gaps.iter().any(|gap| gap.what == "CPUID leaf 0x4, L3"));

    tree.remove("cpuid.txt");
    let after = tree.read();
    assert_eq!(after.caches, []);
    assert!(after.gaps.iter().any(|gap| gap.what == "/cpuid.txt"));
}

#[test]
fn cpuid_and_sysfs_may_disagree() {
    let tree = guest();
    for cpu in 0..2 {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/size"), "266240K");
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/number_of_sets"), "340787");
    }
    let gaps = tree.read().gaps;
    let texts: Vec<_> = gaps.iter().map(|gap| format!("{}: {}", gap.what, gap.why)).collect();
    assert!(
        texts.contains(&"CPUID leaf 0x4, L3: claims 48 MiB where sysfs claims 260 MiB".to_owned()),
        "{texts:?}"
    );
    assert!(texts.iter().any(|text| text.contains("lines, ways and sets make")), "{texts:?}");
}

#[test]
fn memory_that_is_not_there_yet_is_doubted() {
    let tree = guest();
    tree.node(0, "0-1", 4_000_000, "10");
    let gaps = tree.read().gaps;
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0].why, "claims 8.0 GiB where the nodes claim 3.8 GiB");
}

#[test]
fn fingerprints_are_of_the_machine_alone() {
    let tree = guest();
    let before = Fingerprint::read(&tree.source());
    assert_eq!(before.id.len(), 16);
    assert_eq!((before.hypervisor.as_str(), before.kernel.as_str()), ("KVM", "6.1.0-18-amd64"));
    // Free memory, limits and the machine's memory come and go.
    tree.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 10 kB");
    tree.write("sys/fs/cgroup/jobs/memory.max", "1000000");
    tree.write("proc/self/status", "Cpus_allowed_list:\t1\nMems_allowed_list:\t0");
    assert_eq!(before.changes(&Fingerprint::read(&tree.source())), []);
    // A CPU that went offline is another machine.
    tree.write("sys/devices/system/cpu/online", "0");
    let now = Fingerprint::read(&tree.source());
    let changes: Vec<_> = before.changes(&now).into_iter().map(|change| change.part).collect();
    assert_eq!(changes, ["topology"]);
    assert_ne!(before.id, now.id);
}

#[test]
fn the_fingerprint_of_a_known_machine_never_changes() {
    let fingerprint = Fingerprint::read(&haswell_ep().source());
    insta::assert_debug_snapshot!(fingerprint);
}

#[test]
fn this_machine_can_be_read() {
    let machine = Topology::read(&Source::live());
    assert!(!machine.cpus.is_empty());
    assert!(machine.arch.is_some());
    assert!(!machine.usable_cpus().is_empty());
    let text = serde_json::to_string(&machine).expect("JSON");
    assert_eq!(serde_json::from_str::<Topology>(&text).expect("a topology"), machine);
}
