//! `memwall reproduce`: the papers' experiments on models of their machines, beside what was published.

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use ::reproduce::{
    keep::ReadingFile,
    measure::SetupReading,
    mutants::{Mutant, matrix},
    paper::PublishedPaper,
    session::{ItemChoice, MachineChange, ReproduceObserver, Session, Unchanged},
};
use indicatif::ProgressBar;
use machine::{profile::Fingerprint, store::Store};
use record::reproduce::Reproduction;

use crate::{
    failure::Failure,
    forms::{Forms, Markdown, Page, Screen},
    interrupt, progress,
};

/// Run the papers' experiments and show their numbers beside ours
///
/// Each row: what was published, what is found on a model of the paper's machine, how far off, and whether the paper's
/// conclusion is ours too. The quick set is the default; --full makes everything and goes on where it was interrupted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// A paper: molka2017, helm2019, roehl2016, casas2017, kruse2011
    #[arg(value_name = "PAPER")]
    paper: Option<String>,
    /// One of its tables, figures or sections; --list names them
    #[arg(value_name = "ITEM", requires = "paper")]
    item: Option<String>,
    /// Only the quick set, a few minutes, unless --full asks for all
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All experiments, up to two hours; goes on where it was interrupted
    #[arg(long)]
    full: bool,
    /// List papers and items
    #[arg(long, conflicts_with_all = ["here", "mutants"])]
    list: bool,
    /// Measure what this machine allows instead; nothing is concluded
    #[arg(long, conflicts_with = "mutants")]
    here: bool,
    /// Try the claims on mutated machines: all, or so many of them
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    mutants: Option<usize>,
    /// Which mutants have their turn, where only some are tried
    #[arg(long, value_name = "NUMBER", requires = "mutants", default_value_t = 0)]
    turn: u64,
    /// Forget what earlier calls measured
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    markdown: Markdown,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall reproduce                              the quick set of all papers
  memwall reproduce molka2017 table2             one table
  memwall reproduce --list                       what there is
  memwall reproduce --full --html papers.html    everything, with the papers' plots drawn from our data
  memwall reproduce --mutants                    which claims fall on mutated machines, against what was said before
  memwall reproduce molka2017 table2 --here      the same bandwidths on this machine
  memwall reproduce --json | jq '.papers[].items[].rows[] | select(.same == false) | .claim'

Readings are kept under $XDG_DATA_HOME/memwall/reproduce until the simulator changes: Ctrl-C loses none, and the next call goes on.
Exit code: 0 also if conclusions differ, 1 with --mutants if a claim does not do as was said before or none of all
fells it, 2 if the question was wrong.

Schema of --json: memwall.reproduce/1; with --mutants memwall.mutants/1.";

/// Runs, keeps and prints.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    args.forms.check(&[args.page.file(), args.markdown.file()])?;
    let choice = choice(args)?;
    if args.list {
        return list(args).map(|()| ExitCode::SUCCESS);
    }
    if args.here {
        return here(args, &choice).map(|()| ExitCode::SUCCESS);
    }
    let store = Store::of_user().map_err(Failure::measurement)?;
    let file = ReadingFile::beside(&store);
    if args.restart {
        file.forget().map_err(Failure::measurement)?;
    }
    let interrupt = interrupt::flag()?;
    let mut watcher =
        ReproduceWatcher { bar: progress::filling(), file, failed: None, before: String::new() };
    if let Some(count) = args.mutants {
        return mutants(args, &choice, count, &mut watcher, &interrupt);
    }
    let reproduction = made(&choice, &Unchanged, &mut watcher, &interrupt)?;
    let printed = args.markdown.give(|| report::markdown::reproduce(&reproduction))?;
    args.page.give(|| report::html::reproduce(&reproduction))?;
    let screen = if printed { Screen::None } else { Screen::Out };
    args.forms
        .give(screen, &reproduction, |columns| report::terminal::reproduce::text(&reproduction, columns))?;
    Ok(ExitCode::SUCCESS)
}

