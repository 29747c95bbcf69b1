//! The PMU of a simulated machine as an instrument.

use std::sync::Arc;

use events::{
    Catalogue, Conflict, CountRefusal, CountRequest, Counting, Encoding, Event, Instrument, Offer, Scope,
    Signal, TooMany,
    names::{Context, parse},
    placement::{Round, rounds_by_file},
};
use machine::{CpuSet, model::Model};

use super::{
    bank::SharedBank,
    lie::Lie,
    meaning::{Flaws, SignalMeaning},
    opened::{CountedPart, EventSlots, OpenCounting, PartCounts},
    recipe::{Programme, Recipe, RecipeCounter, Trigger},
    sample::SimulatedSample,
};

/// Turn of a set of events that share counters. Linux gives each 4 ms; a simulated run is about a thousandth as long as
/// one that is worth counting.
const TICK_NS: u64 = 4_000;
/// Cycles from an overflow to the instruction that is blamed, where the event is not precise: an interrupt's way through
/// the pipeline.
const SKID_CYCLES: u64 = 30;

/// A machine whose events nobody has written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no events are known for the simulated machine {model}; take one that `memwall models` lists with events"
)]
pub struct NoEvents {
    /// The model.
    pub model: String,
}

/// The PMU of a simulated machine. It counts what runs on the engines it is attached to.
pub struct SimulatedPmu {
    model: Arc<Model>,
    pub(super) catalogue: &'static Catalogue,
    flaws: Flaws,
    lies: Vec<(Encoding, Lie)>,
    pub(super) bank: SharedBank,
}

/// What is to be sampled, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRequest {
    /// Any event of a core; a load-latency event gives loads with address, latency and source.
    pub event: Event,
    /// Counts from one sample to the next.
    pub period: u64,
    /// On which CPUs.
    pub cpus: CpuSet,
}

/// A sampling event that is open.
pub struct SampledEvent<'a> {
    bank: &'a SharedBank,
}

impl SimulatedPmu {
    /// The PMU of a model.
    pub fn new(model: &Model, flaws: Flaws) -> Result<Self, NoEvents> {
        let none = || NoEvents { model: model.name.clone() };
        let catalogue = Catalogue::for_model(model).ok_or_else(none)?;
        let bank = SharedBank::default();
        Ok(Self { model: Arc::new(model.clone()), catalogue, flaws, lies: Vec::new(), bank })
    }

    /// Makes the counters of an event lie from now on.
    pub fn plant(&mut self, event: &str, lie: Lie) -> Result<(), CountRefusal> {
        if let Lie::Like(other) = &lie {
            self.resolve(other)?;
        }
        let resolved = self.resolve(event)?;
        let not_here = |reason: String| CountRefusal::NotHere { event: event.to_owned(), reason };
        self.lies.push((self.encoding(&resolved).map_err(not_here)?.clone(), lie));
        Ok(())
    }

    /// The same PMU of another machine of this model, with counters of its own.
    pub fn twin(&self) -> Self {
        let (model, lies) = (self.model.clone(), self.lies.clone());
        Self { model, lies, bank: SharedBank::default(), ..*self }
    }

    /// What an engine must be given so that this counts what runs on it.
    pub fn bank(&self) -> SharedBank {
        self.bank.clone()
    }

    /// The events it has.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    fn encoding<'e>(&self, event: &'e Event) -> Result<&'e Encoding, String>
    where
        Self: 'e,
    {
        match &event.signal {
            Signal::Encoded(encoding) => Ok(encoding),
            other => match self.catalogue.generic(other) {
                Some(entry) => Ok(&entry.encoding),
                None => Err("the simulated machine has no operating system that could count it".into()),
            },
        }
    }

    pub(super) fn lie(&self, event: &Event) -> Option<&Lie> {
        let encoding = self.encoding(event).ok()?;
        self.lies.iter().find(|(planted, _)| planted == encoding).map(|(_, lie)| lie)
    }

