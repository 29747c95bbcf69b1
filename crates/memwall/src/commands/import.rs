//! `memwall import`: what perf recorded or counted, made a recording.

use std::path::PathBuf;

use import::{ImageFolders, ImportError, ImportOutcome, ImportRequest};
use record::{file::OlderRecording, sampled::EventUse};

use super::recording::DEFAULT;
use crate::{failure::Failure, output};

/// Make a recording of what perf recorded or counted, here or on another machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// A perf.data, and outputs of 'perf stat -x,' or 'perf stat -j' of the same program; - for stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT)]
    output: PathBuf,
    /// Believe what is imported as far as this validation of the machine that recorded says ('memwall validate --json')
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// The CPU that counted, where no perf.data says which, such as GenuineIntel,6,143,8 ('perf record' keeps it)
    #[arg(long, value_name = "ID", alias = "cpu")]
    cpu_id: Option<String>,
    /// Also look here for programs and debug information by their build ids; may be given several times
    #[arg(long = "debug-dir", value_name = "DIR")]
    debug: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  perf record -g -- ./app && memwall import perf.data && memwall report
  perf mem record -- ./app && memwall import perf.data -o mem.sqlite
  perf stat -x, -o counts.csv -e cycles,instructions,cache-misses -- ./app
  memwall import perf.data counts.csv -o app.sqlite    samples and counts of one program
  perf record -o - -- ./app | memwall import - -o app.sqlite

One perf.data makes one recording; outputs of 'perf stat' may stand beside it, or alone. Programs are found by their build
ids: where they were, in ~/.debug (perf buildid-cache, perf archive) and in debuginfo folders. What is not understood is
named and left out (docs/import.md). Everything imported is untested unless --trust says otherwise.
An older recording of that name becomes FILE.old. Exit code: 0, also of a file that is cut short; 1 if nothing could be
imported, 2 if the question was wrong.";

/// Imports, and says what came of it.
pub fn run(args: &ImportArgs) -> Result<(), Failure> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = folder("HOME");
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
    let mut folders = ImageFolders::of_user(home.as_deref(), cache.as_deref());
    folders.debug.splice(0..0, args.debug.iter().cloned());
    let request = ImportRequest {
        files: args.files.clone(),
        output: args.output.clone(),
        trust: args.trust.clone(),
        cpu_id: args.cpu_id.clone(),
        folders,
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let outcome = import::import(&request).map_err(|error| match error {
        ImportError::Missing { .. }
        | ImportError::Folder { .. }
        | ImportError::Together(_)
        | ImportError::Foreign { .. }
        | ImportError::Validation { .. } => Failure::usage(error),
        _ => Failure::measurement(error),
    })?;
    say(&outcome, &args.output);
    Ok(())
}

fn say(outcome: &ImportOutcome, output: &std::path::Path) {
    outcome.remarks.iter().for_each(|remark| output::say(remark));
    let omissions = outcome.record.omissions.iter().map(|left| format!("{} {}", left.count, left.what));
    let omissions: Vec<String> = omissions.collect();
    if !omissions.is_empty() {
        output::say(&format!("not imported: {}", omissions.join(", ")));
    }
    if let Some(OlderRecording { path, replaced_another }) = &outcome.older {
        let another = if *replaced_another { ", in place of the one of that name" } else { "" };
        output::say(&format!("the older recording is now {}{another}", path.display()));
    }
    let what = |event: &record::sampled::RecordedEvent| match event.used_for {
        EventUse::Loads => format!("{} accesses of {}", event.samples, event.name),
        _ => format!("{} samples of {}", event.samples, event.name),
    };
    // Events of perf's own bookkeeping have none.
    let sampled = outcome.record.events.iter().filter(|event| event.samples > 0);
    let mut parts: Vec<String> = sampled.map(what).collect();
    if parts.is_empty() && outcome.record.counts.is_empty() {
        parts.push("no samples".to_owned());
    }
    let counted: usize = outcome.record.counts.iter().map(|counts| counts.events.len()).sum();
    if counted > 0 {
        parts.push(format!("counts of {counted} events"));
    }
    let trust = if outcome.record.validation.is_some() { "validated" } else { "untested" };
    output::say(&format!(
        "{} in {} ({trust}); 'memwall report {}' shows them",
        parts.join(", "),
        output.display(),
        output.display()
    ));
}
