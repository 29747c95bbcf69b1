//! Runtimes that generate code: without their flag the note names it, with it functions have names.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

/// Works for about a second in a function that only its runtime can name.
const JAVASCRIPT: &str = "function hotJavaScript(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }\n\
    let t = Date.now(), x = 0; while (Date.now() - t < 1000) x += hotJavaScript(100000); console.log(x);\n";
const JAVA: &str = "public class Hot { static long hotJava(int n) { long s = 0; for (int i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }\n\
    public static void main(String[] a) { long t = System.currentTimeMillis(), x = 0;\n\
    while (System.currentTimeMillis() - t < 1500) x += hotJava(100000); System.out.println(x); } }\n";
const PYTHON: &str =
    "import time\nend = time.time() + 1\nwhile time.time() < end:\n    for i in range(1000): i * i % 7\n";

/// What is said of a program that works there; nothing if nothing can be sampled.
fn said(folder: &Path, words: &[&str]) -> Option<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", folder).current_dir(folder);
    let output =
        command.args(["run", "--no-probe", "--json=said.json"]).args(words).output().expect("memwall starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(folder.join("said.json")).expect("an answer");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    if found["about"]["samples"].as_u64().is_none_or(|samples| samples < 100) {
        prerequisites::skip(prerequisites::Need::PerfEvent, "too little was sampled");
        return None;
    }
    Some(found)
}

/// The first remark, which is where what has no name is told.
fn note(found: &Value) -> String {
    found["remarks"][0].as_str().unwrap_or_default().to_owned()
}

fn hottest(found: &Value) -> String {
    found["symbols"][0]["name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn node_names_its_functions_with_the_flag_that_the_note_names() {
    if !prerequisites::needs("node") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("hot.js"), JAVASCRIPT).expect("a file");
    let Some(without) = said(folder.path(), &["node", "hot.js"]) else { return };
    assert!(note(&without).contains("'node --perf-basic-prof'"), "{}", note(&without));
    let Some(with) = said(folder.path(), &["node", "--perf-basic-prof", "hot.js"]) else { return };
    assert!(hottest(&with).contains("hotJavaScript"), "{}", with["symbols"][0]);
    assert!(!note(&with).contains("perf-basic-prof"), "{}", note(&with));
}

#[test]
fn java_names_its_functions_with_the_flag_that_the_note_names() {
    if !prerequisites::needs("java") || !prerequisites::needs("javac") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("Hot.java"), JAVA).expect("a file");
    let compiled = Command::new("javac").arg("Hot.java").current_dir(folder.path()).status();
    assert!(compiled.expect("javac starts").success());
    let Some(without) = said(folder.path(), &["java", "-cp", ".", "Hot"]) else { return };
    assert!(note(&without).contains("-XX:+DumpPerfMapAtExit"), "{}", note(&without));
    let flags = ["java", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", ".", "Hot"];
    let Some(with) = said(folder.path(), &flags) else { return };
    assert!(hottest(&with).contains("Hot.hotJava"), "{}", with["symbols"][0]);
    assert!(!note(&with).contains("DumpPerfMapAtExit"), "{}", note(&with));
}

#[test]
fn of_python_the_note_says_what_names_need() {
    if !prerequisites::needs("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("hot.py"), PYTHON).expect("a file");
    let Some(found) = said(folder.path(), &["python3", "hot.py"]) else { return };
    // Trampolines of `-X perf` are in call chains: without those the flag names nothing.
    assert!(note(&found).contains("--call-graph python3 -X perf"), "{}", note(&found));
}
