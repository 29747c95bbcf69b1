//! Findings from flagged intervals alone.

use serde::{Deserialize, Serialize};

use super::TimeShare;

/// Code and data named only from the samples inside flagged intervals (helm2019 §7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flagged {
    /// Flagged intervals, at least one.
    pub intervals: u64,
    /// Samples inside them.
    pub samples: u64,
    /// Functions, by [`super::Findings::symbols`], those with most waiting on loads first.
    pub symbols: Vec<FlaggedPart>,
    /// Objects, by [`super::Objects::objects`], those with most waiting on loads first.
    pub objects: Vec<FlaggedPart>,
}

/// What one function or object has of the samples inside flagged intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlaggedPart {
    /// Index in its list.
    pub index: usize,
    /// Samples inside flagged intervals.
    pub samples: u64,
    /// Share of all waiting on loads inside flagged intervals.
    pub load_waiting: TimeShare,
}
