//! What an imported recording says beyond others: where it comes from, and where each event was sampled.

use std::{cmp::Reverse, collections::HashMap};

use record::{
    count::Counts,
    ids::{FunctionId, ModuleId},
    import::{ImportFile, ImportMachine, Omission},
    run::Run,
    sampled::RecordedEvent,
};
use serde::{Deserialize, Serialize};

/// Where a recording was imported from, and what it says of its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportFindings {
    /// The files.
    pub files: Vec<ImportFile>,
    /// The machine they were recorded on.
    pub machine: ImportMachine,
    /// A validation of that machine was given; without one nothing here was tried.
    pub was_validated: bool,
    /// Events that were sampled.
    pub events: Vec<EventFinding>,
    /// What the files have and the recording has not.
    pub omissions: Vec<Omission>,
    /// What was counted.
    pub counts: Vec<Counts>,
}

/// Where an event was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFinding {
    /// The event, with its samples.
    #[serde(flatten)]
    pub event: RecordedEvent,
    /// Functions with most of them, the kernel as one.
    pub functions: Vec<EventFunction>,
}

/// A function that an event was sampled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFunction {
    /// Its name.
    pub name: String,
    /// The file it is in.
    pub module: String,
    /// Samples of the event.
    pub samples: u64,
}

/// Functions that are listed of each event.
const MOST_FUNCTIONS: usize = 20;

impl ImportFindings {
    /// Of a recording; none if it was not imported.
    pub fn of(run: &Run) -> Option<Self> {
        let import = run.import.as_deref()?;
        let events = import
            .events
            .iter()
            .enumerate()
            .map(|(index, event)| EventFinding { event: event.clone(), functions: functions(run, index) });
        Some(Self {
            files: import.files.clone(),
            machine: import.machine.clone(),
            was_validated: import.validation.is_some(),
            events: events.collect(),
            omissions: import.omissions.clone(),
            counts: import.counts.clone(),
        })
    }
}

/// Whose a sample is: a function, or code of a module that has no name.
type Owner = (Option<FunctionId>, ModuleId);

fn functions(run: &Run, event: usize) -> Vec<EventFunction> {
    let mut by_owner: HashMap<Owner, u64> = HashMap::new();
    for tally in run.sampled.tallies.iter().filter(|tally| tally.event as usize == event) {
        if let Some(place) = run.place(tally.place) {
            *by_owner.entry((place.function, place.module)).or_default() += tally.samples;
        }
    }
    let mut all: Vec<(Owner, u64)> = by_owner.into_iter().collect();
    all.sort_by_key(|(owner, samples)| (Reverse(*samples), *owner));
    let named = |((function, module), samples): (Owner, u64)| {
        let module = run.module(module).map_or_else(String::new, |module| module.path.clone());
        let name = function.and_then(|id| run.function(id)).map(|function| function.name.clone());
        let is_beyond = module.starts_with('[');
        let name = name.unwrap_or_else(|| if is_beyond { module.clone() } else { "unknown code".to_owned() });
        EventFunction { name, module, samples }
    };
    all.into_iter().take(MOST_FUNCTIONS).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{
        ids::PlaceId,
        import::ImportRecord,
        sampled::{EventTally, EventUse, SampleMode, SampledEvents},
    };

    #[test]
    fn each_event_names_its_functions_and_the_kernel() {
        let mut run = crate::timer::tests::run(&[0x90, 0xc3], &[(0, None), (1, None)]);
        assert_eq!(ImportFindings::of(&run), None);
        let event = |name: &str| RecordedEvent::new(name.to_owned(), EventUse::Counted, None);
        run.modules.push(record::run::Module {
            path: "[kernel]".to_owned(),
            kind: record::run::ModuleKind::Unknown,
            build_id: None,
            problem: None,
        });
        let kernel = ModuleId::of(run.modules.len() - 1);
        run.places.push(record::run::Place { module: kernel, address: 1, function: None });
        let in_kernel = PlaceId::of(run.places.len() - 1);
        let tally = |event, place, mode, samples| EventTally { event, place, mode, region: None, samples };
        run.import = Some(Box::new(ImportRecord {
            events: vec![event("page-faults"), event("cycles")],
            ..ImportRecord::default()
        }));
        run.sampled = SampledEvents {
            tallies: vec![
                tally(0, PlaceId(0), SampleMode::User, 2),
                tally(0, PlaceId(1), SampleMode::User, 3),
                tally(0, in_kernel, SampleMode::Kernel, 4),
                tally(1, PlaceId(0), SampleMode::User, 1),
            ],
            ..SampledEvents::default()
        };
        let found = ImportFindings::of(&run).expect("an import");
        assert!(!found.was_validated);
        let functions: Vec<_> =
            found.events[0].functions.iter().map(|of| (of.name.as_str(), of.samples)).collect();
        assert_eq!(functions, [("f", 5), ("[kernel]", 4)]);
        assert_eq!(found.events[1].functions.len(), 1);
    }
}
