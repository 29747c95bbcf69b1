//! Other commands on a simulated machine that was validated.

use serde_json::Value;

use crate::{json, run, tiny, words};

/// Right without prefetchers, wrong with them: broken as a volume.
const BROKEN: &str = "MEM_LOAD_UOPS_RETIRED.L2_HIT";
const TRUSTED: &str = "L1D.REPLACEMENT";

fn counting<'a>(events: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let work = ["count", "--on", "sim:tiny", "--kernel", "load", "--size", "16K", "-e", events];
    [&work[..], more].concat()
}

fn event<'a>(counts: &'a Value, name: &str) -> (usize, &'a Value) {
    let all = counts["events"].as_array().unwrap();
    let at = all.iter().position(|event| event["name"] == name).unwrap_or_else(|| panic!("{name}"));
    (at, &all[at])
}

#[test]
fn counts_stand_beside_their_trust_and_broken_ones_are_withheld() {
    let (home, _) = tiny();
    let events = format!("{TRUSTED},{BROKEN}");
    let text = words(home.path(), &counting(&events, &[]));
    assert!(text.contains("trusted, ") && text.contains("withheld") && text.contains("broken"), "{text}");
    assert!(text.contains("lines the L2 serves to loads"), "the reason: {text}");
    assert!(text.contains("validation of simulated tiny"), "{text}");
    let counts = json(home.path(), &counting(&events, &["--json"]));
    assert_eq!(counts["validation"]["state"], "validated");
    let (_, trusted) = event(&counts, TRUSTED);
    assert_eq!(trusted["trust"]["trust"], "trusted");
    let (at, broken) = event(&counts, BROKEN);
    assert_eq!(broken["trust"]["trust"], "broken");
    let values = counts["runs"][0]["counts"].as_array().unwrap();
    let mine = || values.iter().filter(|count| count["event"] == at);
    assert!(mine().count() > 0 && mine().all(|count| count["value"]["missing"]["broken"].is_string()));
}

#[test]
fn an_event_has_one_trust_by_name_by_encoding_and_by_alias() {
    let (home, _) = tiny();
    for (spellings, trust) in [
        (
            vec![
                "MEM_LOAD_UOPS_L3_MISS_RETIRED.LOCAL_DRAM",
                "mem_load_uops_l3_miss_retired:local_dram:u",
                "cpu/event=0xd3,umask=0x01/",
                "cpu/umask=0x1,event=0xd3,cmask=0,name=mine/",
                "r01d3",
                "r1d3:u",
            ],
            "broken",
        ),
        (vec!["CPU_CLK_UNHALTED.THREAD", "cycles", "cpu-cycles:u", "cpu/event=0x3c/", "r3c"], "trusted"),
        (vec!["perf::L1-DCACHE-LOADS", "L1-dcache-loads", "MEM_UOPS_RETIRED.ALL_LOADS", "r81d0"], "trusted"),
        (
            vec!["UNC_H_REQUESTS.READS", "uncore_ha/event=0x1,umask=0x3/", "uncore_ha_0/umask=3,event=1/"],
            "trusted",
        ),
    ] {
        for spelling in spellings {
            let counts = json(home.path(), &counting(spelling, &["--json"]));
            let event = &counts["events"][0];
            assert_eq!(event["trust"]["trust"], trust, "{spelling}: {event}");
            let value = &counts["runs"][0]["counts"][0]["value"];
            assert_eq!(value["missing"]["broken"].is_string(), trust == "broken", "{spelling}: {value}");
        }
    }
    // One bit more is another event, which nobody tried.
    let counts = json(home.path(), &counting("cpu/event=0xd3,umask=0x01,cmask=1/", &["--json"]));
    assert!(counts["events"][0]["trust"].is_null(), "{counts}");
}

#[test]
fn a_broken_value_is_shown_if_asked_for_and_csv_names_its_trust() {
    let (home, _) = tiny();
    let counts = json(home.path(), &counting(BROKEN, &["--json", "--even-broken"]));
    assert!(counts["runs"][0]["counts"][0]["value"]["counted"]["raw"].is_u64(), "{counts}");
    let table = run(home.path(), &counting(&format!("{TRUSTED},{BROKEN}"), &["--csv"])).stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.lines().next().unwrap().ends_with(",missing,trust,error"), "{table}");
    let line = |name: &str| table.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line(TRUSTED).contains(",trusted,0."), "{table}");
    assert!(line(BROKEN).contains("withheld") && line(BROKEN).ends_with(",broken,"), "{table}");
}

#[test]
fn a_metric_has_the_trust_of_its_events_or_of_the_whole() {
    let (home, _) = tiny();
    let group = |name: &str| {
        let work = ["count", "--on", "sim:tiny", "--kernel", "load", "--size", "16K", "--json", "-g", name];
        json(home.path(), &work)
    };
    let find = |counts: &Value, name: &str| {
        let all = counts["metrics"][0]["metrics"].as_array().unwrap().clone();
        all.into_iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {counts}"))
    };
    let volume = find(&group("L2"), "L2 to L1 bandwidth");
    assert_eq!(volume["trust"]["trust"], "trusted", "{volume}");
    assert_eq!(volume["events"][0], TRUSTED);
    // Its events are no volumes; as a latency it was judged by itself.
    let latency = find(&group("LATENCY"), "load-miss real latency");
    assert_eq!(latency["trust"]["indicator"], "load-miss real latency", "{latency}");
}

