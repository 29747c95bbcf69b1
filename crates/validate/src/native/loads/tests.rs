//! Known work of this machine under a scripted kernel that samples its loads.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use kernels::KernelCatalogue;
use machine::{Bytes, Source, Topology};
use pmu::{
    Errno, EventTarget, bindings as b,
    record::encode,
    scripted::{Behaviour, Scripted},
};
use record::validate::Experiment;
use trust::KernelPlace;

use crate::{
    bench::{Bench as _, ObserveError, SampledLoads},
    native::NativeBench,
    simulated::experiment,
    unseen::CacheSizes,
};

const INTEL: &[(&str, &str)] = &[
    ("cpu/type", "4\n"),
    ("cpu/format/event", "config:0-7\n"),
    ("cpu/format/umask", "config:8-15\n"),
    ("cpu/format/ldlat", "config1:0-15\n"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
];

const HIT: u32 = b::PERF_MEM_LVL_HIT;
const TLB_HIT: u32 = b::PERF_MEM_TLB_HIT | b::PERF_MEM_TLB_L1 | b::PERF_MEM_TLB_L2;

/// The CPUs of this machine under these PMUs.
fn machine(pmus: &[(&str, &str)]) -> (tempfile::TempDir, Source) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("sys")).unwrap();
    symlink("/sys/devices", root.path().join("sys/devices")).unwrap();
    symlink("/proc", root.path().join("proc")).unwrap();
    let folder = root.path().join("sys/bus/event_source/devices");
    for (path, text) in pmus {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(file, text).unwrap();
    }
    let source = Source::under(root.path());
    (root, source)
}

/// A sampled access: what it did, who answered, who translated, how long it took.
fn access(mode: u32, operation: u32, levels: u32, tlb: u32, cycles: u64) -> Vec<u8> {
    let source = u64::from(operation) | u64::from(levels) << 5 | u64::from(tlb) << 26;
    let words = [0x40_0000, 0, 1000, 0x7000, 0, 1, cycles, source];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    encode(b::PERF_RECORD_SAMPLE, (mode | b::PERF_RECORD_MISC_EXACT_IP) as u16, &bytes)
}

/// What the step makes of a reader of memory when the kernel answers its opens with this.
fn sampled(pmus: &[(&str, &str)], answer: Result<Vec<u8>, Errno>) -> SampledLoads {
    let kernel = Scripted::new(move |asked| {
        let precise = asked.event.attr().precise_ip() == 2 && asked.event.config == 0x1cd;
        assert!(precise && matches!(asked.target, EventTarget::ThreadOnCpu { .. }), "{asked:?}");
        answer.as_ref().map(|ring| Behaviour::samples(ring)).map_err(|errno| *errno)
    });
    let (_root, source) = machine(pmus);
    let topology = Topology::read(&Source::live());
    let caches = |_: u32| Some(CacheSizes { bytes: [16, 64, 128].map(Bytes::kib) });
    let kernels = KernelCatalogue::builtin().unwrap();
    let mut bench = NativeBench::new(&kernel, source, &topology, kernels, &caches, None).unwrap();
    let mut one = experiment(bench.machine(), "load", KernelPlace::Memory, 1).unwrap();
    one.size = Bytes::mib(1);
    bench.sampled_latency(&one, &AtomicBool::new(false)).unwrap()
}

#[test]
fn loads_that_memory_served_are_taken_and_no_others() {
    let (user, load) = (b::PERF_RECORD_MISC_USER, b::PERF_MEM_OP_LOAD);
    let memory = HIT | b::PERF_MEM_LVL_LOC_RAM;
    let walked = b::PERF_MEM_TLB_HIT | b::PERF_MEM_TLB_WK;
    let ring = [
        access(user, load, memory, TLB_HIT, 230),
        access(user, load, HIT | b::PERF_MEM_LVL_REM_RAM1, TLB_HIT, 410),
        access(user, load, HIT | b::PERF_MEM_LVL_L3, TLB_HIT, 60),
        access(user, load, HIT | b::PERF_MEM_LVL_LFB, TLB_HIT, 90),
        access(user, load, b::PERF_MEM_LVL_MISS | b::PERF_MEM_LVL_LOC_RAM, TLB_HIT, 500),
        access(user, load, memory, walked, 700),
        access(user, load, memory, 0, 800),
        access(user, load, memory, TLB_HIT, 0),
        access(user, b::PERF_MEM_OP_STORE, memory, TLB_HIT, 900),
        access(b::PERF_RECORD_MISC_KERNEL, load, memory, TLB_HIT, 1000),
    ];
    assert_eq!(sampled(INTEL, Ok(ring.concat())), Ok(vec![230.0, 410.0]));
}

#[test]
fn where_loads_cannot_be_sampled_that_is_said_and_the_rest_goes_on() {
    let without = sampled(&[], Ok(Vec::new())).unwrap_err();
    assert!(without.contains("no PMU of its cores"), "{without}");
    let refused = sampled(INTEL, Err(Errno(rustix::io::Errno::ACCESS.raw_os_error()))).unwrap_err();
    assert!(refused.contains("sample"), "{refused}");
}

