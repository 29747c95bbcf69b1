//! Drawings of machines, as `memwall topology` prints them.

#[path = "../../machine/tests/trees/mod.rs"]
mod trees;

use machine::Topology;
use trees::Tree;

fn drawn(topology: &Topology, columns: usize) -> String {
    anstream::adapter::strip_str(&report::terminal::topology::text(topology, columns)).to_string()
}

fn check(name: &str, tree: &Tree) {
    let topology = tree.read();
    for columns in [60, 72, 100, 200] {
        let text = drawn(&topology, columns);
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns} columns:\n{line}\nof\n{text}");
            assert_eq!(line.trim_end(), line);
        }
    }
    insta::assert_snapshot!(format!("{name}-60"), drawn(&topology, 60));
    insta::assert_snapshot!(format!("{name}-100"), drawn(&topology, 100));
}

#[test]
fn haswell_ep() {
    check("haswell_ep", &trees::haswell_ep());
}

#[test]
fn epyc() {
    check("epyc", &trees::epyc());
}

#[test]
fn hybrid() {
    check("hybrid", &trees::hybrid());
}

#[test]
fn smt_off() {
    check("smt_off", &trees::smt_off());
}

#[test]
fn guest() {
    check("guest", &trees::guest());
}

#[test]
fn arm_server() {
    check("arm_server", &trees::arm_server());
}

#[test]
fn damaged() {
    let tree = trees::haswell_ep();
    for cpu in 0..48 {
        tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3/ways_of_associativity"));
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), "-1");
    }
    tree.write("sys/devices/system/node/node1/distance", "21").remove("proc/meminfo").remove("cpuid.txt");
    check("damaged", &tree);
}

#[test]
fn four_nodes_on_two_sockets() {
    // A Haswell-EP with cluster-on-die: the L3 of a socket lies in two nodes.
    let tree = trees::haswell_ep();
    tree.write("sys/devices/system/node/online", "0-3").write("sys/devices/system/node/has_cpu", "0-3");
    tree.node(0, "0-5,24-29", 32_000_000, "10 21 31 31");
    tree.node(1, "6-11,30-35", 32_000_000, "21 10 31 31");
    tree.node(2, "12-17,36-41", 32_000_000, "31 31 10 21");
    tree.node(3, "18-23,42-47", 32_000_000, "31 31 21 10");
    check("four_nodes", &tree);
}

#[test]
fn several_dies_and_a_cache_across_sockets() {
    let tree = trees::guest();
    tree.write("sys/devices/system/cpu/cpu1/topology/physical_package_id", "1");
    let text = drawn(&tree.read(), 80);
    assert!(text.contains("2 sockets") && text.contains("shared with CPUs 1 elsewhere"), "{text}");
    tree.write("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0");
    tree.write("sys/devices/system/cpu/cpu1/topology/die_id", "1");
    let text = drawn(&tree.read(), 80);
    assert!(text.contains("├─ die 0") && text.contains("└─ die 1"), "{text}");
}
