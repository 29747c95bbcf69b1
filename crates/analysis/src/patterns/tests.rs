use super::{
    file::{FILES, parse},
    *,
};
use events::MetricGroup;

fn with(values: &[(&str, f64)]) -> Indicators {
    let mut found = Indicators::new("something else");
    for (name, value) in values {
        found.put(name, IndicatorValue::new("in words", *value, Confidence::High));
    }
    found
}

fn of<'a>(found: &'a [PatternFinding], name: &str) -> &'a PatternFinding {
    found.iter().find(|finding| finding.name == name).unwrap()
}

#[test]
fn every_file_is_a_pattern_of_its_name_whose_groups_and_metrics_there_are() {
    for (name, text) in FILES {
        let pattern = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pattern.name, name);
        assert!(pattern.advice.ends_with('.') && pattern.about.ends_with('.'), "{name}");
        let sources: Vec<SignSource> = pattern.signatures.iter().map(|one| one.from).collect();
        assert!(sources.contains(&SignSource::Samples) && sources.contains(&SignSource::Events), "{name}");
        for signature in &pattern.signatures {
            for indicator in signature
                .signs
                .iter()
                .map(|sign| &sign.indicator)
                .chain(&signature.win)
                .chain(&signature.win_about)
            {
                let Some((group, metric)) = indicator.split_once(": ") else { continue };
                let group = MetricGroup::named(group).unwrap_or_else(|| panic!("{name}: {group}"));
                assert!(group.metrics.iter().any(|one| one.name == metric), "{name}: {indicator}");
                assert!(signature.groups.contains(&group.name), "{name}: {indicator} is not counted");
            }
        }
    }
    assert_eq!(known().len(), FILES.len());
}

#[test]
fn all_signs_of_a_signature_must_hold() {
    let both = judge(&with(&[("stream_waiting", 0.6), ("bandwidth_of_limit", 0.9)]));
    let found = of(&both, "bandwidth-saturation");
    assert_eq!((found.state, found.win_at_most), (PatternState::Found, Some(0.6)));
    assert_eq!(both[0].name, "bandwidth-saturation", "what was found comes first");
    let slow = judge(&with(&[("stream_waiting", 0.6), ("bandwidth_of_limit", 0.3)]));
    assert_eq!(of(&slow, "bandwidth-saturation").state, PatternState::Absent);
    assert_eq!(of(&slow, "bandwidth-saturation").win_at_most, None);
}

#[test]
fn one_sign_against_it_is_enough_and_what_is_missing_is_said() {
    let mut indicators = with(&[("stream_waiting", 0.01)]);
    indicators.lack("bandwidth_of_limit", "a profile");
    assert_eq!(of(&judge(&indicators), "bandwidth-saturation").state, PatternState::Absent);
    indicators.put("stream_waiting", IndicatorValue::new("in words", 0.6, Confidence::High));
    let found = judge(&indicators);
    let open = of(&found, "bandwidth-saturation");
    assert_eq!((open.state, open.confidence), (PatternState::Unknown, None));
    assert_eq!(open.needs, ["a profile", "something else"]);
}

#[test]
fn a_signature_that_is_open_keeps_a_pattern_open_though_another_speaks_against_it() {
    let mut indicators = with(&[("blocked", 0.01), ("mean_wait_us", 5.0)]);
    indicators.lack("synchronising", "several threads");
    let found = judge(&indicators);
    assert_eq!(of(&found, "synchronisation").state, PatternState::Unknown);
    indicators.put("synchronising", IndicatorValue::new("in words", 0.01, Confidence::High));
    assert_eq!(of(&judge(&indicators), "synchronisation").state, PatternState::Absent);
}

#[test]
fn an_interval_over_the_limit_leaves_it_nearly_open() {
    let mut indicators = Indicators::new("");
    let share = |low, high| IndicatorValue::new("", 0.2, Confidence::High).between(low, high);
    indicators.put("branch_waiting", share(0.18, 0.22));
    assert_eq!(of(&judge(&indicators), "control-flow").confidence, Some(Confidence::High));
    indicators.put("branch_waiting", share(0.05, 0.35));
    let found = judge(&indicators);
    assert_eq!(of(&found, "control-flow").state, PatternState::Found);
    assert_eq!(of(&found, "control-flow").confidence, Some(Confidence::Low));
}

