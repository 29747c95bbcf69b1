//! What the timer instrument is worth, from what it showed on known work.

use machine::profile::Timer;
use trust::{Evidence, Flaw, Indicator, Judged, Purpose, Threshold, Trust};

use super::cases::{Class, Found};
use crate::judge::threshold::{Separation, separate};

/// The indicator of the whole share of waiting for memory.
const SHARES: Indicator = Indicator::ShareOfWaiting;
/// Points by which a share may be off and still be believed.
const CLOSE: f64 = 0.12;
/// Points by which it may be off and still tell much from little.
const ROUGH: f64 = 0.30;
/// Share of the addresses that must be right.
const RIGHT: f64 = 0.95;
/// Addresses that make a judgement.
const ENOUGH: usize = 50;
/// A kernel that waits for more than half of its time is held back; this near to half it is neither.
const HALF: f64 = 0.5;
const NEITHER: f64 = 0.1;

fn judged(name: Indicator, purpose: &str, trust: Trust, evidence: Vec<Evidence>) -> Judged {
    Judged {
        events: vec!["cpu-clock".to_owned()],
        evidence,
        ..Judged::new(name, Purpose::Timer, purpose, "timer", trust)
    }
}

/// A case as one class sees it: truth and what was seen.
struct Seen<'a> {
    found: &'a Found,
    truth: f64,
    seen: f64,
}

impl Seen<'_> {
    fn error(&self) -> f64 {
        (self.seen - self.truth).abs()
    }

    fn evidence(&self) -> Evidence {
        let Found { samples, waiting, .. } = self.found;
        Evidence {
            experiment: self.found.label.clone(),
            truth: Some(self.truth),
            counted: Some(self.seen),
            error: None,
            note: format!("{samples} samples, {:.0} % undecided", waiting.undecided * 100.0),
        }
    }
}

