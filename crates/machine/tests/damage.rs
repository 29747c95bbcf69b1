//! Missing and odd files: a partial machine with named gaps, never a panic.

mod trees;

use std::{fs, os::unix::fs::PermissionsExt};

use machine::topology::Gap;
use proptest::prelude::*;
use trees::{Tree, arm_server, guest, hybrid};

/// A way to spoil a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Removed,
    Emptied,
    Garbage,
    MinusOne,
    Huge,
    Directory,
    Loop,
}

const ALL: [Damage; 7] = [
    Damage::Removed,
    Damage::Emptied,
    Damage::Garbage,
    Damage::MinusOne,
    Damage::Huge,
    Damage::Directory,
    Damage::Loop,
];

fn spoil(tree: &Tree, path: &str, damage: Damage) {
    match damage {
        Damage::Emptied => tree.write_bytes(path, b""),
        Damage::Garbage => tree.write_bytes(path, &[0x00, 0xff, 0x1b, b'[', b'3', b'1', b'm', 0xfe, 0x80]),
        Damage::MinusOne => tree.write(path, "-1"),
        Damage::Huge => tree.write(path, "99999999999999999999999"),
        Damage::Removed => tree.remove(path),
        Damage::Directory => {
            tree.remove(path);
            fs::create_dir(tree.at(path)).expect("a directory");
            tree
        }
        Damage::Loop => {
            tree.remove(path);
            std::os::unix::fs::symlink(tree.at(path), tree.at(path)).expect("a link");
            tree
        }
    };
}

fn mentions(gaps: &[Gap], path: &str) -> bool {
    gaps.iter().any(|gap| gap.what.starts_with(&format!("/{path}")))
}

/// Every file whose loss takes something away from the machine.
const NEEDED: [&str; 22] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id",
    "sys/devices/system/cpu/cpu1/topology/die_id",
    "sys/devices/system/cpu/cpu1/topology/core_id",
    "sys/devices/system/cpu/cpu1/cache/index0/level",
    "sys/devices/system/cpu/cpu1/cache/index0/type",
    "sys/devices/system/cpu/cpu1/cache/index0/size",
    "sys/devices/system/cpu/cpu1/cache/index0/ways_of_associativity",
    "sys/devices/system/cpu/cpu1/cache/index0/coherency_line_size",
    "sys/devices/system/cpu/cpu1/cache/index0/number_of_sets",
    "sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node0/distance",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/status",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "cpuid.txt",
];

/// Damage that leaves a text which means something else: a table without mounts or groups is a machine without
/// cgroups, an empty list a node of memory alone, and what `/proc/cpuinfo` lacks is told by CPUID or named by
/// field.
fn has_another_meaning(path: &str, damage: Damage) -> bool {
    let readable = !matches!(damage, Damage::Removed | Damage::Directory | Damage::Loop);
    match path {
        "sys/devices/system/node/node0/cpulist" | "proc/self/cgroup" => damage == Damage::Emptied,
        "proc/self/mountinfo" | "proc/cpuinfo" => readable,
        _ => false,
    }
}

#[test]
fn each_damaged_file_is_named() {
    let tree = guest();
    let mut unnamed = Vec::new();
    for (damage, path) in ALL.into_iter().flat_map(|damage| NEEDED.map(|path| (damage, path))) {
        let sound = fs::read(tree.at(path)).expect("a file");
        spoil(&tree, path, damage);
        let machine = tree.read();
        if !has_another_meaning(path, damage) && !mentions(&machine.gaps, path) {
            unnamed.push((damage, path));
        }
        assert_eq!(machine.cpus.len(), 2, "{path} {damage:?}");
        if damage != Damage::Removed {
            tree.remove(path);
        }
        tree.write_bytes(path, &sound);
    }
    assert_eq!(unnamed, []);
    assert_eq!(tree.read().gaps, []);
}

#[test]
fn gaps_say_what_was_wrong() {
    let why = |damage| {
        let tree = guest();
        let path = "sys/devices/system/cpu/cpu1/topology/core_id";
        spoil(&tree, path, damage);
        let machine = tree.read();
        assert_eq!(machine.cpus[1].core, None);
        assert_eq!(machine.cpus[0].core, Some(0));
        assert_eq!(machine.gaps.len(), 1, "{:?}", machine.gaps);
        machine.gaps[0].why.clone()
    };
    assert_eq!(why(Damage::Removed), "missing");
    assert_eq!(why(Damage::Emptied), "holds nothing, not a number from 0 on");
    assert_eq!(why(Damage::MinusOne), "holds '-1', not a number from 0 on");
    assert_eq!(why(Damage::Huge), "holds '99999999999999999999999', not a number from 0 on");
    assert_eq!(why(Damage::Directory), "cannot be read: it is a directory");
    assert!(why(Damage::Loop).starts_with("cannot be read: "));
    let garbage = why(Damage::Garbage);
    assert!(garbage.ends_with("not readable text") && !garbage.contains('\u{1b}'), "{garbage}");
}

