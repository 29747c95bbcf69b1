//! `memwall bench`: time a known kernel.

use std::{io::IsTerminal, path::PathBuf};

use host::{
    Host,
    bench::{BenchRequest, Progress},
    native::Native,
    repeat::RepeatPlan,
    simulated::Simulated,
};
use indicatif::ProgressBar;
use kernels::{Kernel, PagePolicy};
use machine::{Bytes, CpuSet, Source, Topology, Width, profile::Fingerprint};
use record::bench::Bench;
use report::html::BenchMachine;

use super::recording::profile_of;
use crate::{
    failure::Failure,
    forms::{Forms, Page, Rows, Screen},
    interrupt, progress,
    target::Target,
};

/// Time known work: bandwidth, latency and the noise around them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Which kernel; 'memwall kernels' lists them
    kernel: String,
    /// Data set of all streams and threads together: one size, a list, or a sweep
    ///
    /// 16K, 16K,1M, 16K..1G (doubling) or 16K..1G:4 (four points per doubling). Suffixes are binary.
    /// [default: 16K..256M; simulated: from half the first cache to four times the last]
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// One thread on each of these CPUs, such as 0 or 0-3,8 [default: the first CPU we may use, or as many as the kernel needs]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Width of vector operations: scalar, sse, avx2, avx512 [default: the widest that runs here]
    #[arg(long)]
    width: Option<Width>,
    /// Bind all buffers to this NUMA node [default: where each thread runs]
    #[arg(long)]
    node: Option<u32>,
    /// Use 4 KiB pages instead of huge ones
    #[arg(long)]
    small_pages: bool,
    /// Set a parameter of the kernel, such as muls=24; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Repeat this often
    #[arg(long, value_name = "N", alias = "repeat")]
    runs: Option<usize>,
    /// Spend at most this many seconds on each size [default: 1]
    #[arg(long, value_name = "SECONDS", alias = "time")]
    seconds: Option<f64>,
    /// Repeat until the 95 % interval of the median is this narrow on either side [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    precision: Option<f64>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Add the kernels of a file
    #[arg(long, value_name = "FILE")]
    kernel_file: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    page: Page,
}

const EXAMPLES: &str = "\
Examples:
  memwall bench load --size 16K..1G             a bandwidth sweep through the caches into memory
  memwall bench chase --size 4K..256M:4         latency against data set size
  memwall bench triad --size 1G --cpus 0-3      four threads together
  memwall bench chase-dependent --set muls=24 --size 8M
  memwall bench load --on sim:haswell-ep-e5-2680v3 --size 16K,128K,8M,64M
  memwall bench load --size 4K..256M --html load.html
  memwall bench copy --size 32K --width sse --precision 0.002 --json

Repeats until the confidence interval of the median is narrow enough or the time is up, and says which.
Ctrl-C prints what was measured.

Schema of --json: memwall.bench/1.";

/// Measures and prints.
pub fn run(args: &BenchArgs, machine: &Target) -> Result<(), Failure> {
    args.forms.check(&[args.rows.file(), args.page.file()])?;
    let kernel = kernel(args)?;
    let plan = RepeatPlan::asked(args.runs, args.seconds, args.precision).map_err(Failure::usage)?;
    let mut host: Box<dyn Host> = match machine {
        Target::Native => Box::new(Native::new(&Source::live(), args.seed).map_err(Failure::measurement)?),
        Target::Simulated(model) => Box::new(Simulated::new(model, args.seed).map_err(Failure::measurement)?),
    };
    let topology = host.topology().clone();
    let sizes = sizes(args, machine, &topology)?;
    let cpus = match &args.cpus {
        Some(cpus) => cpus.clone(),
        None => default_cpus(&kernel, &topology)?,
    };
    let pages = if args.small_pages { PagePolicy::Small } else { PagePolicy::Huge };
    let (width, node, seed) = (args.width, args.node, args.seed);
    let request =
        BenchRequest { kernel: &kernel, width, sizes: &sizes, cpus: &cpus, node, pages, seed, plan };
    // A bad request is said before anything is shown or measured.
    host::bench::check(&request, &topology).map_err(failure)?;
    let interrupt = interrupt::flag()?;
    let bar = progress::counting(if kernel.description().is_register_only() { 1 } else { sizes.len() });
    let mut watch = |event: Progress<'_>| show(&bar, event);
    let bench = host::bench::bench(&request, &mut *host, &mut watch, &interrupt);
    bar.finish_and_clear();
    let bench = bench.map_err(failure)?;
    if bench.points.is_empty() {
        return Err(Failure::Measurement("stopped before the first size was measured".to_owned()));
    }
    let has_page = args.page.give(|| page(&bench, machine, &topology))?;
    let has_rows = args.rows.give(|| report::terminal::bench::csv(&bench))?;
    // Rows or a page are asked for instead of a text.
    let screen = if has_rows || has_page { Screen::None } else { Screen::Out };
    let is_terminal = std::io::stdout().is_terminal();
    args.forms.give(screen, &bench, |columns| report::terminal::bench::text(&bench, columns, is_terminal))
}

