use events::{CountedPlace, MetricGroup, Value};

use super::*;

const FILE: &str = r#"
[[group]]
name = "G"
about = "x"
source = "a paper"
uncounted = ["the moon"]
inputs = { cycles = ["cycles"], stalled = ["stalls"], near = ["near"], far = ["far"] }
constants = { far_cycles = { value = 10, source = "a paper", measured = "memory_cycles" } }
[[group.metric]]
name = "stalled"
key = "stalled_cycles"
formula = "stalled"
unit = "cycles"
about = "y"
[[group.metric]]
name = "near impact"
key = "near_impact"
formula = "near"
unit = "cycles"
about = "y"
[[group.metric]]
name = "far impact"
key = "far_impact"
formula = "far * far_cycles"
printed = "far"
note = "in counts"
unit = "cycles"
about = "y"
advice = "move closer"
[[group.metric]]
name = "both"
formula = "100 * sum(near_impact, far_impact) / stalled"
unit = "% of stalls"
about = "y"
check = { is = 100, within = 3 }
reference = { medium = 50, high = 90, means = ["a", "b", "c"], source = "here" }
[[group.bar]]
title = "stalled cycles"
of = "stalled_cycles"
parts = ["near_impact", "far_impact"]
"#;

fn of(counts: [Option<u64>; 4], profile: Option<ProfileFigures<'_>>) -> GroupMetrics {
    counted(FILE, counts, profile)
}

fn counted(file: &str, counts: [Option<u64>; 4], profile: Option<ProfileFigures<'_>>) -> GroupMetrics {
    let groups = MetricGroup::parse(file, "g.toml").expect("a group");
    let chosen = groups[0].choose(&|_| true);
    let inputs = [("cycles", 0), ("stalled", 1), ("near", 2), ("far", 3)];
    let counted = |(event, raw): (usize, Option<u64>)| {
        let value = raw.map(|raw| Value::Counted { raw, enabled_ns: 1, running_ns: 1 })?;
        Some(Count { event, place: CountedPlace::Target, value })
    };
    let run = CountedRun {
        elapsed_ns: 5,
        ending: None,
        usage: None,
        counts: counts.into_iter().enumerate().filter_map(counted).collect(),
        intervals: Vec::new(),
    };
    group_metrics(&chosen, &inputs, &[run], MetricsAround { profile, ..MetricsAround::default() })
}

#[test]
fn parts_wholes_and_what_does_not_add_up() {
    let group = of([Some(1000), Some(400), Some(100), Some(30)], None);
    let [_, near, far, both] = &group.metrics[..] else { panic!("four") };
    assert_eq!((far.values[0], far.advice.as_deref()), (300.0, Some("move closer")));
    assert_eq!(far.printed.as_ref().map(|printed| printed.values[0]), Some(30.0));
    assert_eq!((near.advice.clone(), near.bound), (None, ValueBound::Exact));
    assert_eq!(both.level.as_ref().map(|level| (level.level, level.means.as_str())), Some((2, "c")));
    assert_eq!(both.events, ["near", "far", "stalls"]);
    assert_eq!(group.remarks, [""; 0]);
    assert_eq!((group.bars[0].whole, group.bars[0].sum()), (Some(400.0), 400.0));
    // More than the whole.
    let group = of([Some(1000), Some(400), Some(100), Some(60)], None);
    // No share: it says so, and by how much.
    let both = &group.metrics[3];
    assert!(both.values.is_empty() && both.missing[0].contains("175 % is no share of stalls"), "{both:?}");
    assert!(group.remarks.len() == 1 && group.remarks[0].contains("1.75 times the whole"));
    // Less, and what is not counted is named.
    let group = of([Some(1000), Some(400), Some(100), Some(0)], None);
    assert!(group.remarks[1].contains("explain 25 % of it. What cannot be counted: the moon."));
}

