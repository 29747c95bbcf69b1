//! Regions as programs mark them: in C, for LIKWID, in Rust, in Python, and OpenMP's without any mark. How often they were entered is
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

/// One thread does nearly all, and the other waits for it: at a barrier within the region, and at its end.
const UNEVEN: &str = r#"
    #include <omp.h>
    static void spin(long times) {
        for (volatile long i = 0; i < times; i++) {}
    }
    int main(void) {
        for (int round = 0; round < 30; round++) {
            #pragma omp parallel num_threads(2)
            spin(omp_get_thread_num() == 0 ? 100 : 400000);
        }
        for (int round = 0; round < 10; round++) {
            #pragma omp parallel num_threads(2)
            {
                spin(omp_get_thread_num() == 0 ? 100 : 400000);
                #pragma omp barrier
                spin(1000);
            }
        }
        #pragma omp parallel num_threads(2)
        {
            #pragma omp single
            for (int task = 0; task < 20; task++) {
                #pragma omp task
                spin(100000);
            }
        }
    }
"#;

#[test]
fn parallel_regions_of_openmp_need_no_marks() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "openmp.c", UNEVEN, &["-fopenmp"]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    let parallel = region(&found, "main._omp_fn.0");
    assert_eq!((&parallel["visits"], &parallel["is_parallel"]), (&60.into(), &true.into()), "{parallel}");
    assert_eq!(parallel["threads"].as_array().map(Vec::len), Some(2));
    // One thread does nearly all: about half of the longer one's time is missing on average.
    assert!(parallel["imbalance"].as_f64().is_some_and(|share| share > 0.2), "{parallel}");
    // What barriers take nobody tells here.
    assert!(parallel["waits_ns"].is_null(), "{parallel}");
}

/// A program of clang with OpenMP; none where either is missing.
fn built_by_clang(folder: &Path, more: &[&str]) -> Option<std::path::PathBuf> {
    if !prerequisites::needs("clang") {
        return None;
    }
    let (empty, nothing) = (folder.join("empty.c"), folder.join("empty"));
    fs::write(&empty, "#include <omp.h>\nint main(void) { return omp_get_num_procs() < 1; }\n")
        .expect("written");
    let mut command = Command::new("clang");
    command.args(["-fopenmp", "-o"]).arg(&nothing).arg(&empty);
    if !command.output().is_ok_and(|output| output.status.success()) {
        prerequisites::skip("libomp", "clang finds no library for OpenMP");
        return None;
    }
    built(folder, "clang", "openmp.c", UNEVEN, &[&["-fopenmp"], more].concat())
}

#[test]
fn parallel_regions_of_llvm_need_no_marks_and_tell_what_barriers_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built_by_clang(folder.path(), &[]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    for (name, visits) in [("main (openmp.c:8)", 60), ("main (openmp.c:12)", 20), ("main (openmp.c:19)", 2)] {
        let parallel = region(&found, name);
        assert_eq!(
            (&parallel["visits"], &parallel["is_parallel"]),
            (&visits.into(), &true.into()),
            "{parallel}"
        );
        assert_eq!(parallel["threads"].as_array().map(Vec::len), Some(2), "{parallel}");
    }
    // In the second both threads are there as long; what one of them waits makes the difference.
    for name in ["main (openmp.c:8)", "main (openmp.c:12)"] {
        let parallel = region(&found, name);
        assert!(parallel["imbalance"].as_f64().is_some_and(|share| share > 0.2), "{parallel}");
    }
    let waits = |name: &str| region(&found, name)["waits_ns"].as_u64();
    assert_eq!(waits("main (openmp.c:8)"), Some(0), "at the end of a region it is not in it any more");
    assert!(waits("main (openmp.c:12)").is_some_and(|waits| waits > 0));
    // A thread that works on tasks at a barrier does not wait.
    let tasks = region(&found, "main (openmp.c:19)");
    let (waits, wall) = (tasks["waits_ns"].as_u64(), tasks["wall_ns"].as_u64());
    assert!(waits.zip(wall).is_some_and(|(waits, wall)| waits < wall), "{tasks}");
}

