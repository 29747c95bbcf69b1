//! `memwall validate`: which indicators can be believed.

mod developing;
mod relieved;

use std::{collections::HashMap, path::PathBuf};

use ::trust::{KernelPlace, UnseenCase, Validation};
use analysis::{
    findings::{Confidence, HeldBack, LevelFindings, Split, WaitLevel},
    reading::Reading,
    timer::TimerOptions,
};
use indicatif::ProgressBar;
use kernels::KernelCatalogue;
use machine::{
    model::Model,
    profile::{Fingerprint, Profile},
    store::Store,
};
use record::{run::Run, validate::Observation};
use validate::{
    Observer, Request,
    keep::Files,
    native::{self, Analysed, NativeBasis, Waiting},
    roles::JudgingKernels,
    simulated::SimulatedBench,
    unseen::Answer,
};

use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    interrupt, output, progress,
    target::Target,
    trust,
};

/// Find out which indicators can be believed on this machine
///
/// Runs known work under every candidate event and tells which count what they claim: trusted, qualitative, broken or
/// untested, each with its evidence. Later commands consult the result.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
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
    /// Also judge with the kernels of a file of your own
    #[arg(long, value_name = "FILE")]
    kernel_file: Option<PathBuf>,
    /// Random kernels to sample: 24 with --quick, else 160
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    random_kernels: Option<u64>,
    /// Random kernels to sample and relieve, some seven seconds each: 36, or none with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    relieved_kernels: Option<u64>,
    /// Be the random kernel of this seed, for another memwall to record
    #[arg(long, value_name = "SEED", hide = true, requires = "on_cpu")]
    be_kernel: Option<u64>,
    /// On this CPU
    #[arg(long, value_name = "CPU", hide = true)]
    on_cpu: Option<u32>,
    /// Sample so many of the random kernels that rules may be made on, print each, and keep nothing
    #[arg(long, value_name = "N", hide = true)]
    develop: Option<u64>,
    /// The first of them
    #[arg(long, value_name = "SEED", hide = true, default_value_t = 0)]
    develop_from: u64,
    /// Relieve them as well
    #[arg(long, hide = true)]
    develop_relief: bool,
    /// A folder for their recordings
    #[arg(long, value_name = "FOLDER", hide = true)]
    develop_keep: Option<PathBuf>,
    /// Judge the recordings of such a folder again
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "develop")]
    develop_again: Option<PathBuf>,
    /// Keep this validation even if the one that is kept tried more
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall validate                                      all steps on this machine
  memwall validate --quick --on sim:tiny                on a simulated machine
  memwall validate --on sim:haswell-ep-e5-2680v3        the machine of molka2017
  memwall validate --explain L1D.REPLACEMENT            why an indicator is trusted or not

  memwall validate --kernel-file mine.toml              with kernels of your own beside those shipped
  memwall validate --html trust.html                    a page with curves over data set sizes
  memwall validate --json | jq '.indicators[] | select(.trust.trust == \"broken\") | .name'

The result is kept beside the profile, under $XDG_DATA_HOME/memwall/trust; count, events, run, report, doctor and profile
use it. A validation is not given up for one that tried less, unless --replace says so. Ctrl-C keeps the experiments that were made, and what can be said so far; the next call goes on from there.
Each call draws new random kernels; what clock samples are worth comes from all that were drawn on this machine. Some are
relieved as well ('memwall run --relief' measures so), which takes rights to trace a process of one's own.
Exit code: 0 also if indicators are broken or untested, 1 if the result could not be kept, 2 if the question was wrong.

Schema of --json: memwall.validate/1.";

/// Random kernels of a quick validation: a few dozen.
const FEW: u64 = 24;
/// And of a whole one, in some minutes.
const MANY: u64 = 160;
/// Those that are relieved as well: enough for three answers of every class and level.
const RELIEVED: u64 = 36;

/// Validates, keeps and prints; or explains what was kept.
pub fn run(args: &ValidateArgs, machine: &Target) -> Result<(), Failure> {
    let store = Store::of_user().map_err(Failure::measurement)?;
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&machine::Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let files = Files::beside(&store, &fingerprint.id);
    if let Some(name) = &args.explain {
        return explain(&files, name, &args.forms);
    }
    if let Some((seed, cpu)) = args.be_kernel.zip(args.on_cpu) {
        return relieved::be_kernel(seed, cpu);
    }
    if args.develop.is_some() || args.develop_again.is_some() {
        return developing::develop(&store, &fingerprint, args);
    }
    store.check_writable().map_err(Failure::measurement)?;
    args.forms.check(&[args.page.file()])?;
    // One that cannot be read is not overwritten either.
    files.load().map_err(Failure::measurement)?;
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
        random_kernels: args.random_kernels.unwrap_or(if args.quick { FEW } else { MANY }),
        relieved_kernels: args.relieved_kernels.unwrap_or(if args.quick { 0 } else { RELIEVED }),
        now: if simulated.is_some() { 0 } else { trust::now() },
        simulated,
        fingerprint,
    };
    let kernels = super::catalogue(args.kernel_file.as_deref())?;
    let known = JudgingKernels::of(&kernels).map_err(Failure::measurement)?;
    for kernel in known.unfit() {
        output::note(&format!(
            "{kernel} judges nothing: it neither streams, chases, waits nor divides work in a way whose truth is known\n"
        ));
    }
    let mut watcher = ValidateWatcher::new(&files);
    let validation = match machine {
        Target::Simulated(model) => on_model(model, &request, kernels, &known, &mut watcher)?,
        Target::Native => natively(&request, &store, kernels, &known, &mut watcher)?,
    };
    watcher.bar.finish_and_clear();
    if let Some(error) = watcher.failed {
        return Err(Failure::Measurement(error));
    }
    let stays = match args.replace {
        true => files.save(&validation).map(|_| None),
        false => files.save_unless_better(&validation),
    };
    let stays = stays.map_err(Failure::measurement)?;
    if validation.complete {
        files.forget().map_err(Failure::measurement)?;
    }
    args.page.give(|| report::html::validate(&validation))?;
    args.forms
        .give(Screen::Out, &validation, |columns| report::terminal::validate::text(&validation, columns))?;
    if let Some(kept) = stays {
        output::say(&format!(
            "this validation was not kept: it tried {} indicators, and the one made {}, which tried {}, stays, with what \
             random kernels showed now; --replace keeps the new one",
            validation.tried(),
            report::layout::age::ago(kept.measured_at, validation.measured_at),
            kept.tried()
        ));
    }
    Ok(())
}

