//! Which data: objects, lines that threads share, flagged intervals, and programs the allocation log cannot enter.

use std::process::Command;

use serde_json::Value;

use super::place::{Recorded, can_sample, example, memwall, number};

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Index of a function among the findings.
fn symbol(found: &Value, name: &str) -> usize {
    let at = list(found, "/symbols").iter().position(|symbol| symbol["name"] == name);
    at.unwrap_or_else(|| panic!("{name} has no samples: {}", found["symbols"]))
}

/// CPU time that an example spent in its rounds, by its own account on standard error.
fn cpu_seconds(said: &str) -> f64 {
    let (before, _) = said.split_once(" s of CPU time").expect("the example says so");
    before.rsplit('(').next().and_then(|text| text.parse().ok()).expect("seconds")
}

/// CPU time of a hash join without anybody watching.
fn join_seconds(more: &[&str]) -> f64 {
    let output = Command::new(example("hash_join")).args(["--rounds", "6"]).args(more).output();
    cpu_seconds(&String::from_utf8_lossy(&output.expect("it starts").stderr))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_hot_table_of_a_join_is_first_with_the_share_that_shrinking_it_takes_away() {
    if !can_sample() {
        return;
    }
    let (mut large, mut small, mut claimed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        large.push(join_seconds(&[]));
        small.push(join_seconds(&["--small-table"]));
        let recorded = Recorded::new(&["--rate", "2000"], &example("hash_join"), &["--rounds", "6"]);
        let found = recorded.findings();
        let objects = list(&found, "/objects/objects");
        let sites: Vec<&str> = objects.iter().map(|object| text(&object["site"]["function"])).collect();
        assert_eq!(sites[0], "allocate_customers", "{sites:?}");
        assert!(sites[1..].iter().all(|site| *site != sites[0]) && sites.len() >= 3, "{sites:?}");
        assert!(text(&objects[0]["site"]["source"]["file"]).ends_with("hash_join.c"), "{}", objects[0]);
        // The timed rounds are in one function: compare what it waits for this table with what is gone without it.
        let probe = symbol(&found, "probe");
        let uses = list(&objects[0], "/symbols").iter().find(|used| used["symbol"] == probe);
        let waiting = number(uses.expect("it is probed"), "/waiting_on_loads");
        claimed.push(waiting / number(&found["symbols"][probe], "/split/samples"));
    }
    let gone = 1.0 - median(small) / median(large);
    let claimed = median(claimed);
    assert!((claimed - gone).abs() < 0.15, "claimed {claimed:.3}, gone without it {gone:.3}");
}

#[test]
fn false_sharing_names_the_line_both_functions_and_both_threads() {
    if !can_sample() {
        return;
    }
    let recorded = Recorded::new(&["--rate", "2000"], &example("false_sharing"), &["--seconds", "1"]);
    let found = recorded.findings();
    let lines = list(&found, "/objects/shared_lines");
    let [line] = lines else { panic!("one line is shared: {lines:?}") };
    assert_eq!(line["sharing"], "false", "{line}");
    let object = &found["objects"]["objects"][line["object"].as_u64().expect("an object") as usize];
    assert_eq!(object["site"]["function"], "allocate_counters", "{object}");
    for (name, function) in [("left", "count_left"), ("right", "count_right")] {
        let thread = list(&found, "/threads").iter().find(|thread| thread["name"] == name);
        let tid = &thread.unwrap_or_else(|| panic!("no thread {name}: {}", found["threads"]))["tid"];
        let symbol = symbol(&found, function);
        let writes =
            |used: &&Value| used["tid"] == *tid && used["symbol"] == symbol && used["writes"] == true;
        assert!(list(line, "/uses").iter().any(|used| writes(&used)), "{name} in {function}: {line}");
    }
    let address = format!("{:#x}", line["address"].as_u64().expect("an address"));
    let report = memwall().arg("report").arg(recorded.file()).output().expect("memwall");
    assert!(String::from_utf8_lossy(&report.stdout).contains(&address), "{address} in the short report");
}

#[test]
fn padding_ends_false_sharing() {
    if !can_sample() {
        return;
    }
    let recorded = Recorded::new(&[], &example("false_sharing"), &["--seconds", "0.5", "--padded"]);
    let found = recorded.findings();
    assert!(list(&found, "/objects/shared_lines").is_empty(), "{}", found["objects"]["shared_lines"]);
}

#[test]
fn only_waiting_phases_are_flagged_and_their_data_is_named() {
    if !can_sample() {
        return;
    }
    let arguments = ["--rounds", "2", "--size", "64M"];
    let recorded = Recorded::new(&["--rate", "5000"], &example("phases"), &arguments);
    let found = recorded.findings();
    let inside = |name: &str| number(&found["symbols"][symbol(&found, name)], "/flagged_share");
    // Intervals in which one phase ends and the next begins belong to both.
    let (waiting, computing) = (inside("waiting_phase"), inside("compute_phase"));
    assert!(waiting > 0.75 && computing < 0.25, "{waiting} {computing}: {}", found["timeline"]);
    let flagged = &found["objects"]["flagged"];
    let first = |view: &str| flagged[view][0]["index"].as_u64().expect("a first one") as usize;
    assert_eq!(found["symbols"][first("symbols")]["name"], "waiting_phase", "{flagged}");
    let object = &found["objects"]["objects"][first("objects")];
    assert_eq!(object["site"]["function"], "allocate_chain", "{object}");
    assert!(number(flagged, "/objects/0/load_waiting/value") > 0.8, "{flagged}");
    assert!(flagged["samples"].as_u64() < found["about"]["samples"].as_u64(), "{flagged}");
    let report = memwall().args(["report", "--verbose"]).arg(recorded.file()).output().expect("memwall");
    let words = String::from_utf8_lossy(&report.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("flagged intervals alone") && words.contains("name waiting_phase"), "{words}");
}

/// What a recording says where data on the heap is known by its mapping only.
fn remarks(recorded: &Recorded) -> String {
    let found = recorded.findings();
    let named = list(&found, "/objects/objects").iter().all(|object| object["kind"] != "heap");
    assert!(named, "{}", found["objects"]);
    format!("{} {}", found["remarks"], found["objects"]["remarks"])
}

#[test]
fn without_the_allocation_log_mappings_are_named_and_that_is_said() {
    let arguments = ["--size", "L2", "--seconds", "0.3"];
    let without = Recorded::new(&["--no-heap"], &example("chase"), &arguments);
    assert!(remarks(&without).contains("--no-heap"), "{}", remarks(&without));
    let linked = Recorded::new(&[], &example("odd/chase_static"), &arguments);
    assert!(remarks(&linked).contains("statically linked"), "{}", remarks(&linked));
}

#[test]
fn a_program_with_rights_of_its_own_is_not_entered_and_that_is_said() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("chase");
    std::fs::copy(example("chase"), &program).expect("copied");
    if chown(&program, Some(65534), None).is_err() {
        println!("skipped: only root can make a program of another user");
        return;
    }
    // The other user must be able to come there.
    for (path, mode) in [(folder.path(), 0o755), (&program, 0o4755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let recorded = Recorded::new(&[], &program, &["--size", "L2", "--seconds", "0.3"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    assert!(remarks(&recorded).contains("set-user-ID"), "{}", remarks(&recorded));
}
