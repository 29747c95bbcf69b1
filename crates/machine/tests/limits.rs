//! Limits of cgroups in both versions, inside and outside containers.

mod trees;

use machine::{Bytes, CpuSet};
use trees::{Tree, guest};

/// The guest with version 1 hierarchies instead.
fn version_1() -> Tree {
    let tree = guest();
    tree.remove("sys/fs/cgroup");
    let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 - cgroup cgroup rw,cpu,cpuacct\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw shared:8 - cgroup cgroup rw,cpuset\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory";
    tree.write("proc/self/mountinfo", mounts);
    tree.write(
        "proc/self/cgroup",
        "4:memory:/jobs/one\n3:cpuset:/jobs\n2:cpu,cpuacct:/jobs\n1:name=systemd:/",
    );
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    tree.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1073741824");
    tree.write("sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712");
    tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "50000");
    tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000");
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
    tree.write("sys/fs/cgroup/cpuset/jobs/cpuset.effective_cpus", "1");
    tree.write("sys/fs/cgroup/cpuset/jobs/cpuset.effective_mems", "0");
    tree
}

#[test]
fn version_1_takes_the_smallest_on_the_path() {
    let machine = version_1().read();
    assert_eq!(machine.gaps, []);
    assert_eq!(machine.limits.memory, Some(Bytes::gib(1)));
    assert_eq!(machine.limits.cpu_quota, Some(0.5));
}

#[test]
fn the_cpuset_stands_in_for_the_affinity_mask() {
    let tree = version_1();
    tree.remove("proc/self/status");
    let machine = tree.read();
    assert_eq!(machine.limits.cpus, Some(CpuSet::from_iter([1])));
    assert_eq!(machine.limits.nodes, Some(CpuSet::from_iter([0])));
    assert_eq!(machine.usable_cpus(), CpuSet::from_iter([1]));
    assert!(machine.gaps.iter().any(|gap| gap.what == "/proc/self/status"));
}

#[test]
fn affinity_narrows_what_is_usable() {
    let tree = guest();
    tree.write("proc/self/status", "Cpus_allowed_list:\t1-31\nMems_allowed_list:\t0");
    assert_eq!(tree.read().usable_cpus(), CpuSet::from_iter([1]));
}

#[test]
fn a_container_sees_its_group_at_the_mount_point() {
    let tree = guest();
    tree.write("sys/fs/cgroup/memory.max", "536870912");
    // The host's path shows through, but only our own group is mounted.
    tree.write("proc/self/cgroup", "0::/system.slice/docker-0123.scope");
    assert_eq!(tree.read().limits.memory, Some(Bytes::mib(512)));
    // A name space that was entered from outside.
    tree.write("proc/self/cgroup", "0::/../../elsewhere");
    assert_eq!(tree.read().limits.memory, Some(Bytes::mib(512)));
    // The mount names the host's group as its root.
    tree.write("proc/self/cgroup", "0::/docker/0123/jobs");
    let mounts = "30 23 0:26 /docker/0123 /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    tree.write("proc/self/mountinfo", mounts);
    tree.write("sys/fs/cgroup/jobs/memory.max", "268435456");
    assert_eq!(tree.read().limits.memory, Some(Bytes::mib(256)));
}

#[test]
fn without_a_mount_table_the_usual_places_serve() {
    let tree = guest();
    tree.remove("proc/self/mountinfo");
    let machine = tree.read();
    assert_eq!(machine.limits.memory, Some(Bytes::gib(2)));
    assert_eq!(machine.gaps.len(), 1);
    assert_eq!(machine.gaps[0].what, "/proc/self/mountinfo");
}

#[test]
fn odd_limits_are_named_and_not_taken() {
    let tree = guest();
    tree.write("sys/fs/cgroup/jobs/one/cpu.max", "lots");
    tree.write("sys/fs/cgroup/jobs/memory.max", "-7");
    let machine = tree.read();
    assert_eq!(machine.limits.cpu_quota, None);
    assert_eq!(machine.limits.memory, Some(Bytes::gib(3)));
    let named: Vec<_> = machine.gaps.iter().map(|gap| gap.what.as_str()).collect();
    assert_eq!(named, ["/sys/fs/cgroup/jobs/memory.max", "/sys/fs/cgroup/jobs/one/cpu.max"]);
}
