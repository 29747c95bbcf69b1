//! Group files against the catalogue.
#![allow(clippy::unwrap_used)]

use events::{
    Catalogue, MetricGroup,
    formula::Absent,
    groups::FormulaInputs,
    names::{self, Context},
};

const EXPECTED: [&str; 14] = [
    "CYCLES",
    "L1",
    "L2",
    "L3",
    "MEM",
    "FLOPS_DP",
    "FLOPS_SP",
    "TLB",
    "BRANCH",
    "STALLS",
    "LATENCY",
    "NUMA",
    "FALSE_SHARE",
    "SOFTWARE",
];

fn known(catalogue: Option<&Catalogue>, event: &str) -> bool {
    names::is_known(event, &Context { catalogue, ..Context::default() })
}

#[test]
fn every_group_loads_and_every_event_exists_somewhere() {
    for name in EXPECTED {
        assert!(MetricGroup::named(&name.to_lowercase()).is_some(), "{name}");
    }
    for group in MetricGroup::all() {
        for (input, events) in &group.inputs {
            for event in events {
                let somewhere = Catalogue::all().any(|catalogue| known(Some(catalogue), event));
                assert!(somewhere, "{}.{input}: no machine has {event}", group.name);
            }
        }
    }
}

#[test]
fn what_each_machine_can_say() {
    let possible = |group: &str, catalogue: &str| {
        let catalogue = Catalogue::named(catalogue).unwrap();
        let chosen = MetricGroup::named(group).unwrap().choose(&|event| known(Some(catalogue), event));
        let values = chosen
            .values(&|input| chosen.events.iter().any(|(name, _)| *name == input).then_some(8.0), Some(2.0));
        values
            .into_iter()
            .filter(|(_, value)| value.is_ok())
            .map(|(metric, _)| metric.name.clone())
            .collect::<Vec<_>>()
    };
    for catalogue in Catalogue::all() {
        for group in ["CYCLES", "BRANCH", "L1", "TLB", "SOFTWARE"] {
            assert!(!possible(group, &catalogue.name).is_empty(), "{group} on {}", catalogue.name);
        }
        let bandwidth = possible("MEM", &catalogue.name).contains(&"memory bandwidth".to_owned());
        // Likwid's table of the Zen 5 fabric is per channel; its controllers have counters of their own.
        assert!(bandwidth, "MEM on {}", catalogue.name);
    }
    assert_eq!(possible("STALLS", "haswell-ep").len(), 6);
    assert_eq!(possible("LATENCY", "sandy-bridge-ep")[0], "load-miss real latency");
    assert_eq!(possible("LATENCY", "broadwell-ep").len(), 3);
    assert!(!possible("L2", "skylake-x").contains(&"L1 to L2 bandwidth".to_owned()));
}

#[test]
fn levels_and_slots_from_haswell_to_granite_rapids() {
    let makes = [
        "haswell-ep",
        "broadwell-ep",
        "skylake-x",
        "cascade-lake",
        "ice-lake-x",
        "sapphire-rapids",
        "emerald-rapids",
        "granite-rapids",
    ];
    let levels = [
        "L1 bound",
        "L2 bound",
        "L3 bound",
        "DRAM bound",
        "store bound",
        "beyond L2, bandwidth bound",
        "beyond L2, latency bound",
    ];
    let slots = ["retiring", "bad speculation", "front-end bound", "back-end bound", "memory bound"];
    for make in makes {
        let catalogue = Catalogue::named(make).unwrap();
        let has = |event: &str| known(Some(catalogue), event);
        for (group, wanted) in [("MEMORY_LEVELS", &levels[..]), ("TOPDOWN", &slots[..])] {
            let chosen = MetricGroup::fitting(group, &has).unwrap().choose(&has);
            let count = |input: &str| chosen.events.iter().any(|(name, _)| *name == input).then_some(8.0);
            let inputs = FormulaInputs {
                count: &count,
                seconds: Some(2.0),
                program_cycles: None,
                profile: Some(&|_| Some(10.0)),
            };
            let values = chosen.evaluate(&inputs);
            for name in wanted {
                let found = values.iter().find(|found| found.metric.name == *name).unwrap();
                assert!(found.value.is_ok(), "{make}, {group}, {name}: {:?}", found.value);
            }
        }
    }
}

