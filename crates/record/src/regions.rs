//! Regions of the program, as it marked them itself, and which samples lie in them.

use serde::{Deserialize, Serialize};

use crate::ids::ThreadId;

/// A region by its place in [`Regions::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RegionId(pub u32);

impl RegionId {
    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the program marked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regions {
    /// All of them, in the order they first began.
    pub list: Vec<Region>,
    /// The innermost region of each sample of time; empty if none lies in any.
    pub of_samples: Vec<Option<RegionId>>,
    /// The same of each sample of a burst.
    pub of_bursts: Vec<Option<RegionId>>,
    /// Who was there, how often and for how long.
    pub visits: Vec<RegionVisits>,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// As the program called it, or as its code is called.
    pub name: String,
    /// The program gave it no name: it is a parallel region of OpenMP.
    pub is_parallel: bool,
}

/// What one thread did in one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionVisits {
    /// Which.
    pub region: RegionId,
    /// Who.
    pub thread: ThreadId,
    /// How often, without those to be skipped.
    pub visits: u64,
    /// Of these, so many had not ended when the recording did.
    pub unended: u64,
    /// From beginnings to ends, on the clock; what lies within other regions counts in both.
    pub wall_ns: u64,
}
