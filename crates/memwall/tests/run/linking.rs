//! The headers that programs mark their regions with: whatever compiler, however linked, and for programs that are marked for LIKWID.

use std::process::Command;

use serde_json::Value;

use super::{
    place::Recorded,
    regions::{built, region},
};

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
                NVMON_MARKER_START("triad");
                for (volatile int i = 0; i < 20000; i++) {}
                NVMON_MARKER_STOP("triad");
                LIKWID_MARKER_STOP("triad");
            }
            return given;
        }
        int main(void) {
            int events = 0, count = 0;
            double seconds = 0, values[1];
            pthread_t other;
            LIKWID_MARKER_INIT;
            NVMON_MARKER_INIT;
            ROCMON_MARKER_INIT;
            LIKWID_MARKER_REGISTER("triad");
            pthread_create(&other, NULL, work, NULL);
            work(NULL);
            pthread_join(other, NULL);
            LIKWID_MARKER_GET("triad", &events, values, &seconds, &count);
            NVMON_MARKER_GET("triad", 0, 0, 0);
            ROCMON_MARKER_CLOSE;
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

/// The form that most marked programs have, and one that calls the functions behind the marks.
#[test]
fn programs_that_include_the_header_of_likwid_itself_show_their_regions() {
    const TEXT: &str = r#"
        #ifdef LIKWID_PERFMON
        #include <likwid.h>
        #else
        #error marked
        #endif
        #include <stdio.h>
        static double sum(const double *numbers, int count) {
            double all = 0;
            for (int i = 0; i < count; i++) all += numbers[i];
            return all;
        }
        int main(void) {
            static double numbers[1000];
            double all = 0;
            LIKWID_MARKER_INIT;
            if (LIKWID_MARKER_REGISTER("sum") < 0) return 1;
            for (int step = 0; step < 10; step++) {
                if (LIKWID_MARKER_START("sum") != 0) return 1;
                all += sum(numbers, 1000);
                if (LIKWID_MARKER_STOP("sum") != 0) return 1;
                likwid_markerStartRegion("by hand");
                all += sum(numbers, 10);
                likwid_markerStopRegion("by hand");
            }
            int events = 7, visits = 7;
            double seconds = 7, values[7];
            likwid_markerGetRegion("sum", &events, values, &seconds, &visits);
            LIKWID_MARKER_CLOSE;
            printf("%g %d %g %d\n", all, events, seconds, visits);
            return 0;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    for (compiler, source) in [("cc", "header.c"), ("c++", "header.cc")] {
        let more = ["-Wextra", "-DLIKWID_PERFMON"];
        let Some(program) = built(folder.path(), compiler, source, TEXT, &more) else { return };
        let alone = Command::new(&program).output().expect("it starts");
        assert_eq!(String::from_utf8_lossy(&alone.stdout), "0 0 0 0\n");
        let recorded = Recorded::new(&[], &program, &[]);
        assert_eq!(recorded.stdout(), "0 0 0 0\n", "{}", recorded.stderr());
        let found = recorded.findings();
        for name in ["sum", "by hand"] {
            assert_eq!(region(&found, name)["visits"], 10);
        }
    }
}

/// A linker answers for a weak function of a program at a fixed address: that there is none.
#[test]
fn marks_are_there_however_a_program_is_linked() {
    const TEXT: &str = r#"
        #include <memwall.h>
        #include <stdio.h>
        int main(void) {
            memwall_skip_first("step", 1);
            for (int step = 0; step < 4; step++) {
                memwall_begin("step");
                memwall_end("step");
                memwall_event_done();
            }
            printf("%d\n", memwall_is_watching());
            return 0;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let ways: [&[&str]; 5] = [
        &["-fno-pie", "-no-pie"],
        &["-O0", "-fno-pie", "-no-pie"],
        &["-fPIE", "-pie"],
        &["-fno-pie", "-no-pie", "-masm=intel"],
        &["-static"],
    ];
    for compiler in ["gcc", "clang"] {
        for more in ways {
            let Some(program) = built(folder.path(), compiler, "linked.c", TEXT, more) else { break };
            let alone = Command::new(&program).output().expect("it starts");
            assert_eq!(String::from_utf8_lossy(&alone.stdout), "0\n", "{compiler} {more:?}");
            let recorded = Recorded::new(&[], &program, &[]);
            // Nobody gets into one that is linked statically.
            if more == ["-static"] {
                assert_eq!(recorded.stdout(), "0\n", "{compiler} {more:?}");
                continue;
            }
            assert_eq!(recorded.stdout(), "1\n", "{compiler} {more:?}");
            let found = recorded.findings();
            assert_eq!(
                (&region(&found, "step")["visits"], &found["events_done"]["done"]),
                (&3.into(), &4.into()),
                "{compiler} {more:?}"
            );
        }
    }
}
