//! Whether something is held back by memory, in a word or two.

use analysis::{
    findings::{Confidence, HeldBack},
    regions::RegionWaiting,
};

/// The answer, and how sure it is.
pub fn held_back(found: &RegionWaiting) -> String {
    let answer = match found.held_back {
        HeldBack::Yes => "yes",
        HeldBack::Partly => "partly",
        HeldBack::No => "no",
        HeldBack::Unknown => return "cannot be told".to_owned(),
    };
    let sure = match found.confidence {
        Confidence::High => "",
        Confidence::Medium => ", medium",
        Confidence::Low => ", low",
    };
    format!("{answer}{sure}")
}