/// By hand: 1000 cycles of four slots, 800 of them retiring; 500 without execution while a miss is pending.
#[test]
fn what_memory_costs_lies_between_bounds_or_is_undecided() {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let chosen = MetricGroup::named("TOPDOWN_EVENTS").unwrap().choose(&|event| known(Some(haswell), event));
    let found = |load_stalls: f64, missing: f64, divides: f64| {
        let count = |input: &str| {
            Some(match input {
                "cycles" => 1000.0,
                "retired" | "slots_of_four" | "issued" => 800.0,
                "stalled" | "loads" => 500.0,
                "one_or_more" => 500.0,
                "two_or_more" => 400.0,
                "load_stalls" | "stalls" => load_stalls,
                "missing" => missing,
                "divides" => divides,
                _ => 0.0,
            })
        };
        let inputs = FormulaInputs { count: &count, seconds: None, program_cycles: None, profile: None };
        let values = chosen.evaluate(&inputs);
        let memory = values.into_iter().find(|found| found.metric.name == "memory bound").unwrap();
        let range = memory.range.unwrap();
        (memory.value.map(|value| value.value.round()), range.least, range.most)
    };
    // Stalls of 25 cycles: 80 % of the slots are the back end's, 500 / 600 of that.
    assert_eq!(found(20.0, 900.0, 0.0), (Ok(67.0), 42.0, 80.0));
    // No more than the divider leaves, than a miss is pending, than is not retired.
    assert_eq!(found(20.0, 900.0, 1.0), (Ok(67.0), 31.6, 80.0), "stalls may be those of a division");
    assert_eq!(found(20.0, 900.0, 30.0), (Ok(61.0), 0.0, 61.0));
    assert_eq!(found(20.0, 600.0, 0.0), (Ok(52.0), 42.0, 60.0));
    // Stalls of four cycles may be a chain of additions.
    let (value, least, most) = found(125.0, 900.0, 0.0);
    assert_eq!((least, most), (0.0, 80.0));
    assert!(matches!(value, Err(Absent::Undecided(0.0, 80.0, _))), "{value:?}");
    // Narrow bounds are an answer by themselves, in the middle as far as it is not known better.
    assert_eq!(found(125.0, 150.0, 0.0), (Ok(10.0), 0.0, 15.0));
}

/// By hand: 3 million flits of 8 bytes received in 2 s are 12 MB/s.
#[test]
fn links_are_used_by_the_busier_direction() {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let chosen = MetricGroup::named("LINK").unwrap().choose(&|event| known(Some(haswell), event));
    let count = |input: &str| Some(if input == "qpi_in" { 3e6 } else { 1e6 });
    let inputs = FormulaInputs {
        count: &count,
        seconds: Some(2.0),
        program_cycles: None,
        profile: Some(&|name| (name == "link_peak").then_some(48e6)),
    };
    let values = chosen.evaluate(&inputs);
    let used = values.iter().find(|found| found.metric.name == "link utilisation").unwrap();
    assert_eq!(used.value.as_ref().map(|value| value.value), Ok(25.0));
}

#[test]
fn values_and_reasons() {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let chosen = MetricGroup::named("MEM").unwrap().choose(&|event| known(Some(haswell), event));
    assert_eq!(chosen.event("reads"), Some("UNC_M_CAS_COUNT.RD"));
    let counts = |input: &str| match input {
        "reads" => Some(1000.0),
        "writes" => Some(500.0),
        _ => None,
    };
    let value = |name: &str, seconds| {
        let values = chosen.values(&counts, seconds);
        let (_, found) = values.into_iter().find(|(metric, _)| metric.name == name).unwrap();
        found.map(|found| found.value)
    };
    assert_eq!(value("memory bandwidth", Some(2.0)), Ok(48_000.0));
    assert_eq!(value("reads per write", Some(2.0)), Ok(2.0));
    assert_eq!(value("memory bandwidth", None), Err(Absent::Missing("time".into())));
    assert_eq!(value("memory bandwidth", Some(0.0)), Err(Absent::DividedByZero("time".into())));
    let nothing = chosen.values(&|_| None, Some(1.0));
    assert_eq!(nothing[0].1, Err(Absent::Missing("UNC_M_CAS_COUNT.RD".into())));
}

#[test]
fn software_works_without_a_catalogue() {
    let chosen = MetricGroup::named("SOFTWARE").unwrap().choose(&|event| known(None, event));
    assert!(chosen.missing.is_empty());
}

#[test]
fn each_mistake_in_a_file_has_a_place() {
    let good = "[[group]]\nname = \"G\"\nabout = \"x\"\ninputs = { a = [\"cycles\"] }\n\
        [[group.metric]]\nname = \"m\"\nformula = \"a / time\"\nunit = \"1\"\nabout = \"y\"\n";
    MetricGroup::parse(good, "g.toml").unwrap();
    let error =
        |from: &str, to: &str| MetricGroup::parse(&good.replace(from, to), "g.toml").unwrap_err().to_string();
    assert_eq!(error("a / time", "a /"), "g.toml:7:15: expected a number, a name or '('");
    assert_eq!(error("a / time", "b / time"), "g.toml:7:11: 'b' is no input of group G");
    assert!(error("[\"cycles\"]", "[]").contains("g.toml:4:12: input 'a' needs an event"));
    assert!(error("unit", "units").contains("unknown field"));
    let twice = format!("{good}{good}");
    assert!(MetricGroup::parse(&twice, "g.toml").unwrap_err().to_string().contains("a second group G"));
}
