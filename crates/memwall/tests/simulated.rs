//! Simulated machines as a user meets them: the same commands, the same bits every time.

use assert_cmd::Command;
use predicates::str::contains;
use serde_json::Value;

fn memwall(home: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", home.path()).env("COLUMNS", "120");
    command
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// What a command prints, which must be the same when it is run again.
fn twice(arguments: &str) -> String {
    let home = home();
    let run = || {
        let output = memwall(&home).args(arguments.split(' ')).assert().success().get_output().stdout.clone();
        String::from_utf8(output).expect("text")
    };
    let first = run();
    assert_eq!(first, run(), "{arguments}");
    first
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn bench_repeats_to_the_bit_and_is_marked() {
    let found = json(&twice("--on sim:tiny bench load --size 1K,4K,32K,256K --json"));
    assert_eq!(found["simulated"], "tiny");
    let points = found["points"].as_array().expect("points");
    assert_eq!(points.len(), 4);
    for point in points {
        assert_eq!(point["stopped"], "simulated");
        assert_eq!(point["samples_ns"].as_array().map(Vec::len), Some(1));
        assert!(point["noise"]["steal_ns"].is_null());
    }
    let rate = |point: &Value| {
        point["work"]["program_bytes"].as_f64().expect("bytes")
            / point["time_ns"]["value"].as_f64().expect("ns")
    };
    // Each level gives less than the one inside it.
    assert!(points.windows(2).all(|pair| rate(&pair[0]) > 1.2 * rate(&pair[1])), "{points:?}");
}

#[test]
fn prefetchers_can_be_switched_and_their_machine_is_another() {
    let home = home();
    let time = |switches: &[&str]| {
        let command =
            "--on sim:tiny bench load --size 256K --json".split(' ').chain(switches.iter().copied());
        let output = memwall(&home).args(command).assert().success().get_output().stdout.clone();
        let found = json(&String::from_utf8(output).expect("text"));
        let name = found["simulated"].as_str().expect("a name").to_owned();
        (name, found["points"][0]["time_ns"]["value"].as_f64().expect("ns"))
    };
    let (all, with) = time(&[]);
    let (none, without) = time(&["--prefetchers", "none"]);
    let (some, streamed) = time(&["--prefetchers", "l2-streamer"]);
    assert_eq!(
        [all, none, some],
        ["tiny", "tiny+prefetchers=none", "tiny+prefetchers=l2-streamer"].map(str::to_owned)
    );
    assert!(with < streamed && streamed < without, "{with} {streamed} {without}");
    memwall(&home)
        .args(["--on", "sim:tiny", "--prefetchers", "none", "calibrate", "--quick"])
        .assert()
        .success();
    memwall(&home).args(["--on", "sim:tiny", "profile"]).assert().failure().stderr(contains("calibrate"));
    let profile = memwall(&home).args(["--on", "sim:tiny", "--prefetchers", "none", "profile"]).assert();
    profile.success().stdout(contains("tiny+prefetchers=none"));
    for (arguments, said) in [
        ("--prefetchers none doctor", "add --on sim:NAME"),
        ("--on sim:tiny --prefetchers l3 bench load", "l1-next-line,l1-stride,l2-adjacent,l2-streamer"),
        ("--on sim:tiny --prefetchers  bench load", "no prefetcher is called ''"),
    ] {
        memwall(&home).args(arguments.split(' ')).assert().code(2).stderr(contains(said));
    }
}

#[test]
fn a_bench_is_read_without_statistics_it_does_not_have() {
    let home = home();
    let text = memwall(&home).args(["bench", "triad", "--on", "sim:tiny"]).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).expect("text");
    assert!(text.contains("simulated tiny") && text.contains("the same time every time"), "{text}");
    assert!(!text.contains('±') && !text.contains("fewer than"), "{text}");
    // From half the first cache to four times the last.
    assert!(text.contains("1 KiB") && text.contains("256 KiB") && !text.contains("512 KiB"), "{text}");
}

#[test]
fn calibrate_finds_what_the_model_has_and_keeps_it_apart() {
    let profile = json(&twice("calibrate --on sim:tiny --quick --json"));
    assert_eq!((profile["simulated"].as_str(), profile["measured_at"].as_u64()), (Some("tiny"), Some(0)));
    assert!(profile["overheads"].is_null() && profile["noise"].is_null());
    assert_eq!(profile["extent"]["complete"], true);
    let levels = profile["levels"].as_array().expect("levels");
    for (level, claimed) in levels.iter().zip([2048.0, 8192.0, 65536.0]) {
        let usable = level["usable"]["value"].as_f64().expect("a capacity");
        assert!((usable / claimed - 1.0).abs() < 0.15, "{usable} of {claimed}");
    }
    let latency = |level: &Value| level["latency_ns"]["value"].as_f64().expect("a latency");
    assert!(levels.windows(2).all(|pair| latency(&pair[0]) < latency(&pair[1])));

    let home = home();
    memwall(&home).args(["profile", "--on", "sim:tiny"]).assert().code(1).stderr(contains("calibrate"));
    memwall(&home).args(["calibrate", "--on", "sim:tiny", "--quick"]).assert().success();
    let shown = memwall(&home).args(["profile", "--on", "sim:tiny"]).assert().success();
    let shown = String::from_utf8(shown.get_output().stdout.clone()).expect("text");
    assert!(shown.contains("simulated machine tiny") && !shown.contains(" ago"), "{shown}");
    assert!(shown.contains("simulated: there is none"), "{shown}");
    // It is no profile of the machine we run on, however much changed.
    memwall(&home).arg("profile").assert().code(1).stderr(contains("no profile"));
    memwall(&home).args(["profile", "--on", "sim:core2-e5430"]).assert().code(1);
}

#[test]
fn topology_and_doctor_speak_of_the_model() {
    let home = home();
    let topology = memwall(&home).args(["--on", "sim:haswell-ep-e5-2680v3", "topology", "--json"]).assert();
    let topology = json(&String::from_utf8(topology.success().get_output().stdout.clone()).expect("text"));
    assert_eq!(topology["cpus"].as_array().map(Vec::len), Some(24));
    let doctor = memwall(&home).args(["--on", "sim:haswell-ep-e5-2680v3", "doctor"]).assert().success();
    doctor
        .stdout(contains("Best instrument here: pmu"))
        .stdout(contains("events of haswell-ep"))
        .stdout(contains("2 nodes"))
        .stdout(contains("nobody steals"));
}

#[test]
fn requests_that_no_model_can_serve() {
    let home = home();
    let refused = |arguments: &str, says: &str| {
        let assert =
            memwall(&home).args(arguments.split(' ')).assert().code(2).stderr(contains(says.to_owned()));
        assert_eq!(String::from_utf8_lossy(&assert.get_output().stderr).lines().count(), 1, "{arguments}");
    };
    refused("--on sim:haswell-ep-e5-2680v3 bench load --width avx512 --size 16K", "avx512");
    refused("--on sim:core2-e5430 bench load --width avx2 --size 16K", "avx2");
    refused("--on sim:tyny doctor", "did you mean tiny?");
    refused("--on tiny doctor", "sim:NAME");
    refused("--on sim doctor", "which machine");
    refused("--on sim:tiny --model-file x.toml doctor", "two machines");
    refused("--on sim:tyny/16 doctor", "did you mean tiny?");
    refused("--on sim:tiny/some doctor", "sim:tiny/16");
    refused("--on sim:haswell-ep-e5-2680v3/12 doctor", "a power of two");
    refused("--model-file /nonexistent.toml doctor", "cannot read model file");
    refused("--on sim:tiny bench load --size 128M", "all the memory");
    refused("--on sim:tiny bench load --size 1K --cpus 2", "no CPU 2");
    refused("--on sim:tiny topology --root /", "two machines");
    refused("--on sim:tiny kernels", "no machine");
    refused("--on sim:tiny scenario both --cpus 0 --oversubscribe --scale 256", "CPU of its own");
}

#[test]
fn a_sixteenth_of_a_machine() {
    let home = home();
    let topology =
        memwall(&home).args(["--on", "sim:haswell-ep-e5-2680v3/16", "topology"]).assert().success();
    topology.stdout(contains("L2 16 KiB 8-way")).stdout(contains("1/16 of its caches"));
    let arguments =
        ["--on", "sim:haswell-ep-e5-2680v3/16", "bench", "chase", "--size", "16K", "--repeat", "1"];
    memwall(&home).args(arguments).assert().success();
}

#[test]
fn a_model_of_ones_own() {
    let home = home();
    let shown = memwall(&home).args(["models", "show", "tiny", "--toml"]).assert().success();
    let text = String::from_utf8(shown.get_output().stdout.clone()).expect("text");
    let file = home.path().join("mine.toml");
    std::fs::write(&file, text.replace("name = \"tiny\"", "name = \"mine\"")).expect("written");
    let bench =
        memwall(&home).arg("--model-file").arg(&file).args(["bench", "chase", "--size", "1K"]).assert();
    bench.success().stdout(contains("simulated mine"));
    std::fs::write(&file, text.replace("sockets = 1", "sockets = 9")).expect("written");
    let bad = memwall(&home).args(["--on", "sim", "doctor", "--model-file"]).arg(&file).assert();
    bad.code(2).stderr(contains("mine.toml:")).stderr(contains("sockets"));
}

/// First loads wait, then stores: over all the larger of both counts is half of it, interval by interval it is right (molka2017 §4.3).
#[test]
fn waiting_that_is_too_little_over_all_is_right_interval_by_interval() {
    let command = "count -g STALLS --scenario load-store-phases --scale 64 --set rounds=1 --on sim:haswell-ep-e5-2680v3/64 --interval";
    let found = json(&twice(&format!("{command} 0.02 --json")));
    let metrics = found["metrics"][0]["metrics"].as_array().expect("metrics");
    let waiting = metrics.iter().find(|metric| metric["name"] == "memory bound").expect("a metric");
    let over_all = waiting["values"][0].as_f64().expect("a value");
    let series: Vec<f64> =
        waiting["series"].as_array().expect("a series").iter().filter_map(Value::as_f64).collect();
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    assert!(series.len() > 20 && over_all < 60.0 && mean > 85.0, "{over_all} over all, {mean} of {series:?}");
    let home = home();
    let text = |arguments: &str| {
        let output = memwall(&home).args(arguments.split(' ')).assert().get_output().clone();
        String::from_utf8([output.stdout, output.stderr].concat()).expect("text")
    };
    assert!(text(&format!("{command} 0.02")).contains("Over time ("), "pictures");
    for (refused, why) in [
        (format!("{command} 0.02 --multiplex"), "counts everything at once"),
        (format!("{command} 0"), "more than 0"),
        (format!("{command} 1 --seconds 1"), "to its end"),
        ("count --on sim:tiny --kernel load --size 8K --interval 1".to_owned(), "does the same all the time"),
        ("count --interval 0.5 -- true".to_owned(), "add --on sim:NAME"),
    ] {
        assert!(text(&refused).contains(why), "{refused}: {}", text(&refused));
    }
}

#[test]
fn scenarios_repeat_to_the_bit() {
    for name in ["producer-consumer", "imbalance", "stream-rate"] {
        let run = json(&twice(&format!("scenario {name} --on sim:tiny --scale 256 --set rounds=2 --json")));
        assert_eq!(run["simulated"], "tiny");
        for region in run["regions"].as_array().expect("regions") {
            for thread in region["threads"].as_array().expect("threads") {
                let entries = thread["entries"].as_array().expect("entries");
                assert_eq!(entries.len() as u64, region["planned_entries"].as_u64().expect("a number"));
                // A thread without a step in a region leaves it at once.
                assert!(entries.iter().all(|entry| entry["end_ns"].as_f64() >= entry["start_ns"].as_f64()));
            }
        }
    }
}

#[test]
fn threads_of_unequal_work_take_unequal_time() {
    let home = home();
    let run = memwall(&home).args("scenario imbalance --on sim:tiny --scale 64 --json".split(' ')).assert();
    let run = json(&String::from_utf8(run.success().get_output().stdout.clone()).expect("text"));
    let passes = &run["regions"].as_array().expect("regions")[1];
    let busy = |thread: usize| {
        let entries = passes["threads"][thread]["entries"].as_array().expect("entries");
        entries
            .iter()
            .map(|e| e["end_ns"].as_f64().expect("ns") - e["start_ns"].as_f64().expect("ns"))
            .sum::<f64>()
    };
    // Three times the passes; the memory they share makes up for some of it.
    let ratio = busy(0) / busy(1);
    assert!((1.8..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn every_scenario_runs_on_a_simulated_machine() {
    let home = home();
    // Compute-bound regions do not shrink with the data: one round of them is enough.
    for name in ["bandwidth-compute", "latency-phases", "false-sharing", "working-set", "both", "neither"] {
        let arguments = ["scenario", name, "--on", "sim:tiny", "--scale", "256", "--set", "rounds=1"];
        memwall(&home).args(arguments).assert().success().stdout(contains("simulated tiny"));
    }
    let far = ["scenario", "remote-placement", "--scale", "256", "--on"];
    memwall(&home).args(far).arg("sim:tiny").assert().code(2).stderr(contains("no other with memory"));
    let far = memwall(&home).args(far).arg("sim:haswell-ep-e5-2680v3").assert();
    far.success().stdout(contains("simulated haswell-ep-e5-2680v3"));
}

/// Whether a scenario has a pattern by its events, as `count --patterns` says.
fn pattern(home: &tempfile::TempDir, scenario: &str, name: &str) -> String {
    let line = format!("--on sim:haswell-ep-e5-2695v3 count --patterns --json --scenario {scenario}");
    let output = memwall(home).args(line.split(' ')).assert().success().get_output().stdout.clone();
    let found = json(&String::from_utf8(output).expect("text"));
    let patterns = found["patterns"].as_array().expect("patterns").clone();
    let one = patterns.into_iter().find(|pattern| pattern["name"] == name).expect("known");
    one["state"].as_str().expect("a word").to_owned()
}

#[test]
fn patterns_are_found_in_their_scenarios_and_not_in_what_looks_like_them() {
    let home = home();
    for (name, has, looks_like) in [
        ("false-sharing", "pattern-false-sharing", "pattern-true-sharing"),
        ("true-sharing", "pattern-true-sharing", "pattern-false-sharing"),
        ("latency-bound", "pattern-latency", "pattern-latency-not"),
        ("load-imbalance", "pattern-imbalance", "pattern-imbalance-not"),
        ("numa-placement", "pattern-numa", "pattern-numa-not"),
        ("tlb-thrashing", "pattern-tlb", "pattern-tlb-not"),
        ("synchronisation", "pattern-synchronisation", "pattern-synchronisation-not"),
        ("excess-volume", "pattern-excess", "pattern-excess-not"),
        ("instruction-throughput", "pattern-throughput", "pattern-throughput-not"),
        ("control-flow", "pattern-branches", "pattern-branches-not"),
    ] {
        assert_eq!(pattern(&home, has, name), "found", "{has}");
        assert_eq!(pattern(&home, looks_like, name), "absent", "{looks_like}");
    }
    // Every addition finds its line with the other core, and nine tenths of that time it has other things to do.
    assert_eq!(pattern(&home, "pattern-false-sharing --set nops=400", "false-sharing"), "absent");
    // Without a profile nobody knows how much memory can move.
    assert_eq!(pattern(&home, "pattern-bandwidth", "bandwidth-saturation"), "unknown");
}

/// Two regions with data of their own: one waits for loads, the other counts in one line.
const TWO_REGIONS: &str = r#"
name = "two-regions"
about = "a chase, then counters"
source = "a test"
threads = 2

[[buffer]]
name = "list"
size = "1M"

[[buffer]]
name = "counters"
size = "4K"
sharing = "shared"
pages = "small"

[[region]]
name = "follow"

[[region.step]]
kernel = "chase"
buffer = "list"

[[region]]
name = "add"

[[region.step]]
kernel = "paced-atomic-counter"
parameters = { nops = 50 }
buffer = "counters"
span = "whole"
shift = 8
passes = 3
"#;

#[test]
fn patterns_name_their_region_and_its_data() {
    let home = home();
    let file = home.path().join("two-regions.toml");
    std::fs::write(&file, TWO_REGIONS).expect("a file");
    let arguments = ["--on", "sim:haswell-ep-e5-2695v3", "count", "--patterns", "--per-region", "--scenario"];
    let counted = memwall(&home).args(arguments).arg(&file).arg("--json").assert().success();
    let found = json(&String::from_utf8(counted.get_output().stdout.clone()).expect("text"));
    let place = |region: &str, name: &str| -> Option<String> {
        let regions = found["region_patterns"].as_array().expect("regions");
        let region = regions.iter().find(|one| one["region"] == region).expect("a region");
        let mut patterns = region["patterns"].as_array().expect("patterns").iter();
        let one = patterns.find(|one| one["name"] == name && one["state"] == "found")?;
        Some(one["place"].as_str().unwrap_or("nowhere").to_owned())
    };
    assert_eq!(place("follow", "latency-bound").as_deref(), Some("list"));
    assert_eq!(place("follow", "false-sharing"), None);
    assert_eq!(place("add", "false-sharing").as_deref(), Some("counters"));
    let text = memwall(&home).args(arguments).arg(&file).assert().success();
    text.stdout(contains("Patterns in add")).stdout(contains("false sharing (hazard) in counters"));
}
