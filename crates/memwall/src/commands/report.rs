//! `memwall report`: what a recording says.

use std::path::PathBuf;

use report::terminal::run::Detail;

use super::recording::{self, DEFAULT};
use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    output,
    source_files::SourceFolders,
};

/// Show what a recording says
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = DEFAULT)]
    recording: PathBuf,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    sources: SourceFolders,
    /// Write folded stacks, for flame graphs; - for stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "html", "firefox"])]
    folded: Option<PathBuf>,
    /// Write a profile for profiler.firefox.com; - for stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "html"])]
    firefox: Option<PathBuf>,
    /// Functions and objects to list, instead of as many as fit a screen
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show everything: each class of waiting, instructions, threads, intervals
    #[arg(long, short)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall report                             memwall.sqlite, as 'memwall record' wrote it
  memwall report before.sqlite --verbose
  memwall report before.sqlite --html before.html --sources ~/app/src
  memwall report before.sqlite --json | jq .verdict
  memwall report before.sqlite --folded - | flamegraph.pl > before.svg
  memwall report before.sqlite --firefox before.json

A recording is data: no file that it names is read, but source below the folders given with --sources, and programs
whose functions a recording that was cut off lacks.

Schema of --json: memwall.run/1.";

/// Reads, analyses and prints.
pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let sources = args.sources.of_recording()?;
    let read = recording::read(&args.recording)?;
    if let Some(file) = &args.page.html {
        output::data_file(file, &read.page(&sources))?;
    }
    if let Some(file) = &args.folded {
        return output::export(file, |out| out.write_all(report::export::folded(&read.run).as_bytes()));
    }
    if let Some(file) = &args.firefox {
        let profile = report::export::firefox(&read.run, &read.reading.findings);
        return output::export(file, |out| Ok(serde_json::to_writer(out, &profile)?));
    }
    let detail = Detail { top: args.top, verbose: args.verbose };
    // A page is asked for instead of a text.
    let screen = if args.page.html.is_some() { Screen::None } else { Screen::Out };
    args.forms.give(screen, &read.document(), |columns| read.text(detail, columns))
}
