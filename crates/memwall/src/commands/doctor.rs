//! `memwall doctor`: what can be measured here.

use machine::{Source, Topology};
use record::doctor::{Leftover, LeftoverFate};
use report::json::DoctorDocument;

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    target::Target,
    trust,
};

/// Options of `memwall doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    #[command(flatten)]
    forms: Forms,
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
  memwall doctor --json | jq -r '.rows[] | select(.state == \"blocked\") | .unlock_with'

Schema of --json: memwall.doctor/1.";

/// Tries everything and prints what came of it. Finding little is an answer, not a failure.
pub fn run(options: &Doctor, machine: &Target) -> Result<(), Failure> {
    let checkup = match machine {
        Target::Native => doctor::examine_here(&Topology::read(&Source::live())),
        Target::Simulated(model) => host::simulated::examine(model),
    };
    let trusted = trust::of(machine);
    let leftovers = match machine {
        Target::Native => [recorder::leftovers(), monitoring_groups()].concat(),
        Target::Simulated(_) => Vec::new(),
    };
    let document = DoctorDocument { checkup: &checkup, validation: trusted.basis(), leftovers: &leftovers };
    options.forms.give(Screen::Out, &document, |columns| {
        let text = report::terminal::doctor::text(&checkup, columns, options.verbose);
        let trust = report::terminal::trust::section(trusted.basis(), trust::now(), columns);
        text + "\n" + &trust + &report::terminal::doctor::leftovers(&leftovers, columns)
    })
}

/// Monitoring groups of memwalls that were killed.
fn monitoring_groups() -> Vec<Leftover> {
    let groups = pmu::counting::abandoned_groups(&Source::live()).into_iter();
    groups.map(|path| Leftover { path, bytes: 0, fate: LeftoverFate::NextCount }).collect()
}