fn on_model(
    model: &Model,
    request: &Request,
    kernels: KernelCatalogue,
    known: &JudgingKernels,
    watcher: &mut ValidateWatcher<'_>,
) -> Result<Validation, Failure> {
    let pmu = super::count_simulated::instrument(model)?;
    let catalogue = pmu.catalogue();
    let interrupt = interrupt::flag()?;
    let mut bench = SimulatedBench::new(model, pmu, kernels, 1, host::simulated::Conditions::default());
    Ok(validate::validate(&mut bench, catalogue, known, request, watcher, &interrupt))
}

fn natively(
    request: &Request,
    store: &Store,
    kernels: KernelCatalogue,
    known: &JudgingKernels,
    watcher: &mut ValidateWatcher<'_>,
) -> Result<Validation, Failure> {
    let interrupt = interrupt::flag()?;
    let profile = store.load(&request.fingerprint.id).ok().flatten();
    let profile = profile.as_ref();
    let basis = NativeBasis {
        profile,
        analyse: &|run| analysed(run, profile),
        rules: analysis::RULES,
        relieve: &|kernel, cpu| {
            relieved::relieve(kernel, cpu, None, &|run| analysed(run, profile), &interrupt)
        },
    };
    native::validate(request, kernels, known, &basis, watcher, &interrupt).map_err(Failure::measurement)
}

/// What `run` would say of a recording, if everything were trusted.
fn analysed(run: &Run, profile: Option<&Profile>) -> Option<Analysed> {
    let findings = Reading::of(run, profile, &TimerOptions::unlimited()).findings;
    let Split { loads, stores, atomics, divides, chains, first_cache, branches, undecided, .. } =
        findings.overall?;
    let chains = chains + first_cache;
    let verdict = &findings.verdict;
    let answer = Answer {
        memory: verdict.memory.map(|share| [share.value, share.low, share.high]),
        decided: verdict.held_back != HeldBack::Unknown,
        sure: verdict.confidence == Confidence::High,
        level: findings.levels.value().and_then(named_level),
    };
    let waiting = Waiting { loads, stores, atomics, divides, chains, branches, undecided };
    Some(Analysed { waiting, answer })
}

/// The cache, or memory, that most of the waiting is for; where none was found, but may be, that which it would be for. Finding
/// pages comes on top of a level, and is none.
fn named_level(levels: &LevelFindings) -> Option<KernelPlace> {
    let place = |level: WaitLevel| match level {
        WaitLevel::Cache(2) => Some(KernelPlace::L2),
        WaitLevel::Cache(3) => Some(KernelPlace::L3),
        WaitLevel::Memory => Some(KernelPlace::Memory),
        WaitLevel::Cache(_) | WaitLevel::OtherCore | WaitLevel::Translation => None,
    };
    match levels.most() {
        Some(_) => levels.parts.iter().find_map(|part| place(part.level)),
        None => levels.perhaps.and_then(place),
    }
}

fn explain(files: &Files, name: &str, forms: &Forms) -> Result<(), Failure> {
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
    forms.give(Screen::Out, &verdicts, |columns| report::terminal::validate::explain(&verdicts, columns))
}

/// Shows progress and keeps every observation.
struct ValidateWatcher<'a> {
    bar: ProgressBar,
    files: &'a Files,
    known: HashMap<String, Observation>,
    failed: Option<String>,
}

impl<'a> ValidateWatcher<'a> {
    fn new(files: &'a Files) -> Self {
        let known = files.observations().into_iter().map(|one| (one.experiment.key(), one)).collect();
        Self { bar: progress::filling(), files, known, failed: None }
    }
}

impl Observer for ValidateWatcher<'_> {
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

    fn keep_case(&mut self, case: &UnseenCase) {
        if let Err(error) = self.files.append_case(case) {
            self.failed.get_or_insert(error.to_string());
        }
    }

    fn kept_cases(&mut self) -> Vec<UnseenCase> {
        self.files.cases()
    }
}
