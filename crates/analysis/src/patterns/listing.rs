//! Which patterns there are, and what each needs on a machine.

use record::{doctor::CapabilityState, methods::MethodState};
use serde::{Deserialize, Serialize};

use super::file::{KnownPattern, PatternClass, PatternSign, PatternSignature, SignLimit, SignSource, known};
use crate::methods::MethodsMachine;

/// Name and version of the form in which patterns are listed as JSON.
pub const PATTERNS_SCHEMA: &str = "memwall.patterns/1";

/// All patterns on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternsAnswer {
    /// [`PATTERNS_SCHEMA`].
    pub schema: String,
    /// Each.
    pub patterns: Vec<ListedPattern>,
}

/// One pattern on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedPattern {
    /// Its name.
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
    /// Ways to know it.
    pub signatures: Vec<ListedSignature>,
}

/// A way to know a pattern, on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedSignature {
    /// Where its signs come from.
    pub from: SignSource,
    /// Its signs in words: `imbalance at least 0.15`.
    pub signs: Vec<String>,
    /// Whether this machine can take it.
    pub state: MethodState,
    /// The command that looks for it.
    pub command: String,
}

/// All patterns, and what they need on this machine; `has_profile` if it was calibrated.
pub fn patterns_here(machine: &MethodsMachine<'_>, has_profile: bool) -> PatternsAnswer {
    let patterns = known().iter().map(|pattern| listed(pattern, machine, has_profile));
    PatternsAnswer { schema: PATTERNS_SCHEMA.to_owned(), patterns: patterns.collect() }
}

fn listed(pattern: &KnownPattern, machine: &MethodsMachine<'_>, has_profile: bool) -> ListedPattern {
    let signature = |signature: &PatternSignature| ListedSignature {
        from: signature.from,
        signs: signature
            .signs
            .iter()
            .map(words)
            .chain(signature.scaling.iter().map(|sign| format!("with --threads {}", words(sign))))
            .collect(),
        state: state(signature, machine, has_profile),
        command: match signature.from {
            SignSource::Samples => "memwall run ./app".to_owned(),
            SignSource::Events => "memwall count --patterns ./app".to_owned(),
            SignSource::Scaling => "memwall run --threads 1,2,4 ./app".to_owned(),
        },
    };
    ListedPattern {
        name: pattern.name.clone(),
        title: pattern.title.clone(),
        class: pattern.class,
        about: pattern.about.clone(),
        source: pattern.source.clone(),
        advice: pattern.advice.clone(),
        has: pattern.has.clone(),
        looks_like: pattern.looks_like.clone(),
        difference: pattern.difference.clone(),
        signatures: pattern.signatures.iter().map(signature).collect(),
    }
}

fn words(sign: &PatternSign) -> String {
    match sign.limit {
        SignLimit::AtLeast(limit) => format!("{} at least {limit}", sign.indicator),
        SignLimit::AtMost(limit) => format!("{} at most {limit}", sign.indicator),
    }
}

/// Signs that only a profile gives a meaning to.
const OF_PROFILE: [&str; 3] = ["bandwidth_of_limit", "translation_waiting", "memory_of_peak"];

fn state(signature: &PatternSignature, machine: &MethodsMachine<'_>, has_profile: bool) -> MethodState {
    let key = match signature.from {
        SignSource::Samples | SignSource::Scaling => "clock_sampling",
        SignSource::Events => "core_pmu",
    };
    let row = machine.checkup.rows.iter().find(|row| row.key == key);
    match row.map(|row| (row.state, row)) {
        Some((CapabilityState::Found, _)) => {}
        Some((CapabilityState::Blocked, row)) => {
            let why = format!("{}: {}", row.name, row.detail);
            return MethodState::Blocked { why, unlock_with: row.unlock_with.clone() };
        }
        Some((_, row)) => return MethodState::Missing { why: format!("{}: {}", row.name, row.detail) },
        None => return MethodState::Missing { why: format!("{key} is not known here") },
    }
    if signature.signs.iter().any(|sign| sign.indicator == "remote_waiting") {
        let why = "recordings do not say which node a CPU belongs to; events do".to_owned();
        return MethodState::Missing { why };
    }
    if !has_profile && signature.signs.iter().any(|sign| OF_PROFILE.contains(&sign.indicator.as_str())) {
        let why = "this machine was not calibrated".to_owned();
        return MethodState::Blocked { why, unlock_with: Some("memwall calibrate".to_owned()) };
    }
    MethodState::Allowed
}
