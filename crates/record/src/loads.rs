//! Loads that the processor itself picked, timed and traced to where their data came from (PEBS, IBS).

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::ids::{PlaceId, ThreadId};

/// Where the data of a load came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataOrigin {
    /// The first cache.
    L1,
    /// A line that was already on its way for an earlier access.
    FillBuffer,
    /// The second cache.
    L2,
    /// The last cache of this node.
    L3,
    /// The cache of another core of this node.
    OtherCore,
    /// Memory of this node.
    Dram,
    /// A cache or memory beyond this node.
    Remote,
    /// A device, or memory that is not cached.
    Other,
}

impl DataOrigin {
    /// All of them, the nearest first.
    pub const ALL: [Self; 8] = [
        Self::L1,
        Self::FillBuffer,
        Self::L2,
        Self::L3,
        Self::OtherCore,
        Self::Dram,
        Self::Remote,
        Self::Other,
    ];

    /// The word that files of ours use for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::FillBuffer => "fill_buffer",
            Self::L2 => "l2",
            Self::L3 => "l3",
            Self::OtherCore => "other_core",
            Self::Dram => "dram",
            Self::Remote => "remote",
            Self::Other => "other",
        }
    }

    /// The other way.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.word() == word)
    }

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::FillBuffer => "a line on its way",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::OtherCore => "another core's cache",
            Self::Dram => "DRAM",
            Self::Remote => "a remote node",
            Self::Other => "elsewhere",
        }
    }
}

/// One sampled load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSample {
    /// Nanoseconds since the start of the recording.
    pub time_ns: u64,
    /// Index of the thread.
    pub thread: ThreadId,
    /// CPU it ran on.
    pub cpu: u16,
    /// Index of the place: the load itself.
    pub place: PlaceId,
    /// The address it read; none if the processor did not say.
    pub address: Option<NonZeroU64>,
    /// Cycles to its data; none if the processor did not say.
    pub latency_cycles: Option<u64>,
    /// Where its data came from; none if the processor did not say.
    pub origin: Option<DataOrigin>,
    /// Whether its address was translated without a page walk; none if the processor did not say.
    #[serde(default)]
    pub translated_at_hand: Option<bool>,
}

impl LoadSample {
    /// Its latency is memory's alone: memory had the data, and a page walk was not waited for (helm2019 §6.1). What the processor does not
    /// say is not taken for either.
    pub fn is_of_memory(&self) -> bool {
        matches!(self.origin, Some(DataOrigin::Dram)) && self.translated_at_hand == Some(true)
    }
}

/// The sampled loads of a run, or why there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadSamples {
    /// Nobody asked for them.
    #[default]
    NotAsked,
    /// They were asked for and could not be had, for this reason.
    Refused(String),
    /// In the order they were taken.
    Taken(Vec<LoadSample>),
}

impl LoadSamples {
    /// Those there are.
    pub fn taken(&self) -> &[LoadSample] {
        match self {
            Self::Taken(samples) => samples,
            Self::NotAsked | Self::Refused(_) => &[],
        }
    }
}
