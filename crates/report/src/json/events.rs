//! What can be counted.

use ::trust::{Basis, Standing};
use events::Offer;
use serde::Serialize;

/// Of `memwall events`.
#[derive(Clone, Debug, Serialize)]
pub struct EventsDocument<'a> {
    schema: &'static str,
    instrument: &'a str,
    validation: &'a Basis,
    events: Vec<EventEntry<'a>>,
}

impl<'a> EventsDocument<'a> {
    /// Of an instrument on a machine that was validated, or why it was not.
    pub fn new(instrument: &'a str, validation: &'a Basis, events: Vec<EventEntry<'a>>) -> Self {
        Self { schema: "memwall.events/1", instrument, validation, events }
    }
}

/// One event or group.
#[derive(Clone, Debug, Serialize)]
pub struct EventEntry<'a> {
    name: &'a str,
    summary: &'a str,
    origin: &'static str,
    refused: Option<&'a str>,
    trust: Option<Standing>,
}

impl<'a> EventEntry<'a> {
    /// What is offered, and the trust it has earned.
    pub fn new(offer: &'a Offer, trust: Option<Standing>) -> Self {
        Self {
            name: &offer.name,
            summary: &offer.summary,
            origin: offer.origin,
            refused: offer.refused.as_deref(),
            trust,
        }
    }
}
