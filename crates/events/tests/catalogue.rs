//! Every event file is loaded and checked, and every event the papers name is encoded.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, DirEntry},
    path::Path,
};

use events::{
    Catalogue, Demand, PmuResources, Signal, Unit,
    catalogue::{CountedAt, meanings},
    names::{self, Context},
};
use machine::{model::Model, topology::CpuIdentity};
use proptest::prelude::*;

fn encoding(signal: &Signal) -> String {
    let Signal::Encoded(encoding) = signal else { panic!("{signal:?} has no encoding") };
    let fields = encoding.fields.iter().filter(|(name, value)| *value != 0 || name == "event");
    fields.map(|(name, value)| format!("{name}={value:#x}")).collect::<Vec<_>>().join(",")
}

#[test]
fn every_file_loads_and_holds_together() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue");
    let stem =
        |file: std::io::Result<DirEntry>| file.unwrap().path().file_stem()?.to_str().map(str::to_owned);
    let mut files: BTreeSet<String> = fs::read_dir(folder).unwrap().filter_map(stem).collect();
    assert!(files.remove("boxes") && files.remove("meanings"));
    let loaded: BTreeSet<String> = Catalogue::all().map(|catalogue| catalogue.name.clone()).collect();
    assert_eq!(loaded, files, "each file stands in the list of src/catalogue.rs");
    for catalogue in Catalogue::all() {
        let name = &catalogue.name;
        assert!(catalogue.entries.len() >= 60, "{name} has {} events", catalogue.entries.len());
        for entry in &catalogue.entries {
            let what = format!("{name}: {}", entry.name);
            assert!(!entry.summary().is_empty(), "{what}");
            assert!(!entry.source.is_empty(), "{what}");
            assert_eq!(catalogue.entry(&entry.name), Some(entry), "{what}");
            assert_eq!(catalogue.entry(&entry.name.to_lowercase().replace('.', ":")), Some(entry), "{what}");
            let resources = PmuResources::of_pmu(&entry.encoding.pmu, Some(catalogue)).expect(&what);
            let placed =
                resources.place(&[&Demand::of(&entry.event(), &entry.encoding.pmu, Some(catalogue))]);
            assert!(placed.is_ok(), "{what}: {placed:?}");
            if let Some(leader) = &entry.leader {
                assert!(catalogue.entry(leader).is_some(), "{what} is led by {leader}");
            }
            if entry.place != CountedAt::Sampling {
                assert!(entry.encoding.fields.iter().any(|(field, _)| field == "event"), "{what}");
            }
            // Core masks are a byte, and their codes fit what the kernel takes.
            if entry.encoding.unit == Unit::Core {
                assert!(entry.encoding.field("umask") <= 0xff, "{what}");
                assert!(entry.encoding.field("event") <= 0xfff, "{what}");
            }
            for alternative in &entry.alternatives {
                let event = entry.event_according_to(alternative.suffix()).unwrap();
                assert_ne!(event.signal, Signal::Encoded(entry.encoding.clone()), "{what}");
                assert_eq!(catalogue.event(&event.name), Some(event), "{what}");
            }
        }
    }
}

#[test]
fn every_meaning_is_used_and_said_in_one_line() {
    let used: HashSet<_> =
        Catalogue::all().flat_map(|catalogue| &catalogue.entries).map(|e| e.meaning.as_str()).collect();
    for (key, meaning) in meanings() {
        assert!(used.contains(key.as_str()), "nothing means {key}");
        assert!(
            meaning.summary.len() <= 120 && !meaning.summary.ends_with('.'),
            "{key}: {}",
            meaning.summary
        );
    }
}