/// By the case that is furthest off.
fn by_worst(seen: &[Seen<'_>], untested: &str) -> Trust {
    let Some(worst) = seen.iter().max_by(|one, other| one.error().total_cmp(&other.error())) else {
        return Trust::Untested { missing: untested.to_owned() };
    };
    let (error, label) = (worst.error(), worst.found.label.clone());
    let points = error * 100.0;
    if error <= CLOSE {
        Trust::Trusted { error }
    } else if error <= ROUGH {
        Trust::Qualitative {
            tells: "whether much or little of the time waits".to_owned(),
            misses: format!("the share itself: off by {points:.0} points in {label}"),
        }
    } else {
        let why = format!("is off by {points:.0} points of the time that waits");
        Trust::Broken { flaw: Flaw::DoesNotFollow { worst: error }, why, shown_by: label }
    }
}

/// The share of waiting for memory, whatever for.
pub fn shares(found: &[Found], untested: &str) -> Judged {
    let seen: Vec<Seen<'_>> = found
        .iter()
        .map(|found| {
            let truth = if found.waits_for.is_memory() { found.truth } else { 0.0 };
            Seen { found, truth, seen: found.waiting.memory() }
        })
        .collect();
    let evidence = seen.iter().map(Seen::evidence).collect();
    judged(SHARES, "share of time waiting for memory", by_worst(&seen, untested), evidence)
}

/// The share of a class by time; none if time does not tell: of loads and stores in copies, of chains behind loads.
fn truth(class: Class, found: &Found) -> Option<f64> {
    match found.waits_for {
        Class::Memory if class.is_memory() => None,
        _ if class == Class::Chains && found.chained => None,
        waits_for if waits_for == class => Some(found.truth),
        _ => Some(0.0),
    }
}

/// Each class of waiting by itself: in kernels that wait for it, and in those that wait for something else.
pub fn classes(found: &[Found], untested: &str) -> Vec<Judged> {
    let verdict = |(class, indicator): (Class, Indicator)| {
        let seen: Vec<Seen<'_>> = found
            .iter()
            .filter_map(|found| {
                Some(Seen { found, truth: truth(class, found)?, seen: class.of(&found.waiting) })
            })
            .collect();
        let own = found.iter().any(|found| found.waits_for == class);
        let trust = match own || found.is_empty() {
            true => by_worst(&seen, untested),
            false => Trust::Untested { missing: "no kernel that was sampled waits for it".to_owned() },
        };
        let evidence = seen.iter().map(Seen::evidence).collect();
        let purpose = format!("share of time waiting on {}", class.name());
        judged(indicator, &purpose, trust, evidence)
    };
    let all = [
        (Class::Loads, Indicator::WaitingOnLoads),
        (Class::Stores, Indicator::WaitingOnStores),
        (Class::Divides, Indicator::WaitingOnDivides),
        (Class::Chains, Indicator::WaitingOnChains),
    ];
    all.map(verdict).to_vec()
}

/// Whether addresses that come back are those of the data.
pub fn addresses(found: &[Found], untested: &str) -> Judged {
    let with_data = || found.iter().filter_map(|found| Some((found, found.addresses?)));
    let samples: usize = with_data().map(|(found, _)| found.samples).sum();
    let known: usize = with_data().map(|(_, known)| known).sum();
    let right: usize = with_data().map(|(found, _)| found.right).sum();
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    let evidence = with_data().map(|(found, known)| Evidence {
        experiment: found.label.clone(),
        truth: Some(known as f64),
        counted: Some(found.right as f64),
        error: None,
        note: format!("{:.0} % of {} samples gave one", share(known, found.samples) * 100.0, found.samples),
    });
    let wrong = 1.0 - share(right, known);
    let worst = with_data().max_by_key(|(found, known)| known - found.right.min(*known));
    let trust = if known < ENOUGH {
        let few = format!("only {known} addresses came back");
        Trust::Untested { missing: if found.is_empty() { untested.to_owned() } else { few } }
    } else if wrong <= 1.0 - RIGHT {
        Trust::Trusted { error: wrong }
    } else {
        let why = format!("{:.0} % of the addresses are not those of the data", wrong * 100.0);
        let shown_by = worst.map_or(String::new(), |(found, _)| found.label.clone());
        Trust::Broken { flaw: Flaw::DoesNotFollow { worst: wrong }, why, shown_by }
    };
    let mut judged =
        judged(Indicator::Addresses, "effective addresses of the data", trust, evidence.collect());
    if samples > 0 {
        judged
            .remarks
            .push(format!("{:.0} % of the samples gave an address.", share(known, samples) * 100.0));
    }
    judged
}

/// The share of waiting on loads above which more than half of the time is waiting, if the instrument can tell.
pub fn threshold(found: &[Found]) -> Option<Threshold> {
    let known: Vec<(f64, bool)> = found
        .iter()
        .filter_map(|found| Some((found.waiting.loads, truth(Class::Loads, found)?)))
        .filter(|(_, truth)| (truth - HALF).abs() >= NEITHER)
        .map(|(seen, truth)| (seen, truth > HALF))
        .collect();
    let Separation { threshold, wrong, of, highest_without, lowest_with } =
        separate(&known).filter(Separation::is_good)?;
    let percent = |share: f64| share * 100.0;
    Some(Threshold {
        indicator: SHARES,
        value: threshold,
        unit: "share of user time waiting on loads".to_owned(),
        means: "more than half of the time is waiting on loads".to_owned(),
        how: format!(
            "kernels that wait from none to nearly all of their time: {wrong} of {of} on the wrong side; up to {:.0} % \
             seen where less than half waits, from {:.0} % where more does",
            percent(highest_without),
            percent(lowest_with)
        ),
    })
}

const SKID: (Indicator, &str) = (Indicator::Skid, "instructions from the one waited for to the sample");

/// Where samples land.
pub fn skid(timer: &Timer) -> Judged {
    let Timer { skid_instructions, landed, samples } = *timer;
    let evidence = vec![Evidence {
        experiment: "chase-dependent".to_owned(),
        truth: Some(1.0),
        counted: Some(f64::from(skid_instructions)),
        error: None,
        note: format!("{:.0} % of {samples} samples landed there", landed * 100.0),
    }];
    let elsewhere = (1.0 - landed) * 100.0;
    let trust = if landed >= 0.5 {
        Trust::Qualitative {
            tells: format!(
                "whom to blame: {:.0} % of the samples land {skid_instructions} behind the instruction waited for",
                landed * 100.0
            ),
            misses: format!("the other {elsewhere:.0} %"),
        }
    } else {
        let why = format!("has no place that holds most samples; the fullest has {:.0} %", landed * 100.0);
        let flaw = Flaw::DoesNotFollow { worst: 1.0 - landed };
        Trust::Broken { flaw, why, shown_by: "chase-dependent".to_owned() }
    };
    judged(SKID.0, SKID.1, trust, evidence)
}

/// The skid could not be measured.
pub fn no_skid(trust: Trust) -> Judged {
    judged(SKID.0, SKID.1, trust, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::{super::Waiting, *};

    fn found(waits_for: Class, truth: f64, waiting: Waiting) -> Found {
        let label = format!("{} {truth}", waits_for.name());
        let chained = false;
        Found { label, waits_for, chained, truth, waiting, samples: 100, addresses: Some(90), right: 90 }
    }

    fn loads(truth: f64, loads: f64) -> Found {
        found(Class::Loads, truth, Waiting { loads, ..Waiting::default() })
    }

    fn class(found: &[Found], name: &str) -> Trust {
        let all = classes(found, "nothing");
        all.into_iter().find(|one| one.name.name().ends_with(name)).expect("the class").trust
    }

    #[test]
    fn shares_are_judged_by_the_one_that_is_furthest_off() {
        let verdict = |found: &[Found]| shares(found, "nothing").trust;
        assert!(matches!(verdict(&[loads(0.9, 0.95), loads(0.0, 0.1)]), Trust::Trusted { .. }));
        assert!(matches!(verdict(&[loads(0.9, 0.95), loads(0.0, 0.2)]), Trust::Qualitative { .. }));
        assert!(matches!(verdict(&[loads(0.9, 0.4)]), Trust::Broken { .. }));
        assert!(matches!(verdict(&[]), Trust::Untested { .. }));
    }

    #[test]
    fn a_class_must_be_seen_where_it_is_and_not_where_another_is() {
        let divides = |divides: f64, loads: f64| {
            found(Class::Divides, 0.9, Waiting { divides, loads, ..Waiting::default() })
        };
        let honest = [loads(0.9, 0.9), divides(0.9, 0.0)];
        assert!(matches!(class(&honest, "divides"), Trust::Trusted { .. }));
        assert!(matches!(class(&honest, "loads"), Trust::Trusted { .. }));
        assert!(matches!(class(&honest, "chains"), Trust::Untested { .. }));
        let mistaken = [loads(0.9, 0.9), divides(0.2, 0.7)];
        assert!(matches!(class(&mistaken, "divides"), Trust::Broken { .. }));
        assert!(matches!(class(&mistaken, "loads"), Trust::Broken { .. }));
        // What copies wait for may be either.
        let either =
            [found(Class::Memory, 0.9, Waiting { stores: 0.9, ..Waiting::default() }), loads(0.5, 0.5)];
        assert!(matches!(class(&either, "loads"), Trust::Trusted { .. }));
    }

    #[test]
    fn the_threshold_lies_where_half_of_the_time_waits() {
        let all = [loads(0.0, 0.1), loads(0.3, 0.25), loads(0.52, 0.9), loads(0.7, 0.55), loads(0.95, 0.9)];
        let found = threshold(&all).expect("a threshold");
        assert!((found.value - 0.4).abs() < 1e-9, "{found:?}");
        assert!(found.how.contains("0 of 4"), "{}", found.how);
        assert_eq!(threshold(&[loads(0.9, 0.9)]), None);
        assert_eq!(threshold(&[loads(0.9, 0.1), loads(0.1, 0.9)]), None);
    }

    #[test]
    fn addresses_outside_the_data_are_wrong_and_few_are_no_answer() {
        let verdict = |known, right| {
            addresses(&[Found { addresses: Some(known), right, ..loads(0.5, 0.5) }], "nothing").trust
        };
        assert!(matches!(verdict(100, 100), Trust::Trusted { .. }));
        assert!(matches!(verdict(100, 50), Trust::Broken { .. }));
        assert!(matches!(verdict(10, 10), Trust::Untested { .. }));
    }

    #[test]
    fn samples_all_over_the_place_tell_nothing() {
        let timer = |landed| Timer { skid_instructions: 1, landed, samples: 400 };
        assert!(matches!(skid(&timer(0.8)).trust, Trust::Qualitative { .. }));
        assert!(matches!(skid(&timer(0.2)).trust, Trust::Broken { .. }));
    }
}
