//! What measured curves say about machines with less, and about programs side by side.

use machine::{profile::Estimate, squeezing::SqueezeKind};
use serde::{Deserialize, Serialize};

/// The schema of [`Predictions`].
pub const SCHEMA: &str = "memwall.predict/1";

/// All that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// `memwall.predict/1`.
    pub schema: String,
    /// The programs.
    pub programs: Vec<String>,
    /// What follows, or why nothing does.
    pub answers: Vec<PredictAnswer>,
    /// The best of the mappings asked for, and why.
    pub best: Option<BestMapping>,
    /// What each program was measured with; outside of it nothing is said.
    #[serde(default)]
    pub ranges: Vec<PredictRange>,
}

/// What of a resource a program was measured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictRange {
    /// The program.
    pub program: String,
    /// Of what.
    pub kind: SqueezeKind,
    /// The least that was left, bytes or bytes per second.
    pub least: f64,
    /// All there was.
    pub whole: f64,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictAnswer {
    /// Of which program, where, in words.
    pub what: String,
    /// Time over the time as measured; none if refused.
    pub slowdown: Option<Estimate>,
    /// What most of the loss comes from; none if there is none to speak of.
    pub cause: Option<SqueezeKind>,
    /// Why there is no slowdown.
    pub refused: Option<String>,
}

/// The mapping that costs least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestMapping {
    /// Processes on each socket.
    pub per_socket: usize,
    /// What limits it.
    pub cause: Option<SqueezeKind>,
    /// In a sentence.
    pub why: String,
}
