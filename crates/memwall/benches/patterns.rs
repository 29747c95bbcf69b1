//! How often patterns are found where they are, and where they only seem to be.
//!
//! `cargo bench -p memwall --bench patterns` draws scenarios at random on a simulated machine: each pattern's own and the one
//! that looks like it, with sizes, kernels and lengths by seed. Limits were set on seeds 1 to 3 (`-- 1 3`); where none are named, ten
//! are taken that nobody has seen, and printed. `-- regions FIRST LAST` makes both of a pair regions of one scenario, with data of their
//! own, and asks where the pattern is; names of patterns behind it leave out others. `-- live` builds the programs beside this file and says what is found in them here.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use analysis::patterns::known;
use serde_json::Value;

const MODEL: &str = "sim:haswell-ep-e5-2695v3";

/// So many seeds are drawn if none are given.
const DRAWN_SEEDS: u64 = 10;

/// Seeds that nobody looked at before: limits were set on small ones, and figures kept of some thousands.
fn unseen() -> (u64, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    (now, now + DRAWN_SEEDS - 1)
}

/// A value's name and what it may be.
type Drawn = (&'static str, &'static [&'static str]);

/// What is drawn in each scenario.
const DRAWS: [(&str, &[Drawn]); 20] = [
    ("pattern-bandwidth", &[("kernel", STREAMS), ("size", &["128K", "192K", "256K", "384K"])]),
    ("pattern-bandwidth-not", &[("kernel", STREAMS), ("size", &["128K", "192K", "256K", "384K"])]),
    ("pattern-latency", &[("size", &["128K", "512K", "1M", "2M", "3M"]), ("rounds", &["1", "2", "3"])]),
    ("pattern-latency-not", &[("size", &["4K", "8K", "12K"]), ("passes", &["2000", "3000", "4000"])]),
    (
        "pattern-imbalance",
        &[("size", SMALL), ("much", &["200", "250", "350", "450"]), ("little", &["50", "100", "125"])],
    ),
    ("pattern-imbalance-not", &[("size", SMALL), ("passes", &["60", "100", "200"]), ("rounds", &["1", "2"])]),
    ("pattern-false-sharing", &[("shift", &["8", "16", "24", "32"]), ("passes", FEW), ("nops", PACES)]),
    ("pattern-true-sharing", &[("passes", FEW), ("rounds", &["2", "3", "5"]), ("nops", PACES)]),
    ("pattern-numa", &[("kernel", WALKS), ("size", &["128K", "256K", "512K", "1M"])]),
    ("pattern-numa-not", &[("kernel", WALKS), ("size", &["128K", "256K", "512K", "1M"])]),
    ("pattern-tlb", &[("size", &["8M", "16M", "24M", "32M"]), ("rounds", &["2", "3", "4"])]),
    ("pattern-tlb-not", &[("size", &["128K", "256K", "384K", "512K"]), ("rounds", &["2", "3", "4"])]),
    ("pattern-synchronisation", &[("passes", LENGTHS), ("rounds", &["2", "3", "5"])]),
    ("pattern-synchronisation-not", &[("passes", LENGTHS), ("rounds", &["2", "3", "5"])]),
    ("pattern-excess", &[("size", &["256K", "512K", "1M", "2M"]), ("rounds", &["1", "2"])]),
    (
        "pattern-excess-not",
        &[("kernel", &["integer-sum", "load", "sum", "copy"]), ("size", &["256K", "512K", "1M", "2M"])],
    ),
    (
        "pattern-throughput",
        &[("kernel", IN_CORE), ("size", &["4K", "8K", "16K"]), ("passes", &["800", "1500"])],
    ),
    ("pattern-throughput-not", &[("kernel", IN_CORE), ("size", &["512K", "1M", "2M"])]),
    ("pattern-branches", &[("size", &["32K", "64K", "128K"]), ("passes", &["2", "4", "8"])]),
    ("pattern-branches-not", &[("size", &["32K", "64K", "128K"]), ("passes", &["2", "4", "8"])]),
];

/// What takes a pattern away and leaves the work as it is: a scenario and other values of it. `mean` is the mean of two others.
const REMEDIES: [(&str, &[(&str, &str)]); 4] = [
    ("pattern-false-sharing", &[("shift", "128")]),
    ("pattern-true-sharing", &[("shift", "128")]),
    ("pattern-numa", &[("far", "local")]),
    ("pattern-imbalance", &[("much", "mean"), ("little", "mean")]),
];

const STREAMS: &[&str] = &["load", "copy", "sum", "store", "triad", "daxpy"];
const SMALL: &[&str] = &["8K", "16K", "24K"];
const LENGTHS: &[&str] = &["10", "20", "30", "50"];
const FEW: &[&str] = &["2", "3", "4", "6"];
const PACES: &[&str] = &["10", "25", "50", "100"];
const WALKS: &[&str] = &["chase", "load", "sum"];
const IN_CORE: &[&str] = &["sum", "load", "integer-sum"];

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut numbers = words.iter().filter_map(|word| word.parse().ok());
    let (first, last) = match (numbers.next(), numbers.next()) {
        (Some(first), last) => (first, last.unwrap_or(first)),
        (None, _) => unseen(),
    };
    match words.first().map(String::as_str) {
        Some("live") => live(),
        Some("regions") => by_region(first, last, &words[1..]),
        _ => simulated(first, last),
    }
}

fn memwall(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", home);
    command
}

/// Names of the patterns that a document says are found.
fn found(document: &Value) -> Vec<String> {
    let patterns = document["patterns"].as_array().into_iter().flatten();
    let is_found = patterns.filter(|pattern| pattern["state"] == "found");
    is_found.filter_map(|pattern| Some(pattern["name"].as_str()?.to_owned())).collect()
}

/// The share of a scenario's time that is won where a pattern is taken away; none where nobody knows how.
fn won(home: &Path, scenario: &str, values: &BTreeMap<&str, String>) -> Option<f64> {
    let (_, remedy) = REMEDIES.iter().find(|(name, _)| *name == scenario)?;
    let time = |values: &BTreeMap<&str, String>| {
        let mut command = memwall(home);
        command.args(["--on", MODEL, "count", "-e", "cycles", "--json", "--scenario", scenario]);
        values.iter().for_each(|(name, value)| {
            command.args(["--set", &format!("{name}={value}")]);
        });
        let document: Value =
            serde_json::from_slice(&command.output().expect("memwall starts").stdout).ok()?;
        document["runs"][0]["elapsed_ns"].as_f64()
    };
    let mut better = values.clone();
    let numbers = remedy.iter().filter_map(|(name, _)| values.get(name)?.parse::<u64>().ok());
    let mean = numbers.sum::<u64>() / remedy.len() as u64;
    for (name, value) in *remedy {
        better.insert(name, if *value == "mean" { mean.to_string() } else { (*value).to_owned() });
    }
    Some(1.0 - time(&better)? / time(values)?)
}

/// The next number of a sequence (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn drawn(draws: &[Drawn], state: &mut u64) -> BTreeMap<&'static str, String> {
    let choose =
        |(name, choices): &Drawn| (*name, choices[(next(state) % choices.len() as u64) as usize].to_owned());
    draws.iter().map(choose).collect()
}

