//! What probes before and after a program found.

use machine::probe::ProbeReading;
use serde::{Deserialize, Serialize};

/// One of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// Nobody asked for it.
    #[default]
    NotAsked,
    /// It was left out, for this reason.
    LeftOut(String),
    /// What it found.
    Reading(ProbeReading),
}

impl ProbeOutcome {
    /// What it found, if it was taken.
    pub fn reading(&self) -> Option<&ProbeReading> {
        match self {
            Self::Reading(reading) => Some(reading),
            Self::NotAsked | Self::LeftOut(_) => None,
        }
    }
}

/// Both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// Before the program began.
    pub before: ProbeOutcome,
    /// After it ended.
    pub after: ProbeOutcome,
}