#[test]
fn each_cpu_has_one_file() {
    let identity = |vendor: &str, family, model, stepping| CpuIdentity {
        vendor: Some(vendor.into()),
        family: Some(family),
        model: Some(model),
        stepping: Some(stepping),
        ..CpuIdentity::default()
    };
    let name = |vendor: &str, family, model, stepping| {
        Catalogue::for_cpu(&identity(vendor, family, model, stepping))
            .map(|catalogue| catalogue.name.as_str())
    };
    for catalogue in Catalogue::all() {
        let range = &catalogue.cpus[0];
        let stepping = range.steppings.map_or(0, |(first, _)| first);
        assert_eq!(
            name(&range.vendor, range.family, range.models[0].0, stepping),
            Some(catalogue.name.as_str())
        );
    }
    assert_eq!(name("GenuineIntel", 6, 0x3f, 2), Some("haswell-ep"));
    assert_eq!(name("GenuineIntel", 6, 0x55, 4), Some("skylake-x"));
    assert_eq!(name("GenuineIntel", 6, 0x55, 7), Some("cascade-lake"));
    assert_eq!(name("GenuineIntel", 6, 0xcf, 2), Some("emerald-rapids"));
    assert_eq!(name("AuthenticAMD", 0x17, 0x31, 0), Some("zen2"));
    assert_eq!(name("AuthenticAMD", 0x19, 0x01, 1), Some("zen3"));
    assert_eq!(name("AuthenticAMD", 0x19, 0x11, 1), Some("zen4"));
    assert_eq!(name("AuthenticAMD", 0x1a, 0x02, 1), Some("zen5"));
    assert_eq!(name("AuthenticAMD", 0x17, 0x01, 1), None);
    assert_eq!(name("GenuineIntel", 6, 0x9e, 1), None);
    for vendor in ["GenuineIntel", "AuthenticAMD"] {
        for (family, model, stepping) in (0..0x20).flat_map(|f| (0..0x100).map(move |m| (f, m, 5))) {
            let ranges = Catalogue::all().filter(|catalogue| {
                catalogue.cpus.iter().any(|range| range.contains(vendor, family, model, Some(stepping)))
            });
            assert!(ranges.count() <= 1, "{vendor} {family:#x} {model:#x}");
        }
    }
}

#[test]
fn each_simulated_machine_has_events() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).unwrap();
        assert!(Catalogue::for_model(&model).is_some(), "{}", model.name);
    }
    let tiny = Model::builtin("tiny").unwrap();
    assert_eq!(Catalogue::for_model(&tiny).unwrap().name, "haswell-ep");
}