fn calibrated() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let calibrated = memwall(home.path()).args(["--on", MODEL, "calibrate", "--quick", "--json"]).output();
    assert!(calibrated.expect("memwall starts").status.success(), "calibration failed");
    home
}

/// Names of a scenario's values, data and regions, told apart by a word.
fn renamed(value: toml::Value, word: &str) -> toml::Value {
    match value {
        toml::Value::String(text) if text.starts_with('$') => toml::Value::String(format!("{text}-{word}")),
        toml::Value::Array(all) => all.into_iter().map(|one| renamed(one, word)).collect::<Vec<_>>().into(),
        toml::Value::Table(table) => {
            let rename = |(key, value): (String, toml::Value)| match (key.as_str(), value) {
                ("buffer" | "name", toml::Value::String(text)) => {
                    (key, toml::Value::String(format!("{text}-{word}")))
                }
                (_, value) => (key, renamed(value, word)),
            };
            toml::Value::Table(table.into_iter().map(rename).collect())
        }
        other => other,
    }
}

/// Those of the pair's threads that a scenario has.
fn limit_threads(regions: &mut toml::Value, threads: i64) {
    for region in regions.as_array_mut().into_iter().flatten() {
        let some: Vec<toml::Value> = (0..threads).map(toml::Value::Integer).collect();
        region.as_table_mut().expect("a region").insert("threads".to_owned(), some.into());
    }
}

