//! `memwall squeeze`: take cache and bandwidth away from a program and say what it loses.

mod calibrating;
mod counting;
mod series;
mod session;
mod together;
mod waiting;

use std::{ffi::OsString, path::Path, process::ExitCode};

use machine::{
    CpuSet, Profile, Source,
    profile::{Fingerprint, LevelName},
    squeezing::{SqueezeForm, SqueezeProfile},
    store::Store,
};
use squeeze::partition;

use crate::{
    failure::Failure,
    forms::{Forms, Page},
    output,
    target::Target,
};

/// Take cache and bandwidth away from a program and say what it loses, how much of each it uses, and its class
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SqueezeArgs {
    /// A scenario to squeeze instead of a program: a file, or the name of one that comes with memwall
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    /// Measure what each strength of interference takes on this machine, and keep that with its profile
    #[arg(long, conflicts_with_all = ["scenario", "command"])]
    calibrate: bool,
    /// CPUs of the program; interference runs on the other cores around the same cache [default: three cores of eight]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Seconds that all runs together may take
    #[arg(long, value_name = "SECONDS", default_value_t = session::BUDGET_S)]
    budget: f64,
    /// A slowdown beyond this is harm
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    harm: f64,
    /// Measure every strength, not only those around the knee
    #[arg(long)]
    curves: bool,
    /// Put so many processes around the cache, one mapping after the other, such as 1,2,4: which is best, and why
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "calibrate", value_parser = clap::value_parser!(u16).range(1..=1024))]
    map: Vec<u16>,
    /// How processes of --map are started
    #[arg(long, value_enum, default_value_t = series::Launcher::Copies, requires = "map")]
    launcher: series::Launcher,
    /// Squeeze once for each value, such as size=22,26,30, which stands for {size} in the command, or is set in the scenario
    #[arg(long, value_name = "NAME=LIST", conflicts_with_all = ["map", "calibrate"])]
    vary: Option<String>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    timing: session::Timing,
    #[command(flatten)]
    strengths: calibrating::Strengths,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
}

const EXAMPLES: &str = "\
Examples:
  memwall squeeze --calibrate              what each strength takes here; once per machine, a few minutes
  memwall squeeze -- ./app --size 1000     slowdown with less cache and bandwidth, bounds on use, class
  memwall squeeze --cpus 0-3 --budget 600 --html app.html -- ./app
  memwall squeeze --metric-regex 'rate: ([0-9.]+)' -- ./app
                                           by the rate the program prints instead of its wall time
  memwall squeeze --map 1,2,4 --launcher mpirun -- ./solver
                                           so many ranks around the cache: use of each, best mapping and why
  memwall squeeze --vary size=22,26,30 -- ./app -s {size}
                                           curves for each input size
  memwall squeeze --calibrate --on sim:sandy-bridge-ep-e5-2670/16
  memwall squeeze --on sim:sandy-bridge-ep-e5-2670/16 working-set --set w=512K --set rounds=1
                                           the whole method on a simulated machine, the same every time

The program is run again and again, alone and beside interference threads on cores that it does not use; its own
output passes through once, its exit code is that of the first run (128 and the signal's number if it was killed). Ctrl-C prints what was measured until then.
docs/squeeze.md says what is measured and how far to trust it.

Schema of --json: memwall.squeeze/1; with --map or --vary memwall.squeeze-series/1; with --calibrate memwall.profile/1, field squeeze.";

/// Measures and prints; gives the program's exit code.
pub fn run(args: &SqueezeArgs, machine: &Target) -> Result<ExitCode, Failure> {
    args.forms.check(&[args.page.file()])?;
    if matches!(machine, Target::Native) {
        // Whoever has its CPUs now is squeezed by what a killed memwall left.
        partition::undo_leftovers(Path::new("/")).iter().for_each(|sentence| output::say(sentence));
    }
    if args.calibrate {
        return calibrating::run(args, machine).map(|()| ExitCode::SUCCESS);
    }
    if !(args.harm > 0.0 && args.harm < 100.0) {
        return Err(Failure::Usage(format!("--harm {}: write per cent, such as 5", args.harm)));
    }
    if !(args.budget > 0.0 && args.budget.is_finite()) {
        return Err(Failure::Usage(format!("--budget {}: write seconds, such as 300", args.budget)));
    }
    let wrong = match (&args.scenario, args.command.is_empty(), machine) {
        (None, true, _) => {
            Some("squeeze what? write -- PROGRAM, a scenario, or --calibrate to measure the machine")
        }
        (Some(_), false, _) => Some("a scenario or a program, not both"),
        (None, false, Target::Simulated(_)) => Some(
            "a simulated machine runs scenarios: write the name of one instead of a program ('memwall scenario --list')",
        ),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(Failure::Usage(wrong.to_owned()));
    }
    match args.map.is_empty() && args.vary.is_none() {
        true => session::run(args, machine),
        false => series::run(args, machine),
    }
}

/// Where profiles are, and the one of this machine.
pub(super) struct KeptProfile {
    store: Store,
    fingerprint: Fingerprint,
    profile: Option<Profile>,
}

impl KeptProfile {
    pub(super) fn of(machine: &Target) -> Result<Self, Failure> {
        let store = Store::of_user().map_err(Failure::measurement)?;
        let fingerprint = match machine {
            Target::Native => Fingerprint::read(&Source::live()),
            Target::Simulated(model) => Fingerprint::of_model(model),
        };
        let profile = store.load(&fingerprint.id).map_err(Failure::measurement)?;
        Ok(Self { store, fingerprint, profile })
    }

    /// What one core can really use of the cache of a level, if that was measured.
    fn usable(&self, level: u32) -> Option<machine::Bytes> {
        let levels = self.profile.as_ref()?.levels.iter();
        let found =
            levels.filter(|known| known.name == LevelName::Cache(level)).find_map(|known| known.usable)?;
        Some(machine::Bytes(found.value as u64))
    }

    pub(super) fn squeeze(&self) -> Option<&SqueezeProfile> {
        self.profile.as_ref()?.squeeze.as_deref()
    }
}

/// How interference is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FormChoice {
    /// Whatever takes the most.
    Strongest,
    /// Threads, even where the kernel offers partitions of the hardware.
    Threads,
    /// As casas2017 does it.
    Paper,
}

impl FormChoice {
    /// The form, if one is named; of threads, whichever takes the most.
    fn named(self) -> Option<SqueezeForm> {
        match self {
            Self::Strongest => None,
            Self::Threads => Some(SqueezeForm::Shared),
            Self::Paper => Some(SqueezeForm::Paper),
        }
    }
}
