//! Trees of sysfs and procfs files, built in a temporary directory: each a machine that exists.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod machines;

use std::{
    fs,
    path::{Path, PathBuf},
};

use machine::{Source, Topology};
use tempfile::TempDir;

pub use machines::{arm_server, epyc, guest, haswell_ep, hybrid, smt_off};

/// A tree, removed when dropped.
pub struct Tree(TempDir);

impl Tree {
    /// In memory where the system has a place for that: trees have thousands of small files.
    pub fn new() -> Self {
        let tree = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self(tree.expect("a temporary directory"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file with its parent directories; the line end that kernels write is added.
    pub fn write(&self, path: &str, content: impl AsRef<str>) -> &Self {
        self.write_bytes(path, format!("{}\n", content.as_ref()).as_bytes())
    }

    pub fn write_bytes(&self, path: &str, content: &[u8]) -> &Self {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
        self
    }

    /// Removes a file or a whole directory.
    pub fn remove(&self, path: &str) -> &Self {
        let path = self.at(path);
        if path.is_dir() {
            fs::remove_dir_all(path).expect("a removable directory");
        } else {
            fs::remove_file(path).expect("a removable file");
        }
        self
    }

    pub fn source(&self) -> Source {
        Source::under(self.root())
    }

    pub fn read(&self) -> Topology {
        Topology::read(&self.source())
    }

    /// Every file, relative to the root, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut pending = vec![self.root().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    let relative = path.strip_prefix(self.root()).expect("under the root");
                    files.push(relative.to_string_lossy().into_owned());
                }
            }
        }
        files.sort();
        files
    }
}

/// One logical CPU to be written.
pub struct CpuFiles {
    pub id: u32,
    pub socket: u32,
    pub core: u32,
    pub siblings: String,
    pub caches: Vec<CacheFiles>,
}

/// One `indexN` directory to be written.
#[derive(Clone)]
pub struct CacheFiles {
    pub level: u32,
    pub kind: &'static str,
    pub kib: u64,
    pub ways: u64,
    pub shared: String,
}

pub fn cache(level: u32, kind: &'static str, kib: u64, ways: u64, shared: impl ToString) -> CacheFiles {
    CacheFiles { level, kind, kib, ways, shared: shared.to_string() }
}

impl Tree {
    pub fn cpu(&self, cpu: &CpuFiles) {
        let base = format!("sys/devices/system/cpu/cpu{}", cpu.id);
        self.write(&format!("{base}/topology/physical_package_id"), cpu.socket.to_string());
        self.write(&format!("{base}/topology/die_id"), "0");
        self.write(&format!("{base}/topology/core_id"), cpu.core.to_string());
        self.write(&format!("{base}/topology/core_cpus_list"), &cpu.siblings);
        self.write(&format!("{base}/topology/thread_siblings_list"), &cpu.siblings);
        for (index, cache) in cpu.caches.iter().enumerate() {
            let base = format!("{base}/cache/index{index}");
            self.write(&format!("{base}/level"), cache.level.to_string());
            self.write(&format!("{base}/type"), cache.kind);
            self.write(&format!("{base}/size"), format!("{}K", cache.kib));
            self.write(&format!("{base}/ways_of_associativity"), cache.ways.to_string());
            self.write(&format!("{base}/coherency_line_size"), "64");
            self.write(&format!("{base}/number_of_sets"), (cache.kib * 16 / cache.ways).to_string());
            self.write(&format!("{base}/shared_cpu_list"), &cache.shared);
        }
    }

    /// A node; `distances` as the kernel writes them.
    pub fn node(&self, id: u32, cpus: &str, kib: u64, distances: &str) {
        let base = format!("sys/devices/system/node/node{id}");
        self.write(&format!("{base}/cpulist"), cpus);
        self.write(
            &format!("{base}/meminfo"),
            format!("Node {id} MemTotal: {kib} kB\nNode {id} MemFree: 1 kB"),
        );
        self.write(&format!("{base}/distance"), distances);
    }