    fn recipe(&self, event: &Event) -> Result<Recipe, String> {
        if let Some(Lie::Like(other)) = self.lie(event) {
            let other = self.resolve(other).map_err(|refusal| refusal.to_string())?;
            return SignalMeaning::of(self.catalogue, self.encoding(&other)?, &self.model, self.flaws);
        }
        let entry = self.catalogue.of_encoding(self.encoding(event)?);
        if entry.is_some_and(|entry| entry.place != events::catalogue::CountedAt::Counters) {
            return Err("the simulated machine has only the counters of its PMU".into());
        }
        SignalMeaning::of(self.catalogue, self.encoding(event)?, &self.model, self.flaws)
    }

    fn cpus(&self, scope: &Scope) -> Result<CpuSet, CountRefusal> {
        match scope {
            Scope::Cpus(cpus) => Ok(cpus.clone()),
            _ => Err(CountRefusal::Failed {
                what: "counting on a simulated machine".into(),
                reason: "it has CPUs and no processes; ask for CPUs".into(),
            }),
        }
    }

    /// Which events the counters hold at the same time.
    fn rounds(&self, events: &[Event]) -> Result<Vec<Round>, CountRefusal> {
        let refused = |(event, conflict): (String, Conflict)| CountRefusal::NotHere {
            event,
            reason: conflict.to_string(),
        };
        rounds_by_file(events, self.catalogue).map_err(refused)
    }

    fn load(&self, programme: Programme, cpus: CpuSet) -> Result<(), CountRefusal> {
        match self.bank.lock().load(programme, cpus) {
            true => Ok(()),
            false => Err(CountRefusal::Failed {
                what: "opening events".into(),
                reason: "another set of events is open on this simulated machine; close it first".into(),
            }),
        }
    }

    /// By event its counter, or why it has none; and the recipes of those that have one.
    fn slots<'e>(&self, events: &'e [Event]) -> Result<EventSlots<'e>, CountRefusal> {
        let (mut slots, mut counted) = (Vec::new(), Vec::new());
        for event in events {
            match self.recipe(event) {
                Ok(recipe) => {
                    slots.push(Ok(counted.len()));
                    counted.push((event, recipe));
                }
                Err(reason) => slots.push(Err(reason)),
            }
        }
        if counted.is_empty()
            && let (Some(event), Some(Err(reason))) = (events.first(), slots.first())
        {
            return Err(CountRefusal::NotHere { event: event.name.clone(), reason: reason.clone() });
        }
        Ok((slots, counted))
    }

    /// Opens all events at once for parts of the next run: each part has counts of its own. A part may come several times.
    pub fn open_parts(
        &self,
        request: &CountRequest,
        parts: &[CountedPart],
    ) -> Result<PartCounts<'_>, CountRefusal> {
        let cpus = self.cpus(&request.scope)?;
        let (slots, counted) = self.slots(&request.events)?;
        let number = parts.iter().map(|part| part.part + 1).max().unwrap_or(1);
        let counters: Vec<RecipeCounter> = (0..number)
            .flat_map(|turn| {
                counted.iter().map(move |(_, recipe)| RecipeCounter { recipe: recipe.clone(), turn })
            })
            .collect();
        let events: Vec<Event> = counted.iter().map(|(event, _)| (*event).clone()).collect();
        let opened = OpenCounting::new(self, slots, &counters, &events, cpus.clone(), request.share);
        let planned = parts.iter().map(|part| (part.until.0, part.part)).collect();
        self.load(Programme { counters, turns: number, tick_ns: TICK_NS, planned, trigger: None }, cpus)?;
        Ok(PartCounts { opened, events: events.len() })
    }

    /// Opens an event for sampling, stopped.
    pub fn sample(&self, request: &SampleRequest) -> Result<SampledEvent<'_>, CountRefusal> {
        let not_here = |reason: String| CountRefusal::NotHere { event: request.event.name.clone(), reason };
        let latency = match &request.event.signal {
            Signal::Encoded(encoding) => Some(encoding.field("ldlat")).filter(|&least| least > 0),
            _ => None,
        };
        let mut programme = Programme { turns: 1, tick_ns: TICK_NS, ..Programme::default() };
        programme.trigger = Some(match latency {
            Some(least_cycles) => Trigger::Loads { period: request.period, least_cycles },
            None => {
                let recipe = self.recipe(&request.event).map_err(not_here)?;
                if matches!(recipe, Recipe::Boxes { .. }) {
                    return Err(not_here(
                        "boxes outside the cores do not sample; take an event of a core".into(),
                    ));
                }
                let is_precise = request.event.modifiers.precise > 0;
                if is_precise && recipe.is_stores() {
                    Trigger::Stores { period: request.period }
                } else {
                    programme.counters.push(RecipeCounter { recipe, turn: 0 });
                    let skid_cycles = if is_precise { 0 } else { SKID_CYCLES };
                    Trigger::Overflow { counter: 0, period: request.period, skid_cycles }
                }
            }
        });
        self.load(programme, request.cpus.clone())?;
        Ok(SampledEvent { bank: &self.bank })
    }
}

