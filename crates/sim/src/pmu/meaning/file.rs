//! The form of a file.

use std::collections::BTreeMap;

use events::Unit;
use serde::Deserialize;

use crate::signal::{BoxSignal, CoreSignal};

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeaningFile {
    /// Another file whose events these add to, or take the place of.
    pub like: Option<String>,
    #[serde(default)]
    pub event: Vec<FileEvent>,
    #[serde(default)]
    pub refused: Vec<RefusedEntry>,
    #[serde(default)]
    pub flaw: Vec<FlawEntry>,
    pub offcore: Option<OffcoreEntry>,
}

/// An event code.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEvent {
    pub unit: Unit,
    pub code: u64,
    /// In words.
    pub about: String,
    /// The mask is a number, not a set of bits.
    #[serde(default)]
    pub exact: bool,
    pub masks: Vec<MaskEntry>,
}

/// What a unit mask stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MaskEntry {
    #[serde(default)]
    pub umask: u64,
    /// Signals that add up.
    #[serde(default)]
    pub is: Vec<String>,
    #[serde(default = "one")]
    pub weight: u32,
    #[serde(default)]
    pub when: ConditionEntry,
    /// Fields that must have these values.
    #[serde(default)]
    pub with: BTreeMap<String, u64>,
    /// Fields that are understood and change nothing.
    #[serde(default)]
    pub ignores: Vec<String>,
    /// Why it never happens here: adds nothing beside others, and is refused alone.
    pub never: Option<String>,
}

fn one() -> u32 {
    1
}

/// How a signal enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConditionEntry {
    #[default]
    Value,
    Any,
    None,
    /// As many as the superqueue has entries.
    Full,
}

/// An event without a mechanism.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefusedEntry {
    pub unit: Unit,
    pub code: u64,
    pub umask: Option<u64>,
    pub why: String,
}

/// An erratum.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlawEntry {
    pub code: u64,
    pub umask: u64,
    /// Of what happens it counts so many in a hundred.
    pub seen_percent: u32,
    /// Only on cores with so many hardware threads.
    #[serde(default)]
    pub threads: u32,
    #[expect(dead_code, reason = "for the reader of the file")]
    pub erratum: String,
    #[expect(dead_code, reason = "for the reader of the file")]
    pub source: String,
}

/// Off-core response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OffcoreEntry {
    /// Event codes with mask 1 that use the filter registers.
    pub codes: Vec<u64>,
    /// The bit that stands for any answer.
    pub any: u32,
    pub requests: Vec<OffcoreRequest>,
    pub answers: Vec<OffcoreAnswer>,
}

/// Bits of the filter that ask for a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OffcoreRequest {
    pub bit: u32,
    /// Which; none if the simulated core never makes it.
    pub is: Option<String>,
}

/// An answer: one bit of each list must be in the filter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OffcoreAnswer {
    pub is: String,
    pub supplier: Vec<u32>,
    pub snoop: Vec<u32>,
}

impl FileEvent {
    /// All names exist, and no two parts stand for the same.
    pub fn check(&self) -> Result<(), String> {
        let place = format!("{:?} event {:#x} ({})", self.unit, self.code, self.about);
        for mask in &self.masks {
            let known = |name: &String| match self.unit {
                Unit::Core => CoreSignal::named(name).is_some(),
                _ => BoxSignal::named(name).is_some(),
            };
            if let Some(name) = mask.is.iter().find(|name| !known(name)) {
                return Err(format!("{place}: no signal '{name}'"));
            }
            if mask.is.is_empty() == mask.never.is_none() {
                return Err(format!("{place}: mask {:#x} needs either 'is' or 'never'", mask.umask));
            }
        }
        Ok(())
    }
}

impl MaskEntry {
    /// Whether a field has a meaning for it.
    pub fn knows(&self, field: &str) -> bool {
        self.with.contains_key(field) || self.ignores.iter().any(|known| known == field)
    }
}
