//! `memwall run`: is a program held back by memory, where, and how sure is that.

use std::{path::PathBuf, process::ExitCode};

use report::terminal::run::Detail;

use super::recording::{self, Recording};
use crate::{failure::Failure, output};

/// Run a program and say whether memory holds it back, where, and how sure that is
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    recording: Recording,
    /// Keep the recording in this file, for 'memwall report' and 'memwall compare'
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the report to this file instead of stderr
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Report as JSON (schema memwall.run/1), on stdout unless --to names a file
    #[arg(long)]
    json: bool,
    /// Also write the report as a page that any browser shows, without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Functions and objects to list, instead of as many as fit a screen
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show everything: each class of waiting, instructions, threads, intervals
    #[arg(long, short)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall run -- ./app --size 1000            is it held back by memory, where, how sure
  memwall run -o before.sqlite -- ./app       keep the recording, for report and compare
  memwall run --pid 4242 --duration 10        a running process, for ten seconds
  memwall run --json --to app.json -- ./app   for scripts

Works without a PMU. The program's own output, exit code and signals pass through; the report goes to stderr.
Exit code: the program's own; 128 and the signal's number if it was killed; 1 or 2 if memwall failed.";

/// Records, analyses and prints; gives the program's exit code.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (passing, path) = match &args.output {
        Some(path) => (None, path.clone()),
        None => {
            let (folder, path) = recording::passing()?;
            (Some(folder), path)
        }
    };
    let outcome = args.recording.record(&path)?;
    recording::warn(&outcome);
    let read = recording::read(&path)?;
    drop(passing);
    if let Some(file) = &args.html {
        output::file(file, &read.page())?;
    }
    if args.json {
        match &args.to {
            Some(file) => output::json_file(file, &read.document())?,
            None => output::json(&read.document())?,
        }
    } else {
        let detail = Detail { top: args.top, verbose: args.verbose };
        match &args.to {
            Some(file) => output::file(file, &read.text(detail, output::FILE_COLUMNS))?,
            None => output::note(&read.text(detail, output::columns())),
        }
    }
    Ok(ExitCode::from(outcome.exit_code()))
}
