//! Trust beside a value: what the validation of a machine says of the indicator behind it.

use serde::{Deserialize, Serialize};

use crate::{Indicator, Trust};

/// The validation that trust comes from, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Basis {
    /// This very machine was validated.
    Validated {
        /// Seconds since 1970; 0 of a simulated machine.
        measured_at: u64,
        /// The model that was simulated.
        simulated: Option<String>,
        /// With `--quick`.
        quick: bool,
        /// To its end.
        complete: bool,
        /// Indicators that were judged, untested ones not counted.
        judged: usize,
    },
    /// Nothing can be said: every indicator is untested.
    Missing {
        /// Why, and what to type.
        reason: String,
    },
}

/// What a validation says of the indicator behind a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The indicator that was judged: the event itself, or the sum or quotient that a metric is.
    pub indicator: Indicator,
    /// What it was judged as.
    pub purpose: String,
    /// The verdict.
    #[serde(flatten)]
    pub trust: Trust,
}

impl Standing {
    /// Whether the value must not be used.
    pub fn is_broken(&self) -> bool {
        matches!(self.trust, Trust::Broken { .. })
    }
}

/// A value of an indicator that tells two states of this machine apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The indicator.
    pub indicator: Indicator,
    /// Above this the state is the one of [`Threshold::means`].
    pub value: f64,
    /// Unit of the value: `cycles`, `share of user time`.
    pub unit: String,
    /// What it means to be above it.
    pub means: String,
    /// How it was found.
    pub how: String,
}
