//! `memwall record`: measure now, look later.

use std::{path::PathBuf, process::ExitCode};

use recorder::ProgramOutput;

use super::recording::{self, DEFAULT, Recording};
use crate::{
    failure::Failure,
    output,
    ranks::{self, LaunchEnvironment},
};

/// Record a program for 'memwall report'
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    #[command(flatten)]
    recording: Recording,
    /// Measure in copies of the program what its hot loops would take with their data in the first cache
    #[arg(long)]
    relief: bool,
    /// Where to
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT)]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  memwall record ./app --size 1000           into memwall.sqlite
  memwall record -o after.sqlite ./app
  memwall record --pid 4242 --seconds 10
  memwall report

  mpirun -n 4 memwall record -o run.%r.sqlite ./app      one recording per rank; 'memwall report run.*.sqlite' merges

In FILE, %q{VARIABLE} is a variable, %r the rank that mpirun or srun gave, %p memwall's process, %h the machine. Ranks that
share a name without marks get their rank before its ending. The recording is one SQLite file, readable by any client (docs/recording.md), also after a crash. An older one of that
name becomes FILE.old when the program has started; if it cannot be started, nothing changes.
Exit code: the program's own; 128 and the signal's number if it was killed; 1 or 2 if memwall failed.";

/// Records; gives the program's exit code.
pub fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let path = LaunchEnvironment::here().resolve(&args.output)?;
    let outcome = args.recording.record(&path, args.relief, ProgramOutput::Stdout)?;
    recording::warn(&outcome);
    let samples = recording::kept(&outcome, &path)?;
    ranks::note(&path);
    output::say(&format!(
        "{samples} samples in {}; 'memwall report {}' shows them",
        path.display(),
        path.display()
    ));
    Ok(ExitCode::from(outcome.exit_code()))
}