#[test]
fn events_alone_do_not_tell_false_from_true_sharing() {
    let events = [("SHARING: waiting for others' lines", 0.8), ("STALLS: memory bound", 0.5)];
    let alone = judge(&with(&events));
    assert_eq!(of(&alone, "false-sharing").state, PatternState::Unknown);
    assert_eq!(of(&alone, "true-sharing").state, PatternState::Unknown);
    let loads = [("falsely_shared_loads", 0.9), ("truly_shared_loads", 0.1)];
    let addressed = judge(&with(&[events[0], events[1], loads[0], loads[1]]));
    let found = of(&addressed, "false-sharing");
    assert_eq!((found.state, found.win_at_most), (PatternState::Found, Some(0.8)));
    assert_eq!(of(&addressed, "true-sharing").state, PatternState::Absent);
    // Lines change hands, and nothing waits for them.
    let hidden = judge(&with(&[events[0], ("STALLS: memory bound", 0.02), loads[0], loads[1]]));
    assert_eq!(of(&hidden, "false-sharing").state, PatternState::Absent);
}

#[test]
fn waiting_for_shared_lines_that_looks_like_executing_is_no_lack_of_throughput() {
    let alone = judge(&with(&[("core_bound", 0.97), ("false_sharing", 0.0), ("true_sharing", 0.0)]));
    let found = of(&alone, "instruction-throughput");
    assert_eq!((found.state, found.win_at_most), (PatternState::Found, None));
    let shared = judge(&with(&[("core_bound", 0.97), ("false_sharing", 0.76), ("true_sharing", 0.0)]));
    assert_eq!(of(&shared, "instruction-throughput").state, PatternState::Absent);
    assert_eq!(of(&shared, "false-sharing").state, PatternState::Found);
}

#[test]
fn words_of_a_line_tell_how_it_is_shared() {
    let tally = |loads: &[(u32, u64)]| {
        let mut tally = SharedLoadsTally::default();
        loads.iter().for_each(|&(cpu, address)| tally.add(cpu, address, None));
        tally.finish()
    };
    assert_eq!(tally(&[(0, 0), (1, 8), (0, 4)]), SharedLoads { falsely: 3, ..SharedLoads::default() });
    assert_eq!(tally(&[(0, 0), (1, 7)]), SharedLoads { truly: 2, ..SharedLoads::default() });
    let whole: Vec<(u32, u64)> = (0..8).map(|word| (1, word * 8)).collect();
    assert_eq!(tally(&whole), SharedLoads { truly: 8, ..SharedLoads::default() });
    assert_eq!(tally(&[(1, 0), (1, 0)]), SharedLoads { undecided: 2, ..SharedLoads::default() });
}

#[test]
fn the_data_whose_loads_take_longest_is_named() {
    let mut tally = SharedLoadsTally::default();
    (0..5).for_each(|_| tally.took("near", 40));
    tally.took("far", 300);
    tally.add(0, 64, Some("counters"));
    let found = tally.finish();
    assert_eq!((found.slowest.as_deref(), found.object.as_deref()), (Some("far"), Some("counters")));
    assert_eq!(found.stored, None);
}

#[test]
fn each_kind_of_waiting_has_a_sentence() {
    use crate::findings::{Pattern, ThreadActivity};
    for activity in ThreadActivity::ALL.into_iter().filter(|activity| activity.is_waiting()) {
        let found = remedy(activity, None, " in work", "run longer").unwrap();
        assert!(found.contains(" in work"), "{found}");
    }
    let chased = remedy(ThreadActivity::Loads, Some(Pattern::PointerChasing), "", "").unwrap();
    assert!(chased.starts_with("One load waits for another:"), "{chased}");
    let line = on_lines(64, " (counters)", "work").unwrap();
    assert!(line.contains("the line at 0x40 (counters) in work"), "{line}");
}