/// The papers and items that are meant, if they exist.
fn choice(args: &ReproduceArgs) -> Result<ItemChoice, Failure> {
    let choice = ItemChoice {
        paper: args.paper.clone(),
        item: args.item.clone(),
        full: args.full,
        ..ItemChoice::default()
    };
    let Some(paper) = choice.papers().next() else {
        let names: Vec<&str> = PublishedPaper::all().iter().map(|paper| paper.id.as_str()).collect();
        let asked = args.paper.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no paper '{asked}'; there are {}", names.join(", "))));
    };
    if args.item.is_some() && !paper.items.iter().any(|item| choice.shows(item)) {
        let names: Vec<&str> = paper.items.iter().map(|item| item.id.as_str()).collect();
        let asked = args.item.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!(
            "{} has no item '{asked}'; it has {}",
            paper.id,
            names.join(", ")
        )));
    }
    Ok(choice)
}

fn list(args: &ReproduceArgs) -> Result<(), Failure> {
    let all = Session::new(&choice(args)?, &Unchanged, HashMap::new()).reproduction(true);
    args.forms.give(Screen::Out, &all, |columns| report::terminal::reproduce::list(&all, columns))
}

fn made(
    choice: &ItemChoice,
    change: &dyn MachineChange,
    watcher: &mut ReproduceWatcher,
    interrupt: &Arc<AtomicBool>,
) -> Result<Reproduction, Failure> {
    let mut session = Session::new(choice, change, watcher.file.readings());
    let complete = session.run(watcher, interrupt);
    watcher.bar.finish_and_clear();
    match watcher.failed.take() {
        Some(error) => Err(Failure::Measurement(error)),
        None => Ok(session.reproduction(complete)),
    }
}

fn mutants(
    args: &ReproduceArgs,
    choice: &ItemChoice,
    count: usize,
    watcher: &mut ReproduceWatcher,
    interrupt: &Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    let chosen: Vec<&Mutant> = match count {
        0 => Mutant::all().iter().collect(),
        count => Mutant::of_turn(count, args.turn),
    };
    let all = chosen.iter().fold(choice.clone(), |all, mutant| mutant.choice(&all));
    let base = made(&all, &Unchanged, watcher, interrupt)?;
    let (mut outcomes, mut complete) = (Vec::new(), base.complete);
    for mutant in chosen {
        if !complete {
            break;
        }
        watcher.before = format!("{}: ", mutant.id);
        let mutated = made(&mutant.choice(choice), mutant, watcher, interrupt)?;
        complete &= mutated.complete;
        if mutated.complete {
            outcomes.push(mutant.outcome(&base, &mutated));
        }
    }
    let matrix = matrix(outcomes, complete);
    let printed = args.markdown.give(|| report::markdown::matrix(&matrix))?;
    let screen = if printed { Screen::None } else { Screen::Out };
    args.forms.give(screen, &matrix, |columns| report::terminal::reproduce::matrix(&matrix, columns))?;
    let missed = matrix.mutants.iter().any(|mutant| mutant.misses().next().is_some());
    // A claim that no mutant fells is none; of some mutants nothing follows.
    let idle = count == 0 && complete && !matrix.never_fell.is_empty();
    Ok(if missed || idle { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rows that need no event, on this machine.
fn here(args: &ReproduceArgs, choice: &ItemChoice) -> Result<(), Failure> {
    let interrupt = interrupt::flag()?;
    let source = machine::Source::live();
    let mut host = host::native::Native::new(&source, 1).map_err(Failure::measurement)?;
    let profile = super::recording::profile_of(&Fingerprint::read(&source));
    let reproduction = ::reproduce::here::measure(choice, &mut host, profile.as_ref(), &interrupt);
    args.page.give(|| report::html::reproduce(&reproduction))?;
    let printed = args.markdown.give(|| report::markdown::reproduce(&reproduction))?;
    let screen = if printed { Screen::None } else { Screen::Out };
    args.forms
        .give(screen, &reproduction, |columns| report::terminal::reproduce::text(&reproduction, columns))
}

/// Shows progress and keeps every reading.
struct ReproduceWatcher {
    bar: ProgressBar,
    file: ReadingFile,
    failed: Option<String>,
    before: String,
}

impl ReproduceObserver for ReproduceWatcher {
    fn progress(&mut self, done: usize, of: usize, next: &str) {
        let text = format!("{}{done} of {of}: {next}", self.before);
        progress::fill(&self.bar, done as f64 / of.max(1) as f64, &text);
    }

    fn keep(&mut self, key: &str, reading: &SetupReading) {
        if let Err(error) = self.file.append(key, reading) {
            self.failed.get_or_insert(error.to_string());
        }
    }
}
