//! `memwall methods`: which method answers which question here.

use analysis::methods::{MethodsMachine, answer, question};
use clap::ValueEnum;
use machine::{Source, Topology};
use record::methods::{MethodPurpose, MethodTopic};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    target::Target,
    trust,
};

/// Which method answers questions about bandwidth, latency, code and data on this machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MethodsArgs {
    /// What the measurement is for
    #[arg(long, value_enum, default_value_t = PurposeChoice::Diagnose)]
    purpose: PurposeChoice,
    #[command(flatten)]
    forms: Forms,
}

/// What a measurement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PurposeChoice {
    /// The exact value: how many bytes, how many cycles
    Exact,
    /// Whether it holds a program back, and where
    Diagnose,
}

const EXAMPLES: &str = "\
Everything that 'memwall doctor' tries is tried; what 'memwall validate' found out decides between methods that are allowed.
A method that is broken on this machine is never chosen. After helm2019 §7.

Examples:
  memwall methods                     what to use here, at what cost, and what would unlock a better one
  memwall methods --purpose exact     for the value itself instead of the diagnosis
  memwall methods --json | jq -r '.questions[] | [.topic, .chosen] | @tsv'

Schema of --json: memwall.methods/1.";

/// What is asked, where a command chooses the method itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopicChoice {
    /// How much memory moves, and whether that is too much
    Bandwidth,
    /// How long loads wait
    Latency,
}

/// Answers and prints.
pub fn run(args: &MethodsArgs, machine: &Target) -> Result<(), Failure> {
    let answer = with_machine(machine, |machine| answer(machine, args.purpose.into()));
    args.forms.give(Screen::Out, &answer, |columns| report::terminal::methods::text(&answer, columns))
}

/// The group of events that answers a question here, and a sentence that says why it was chosen.
pub fn group_for(
    machine: &Target,
    topic: TopicChoice,
    purpose: PurposeChoice,
) -> Result<(String, String), Failure> {
    let topic = match topic {
        TopicChoice::Bandwidth => MethodTopic::Bandwidth,
        TopicChoice::Latency => MethodTopic::Latency,
    };
    let question = with_machine(machine, |machine| question(machine, topic, purpose.into()));
    let chosen = question.choice();
    match chosen.and_then(|method| Some((method, method.group.clone()?))) {
        Some((method, group)) => {
            let unlocks = question.unlocks.iter();
            let better: String = unlocks
                .map(|(name, command)| format!(" {name} would be better; it takes: {command}."))
                .collect();
            let remark = format!("Counted by {}: {}.{better}", method.name, question.because);
            Ok((group, remark))
        }
        None => Err(Failure::Usage(match chosen {
            Some(method) => format!(
                "here the question is answered by {}, which counts no group of events: {}",
                method.name, method.command
            ),
            None => format!("no method can be used: {}; 'memwall methods' says more", question.because),
        })),
    }
}

impl From<PurposeChoice> for MethodPurpose {
    fn from(choice: PurposeChoice) -> Self {
        match choice {
            PurposeChoice::Exact => Self::Exact,
            PurposeChoice::Diagnose => Self::Diagnose,
        }
    }
}

/// Tries what the machine offers.
pub(super) fn with_machine<T>(machine: &Target, ask: impl FnOnce(&MethodsMachine<'_>) -> T) -> T {
    let (checkup, events) = match machine {
        Target::Native => {
            let topology = Topology::read(&Source::live());
            let events = events::Catalogue::for_cpu(&topology.cpu);
            (doctor::examine_here(&topology), events)
        }
        Target::Simulated(model) => (host::simulated::examine(model), events::Catalogue::for_model(model)),
    };
    let trusted = trust::of(machine);
    let simulated = match machine {
        Target::Native => None,
        Target::Simulated(model) => Some(model.name.as_str()),
    };
    ask(&MethodsMachine { checkup: &checkup, trust: &trusted, events, simulated })
}
