//! `memwall scenario`: a program made of kernels, timed region by region.

use std::path::Path;

use host::{
    Host,
    native::Native,
    scenario::{RunError, ScenarioJob},
    simulated::Simulated,
};
use kernels::{
    KernelCatalogue,
    scenario::{self, Scenario, shipped},
};
use machine::{
    CpuSet, Source,
    regular::{self, LARGEST_DATA_FILE},
};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    interrupt, output,
    target::Target,
};

/// Run a small program of known work: regions of kernels, on threads, over shared or private data
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ScenarioArgs {
    /// A scenario file, or the name of a scenario that comes with memwall
    #[arg(value_name = "FILE|NAME", required_unless_present = "list")]
    scenario: Option<String>,
    /// List the scenarios that come with memwall
    #[arg(long, exclusive = true)]
    list: bool,
    /// The CPU of each thread, such as 0 or 0-3,8, in ascending order [default: one thread per core]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Let threads share CPUs where there are too few
    #[arg(long)]
    oversubscribe: bool,
    /// Set a value the scenario declares, such as size=16M; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Divide the size of every buffer by this
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
    /// Use the kernels of a file too
    #[arg(long, value_name = "FILE")]
    kernel_file: Option<std::path::PathBuf>,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall scenario --list
  memwall scenario bandwidth-compute --cpus 0-3
  memwall scenario working-set --set w=32M
  memwall scenario stream-rate --set b=5GB/s --json
  memwall scenario ./mine.toml --scale 16
  memwall scenario imbalance --on sim:tiny --scale 64

A file names threads, data and regions (docs/scenarios.md). What each of them does follows from
it and is printed with the times. Ctrl-C prints what was finished.

Schema of --json: memwall.scenario/1.";

/// Runs and prints.
pub fn run(args: &ScenarioArgs, machine: &Target) -> Result<(), Failure> {
    let catalogue = super::catalogue(args.kernel_file.as_deref())?;
    let Some(name) = args.scenario.as_ref().filter(|_| !args.list) else {
        return list(&catalogue);
    };
    args.forms.check(&[])?;
    let scenario = read(name, &catalogue, &settings(&args.set)?)?;
    // The seed is the scenario's own.
    let mut host: Box<dyn Host> = match machine {
        Target::Native => Box::new(Native::with_kernels(&Source::live(), catalogue, scenario.seed)),
        Target::Simulated(model) => Box::new(Simulated::with_kernels(model, catalogue, scenario.seed)),
    };
    let cpus =
        host::scenario::choose_cpus(&scenario, host.topology(), args.cpus.as_ref(), args.oversubscribe);
    let cpus = cpus.map_err(failure)?;
    let request = ScenarioJob { scenario: &scenario, cpus: &cpus, scale: args.scale };
    let interrupt = interrupt::flag()?;
    let run = host::scenario::run(&request, &mut *host, &interrupt).map_err(failure)?;
    if run.regions.iter().all(|region| region.entries() == 0) {
        return Err(Failure::Measurement("stopped before the first region was finished".to_owned()));
    }
    args.forms.give(Screen::Out, &run, |columns| report::terminal::scenario::text(&run, columns))
}

fn list(catalogue: &KernelCatalogue) -> Result<(), Failure> {
    let rows = shipped::ALL
        .iter()
        .map(|shipped| {
            let scenario = shipped.parse(catalogue, &[]).map_err(Failure::measurement)?;
            let threads = match scenario.threads {
                Some(1) => "1 thread".to_owned(),
                Some(threads) => format!("{threads} threads"),
                None => "a thread per CPU".to_owned(),
            };
            Ok((scenario.name, threads, scenario.about))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    output::text(&report::terminal::scenario::list(&rows, output::columns()))
}

/// `NAME=VALUE` pairs.
pub fn settings(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let split = |setting: &String| {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| Failure::Usage(format!("--set {setting}: write NAME=VALUE, such as size=16M")))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    given.iter().map(split).collect()
}

/// A shipped scenario by its name, or a file: a name is a name unless it looks like a path.
pub fn read(
    name: &str,
    catalogue: &KernelCatalogue,
    settings: &[(String, String)],
) -> Result<Scenario, Failure> {
    if !name.contains('/') && !name.ends_with(".toml") {
        let shipped = shipped::find(name).map_err(Failure::usage)?;
        return shipped.parse(catalogue, settings).map_err(Failure::usage);
    }
    let text = regular::read_text(Path::new(name), LARGEST_DATA_FILE)
        .map_err(|error| Failure::Usage(format!("cannot read scenario file {name}: {error}")))?;
    scenario::parse(&text, name, catalogue, settings).map_err(Failure::usage)
}

fn failure(error: RunError) -> Failure {
    if error.is_bad_request() { Failure::usage(error) } else { Failure::measurement(error) }
}