#[test]
fn a_forbidden_file_is_named() {
    let tree = guest();
    let path = "sys/devices/system/cpu/cpu0/topology/core_id";
    fs::set_permissions(tree.at(path), fs::Permissions::from_mode(0o000)).expect("permissions");
    let machine = tree.read();
    // The superuser may read it all the same.
    match fs::read(tree.at(path)) {
        Ok(_) => assert_eq!(machine.gaps, []),
        Err(_) => assert_eq!(machine.gaps[0].why, "cannot be read: Permission denied"),
    }
}

#[test]
fn an_absurd_cache_is_no_claim() {
    for size in ["0K", "-1", "99999999G", "4294967295K", "32 apples"] {
        let tree = guest();
        tree.write("sys/devices/system/cpu/cpu0/cache/index0/size", size);
        let machine = tree.read();
        let l1 = machine.data_caches_of(0)[0];
        assert_eq!(l1.size, None, "{size}");
        assert!(mentions(&machine.gaps, "sys/devices/system/cpu/cpu0/cache/index0/size"), "{size}");
    }
}

#[test]
fn sharing_that_one_cpu_does_not_state_another_does() {
    let tree = guest();
    tree.remove("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list");
    let machine = tree.read();
    let l3: Vec<_> = machine.caches.iter().filter(|cache| cache.level == 3).collect();
    assert_eq!(l3.len(), 1);
    assert_eq!(l3[0].shared_by.len(), 2);
    assert_eq!(machine.gaps.len(), 1);
}

#[test]
fn siblings_that_disagree_make_one_core_each() {
    let tree = hybrid();
    tree.write("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1-2");
    tree.write_bytes("sys/devices/system/cpu/cpu5/topology/core_cpus_list", b"\xff");
    tree.write_bytes("sys/devices/system/cpu/cpu5/topology/thread_siblings_list", b"\xff");
    let machine = tree.read();
    assert_eq!(machine.cores().len(), 16);
    assert_eq!(machine.cpus[5].siblings.to_string(), "4-5");
    assert_eq!(machine.cores().iter().map(machine::CpuSet::len).sum::<usize>(), machine.cpus.len());
    assert!(mentions(&machine.gaps, "sys/devices/system/cpu/cpu1/topology/core_cpus_list"));
}

#[test]
fn an_empty_root_is_a_machine_of_gaps() {
    let machine = Tree::new().read();
    assert!(machine.cpus.is_empty() && machine.caches.is_empty() && machine.nodes.is_empty());
    for path in ["proc/cpuinfo", "sys/devices/system/cpu/online", "sys/devices/system/node", "proc/meminfo"] {
        assert!(mentions(&machine.gaps, path), "{path}");
    }
}

#[test]
fn without_a_list_of_cpus_the_folders_tell() {
    let tree = guest();
    tree.remove("sys/devices/system/cpu/online");
    assert_eq!(tree.read().cpus.len(), 2);
    tree.remove("sys/devices/system/cpu");
    let machine = tree.read();
    assert_eq!(machine.cpus.len(), 2);
    assert!(machine.gaps.iter().any(|gap| gap.why == "replaced by /proc/cpuinfo"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_panics(
        arm in any::<bool>(),
        spoilt in proptest::collection::vec((any::<prop::sample::Index>(), 0..ALL.len()), 1..30),
        noise in proptest::collection::vec((any::<prop::sample::Index>(), "[-0-9a-zA-Z,: /\n]{0,24}"), 0..10),
    ) {
        let tree = if arm { arm_server() } else { hybrid() };
        let files = tree.files();
        for (which, content) in &noise {
            tree.write(which.get(&files[..]).as_str(), content);
        }
        let mut seen = std::collections::BTreeSet::new();
        for (which, damage) in &spoilt {
            let path = which.get(&files[..]);
            if seen.insert(path) {
                spoil(&tree, path, ALL[*damage]);
            }
        }
        let machine = tree.read();
        // However damaged, each CPU has one core and one cache of each level and kind.
        let in_cores: usize = machine.cores().iter().map(machine::CpuSet::len).sum();
        prop_assert_eq!(in_cores, machine.cpus.len());
        for cpu in &machine.cpus {
            let mut levels: Vec<_> = machine.data_caches_of(cpu.id).iter().map(|c| (c.level, c.kind)).collect();
            levels.dedup();
            prop_assert_eq!(levels.len(), machine.data_caches_of(cpu.id).len());
        }
        prop_assert!(machine.gaps.iter().all(|gap| !gap.what.is_empty() && !gap.why.is_empty()));
    }
}
