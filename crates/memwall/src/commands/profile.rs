//! `memwall profile`: what was measured on this machine.

use std::path::PathBuf;

use machine::{
    Source,
    fingerprint::Change,
    profile::Fingerprint,
    store::{Found, Store},
};
use report::json::ProfileDocument;

use crate::{failure::Failure, output, target::Target, trust};

/// Show the profile that 'memwall calibrate' made of this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON (schema memwall.profile/1, with age_s, what changed since, and whether it was validated)
    #[arg(long)]
    json: bool,
    /// Write a page that any browser shows, without a network: drawing, curves, tables
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  memwall profile
  memwall profile --html machine.html
  memwall profile --json | jq '.levels[] | {name, claimed, usable, latency_ns}'

If the CPU, its microcode, the topology, the kernel or the hypervisor is another than when the profile was
made, that is said: its numbers may no longer hold.";

/// Finds and prints.
pub fn run(args: &Args, machine: &Target) -> Result<(), Failure> {
    let store = Store::of_user().map_err(Failure::measurement)?;
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let now = trust::now();
    let (profile, changes) = match store.find(&fingerprint).map_err(Failure::measurement)? {
        Found::Same(profile) => (profile, Vec::new()),
        Found::Changed { profile, differs } => (profile, differs),
        Found::Nothing => {
            let place = store.directory().display();
            if let Target::Simulated(model) = machine {
                return Err(Failure::Measurement(format!(
                    "no profile of simulated {} as its model is now in {place}; 'memwall calibrate' with the same \
                     --on makes one",
                    model.name
                )));
            }
            return Err(Failure::Measurement(format!(
                "no profile in {place}; 'memwall calibrate' makes one in a minute, with --quick in ten seconds"
            )));
        }
    };
    let trusted = trust::of(machine);
    let changed: Vec<String> = changes.iter().map(Change::to_string).collect();
    if let Some(file) = &args.html {
        return output::file(file, &report::html::profile(&profile, &changed));
    }
    if args.json {
        // What is simulated does not age.
        let age_s = profile.simulated.is_none().then(|| now.saturating_sub(profile.measured_at));
        let validation = trusted.basis();
        return output::json(&ProfileDocument { profile: &profile, age_s, changed, validation });
    }
    let mut text = String::new();
    if !changed.is_empty() {
        text += &report::layout::prose::wrap_in(
            report::layout::style::WARNING,
            "",
            report::terminal::profile::CHANGED,
            output::columns(),
        );
        for change in &changed {
            text += &report::layout::prose::wrap("  ", change, output::columns());
        }
        text += "\n";
    }
    text += &report::terminal::profile::text(&profile, now, output::columns());
    text += "\n";
    text += &report::terminal::trust::section(trusted.basis(), now, output::columns());
    output::text(&text)
}
