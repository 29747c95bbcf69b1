//! `memwall run`: is a program held back by memory, where, and how sure is that.

mod threads;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use report::terminal::run::Detail;

use self::threads::{DEFAULT_ROUNDS, ThreadNumbers, ThreadSeries};
use super::recording::{self, Recording};
use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    output,
    ranks::{self, LaunchEnvironment},
    source_files::{Readable, SourceFolders},
};

/// Run a program and say whether memory holds it back, where, and how sure that is
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    #[command(flatten)]
    recording: Recording,
    /// Keep the recording in this file, for 'memwall report' and 'memwall compare'
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run it with each of these numbers of threads in turn and say how it scales: OMP_NUM_THREADS and its like are set, and
    /// {threads} in an argument becomes the number; its output is thrown away
    #[arg(long, value_name = "N,N", conflicts_with_all = ["pid", "relief"])]
    threads: Option<ThreadNumbers>,
    /// How often it is run with each number of threads; 2 are needed to tell noise, 3 if nothing is said
    #[arg(long, value_name = "N", requires = "threads", value_parser = clap::value_parser!(u32).range(2..=100))]
    runs: Option<u32>,
    /// Measure in copies of the program what its hot loops would take with their data in the first cache
    #[arg(long)]
    relief: bool,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    sources: SourceFolders,
    /// Functions and objects to list, instead of as many as fit a screen
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show everything: each class of waiting, instructions, threads, intervals
    #[arg(long, short)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall run ./app --size 1000               is it held back by memory, where, how sure
  memwall run -o before.sqlite ./app          keep the recording, for report and compare
  memwall run --pid 4242 --seconds 10         a running process, for ten seconds
  memwall run --threads 1,2,4 ./app           how it scales, and what its patterns are by that
  memwall run --threads 1,2 ./app -t {threads}   the same for a program that takes the number as an argument
  memwall run --relief ./app                  a second way to the share of waiting; stops the program up to 1 % of its run
  memwall run --json ./app | jq .verdict      for scripts; the program's own stdout goes to stderr then
  memwall run --json=app.json ./app           the same into a file

Options stand before the program: what follows it is the program's own. Works without a PMU. The program's output, exit
code and signals pass through; the report goes to stderr.
Exit code: the program's own; 128 and the signal's number if it was killed; 1 or 2 if memwall failed.

Schema of --json: memwall.run/1.";

/// Records, analyses and prints; gives the program's exit code.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    args.forms.check(&[args.page.file()])?;
    let sources = args.sources.of_program(args.recording.is_own())?;
    let (passing, path) = match &args.output {
        Some(path) => (None, LaunchEnvironment::here().resolve(path)?),
        None => {
            let (folder, path) = recording::passing()?;
            (Some(folder), path)
        }
    };
    if let Some(numbers) = &args.threads {
        ThreadSeries::of(&args.recording, numbers, args.runs.unwrap_or(DEFAULT_ROUNDS))?.record(&path)?;
        if passing.is_none() {
            ranks::note(&path);
        }
        report(args, &path, &sources)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = args.recording.program();
    let printing = args.forms.program_output(program, None);
    let outcome = args.recording.record(&path, args.relief, printing);
    let outcome = outcome.map_err(|failure| args.forms.explained(failure, program))?;
    recording::warn(&outcome);
    recording::kept(&outcome, &path)?;
    if passing.is_none() {
        ranks::note(&path);
    }
    if let Err(failure) = report(args, &path, &sources) {
        // What was measured is not lost with its report.
        let path = passing.map_or(path, |folder| folder.keep().join(recording::DEFAULT));
        output::say(&format!("the recording is kept: 'memwall report {}' shows it", path.display()));
        return Err(failure);
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

fn report(args: &RunArgs, path: &Path, sources: &Readable) -> Result<(), Failure> {
    let read = recording::read(path)?;
    args.page.give(|| read.page(sources))?;
    let detail = Detail { top: args.top, verbose: args.verbose };
    args.forms.give(Screen::BesideProgram, &read.document(), |columns| read.text(detail, columns))
}
