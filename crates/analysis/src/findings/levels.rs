//! At which level of the machine a program waits.

use machine::profile::LevelName;
use serde::{Deserialize, Serialize};
use trust::LevelScore;

/// Waiting for memory by where the data came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelFindings {
    /// Shares of user time, the largest first.
    pub parts: Vec<LevelPart>,
    /// Share of user time that waits for memory of which nothing tells the level.
    pub unknown: f64,
    /// Were the footprints half as large again, or by as much smaller, most would be waited for here instead: they lie near
    /// a capacity.
    pub or: Option<WaitLevel>,
    /// By how long turns took, beside what lines take from each level, most would be waited for here instead: the two ways
    /// disagree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_time: Option<WaitLevel>,
    /// Where nothing was found to wait, yet may: here, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perhaps: Option<WaitLevel>,
    /// How often levels were named right on random kernels of this machine, if that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earned: Option<LevelScore>,
}

impl LevelFindings {
    /// Where most of the waiting is; none if most of it is at no known level.
    pub fn most(&self) -> Option<LevelPart> {
        self.parts.first().copied().filter(|part| part.share > self.unknown)
    }
}

/// Waiting at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelPart {
    /// Where.
    pub level: WaitLevel,
    /// Share of user time.
    pub share: f64,
}

/// Where data that was waited for came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitLevel {
    /// A cache beyond the first.
    Cache(u32),
    /// Memory.
    Memory,
    /// The cache of another core, which has written the line.
    OtherCore,
    /// Nowhere yet: the address of its page had to be found first.
    Translation,
}

impl WaitLevel {
    /// For people: `L2`, `memory`, `another core's cache`.
    pub fn label(self) -> String {
        match self {
            Self::Cache(level) => format!("L{level}"),
            Self::Memory => "memory".to_owned(),
            Self::OtherCore => "another core's cache".to_owned(),
            Self::Translation => "address translation (TLB)".to_owned(),
        }
    }
}

impl From<&LevelName> for WaitLevel {
    fn from(name: &LevelName) -> Self {
        match name {
            LevelName::Cache(level) => Self::Cache(*level),
            LevelName::Memory { .. } => Self::Memory,
        }
    }
}