#[test]
fn every_event_of_the_papers_is_encoded() {
    let table = include_str!("paper_events.csv");
    let rows: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let mut papers = BTreeSet::new();
    let mut once = BTreeSet::new();
    for row in rows {
        let [paper, catalogue, name, expected] = row.split("; ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        papers.insert(paper);
        assert!(once.insert((paper, catalogue, name)), "twice: {row}");
        let catalogue = Catalogue::named(catalogue).unwrap();
        let context = Context { catalogue: Some(catalogue), ..Context::default() };
        let parsed = names::parse(name, &context).unwrap_or_else(|error| panic!("{row}: {error}"));
        assert_eq!(encoding(&parsed.event.signal), expected, "{row}");
    }
    assert_eq!(
        papers.into_iter().collect::<Vec<_>>(),
        ["casas2017", "helm2019", "kruse2011", "molka2017", "roehl2016"]
    );
}

#[test]
fn what_the_papers_name_and_no_source_encodes_is_refused() {
    let context = Context { catalogue: Catalogue::named("haswell-ep").ok(), ..Context::default() };
    for name in ["perf::L1-DCACHE-STORE-MISSES", "L2_TRANS:DEMAND_DATA_RD_HIT"] {
        let error = names::parse(name, &context).unwrap_err();
        assert!(!error.near.is_empty(), "{error}");
    }
}

#[test]
fn where_sources_disagree_both_can_be_counted() {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let umask = |name: &str| match haswell.event(name).unwrap().signal {
        Signal::Encoded(encoding) => encoding.field("umask"),
        other => panic!("{other:?}"),
    };
    assert_eq!(umask("L2_RQSTS:RFO_HIT"), 0xc2);
    assert_eq!(umask("L2_RQSTS:RFO_HIT@libpfm4"), 0x42);
    assert_eq!(haswell.event("L2_RQSTS:RFO_HIT@nobody"), None);
}

#[test]
fn generic_events_have_an_encoding_of_their_own() {
    let haswell = Catalogue::named("haswell-ep").unwrap();
    let name = |generic: &str| {
        let signal = names::generic::signal(generic).unwrap();
        haswell.generic(&signal).map(|entry| entry.name.as_str())
    };
    assert_eq!(name("cycles"), Some("CPU_CLK_UNHALTED.THREAD"));
    assert_eq!(name("L1-dcache-load-misses"), Some("perf::L1-DCACHE-LOAD-MISSES"));
    assert_eq!(name("L1-dcache-store-misses"), None);
    assert_eq!(name("page-faults"), None);
}

#[test]
fn each_mistake_in_a_file_has_a_place() {
    let good = r#"name = "mine"
title = "Mine"
cpus = [{ vendor = "GenuineIntel", family = 6, models = [[1, 1]] }]
general_counters = 4
fixed_counters = 3
source = "me"
[pmus]
core = "cpu"
slice = "uncore_cbox"
[pmu.uncore_cbox]
counters = 4
registers = [{ fields = ["filter_opc"] }]
[core]
A = { event = 0x01, means = "cycles", on = "0-3,F1" }
B = { event = 0x02, means = "instructions" }
[slice]
C = { event = 0x03, means = "slice_clock", on = "0-3" }
[[alternative]]
of = "B"
says = "you"
set = { umask = 1 }
note = "why"
"#;
    Catalogue::parse(good, "mine.toml").unwrap();
    let error = |from: &str, to: &str| {
        assert!(good.contains(from));
        Catalogue::parse(&good.replace(from, to), "mine.toml").unwrap_err().to_string()
    };
    assert_eq!(error("B = {", "a = {"), "mine.toml:15:1: 'a' is there already");
    assert_eq!(error("0x02", "0x10000"), "mine.toml:15:15: 0x10000 needs more than the 14 bits of `event`");
    assert_eq!(error("0-3,F1", "0-4"), "mine.toml:14:44: '0-4' is no counter here; there are 4, and 3 fixed");
    assert!(error("0-3,F1", "F3").contains("'F3' is no counter"));
    assert!(error("\"cycles\"", "\"bicycles\"").contains("mine.toml:14:29: no meaning 'bicycles'"));
    assert!(
        error("event = 0x02", "colour = 0x02").contains("mine.toml:15:7: no field or attribute 'colour'")
    );
    assert!(error("event = 0x02", "event = -2").contains("must be a number"));
    assert!(error("of = \"B\"", "of = \"D\"").contains("no event 'D'"));
    assert!(error("umask = 1", "umask = 0").contains("has already"));
    assert!(error("core = \"cpu\"", "link = \"cpu\"").contains("has no PMU"));
    assert!(error("B = {", "A = {").contains("duplicate key"));
    assert!(error("general_counters = 4", "general_counters = 0").contains("1 to 32"));
    assert!(
        error("counters = 4\nregisters", "counters = 40\nregisters")
            .contains("mine.toml:10:1: a PMU has 1 to 32")
    );
    assert!(error("[\"filter_opc\"]", "[]").contains("a register has a field"));
    assert!(
        error("on = \"0-3\" }", "on = \"0-4\" }")
            .contains("'0-4' is no counter here; there are 4, and 0 fixed")
    );
    assert!(error("counters = 4\nregisters", "registers").contains("either `counters` or `free = true`"));
    assert!(error("[pmu.uncore_cbox]", "[pmu.cpu]").contains("counters of cores stand at the head"));
    assert!(error("[pmu.uncore_cbox]", "[pmu.uncore_ha]").contains("must stand under [pmu.uncore_cbox]"));
    assert!(error("source", "sauce").contains("unknown field"));
}

proptest! {
    #[test]
    fn no_file_panics(at in 0usize..4000, length in 0usize..40, text in "[a-z0-9={}\\[\\]\",é#.\n -]{0,12}") {
        let good = include_str!("../catalogue/zen2.toml");
        let boundary = |at: usize| (0..=at.min(good.len())).rev().find(|&at| good.is_char_boundary(at)).unwrap();
        let (start, end) = (boundary(at), boundary(at + length));
        if let Err(error) = Catalogue::parse(&format!("{}{text}{}", &good[..start], &good[end..]), "zen2.toml") {
            prop_assert!(error.line <= good.lines().count() + 12);
        }
    }
}
