//! `memwall compare`: what changed between recordings, beyond the noise.

use std::path::{Path, PathBuf};

use analysis::compare::ComparedRun;

use super::recording;
use crate::{
    failure::Failure,
    forms::{Forms, Screen},
};

/// Show what changed between recordings, beyond the noise
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Recording before, or several separated by commas
    #[arg(value_name = "BEFORE", value_delimiter = ',', required = true, num_args = 1)]
    before: Vec<PathBuf>,
    /// Recording after, or several separated by commas
    #[arg(value_name = "AFTER", value_delimiter = ',', required = true, num_args = 1)]
    after: Vec<PathBuf>,
    /// Fail if wall or user time grew by more than this and beyond the noise, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    fail_on: Option<f64>,
    /// Functions to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall compare before.sqlite after.sqlite
  memwall compare b1.sqlite,b2.sqlite,b3.sqlite a1.sqlite,a2.sqlite,a3.sqlite
  memwall compare before.sqlite after.sqlite --fail-on 5%      exit code 1 if it became slower: for CI

Several recordings of each side tell how much the program varies by itself; single ones do not.

Schema of --json: memwall.compare/1.";

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

/// Reads, compares and prints.
pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let [before, after] = [&args.before, &args.after].map(|paths| all(paths));
    let comparison = analysis::compare::compare(&before?, &after?);
    args.forms.give(Screen::Out, &comparison, |columns| {
        report::terminal::compare::text(&comparison, args.top, columns)
    })?;
    let Some(limit) = args.fail_on else { return Ok(()) };
    let slower: Vec<String> = comparison
        .regressions(limit)
        .iter()
        .map(|row| {
            let ratio = row.change.and_then(|change| change.ratio).unwrap_or(0.0);
            format!("{} grew by {:.1} %", row.name, ratio * 100.0)
        })
        .collect();
    if slower.is_empty() {
        return Ok(());
    }
    Err(Failure::Measurement(format!("{}, more than {:.1} %", slower.join(" and "), limit * 100.0)))
}

fn all(paths: &[PathBuf]) -> Result<Vec<ComparedRun>, Failure> {
    let one = |path: &PathBuf| {
        let read = recording::read(Path::new(path))?;
        Ok(ComparedRun::of(&read.run, read.reading.findings))
    };
    paths.iter().map(one).collect()
}
