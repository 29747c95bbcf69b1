//! What a validation finds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{PAGE, TEXT, json, memwall, tiny};

fn verdict<'a>(validation: &'a Value, name: &str) -> &'a Value {
    let all = validation["indicators"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} was not judged"))
}

fn files(home: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(home.join("memwall/trust")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

const TINY: [&str; 5] = ["validate", "--on", "sim:tiny", "--quick", "--json"];

#[test]
fn a_simulated_machine_shows_what_the_papers_found() {
    let (home, validation) = tiny();
    let trust = |name: &str| verdict(validation, name)["trust"]["trust"].as_str().unwrap().to_owned();
    let flaw =
        |name: &str| verdict(validation, name)["trust"]["flaw"]["kind"].as_str().unwrap_or("").to_owned();
    assert_eq!(validation["schema"], "memwall.validate/1");
    assert_eq!(validation["complete"], true);
    // molka2017 Tables 2 and 3.
    for name in [
        "perf::L1-DCACHE-LOADS",
        "perf::L1-DCACHE-STORES",
        "L2_TRANS.DEMAND_DATA_RD + L2_TRANS.RFO",
        "L2_TRANS.L1D_WB",
        "L2_TRANS.L2_WB",
        "UNC_C_TOR_INSERTS.OPCODE.OPC_DRD + UNC_C_TOR_INSERTS.OPCODE.OPC_RFO",
        "UNC_C_LLC_LOOKUP.WRITE",
        "UNC_H_REQUESTS.READS",
        "UNC_H_IMC_WRITES.FULL",
    ] {
        assert_eq!(trust(name), "trusted", "{name}: {}", verdict(validation, name)["trust"]);
    }
    // Retired loads know nothing of prefetches, nor do off-core misses of what the L3 fetched for itself.
    for name in [
        "MEM_LOAD_UOPS_RETIRED.L2_HIT",
        "MEM_LOAD_UOPS_RETIRED.L3_HIT",
        "MEM_LOAD_UOPS_RETIRED.L2_MISS",
        "MEM_LOAD_UOPS_RETIRED.L3_MISS",
        "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_MISS_LOCAL:SNP_ANY",
    ] {
        assert_eq!(flaw(name), "prefetch", "{name}");
        assert_eq!(verdict(validation, name)["without_prefetch"]["trust"], "trusted", "{name}");
    }
    // molka2017 §4.3.
    assert_eq!(flaw("CYCLE_ACTIVITY.STALLS_LDM_PENDING"), "other_stalls");
    let kept = verdict(validation, "CYCLE_ACTIVITY.STALLS_L1D_PENDING");
    assert_ne!(kept["trust"]["trust"], "broken");
    assert!(kept["remarks"].to_string().contains("Waits for the L1 are not in it"));
    for name in ["L1D_PEND_MISS.FB_FULL + OFFCORE_REQUESTS_BUFFER.SQ_FULL", "RESOURCE_STALLS.SB"] {
        assert_eq!(verdict(validation, name)["purpose"], "bandwidth-bound cycles");
        assert_eq!(trust(name), "qualitative");
    }
    let best = validation["best"].as_array().unwrap();
    assert!(best.iter().all(|row| !row["indicator"].is_null()), "{best:?}");
    for row in best {
        let lines = |direction: &str| {
            let same = |other: &&serde_json::Value| {
                ["level", "remote", "cores"].iter().all(|key| other[key] == row[key])
                    && other["direction"] == direction
            };
            best.iter().find(same).unwrap()["lines_per_s"].as_f64().unwrap()
        };
        let both = row["both_lines_per_s"].as_f64().unwrap();
        assert!(both >= lines("read").max(lines("write")) && both <= lines("read") + lines("write"), "{row}");
    }
    let used = ["count", "-g", "MEM", "--on", "sim:tiny", "--kernel", "load", "--size", "1M"];
    let used = String::from_utf8(memwall(home.path(), &used).output().unwrap().stdout).unwrap();
    assert!(used.contains("100 % is peak: ") && used.contains("by 'memwall validate'."), "{used}");
    let offcore =
        best.iter().find(|row| row["level"] == "memory" && row["cores"] == 1 && row["direction"] == "read");
    assert_eq!(offcore.unwrap()["paper"]["trust"]["trust"], "broken");

    let text = memwall(home.path(), &["validate", "--on", "sim:tiny", "--explain", "l1d:replacement"])
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("L1D.REPLACEMENT") && text.contains("copy in L3"), "{text}");
    let unknown =
        memwall(home.path(), &["validate", "--on", "sim:tiny", "--explain", "NO_SUCH"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

/// Whether a name stands in a text by itself, and not only as the beginning of a longer one.
fn is_named(text: &str, name: &str) -> bool {
    let goes_on = |after: &str| {
        let mut after = after.chars();
        match (after.next(), after.next()) {
            (Some(':'), next) => next.is_some_and(|next| !next.is_whitespace()),
            (Some(next), _) => next.is_alphanumeric() || "_.@+".contains(next),
            (None, _) => false,
        }
    };
    text.match_indices(name).any(|(at, _)| !goes_on(&text[at + name.len()..]))
}

#[test]
fn every_indicator_that_is_counted_is_printed() {
    let (home, validation) = tiny();
    let text = fs::read_to_string(home.path().join(TEXT)).unwrap();
    let page = fs::read_to_string(home.path().join(PAGE)).unwrap();
    let all: Vec<&Value> = validation["indicators"].as_array().unwrap().iter().collect();
    for word in ["trusted", "qualitative", "broken", "untested"] {
        let count = all.iter().filter(|one| one["trust"]["trust"] == word).count();
        assert!(text.contains(&format!("{count} {word}")), "{count} {word}: {text}");
    }
    let list = &text[text.find("In the core").unwrap()..];
    let names = || all.iter().map(|one| one["name"].as_str().unwrap());
    let unprinted: Vec<&str> = names().filter(|name| !is_named(list, name)).collect();
    assert!(unprinted.is_empty(), "{} of {}: {unprinted:?}", unprinted.len(), all.len());
    let unlisted: Vec<&str> = names().filter(|name| !page.contains(&format!("\"{name}\""))).collect();
    assert!(unlisted.is_empty(), "{unlisted:?}");
}

#[test]
fn a_kernel_of_a_file_judges_by_what_it_does() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine.toml");
    let mine = "[[kernel]]\nname = \"two-loads\"\nabout = \"x = A[i]; y = B[i]\"\nsource = \"a test\"\n\
                streams = [\"A\", \"B\"]\nunroll = 4\nbody = [\"x = load A\", \"y = load B\"]\n\n\
                [[kernel]]\nname = \"lanes\"\nabout = \"adds\"\nsource = \"a test\"\nconstants = { c = 0.5 }\n\
                lanes = { s = 0.0 }\nunroll = 4\nbody = [\"s = add s, c\"]\n";
    fs::write(&file, mine).unwrap();
    let arguments = [&TINY[..], &["--kernel-file", file.to_str().unwrap()]].concat();
    let output = memwall(home.path(), &arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("lanes judges nothing"), "{said}");
    let validation: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = verdict(&validation, "L1D.REPLACEMENT");
    assert_eq!(lines["trust"]["trust"], "trusted");
    let evidence = lines["evidence"].as_array().unwrap();
    let judging = |line: &&Value| line["experiment"].as_str().unwrap().starts_with("two-loads in L3");
    let seen = evidence.iter().find(judging).unwrap_or_else(|| panic!("{lines}"));
    assert!(seen["truth"].as_f64().unwrap() > 0.0, "{seen}");
    // It joins the kernels that are there, and changes nothing for them.
    let (_, before) = tiny();
    let made = |validation: &Value| validation["steps"][0]["experiments"].as_u64().unwrap();
    assert!(made(&validation) > made(before));
}

#[test]
fn what_was_interrupted_goes_on_where_it_stopped() {
    let home = tempfile::tempdir().unwrap();
    let mut child = memwall(home.path(), &TINY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lines = || {
        files(home.path(), "observations")
            .first()
            .map_or(0, |path| fs::read_to_string(path).unwrap_or_default().lines().count())
    };
    let began = Instant::now();
    while lines() < 5 && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(lines() >= 5);
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success() && child.wait().unwrap().success());
    let kept = lines();
    let saved: Value = serde_json::from_slice(&fs::read(&files(home.path(), "json")[0]).unwrap()).unwrap();
    assert_eq!(saved["complete"], false);
    assert!(kept >= 5);
    // The second call adds only what is missing; a repeated experiment would be written again.
    let mut child = memwall(home.path(), &TINY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while lines() <= kept && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text =
        files(home.path(), "observations").first().map(|path| fs::read_to_string(path).unwrap_or_default());
    let mut experiments: Vec<String> = text
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|one| one["experiment"].to_string())
        .collect();
    let all = experiments.len();
    experiments.sort();
    experiments.dedup();
    assert_eq!(experiments.len(), all);
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    child.wait().unwrap();
}

#[test]
fn this_machine_is_validated_as_far_as_it_can_be() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["validate", "--quick", "--runs", "1", "--json", "--random-kernels", "2"];
    let validation = &json(home.path(), &arguments);
    for name in
        ["page-faults", "context-switches", "task-clock", "breakpoint (write)", "breakpoint (execute)"]
    {
        let one = verdict(validation, name);
        assert_ne!(one["trust"]["trust"], "broken", "{one}");
    }
    for one in validation["indicators"].as_array().unwrap() {
        if one["trust"]["trust"] == "untested" {
            assert!(!one["trust"]["missing"].as_str().unwrap().is_empty(), "{one}");
        }
    }
    for name in ["timer: share of waiting", "timer: waiting on loads", "timer: addresses", "timer: skid"] {
        verdict(validation, name);
    }
    let steps = validation["steps"].as_array().unwrap();
    let drawn = steps.iter().find(|step| step["name"] == "random kernels").unwrap();
    if drawn["experiments"] == 0 {
        assert!(!drawn["missing"].as_str().unwrap().is_empty(), "{drawn}");
        return prerequisites::skip(prerequisites::Need::PerfEvent, &drawn["missing"]);
    }
    let unseen = &validation["unseen"];
    assert!(unseen["runs"] == 1 && unseen["seeds"][0].as_u64() >= Some(1_000_000), "{unseen}");
    // The next one draws others, and both count.
    let kept: Vec<String> =
        files(home.path(), "unseen").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let last: Value = serde_json::from_str(kept[0].lines().last().unwrap()).unwrap();
    let again = &json(
        home.path(),
        &["validate", "--quick", "--runs", "1", "--json", "--random-kernels", "1"],
    )["unseen"];
    assert_eq!(again["runs"], 2, "{again}");
    assert!(again["seeds"][1].as_u64() > last["seed"].as_u64(), "{again}");
    let tried =
        |unseen: &Value| unseen["all"]["kernels"].as_u64().unwrap() + unseen["unsteady"].as_u64().unwrap();
    assert_eq!(tried(again), tried(unseen) + 1);
}
