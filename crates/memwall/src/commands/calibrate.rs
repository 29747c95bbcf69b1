//! `memwall calibrate`: measure this machine.

use std::{
    error::Error,
    time::{SystemTime, UNIX_EPOCH},
};

use calibrate::{CalibrateError, CalibrateRequest, Observer};
use host::{Host, native::Native, simulated::Simulated};
use indicatif::ProgressBar;
use machine::{
    CpuSet, Profile, Source, Topology,
    profile::Fingerprint,
    squeezing::SqueezeProfile,
    store::{Keeping, Store},
};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    interrupt, output, progress,
    target::Target,
};

/// Measure this machine's caches and memory, and keep the profile
///
/// For each level: latency, load, store and copy bandwidth of one core and of all, and how much of it one core
/// can really use, beside what the machine claims.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// About ten seconds instead of a minute: fewer points, wider intervals
    #[arg(long)]
    quick: bool,
    /// Measure on these CPUs [default: one of each core we may use]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep this profile even if the one that is kept has more in it
    #[arg(long, conflicts_with = "dry_run")]
    replace: bool,
    /// Measure and print, keep nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall calibrate            the whole profile, about a minute on two cores
  memwall calibrate --quick    in about ten seconds
  memwall profile              show it again later
  memwall calibrate --on sim:haswell-ep-e5-2680v3
                               of a simulated machine: one or two minutes of a core, the same every time

The profile is kept under $XDG_DATA_HOME/memwall/profiles (default ~/.local/share), one file per machine.
Ctrl-C keeps the steps that were finished. A whole profile is not given up for an interrupted one, nor a thorough one
for a quick one, unless --replace says so.

Schema of --json: memwall.profile/1.";

/// Measures, keeps and prints.
pub fn run(args: &CalibrateArgs, machine: &Target) -> Result<(), Failure> {
    args.forms.check(&[])?;
    let store = if args.dry_run { None } else { Some(Store::of_user().map_err(Failure::measurement)?) };
    if let Some(store) = &store {
        // Said now, not after a minute of measuring.
        store.check_writable().map_err(Failure::measurement)?;
    }
    let subject = CalibrateSubject::of(machine, args.seed)?;
    let before = match &store {
        // One that cannot be read is not overwritten either.
        Some(store) => store.load(&subject.fingerprint.id).map_err(Failure::measurement)?,
        None => None,
    };
    let CalibrateSubject { mut host, topology, fingerprint, simulated, now } = subject;
    let request =
        CalibrateRequest { quick: args.quick, cpus: args.cpus.clone(), seed: args.seed, now, simulated };
    let interrupt = interrupt::flag()?;
    let mut watcher = CalibrateWatcher {
        bar: progress::filling(),
        store: store.as_ref(),
        replace: args.replace,
        stays: None,
        squeeze: before.and_then(|profile| profile.squeeze),
    };
    let profile =
        calibrate::calibrate(&mut *host, &topology, &fingerprint, &request, &mut watcher, &interrupt);
    watcher.bar.finish_and_clear();
    let profile = profile.map_err(failure)?;
    args.forms
        .give(Screen::Out, &profile, |columns| report::terminal::profile::text(&profile, now, columns))?;
    if let Some(kept) = watcher.stays {
        let (why, better) = match (profile.extent.complete, kept.extent.complete) {
            (true, _) => ("quick", "thorough"),
            (false, true) => ("interrupted", "whole"),
            (false, false) => ("interrupted earlier", "longer"),
        };
        output::say(&format!(
            "this profile was not kept: it is {why}, and the {better} one measured {} stays; --replace keeps the new one",
            report::layout::age::ago(kept.measured_at, now)
        ));
    }
    Ok(())
}

/// What is calibrated.
struct CalibrateSubject {
    host: Box<dyn Host>,
    topology: Topology,
    fingerprint: Fingerprint,
    simulated: Option<String>,
    /// Seconds since 1970; what is simulated has no date.
    now: u64,
}

impl CalibrateSubject {
    fn of(machine: &Target, seed: u64) -> Result<Self, Failure> {
        match machine {
            Target::Native => {
                let source = Source::live();
                Ok(Self {
                    host: Box::new(Native::new(&source, seed).map_err(Failure::measurement)?),
                    topology: Topology::read(&source),
                    fingerprint: Fingerprint::read(&source),
                    simulated: None,
                    now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
                })
            }
            Target::Simulated(model) => Ok(Self {
                host: Box::new(Simulated::new(model, seed).map_err(Failure::measurement)?),
                topology: model.topology(),
                fingerprint: Fingerprint::of_model(model),
                simulated: Some(model.name.clone()),
                now: 0,
            }),
        }
    }
}

/// Shows progress and saves after every step.
struct CalibrateWatcher<'a> {
    bar: ProgressBar,
    store: Option<&'a Store>,
    replace: bool,
    /// The better profile that was there.
    stays: Option<Box<Profile>>,
    /// What 'memwall squeeze --calibrate' measured before, which this does not measure.
    squeeze: Option<Box<SqueezeProfile>>,
}

impl Observer for CalibrateWatcher<'_> {
    fn progress(&mut self, step: &str, fraction: f64) {
        progress::fill(&self.bar, fraction, step);
    }

    fn keep(&mut self, profile: &Profile) -> Result<(), Box<dyn Error + Send + Sync>> {
        let profile = &Profile { squeeze: self.squeeze.clone(), ..profile.clone() };
        self.stays = match self.store {
            None => None,
            Some(store) if self.replace => {
                store.save(profile)?;
                None
            }
            Some(store) => match store.save_unless_better(profile)? {
                Keeping::Saved(_) => None,
                Keeping::BetterStays(kept) => Some(kept),
            },
        };
        Ok(())
    }
}

fn failure(error: CalibrateError) -> Failure {
    match error {
        CalibrateError::Request(_) => Failure::usage(error),
        _ => Failure::measurement(error),
    }
}