/// The register in which prefetchers are switched, and where it lies in a file.
const SWITCHES: usize = 0x1a4;

/// Bytes of a file with the switches of one CPU.
fn registers(value: u8) -> Vec<u8> {
    let mut all = vec![0; 0x200];
    all[SWITCHES] = value;
    all
}

/// This machine as one of a maker, with switches for each of its CPUs; how they stand whenever something is counted.
fn switched(vendor: &str, wanted: &[bool]) -> (bool, Vec<Result<u8, String>>) {
    let (root, source) = machine(&[]);
    let mut topology = Topology::read(&Source::live());
    (topology.cpu.vendor, topology.cpu.family, topology.cpu.model) =
        (Some(vendor.to_owned()), Some(6), Some(0x3f));
    let cpus: Vec<u32> = topology.usable_cores().iter().collect();
    let file = |cpu: u32| root.path().join(format!("dev/cpu/{cpu}/msr"));
    for &cpu in &cpus {
        fs::create_dir_all(file(cpu).parent().unwrap()).unwrap();
        fs::write(file(cpu), registers(0x20)).unwrap();
    }
    let first = file(cpus[0]);
    let (seen, path) = (Arc::new(Mutex::new(0)), first.clone());
    let seen_there = Arc::clone(&seen);
    let kernel = Scripted::new(move |_| {
        *seen_there.lock().unwrap() = fs::read(&path).unwrap()[SWITCHES];
        Ok(Behaviour::counts(7))
    });
    let caches = |_: u32| Some(CacheSizes { bytes: [16, 64, 128].map(Bytes::kib) });
    let kernels = KernelCatalogue::builtin().unwrap();
    let mut bench = NativeBench::new(&kernel, source, &topology, kernels, &caches, None).unwrap();
    let one = experiment(bench.machine(), "load", KernelPlace::L1, 1).unwrap();
    let mut observe = |&prefetch: &bool| {
        let made = bench.observe(
            &Experiment { prefetch, ..one.clone() },
            &["task-clock".to_owned()],
            &AtomicBool::new(false),
        );
        assert_eq!(fs::read(&first).unwrap(), registers(0x20), "left as they were");
        match made {
            Ok(_) => Ok(*seen.lock().unwrap()),
            Err(ObserveError::Failed { reason, .. }) => Err(reason),
            Err(other) => panic!("{other}"),
        }
    };
    let stood = wanted.iter().map(&mut observe).collect();
    (bench.machine().prefetch_switch, stood)
}

#[test]
fn prefetchers_are_off_just_while_an_experiment_that_wants_them_off_is_counted() {
    let (switch, stood) = switched("GenuineIntel", &[true, false, true]);
    assert!(switch);
    assert_eq!(stood, [Ok(0x20), Ok(0x2f), Ok(0x20)]);
    // Of another maker that register may be anything.
    let (switch, stood) = switched("AuthenticAMD", &[true, false]);
    assert!(!switch);
    assert_eq!(stood[0], Ok(0x20));
    assert!(stood[1].as_ref().is_err_and(|why| why.contains("cannot be switched")), "{stood:?}");
}

/// Counts of a core are those of its threads together, and so is the truth beside them.
#[test]
fn cycles_of_two_threads_of_a_core_are_those_of_both() {
    const HZ: f64 = 3e9;
    let (_root, source) = machine(&[]);
    let mut topology = Topology::read(&Source::live());
    let cpus: Vec<u32> = topology.usable_cpus().iter().take(2).collect();
    if cpus.len() < 2 {
        prerequisites::skip(prerequisites::Need::TwoCpus, "one CPU may be used");
        return;
    }
    for cpu in &mut topology.cpus {
        cpu.siblings =
            if cpus.contains(&cpu.id) { cpus.iter().copied().collect() } else { cpu.siblings.clone() };
    }
    let kernel = Scripted::new(|_| Ok(Behaviour::counts(7)));
    let caches = |_: u32| Some(CacheSizes { bytes: [16, 64, 128].map(Bytes::kib) });
    let kernels = KernelCatalogue::builtin().unwrap();
    let mut bench = NativeBench::new(&kernel, source, &topology, kernels, &caches, Some(HZ)).unwrap();
    assert_eq!(bench.machine().threads_per_core, 2);
    let one = experiment(bench.machine(), "load", KernelPlace::L1, 1).unwrap();
    for (siblings, threads) in [(false, 1.0), (true, 2.0)] {
        let experiment = Experiment { siblings, ..one.clone() };
        let made = bench.observe(&experiment, &["task-clock".to_owned()], &AtomicBool::new(false)).unwrap();
        let cycles = made.truth.cycles.unwrap();
        assert!((cycles / (made.elapsed_ns / 1e9 * HZ * threads) - 1.0).abs() < 1e-9, "{siblings}: {cycles}");
    }
}
