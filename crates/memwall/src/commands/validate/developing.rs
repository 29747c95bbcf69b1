//! For whoever makes rules: random kernels that may be looked at, printed one by one, their recordings kept and judged again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ::trust::{OutOfSample, UnseenCase, WaitedLevel};
use machine::{
    Topology,
    profile::{Fingerprint, Profile},
    store::Store,
    value_lines,
};
use record::{run::Run, validate::Observation};
use serde::Serialize;
use validate::{
    Observer,
    native::{LiveTrial, RelievedTrial},
    unseen::{self, CacheSizes, KernelTrial, UnseenRequest},
};

use super::{ValidateArgs, analysed, relieved};
use crate::{commands::recording::profile_of, failure::Failure, interrupt, output};

/// The kernels of a folder, one to a line, beside their recordings.
const CASES: &str = "cases.jsonl";

/// All that is found of kernels that rules may be made on.
#[derive(Serialize)]
struct Developed {
    /// With samples alone and with relief, as far as there are such kernels.
    ways: Vec<OutOfSample>,
    cases: Vec<UnseenCase>,
}

/// Prints what is found of kernels that rules may be made on.
pub fn develop(store: &Store, fingerprint: &Fingerprint, args: &ValidateArgs) -> Result<(), Failure> {
    let cases = match &args.develop_again {
        Some(folder) => again(folder)?,
        None => tried(args, store.load(&fingerprint.id).ok().flatten().as_ref())?,
    };
    let ways = [OutOfSample::of(&cases, analysis::RULES), OutOfSample::with_relief(&cases, analysis::RULES)];
    if !args.forms.is_text() {
        return output::json(&Developed { ways: ways.into_iter().flatten().collect(), cases });
    }
    let mut text = report::terminal::validate::cases(&cases);
    for found in ways {
        text += &report::terminal::validate::unseen_text(found.as_ref(), 120);
    }
    output::text(&text)
}

fn tried(args: &ValidateArgs, profile: Option<&Profile>) -> Result<Vec<UnseenCase>, Failure> {
    let (first_seed, number) = (args.develop_from, args.develop.unwrap_or(0));
    if first_seed.saturating_add(number) > unseen::DEVELOPED.end {
        let (least, most) = (unseen::DEVELOPED.start, unseen::DEVELOPED.end - 1);
        return Err(Failure::Usage(format!("kernels that rules are made on have seeds {least} to {most}")));
    }
    let interrupt = interrupt::flag()?;
    let topology = Topology::read(&machine::Source::live());
    let cpu = topology.usable_cpus().iter().last().unwrap_or(0);
    let caches = CacheSizes::of(profile, &topology, cpu)
        .ok_or_else(|| Failure::Measurement("the sizes of the caches are not known here".to_owned()))?;
    let (rules, with_relief) = (analysis::RULES.to_owned(), args.develop_relief);
    let request = UnseenRequest { number, first_seed, before: None, run: 0, rules, caches, with_relief };
    let (keep, analyse) = (args.develop_keep.as_deref(), |run: &Run| analysed(run, profile));
    let mut sampled = LiveTrial { cpu, caches, analyse: &analyse, keep };
    let mut relieved = RelievedTrial {
        cpu,
        relieve: &|kernel, cpu| relieved::relieve(kernel, cpu, keep, &analyse, &interrupt),
    };
    let trial: &mut dyn KernelTrial = if with_relief { &mut relieved } else { &mut sampled };
    let mut keeper = CaseKeeper { cases: keep.map(|folder| folder.join(CASES)), failed: None };
    let tried = unseen::try_kernels(trial, &request, &mut keeper, &interrupt);
    if let Some(missing) = tried.missing.iter().chain(&keeper.failed).next() {
        output::note(&format!("{missing}\n"));
    }
    Ok(tried.cases)
}

/// What is made today of recordings that were kept, on whichever machine; truths are those of then.
fn again(folder: &Path) -> Result<Vec<UnseenCase>, Failure> {
    let cases = folder.join(CASES);
    let kept = fs::read_to_string(&cases)
        .map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", cases.display())))?;
    let judged = |line: &str| {
        let case: UnseenCase = serde_json::from_str(line).map_err(Failure::measurement)?;
        let mut run = record::file::read(&folder.join(format!("{}.sqlite", case.seed)))
            .map_err(Failure::measurement)?;
        recorder::complete(&mut run);
        let profile = profile_of(&run.about.fingerprint);
        let found = analysed(&run, profile.as_ref());
        let found =
            found.ok_or_else(|| Failure::Measurement(format!("{} holds no sample", case.seed)))?.answer;
        let (rules, decided, sure) = (analysis::RULES.to_owned(), found.decided, found.sure);
        let waits_at = case.waits_at.map(|waits| WaitedLevel { named: found.level, ..waits });
        Ok(UnseenCase { rules, found: found.memory, decided, sure, waits_at, ..case })
    };
    kept.lines().filter(|line| !line.is_empty()).map(judged).collect()
}

/// Whoever looks at kernels one by one needs no progress.
struct CaseKeeper {
    cases: Option<PathBuf>,
    failed: Option<String>,
}

impl Observer for CaseKeeper {
    fn progress(&mut self, _: &str, _: f64) {}
    fn keep(&mut self, _: &Observation) {}
    fn kept(&mut self, _: &str) -> Option<Observation> {
        None
    }

    fn keep_case(&mut self, case: &UnseenCase) {
        let Some(path) = &self.cases else { return };
        if let Err(error) = value_lines::append(path, case) {
            self.failed.get_or_insert(format!("{} cannot be written: {error}", path.display()));
        }
    }
}
