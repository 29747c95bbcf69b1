//! The machines.

use super::{CacheFiles, CpuFiles, Tree, cache};

const AVX2_FLAGS: &str = "fpu sse sse2 lm sse4_2 avx f16c fma avx2 bmi2";

/// Two Xeon E5-2680 v3: 12 cores each, SMT, second threads numbered after all first ones.
pub fn haswell_ep() -> Tree {
    let tree = Tree::new();
    let caches = |cpu: u32| {
        let core = cpu % 24;
        let (siblings, socket) = (format!("{core},{}", core + 24), core / 12 * 12);
        let all = format!("{socket}-{},{}-{}", socket + 11, socket + 24, socket + 35);
        vec![
            cache(1, "Data", 32, 8, &siblings),
            cache(1, "Instruction", 32, 8, &siblings),
            cache(2, "Unified", 256, 8, &siblings),
            cache(3, "Unified", 30720, 20, all),
        ]
    };
    for id in 0..48 {
        let core = id % 24;
        let siblings = format!("{core},{}", core + 24);
        // The kernel's core numbers skip: dies are cut from a larger one.
        let number = [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13][core as usize % 12];
        tree.cpu(&CpuFiles { id, socket: core / 12, core: number, siblings, caches: caches(id) });
    }
    tree.lists("0-47", "0-47", "0-1");
    tree.node(0, "0-11,24-35", 65_842_112, "10 21");
    tree.node(1, "12-23,36-47", 66_059_900, "21 10");
    tree.unlimited("0-47", "0-1", 131_902_012);
    let fields = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 63\n\
        model name\t: Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz\nstepping\t: 2\nmicrocode\t: 0x49";
    tree.x86(0..48, fields, AVX2_FLAGS);
    tree.cpuid("GenuineIntel", 0x306f2, &caches(0), &[2, 2, 2, 32], "");
    tree
}

/// Two EPYC 7763: 64 cores each, one L3 for each eight cores, SMT.
pub fn epyc() -> Tree {
    let tree = Tree::new();
    let caches = |cpu: u32| {
        let core = cpu % 128;
        let (siblings, group) = (format!("{core},{}", core + 128), core / 8 * 8);
        let all = format!("{group}-{},{}-{}", group + 7, group + 128, group + 135);
        vec![
            cache(1, "Data", 32, 8, &siblings),
            cache(1, "Instruction", 32, 8, &siblings),
            cache(2, "Unified", 512, 8, &siblings),
            cache(3, "Unified", 32768, 16, all),
        ]
    };
    for id in 0..256 {
        let core = id % 128;
        let siblings = format!("{core},{}", core + 128);
        tree.cpu(&CpuFiles { id, socket: core / 64, core: core % 64, siblings, caches: caches(id) });
    }
    tree.lists("0-255", "0-255", "0-1");
    tree.node(0, "0-63,128-191", 263_800_000, "10 32");
    tree.node(1, "64-127,192-255", 264_200_000, "32 10");
    tree.unlimited("0-255", "0-1", 528_000_000);
    let fields = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n\
        model name\t: AMD EPYC 7763 64-Core Processor\nstepping\t: 1\nmicrocode\t: 0xa0011d1";
    tree.x86(0..256, fields, AVX2_FLAGS);
    tree.cpuid("AuthenticAMD", 0x00a0_0f11, &caches(0), &[2, 2, 2, 16], "");
    tree
}

/// A Core i9-12900K: eight performance cores with SMT, eight efficient cores whose L2 serves four.
pub fn hybrid() -> Tree {
    let tree = Tree::new();
    let caches = |cpu: u32| {
        if cpu < 16 {
            let siblings = format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1);
            vec![
                cache(1, "Data", 48, 12, &siblings),
                cache(1, "Instruction", 32, 8, &siblings),
                cache(2, "Unified", 1280, 10, &siblings),
                cache(3, "Unified", 30720, 12, "0-23"),
            ]
        } else {
            let cluster = format!("{}-{}", cpu / 4 * 4, cpu / 4 * 4 + 3);
            vec![
                cache(1, "Data", 32, 8, cpu),
                cache(1, "Instruction", 64, 8, cpu),
                cache(2, "Unified", 2048, 16, cluster),
                cache(3, "Unified", 30720, 12, "0-23"),
            ]
        }
    };
    for id in 0..24 {
        let (core, siblings) = match id {
            0..16 => (id / 2 * 4, format!("{}-{}", id / 2 * 2, id / 2 * 2 + 1)),
            _ => (id + 16, id.to_string()),
        };
        tree.cpu(&CpuFiles { id, socket: 0, core, siblings, caches: caches(id) });
    }
    tree.write("sys/devices/cpu_core/cpus", "0-15").write("sys/devices/cpu_atom/cpus", "16-23");
    tree.lists("0-23", "0-23", "0");
    tree.node(0, "0-23", 32_600_000, "10");
    tree.unlimited("0-23", "0", 32_600_000);
    let fields = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 151\n\
        model name\t: 12th Gen Intel(R) Core(TM) i9-12900K\nstepping\t: 2\nmicrocode\t: 0x2c";
    tree.x86(0..24, fields, AVX2_FLAGS);
    tree.cpuid("GenuineIntel", 0x0009_0672, &caches(0), &[2, 2, 2, 64], "");
    tree
}

