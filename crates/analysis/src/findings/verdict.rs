//! The answer in short.

use serde::{Deserialize, Serialize};
use trust::{ErrorSummary, PartStanding, Standing, TrustPart};

use super::{KnownLimits, ThreadActivity, TimeShare};

/// Is the program held back by memory?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The answer.
    pub held_back: HeldBack,
    /// Waiting on loads, stores, atomics and fences, as a share of user time; none without samples.
    pub memory: Option<TimeShare>,
    /// The same as a share of user time that does not itself wait for other threads, which is what the answer goes by; none where
    /// no thread waits for another, or all of them nearly always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_of_work: Option<TimeShare>,
    /// Waiting on loads alone, as a share of user time; none without samples.
    pub loads: Option<TimeShare>,
    /// What the core waited for most, if it waited more than noise.
    pub largest: Option<ThreadActivity>,
    /// Its share of user time.
    pub largest_share: Option<TimeShare>,
    /// Whether the waiting for memory looks like latency or like bandwidth.
    pub nature: KnownLimits<Nature>,
    /// What validation found on this machine of the shares it rests on, or why it found nothing.
    pub trust: KnownLimits<Standing>,
    /// What random kernels showed on this machine of the classes and levels the time is in; none if none were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consulted: Vec<ConsultedPart>,
    /// How sure.
    pub confidence: Confidence,
    /// Why that sure and no more, in plain sentences.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// Of fewer samples nothing is said: no share, no table, no advice.
    pub const FEWEST_SAMPLES: u64 = 30;
}

/// A class or a level that a program's time is in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsultedPart {
    /// Which.
    pub part: TrustPart,
    /// Share of the samples in such code; one loop may be in several classes.
    pub share: f64,
    /// What answers about such code are worth on this machine.
    pub standing: PartStanding,
    /// The errors behind that.
    pub errors: ErrorSummary,
}

/// Held back by memory or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBack {
    /// Waiting for memory takes at least [`HeldBack::YES`] of user time.
    Yes,
    /// At least [`HeldBack::PARTLY`].
    Partly,
    /// Less.
    No,
    /// The samples do not tell: too few, or too many undecided.
    Unknown,
}

impl HeldBack {
    /// From this share of user time on, memory holds a program back.
    pub const YES: f64 = 0.4;
    /// From this share on, it does so partly.
    pub const PARTLY: f64 = 0.15;
    /// So close to a limit the words on both of its sides are right.
    pub const MARGIN: f64 = 0.05;
}

/// How waiting for memory looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// One access waits for another: pointer chasing, random places.
    Latency,
    /// Many lines in turn, near what the machine can move.
    Bandwidth,
    /// Many lines in turn, but not known to be near that.
    Streams,
    /// Some of both.
    Mixed,
}

/// How far a verdict can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It may be wrong.
    Low,
    /// The tendency holds, the numbers may be off.
    Medium,
    /// Within the accuracy the instrument has on known kernels.
    High,
}
