//! The form of a pattern file, and those that come with memwall.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::AccessWord;
use crate::findings::ThreadActivity;

/// Which files there are; each is read by a test.
pub(super) const FILES: [(&str, &str); 11] = [
    ("bandwidth-saturation", include_str!("../../patterns/bandwidth-saturation.toml")),
    ("latency-bound", include_str!("../../patterns/latency-bound.toml")),
    ("load-imbalance", include_str!("../../patterns/load-imbalance.toml")),
    ("false-sharing", include_str!("../../patterns/false-sharing.toml")),
    ("true-sharing", include_str!("../../patterns/true-sharing.toml")),
    ("numa-placement", include_str!("../../patterns/numa-placement.toml")),
    ("tlb-thrashing", include_str!("../../patterns/tlb-thrashing.toml")),
    ("synchronisation", include_str!("../../patterns/synchronisation.toml")),
    ("excess-volume", include_str!("../../patterns/excess-volume.toml")),
    ("instruction-throughput", include_str!("../../patterns/instruction-throughput.toml")),
    ("control-flow", include_str!("../../patterns/control-flow.toml")),
];

/// A pattern as its file has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownPattern {
    /// Its name, as that of its file.
    pub name: String,
    /// For people.
    pub title: String,
    /// What kind of problem it is.
    pub class: PatternClass,
    /// What it is, in a sentence.
    pub about: String,
    /// Paper and section.
    pub source: String,
    /// What to do about it.
    pub advice: String,
    /// A scenario that has it.
    pub has: String,
    /// One that looks like it and has not.
    pub looks_like: String,
    /// In what the second differs.
    pub difference: String,
    /// Ways to know it: one that holds is enough.
    #[serde(rename = "signature")]
    pub signatures: Vec<PatternSignature>,
    /// Sentences about single waits that belong to it.
    #[serde(rename = "remedy", default)]
    pub(crate) remedies: Vec<PatternRemedy>,
}

/// Classes of roehl2016 §2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternClass {
    /// A resource of the machine is used up.
    Bottleneck,
    /// The machine is used in a way that is slow by itself.
    Hazard,
    /// The program does more than it must, or divides it badly.
    Work,
}

impl PatternClass {
    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Bottleneck => "bottleneck",
            Self::Hazard => "hazard",
            Self::Work => "work problem",
        }
    }
}

/// Where a signature's indicators come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignSource {
    /// `memwall run`: samples of the clock, addresses, regions, times of threads. No PMU is needed.
    Samples,
    /// `memwall count --patterns`: events of the PMU, or of a simulated one.
    Events,
    /// `memwall run --threads`: samples, and how the program takes more threads. Not looked at in other runs.
    Scaling,
}

/// Signs that belong together: all must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternSignature {
    /// Where they come from.
    pub from: SignSource,
    /// Groups of events that have to be counted.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The indicator that says what could be won at most; none where nobody can say.
    pub win: Option<String>,
    /// The indicator that says about how much could be won, where more may hang on it than is counted.
    pub win_about: Option<String>,
    /// The signs.
    #[serde(rename = "sign")]
    pub signs: Vec<PatternSign>,
    /// Signs that must hold as well where it was run with several numbers of threads.
    #[serde(default)]
    pub scaling: Vec<PatternSign>,
}

/// An indicator and from where on it is a sign.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "SignTable")]
pub struct PatternSign {
    /// Of a run its name, of events `GROUP: metric`.
    pub indicator: String,
    /// From where on it is a sign.
    pub limit: SignLimit,
}

/// From where on an indicator is a sign. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignLimit {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignTable {
    indicator: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl TryFrom<SignTable> for PatternSign {
    type Error = String;

    fn try_from(table: SignTable) -> Result<Self, String> {
        let limit = match (table.at_least, table.at_most) {
            (Some(limit), None) => SignLimit::AtLeast(limit),
            (None, Some(limit)) => SignLimit::AtMost(limit),
            _ => return Err(format!("sign '{}' needs one of at_least and at_most", table.indicator)),
        };
        Ok(Self { indicator: table.indicator, limit })
    }
}

/// A sentence about one kind of waiting.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatternRemedy {
    /// What the core waits for; none of a sentence about lines that threads share.
    pub waits_on: Option<ThreadActivity>,
    /// How the hottest instruction walks through memory, where that matters.
    pub access: Option<AccessWord>,
    /// With `{place}` and the like filled in.
    pub sentence: String,
}

/// A pattern of a file, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<KnownPattern, toml::de::Error> {
    toml::from_str(text)
}

/// The patterns that come with memwall.
pub fn known() -> &'static [KnownPattern] {
    // A file that does not parse is found by a test, not by a user.
    static KNOWN: LazyLock<Vec<KnownPattern>> =
        LazyLock::new(|| FILES.iter().filter_map(|(_, text)| parse(text).ok()).collect());
    &KNOWN
}
