//! Crates use each other as `arrows.toml` allows, and no allowance is left over.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::{Value, json};

/// Which table, who, whom.
type Arrows = BTreeSet<(String, String, String)>;

fn allowed(text: &str) -> Arrows {
    let tables: BTreeMap<String, BTreeMap<String, Vec<String>>> = toml::from_str(text).expect("tables");
    let mut arrows = Arrows::new();
    for (table, crates) in tables {
        for (user, used) in crates {
            arrows.extend(used.into_iter().map(|used| (table.clone(), user.clone(), used)));
        }
    }
    arrows
}

/// A package's name as the tables have it.
fn short(name: &str) -> &str {
    name.strip_prefix("memwall-").unwrap_or(name)
}

fn used(metadata: &Value) -> Arrows {
    let mut arrows = Arrows::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let user = short(package["name"].as_str().expect("a name"));
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        // Only members of the workspace have a path.
        for dependency in dependencies.filter(|dependency| dependency["path"].is_string()) {
            let table = if dependency["kind"] == "dev" { "uses_in_tests" } else { "uses" };
            let used = short(dependency["name"].as_str().expect("a name"));
            arrows.insert((table.into(), user.into(), used.into()));
        }
    }
    arrows
}

fn complaints(used: &Arrows, allowed: &Arrows) -> Vec<String> {
    let line = |(table, user, whom): &(String, String, String), what: &str| {
        format!("[{table}] {user} -> {whom}: {what}")
    };
    let forbidden = used.difference(allowed).map(|arrow| line(arrow, "used, not allowed"));
    let unused = allowed.difference(used).map(|arrow| line(arrow, "allowed, not used"));
    forbidden.chain(unused).collect()
}

#[test]
fn crates_use_each_other_as_the_architecture_says() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let used = used(&serde_json::from_slice(&output.stdout).expect("JSON"));
    assert!(used.len() > 20, "{used:?}");
    let wrong = complaints(&used, &allowed(include_str!("../arrows.toml")));
    assert!(wrong.is_empty(), "crates/housekeeping/arrows.toml:\n{}", wrong.join("\n"));
}

#[test]
fn a_forbidden_arrow_and_an_unused_allowance_are_both_found() {
    let metadata = json!({"packages": [
        {"name": "memwall-report", "dependencies": [
            {"name": "serde", "kind": null},
            {"name": "memwall-record", "kind": null, "path": "/r"},
            {"name": "memwall-sim", "kind": null, "path": "/s"},
            {"name": "memwall-lab", "kind": "dev", "path": "/l"},
        ]},
    ]});
    let allowed = allowed("[uses]\nreport = ['record', 'lab']\n[uses_in_tests]\nreport = ['lab']");
    assert_eq!(
        complaints(&used(&metadata), &allowed),
        ["[uses] report -> sim: used, not allowed", "[uses] report -> lab: allowed, not used"]
    );
}
