//! `memwall doctor`: what can be measured here.

use machine::{Source, Topology};
use record::{doctor::Checkup, trust::Basis};
use serde::Serialize;

use crate::{failure::Failure, output, target::Target, trust};

/// Options of `memwall doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Print the checkup as JSON (schema memwall.doctor/1)
    #[arg(long)]
    json: bool,
    /// Also say how each capability was tried and what it is good for
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
}

const EXAMPLES: &str = "\
Each capability is tried, not read off: events are opened, pages bound, threads pinned. Everything is undone, no
setting is changed, and no privilege is needed; what a privilege would add is shown with the command that grants it.

Examples:
  memwall doctor             one line per capability, then the best instrument for this machine
  memwall doctor --verbose   with how each was tried and what it makes possible
  memwall doctor --json | jq -r '.rows[] | select(.state == \"blocked\") | .unlock_with'";

/// What `--json` prints: the checkup, and whether the machine was validated.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    checkup: &'a Checkup,
    validation: &'a Basis,
}

/// Tries everything and prints what came of it. Finding little is an answer, not a failure.
pub fn run(options: &Doctor, machine: &Target) -> Result<(), Failure> {
    let checkup = match machine {
        Target::Native => host::doctor::examine_here(&Topology::read(&Source::live())),
        Target::Simulated(model) => host::simulated::examine(model),
    };
    let trusted = trust::of(machine);
    if options.json {
        return output::json(&Document { checkup: &checkup, validation: trusted.basis() });
    }
    let text = report::doctor::text(&checkup, output::columns(), options.verbose);
    output::text(&(text + "\n" + &report::trust::section(trusted.basis(), trust::now(), output::columns())))
}
