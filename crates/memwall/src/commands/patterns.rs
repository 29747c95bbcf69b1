//! `memwall patterns`: known diseases of programs, and what each needs here.

use analysis::patterns::{known, patterns_here};
use machine::{Source, profile::Fingerprint};

use super::{methods::with_machine, recording::profile_of};
use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    target::Target,
};

/// List known problems of programs, by which signs they are known, and what each needs on this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PatternsArgs {
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
'memwall run' and 'memwall report' look for all of them without a PMU; 'memwall count --patterns' by events, here or on a
simulated machine. After roehl2016 §2.2.

Examples:
  memwall patterns
  memwall run --verbose ./app         those it has, those it has not, and what the others would take
  memwall count --patterns --on sim:haswell-ep-e5-2695v3 --scenario pattern-false-sharing
  memwall patterns --json | jq -r '.patterns[] | [.name, .class] | @tsv'

Schema of --json: memwall.patterns/1.";

/// Lists.
pub fn run(args: &PatternsArgs, machine: &Target) -> Result<(), Failure> {
    let fingerprint = match machine {
        Target::Native => Fingerprint::read(&Source::live()),
        Target::Simulated(model) => Fingerprint::of_model(model),
    };
    let has_profile = profile_of(&fingerprint).is_some();
    let answer = with_machine(machine, |machine| patterns_here(machine, has_profile));
    args.forms.give(Screen::Out, &answer, |columns| report::terminal::patterns::list(&answer, columns))
}

/// The groups of events that patterns are known by.
pub fn groups() -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for group in known().iter().flat_map(|pattern| &pattern.signatures).flat_map(|one| &one.groups) {
        if !groups.contains(group) {
            groups.push(group.clone());
        }
    }
    groups
}