/// molka2017 Fig. 10: the event that counts cycles without execution is no counter of stalls for memory, and is not taken for one.
#[test]
fn cycles_are_divided_into_four_where_an_event_is_broken_for_another_purpose() {
    let (home, kept) = tiny();
    let judged = kept["indicators"].as_array().unwrap().iter();
    let stalled = judged.filter(|one| one["name"] == "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE");
    let trusts: Vec<&Value> = stalled.map(|one| &one["trust"]["trust"]).collect();
    assert!(trusts.iter().any(|trust| **trust == "broken"), "{trusts:?}");
    for kernel in ["chase", "load", "div-chain"] {
        let work =
            ["count", "--on", "sim:tiny", "--kernel", kernel, "--size", "16K", "--json", "-g", "STALLS"];
        let counts = json(home.path(), &work);
        let metrics = counts["metrics"][0]["metrics"].as_array().unwrap();
        let shares = ["productive", "other stalls", "latency bound", "bandwidth bound"].map(|name| {
            let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
            metric["values"][0].as_f64().unwrap_or_else(|| panic!("{kernel}: {metric}"))
        });
        let whole: f64 = shares.iter().sum();
        assert!((whole - 100.0).abs() < 0.1, "{kernel}: {shares:?}");
        let shown: Vec<&str> = work.iter().copied().filter(|word| *word != "--json").collect();
        let text = words(home.path(), &shown);
        assert!(!text.contains("withheld"), "{text}");
    }
}

#[test]
fn events_list_their_trust() {
    let (home, _) = tiny();
    let text = words(home.path(), &["events", "--on", "sim:tiny", "MEM_LOAD_UOPS_RETIRED"]);
    assert!(text.contains("broken for lines the L2 serves to loads"), "{text}");
    assert!(text.contains("Trust: validation of simulated tiny"), "{text}");
    let list = json(home.path(), &["events", "--on", "sim:tiny", TRUSTED, "--json"]);
    assert_eq!(list["events"][0]["trust"]["trust"], "trusted", "{list}");
    assert_eq!(list["validation"]["quick"], true);
}

#[test]
fn the_machine_itself_says_whether_it_was_validated() {
    let (home, _) = tiny();
    let text = words(home.path(), &["doctor", "--on", "sim:tiny"]);
    assert!(text.contains("Trust validation of simulated tiny") && text.contains("--quick"), "{text}");
    let other = json(home.path(), &["doctor", "--on", "sim:haswell-ep-e5-2680v3", "--json"]);
    assert_eq!(other["validation"]["state"], "missing");
    assert!(other["validation"]["reason"].as_str().unwrap().contains("'memwall validate'"), "{other}");
}

#[test]
fn an_unknown_name_gets_close_ones() {
    let (home, _) = tiny();
    for (typed, meant) in [("L1D.REPLACMENT", "L1D.REPLACEMENT"), ("replacement", "L1D.REPLACEMENT")] {
        let output = run(home.path(), &["validate", "--on", "sim:tiny", "--explain", typed]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(meant), "{text}");
    }
}

/// One thread reads at a pace that memory keeps up with, then both as fast as `nops` lets them.
const CROWDED: &str = r#"
name = "crowded"
about = "one thread reads, then both do"
threads = 2

[set]
nops = 0

[[buffer]]
name = "quiet"
size = "256K"

[[buffer]]
name = "crowded"
size = "256K"

[[region]]
name = "alone"
threads = [0]

[[region.step]]
kernel = "delayed-read"
parameters = { nops = 40 }
buffer = "quiet"
passes = 8

[[region]]
name = "together"

[[region.step]]
kernel = "delayed-read"
parameters = { nops = "$nops" }
buffer = "crowded"
passes = 8
"#;

#[test]
fn only_slow_loads_of_intervals_above_the_machines_threshold_name_code_and_data() {
    let (home, _) = tiny();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crowded.toml");
    std::fs::write(&file, CROWDED).unwrap();
    let hybrid = |home: &std::path::Path, nops: &str| {
        let recording = folder.path().join(format!("{nops}.sqlite"));
        let (file, recording) = (file.to_str().unwrap(), recording.to_str().unwrap());
        let nops = format!("nops={nops}");
        words(home, &["scenario", file, "--on", "sim:tiny", "--set", &nops, "-o", recording]);
        json(home, &["report", recording, "--json"])["hybrid"].clone()
    };
    let found = &hybrid(home.path(), "0")["value"];
    let flagged = found["flagged"].as_f64().unwrap() / found["intervals"].as_array().unwrap().len() as f64;
    // Both read for 55 % of the time.
    assert!((0.45..0.65).contains(&flagged), "{flagged}: {found}");
    assert_eq!(found["functions"][0]["name"], "delayed-read in together");
    assert!(found["functions"][0]["share"]["value"].as_f64().unwrap() > 0.95, "{}", found["functions"]);
    for object in &found["objects"].as_array().unwrap()[..2] {
        assert!(object["name"].as_str().unwrap().starts_with("crowded of thread"), "{object}");
    }
    // The same loads at a pace that memory keeps up with: some are as slow, and none is blamed.
    let calm = &hybrid(home.path(), "100")["value"];
    assert_eq!(
        (&calm["flagged"], &calm["functions"]),
        (&Value::from(0), &Value::Array(Vec::new())),
        "{calm}"
    );
    assert!(calm["slow_loads"].as_u64().unwrap() > 0, "{calm}");
    // A machine that nobody validated has no threshold.
    let untried = hybrid(folder.path(), "1")["missing"].as_str().unwrap().to_owned();
    assert!(untried.contains("memwall validate"), "{untried}");
}