/// Two scenarios one after the other, as regions `work-first` and `work-second` with data `data-first` and `data-second`. Where one has
/// fewer threads, the others are not in its region.
fn together(parts: [(&str, BTreeMap<&str, String>); 2]) -> String {
    let mut whole = toml::Table::new();
    let parts = parts.map(|(name, values)| {
        let text = kernels::scenario::shipped::find(name).expect("a scenario").text;
        (toml::from_str::<toml::Table>(text).expect("a table"), values)
    });
    let threads = parts.each_ref().map(|(part, _)| part["threads"].as_integer().expect("a number"));
    let most = threads.into_iter().max().unwrap_or(1);
    for (word, (part, values)) in ["first", "second"].into_iter().zip(parts) {
        let mut set = toml::Table::new();
        for (key, value) in part["set"].as_table().expect("values") {
            let value = match values.get(key.as_str()) {
                Some(drawn) => drawn.parse().map_or_else(|_| drawn.clone().into(), toml::Value::Integer),
                None => value.clone(),
            };
            set.insert(format!("{key}-{word}"), value);
        }
        let all = whole.entry("set").or_insert_with(|| toml::Table::new().into());
        all.as_table_mut().expect("values").extend(set);
        for list in ["buffer", "region"] {
            let mut more = renamed(part[list].clone(), word);
            let own = part["threads"].as_integer().unwrap_or(most);
            if list == "region" && own < most {
                limit_threads(&mut more, own);
            }
            let all = whole.entry(list).or_insert_with(|| Vec::<toml::Value>::new().into());
            all.as_array_mut().expect("a list").extend(more.as_array().expect("a list").iter().cloned());
        }
        for key in ["about", "source"] {
            whole.insert(key.to_owned(), part[key].clone());
        }
    }
    whole.insert("threads".to_owned(), most.into());
    whole.insert("name".to_owned(), "pair".into());
    toml::to_string(&whole).expect("a scenario")
}

/// Of pairs of regions, one of which has a pattern and the other looks like it: in which it is found, and on which data.
fn by_region(first: u64, last: u64, words: &[String]) {
    let home = calibrated();
    println!("Seeds {first} to {last} on {MODEL}: pairs of regions in one scenario.\n");
    println!("| pattern | found in the region that has it | found in the other | names the data |");
    println!("|---|---|---|---|");
    let named: Vec<&String> = words.iter().filter(|word| word.parse::<u64>().is_err()).collect();
    for pattern in known().iter().filter(|one| named.is_empty() || named.contains(&&one.name)) {
        let draws = |scenario: &str| {
            DRAWS.iter().position(|(name, _)| *name == scenario).map(|index| (index, DRAWS[index].1))
        };
        let (Some(has), Some(looks_like)) = (draws(&pattern.has), draws(&pattern.looks_like)) else {
            continue;
        };
        let (mut right, mut wrong, mut data) = (0, 0, 0);
        for seed in first..=last {
            let mut state = seed.wrapping_mul(1_000_000).wrapping_add(has.0 as u64);
            let own = (pattern.has.as_str(), drawn(has.1, &mut state));
            let other = (pattern.looks_like.as_str(), drawn(looks_like.1, &mut state));
            let is_first = next(&mut state).is_multiple_of(2);
            let word = if is_first { "first" } else { "second" };
            let file = home.path().join("pair.toml");
            fs::write(&file, together(if is_first { [own, other] } else { [other, own] })).expect("a file");
            let output = memwall(home.path())
                .args(["--on", MODEL, "count", "--patterns", "--per-region", "--json", "--scenario"])
                .arg(&file)
                .output()
                .expect("memwall starts");
            let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
                panic!("{}, seed {seed}: {}", pattern.name, String::from_utf8_lossy(&output.stderr))
            });
            for region in document["region_patterns"].as_array().into_iter().flatten() {
                let is_own = region["region"] == format!("work-{word}");
                let found = region["patterns"].as_array().into_iter().flatten();
                for one in found.filter(|one| one["name"] == *pattern.name && one["state"] == "found") {
                    *(if is_own { &mut right } else { &mut wrong }) += 1;
                    data += u64::from(is_own && one["place"] == format!("data-{word}"));
                }
            }
            eprintln!("{seed} {}: {right} {wrong} {data}", pattern.name);
        }
        let all = last - first + 1;
        println!("| {} | {right} of {all} | {wrong} of {all} | {data} of {all} |", pattern.title);
    }
}

