//! What was counted, and what was not.

use serde::{Deserialize, Serialize};

/// Where a count was taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
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
    pub place: Place,
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
    /// The kernel or the simulated PMU refused it; the sentence says what was asked, the errno and what to do.
    Refused(String),
    /// Opened, and failed later: what and why.
    Failed(String),
    /// Counted by an event that was found broken on this machine, and left out: how it is broken.
    Broken(String),
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
