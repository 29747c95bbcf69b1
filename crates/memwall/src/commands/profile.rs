//! `memwall profile`: what was measured on this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use machine::{
    Profile, Source,
    fingerprint::Change,
    profile::Fingerprint,
    store::{Found, Store},
};
use serde::Serialize;

use crate::{failure::Failure, output, target::Target};

/// Show the profile that 'memwall calibrate' made of this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON (schema memwall.profile/1, with age_s and what changed since)
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall profile
  memwall profile --json | jq '.levels[] | {name, claimed, usable, latency_ns}'

If the CPU, its microcode, the topology, the kernel or the hypervisor is another than when the profile was
made, that is said: its numbers may no longer hold.";

/// What `--json` prints: the profile, its age, and what is different now.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    profile: &'a Profile,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_s: Option<u64>,
    changed: Vec<String>,
}

/// Finds and prints.
pub fn run(args: &Args, machine: &Target) -> Result<(), Failure> {
    let store = Store::of_user().map_err(Failure::measurement)?;
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
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
    let changed: Vec<String> = changes.iter().map(Change::to_string).collect();
    if args.json {
        // What is simulated does not age.
        let age_s = profile.simulated.is_none().then(|| now.saturating_sub(profile.measured_at));
        return output::json(&Document { profile: &profile, age_s, changed });
    }
    let mut text = String::new();
    if !changed.is_empty() {
        let warning = "This machine has changed since the profile was made; its numbers may no longer hold. \
                       Run 'memwall calibrate' again.";
        text += &report::prose::wrap_in(report::style::WARNING, "", warning, output::columns());
        for change in &changed {
            text += &report::prose::wrap("  ", change, output::columns());
        }
        text += "\n";
    }
    text += &report::profile::text(&profile, now, output::columns());
    output::text(&text)
}
