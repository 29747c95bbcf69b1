//! Which data: objects, lines that threads share, flagged intervals, and programs the allocation log cannot enter.

use serde_json::Value;

use super::{
    expected::blamed_on_customers,
    place::{Recorded, example, findings, memwall, number, recording},
};

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

#[test]
fn the_hot_table_of_a_join_is_first() {
    let found = findings(&recording("hash_join"));
    let objects = list(&found, "/objects/objects");
    let sites: Vec<&str> = objects.iter().map(|object| text(&object["site"]["function"])).collect();
    assert_eq!(sites[0], "allocate_customers", "{sites:?}");
    assert!(sites[1..].iter().all(|site| *site != sites[0]) && sites.len() >= 3, "{sites:?}");
    assert!(text(&objects[0]["site"]["source"]["file"]).ends_with("hash_join.c"), "{}", objects[0]);
    // Where it was recorded, six rounds took 0.63 s of CPU time with the table and 0.05 s with a small one.
    let gone = 1.0 - 0.05 / 0.63;
    let blamed = blamed_on_customers(&found).expect("it is probed");
    assert!((blamed - gone).abs() < 0.15, "blamed {blamed:.3}, gone without it {gone:.3}");
}

#[test]
fn false_sharing_names_the_line_both_functions_and_both_threads() {
    let file = recording("false_sharing");
    let found = findings(&file);
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
    let report = memwall().arg("report").arg(&file).output().expect("memwall");
    assert!(String::from_utf8_lossy(&report.stdout).contains(&address), "{address} in the short report");
}

#[test]
fn padding_ends_false_sharing() {
    let found = findings(&recording("false_sharing_padded"));
    assert!(list(&found, "/objects/shared_lines").is_empty(), "{}", found["objects"]["shared_lines"]);
}

#[test]
fn only_waiting_phases_are_flagged_and_their_data_is_named() {
    let file = recording("phases");
    let found = findings(&file);
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
    let report = memwall().args(["report", "--verbose"]).arg(&file).output().expect("memwall");
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
    prerequisites::copy_program(&example("chase"), &program);
    if chown(&program, Some(65534), None).is_err() {
        prerequisites::skip(prerequisites::Need::Root, "nobody else can make a program of another user");
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
