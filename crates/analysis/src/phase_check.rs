//! A phase whose truth was measured beside it: how close an answer comes.
//!
//! The truth of a phase is what it saves with its data in the first cache, as a share of its time: the same steps on the
//! phase's own data and on little data, both timed by the processor's clock.

use serde::{Deserialize, Serialize};

use crate::{
    findings::{KnownLimits, TimeShare},
    statistics::quantile,
};

/// Name and version of the form in which checks are written as JSON.
pub const SCHEMA: &str = "memwall.demo/1";

/// A truth that is known no better than this cannot judge anything.
const WIDEST_TRUTH: f64 = 0.3;

/// A share that is known no better than this is not an answer, as for verdicts.
const WIDEST_ANSWER: f64 = 0.45;

/// One phase: what is true of it, and what was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCheck {
    /// The function that does its work.
    pub name: String,
    /// What it does, in a few words.
    pub about: String,
    /// Share of its time that it waits for memory, as measured.
    pub truth: KnownLimits<TimeShare>,
    /// The same as samples of it say.
    pub answer: KnownLimits<TimeShare>,
}

/// How close an answer comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Closeness {
    /// The intervals meet; so far apart are the values.
    Agrees {
        /// Of share.
        difference: f64,
    },
    /// They do not.
    Disagrees {
        /// Of share.
        difference: f64,
    },
    /// One of them is not known well enough to tell.
    Undecided(String),
}

impl PhaseCheck {
    /// Compares the two.
    pub fn closeness(&self) -> Closeness {
        let (truth, answer) = match (&self.truth, &self.answer) {
            (KnownLimits::Missing(reason), _) | (_, KnownLimits::Missing(reason)) => {
                return Closeness::Undecided(reason.clone());
            }
            (KnownLimits::Value(truth), KnownLimits::Value(answer)) => (truth, answer),
        };
        let difference = (truth.value - answer.value).abs();
        // Whoever leaves much open and is wrong all the same is wrong.
        if truth.low > answer.high || answer.low > truth.high {
            return Closeness::Disagrees { difference };
        }
        if answer.high - answer.low > WIDEST_ANSWER {
            let [low, high] = [answer.low, answer.high].map(|share| share * 100.0);
            return Closeness::Undecided(format!("memwall leaves it open: {low:.0} to {high:.0} %"));
        }
        Closeness::Agrees { difference }
    }
}

/// The share of waiting of a phase of which a step takes `own_ns`, where the same step on little data took as long as each
/// of `near_ns` says.
pub fn truth(own_ns: f64, near_ns: &[f64]) -> KnownLimits<TimeShare> {
    let mut sorted: Vec<f64> = near_ns.iter().copied().filter(|ns| ns.is_finite() && *ns > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let saved = |ns: f64| (1.0 - ns / own_ns).clamp(0.0, 1.0);
    // The outermost of many measurements are those that were disturbed.
    let ends = [0.9, 0.5, 0.1].map(|part| quantile(&sorted, part).map(saved));
    let [Some(low), Some(value), Some(high)] = ends else {
        return KnownLimits::Missing("the program did not get far enough to be timed".to_owned());
    };
    if !own_ns.is_finite() || own_ns <= 0.0 {
        return KnownLimits::Missing("the program did not get far enough to be timed".to_owned());
    }
    if high - low > WIDEST_TRUTH {
        return KnownLimits::Missing(format!(
            "the machine is too busy to know the truth: between {:.0} and {:.0} %",
            low * 100.0,
            high * 100.0
        ));
    }
    KnownLimits::Value(TimeShare { value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(truth: KnownLimits<TimeShare>, (value, low, high): (f64, f64, f64)) -> Closeness {
        let answer = KnownLimits::Value(TimeShare { value, low, high });
        PhaseCheck { name: "walk".to_owned(), about: String::new(), truth, answer }.closeness()
    }

    #[test]
    fn the_truth_is_what_little_data_saves() {
        let near: Vec<f64> = (0..11).map(|part| 20.0 + f64::from(part)).collect();
        let KnownLimits::Value(share) = truth(100.0, &near) else { panic!("it is known") };
        assert!((share.value - 0.75).abs() < 1e-9, "{share:?}");
        assert!((share.low - 0.71).abs() < 1e-9 && (share.high - 0.79).abs() < 1e-9, "{share:?}");
        // It cannot wait less than not at all, although a clock may say so.
        let KnownLimits::Value(none) = truth(100.0, &[101.0, 102.0, 103.0]) else { panic!("it is known") };
        assert_eq!((none.low, none.value, none.high), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_truth_that_varies_judges_nothing() {
        assert!(truth(100.0, &[10.0, 50.0, 90.0]).missing().is_some_and(|reason| reason.contains("busy")));
        for (own, near) in [(f64::NAN, &[1.0][..]), (0.0, &[1.0]), (10.0, &[]), (10.0, &[0.0])] {
            assert!(truth(own, near).value().is_none(), "{own} {near:?}");
        }
        let Closeness::Undecided(why) = check(truth(0.0, &[]), (0.5, 0.4, 0.6)) else { panic!("undecided") };
        assert!(why.contains("timed"), "{why}");
    }

    #[test]
    fn answers_agree_disagree_or_leave_it_open() {
        let known =
            |value: f64| KnownLimits::Value(TimeShare { value, low: value - 0.01, high: value + 0.01 });
        let Closeness::Agrees { difference } = check(known(0.9), (0.8, 0.7, 0.95)) else { panic!("agrees") };
        assert!((difference - 0.1).abs() < 1e-9);
        let Closeness::Disagrees { difference } = check(known(0.9), (0.5, 0.4, 0.6)) else {
            panic!("disagrees")
        };
        assert!((difference - 0.4).abs() < 1e-9);
        assert!(matches!(check(known(0.9), (0.5, 0.1, 0.95)), Closeness::Undecided(_)));
        // An open answer that leaves the truth out is wrong.
        assert!(matches!(check(known(0.9), (0.3, 0.0, 0.6)), Closeness::Disagrees { .. }));
    }
}
