//! The forms of `--json`, one file each in docs/schemas: what documents of today have is what the files say.
//!
//! Documents are of kept recordings and simulated machines, so that they are the same everywhere. After a change of a form
//! `MEMWALL_WRITE_SCHEMAS=1 cargo test -p memwall --test schemas` writes the files anew; read the difference. A reader must
//! ignore what it does not know: new fields are no new version.

mod schema_files;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use schema_files::{file_of, folder, hold_outline, is_writing, whole};
use serde_json::Value;

/// Commands and the schema of what they print, in this order.
const COMMANDS: [(&str, &str); 23] = [
    ("memwall.count/1", "--on sim:tiny count -g L2 --kernel load --size 64K --json"),
    ("memwall.count/1", "--on sim:tiny count -e INST_RETIRED.ANY --kernel load --size 64K --json"),
    ("memwall.count/1", "--on sim:core2-e5430 count -g ACCOUNTING --kernel load --size 64K --json"),
    (
        "memwall.count/1",
        "--on sim:haswell-ep-e5-2695v3 count --patterns --scenario pattern-false-sharing --set passes=2 --json",
    ),
    (
        "memwall.count/1",
        "--on sim:haswell-ep-e5-2695v3 count --patterns --per-region --scenario pattern-true-sharing --set passes=2 --json",
    ),
    // Between bounds.
    ("memwall.count/1", "--on sim:haswell-ep-e5-2680v3/16 count -g TOPDOWN --kernel update --size 4M --json"),
    ("memwall.patterns/1", "--on sim:tiny patterns --json"),
    ("memwall.methods/1", "--on sim:nehalem-ep-x5570 methods --json"),
    ("memwall.events/1", "--on sim:tiny events --json"),
    ("memwall.bench/1", "--on sim:tiny bench load --size 1K,4K --json"),
    ("memwall.scenario/1", "--on sim:tiny scenario imbalance --scale 64 --json"),
    ("memwall.topology/1", "--on sim:tiny topology --json"),
    ("memwall.models/1", "models --json"),
    ("memwall.model/1", "models show tiny --json"),
    ("memwall.kernels/1", "kernels --json"),
    ("memwall.doctor/1", "--on sim:tiny doctor --json"),
    ("memwall.profile/1", "--on sim:tiny calibrate --quick --json"),
    ("memwall.profile/1", "--on sim:tiny profile --json"),
    // With a profile, by region.
    (
        "memwall.count/1",
        "--on sim:tiny count -g CLOCK --per-region --per-socket --scenario load-store-phases --scale 64 --json",
    ),
    ("memwall.validate/1", "--on sim:tiny validate --quick --json"),
    ("memwall.reproduce/1", "reproduce molka2017 section4.3 --json"),
    ("memwall.reproduce/1", "reproduce molka2017 figure7 --json"),
    ("memwall.mutants/1", "reproduce molka2017 section4.2 --mutants=1 --turn 5 --json"),
];

/// Printed on this machine only: the file says less of them.
const LIVE: [(&str, &str); 2] =
    [("memwall.demo/1", "demo --seconds 0.05 --json"), ("memwall.run/1", "run --json true")];

