//! What relief found, beside what samples say.

use record::{
    ids::FunctionId,
    relief::{Bounded, ReliefCost},
};
use serde::{Deserialize, Serialize};

use super::TimeShare;

/// Whether two ways to the same share meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Their intervals meet.
    Agree,
    /// They do not: one of them is wrong.
    Disagree,
    /// Relief took away waiting for branches as well, and says only how much it is at most.
    MemoryOrBranches,
    /// Relief says nothing.
    NotMeasured,
}

/// One loop, by samples and by relief.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelievedFinding {
    /// The function it is in.
    pub name: String,
    /// Which one of the recording that is.
    pub function: Option<FunctionId>,
    /// File and line of its first instruction, if known.
    pub source: Option<String>,
    /// Share of the samples of all threads.
    pub user_share: f64,
    /// Its share of waiting for memory, as samples say.
    pub by_samples: TimeShare,
    /// As relief says.
    pub by_relief: Option<TimeShare>,
    /// Whether they meet.
    pub agreement: Agreement,
    /// Nanoseconds of a turn with its data in the first cache.
    pub near_ns: Option<Bounded>,
    /// Nanoseconds of a turn in the program.
    pub turn_ns: Option<Bounded>,
    /// Stretches that were tried.
    pub stretches: u64,
    /// It changes lines atomically: what contention costs is not in it.
    pub has_atomics: bool,
    /// Why relief says nothing.
    pub refusal: Option<String>,
}

/// What relief found in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReliefFindings {
    /// Each loop, the hottest first.
    pub loops: Vec<RelievedFinding>,
    /// Why it says nothing of the whole run.
    pub refusal: Option<String>,
    /// What it cost the program.
    pub cost: Option<ReliefCost>,
    /// What it would decide where nobody asked for it, and what that would cost.
    pub hint: Option<String>,
}

impl ReliefFindings {
    /// There is nothing to say.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
