//! `memwall scenario`: a program made of kernels, timed region by region.

use std::path::{Path, PathBuf};

use events::Instrument as _;
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

use record::scenario::ScenarioRun;
use sim::pmu::SampleRequest;

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
    kernel_file: Option<PathBuf>,
    /// On a simulated machine: also sample events of it into this recording, for 'memwall report --by region'
    #[arg(long, short, value_name = "FILE", alias = "record")]
    output: Option<PathBuf>,
    /// Events to sample, separated by commas [default: cycles, stalled cycles, and how long loads that miss wait]
    #[arg(long = "event", short, value_name = "EVENTS", requires = "output")]
    events: Vec<String>,
    /// Take a sample after so many of each event [default: so that each has some thousands]
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
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
  memwall scenario bandwidth-compute --on sim:haswell-ep-e5-2695v3 --scale 16 -o s.sqlite
  memwall report s.sqlite --by region

A file names threads, data and regions (docs/scenarios.md). What each of them does follows from
it and is printed with the times. Ctrl-C prints what was finished.

Schema of --json: memwall.scenario/1.";

/// Runs and prints.
pub fn run(args: &ScenarioArgs, machine: &Target) -> Result<(), Failure> {
    let catalogue = super::catalogue(args.kernel_file.as_deref())?;
    let Some(name) = args.scenario.as_ref().filter(|_| !args.list) else {
        return list(&catalogue);
    };
    args.forms.check(&[&args.output])?;
    let scenario = read(name, &catalogue, &settings(&args.set)?)?;
    if let Some(output) = &args.output {
        return recorded(args, machine, catalogue, &scenario, output);
    }
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
    print(args, &run)
}

fn print(args: &ScenarioArgs, run: &ScenarioRun) -> Result<(), Failure> {
    args.forms.give(Screen::Out, run, |columns| report::terminal::scenario::text(run, columns))
}

/// What is sampled unless something else is asked for: of each line the first that the machine has.
const SAMPLED: [&[&str]; 5] = [
    &["cycles"],
    &[
        "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
        "UOPS_EXECUTED.STALL_CYCLES",
        "UOPS_ISSUED.STALL_CYCLES",
        "stalled-cycles-backend",
    ],
    &["L1D_PEND_MISS.PENDING"],
    &["MEM_LOAD_RETIRED.L1_MISS", "MEM_LOAD_UOPS_RETIRED.L1_MISS"],
    &["MEM_LOAD_RETIRED.FB_HIT", "MEM_LOAD_UOPS_RETIRED.HIT_LFB"],
];

/// Samples events of a simulated machine into a recording.
fn recorded(
    args: &ScenarioArgs,
    machine: &Target,
    catalogue: KernelCatalogue,
    scenario: &Scenario,
    output: &Path,
) -> Result<(), Failure> {
    let Target::Simulated(model) = machine else {
        return Err(Failure::Usage(
            "--output samples a simulated machine: add --on sim:NAME; 'memwall record -e EVENTS ./app' samples a program"
                .to_owned(),
        ));
    };
    let pmu = super::count_simulated::instrument(model)?;
    let mut events = Vec::new();
    for list in &args.events {
        for piece in events::names::split(list).map_err(Failure::usage)?.iter().flatten() {
            events.push(pmu.resolve(piece.text).map_err(super::count::refused)?);
        }
    }
    if args.events.is_empty() {
        let here = |name: &&str| {
            let event = pmu.resolve(name).ok()?;
            let request = SampleRequest { event: event.clone(), period: 1, cpus: CpuSet::default() };
            pmu.sample(&request).is_ok().then_some(event)
        };
        events = SAMPLED.iter().filter_map(|names| names.iter().find_map(here)).collect();
    }
    let mut host = Simulated::with_kernels(model, catalogue, scenario.seed).counted_by(&pmu);
    let cpus = host::scenario::choose_cpus(scenario, host.topology(), args.cpus.as_ref(), args.oversubscribe);
    let cpus = cpus.map_err(failure)?;
    let asked = host::scenario::ScenarioRecording {
        request: ScenarioJob { scenario, cpus: &cpus, scale: args.scale },
        model,
        pmu: &pmu,
        events,
        period: args.period,
        loads: super::count_simulated::long_loads(&pmu),
        started_at: crate::trust::now(),
    };
    let interrupt = interrupt::flag()?;
    let done = host::scenario::record_scenario(&asked, &mut host, output, &interrupt).map_err(failure)?;
    output::say(&format!(
        "{} samples of {} events and {} loads in {}; 'memwall report {} --by region' shows them",
        done.samples,
        asked.events.len(),
        done.loads,
        output.display(),
        output.display()
    ));
    print(args, &done.timed)
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