    /// The lists of CPUs and nodes.
    pub fn lists(&self, online: &str, present: &str, nodes: &str) {
        self.write("sys/devices/system/cpu/online", online);
        self.write("sys/devices/system/cpu/present", present);
        self.write("sys/devices/system/cpu/possible", present);
        self.write("sys/devices/system/cpu/offline", "");
        self.write("sys/devices/system/node/online", nodes);
        self.write("sys/devices/system/node/has_cpu", nodes);
    }

    /// What a process outside any limit sees.
    pub fn unlimited(&self, cpus: &str, nodes: &str, kib: u64) {
        self.write(
            "proc/meminfo",
            format!("MemTotal: {kib} kB\nMemFree: 1 kB\nMemAvailable: {} kB", kib / 2),
        );
        let status = format!("Name:\tmemwall\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}");
        self.write("proc/self/status", status);
        self.write("proc/self/cgroup", "0::/user.slice/user-1000.slice");
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        self.write("proc/self/mountinfo", mounts);
        self.write("sys/fs/cgroup/user.slice/memory.max", "max");
        self.write("sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "max");
        self.write("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
    }

    /// `/proc/cpuinfo` of an x86 machine, and the kernel's names. APIC numbers are the CPU numbers.
    pub fn x86(&self, cpus: impl IntoIterator<Item = u32>, fields: &str, flags: &str) {
        let block =
            |cpu: u32| format!("processor\t: {cpu}\n{fields}\napicid\t\t: {cpu}\nflags\t\t: {flags}\n\n");
        self.write("proc/cpuinfo", cpus.into_iter().map(block).collect::<String>());
        self.write("proc/sys/kernel/arch", "x86_64");
        self.write("proc/sys/kernel/osrelease", "6.1.0-18-amd64");
    }

    /// A CPUID dump with vendor, signature, caches and, for a guest, the hypervisor. `threads` gives the number
    /// of APIC numbers that share each cache.
    pub fn cpuid(
        &self,
        vendor: &str,
        signature: u32,
        caches: &[CacheFiles],
        threads: &[u32],
        guest_of: &str,
    ) {
        let mut dump = String::from("CPU 0:\n");
        let mut leaf = |leaf: u32, subleaf: u32, [eax, ebx, ecx, edx]: [u32; 4]| {
            dump += &format!(
                "   0x{leaf:08x} 0x{subleaf:02x}: eax=0x{eax:08x} ebx=0x{ebx:08x} ecx=0x{ecx:08x} edx=0x{edx:08x}\n"
            );
        };
        let words = |text: &str| -> Vec<u32> {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(12, 0);
            bytes.chunks(4).map(|part| u32::from_le_bytes(part.try_into().expect("four"))).collect()
        };
        let name = words(vendor);
        leaf(0, 0, [0x16, name[0], name[2], name[1]]);
        let guest = !guest_of.is_empty();
        leaf(1, 0, [signature, 0, u32::from(guest) << 31, 0]);
        let cache_leaf = if vendor == "AuthenticAMD" { 0x8000_001d } else { 4 };
        leaf(0x8000_0000, 0, [0x8000_001e, 0, 0, 0]);
        for (subleaf, (cache, threads)) in caches.iter().zip(threads).enumerate() {
            let kind = match cache.kind {
                "Data" => 1,
                "Instruction" => 2,
                _ => 3,
            };
            let eax = kind | cache.level << 5 | (threads - 1) << 14;
            let ebx = (cache.ways as u32 - 1) << 22 | 63;
            leaf(cache_leaf, subleaf as u32, [eax, ebx, (cache.kib * 16 / cache.ways) as u32 - 1, 0]);
        }
        if guest {
            let name = words(guest_of);
            leaf(0x4000_0000, 0, [0x4000_0001, name[0], name[1], name[2]]);
        }
        self.write("cpuid.txt", dump);
    }
}