fn document(home: &Path, words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let output = command.env("XDG_DATA_HOME", home).args(words).output().expect("memwall starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Documents by their schema.
fn documents(home: &Path) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut add = |schema: &str, document: Value| {
        assert_eq!(document["schema"], schema);
        all.entry(schema.to_owned()).or_default().push(document);
    };
    for (schema, line) in COMMANDS {
        add(schema, document(home, &line.split(' ').collect::<Vec<_>>()));
    }
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings");
    let mut files: Vec<String> = fs::read_dir(recordings)
        .expect("recordings")
        .filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned()))
        .filter(|path| path.ends_with(".sqlite"))
        .collect();
    files.sort();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.iter().for_each(|file| add("memwall.run/1", document(home, &["report", "--json", file])));
    // As where the kernel refused to sample.
    let without_samples = home.join("without-samples.sqlite");
    fs::copy(files[0], &without_samples).expect("copied");
    let recording = rusqlite::Connection::open(&without_samples).expect("a recording");
    recording.execute("DELETE FROM sample", []).expect("deleted");
    drop(recording);
    add("memwall.run/1", document(home, &["report", "--json", without_samples.to_str().expect("a name")]));
    // As where the program marked regions: one with samples, one without.
    let with_regions = home.join("with-regions.sqlite");
    fs::copy(files[0], &with_regions).expect("copied");
    let recording = rusqlite::Connection::open(&with_regions).expect("a recording");
    let marked = "CREATE TABLE region(id INTEGER PRIMARY KEY, name TEXT NOT NULL, is_parallel INTEGER NOT NULL);
        CREATE TABLE region_sample(sample INTEGER PRIMARY KEY, region INTEGER NOT NULL);
        CREATE TABLE region_burst(burst INTEGER PRIMARY KEY, region INTEGER NOT NULL);
        CREATE TABLE region_visits(region INTEGER, thread INTEGER, visits INTEGER, unended INTEGER, wall_ns INTEGER);
        INSERT INTO region VALUES(0, 'solve', 0), (1, 'main._omp_fn.0', 1);
        INSERT INTO region_sample SELECT id, 0 FROM sample;
        INSERT INTO region_visits VALUES(0, 0, 5, 0, 1000), (0, 1, 5, 0, 500), (1, 0, 1, 1, 70);
        CREATE TABLE region_waits(region INTEGER, thread INTEGER, waits_ns INTEGER);
        INSERT INTO region_waits VALUES(1, 0, 30);
        CREATE TABLE region_counts(region INTEGER, thread INTEGER, visits INTEGER, minor_faults INTEGER,
            major_faults INTEGER, voluntary_switches INTEGER, involuntary_switches INTEGER);
        INSERT INTO region_counts VALUES(0, 0, 4, 30, 1, 7, 2);
        CREATE TABLE events_done(id INTEGER, done INTEGER, skipped INTEGER, first_ns INTEGER, last_ns INTEGER);
        INSERT INTO events_done VALUES(0, 9, 2, 100, 900);
        CREATE TABLE scaling(id INTEGER PRIMARY KEY, document TEXT NOT NULL)";
    recording.execute_batch(marked).expect("marked");
    let run = |threads: u32, round: u32| {
        serde_json::json!({
            "threads": threads, "seen": threads, "round": round, "elapsed_ns": 1_000_000 / threads, "user_ns": 1e6,
            "useful_ns": 9e5, "memory_ns": 1e5, "synchronising_ns": 1e4, "imbalance": (threads > 1).then_some(0.1),
            "stream_bytes_per_s": 1e9, "spoilt": (round > 1).then_some("others took it"),
        })
    };
    let runs: Vec<Value> =
        [1, 2].iter().flat_map(|threads| [0, 1, 2].map(|round| run(*threads, round))).collect();
    let series = serde_json::json!({"cpus": 2, "cores": 1, "runs": runs}).to_string();
    recording.execute("INSERT INTO scaling VALUES(0, ?)", [series]).expect("a series");
    drop(recording);
    add("memwall.run/1", document(home, &["report", "--json", with_regions.to_str().expect("a name")]));
    // As where events were sampled: by region, and with loads.
    let sampled = home.join("sampled.sqlite");
    let sampled = sampled.to_str().expect("a name");
    let scenario = format!("--on sim:tiny scenario imbalance --scale 64 -o {sampled}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let done = command.env("XDG_DATA_HOME", home).args(scenario.split(' ')).output().expect("memwall starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    add("memwall.run/1", document(home, &["report", "--json", sampled]));
    // As where threads were blocked, of which nobody knows an interval.
    let mut without_interval = document(home, &["report", "--json", files[0]]);
    without_interval["patterns"][0]["evidence"][0]["interval"] = Value::Null;
    add("memwall.run/1", without_interval);
    let sides = [&["compare", "--json", "--before"], &files[..2], &["--after"], &files[2..4]].concat();
    add("memwall.compare/1", document(home, &sides));
    add("memwall.compare/1", document(home, &["compare", "--json", files[0], files[1]]));
    let marked = with_regions.to_str().expect("a name");
    add("memwall.ranks/1", document(home, &[&["report", "--json"], &files[..3], &[marked]].concat()));
    all
}

#[test]
fn documents_have_what_their_schema_says_and_nothing_else() {
    let home = tempfile::tempdir().expect("a folder");
    let documents = documents(home.path());
    for (name, documents) in &documents {
        let now = whole(name, documents);
        if is_writing() {
            let text = serde_json::to_string_pretty(&now).expect("JSON") + "\n";
            fs::create_dir_all(folder()).and_then(|()| fs::write(file_of(name), text)).expect("written");
        }
        let text = fs::read_to_string(file_of(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kept: Value = serde_json::from_str(&text).expect("JSON");
        // Each says so by its own rules, so that other tools can rely on them.
        let validator = jsonschema::validator_for(&kept).unwrap_or_else(|error| panic!("{name}: {error}"));
        for document in documents {
            assert!(validator.is_valid(document), "{name}: {:?}", validator.iter_errors(document).next());
        }
        assert!(
            kept == now,
            "{name}: docs/schemas does not say what documents have; see the head of this test"
        );
    }
    for (name, line) in LIVE {
        let document = document(home.path(), &line.split(' ').collect::<Vec<_>>());
        hold_outline(name, &document, is_writing() && !documents.contains_key(name));
    }
}

#[test]
fn every_schema_that_help_names_has_its_file() {
    let help = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_memwall")).args(words).arg("--help").output();
        String::from_utf8(output.expect("memwall starts").stdout).expect("text")
    };
    let all = help(&[]);
    let commands =
        all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut named = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let text = help(&[command]);
        for (at, _) in text.match_indices("memwall.") {
            let name: String = text[at..]
                .chars()
                .take_while(|letter| letter.is_ascii_alphanumeric() || "./".contains(*letter))
                .collect();
            let name = name.trim_end_matches('.');
            if name.contains('/') {
                assert!(file_of(name).exists(), "{command}: {name}");
                named += 1;
            }
        }
    }
    assert!(named >= 12, "{named}");
}
