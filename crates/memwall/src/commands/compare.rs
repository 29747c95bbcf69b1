//! `memwall compare`: what changed between recordings or programs, beyond the noise, and why.

mod series;
mod sides;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use analysis::compare::{CompareGate, ComparedRun, Comparison};

use self::{series::Series, sides::Sides};
use super::recording;
use crate::{
    failure::Failure,
    forms::{Forms, Markdown, Page, Screen},
    output,
};

/// Show what changed between recordings, or between two programs that are run in turn, beyond the noise
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Recordings: one before and one after; two folders or quoted patterns of them; or each side separated by commas
    #[arg(value_name = "RECORDING", conflicts_with_all = ["runs", "programs"])]
    recordings: Vec<String>,
    /// Recordings before, as many as there are
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "after", conflicts_with_all = ["recordings", "programs"])]
    before: Vec<String>,
    /// Recordings after
    #[arg(long, value_name = "RECORDING", num_args = 1.., requires = "before", conflicts_with_all = ["recordings", "programs"])]
    after: Vec<String>,
    /// Run both programs so many times in turn, after half as many of the first against itself
    #[arg(long, value_name = "N", requires = "programs", value_parser = clap::value_parser!(u32).range(2..=1000))]
    runs: Option<u32>,
    /// Keep the recordings of those runs in this folder
    #[arg(long, value_name = "DIR", requires = "programs")]
    keep: Option<PathBuf>,
    /// Fail if wall or user time grew by more than this and beyond the noise, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    fail_on: Option<f64>,
    /// With --fail-on: exit code 3 where a growth beyond the limit could not be told from chance
    #[arg(long, requires = "fail_on")]
    fail_on_unknown: bool,
    /// Functions to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    markdown: Markdown,
    #[command(flatten)]
    page: Page,
    /// The program before and its arguments, --, the program after and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    programs: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  memwall compare before.sqlite after.sqlite
  memwall compare before/ after/                        all recordings in each folder
  memwall compare --before b1.sqlite b2.sqlite b3.sqlite --after a1.sqlite a2.sqlite a3.sqlite
  memwall compare 'b*.sqlite' 'a*.sqlite' --fail-on 5%  exit code 1 if it became slower: for CI
  memwall compare --runs 10 -- ./old args -- ./new args run both in turn, and say what changed and why
  memwall compare --runs 10 --fail-on 3% --markdown=comment.md -- ./old -- ./new

Several recordings of each side tell how much the program varies by itself; single ones do not, and nothing fails by them.
With --runs the first program is compared with itself first: what it differs from itself, nobody can judge. The programs'
stdin and stdout are /dev/null; runs that others spoilt (time stolen by the hypervisor, throttling) are left out and said.
Exit codes: 0 not slower than allowed, or not to be told, which is said; 1 slower, or a program failed; 2 bad usage;
3 not to be told, with --fail-on-unknown.

Schema of --json: memwall.compare/1.";

/// The exit code of a gate that could not be decided.
const CANNOT_TELL: u8 = 3;

/// `5%` or `5`, as a share.
fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| "write per cent, such as 5% or 2.5".to_owned())?;
    if number.is_finite() && number >= 0.0 {
        Ok(number / 100.0)
    } else {
        Err("write per cent, not negative".to_owned())
    }
}

/// Reads or runs, compares and prints.
pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    args.forms.check(&[args.page.file(), args.markdown.file()])?;
    if args.forms.prints_json() && args.markdown.is_printed() {
        return Err(Failure::Usage(
            "--json and --markdown both go to stdout; name a file for one, as --json=FILE".to_owned(),
        ));
    }
    let comparison = match args.programs.is_empty() {
        true => recorded(&Sides::of(&args.recordings, &args.before, &args.after)?)?,
        false => Series::of(&args.programs, args.runs, args.keep.as_deref())?.comparison()?,
    };
    let has_page = args.page.give(|| report::html::compare(&comparison))?;
    let is_printed = args.markdown.give(|| report::markdown::compare(&comparison, args.top))?;
    let screen = if is_printed || has_page { Screen::None } else { Screen::Out };
    args.forms.give(screen, &comparison, |columns| {
        report::terminal::compare::text(&comparison, args.top, columns)
    })?;
    args.fail_on.map_or(Ok(ExitCode::SUCCESS), |limit| gate(&comparison, limit, args.fail_on_unknown))
}

fn gate(comparison: &Comparison, limit: f64, fails_on_unknown: bool) -> Result<ExitCode, Failure> {
    let percent = limit * 100.0;
    match comparison.gate(limit) {
        CompareGate::Kept => Ok(ExitCode::SUCCESS),
        CompareGate::CannotTell(reason) => {
            output::say(&format!(
                "whether anything grew by more than {percent:.1} % cannot be told: {reason}"
            ));
            Ok(if fails_on_unknown { ExitCode::from(CANNOT_TELL) } else { ExitCode::SUCCESS })
        }
        CompareGate::Exceeded(rows) => {
            let grew = rows.iter().map(|row| {
                let ratio = row.change.and_then(|change| change.ratio).unwrap_or(0.0);
                format!("{} grew by {:.1} %", row.name, ratio * 100.0)
            });
            let grew = grew.collect::<Vec<_>>().join(" and ");
            Err(Failure::Measurement(format!("{grew}, more than {percent:.1} %")))
        }
    }
}

fn recorded(sides: &Sides) -> Result<Comparison, Failure> {
    let [before, after] = [&sides.before, &sides.after].map(|paths| all(paths));
    let mut comparison = analysis::compare::compare(&before?, &after?);
    comparison.before = Some(sides::names(&sides.before));
    comparison.after = Some(sides::names(&sides.after));
    Ok(comparison)
}

fn all(paths: &[PathBuf]) -> Result<Vec<ComparedRun>, Failure> {
    let one = |path: &PathBuf| {
        let read = recording::read(path)?;
        Ok(ComparedRun::of(&read.run, read.reading.findings))
    };
    paths.iter().map(one).collect()
}
