//! `memwall validate`: which indicators can be believed.

use std::{collections::HashMap, path::PathBuf};

use analysis::{
    findings::Split,
    timer::{Options, analyse},
};
use indicatif::ProgressBar;
use lab::validate::{
    Observer, Request,
    keep::Files,
    native::{self, Waiting},
    simulated::SimulatedBench,
};
use machine::{
    model::Model,
    profile::{Clock, Fingerprint},
    store::Store,
};
use record::validate::{Observation, Validation};

use crate::{failure::Failure, interrupt, output, progress, target::Target, trust};

/// Find out which indicators can be believed on this machine
///
/// Runs known work under every candidate event and tells which count what they claim: trusted, qualitative, broken or
/// untested, each with its evidence. Later commands consult the result.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Fewer experiments, below a minute
    #[arg(long)]
    quick: bool,
    /// Repetitions of the streaming kernels; roehl2016 makes 100
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Also screen events that nothing is claimed of
    #[arg(long)]
    all_events: bool,
    /// Show the evidence of one indicator from the last validation
    #[arg(long, value_name = "NAME")]
    explain: Option<String>,
    /// Forget experiments of an interrupted validation
    #[arg(long)]
    restart: bool,
    /// Also write a page for a browser, with curves of events per access unless --quick
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON (schema memwall.validate/1)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall validate                                      all steps on this machine
  memwall validate --quick --on sim:tiny                on a simulated machine
  memwall validate --on sim:haswell-ep-e5-2680v3        the machine of molka2017
  memwall validate --explain L1D.REPLACEMENT            why an indicator is trusted or not

  memwall validate --html trust.html                    a page with curves over data set sizes
  memwall validate --json | jq '.indicators[] | select(.trust.trust == \"broken\") | .name'

The result is kept beside the profile, under $XDG_DATA_HOME/memwall/trust; count, events, run, report, doctor and profile
use it. Ctrl-C keeps the experiments that were made, and what can be said so far; the next call goes on from there.
Exit code: 0 also if indicators are broken or untested, 1 if the result could not be kept, 2 if the question was wrong.";

/// Validates, keeps and prints; or explains what was kept.
pub fn run(args: &Args, machine: &Target) -> Result<(), Failure> {
    let store = Store::of_user().map_err(Failure::measurement)?;
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&machine::Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let files = Files::beside(&store, &fingerprint.id);
    if let Some(name) = &args.explain {
        return explain(&files, name, args.json);
    }
    store.check_writable().map_err(Failure::measurement)?;
    if args.restart {
        files.forget().map_err(Failure::measurement)?;
    }
    let simulated = match machine {
        Target::Simulated(model) => Some(model.name.clone()),
        Target::Native => None,
    };
    let request = Request {
        quick: args.quick,
        runs: args.runs,
        all_events: args.all_events,
        now: if simulated.is_some() { 0 } else { trust::now() },
        simulated,
        fingerprint,
    };
    let mut watcher = Watcher::new(&files);
    let validation = match machine {
        Target::Simulated(model) => on_model(model, &request, &mut watcher)?,
        Target::Native => natively(&request, &store, &mut watcher)?,
    };
    watcher.bar.finish_and_clear();
    if let Some(error) = watcher.failed {
        return Err(Failure::Measurement(error));
    }
    files.save(&validation).map_err(Failure::measurement)?;
    if validation.complete {
        files.forget().map_err(Failure::measurement)?;
    }
    if let Some(path) = &args.html {
        let page = report::html::validate(&validation);
        output::export(path, |out| out.write_all(page.as_bytes()))?;
    }
    if args.json {
        return output::json(&validation);
    }
    output::text(&report::validate::text(&validation, output::columns()))
}

fn on_model(model: &Model, request: &Request, watcher: &mut Watcher<'_>) -> Result<Validation, Failure> {
    let pmu = super::count_simulated::instrument(model)?;
    let catalogue = pmu.catalogue();
    let kernels = super::catalogue(None)?;
    let interrupt = interrupt::flag()?;
    let mut bench = SimulatedBench::new(model, pmu, kernels, 1, lab::simulated::Conditions::default());
    Ok(lab::validate::validate(&mut bench, catalogue, request, watcher, &interrupt))
}

fn natively(request: &Request, store: &Store, watcher: &mut Watcher<'_>) -> Result<Validation, Failure> {
    let interrupt = interrupt::flag()?;
    let clock_hz = store.load(&request.fingerprint.id).ok().flatten().and_then(|profile| profile.clock);
    let clock_hz = clock_hz.filter(Clock::agrees).map(|clock| clock.add_hz);
    let analyse = |run: &record::run::Run| {
        let split = analyse(run, None, &Options::default()).overall?;
        let Split { loads, stores, atomics, divides, chains, branches, undecided, .. } = split;
        Some(Waiting { loads, stores, atomics, divides, chains, branches, undecided })
    };
    native::validate(request, clock_hz, &analyse, watcher, &interrupt).map_err(Failure::measurement)
}

fn explain(files: &Files, name: &str, json: bool) -> Result<(), Failure> {
    let Some(validation) = files.load().map_err(Failure::measurement)? else {
        return Err(Failure::Usage(
            "this machine was not validated yet; run 'memwall validate' first".to_owned(),
        ));
    };
    let verdicts: Vec<_> = validation.of(name).collect();
    if verdicts.is_empty() {
        let near = events::names::nearest(name, validation.indicators.iter().map(|one| one.name.name()));
        let hint = match near.is_empty() {
            true => "'memwall validate' lists all".to_owned(),
            false => format!("did you mean {}?", near.join(" or ")),
        };
        return Err(Failure::Usage(format!("no indicator '{name}' was judged; {hint}")));
    }
    if json {
        return output::json(&verdicts);
    }
    output::text(&report::validate::explain(&verdicts, output::columns()))
}

/// Shows progress and keeps every observation.
struct Watcher<'a> {
    bar: ProgressBar,
    files: &'a Files,
    known: HashMap<String, Observation>,
    failed: Option<String>,
}

impl<'a> Watcher<'a> {
    fn new(files: &'a Files) -> Self {
        let known = files.observations().into_iter().map(|one| (one.experiment.key(), one)).collect();
        Self { bar: progress::filling(), files, known, failed: None }
    }
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, step: &str, fraction: f64) {
        progress::fill(&self.bar, fraction, step);
    }

    fn keep(&mut self, observation: &Observation) {
        if let Err(error) = self.files.append(observation) {
            self.failed.get_or_insert(error.to_string());
        }
    }

    fn kept(&mut self, key: &str) -> Option<Observation> {
        self.known.remove(key)
    }
}
