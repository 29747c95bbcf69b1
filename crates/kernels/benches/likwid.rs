//! memwall's kernels beside Debian's `likwid-bench`: same kernel, width, size and CPU, interleaved in one run.
//! Prints a table with the median ratio of bandwidths and its spread; above 1, memwall is faster.
//!
//! `cargo bench -p memwall-kernels --bench likwid [-- [all] [ROUNDS]]`: the widest vectors, or all widths; needs
//! `likwid-bench` (Debian: `apt install likwid`). About two minutes per width.

use std::process::{Command, ExitCode};

use kernels::{Job, KernelCatalogue, Workload};
use machine::{Bytes, CpuSet, Isa, Source, Topology, Width};

/// Long enough that starting threads does not count, short enough that neighbours come and go between samples.
const SAMPLE_NS: f64 = 150e6;
const ROUNDS: usize = 11;
const KERNELS: [&str; 4] = ["load", "store", "copy", "triad"];

struct Row {
    kernel: &'static str,
    level: &'static str,
    width: Width,
    size: Bytes,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

fn main() -> ExitCode {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    if Command::new("likwid-bench").arg("-v").output().is_err() {
        println!("likwid-bench is not installed: apt install likwid");
        return ExitCode::SUCCESS;
    }
    let topology = Topology::read(&Source::live());
    let Some(cpu) = topology.usable_cpus().first() else {
        println!("no CPU to run on");
        return ExitCode::FAILURE;
    };
    println!(
        "{:7} {:5} {:7} {:>9} {:>10} {:>10}  ratio (min to max of {rounds} rounds)",
        "kernel", "level", "width", "size", "memwall", "likwid"
    );
    let mut worst = f64::INFINITY;
    let all = std::env::args().any(|word| word == "all");
    for width in Isa::native().widths().rev().take(if all { Width::ALL.len() } else { 1 }) {
        for (level, size) in sizes(&topology, cpu) {
            for kernel in KERNELS {
                match compare(kernel, level, width, size, cpu, rounds) {
                    Ok(row) => worst = worst.min(print(&row)),
                    Err(reason) => println!("{kernel:7} {level:5} {width:7} not compared: {reason}"),
                }
            }
        }
    }
    println!("\nlowest median ratio {worst:.3}; the aim is 0.97");
    if worst >= 0.97 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Half of L1 and of L2, and far beyond any cache one core may hold.
fn sizes(topology: &Topology, cpu: u32) -> Vec<(&'static str, Bytes)> {
    let caches = topology.data_caches_of(cpu);
    let claimed = |level| caches.iter().find(|cache| cache.level == level).and_then(|cache| cache.size);
    let largest = caches.iter().filter_map(|cache| cache.size).max().unwrap_or(Bytes::mib(32));
    vec![
        ("L1", Bytes(claimed(1).unwrap_or(Bytes::kib(32)).0 / 2)),
        ("L2", Bytes(claimed(2).unwrap_or(Bytes::kib(256)).0 / 2)),
        ("DRAM", Bytes((4 * largest.0).max(Bytes::mib(256).0))),
    ]
}

fn compare(
    name: &'static str,
    level: &'static str,
    width: Width,
    size: Bytes,
    cpu: u32,
    rounds: usize,
) -> Result<Row, String> {
    let (size, _) = likwid(name, width, size, 1, cpu)?;
    let kernel =
        KernelCatalogue::builtin().map_err(|e| e.to_string())?.get(name).map_err(|e| e.to_string())?;
    let job = Job::new(kernel, size, &[cpu]).in_width(width);
    let mut workload = Workload::prepare(&job).map_err(|e| e.to_string())?;
    let bytes = workload.pass().map_err(|e| e.to_string())?.counts;
    let bytes = (bytes.load_bytes + bytes.store_bytes) as f64;
    let passes = passes(&mut workload)?;
    let mut row =
        Row { kernel: name, level, width, size: workload.size(), ours: Vec::new(), theirs: Vec::new() };
    for _ in 0..rounds {
        row.theirs.push(likwid(name, width, size, passes, cpu)?.1);
        let run = workload.run(passes).map_err(|e| e.to_string())?;
        row.ours.push(bytes * passes as f64 / run.elapsed_ns() as f64 * 1e9);
    }
    Ok(row)
}

fn passes(workload: &mut Workload) -> Result<u64, String> {
    let mut passes = 1;
    loop {
        let elapsed = workload.run(passes).map_err(|e| e.to_string())?.elapsed_ns() as f64;
        if elapsed > SAMPLE_NS / 8.0 {
            return Ok(((passes as f64 * SAMPLE_NS / elapsed) as u64).max(1));
        }
        passes *= 4;
    }
}

/// Runs the peer; gives the size it really used and bytes per second.
fn likwid(kernel: &str, width: Width, size: Bytes, passes: u64, cpu: u32) -> Result<(Bytes, f64), String> {
    let suffix = match (width, kernel) {
        (Width::Scalar, _) => "",
        (Width::Sse, _) => "_sse",
        (Width::Avx2, "triad") => "_avx_fma",
        (Width::Avx2, _) => "_avx",
        (Width::Avx512, "triad") => "_avx512_fma",
        (Width::Avx512, _) => "_avx512",
    };
    let group = format!("N:{}B:1", size.0);
    let cpu: CpuSet = [cpu].into_iter().collect();
    let output = Command::new("taskset")
        .args(["-c", &cpu.to_string(), "likwid-bench", "-t", &format!("{kernel}{suffix}")])
        .args(["-w", &group, "-i", &passes.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().last()?.parse::<f64>().ok()
    };
    match (field("Size (Byte):"), field("MByte/s:")) {
        (Some(size), Some(rate)) => Ok((Bytes(size as u64), rate * 1e6)),
        _ => Err(format!("likwid-bench said: {}", text.lines().last().unwrap_or("nothing"))),
    }
}

fn print(row: &Row) -> f64 {
    let ratios: Vec<f64> = row.ours.iter().zip(&row.theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&ratios);
    let (low, high) = ratios.iter().fold((f64::INFINITY, 0f64), |(low, high), &r| (low.min(r), high.max(r)));
    println!(
        "{:7} {:5} {:7} {:>9} {:>6.1} GB/s {:>6.1} GB/s  {ratio:.3} ({low:.2} to {high:.2})",
        row.kernel,
        row.level,
        row.width,
        row.size.to_string(),
        median(&row.ours) / 1e9,
        median(&row.theirs) / 1e9,
    );
    ratio
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
