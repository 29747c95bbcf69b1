use record::doctor::BestInstrument;

use super::*;

fn row(key: &str, state: CapabilityState) -> Capability {
    Capability {
        key: key.to_owned(),
        name: key.replace('_', " "),
        state,
        detail: "EACCES".to_owned(),
        tried: String::new(),
        unlocks: String::new(),
        unlock_with: (state == CapabilityState::Blocked)
            .then(|| "sudo sysctl kernel.perf_event_paranoid=-1".to_owned()),
    }
}

fn checkup(rows: &[(&str, CapabilityState)]) -> Checkup {
    Checkup {
        schema: String::new(),
        rows: rows.iter().map(|(key, state)| row(key, *state)).collect(),
        instrument: BestInstrument::Timer,
        because: String::new(),
        cannot_tell: Vec::new(),
    }
}

fn ask(rows: &[(&str, CapabilityState)], topic: MethodTopic, purpose: MethodPurpose) -> MethodQuestion {
    let (checkup, trust) = (checkup(rows), TrustCatalogue::missing("nobody tried"));
    let events = Catalogue::named("haswell-ep").ok();
    question(&MethodsMachine { checkup: &checkup, trust: &trust, events, simulated: None }, topic, purpose)
}

use CapabilityState::{Blocked, Found, Missing};

#[test]
fn privileges_and_purpose_decide() {
    let all = [("core_pmu", Found), ("uncore_memory_controllers", Found), ("clock_sampling", Found)];
    let exact = ask(&all, MethodTopic::Bandwidth, MethodPurpose::Exact);
    assert_eq!(exact.chosen.as_deref(), Some("controllers"), "{exact:?}");
    assert_eq!(exact.choice().and_then(|method| method.group.as_deref()), Some("MEM"));
    let diagnose = ask(&all, MethodTopic::Bandwidth, MethodPurpose::Diagnose);
    assert_eq!(diagnose.chosen.as_deref(), Some("real-latency"), "latency tells harm from harmless traffic");
    // Without the right to look at the whole machine, and what would give it.
    let less = [("core_pmu", Found), ("uncore_memory_controllers", Blocked)];
    let exact = ask(&less, MethodTopic::Bandwidth, MethodPurpose::Exact);
    assert_eq!(exact.chosen.as_deref(), Some("l3-lines"));
    assert_eq!(exact.unlocks.len(), 1);
    assert!(exact.unlocks[0].1.contains("perf_event_paranoid"));
    // No PMU at all: a cloud guest.
    let guest =
        [("core_pmu", Missing), ("clock_sampling", Found), ("user_registers", Found), ("pinning", Found)];
    let diagnose = ask(&guest, MethodTopic::Bandwidth, MethodPurpose::Diagnose);
    assert_eq!(diagnose.chosen.as_deref(), Some("timer-share"));
    assert_eq!(ask(&guest, MethodTopic::Bandwidth, MethodPurpose::Exact).chosen, None);
    assert_eq!(ask(&guest, MethodTopic::Data, MethodPurpose::Exact).chosen.as_deref(), Some("timer-data"));
    assert!(diagnose.because.contains("nobody has tried it"));
}

#[test]
fn off_core_responses_answer_for_one_program_and_say_what_they_lack() {
    let less = [("core_pmu", Found), ("uncore_memory_controllers", Blocked)];
    let exact = ask(&less, MethodTopic::Bandwidth, MethodPurpose::Exact);
    let found = exact.methods.iter().find(|method| method.key == "offcore").unwrap();
    assert_eq!((&found.state, found.group.as_deref()), (&MethodState::Allowed, Some("OFFCORE")));
    assert!(found.sees.contains("without prefetches"), "{}", found.sees);
    let last = exact.methods.last().map(|method| method.key.as_str());
    assert_eq!(last, Some("offcore"), "prefetches are missing: all others go before it");
}

fn standing(trust: Trust) -> Option<Standing> {
    Some(Standing { indicator: trust::Indicator::event("e"), purpose: "volume".to_owned(), trust })
}

fn method(key: &str, trust: Option<Standing>) -> MethodStanding {
    MethodStanding {
        key: key.to_owned(),
        name: key.to_owned(),
        state: MethodState::Allowed,
        trust,
        sees: String::new(),
        cost: String::new(),
        command: String::new(),
        group: None,
    }
}

#[test]
fn trust_goes_before_rank_and_broken_ones_never_go() {
    let flaw = || trust::Flaw::Factor { ratio: 0.5 };
    let broken = || Trust::Broken { flaw: flaw(), why: "misses some".into(), shown_by: "load".into() };
    let first = method("first", standing(broken()));
    let second = method("second", None);
    let third = method("third", standing(Trust::Trusted { error: 0.01 }));
    let (chosen, because) = choose(&[first.clone(), second.clone(), third]);
    assert_eq!((chosen, because.contains("earned trust")), (Some(2), true));
    assert_eq!(choose(&[first.clone(), second]).0, Some(1), "untested is better than broken");
    let (chosen, because) = choose(&[first]);
    assert_eq!((chosen, because.as_str()), (None, "all that this machine allows is broken here"));
}

#[test]
fn every_method_can_be_proven_somewhere_and_keys_are_distinct() {
    for (index, method) in KNOWN.iter().enumerate() {
        let twice = KNOWN[..index].iter().any(|other| other.key == method.key && other.topic == method.topic);
        assert!(!twice && method.diagnose > 0, "{}", method.key);
        if let Proof::Metric { group, metric } = method.proof {
            let group = MetricGroup::named(group).unwrap();
            assert!(group.metrics.iter().any(|known| known.name == metric), "{metric}");
        }
    }
}

/// It runs no programs, and has no command that asks for one.
#[test]
fn commands_for_a_simulated_machine_are_its_own() {
    let checkup = checkup(&[("core_pmu", Found), ("precise_sampling", Found), ("pinning", Found)]);
    let trust = TrustCatalogue::missing("nobody tried");
    let events = Catalogue::named("haswell-ep").ok();
    let machine =
        MethodsMachine { checkup: &checkup, trust: &trust, events, simulated: Some("haswell-ep-e5-2680v3") };
    let questions = answer(&machine, MethodPurpose::Diagnose).questions;
    let methods = questions.iter().flat_map(|question| &question.methods);
    for method in methods.filter(|method| method.state == MethodState::Allowed) {
        let command = &method.command;
        assert!(
            command.contains("--on sim:haswell-ep-e5-2680v3 ") && !command.contains("./app"),
            "{command}"
        );
    }
    let data = questions.iter().find(|question| question.topic == MethodTopic::Data).unwrap();
    assert_eq!(data.chosen.as_deref(), Some("precise-data"));
}
