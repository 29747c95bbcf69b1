//! What can be measured on a machine, as tried.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The result of `memwall doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkup {
    /// `memwall.doctor/1`.
    pub schema: String,
    /// One row per capability.
    pub rows: Vec<Capability>,
    /// The best instrument for this machine.
    pub instrument: BestInstrument,
    /// Why that one, in a sentence.
    pub because: String,
    /// What cannot be told here, one sentence each.
    pub cannot_tell: Vec<String>,
}

/// One thing that may or may not be possible here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// Stable key for machines, such as `core_pmu`.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// What came of trying.
    pub state: CapabilityState,
    /// What was found, or what went wrong, with the errno's name where there is one.
    pub detail: String,
    /// How it was tried.
    pub tried: String,
    /// What it makes possible.
    pub unlocks: String,
    /// The exact command that would make it available; `None` if found, or if nothing the user types can help.
    pub unlock_with: Option<String>,
}

/// What came of trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityState {
    /// It works.
    Found,
    /// The machine does not have it.
    Missing,
    /// It is, or may be, there, and a permission or setting keeps us out.
    Blocked,
}

/// A folder of a memwall that was killed, or that kept it for its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Of the files in it.
    pub bytes: u64,
    /// How it goes away.
    pub fate: LeftoverFate,
}

/// How a leftover goes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverFate {
    /// `run` and `record` remove it when they begin.
    NextRecording,
    /// `count` removes it when it next monitors caches or memory traffic.
    NextCount,
    /// As with the next recording, once these processes have ended: they still use what is in it.
    NeededBy(Vec<u32>),
    /// Its user removes it: it was kept for them, or nobody can tell whether it is in use.
    ByHand,
}

/// The sources of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BestInstrument {
    /// Hardware events.
    Pmu,
    /// Clock samples with user registers.
    Timer,
    /// A stopwatch and interference threads.
    Squeeze,
}
