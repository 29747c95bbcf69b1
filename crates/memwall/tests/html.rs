//! Pages for a browser, as a user asks for them. How they look and behave there is tested with the report.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use assert_cmd::Command;
use predicates::str::contains;

fn memwall(home: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.env("XDG_DATA_HOME", home).current_dir(home).args(arguments.split(' '));
    command
}

/// One whole page that fetches nothing.
fn page(home: &Path, name: &str) -> String {
    let page = fs::read_to_string(home.join(name)).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{name}");
    assert!(page.contains("Content-Security-Policy"), "{name}");
    page
}

#[test]
fn sweeps_and_profiles_become_pages_with_curves() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let bench = "--on sim:tiny bench load --size 1K,4K,32K,256K --html load.html";
    memwall(home, bench).assert().success().stdout("");
    let load = page(home, "load.html");
    assert!(load.contains("simulated tiny") && load.contains("Bandwidth, GB/s"));
    memwall(home, "--on sim:tiny bench chase --size 1K,4K,32K,256K --html chase.html").assert().success();
    assert!(page(home, "chase.html").contains("Latency, ns"));
    memwall(home, "--on sim:tiny calibrate --quick").assert().success();
    memwall(home, "--on sim:tiny profile --html machine.html").assert().success().stdout("");
    let machine = page(home, "machine.html");
    assert!(machine.contains("Simulated machine tiny") && machine.contains("figure class=\"hierarchy\""));
    assert!(machine.contains("figure class=\"curve\""), "latency by size");
}

#[test]
fn a_run_becomes_a_page_and_a_file_that_cannot_be_written_is_named() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // The sources of what it ran itself a run may show anyway; a report only those it is allowed to.
    memwall(home, "run -o a.sqlite --html run.html --sources / -- sh -c exit").assert().success();
    assert!(page(home, "run.html").contains("Held back by memory"));
    memwall(home, "report a.sqlite --html report.html --sources /").assert().success().stdout("");
    // Pages are long: only what differs is told.
    let (run, report) = (page(home, "run.html"), page(home, "report.html"));
    let differing = run.lines().zip(report.lines()).find(|(run, report)| run != report);
    assert!(
        differing.is_none() && run.len() == report.len(),
        "a recording is reported as its run was: {differing:?}"
    );
    memwall(home, "report a.sqlite --html no/such/folder.html")
        .assert()
        .code(1)
        .stderr(contains("no/such/folder.html"));
    // Several forms at once.
    let both = memwall(home, "--on sim:tiny bench load --size 1K --json --html a.html").assert().success();
    both.stdout(contains("\"schema\": \"memwall.bench/1\""));
    assert!(page(home, "a.html").contains("simulated tiny"));
}

#[test]
fn a_page_is_opened_where_it_was_written() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // Stands for the browser.
    let browser = home.join("xdg-open");
    let text = format!("#!/bin/sh\necho \"$1\" > {}\n", home.join("opened").display());
    prerequisites::write_script(&text, &browser);
    let mut command = memwall(home, "--on sim:tiny bench load --size 1K --html load.html --open");
    let path = format!("{}:/usr/bin:/bin", home.display());
    command
        .env("PATH", path)
        .env_remove("WSL_DISTRO_NAME")
        .assert()
        .success()
        .stderr(contains("the page is in /"));
    let opened = || fs::read_to_string(home.join("opened")).unwrap_or_default();
    for _ in 0..300 {
        if !opened().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(opened().trim_end().ends_with("/load.html"), "{}", opened());
    memwall(home, "--on sim:tiny bench load --size 1K --open").assert().code(2);
}
