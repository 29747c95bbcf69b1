//! How fast memory is simulated, in accesses per second of one host core: the memory-only mode beside cachegrind on the
//! same stream of addresses, and the timed system. Aims: 50 million sequential and 10 million random accesses per
//! second in memory-only mode, the largest model below 1 GiB.
//!
//! `cargo bench -p memwall-sim --bench memory [-- PART]`, where a part is `memory-only`, `timed`, `DRAM` and so on; for the ratios it needs `valgrind` (Debian: `apt install valgrind`).
//! Without `--bench`, as when tests are run, everything is done once and small.

use std::{
    hint::black_box,
    process::{Command, Stdio},
    time::Instant,
};

use kernels::draw::Lcg;
use machine::{
    Bytes,
    model::{CacheGeometry, Model, Replacement},
};
use sim::{
    access::{MemoryPort, MemoryRequest, RequestKind},
    memory::{
        MemoryOptions, MemorySystem, PageSize,
        trace::{Hierarchy, TwoLevel},
    },
    time::Time,
};

/// Far beyond the simulated last level.
const BUFFER: u64 = 256 << 20;
const ROUNDS: u32 = 5;
const FIRST: (u64, u32) = (32 << 10, 8);
const LAST: (u64, u32) = (32 << 20, 16);

/// The order of addresses.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Sequential,
    Random,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }

    /// Calls `touch` with `count` offsets of 8-byte words.
    #[inline(always)]
    fn walk(self, count: u64, bytes: u64, mut touch: impl FnMut(u64)) {
        let mut random = Lcg::new(1);
        let words = bytes / 8;
        for n in 0..count {
            touch(match self {
                Self::Sequential => n % words * 8,
                Self::Random => ((u128::from(random.next()) * u128::from(words)) >> 64) as u64 * 8,
            });
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, order, count] = &arguments[..]
        && child == "child"
    {
        return walk_natively(order, count.parse().unwrap_or(0));
    }
    let wanted = arguments.iter().skip(1).find(|word| !word.starts_with("--")).cloned().unwrap_or_default();
    let full = arguments.iter().any(|word| word == "--bench");
    let (rounds, count) = if full { (ROUNDS, 20_000_000) } else { (1, 20_000) };
    println!("million accesses per second of one host core, best of {rounds}");
    for order in [Order::Sequential, Order::Random] {
        if !format!("memory-only {}", order.name()).contains(&wanted) {
            continue;
        }
        let ours = best(rounds, || two_level(order, count));
        let aim = if order == Order::Sequential { 50.0 } else { 10.0 };
        let theirs = cachegrind(order, count / 4);
        print!("memory-only, two levels, {:10}  {:8.1}  aim {aim}", order.name(), ours / 1e6);
        match theirs {
            Ok(theirs) => println!("  {:.1} times cachegrind's {:.1}", ours / theirs, theirs / 1e6),
            Err(reason) => println!("  not compared: {reason}"),
        }
        let three = best(rounds, || hierarchy(order, count));
        println!("memory-only, haswell, {:13}  {:8.1}", order.name(), three / 1e6);
    }
    for (what, order, bytes) in [
        ("L1", Order::Sequential, 16 << 10),
        ("L2", Order::Sequential, 128 << 10),
        ("L3", Order::Sequential, 4 << 20),
        ("DRAM", Order::Sequential, BUFFER),
        ("DRAM", Order::Random, BUFFER),
    ] {
        if !format!("timed {what} {}", order.name()).contains(&wanted) {
            continue;
        }
        let rate = best(rounds, || timed(order, count / 10, bytes));
        println!("timed, haswell, {what:4} {:14}  {:8.1}", order.name(), rate / 1e6);
    }
    largest_model();
}

fn best(rounds: u32, run: impl Fn() -> f64) -> f64 {
    (0..rounds).map(|_| run()).fold(0.0, f64::max)
}