/// A Xeon Silver 4208 with SMT switched off and core 5 offline as well.
pub fn smt_off() -> Tree {
    let tree = Tree::new();
    let online = [0, 1, 2, 3, 4, 6, 7];
    let caches = |cpu: u32| {
        vec![
            cache(1, "Data", 32, 8, cpu),
            cache(1, "Instruction", 32, 8, cpu),
            cache(2, "Unified", 1024, 16, cpu),
            cache(3, "Unified", 11264, 11, "0-4,6-7"),
        ]
    };
    for id in online {
        tree.cpu(&CpuFiles { id, socket: 0, core: id, siblings: id.to_string(), caches: caches(id) });
    }
    tree.lists("0-4,6-7", "0-15", "0");
    // Sixteen more could be plugged in: not offline, just not there.
    tree.write("sys/devices/system/cpu/possible", "0-31");
    tree.write("sys/devices/system/cpu/offline", "5,8-31");
    tree.write("sys/devices/system/cpu/smt/control", "off");
    for offline in [5, 8, 9, 10, 11, 12, 13, 14, 15] {
        tree.write(&format!("sys/devices/system/cpu/cpu{offline}/online"), "0");
    }
    tree.node(0, "0-4,6-7", 98_500_000, "10");
    tree.unlimited("0-15", "0", 98_500_000);
    let fields = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
        model name\t: Intel(R) Xeon(R) Silver 4208 CPU @ 2.10GHz\nstepping\t: 7\nmicrocode\t: 0x5003605";
    tree.x86(online, fields, &format!("{AVX2_FLAGS} avx512f"));
    tree.cpuid("GenuineIntel", 0x0005_0657, &caches(0), &[2, 2, 2, 16], "");
    tree
}

/// A guest of KVM with two virtual CPUs, inside a cgroup with limits at two heights.
pub fn guest() -> Tree {
    let tree = Tree::new();
    let caches = |cpu: u32| -> Vec<CacheFiles> {
        vec![
            cache(1, "Data", 48, 12, cpu),
            cache(1, "Instruction", 32, 8, cpu),
            cache(2, "Unified", 1280, 20, cpu),
            cache(3, "Unified", 49152, 12, "0-1"),
        ]
    };
    for id in 0..2 {
        tree.cpu(&CpuFiles { id, socket: 0, core: id, siblings: id.to_string(), caches: caches(id) });
    }
    tree.lists("0-1", "0-1", "0");
    tree.node(0, "0-1", 8_349_916, "10");
    tree.unlimited("0-1", "0", 8_349_916);
    tree.write("proc/self/cgroup", "0::/jobs/one");
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory");
    tree.write("sys/fs/cgroup/jobs/memory.max", "2147483648")
        .write("sys/fs/cgroup/jobs/cpu.max", "max 100000");
    tree.write("sys/fs/cgroup/jobs/one/memory.max", "3221225472");
    tree.write("sys/fs/cgroup/jobs/one/cpu.max", "150000 100000");
    tree.write("sys/fs/cgroup/jobs/one/cpuset.cpus.effective", "0-1");
    let fields = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n\
        model name\t: Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz\nstepping\t: 6\nmicrocode\t: 0xffffffff";
    tree.x86(0..2, fields, &format!("{AVX2_FLAGS} avx512f hypervisor"));
    tree.cpuid("GenuineIntel", 0x0006_06a6, &caches(0), &[1, 1, 1, 2], "KVMKVMKVM");
    tree
}

/// A bare server with 64 Neoverse-N1 cores; the kernel has neither `die_id` nor the name of the architecture.
pub fn arm_server() -> Tree {
    let tree = Tree::new();
    for id in 0..64 {
        let caches = vec![
            cache(1, "Data", 64, 4, id),
            cache(1, "Instruction", 64, 4, id),
            cache(2, "Unified", 1024, 8, id),
            cache(3, "Unified", 32768, 16, "0-63"),
        ];
        tree.cpu(&CpuFiles { id, socket: 0, core: id, siblings: id.to_string(), caches });
        tree.remove(&format!("sys/devices/system/cpu/cpu{id}/topology/die_id"));
        tree.write(&format!("sys/devices/system/cpu/cpu{id}/cpu_capacity"), "1024");
    }
    tree.lists("0-63", "0-63", "0");
    tree.node(0, "0-63", 263_000_000, "10");
    tree.unlimited("0-63", "0", 263_000_000);
    let block = |cpu: u32| {
        format!(
            "processor\t: {cpu}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes pmull\n\
             CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
        )
    };
    tree.write("proc/cpuinfo", (0..64).map(block).collect::<String>());
    tree.write("proc/sys/kernel/osrelease", "5.10.0-28-arm64");
    tree.write("sys/class/dmi/id/sys_vendor", "Amazon EC2")
        .write("sys/class/dmi/id/product_name", "m6g.metal");
    tree
}
