//! Whether something is held back by memory, in a word or two.

use analysis::{
    findings::{Confidence, HeldBack},
    regions::RegionWaiting,
};

use super::figures::percent_text;

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
    match &found.memory_of_work {
        Some(work) => format!("{answer}{sure}: {} % of its work", percent_text(work.value)),
        None => format!("{answer}{sure}"),
    }
}

#[cfg(test)]
mod tests {
    use analysis::findings::{Split, TimeShare};

    use super::*;

    #[test]
    fn where_threads_wait_for_each_other_the_rest_is_what_the_answer_goes_by() {
        let share = |value| TimeShare { value, low: value, high: value };
        let split = Split {
            samples: 100,
            loads: 0.16,
            stores: 0.0,
            atomics: 0.0,
            divides: 0.0,
            chains: 0.0,
            first_cache: 0.0,
            branches: 0.0,
            other_threads: 0.84,
            executing: 0.0,
            undecided: 0.0,
        };
        let mut found = RegionWaiting {
            held_back: HeldBack::Yes,
            memory: Some(share(0.16)),
            memory_of_work: Some(share(0.98)),
            confidence: Confidence::Medium,
            split,
            level: None,
            object: None,
            symbols: Vec::new(),
        };
        assert_eq!(held_back(&found), "yes, medium: 98 % of its work");
        found.memory_of_work = None;
        assert_eq!(held_back(&found), "yes, medium");
    }
}
