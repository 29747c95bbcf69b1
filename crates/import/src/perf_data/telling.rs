//! Telling to which event a record belongs, and how far its counter moved on.

use std::collections::HashMap;

use pmu::bindings as b;

use super::{ReadingCore, UserRecord};
use crate::{
    attributes::{EventAttributes, MOST_IDS},
    container::{EVENT_DESC, MOST_EVENTS},
    facts,
    stream::RawRecord,
};

/// Events by the numbers that their records bear.
#[derive(Debug)]
pub(super) struct EventsById {
    by_id: HashMap<u64, usize>,
    /// Where in a sample, and how far before the end of another record, the number stands; alike for all events.
    in_sample: Option<usize>,
    before_end: Option<usize>,
    is_alone: bool,
}

impl EventsById {
    /// The error says why they cannot be told apart.
    pub fn of(events: &[EventAttributes]) -> Result<Self, String> {
        fn common(mut all: impl Iterator<Item = Option<usize>>) -> Option<usize> {
            let first = all.next()??;
            all.all(|other| other == Some(first)).then_some(first)
        }
        let numbered = events.iter().enumerate();
        let by_id = numbered.flat_map(|(index, event)| event.ids.iter().map(move |id| (*id, index)));
        let by_id: HashMap<u64, usize> = by_id.collect();
        let in_sample = common(events.iter().map(|event| event.layout.id_in_sample()));
        let is_alone = events.len() == 1;
        if !is_alone && in_sample.is_none() {
            return Err("it has several events, and nothing in their samples tells which is which".to_owned());
        }
        let before_end = common(events.iter().map(|event| event.layout.id_before_end()));
        Ok(Self { by_id, in_sample, before_end, is_alone })
    }

    /// The event of a number.
    pub fn by_number(&self, id: u64) -> Option<usize> {
        if self.is_alone { Some(0) } else { self.by_id.get(&id).copied() }
    }

    /// The event of a record; none if it is not described.
    #[inline]
    pub fn event_of(&self, record: RawRecord<'_>) -> Option<usize> {
        if self.is_alone {
            return Some(0);
        }
        let is_sample = record.kind == b::PERF_RECORD_SAMPLE;
        let at = match is_sample {
            true => self.in_sample,
            false => self.before_end.and_then(|before| record.body.len().checked_sub(before)),
        };
        let id = at.and_then(|at| record.body.get(at..)?.first_chunk().map(|id| u64::from_ne_bytes(*id)));
        match id {
            // As perf numbers what it made up itself.
            Some(0) => Some(0),
            Some(id) => self.by_id.get(&id).copied().or((!is_sample).then_some(0)),
            None => (!is_sample).then_some(0),
        }
    }
}

/// What counters held when they were last read.
#[derive(Debug, Default)]
pub(super) struct Increments(HashMap<u64, u64>);

impl Increments {
    /// How far a counter moved on; `None` without a number.
    pub fn since_last(&mut self, id: Option<u64>, value: u64) -> Option<u64> {
        let before = self.0.insert(id?, value).unwrap_or(0);
        Some(value.wrapping_sub(before))
    }
}

impl ReadingCore<'_> {
    /// Takes a record of perf itself; gives how many bytes follow it that are no record.
    pub(super) fn user_record(&mut self, record: UserRecord<'_>) -> Result<u64, String> {
        match record {
            UserRecord::Attributes(body) if !self.has_begun => self.attributes(body)?,
            UserRecord::Attributes(_) => self.omit("events that were described too late", 1),
            UserRecord::Section(feature, body) => {
                let wanted = |feature: &u32| facts::is_wanted(*feature) || *feature == EVENT_DESC;
                if let Some(feature) = u32::try_from(feature).ok().filter(wanted) {
                    self.has_late_sections |= self.has_begun;
                    self.sections.insert(feature, body.to_vec());
                }
            }
            UserRecord::BuildId(body) => self.build_id(body),
            UserRecord::DataFollows(name, bytes) => {
                self.omit(name, 1);
                return Ok(bytes);
            }
            UserRecord::LeftOut(name) => self.omit(name, 1),
            UserRecord::Unknown(kind) => {
                self.omit(&format!("records of kind {kind}, newer than this memwall"), 1);
            }
            UserRecord::Bookkeeping | UserRecord::FinishedRound | UserRecord::Compressed(_) => {}
        }
        Ok(0)
    }

    fn attributes(&mut self, body: &[u8]) -> Result<(), String> {
        let order = self.container.order;
        let (mut event, size) = EventAttributes::parse(body, order)
            .ok_or("the attributes of an event are longer than their record")?;
        event.ids = order.words(&body[size..]).take(MOST_IDS).collect();
        if self.container.events.len() as u64 >= MOST_EVENTS {
            return Err("it names more events than any machine has".to_owned());
        }
        self.container.events.push(event);
        Ok(())
    }

    fn build_id(&mut self, body: &[u8]) {
        let (Some(id), Some(path)) = (facts::build_id(body), body.get(28..)) else {
            self.malformed += 1;
            return;
        };
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        self.container.facts.build_ids.insert(path.to_vec(), id);
    }
}
