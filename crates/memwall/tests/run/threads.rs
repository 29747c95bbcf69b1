//! `memwall run --threads`: numbers of threads take turns, and what they say is in every form. How a program scales here is not
//! asserted: other tests run beside this one.

use std::{fs, process::Command};

use serde_json::Value;

use super::place::memwall;

/// Runs as many threads as its argument says, or OpenMP's variable.
const TEXT: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static long turns;
    static void *work(void *given) {
        for (volatile long i = 0; i < turns; i++) {}
        return given;
    }
    int main(int argc, char **argv) {
        const char *asked = argc > 1 ? argv[1] : getenv("OMP_NUM_THREADS");
        int threads = asked ? atoi(asked) : 1;
        if (threads > 7) return 3;
        turns = 60000000 / threads;
        pthread_t all[8];
        for (int thread = 0; thread < threads; thread++) pthread_create(&all[thread], NULL, work, NULL);
        for (int thread = 0; thread < threads; thread++) pthread_join(all[thread], NULL);
    }
"#;

#[test]
fn numbers_of_threads_take_turns_and_are_in_every_form() {
    if !prerequisites::needs("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("threads.c"), folder.path().join("threads"));
    fs::write(&source, TEXT).expect("written");
    let built = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("a compiler").success());
    let recording = folder.path().join("a.sqlite");
    let mut command = memwall();
    command.args(["run", "--threads", "2,1", "--runs", "2", "--json", "-o"]).arg(&recording).arg(&program);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let points = found["scaling"]["points"].as_array().expect("points");
    let numbers: Vec<_> = points.iter().map(|point| (&point["threads"], &point["runs"])).collect();
    assert_eq!(numbers, [(&1.into(), &2.into()), (&2.into(), &2.into())]);
    assert!(points.iter().all(|point| point["efficiency"]["value"].is_number()));
    // What was measured is kept, and said again.
    let report = |more: &[&str]| {
        let output = memwall().arg("report").args(more).arg(&recording).output().expect("it starts");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(report(&[]).contains("Scaling"));
    let again: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    assert_eq!(again["scaling"], found["scaling"]);
    let page = folder.path().join("page.html");
    report(&[&format!("--html={}", page.display())]);
    assert!(fs::read_to_string(&page).expect("a page").contains("scaling-table"));
    // An argument has the number, and a program that fails is not measured.
    let mut command = memwall();
    command.args(["run", "--threads", "1,9", "--runs", "2"]).arg(&program).arg("{threads}");
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("with 9 threads") && said.contains("exit code 3"), "{said}");
    let one = memwall().args(["run", "--threads", "4"]).arg(&program).output().expect("it starts");
    assert_eq!(one.status.code(), Some(2));
}
