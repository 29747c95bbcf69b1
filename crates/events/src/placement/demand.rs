//! What an event needs of a PMU, from its encoding and what the event file says of it.

use super::{Demand, ExtraRegister, PmuResources};
use crate::{
    Catalogue, Encoding, Event, Signal, Unit,
    event::{Counters, Needs},
    names::is_box_of,
};

impl Demand {
    /// What an event needs of the PMU of that name. The leader it follows is for the caller to find.
    pub fn of(event: &Event, pmu: &str, catalogue: Option<&Catalogue>) -> Self {
        let resources = PmuResources::of_pmu(pmu, catalogue);
        let registers = resources.as_ref().map_or(&[][..], PmuResources::registers);
        let (counters, encoding) = form(event, pmu, catalogue);
        Self {
            counters,
            registers: encoding.map_or_else(Vec::new, |encoding| values(encoding, registers)),
            alone: event.needs.alone,
            pair: event.needs.pair,
            free: event.needs.free,
            follows: None,
        }
    }
}

/// The counters an event fits, and what is programmed for it as far as that is known.
fn form<'a>(
    event: &'a Event,
    pmu: &str,
    catalogue: Option<&'a Catalogue>,
) -> (Counters, Option<&'a Encoding>) {
    let stated = Some(event.counters).filter(|counters| *counters != Counters::default());
    if let Signal::Encoded(encoding) = &event.signal {
        return (stated.unwrap_or_else(|| architectural(encoding)), Some(encoding));
    }
    let generic = catalogue.and_then(|catalogue| catalogue.generic(&event.signal));
    match generic.filter(|entry| is_box_of(pmu, &entry.encoding.pmu)) {
        Some(entry) => (stated.unwrap_or(entry.counters), Some(&entry.encoding)),
        None => (stated.unwrap_or_else(|| of_the_kernel(&event.signal)), None),
    }
}

/// Counters of the events that have a fixed one on every Intel core, for those that do not say so.
fn architectural(encoding: &Encoding) -> Counters {
    let plain =
        |code| encoding.fields.iter().all(|(name, value)| name == "event" && *value == code || *value == 0);
    let fixed = [(0xc0, 0), (0x3c, 1)].into_iter().find(|(code, _)| plain(*code));
    match fixed {
        Some((_, fixed)) if encoding.pmu.starts_with("cpu") => {
            Counters { programmable: u32::MAX, fixed: Some(fixed) }
        }
        _ => Counters::default(),
    }
}

/// Fixed counters of the kernel's generic events. A machine without them counts on general ones.
fn of_the_kernel(signal: &Signal) -> Counters {
    match signal {
        Signal::Hardware(1) => Counters { programmable: u32::MAX, fixed: Some(0) },
        Signal::Hardware(0) => Counters { programmable: u32::MAX, fixed: Some(1) },
        // Reference cycles have no general counter on the machines that have fixed ones.
        Signal::Hardware(9) => Counters { programmable: 0, fixed: Some(2) },
        _ => Counters::default(),
    }
}

/// What an encoding wants in the registers of a PMU: all fields of each of which it sets one.
fn values(encoding: &Encoding, registers: &[ExtraRegister]) -> Vec<(String, Vec<u64>)> {
    let of = |register: &ExtraRegister| {
        let values: Vec<u64> = register.fields.iter().map(|field| encoding.field(field)).collect();
        values.iter().any(|value| *value != 0).then(|| (register.name().to_owned(), values))
    };
    registers.iter().filter_map(of).collect()
}

/// The events with what their file says they need, and behind them the leaders they need and are not there.
pub fn with_leaders(asked: &[Event], catalogue: Option<&Catalogue>) -> Vec<Event> {
    let mut events: Vec<Event> = asked.iter().map(|event| with_needs(event, catalogue)).collect();
    for index in 0..events.len() {
        if let Some(leader) = leader(&events[index], catalogue)
            && !events.iter().any(|event| leads(event, &leader))
        {
            events.push(leader);
        }
    }
    events
}

/// Which of the events must lead the group of one of them.
pub fn leader_among(events: &[Event], event: usize, catalogue: Option<&Catalogue>) -> Option<usize> {
    let leader = leader(&events[event], catalogue)?;
    events.iter().position(|event| leads(event, &leader))
}

/// An event by its code needs what the catalogue says of that code.
fn with_needs(event: &Event, catalogue: Option<&Catalogue>) -> Event {
    let mut event = event.clone();
    if let Signal::Encoded(encoding) = &event.signal
        && encoding.unit == Unit::Core
        && event.needs == Needs::default()
        && let Some(entry) = catalogue.and_then(|catalogue| catalogue.of_encoding(encoding))
    {
        event.needs = entry.needs();
    }
    event
}

/// What must lead an event's group, in the modes of the event.
fn leader(event: &Event, catalogue: Option<&Catalogue>) -> Option<Event> {
    let leader = catalogue?.event(event.needs.leader.as_deref()?)?;
    let Signal::Encoded(mut encoding) = leader.signal.clone() else {
        return None;
    };
    if let Signal::Encoded(follower) = &event.signal {
        encoding.pmu.clone_from(&follower.pmu);
    }
    Some(Event { signal: Signal::Encoded(encoding), modifiers: event.modifiers, ..leader })
}

/// Whether an event is the leader that another needs, under whatever name.
fn leads(event: &Event, leader: &Event) -> bool {
    event.signal == leader.signal && event.modifiers == leader.modifiers
}
