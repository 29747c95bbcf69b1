//! Help, man pages and completions: what people read who have no time to read.

use std::{fs, process::Command};

fn memwall(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_memwall")).args(words).output().expect("memwall starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn man_pages_and_completions_are_put_where_they_are_looked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().to_str().expect("a name");
    memwall(&["setup", "--prefix", prefix]);
    let read = |file: &str| {
        fs::read_to_string(folder.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    assert!(read("share/man/man1/memwall.1").contains(".TH memwall 1"));
    assert!(read("share/man/man1/memwall-run.1").contains("relief"));
    let pages = fs::read_dir(folder.path().join("share/man/man1")).expect("pages");
    let names: Vec<_> =
        pages.map(|page| page.expect("a page").file_name().into_string().expect("a name")).collect();
    assert!(names.len() > 20 && names.iter().all(|name| !name.starts_with("memwall-help")), "{names:?}");
    assert!(read("share/bash-completion/completions/memwall.bash").contains("--call-graph"));
    assert!(read("share/zsh/site-functions/_memwall").contains("#compdef memwall"));
    assert!(read("include/memwall/memwall.h").contains("memwall_begin"));
    assert!(read("include/memwall/likwid-marker.h").contains("LIKWID_MARKER_START"));
    assert!(read("include/memwall/likwid.h").contains("likwid_markerStartRegion"));
    assert!(read("share/memwall/python/memwall/__init__.py").contains("def region"));
    assert!(read("share/fish/vendor_completions.d/memwall.fish").contains("complete -c memwall"));
}

#[test]
fn help_lists_options_in_groups_and_none_that_the_command_refuses() {
    for command in ["run", "record", "report", "compare", "demo", "kernels"] {
        let help = memwall(&[command, "--help"]);
        assert!(!help.contains("--on <MACHINE>") && !help.contains("--prefetchers"), "{command}: {help}");
    }
    for command in ["bench", "calibrate", "count", "validate"] {
        assert!(memwall(&[command, "--help"]).contains("--on <MACHINE>"), "{command}");
    }
    let help = memwall(&["run", "--help"]);
    for heading in ["What is recorded:", "Output:"] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    // They are refused with a reason all the same.
    let refused =
        Command::new(env!("CARGO_BIN_EXE_memwall")).args(["run", "--on", "sim:tiny", "true"]).output();
    let refused = refused.expect("memwall starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("programs run on this machine only"));
}

#[test]
fn the_c_locale_gets_ascii() {
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command
            .env("LC_ALL", "C")
            .env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"))
            .args(words)
            .output()
            .expect("memwall")
    };
    for words in [&["doctor"][..], &["models"], &["run", "true"], &["--help"], &["topology"]] {
        let output = run(words);
        let said = [output.stdout, output.stderr].concat();
        assert!(said.is_ascii(), "{words:?}: {}", String::from_utf8_lossy(&said));
    }
    // JSON is data.
    let output = run(&["models", "--json"]);
    serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON");
}
