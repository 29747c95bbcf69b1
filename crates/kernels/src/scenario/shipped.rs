//! The scenarios that come with memwall.

use super::{
    definition::Scenario,
    parse::{self, ScenarioError},
};
use crate::catalogue::KernelCatalogue;

/// A scenario that comes with memwall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// What users type.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(Shipped { name: $name, text: include_str!(concat!("../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub const ALL: [Shipped; 31] = shipped![
    "bandwidth-compute",
    "latency-phases",
    "load-store-phases",
    "imbalance",
    "producer-consumer",
    "false-sharing",
    "remote-placement",
    "working-set",
    "stream-rate",
    "both",
    "neither",
    "pattern-bandwidth",
    "pattern-bandwidth-not",
    "pattern-branches",
    "pattern-branches-not",
    "pattern-excess",
    "pattern-excess-not",
    "pattern-false-sharing",
    "pattern-imbalance",
    "pattern-imbalance-not",
    "pattern-latency",
    "pattern-latency-not",
    "pattern-numa",
    "pattern-numa-not",
    "pattern-synchronisation",
    "pattern-synchronisation-not",
    "pattern-throughput",
    "pattern-throughput-not",
    "pattern-tlb",
    "pattern-tlb-not",
    "pattern-true-sharing",
];

/// A name that no scenario has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scenario '{0}'; name a file, or one of {names}", names = names())]
pub struct UnknownScenario(pub String);

fn names() -> String {
    ALL.map(|shipped| shipped.name).join(", ")
}

/// The scenario of this name.
pub fn find(name: &str) -> Result<Shipped, UnknownScenario> {
    ALL.into_iter().find(|shipped| shipped.name == name).ok_or_else(|| UnknownScenario(name.to_owned()))
}

impl Shipped {
    /// Reads it, with values for its variables.
    pub fn parse(
        &self,
        catalogue: &KernelCatalogue,
        settings: &[(String, String)],
    ) -> Result<Scenario, ScenarioError> {
        parse::parse(self.text, &format!("{}.toml", self.name), catalogue, settings)
    }
}
