//! `memwall events`: what can be counted here.

use ::trust::Standing;
use events::{Instrument, MetricGroup, Offer};
use machine::Source;
use pmu::PerfEvents;
use report::json::{EventEntry, EventsDocument};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    target::Target,
    trust,
};

/// List events and groups that this machine, or a simulated one, offers
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Only names or descriptions that contain this, in any case
    pattern: Option<String>,
    /// Leave out what cannot be counted here
    #[arg(long)]
    available: bool,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall events                                 all that is known, and whether it can be counted here
  memwall events l2 --available
  memwall events offcore --on sim:haswell-ep-e5-2680v3
  memwall events --json | jq '.events[] | select(.refused == null) | .name'

Schema of --json: memwall.events/1.";

/// Lists.
pub fn run(args: &EventsArgs, machine: &Target) -> Result<(), Failure> {
    let instrument: Box<dyn Instrument> = match machine {
        Target::Native => Box::new(PerfEvents::new(&pmu::Live, Source::live())),
        Target::Simulated(model) => Box::new(super::count_simulated::instrument(model)?),
    };
    let mut offers = instrument.offers();
    offers.extend(MetricGroup::all().iter().map(|group| Offer {
        name: group.name.clone(),
        summary: group.about.clone(),
        origin: "group",
        refused: None,
    }));
    let wanted = args.pattern.as_deref().unwrap_or_default().to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    offers.retain(|offer| has(&offer.name) || has(&offer.summary));
    if args.available {
        offers.retain(|offer| offer.refused.is_none());
    }
    if offers.is_empty() {
        return Err(Failure::Usage(match &args.pattern {
            Some(pattern) => format!("no event here matches '{pattern}'; 'memwall events' lists all"),
            None => "nothing can be counted here; 'memwall doctor' says why".to_owned(),
        }));
    }
    let trusted = trust::of(machine);
    let standing = |offer: &Offer| match offer.origin {
        "group" => None,
        _ => trusted.event(&instrument.resolve(&offer.name).ok()?.signal),
    };
    let listed: Vec<(Offer, Option<Standing>)> = offers
        .into_iter()
        .map(|offer| {
            let standing = standing(&offer);
            (offer, standing)
        })
        .collect();
    let name = instrument.name();
    let entries = listed.iter().map(|(offer, trust)| EventEntry::new(offer, trust.clone())).collect();
    let document = EventsDocument::new(&name, trusted.basis(), entries);
    args.forms.give(Screen::Out, &document, |columns| {
        report::terminal::events::text(&name, &listed, trusted.basis(), columns)
    })
}