fn geometry((size, ways): (u64, u32)) -> CacheGeometry {
    CacheGeometry { size: Bytes(size), ways, line: Bytes(64), replacement: Replacement::Lru }
}

fn two_level(order: Order, count: u64) -> f64 {
    let first = geometry(FIRST);
    let mut caches = TwoLevel::new(&first, &first, &geometry(LAST));
    let begin = Instant::now();
    order.walk(count, BUFFER, |address| caches.read(address, 8));
    let seconds = begin.elapsed().as_secs_f64();
    black_box(caches.counts());
    count as f64 / seconds
}

fn hierarchy(order: Order, count: u64) -> f64 {
    let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
    let mut caches = Hierarchy::new(&model, 1).expect("a valid model");
    let begin = Instant::now();
    order.walk(count, BUFFER, |address| _ = black_box(caches.access(0, address, false)));
    count as f64 / begin.elapsed().as_secs_f64()
}

/// A core that never waits for data, only for fill buffers.
fn timed(order: Order, count: u64, bytes: u64) -> f64 {
    let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
    let options = MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() };
    let mut memory = MemorySystem::new(&model, options).expect("a valid model");
    let half_cycle = Time(Time::cycle_of(model.clock.core_hz).0 / 2);
    let mut at = Time::ZERO;
    let begin = Instant::now();
    order.walk(count, bytes, |address| {
        let request = MemoryRequest { core: 0, kind: RequestKind::Load, address, at, instruction: 0x40_1000 };
        at = (at + half_cycle).max(memory.access(&request).accepted);
    });
    let seconds = begin.elapsed().as_secs_f64();
    black_box(memory.core_stats(0));
    count as f64 / seconds
}

/// The same walk by real loads, to be watched by cachegrind.
fn walk_natively(order: &str, count: u64) {
    let order = if order == Order::Random.name() { Order::Random } else { Order::Sequential };
    let buffer = vec![0u64; (BUFFER / 8) as usize];
    let mut sum = 0u64;
    order.walk(count, BUFFER, |address| sum = sum.wrapping_add(black_box(&buffer)[(address / 8) as usize]));
    black_box(sum);
}

/// Accesses per second of cachegrind with the same caches: the time of a walk less that of starting up.
fn cachegrind(order: Order, count: u64) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let run = |count: u64| {
        let option = |name: &str, (size, ways): (u64, u32)| format!("--{name}={size},{ways},64");
        let begin = Instant::now();
        let status = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
            .args([option("I1", FIRST), option("D1", FIRST), option("LL", LAST)])
            .arg(&program)
            .args(["child", order.name(), &count.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("valgrind: {error}"))?;
        if status.success() { Ok(begin.elapsed().as_secs_f64()) } else { Err(format!("valgrind: {status}")) }
    };
    let seconds = run(count)? - run(0)?;
    if seconds > 0.0 { Ok(count as f64 / seconds) } else { Err("too short a walk".to_owned()) }
}

/// Memory of this process with the largest model built and its caches in use.
fn largest_model() {
    let names = Model::builtin_names().map(|name| (name, Model::builtin(name).expect("a model")));
    let caches = |model: &Model| {
        let l3 = model.l3.map_or(0, |l3| l3.geometry.size.0) * u64::from(model.sockets);
        l3 + u64::from(model.cores_per_socket * model.sockets) * model.l2.geometry.size.0
    };
    let Some((name, model)) = names.max_by_key(|(_, model)| caches(model)) else { return };
    let mut memory = MemorySystem::new(&model, MemoryOptions::default()).expect("a valid model");
    for core in 0..memory.cores() {
        let request =
            MemoryRequest { core, kind: RequestKind::Load, address: 64, at: Time::ZERO, instruction: 0 };
        memory.access(&request);
    }
    let resident = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:").map(str::to_owned))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    match resident {
        Some(kib) => println!("largest model, {name}: {} of address space", Bytes::kib(kib)),
        None => println!("largest model, {name}: memory in use is not known here"),
    }
}
