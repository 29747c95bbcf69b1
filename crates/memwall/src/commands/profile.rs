//! `memwall profile`: what was measured on this machine.

use machine::{
    Source,
    fingerprint::FingerprintChange,
    profile::Fingerprint,
    store::{Store, StoredProfile},
};
use report::json::ProfileDocument;

use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    target::Target,
    trust,
};

/// Show the profile that 'memwall calibrate' made of this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
}

const EXAMPLES: &str = "\
Examples:
  memwall profile
  memwall profile --html machine.html
  memwall profile --json | jq '.levels[] | {name, claimed, usable, latency_ns}'

If the CPU, its microcode, the topology, the kernel or the hypervisor is another than when the profile was
made, that is said: its numbers may no longer hold.

Schema of --json: memwall.profile/1.";

/// Finds and prints.
pub fn run(args: &ProfileArgs, machine: &Target) -> Result<(), Failure> {
    let store = Store::of_user().map_err(Failure::measurement)?;
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let now = trust::now();
    let (profile, changes) = match store.find(&fingerprint).map_err(Failure::measurement)? {
        StoredProfile::Same(profile) => (profile, Vec::new()),
        StoredProfile::Changed { profile, differs } => (profile, differs),
        StoredProfile::Nothing => {
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
    let changed: Vec<String> = changes.iter().map(FingerprintChange::to_string).collect();
    let has_page = args.page.give(|| report::html::profile(&profile, &changed))?;
    // A page is asked for instead of a text.
    let screen = if has_page { Screen::None } else { Screen::Out };
    // What is simulated does not age.
    let age_s = profile.simulated.is_none().then(|| now.saturating_sub(profile.measured_at));
    let validation = trusted.basis();
    let document = ProfileDocument { profile: &profile, age_s, changed: changed.clone(), validation };
    args.forms.give(screen, &document, |columns| {
        let mut text = String::new();
        if !changed.is_empty() {
            text += &report::layout::prose::wrap_in(
                report::layout::style::WARNING,
                "",
                report::terminal::profile::CHANGED,
                columns,
            );
            text.extend(changed.iter().map(|change| report::layout::prose::wrap("  ", change, columns)));
            text += "\n";
        }
        text += &report::terminal::profile::text(&profile, now, columns);
        text + "\n" + &report::terminal::trust::section(validation, now, columns)
    })
}
