//! What was counted, and what was not.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::CountRefusal;

/// Where a count was taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedPlace {
    /// The processes or threads asked for, all together.
    Target,
    /// One thread.
    Thread(u32),
    /// One CPU.
    Cpu(u32),
    /// One box of a package: the second channel of package 0.
    Box {
        /// Package.
        package: u32,
        /// The kernel's or model's name of the box: `uncore_imc_1`.
        name: String,
    },
}

/// One event at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Which of the events asked for.
    pub event: usize,
    /// Where.
    pub place: CountedPlace,
    /// How many, or why not.
    pub value: Value,
}

/// A value with what it takes to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Counted.
    Counted {
        /// What the counter held.
        raw: u64,
        /// Nanoseconds the event was switched on.
        enabled_ns: u64,
        /// Nanoseconds it had a counter.
        running_ns: u64,
    },
    /// Not counted. Never the same as 0.
    Missing(Missing),
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It was enabled and never had a counter.
    NeverRan,
    /// The target never ran while it was enabled.
    NeverEnabled,
    /// The kernel or the simulated PMU refused it.
    Refused(EventRefusal),
    /// Opened, and failed later: what and why.
    Failed(String),
    /// Counted by an event that was found broken on this machine, and left out: how it is broken.
    Broken(String),
}

/// How an event was refused. Written down it is one sentence: what was asked, the errno and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct EventRefusal {
    /// The event, and the form in which it was asked for if that matters: `cycles` and `cpu config=0x0`; none if the sentence is
    /// about none.
    asked: Option<(String, Option<String>)>,
    reason: String,
}

impl EventRefusal {
    /// Of an event that was asked for in a form that is told in brackets.
    pub fn of(event: &str, form: &str, reason: String) -> Self {
        Self { asked: Some((event.to_owned(), Some(form.to_owned()))), reason }
    }

    /// As what it came from, if it says of an event that it cannot be counted here.
    pub fn not_here(&self) -> Option<CountRefusal> {
        let (event, form) = self.asked.as_ref()?;
        let not_here = CountRefusal::NotHere { event: event.clone(), reason: self.reason.clone() };
        form.is_none().then_some(not_here)
    }

    /// Why, beside the name of the event: what is about it alone does not name it again.
    pub fn beside(&self, event: &str) -> String {
        match &self.asked {
            Some((asked, _)) if asked == event => self.reason.clone(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for EventRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((event, form)) = &self.asked {
            match form {
                Some(form) => write!(f, "{event} ({form}): ")?,
                None => write!(f, "{event} cannot be counted: ")?,
            }
        }
        f.write_str(&self.reason)
    }
}

impl From<CountRefusal> for EventRefusal {
    fn from(refusal: CountRefusal) -> Self {
        match refusal {
            CountRefusal::NotHere { event, reason } => Self { asked: Some((event, None)), reason },
            other => other.to_string().into(),
        }
    }
}

impl From<String> for EventRefusal {
    fn from(reason: String) -> Self {
        Self { asked: None, reason }
    }
}

impl From<&str> for EventRefusal {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl From<EventRefusal> for String {
    fn from(refusal: EventRefusal) -> Self {
        refusal.to_string()
    }
}

impl Value {
    /// The count, scaled up to the time it was switched on if it shared its counter.
    pub fn estimate(&self) -> Option<f64> {
        match *self {
            Self::Counted { raw, enabled_ns, running_ns } if running_ns > 0 => {
                let share = enabled_ns as f64 / running_ns as f64;
                Some(if enabled_ns > running_ns { raw as f64 * share } else { raw as f64 })
            }
            _ => None,
        }
    }

    /// The count if it had its counter all the time.
    pub fn exact(&self) -> Option<u64> {
        match *self {
            Self::Counted { raw, enabled_ns, running_ns } if running_ns > 0 && running_ns >= enabled_ns => {
                Some(raw)
            }
            _ => None,
        }
    }

    /// Of the time it was switched on, the share it had a counter.
    pub fn running_share(&self) -> Option<f64> {
        match *self {
            Self::Counted { enabled_ns, running_ns, .. } if enabled_ns > 0 => {
                Some((running_ns as f64 / enabled_ns as f64).min(1.0))
            }
            _ => None,
        }
    }
}