fn simulated(first: u64, last: u64) {
    let home = calibrated();
    // By scenario and pattern: how often it was found.
    let mut sums: BTreeMap<(&str, String), u64> = BTreeMap::new();
    // By scenario: what was said to be won at most, and what taking the pattern away won.
    let mut wins: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for seed in first..=last {
        for (index, (scenario, draws)) in DRAWS.iter().enumerate() {
            let mut state = seed.wrapping_mul(1000).wrapping_add(index as u64);
            let mut command = memwall(home.path());
            command.args(["--on", MODEL, "count", "--patterns", "--json", "--scenario", scenario]);
            let values = drawn(draws, &mut state);
            for (name, value) in &values {
                command.args(["--set", &format!("{name}={value}")]);
            }
            let output = command.output().expect("memwall starts");
            let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
                panic!("{scenario}, seed {seed}: {}", String::from_utf8_lossy(&output.stderr))
            });
            for name in found(&document) {
                *sums.entry((scenario, name)).or_default() += 1;
            }
            eprintln!("{seed} {scenario}: {}", found(&document).join(" "));
            let own = known().iter().find(|pattern| pattern.has == *scenario);
            let patterns = document["patterns"].as_array().into_iter().flatten();
            let said = patterns
                .filter(|one| own.is_some_and(|own| one["name"] == *own.name))
                .find_map(|one| one["win_at_most"].as_f64());
            if let (Some(said), Some(won)) = (said, won(home.path(), scenario, &values)) {
                wins.entry(scenario).or_default().push((said, won));
            }
        }
    }
    let draws = last - first + 1;
    println!("Seeds {first} to {last} on {MODEL}: {draws} of each scenario.\n");
    println!("| pattern | found in its own | found in what looks like it | recall | precision |");
    println!("|---|---|---|---|---|");
    for pattern in known() {
        let count = |scenario: &str| {
            sums.iter()
                .find(|((at, name), _)| *at == scenario && *name == pattern.name)
                .map_or(0, |one| *one.1)
        };
        let (right, wrong) = (count(&pattern.has), count(&pattern.looks_like));
        let share = |part: u64, all: u64| match all {
            0 => "none found".to_owned(),
            all => format!("{:.2}", part as f64 / all as f64),
        };
        println!(
            "| {} | {right} of {draws} | {wrong} of {draws} | {} | {} |",
            pattern.title,
            share(right, draws),
            share(right, right + wrong)
        );
    }
    println!(
        "\nWhat was said to be won at most, and what was won by taking the pattern away, of the time:\n"
    );
    println!("| scenario | draws | said, mean | won, mean | least won | more than was said |");
    println!("|---|---|---|---|---|---|");
    for (scenario, wins) in &wins {
        let mean = |of: fn(&(f64, f64)) -> f64| 100.0 * wins.iter().map(of).sum::<f64>() / wins.len() as f64;
        let least = wins.iter().map(|win| 100.0 * win.1).fold(f64::INFINITY, f64::min);
        let more = wins.iter().filter(|(said, won)| won > said).count();
        let (said, won) = (mean(|win| win.0), mean(|win| win.1));
        println!("| {scenario} | {} | {said:.0} % | {won:.0} % | {least:.0} % | {more} |", wins.len());
    }
    println!("\nAll that was found, by scenario:\n");
    for (scenario, _) in DRAWS {
        let here = sums.iter().filter(|((at, _), _)| *at == scenario);
        let words: Vec<String> = here.map(|((_, name), times)| format!("{name} {times}")).collect();
        println!("- `{scenario}`: {}", words.join(", "));
    }
}

/// Programs beside this file, what they are run with, and the pattern each is for; none: it looks like one and has not.
const PROGRAMS: [(&str, &[&str], &str, Option<bool>); 12] = [
    ("imbalance_omp", &[], "load-imbalance", Some(true)),
    ("balanced_omp", &[], "load-imbalance", Some(false)),
    ("imbalance_pthread", &[], "load-imbalance", Some(true)),
    ("false_sharing_pthread", &[], "false-sharing", Some(true)),
    ("own_lines_pthread", &[], "false-sharing", Some(false)),
    ("locks_pthread", &[], "synchronisation", Some(true)),
    ("barriers_omp", &[], "synchronisation", Some(true)),
    ("balanced_omp", &["60"], "synchronisation", Some(false)),
    ("branches", &[], "control-flow", Some(true)),
    ("branches", &["--sorted"], "control-flow", Some(false)),
    ("chase_pthread", &[], "latency-bound", Some(true)),
    ("triad_omp", &[], "bandwidth-saturation", Some(true)),
];

/// What is found here, with the profile of the user.
fn live() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/patterns");
    let built = tempfile::tempdir().expect("a folder");
    println!("| program | for | it has it | found | all that was found |\n|---|---|---|---|---|");
    for (name, words, pattern, has) in PROGRAMS {
        let program = built.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-g", "-fopenmp", "-pthread", "-o"]).arg(&program);
        let is_built = compiler.arg(folder.join(format!("{name}.c"))).status();
        assert!(is_built.expect("a compiler").success(), "{name}");
        let mut run = Command::new(env!("CARGO_BIN_EXE_memwall"));
        let file = built.path().join("found.json");
        run.arg("run").arg(format!("--json={}", file.display())).arg(&program).args(words);
        run.output().expect("memwall starts");
        let document: Value =
            serde_json::from_str(&fs::read_to_string(&file).expect("written")).expect("JSON");
        let all = found(&document);
        let answer = |is: bool| if is { "yes" } else { "no" };
        println!(
            "| {name} {} | {pattern} | {} | {} | {} |",
            words.join(" "),
            has.map_or("", answer),
            answer(all.iter().any(|one| one == pattern)),
            all.join(", ")
        );
    }
}