#[test]
fn a_program_with_a_tool_of_its_own_for_openmp_keeps_it() {
    const TOOL: &str = r#"
        #include <omp-tools.h>
        #include <stdio.h>
        static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool) {
            (void)lookup, (void)device, (void)tool;
            puts("its own tool");
            return 1;
        }
        static void finalize(ompt_data_t *tool) { (void)tool; }
        ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
            static ompt_start_tool_result_t result = {initialize, finalize, {0}};
            (void)version, (void)runtime;
            return &result;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    if built_by_clang(path, &[]).is_none() {
        return;
    }
    let (source, library) = (path.join("tool.c"), path.join("libtool.so"));
    fs::write(&source, TOOL).expect("written");
    let mut command = Command::new("clang");
    command.args(["-shared", "-fPIC", "-fopenmp", "-o"]).arg(&library).arg(&source);
    assert!(command.status().expect("it starts").success());
    let linked = format!("-Wl,-rpath,{}", path.display());
    let more = ["-Wl,--no-as-needed", &library.display().to_string(), &linked];
    let Some(program) = built_by_clang(path, &more) else { return };
    let recorded = Recorded::new(&[], &program, &[]);
    assert!(recorded.stdout().contains("its own tool"), "{}", recorded.stderr());
    assert!(recorded.findings()["regions"].is_null());
    // The same where the environment names it.
    let Some(program) = built_by_clang(path, &[]) else { return };
    let mut command = super::place::memwall();
    command.args(["record", "-o"]).arg(path.join("a.sqlite")).arg("--").arg(&program);
    let output = command.env("OMP_TOOL_LIBRARIES", &library).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("its own tool"));
}

#[test]
fn what_the_kernel_counts_is_told_region_by_region() {
    const TEXT: &str = r#"
        #include <memwall.h>
        #include <sys/mman.h>
        #include <unistd.h>
        enum { PAGES = 500 };
        static void touch(char *pages, long page) {
            for (int index = 0; index < PAGES; index++) pages[index * page] = 1;
        }
        int main(void) {
            long page = sysconf(_SC_PAGESIZE);
            for (int visit = 0; visit < 2; visit++) {
                char *pages = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (pages == MAP_FAILED || madvise(pages, PAGES * page, MADV_NOHUGEPAGE) != 0) return 1;
                memwall_begin("touch");
                touch(pages, page);
                memwall_end("touch");
                memwall_begin("again");
                touch(pages, page);
                memwall_end("again");
            }
            memwall_begin("sleep");
            for (int nap = 0; nap < 7; nap++) usleep(100);
            memwall_end("sleep");
            memwall_begin("many");
            for (int visit = 0; visit < 5000; visit++) {
                memwall_begin("short");
                memwall_end("short");
            }
            memwall_end("many");
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "counts.c", TEXT, &[]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    let count = |name: &str, what: &str| region(&found, name)["counts"][what].as_u64();
    assert_eq!((count("touch", "visits"), count("again", "visits")), (Some(2), Some(2)));
    // Nothing else touches a page for the first time there, but a busy kernel may take one back.
    let touched = count("touch", "minor_faults").expect("counted");
    assert!((1000..1010).contains(&touched), "{touched}");
    assert!(count("again", "minor_faults").is_some_and(|faults| faults < 10));
    let naps = count("sleep", "voluntary_switches").expect("counted");
    assert!((7..10).contains(&naps), "{naps}");
    // Marks that follow each other at once are not all counted, and what is not is not said to be none.
    let short = region(&found, "short");
    assert_eq!(short["visits"], 5000);
    assert!(count("short", "visits").is_none_or(|counted| counted < 2500), "{short}");
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
