//! Regions as programs mark them: in C and C++, in Rust, in Python. How often they were entered is
//! exact; how right what is said of their waiting is shows `memwall validate`.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::place::{Recorded, can_sample, example};

fn include() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include").display().to_string()
}

pub(super) fn region<'a>(found: &'a Value, name: &str) -> &'a Value {
    let regions = found["regions"].as_array();
    let wanted = regions.into_iter().flatten().find(|region| region["name"] == name);
    wanted.unwrap_or_else(|| panic!("{name} in {}", found["regions"]))
}

/// A program of this text, or none where there is no such compiler.
pub(super) fn built(
    folder: &Path,
    compiler: &str,
    source: &str,
    text: &str,
    more: &[&str],
) -> Option<std::path::PathBuf> {
    if !prerequisites::needs(compiler) {
        return None;
    }
    let (source, program) = (folder.join(source), folder.join("program"));
    fs::write(&source, text).expect("written");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-Wall", "-Werror", "-I", &include(), "-o"]).arg(&program).arg(&source);
    assert!(command.args(more).status().expect("it starts").success());
    Some(program)
}

#[test]
fn marked_regions_are_counted_and_samples_lie_in_the_innermost() {
    let recorded = Recorded::new(&[], &example("regions"), &["--rounds", "200"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let found = recorded.findings();
    let visits = |name: &str| region(&found, name)["visits"].as_u64();
    assert_eq!((visits("round"), visits("walk"), visits("compute")), (Some(200), Some(200), Some(199)));
    let times =
        ["round", "walk", "compute"].map(|name| region(&found, name)["wall_ns"].as_u64().unwrap_or(0));
    assert!(times[0] >= times[1] + times[2] && times[1] > 0 && times[2] > 0, "{times:?}");
    if can_sample() {
        for name in ["walk", "compute"] {
            let one = region(&found, name);
            assert!(one["samples"].as_u64().is_some_and(|samples| samples > 0), "{one}");
            let most = one.pointer("/waiting/symbols/0/0");
            // Of the one that computes there may be too few samples to say anything.
            assert!(most.is_some() || (one["waiting"].is_null() && name == "compute"), "{one}");
            assert!(most.is_none_or(|most| most == name), "{one}");
        }
        let mut report = super::place::memwall();
        let shown = report.arg("report").arg(recorded.file()).output().expect("it starts").stdout;
        assert!(String::from_utf8_lossy(&shown).contains("Regions"));
    }
}

#[test]
fn events_are_sampled_by_symbol_and_region_of_a_program_that_runs() {
    if !can_sample() {
        return;
    }
    let options = ["-e", "page-faults,context-switches", "--period", "1"];
    let recorded = Recorded::new(&options, &example("regions"), &["--rounds", "20"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let views = &recorded.findings()["views"];
    let events = views["events"].as_array().expect("events");
    let faults = events.iter().position(|event| event["name"] == "page-faults").expect("page faults");
    assert!(events[faults]["refusal"].is_null(), "{}", events[faults]);
    assert_eq!(
        (events[faults]["period"].as_f64(), &events[faults]["pace"]["every"]),
        (Some(1.0), &Value::from(1))
    );
    let samples = events[faults]["samples"].as_f64().expect("samples");
    let tables = views["by_symbol"].as_array().expect("tables");
    let table = tables.iter().find(|table| table["event"] == faults).expect("by symbol");
    assert_eq!(table["samples"].as_f64(), Some(samples));
    assert!(samples > 10.0, "a program begins with page faults: {samples}");
    // Regions divide what was sampled, and no sample is lost or in two of them.
    let regions = views["by_region"].as_array().expect("regions");
    let shares: f64 = regions.iter().filter_map(|region| region["shares"][faults].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{regions:?}");
    let time: f64 = regions.iter().filter_map(|region| region["shares"][0].as_f64()).sum();
    assert!((time - 1.0).abs() < 1e-9, "{regions:?}");
    for (by, expected) in
        [("symbol", "sampling period: 1"), ("region", "walk"), ("symbol-in-region", "Region walk")]
    {
        let mut report = super::place::memwall();
        let shown =
            report.arg("report").arg(recorded.file()).args(["--by", by]).output().expect("it starts").stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(shown.contains(expected) && shown.contains("page-faults"), "{by}: {shown}");
    }
}

/// A program that executes another one within a region is not in it any more.
#[test]
fn a_region_ends_with_the_program_that_began_it() {
    const TEXT: &str = r#"
        #include <memwall.h>
        #include <stdio.h>
        #include <unistd.h>
        static void spin(long times) {
            for (volatile long i = 0; i < times; i++) {}
        }
        int main(int count, char **words) {
            if (count == 1) {
                memwall_begin("before");
                execl(words[0], words[0], "again", (char *)0);
                return 1;
            }
            for (int visit = 0; visit < 3; visit++) {
                memwall_begin("after");
                spin(20000000);
                memwall_end("after");
            }
            puts("done");
            return 0;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "executes.c", TEXT, &[]) else { return };
    let recorded = Recorded::new(&[], &program, &[]);
    assert_eq!(recorded.stdout(), "done\n", "{}", recorded.stderr());
    let found = recorded.findings();
    let (before, after) = (region(&found, "before"), region(&found, "after"));
    assert_eq!((&before["visits"], &before["unended"]), (&1.into(), &1.into()));
    assert_eq!((&after["visits"], &after["unended"]), (&3.into(), &0.into()));
    // One after the other: together they take no longer than the program did.
    let wall = |region: &Value| region["wall_ns"].as_u64().expect("a time");
    let program = found.pointer("/about/elapsed_ns/value").and_then(Value::as_u64).expect("a time");
    assert!(wall(before) + wall(after) <= program, "{before} {after} of {program}");
}

#[test]
fn events_that_are_done_are_counted_and_the_first_can_be_left_out() {
    const TEXT: &str = r#"
        #include <memwall.h>
        int main(void) {
            for (int event = 0; event < 9; event++) {
                memwall_begin("work");
                memwall_end("work");
                memwall_event_done();
            }
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "events.c", TEXT, &[]) else { return };
    assert!(Command::new(&program).status().expect("it starts").success(), "alone");
    let found = Recorded::new(&["--skip-events", "4"], &program, &[]).findings();
    let done = &found["events_done"];
    assert_eq!((&done["done"], done.pointer("/skipped")), (&9.into(), Some(&4.into())));
    assert_eq!(region(&found, "work")["visits"], 5);
}

/// Not a test by itself: what [`regions_of_a_rust_program_end_with_their_scope`] records.
#[test]
fn marks_of_a_rust_program() {
    markers::skip_first("step", 1);
    for _ in 0..5 {
        let _step = markers::region("step");
        let _inner = markers::region("a name that is longer than what a mark has room for");
        markers::event_done();
    }
}

#[test]
fn regions_of_a_rust_program_end_with_their_scope() {
    let program = std::env::current_exe().expect("a test program");
    let found = Recorded::new(&[], &program, &["--exact", "regions::marks_of_a_rust_program"]).findings();
    assert_eq!(region(&found, "step")["visits"], 4);
    assert_eq!(region(&found, "a name that is longer than what …")["visits"], 5);
    assert_eq!(found["events_done"]["done"], 5);
}

#[test]
fn regions_of_a_cpp_program_end_with_their_scope() {
    const TEXT: &str = r#"
        #include <memwall.h>
        #include <cstdio>
        int main() {
            for (int round = 0; round < 3; round++) {
                memwall::region scope("a name that is longer than what a mark has room for");
                if (round == 1) continue;
            }
            std::printf("%d\n", memwall_is_watching());
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "c++", "scope.cc", TEXT, &[]) else { return };
    let alone = Command::new(&program).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "0\n");
    let recorded = Recorded::new(&[], &program, &[]);
    assert!(recorded.stdout().contains('1'), "{}", recorded.stdout());
    let found = recorded.findings();
    assert_eq!(region(&found, "a name that is longer than what …")["visits"], 3);
}

#[test]
fn regions_of_a_python_program_are_blocks() {
    const TEXT: &str = "\
import memwall
memwall.skip_first('fit', 2)
for _ in range(5):
    with memwall.region('fit'):
        sum(range(1000))
try:
    with memwall.region('fails'):
        raise ValueError
except ValueError:
    print(memwall.is_watching())
";
    if !prerequisites::needs("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    fs::write(folder.path().join("work.py"), TEXT).expect("written");
    let mut command = Command::new("python3");
    command.arg(folder.path().join("work.py")).env("PYTHONPATH", &package);
    assert_eq!(String::from_utf8_lossy(&command.output().expect("it starts").stdout), "False\n");
    let recording = folder.path().join("a.sqlite");
    let mut command = super::place::memwall();
    command.args(["record", "-o"]).arg(&recording).args(["--", "python3"]);
    let output =
        command.arg(folder.path().join("work.py")).env("PYTHONPATH", &package).output().expect("it starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "True\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = super::place::findings(&recording);
    assert_eq!(
        (&region(&found, "fit")["visits"], &region(&found, "fails")["visits"]),
        (&3.into(), &1.into())
    );
}

/// As a language calls them that includes no headers.
const DECLARED: &str = "
void memwall_begin(const char *), memwall_end(const char *), memwall_skip_first(const char *, unsigned), memwall_event_done(void);
int memwall_is_watching(void);
int main(void) {
    memwall_skip_first(\"work\", 1);
    for (int i = 0; i < 4; i++) { memwall_begin(\"work\"); memwall_end(\"work\"); memwall_event_done(); }
    return memwall_is_watching() ? 7 : 3;
}";

#[test]
fn a_program_that_includes_no_header_links_with_the_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("prefix");
    let setup = super::place::memwall().arg("setup").arg("--prefix").arg(&prefix).output();
    assert!(setup.expect("it starts").status.success());
    let library = prefix.join("lib/libmemwall.a").display().to_string();
    for position in ["-fpie", "-no-pie"] {
        let Some(program) = built(folder.path(), "cc", "declared.c", DECLARED, &[&library, position]) else {
            return;
        };
        assert_eq!(Command::new(&program).status().expect("it starts").code(), Some(3), "{position}");
        let recorded = Recorded::new(&[], &program, &[]);
        assert_eq!(recorded.output.status.code(), Some(7), "{position}: {}", recorded.stderr());
        assert_eq!(region(&recorded.findings(), "work")["visits"], 3, "{position}");
    }
}
