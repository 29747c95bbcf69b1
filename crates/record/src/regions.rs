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
    /// Events that the program said it had done with; none if it said nothing.
    pub events: Option<EventsDone>,
}

/// Events that the program works on, as it says when each is done (kruse2011 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsDone {
    /// How many.
    pub done: u64,
    /// The first so many do not count: regions that began before they were done are left out.
    pub skipped: u64,
    /// When the last of these was done, or the first of all if none is skipped: from here on time is told. None if fewer were done.
    pub first_ns: Option<u64>,
    /// When the last of all was done.
    pub last_ns: u64,
}

impl EventsDone {
    /// What an event takes on average; none if fewer than one was timed.
    pub fn mean_ns(&self) -> Option<f64> {
        let timed = self.done.checked_sub(self.skipped.max(1)).filter(|timed| *timed > 0)?;
        Some(self.last_ns.saturating_sub(self.first_ns?) as f64 / timed as f64)
    }
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
    /// Of that, waiting for other threads at barriers, as far as OpenMP's runtime tells; none where it does not.
    pub waits_ns: Option<u64>,
    /// What the kernel counted; none if no visit was counted.
    pub counts: Option<RegionCounts>,
}

/// What the kernel counted of a thread in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCounts {
    /// Visits that were counted: of regions that follow each other within microseconds only some are.
    pub visits: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times that a thread gave up its CPU.
    pub voluntary_switches: u64,
    /// Times that its CPU was taken from it.
    pub involuntary_switches: u64,
}

impl RegionCounts {
    /// All page faults.
    pub fn page_faults(&self) -> u64 {
        self.minor_faults + self.major_faults
    }

    /// All context switches.
    pub fn context_switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// Of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            visits: self.visits + other.visits,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}