/// For a browser, with what is known of the machine drawn in.
fn page(bench: &Bench, machine: &Target, topology: &Topology) -> String {
    let fingerprint = match machine {
        Target::Native => Fingerprint::with_topology(topology, &Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let profile = profile_of(&fingerprint);
    let sizes = topology.data_caches_of(0);
    let claimed = sizes.iter().filter_map(|cache| cache.size).max_by_key(|size| size.0);
    report::html::bench(bench, &BenchMachine { profile: profile.as_ref(), claimed })
}

/// As asked; by default what is usual here, or what shows every level of a simulated machine.
fn sizes(args: &BenchArgs, machine: &Target, topology: &Topology) -> Result<Vec<Bytes>, Failure> {
    let text = match (&args.size, machine) {
        (Some(text), _) => text,
        (None, Target::Native) => "16K..256M",
        (None, Target::Simulated(_)) => {
            let caches = topology.data_caches_of(0);
            let size = |cache: Option<&&machine::topology::Cache>| cache.and_then(|cache| cache.size);
            let first = size(caches.first()).map_or(Bytes::kib(4), |size| Bytes(size.0 / 2));
            let last = size(caches.last()).map_or(Bytes::mib(4), |size| Bytes(size.0 * 4));
            return host::sizes::sweep(first, last, 1).map_err(Failure::usage);
        }
    };
    host::sizes::parse(text).map_err(Failure::usage)
}

fn kernel(args: &BenchArgs) -> Result<Kernel, Failure> {
    let catalogue = super::catalogue(args.kernel_file.as_deref())?;
    with_settings(catalogue.get(&args.kernel).map_err(Failure::usage)?, &args.set)
}

/// The kernel with parameters set, each `NAME=NUMBER`.
pub fn with_settings(mut kernel: Kernel, settings: &[String]) -> Result<Kernel, Failure> {
    for setting in settings {
        let bad = || Failure::Usage(format!("--set {setting}: write NAME=NUMBER, such as muls=24"));
        let (name, value) = setting.split_once('=').ok_or_else(bad)?;
        kernel =
            kernel.with(name.trim(), value.trim().parse().map_err(|_| bad())?).map_err(Failure::usage)?;
    }
    Ok(kernel)
}

/// One CPU, or as many cores as the kernel needs threads.
fn default_cpus(kernel: &Kernel, topology: &Topology) -> Result<CpuSet, Failure> {
    let needed = kernel.description().fixed_threads().unwrap_or(1);
    let cores = topology.usable_cores();
    let chosen: CpuSet = cores.iter().take(needed).collect();
    if chosen.len() < needed {
        return Err(Failure::Usage(format!(
            "kernel '{}' needs {needed} cores and we may use {}; name CPUs with --cpus",
            kernel.name(),
            cores.len()
        )));
    }
    Ok(chosen)
}

fn show(bar: &ProgressBar, event: Progress<'_>) {
    match event {
        Progress::Size { size: Bytes(0), .. } => bar.set_message("registers only"),
        Progress::Size { size, done, .. } => {
            bar.set_position(done as u64);
            bar.set_message(size.to_string());
        }
        Progress::Point { done, .. } => bar.set_position(done as u64),
    }
}

fn failure(error: host::bench::BenchError) -> Failure {
    if error.is_bad_request() { Failure::usage(error) } else { Failure::measurement(error) }
}
