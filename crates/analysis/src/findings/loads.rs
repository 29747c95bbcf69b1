//! Findings about loads that the processor sampled itself.

use record::{
    ids::{FunctionId, ModuleId},
    loads::DataOrigin,
};
use serde::{Deserialize, Serialize};

use super::{KnownLimits, ObjectId};

/// Sampled loads: all of them, by function and by object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFindings {
    /// All together.
    pub all: LoadSummary,
    /// By function, those with most first.
    pub functions: Vec<FunctionLoads>,
    /// By the object they read, those with most first; loads without an address are in none.
    pub objects: Vec<ObjectLoads>,
}

/// Sampled loads of one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionLoads {
    /// Which function of the recording it is; none of code that belongs to no known function.
    pub function: Option<FunctionId>,
    /// The name for people, as elsewhere in the findings.
    pub name: String,
    /// Which module of the recording it is in.
    pub module_id: ModuleId,
    /// The module's path, if the recording has it.
    pub module: Option<String>,
    /// What they say.
    pub loads: LoadSummary,
}

/// Sampled loads of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectLoads {
    /// Which one it is in the recording.
    pub id: ObjectId,
    /// The name for people, as elsewhere in the findings.
    pub name: String,
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
    /// The same of those alone that memory of the own node served and that waited for no page walk: what helm2019 §6.1 takes for the
    /// latency of memory.
    pub memory_cycles: KnownLimits<f64>,
    /// How many these are.
    pub memory_samples: u64,
    /// How many waited for a page walk, whoever served them.
    pub walked_samples: u64,
    /// Where their data came from, the nearest first: how many of them. Those of which the processor did not say are in
    /// none.
    pub origins: Vec<(DataOrigin, u64)>,
}