#[test]
fn a_pass_made_once_more_has_the_rest_at_its_mean() {
    let groups = MetricGroup::parse(FILE, "g.toml").expect("a group");
    let chosen = groups[0].choose(&|_| true);
    let inputs = [("cycles", 0), ("stalled", 1), ("near", 2), ("far", 3)];
    let run = |counts: &[(usize, u64)]| CountedRun {
        elapsed_ns: 5,
        ending: None,
        usage: None,
        counts: counts
            .iter()
            .map(|&(event, raw)| Count {
                event,
                place: CountedPlace::Target,
                value: Value::Counted { raw, enabled_ns: 1, running_ns: 1 },
            })
            .collect(),
        intervals: Vec::new(),
    };
    let runs = [
        run(&[(0, 1000), (1, 400), (2, 100), (3, 20)]),
        run(&[(0, 1000), (1, 600), (2, 100), (3, 20)]),
        run(&[(2, 190)]),
        run(&[(7, 1)]),
    ];
    let both = &group_metrics(&chosen, &inputs, &runs, MetricsAround::default()).metrics[3];
    assert_eq!(both.values, [75.0, 50.0, 78.0], "near is 190, the rest as it is on average");
    assert_eq!(both.missing, [""; 0]);
}

#[test]
fn metrics_of_each_interval_stand_beside_those_of_the_whole() {
    let groups = MetricGroup::parse(FILE, "g.toml").expect("a group");
    let chosen = groups[0].choose(&|_| true);
    let inputs = [("cycles", 0), ("stalled", 1), ("near", 2), ("far", 3)];
    let counted = |event: usize, raw: u64| Count {
        event,
        place: CountedPlace::Target,
        value: Value::Counted { raw, enabled_ns: 1, running_ns: 1 },
    };
    let interval = |end_ns, counts| crate::count::CountedInterval { end_ns, counts };
    let run = CountedRun {
        elapsed_ns: 30,
        ending: None,
        usage: None,
        counts: (0..4).map(|event| counted(event, 100)).collect(),
        intervals: vec![
            interval(10, vec![counted(1, 40), counted(2, 5), counted(3, 3)]),
            interval(30, vec![counted(1, 60), counted(2, 95)]),
        ],
    };
    let group = group_metrics(&chosen, &inputs, &[run], MetricsAround::default());
    let series = |name: &str| &group.metrics.iter().find(|metric| metric.name == name).expect("it").series;
    assert_eq!(series("stalled"), &[Some(40.0), Some(60.0)]);
    assert_eq!(series("far impact"), &[Some(30.0), None], "what was not counted is not 0");
    assert_eq!(series("both"), &[Some(87.5), None], "158 % is no share");
}

#[test]
fn shares_of_slots_are_held_against_all_slots() {
    let file = r#"
[[group]]
name = "G"
about = "x"
inputs = { cycles = ["cycles"], stalled = ["stalls"], near = ["near"], far = ["far"] }
[[group.metric]]
name = "near"
key = "near_share"
formula = "100 * near / cycles"
unit = "% of slots"
about = "y"
[[group.metric]]
name = "far"
key = "far_share"
formula = "100 * far / cycles"
unit = "% of slots"
about = "y"
[[group.bar]]
title = "slots"
parts = ["near_share", "far_share"]
"#;
    let said = |near, far| {
        let group = counted(file, [Some(1000), None, Some(near), far], None);
        assert_eq!((group.bars[0].whole, group.bars[0].unit.as_str()), (Some(100.0), "% of slots"));
        group.remarks
    };
    assert_eq!(said(400, Some(600)), [""; 0]);
    assert_eq!(said(400, Some(620)), [""; 0], "events are not exact");
    assert_eq!(said(900, Some(990)), ["The parts of 'slots' come to 189 % of slots: they overlap."]);
    assert_eq!(
        said(400, Some(500)),
        ["The parts of 'slots' come to 90 % of slots: the rest is in none of them."]
    );
    assert_eq!(said(400, None), [""; 0], "a part is missing, and is named beside the bar");
}

#[test]
fn a_missing_part_and_a_measured_penalty() {
    let group = of([Some(1000), Some(400), Some(380), None], None);
    let [_, _, far, both] = &group.metrics[..] else { panic!("four") };
    assert_eq!(far.missing, ["far is missing"]);
    assert_eq!((both.values[0], both.bound), (95.0, ValueBound::AtLeast));
    assert_eq!(both.without, ["far"]);
    assert_eq!(group.bars[0].missing, ["far impact"]);
    let group = of([Some(1000), Some(400), Some(100), Some(30)], Some(&|_| Some(12.0)));
    assert_eq!(group.metrics[2].measured, [360.0]);
    assert_eq!(group.constants[0].measured, Some(12.0));
    assert_eq!(group.metrics[1].measured, [0.0; 0]);
}
