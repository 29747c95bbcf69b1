//! `memwall models` as a user types it. After a wanted change run
//! `INSTA_UPDATE=always cargo test -p memwall --test models` and read the difference.

use assert_cmd::Command;
use machine::model::Model;
use predicates::{prelude::PredicateBooleanExt, str::contains};

fn memwall(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("memwall").expect("the program");
    command.arg("models").args(arguments);
    command
}

fn printed(arguments: &[&str]) -> String {
    let output = memwall(arguments).output().expect("a run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A file that holds `tiny` with one change.
fn own(from: &str, to: &str) -> (tempfile::TempDir, String) {
    let text = Model::builtin_file("tiny").expect("a file");
    assert!(text.contains(from), "{from}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("own.toml");
    std::fs::write(&path, text.replacen(from, to, 1)).expect("a file");
    let path = path.display().to_string();
    (directory, path)
}

#[test]
fn the_list() {
    insta::assert_snapshot!(printed(&[]));
}

#[test]
fn one_model() {
    insta::assert_snapshot!(printed(&["show", "tiny"]));
}

#[test]
fn every_model_is_listed_and_shown_within_80_columns() {
    let list = printed(&[]);
    for name in Model::builtin_names() {
        assert!(list.contains(name), "{name}");
        let text = printed(&["show", name]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains(&format!("sim:{name}")) && text.contains("Rows used to choose"), "{text}");
    }
}

#[test]
fn json_carries_its_schema() {
    let json: serde_json::Value = serde_json::from_str(&printed(&["--json"])).expect("JSON");
    assert_eq!(json["schema"], "memwall.models/1");
    assert_eq!(json["models"].as_array().map(Vec::len), Some(Model::builtin_names().len()));
    let mut json: serde_json::Value =
        serde_json::from_str(&printed(&["show", "haswell-ep-e5-2680v3", "--json"])).expect("JSON");
    assert_eq!(json["schema"], "memwall.model/1");
    assert_eq!(json["l3"]["slices"], 12);
    json.as_object_mut().expect("an object").remove("schema");
    let model: Model = serde_json::from_value(json).expect("a model");
    assert_eq!(model, Model::builtin("haswell-ep-e5-2680v3").expect("a model"));
}

#[test]
fn a_model_file_of_ones_own_is_shown() {
    let (_directory, path) = own("name = \"tiny\"\ntitle = \"", "name = \"mine\"\ntitle = \"My ");
    memwall(&["show", "--model-file", &path])
        .assert()
        .success()
        .stdout(contains("My Tiny").and(contains("sim:mine")))
        .stderr("");
    assert_eq!(printed(&["show", "tiny", "--toml"]), Model::builtin_file("tiny").expect("a file"));
}

#[test]
fn an_error_in_a_file_names_line_and_column() {
    let (_directory, path) = own("dispatch_width = 4", "dispatch_width = 0");
    let text = Model::builtin_file("tiny").expect("a file");
    let line = text[..text.find("dispatch_width").expect("a key")].lines().count() + 1;
    memwall(&["show", "--model-file", &path])
        .assert()
        .code(2)
        .stdout("")
        .stderr(format!("memwall: {path}:{line}:18: core.dispatch_width: 0 is not between 1 and 32\n"));
}

#[test]
fn names_and_files_that_do_not_exist_are_bad_usage() {
    for (arguments, message) in [
        (vec!["show", "haswell-ep-e5-2680"], "did you mean haswell-ep-e5-2680v3?"),
        (vec!["show", "pentium"], "unknown model 'pentium'; 'memwall models' lists all"),
        (
            vec!["show", "--model-file", "/nowhere/x.toml"],
            "cannot read model file /nowhere/x.toml: No such file",
        ),
    ] {
        let output = memwall(&arguments).output().expect("a run");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error.contains(message) && error.lines().count() == 1, "{error}");
        assert!(output.stdout.is_empty());
    }
    memwall(&["show"]).assert().code(2);
    memwall(&["show", "tiny", "--model-file", "x.toml"]).assert().code(2);
}

#[test]
fn help_has_examples() {
    memwall(&["--help"]).assert().success().stdout(contains("memwall models show haswell-ep-e5-2680v3"));
    memwall(&["show", "--help"]).assert().success().stdout(contains("--json | jq .l3"));
}
