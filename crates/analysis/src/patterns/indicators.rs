//! Indicators by name: what was measured, or what it would take.

use std::collections::BTreeMap;

use crate::findings::{Confidence, KnownLimits};

/// An indicator that has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct IndicatorValue {
    /// What it is, in words.
    pub about: String,
    /// Its value; shares are between 0 and 1.
    pub value: f64,
    /// Lower and upper end, where they are known.
    pub interval: Option<(f64, f64)>,
    /// How far it can be believed.
    pub confidence: Confidence,
    /// Where most of it is.
    pub place: Option<String>,
}

impl IndicatorValue {
    /// A value without an interval.
    pub fn new(about: impl Into<String>, value: f64, confidence: Confidence) -> Self {
        Self { about: about.into(), value, interval: None, confidence, place: None }
    }

    /// With an interval.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> Self {
        Self { interval: Some((low, high)), ..self }
    }

    /// With an interval that reaches at least so far.
    #[must_use]
    pub fn reaching(self, low: f64, high: f64) -> Self {
        let (own_low, own_high) = self.interval.unwrap_or((self.value, self.value));
        self.between(own_low.min(low), own_high.max(high))
    }

    /// With where most of it is.
    #[must_use]
    pub fn at(self, place: Option<String>) -> Self {
        Self { place, ..self }
    }
}

/// What a run or counts say, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Indicators {
    known: BTreeMap<String, KnownLimits<IndicatorValue>>,
    /// What the other instruments would take.
    otherwise: String,
}

impl Indicators {
    /// None yet; `otherwise` says what it takes to have those that are never put in.
    pub fn new(otherwise: &str) -> Self {
        Self { known: BTreeMap::new(), otherwise: otherwise.to_owned() }
    }

    /// Puts a value in.
    pub fn put(&mut self, name: &str, value: IndicatorValue) {
        self.known.insert(name.to_owned(), KnownLimits::Value(value));
    }

    /// Says why there is none, and what would help.
    pub fn lack(&mut self, name: &str, need: impl Into<String>) {
        self.known.insert(name.to_owned(), KnownLimits::Missing(need.into()));
    }

    /// A value, or what it would take.
    pub fn get(&self, name: &str) -> Result<&IndicatorValue, String> {
        match self.known.get(name) {
            Some(KnownLimits::Value(value)) => Ok(value),
            Some(KnownLimits::Missing(need)) => Err(need.clone()),
            None => Err(self.otherwise.clone()),
        }
    }
}
