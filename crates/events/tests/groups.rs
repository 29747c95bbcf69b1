//! Group files against the catalogue.
#![allow(clippy::unwrap_used)]

use events::{
    Catalogue, MetricGroup, ValueBound,
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

/// Counts of 1000 cycles of four slots, 800 of which retire; 500 cycles without execution while a miss is pending, 600 without
/// retirement. What is named is another number.
fn memory_bound(other: &[(&str, f64)]) -> (Result<f64, Absent>, f64, f64) {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let chosen = MetricGroup::named("TOPDOWN_EVENTS").unwrap().choose(&|event| known(Some(haswell), event));
    let count = |input: &str| {
        let usual = match input {
            "cycles" => 1000.0,
            "retired" | "slots_of_four" | "issued" => 800.0,
            "missing" => 900.0,
            "retire_stalls" => 600.0,
            "stalled" | "loads" | "one_or_more" => 500.0,
            "two_or_more" => 400.0,
            "load_stalls" | "stalls" | "retire_waits" => 125.0,
            _ => 0.0,
        };
        Some(other.iter().find(|(name, _)| *name == input).map_or(usual, |(_, count)| *count))
    };
    let inputs = FormulaInputs { count: &count, seconds: None, program_cycles: None, profile: None };
    let values = chosen.evaluate(&inputs);
    let memory = values.into_iter().find(|found| found.metric.name == "memory bound").unwrap();
    let range = memory.range.unwrap();
    (memory.value.map(|value| value.value.round()), range.least, range.most)
}

/// By hand: 80 % of the slots are the back end's, 500 / 600 of that are 67.
#[test]
fn what_memory_costs_lies_between_bounds_or_is_undecided() {
    let long = [("load_stalls", 20.0), ("retire_waits", 20.0), ("stalls", 50.0)];
    let found = |other: &[(&str, f64)]| memory_bound(&[&long, other].concat());
    // Nothing retires in 60 % and nothing executes in 50, with 20 cycles at an end of a wait in which less could have: 42 to 62 are likely.
    assert_eq!(found(&[]), (Ok(52.0), 42.0, 80.0));
    // No more than the divider leaves, than a miss is pending, than is not retired.
    let undecided = |least, most| Err(Absent::Undecided(least, most, String::new()));
    let divided = |count| {
        let (value, least, most) = found(&[("divides", count)]);
        let value = value.map_err(|absent| match absent {
            Absent::Undecided(least, most, _) => Absent::Undecided(least, most, String::new()),
            other => other,
        });
        (value, least, most)
    };
    assert_eq!(divided(1.0), (undecided(31.6, 80.0), 31.6, 80.0), "gaps may be those of a division");
    assert_eq!(divided(30.0), (undecided(0.0, 61.0), 0.0, 61.0));
    assert_eq!(found(&[("missing", 600.0)]), (Ok(52.0), 42.0, 60.0));
    // A store a cycle, two loads.
    assert_eq!(found(&[("stores_done", 500.0)]), (Ok(50.0), 42.0, 50.0));
    assert_eq!(found(&[("loads_done", 1000.0)]), (Ok(50.0), 42.0, 50.0));
    // Stalls of four cycles may be a chain of additions; where waits are short as well, the estimate is taken.
    assert_eq!(memory_bound(&[]), (Ok(67.0), 0.0, 80.0));
    // Narrow bounds are an answer by themselves, in the middle as far as it is not known better.
    assert_eq!(memory_bound(&[("missing", 150.0), ("retire_waits", 150.0)]), (Ok(10.0), 0.0, 15.0));
}

#[test]
fn what_is_likely_decides_where_bounds_are_far_apart() {
    let undecided = |other: &[(&str, f64)]| matches!(memory_bound(other).0, Err(Absent::Undecided(..)));
    // Three lines for a wait: no chain makes it wait, so while a miss is pending the core would be as fast as 800 slots allow; what is likely
    // is at most 60 and the 12.5 cycles in a hundred at an end of a wait.
    assert_eq!(memory_bound(&[("lines", 400.0)]), (Ok(70.0), 0.0, 80.0));
    assert_eq!(
        memory_bound(&[("lines", 400.0), ("missing", 700.0)]),
        (Ok(60.0), 0.0, 70.0),
        "no longer than that"
    );
    assert_eq!(memory_bound(&[("lines", 100.0)]).0, Ok(67.0), "a line for a wait: the estimate alone");
    // What waits for its own stores, or is locked, waits at retirement without any miss.
    assert!(undecided(&[("lines", 400.0), ("blocked", 65.0)]));
    assert!(undecided(&[("lines", 400.0), ("locked", 65.0)]));
    // Behind waits of 14 cycles a chain may run hidden.
    let hidden = [("retire_waits", 42.0), ("stalled", 400.0), ("loads", 400.0), ("one_or_more", 600.0)];
    assert!(undecided(&[&hidden[..], &[("lines", 400.0)]].concat()));
    // Half as many lines as waits, 300 of 1.5 cycles, which end in 550 that retire: an operation that takes three needs 1.2 of each wait, and
    // 10 % are left.
    let short = [("retire_waits", 300.0), ("retire_stalls", 450.0), ("lines", 150.0)];
    assert_eq!(memory_bound(&short), (Ok(10.0), 0.0, 80.0));
    // Nine lines for ten waits: six in ten of those are the core's own.
    assert_eq!(memory_bound(&[short[0], short[1], ("lines", 270.0)]).0, Ok(36.0));
    // The store buffer is full in 60 %, of stores that wait to retire behind 300 waits of two cycles for 100 lines: 10 % are left. With as many
    // lines as waits it is full for memory.
    let full = [("retire_waits", 300.0), ("stores", 600.0), ("stalled", 600.0), ("one_or_more", 400.0)];
    assert_eq!(memory_bound(&[&full[..], &[("lines", 100.0)]].concat()).0, Ok(10.0));
    assert_eq!(memory_bound(&[&full[..], &[("lines", 300.0)]].concat()).0, Ok(60.0));
    // Gaps of ten cycles, and twice as many lines without one as with one: no chain leaves them. What is likely is at most 60 and the 12
    // cycles in a hundred at an end of a wait.
    let gaps = [("stalls", 50.0), ("lines", 170.0)];
    assert_eq!(memory_bound(&gaps), (Ok(70.0), 0.0, 80.0));
    let alone = memory_bound(&[&gaps[..], &[("two_or_more", 150.0)]].concat()).0;
    assert_eq!(alone, Ok(62.0), "what executes one at a time may be a chain of operations of a cycle");
    // Nearly a gap for each line; gaps as short as the core's own; other work that may fill the gaps of a chain that retirement waits for.
    for unclear in [[50.0, 60.0], [120.0, 170.0], [50.0, 130.0]] {
        let [stalls, lines] = unclear;
        let found = memory_bound(&[("stalls", stalls), ("lines", lines)]).0;
        assert_eq!(found, Ok(67.0), "{unclear:?}: the estimate alone");
    }
    // Long waits with long gaps are taken at their word, unless something executes in most of each, or divides.
    let long = [("retire_waits", 60.0), ("lines", 60.0)];
    let gaps = ("stalls", 50.0);
    assert_eq!(memory_bound(&[long[0], long[1], gaps]).0, Ok(66.0));
    assert!(undecided(&long), "gaps of four cycles");
    let busy = [("stalled", 290.0), ("loads", 290.0), ("one_or_more", 710.0)];
    assert!(undecided(&[&long[..], &[gaps], &busy].concat()));
    assert!(undecided(&[long[0], long[1], gaps, ("divides", 10.0)]));
    // No room for a store in 60 % is memory's, whatever executes.
    assert_eq!(memory_bound(&[long[0], long[1], ("stores", 600.0)]).0, Ok(66.0));
}

/// By hand: 1000 lines of local memory and 500 of remote are 96 kB; without those of remote memory, at least 64 kB.
#[test]
fn lines_that_memory_answers_the_cores_with() {
    let name = "memory read volume, without prefetches";
    for make in ["haswell-ep", "nehalem-ep", "skylake-x"] {
        let catalogue = Catalogue::named(make).unwrap();
        let chosen = MetricGroup::named("OFFCORE").unwrap().choose(&|event| known(Some(catalogue), event));
        let event = chosen.event("local").unwrap();
        assert!(event.contains("LOCAL_DRAM") && catalogue.event(event).is_some(), "{make}: {event}");
        let volume = |remote: Option<f64>| {
            let count = |input: &str| if input == "local" { Some(1000.0) } else { remote };
            let inputs = FormulaInputs { count: &count, seconds: None, program_cycles: None, profile: None };
            let values = chosen.evaluate(&inputs).into_iter();
            let found = values.filter(|found| found.metric.name == name).map(|found| found.value.unwrap());
            found.map(|value| (value.value, value.bound)).next()
        };
        assert_eq!(volume(Some(500.0)), Some((96_000.0, ValueBound::Exact)), "{make}");
        assert_eq!(volume(None), Some((64_000.0, ValueBound::AtLeast)), "{make}");
    }
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

/// An event is withheld only for the purpose it failed: cycles without execution are no stalls for memory, and are not taken for such
/// (molka2017 §4.3).
#[test]
fn inputs_of_stall_groups_are_taken_for_what_they_count() {
    let purposes = |group: &str| {
        let found = MetricGroup::all().iter().find(|one| one.name == group).unwrap();
        found
            .purposes
            .iter()
            .map(|(input, purpose)| format!("{input}: {purpose}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(
        purposes("STALLS"),
        "fill_buffers: stall, loads: stall, missing: stall, queue: stall, stalled: no_execution, stores: stall"
    );
    assert_eq!(purposes("TOPDOWN_EVENTS"), "loads: stall, stalled: no_execution, stores: stall");
}