impl SampledEvent<'_> {
    /// From the next run on.
    pub fn start(&mut self) {
        self.bank.lock().set_started(true);
    }

    /// No longer.
    pub fn stop(&mut self) {
        self.bank.lock().set_started(false);
    }

    /// The samples since the last time, with their CPUs; those of a CPU and a run in the order of time.
    pub fn take(&mut self) -> Vec<(u32, SimulatedSample)> {
        std::mem::take(&mut self.bank.lock().samples)
    }
}

impl Drop for SampledEvent<'_> {
    fn drop(&mut self) {
        self.bank.lock().unload();
    }
}

impl Instrument for SimulatedPmu {
    fn name(&self) -> String {
        format!("simulated {}", self.model.name)
    }

    fn resolve(&self, name: &str) -> Result<Event, CountRefusal> {
        let context = Context { catalogue: Some(self.catalogue), pmus: &[], libpfm: false };
        parse(name, &context)
            .map(|parsed| parsed.event)
            .map_err(|error| CountRefusal::UnknownEvent { name: name.to_owned(), hint: error.to_string() })
    }

    fn offers(&self) -> Vec<Offer> {
        self.catalogue
            .entries
            .iter()
            .map(|entry| Offer {
                name: entry.name.clone(),
                summary: entry.summary().to_owned(),
                origin: "catalogue",
                refused: self.recipe(&entry.event()).err(),
            })
            .collect()
    }

    fn runs(&self, events: &[Event], _scope: &Scope) -> Result<Vec<Vec<usize>>, CountRefusal> {
        Ok(self.rounds(events)?.into_iter().map(|round| round.members).collect())
    }

    fn open<'a>(&'a self, request: &CountRequest) -> Result<Box<dyn Counting + 'a>, CountRefusal> {
        let cpus = self.cpus(&request.scope)?;
        let (slots, counted) = self.slots(&request.events)?;
        let events: Vec<Event> = counted.iter().map(|(event, _)| (*event).clone()).collect();
        let sets: Vec<Vec<usize>> = match request.too_many {
            TooMany::AllAtOnce => vec![(0..events.len()).collect()],
            too_many => {
                let rounds = self.rounds(&events)?;
                match CountRefusal::unless_one_round(&events, &rounds) {
                    Some(refusal) if too_many == TooMany::Refuse => return Err(refusal),
                    _ => rounds.into_iter().map(|round| round.members).collect(),
                }
            }
        };
        let mut counters: Vec<RecipeCounter> =
            counted.into_iter().map(|(_, recipe)| RecipeCounter { recipe, turn: 0 }).collect();
        for (turn, set) in sets.iter().enumerate() {
            set.iter().for_each(|&event| counters[event].turn = turn);
        }
        let opened = OpenCounting::new(self, slots, &counters, &events, cpus.clone(), request.share);
        let turns = sets.len();
        self.load(Programme { counters, turns, tick_ns: TICK_NS, ..Programme::default() }, cpus)?;
        Ok(Box::new(opened))
    }
}
