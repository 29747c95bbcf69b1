//! `memwall report`: what a recording says.

use std::path::PathBuf;

use analysis::{
    ranks::{RankFinding, RankFindings},
    views::MOST_SYMBOLS,
};
use report::terminal::{
    run::Detail,
    views::{ViewChoice, ViewDetail},
};

use super::recording::{self, DEFAULT, ReadRecording};
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
    /// The recording; several are ranks of one program, put beside each other
    #[arg(value_name = "FILE", default_value = DEFAULT)]
    recordings: Vec<PathBuf>,
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
    /// Show what was sampled by symbol, by region, or by symbol within each region, or over time; cycles beside stalled cycles
    #[arg(long, value_enum, value_name = "VIEW", conflicts_with_all = ["html", "folded", "firefox"])]
    by: Option<ViewBy>,
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
  memwall report app.sqlite --by symbol      each sampled event by function: period, library, signature
  memwall report app.sqlite --by region      regions that the program marked; --by symbol-in-region looks inside
  memwall report before.sqlite --html before.html --sources ~/app/src
  memwall report before.sqlite --json | jq .verdict
  memwall report before.sqlite --folded - | flamegraph.pl > before.svg
  memwall report before.sqlite --firefox before.json
  memwall report run.*.sqlite                ranks of one program: who works, who waits, how even it is

A recording is data: no file that it names is read, but source below the folders given with --sources, and programs
whose functions a recording that was cut off lacks.

Schema of --json: memwall.run/1; of several recordings memwall.ranks/1.";

/// Which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ViewBy {
    /// Functions of the whole program
    Symbol,
    /// Regions that the program marked
    Region,
    /// Functions of each region
    SymbolInRegion,
    /// Each event over time
    Time,
}

/// Ranks that are listed if nobody says how many.
const RANKS: usize = 16;

/// Reads, analyses and prints.
pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let [recording] = &args.recordings[..] else { return ranks(args) };
    let sources = args.sources.of_recording()?;
    let read = recording::read(recording)?;
    let has_page = args.page.give(|| read.page(&sources))?;
    if let Some(file) = &args.folded {
        return output::export(file, |out| out.write_all(report::export::folded(&read.run).as_bytes()));
    }
    if let Some(file) = &args.firefox {
        let profile = report::export::firefox(&read.run, &read.reading.findings);
        return output::export(file, |out| Ok(serde_json::to_writer(out, &profile)?));
    }
    if let Some(by) = args.by {
        return view(args, &read, by);
    }
    let detail = Detail { top: args.top, verbose: args.verbose };
    // A page is asked for instead of a text.
    let screen = if has_page { Screen::None } else { Screen::Out };
    args.forms.give(screen, &read.document(), |columns| read.text(detail, columns))
}

/// Regions of a view unless everything is asked for.
const REGIONS: usize = 12;

/// One of the views of kruse2011 chapter 5.
fn view(args: &ReportArgs, read: &ReadRecording, by: ViewBy) -> Result<(), Failure> {
    let choice = match by {
        ViewBy::Symbol => ViewChoice::Symbol,
        ViewBy::Region => ViewChoice::Region,
        ViewBy::SymbolInRegion => ViewChoice::SymbolInRegion,
        ViewBy::Time => ViewChoice::Time,
    };
    let detail = ViewDetail {
        symbols: args.top.unwrap_or(MOST_SYMBOLS),
        regions: if args.verbose { usize::MAX } else { REGIONS },
        verbose: args.verbose,
    };
    let views = &read.reading.views;
    args.forms.give(Screen::Out, &read.document(), |columns| {
        report::terminal::views::text(views, choice, detail, columns)
    })
}

/// Several recordings: ranks of one program.
fn ranks(args: &ReportArgs) -> Result<(), Failure> {
    if args.page.file().is_some() || args.folded.is_some() || args.firefox.is_some() {
        return Err(Failure::Usage(
            "several recordings are ranks of one program, shown as text or JSON; name one of them for a page or an export"
                .to_owned(),
        ));
    }
    let mut found = Vec::new();
    for (order, path) in args.recordings.iter().enumerate() {
        let read = recording::read(path)?;
        let about = record::file::rank_of(path);
        let (name, order) = (path.display().to_string(), u32::try_from(order).unwrap_or(u32::MAX));
        found.push(RankFinding::of(&name, order, about.as_ref(), &read.reading));
    }
    let found = RankFindings::of(found);
    args.forms.give(Screen::Out, &found, |columns| {
        report::terminal::ranks::text(&found, args.top.unwrap_or(RANKS), columns)
    })
}
