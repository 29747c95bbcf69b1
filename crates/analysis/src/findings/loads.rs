//! Findings about loads that the processor sampled itself.

use record::loads::DataOrigin;
use serde::{Deserialize, Serialize};

use super::KnownLimits;

/// Sampled loads: all of them, by function and by object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFindings {
    /// All together.
    pub all: LoadSummary,
    /// By function, those with most first.
    pub functions: Vec<LoadsOf>,
    /// By the object they read, those with most first; loads without an address are in none.
    pub objects: Vec<LoadsOf>,
}

/// Sampled loads of one function or object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadsOf {
    /// The function or the object, as elsewhere in the findings.
    pub name: String,
    /// The module of a function.
    pub module: Option<String>,
    /// What they say.
    pub loads: LoadSummary,
}

/// What some sampled loads say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// How many.
    pub samples: u64,
    /// Median of the cycles to their data, of those whose latency is known.
    pub median_cycles: KnownLimits<f64>,
    /// Where their data came from, the nearest first: how many of them. Those of which the processor did not say are in
    /// none.
    pub origins: Vec<(DataOrigin, u64)>,
}
