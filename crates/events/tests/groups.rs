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
