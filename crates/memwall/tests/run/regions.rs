//! Regions as programs mark them: in C, for LIKWID, in Python, and OpenMP's without any mark. How often they were entered is
//! exact; how right what is said of their waiting is shows `memwall validate`.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::place::{Recorded, can_sample, example};

fn include() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include").display().to_string()
}

fn region<'a>(found: &'a Value, name: &str) -> &'a Value {
    let regions = found["regions"].as_array();
    let wanted = regions.into_iter().flatten().find(|region| region["name"] == name);
    wanted.unwrap_or_else(|| panic!("{name} in {}", found["regions"]))
}

/// A program of this text, or none where there is no such compiler.
fn built(
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
    let recorded = Recorded::new(&[], &example("regions"), &["--rounds", "60"]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let found = recorded.findings();
    let visits = |name: &str| region(&found, name)["visits"].as_u64();
    assert_eq!((visits("round"), visits("walk"), visits("compute")), (Some(60), Some(60), Some(59)));
    let times =
        ["round", "walk", "compute"].map(|name| region(&found, name)["wall_ns"].as_u64().unwrap_or(0));
    assert!(times[0] >= times[1] + times[2] && times[1] > 0 && times[2] > 0, "{times:?}");
    if can_sample() {
        for name in ["walk", "compute"] {
            let symbols = &region(&found, name)["waiting"]["symbols"];
            assert!(symbols.is_null() || symbols[0][0] == name, "{name}: {symbols}");
        }
        assert_ne!(region(&found, "walk")["samples"], 0);
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

#[test]
fn a_program_that_is_marked_for_likwid_shows_its_regions() {
    const TEXT: &str = r#"
        #include <likwid-marker.h>
        #include <pthread.h>
        #include <stddef.h>
        static void *work(void *given) {
            LIKWID_MARKER_THREADINIT;
            for (int visit = 0; visit < 40; visit++) {
                LIKWID_MARKER_START("triad");
                for (volatile int i = 0; i < 20000; i++) {}
                LIKWID_MARKER_STOP("triad");
            }
            return given;
        }
        int main(void) {
            int events = 0, count = 0;
            double seconds = 0, values[1];
            pthread_t other;
            LIKWID_MARKER_INIT;
            LIKWID_MARKER_REGISTER("triad");
            pthread_create(&other, NULL, work, NULL);
            work(NULL);
            pthread_join(other, NULL);
            LIKWID_MARKER_GET("triad", &events, values, &seconds, &count);
            LIKWID_MARKER_CLOSE;
            return events + count;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    for (marked, visits) in [("-DLIKWID_PERFMON", Some(80)), ("-ULIKWID_PERFMON", None)] {
        let more = [marked, "-pthread", "-Wno-unused-variable", "-Wno-unused-but-set-variable"];
        let Some(program) = built(folder.path(), "cc", "likwid.c", TEXT, &more) else { return };
        assert!(Command::new(&program).status().expect("it starts").success(), "alone");
        let found = Recorded::new(&[], &program, &[]).findings();
        match visits {
            Some(visits) => {
                let triad = region(&found, "triad");
                assert_eq!(
                    (&triad["visits"], triad["threads"].as_array().map(Vec::len)),
                    (&Value::from(visits), Some(2))
                );
                assert!(triad["imbalance"].is_number());
            }
            None => assert!(found["regions"].is_null(), "{}", found["regions"]),
        }
    }
}

#[test]
fn parallel_regions_of_openmp_need_no_marks() {
    const TEXT: &str = r#"
        #include <omp.h>
        static void spin(long times) {
            for (volatile long i = 0; i < times; i++) {}
        }
        int main(void) {
            for (int round = 0; round < 30; round++) {
                #pragma omp parallel num_threads(2)
                spin(omp_get_thread_num() == 0 ? 100 : 400000);
            }
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "openmp.c", TEXT, &["-fopenmp"]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    let parallel = region(&found, "main._omp_fn.0");
    assert_eq!((&parallel["visits"], &parallel["is_parallel"]), (&60.into(), &true.into()), "{parallel}");
    assert_eq!(parallel["threads"].as_array().map(Vec::len), Some(2));
    // One thread does nearly all: about half of the longer one's time is missing on average.
    assert!(parallel["imbalance"].as_f64().is_some_and(|share| share > 0.2), "{parallel}");
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
