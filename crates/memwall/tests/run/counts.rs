//! What the kernel counts in regions, beside what was done there and beside perf.

use std::{path::Path, process::Command};

use super::{
    place::Recorded,
    regions::{built, region},
};

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

/// Touches as many pages as it is told, in regions within one that is all of it, a third and the rest.
const TOUCHES: &str = r#"
    #include <memwall.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static void touch(char *pages, long from, long to, long page) {
        for (long index = from; index < to; index++) pages[index * page] = 1;
    }
    int main(int count, char **words) {
        memwall_begin("all");
        long pages = count > 1 ? atol(words[1]) : 0, page = sysconf(_SC_PAGESIZE), bytes = (pages + 1) * page;
        char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) != 0) return 1;
        memwall_begin("third");
        touch(memory, 0, pages / 3, page);
        memwall_end("third");
        memwall_begin("rest");
        touch(memory, pages / 3, pages, page);
        memwall_end("rest");
        memwall_end("all");
        return 0;
    }
"#;

/// Page faults of a program as perf counts them; none, and said so, where it may not.
fn counted_by_perf(program: &Path, pages: &str) -> Option<u64> {
    let mut command = Command::new("perf");
    command.args(["stat", "-x,", "-e", "page-faults", "--"]).arg(program).arg(pages);
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = said.lines().find(|line| line.contains("page-faults"));
    let count = count.and_then(|line| line.split(',').next()?.parse().ok());
    if count.is_none() {
        prerequisites::skip(prerequisites::Need::PerfEvent, said);
    }
    count
}

/// What the loader and memwall's library touch is in both runs of a kind, so that the difference of two is the program's own.
#[test]
fn faults_of_regions_are_those_that_perf_counts() {
    const PAGES: u64 = 3000;
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "touches.c", TOUCHES, &[]) else { return };
    let Some(whole) = counted_by_perf(&program, &PAGES.to_string()) else { return };
    let Some(without) = counted_by_perf(&program, "0") else { return };
    let faults = |pages: u64| {
        let found = Recorded::new(&[], &program, &[&pages.to_string()]).findings();
        ["all", "third", "rest"].map(|name| {
            let counts = &region(&found, name)["counts"];
            assert_eq!(counts["visits"], 1, "{name}: {counts}");
            let of = |kind: &str| counts[kind].as_u64().expect("counted");
            of("minor_faults") + of("major_faults")
        })
    };
    let ([all, third, rest], [base, ..]) = (faults(PAGES), faults(0));
    let (by_perf, by_regions) = (whole.saturating_sub(without), all.saturating_sub(base));
    // A busy kernel may take a page back.
    let near = |one: u64, other: u64| one.abs_diff(other) <= other / 100;
    assert!(near(by_regions, by_perf), "{by_regions} in regions, {by_perf} by perf");
    assert!(near(third, by_perf / 3) && near(rest, by_perf - by_perf / 3), "{third} and {rest} of {by_perf}");
    assert!(all >= third + rest && all <= whole, "{all} of {whole}");
}

/// Parses JSON and naps, in regions of memwall's, or with perf counting from where the region named by ONLY begins to where it ends.
const PARSES: &str = r#"
import contextlib, json, os, time
import memwall
only = os.environ.get("ONLY")
orders, answers = (open("orders", "w", buffering=1), open("answers")) if only else (None, None)
def order(word):
    orders.write(word + "\n")
    answers.readline()
@contextlib.contextmanager
def region(name):
    if only is None:
        with memwall.region(name):
            yield
    elif only == name:
        order("enable")
        yield
        order("disable")
    else:
        yield
text = json.dumps([{"id": i, "values": [i / 7, i / 11, i / 13]} for i in range(20000)])
with region("parse"):
    found = json.loads(text)
with region("nap"):
    for _ in range(30):
        time.sleep(0.001)
print(len(found))
"#;

/// Page faults and context switches of one region by perf; none, and said so, where it may not count.
fn region_by_perf(folder: &Path, package: &Path, name: &str) -> Option<[u64; 2]> {
    let (orders, answers) = (folder.join("orders"), folder.join("answers"));
    for pipe in [&orders, &answers] {
        let _ = std::fs::remove_file(pipe);
        assert!(Command::new("mkfifo").arg(pipe).status().expect("it starts").success());
    }
    let mut command = Command::new("perf");
    command.args(["stat", "-D", "-1", "--control", "fifo:orders,answers", "-x,", "-o", "counts.csv"]);
    command.args(["-e", "page-faults,context-switches", "python3", "work.py"]).current_dir(folder);
    let output = command.env("ONLY", name).env("PYTHONPATH", package).output().expect("it starts");
    let counted = std::fs::read_to_string(folder.join("counts.csv")).unwrap_or_default();
    let count = |event: &str| {
        let line = counted.lines().find(|line| line.contains(event))?;
        line.split(',').next()?.parse().ok()
    };
    let found = count("page-faults").zip(count("context-switches"));
    if found.is_none() {
        prerequisites::skip(prerequisites::Need::PerfEvent, String::from_utf8_lossy(&output.stderr));
    }
    found.map(|(faults, switches)| [faults, switches])
}

/// A program nobody wrote for this: the interpreter and its library, between marks.
#[test]
fn regions_of_python_are_counted_as_perf_counts_them() {
    if !prerequisites::needs("perf") || !prerequisites::needs("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    std::fs::write(folder.path().join("work.py"), PARSES).expect("written");
    let by_perf = ["parse", "nap"].map(|name| region_by_perf(folder.path(), &package, name));
    let [Some(parse), Some(nap)] = by_perf else { return };
    let mut command = super::place::memwall();
    command.args(["count", "-e", "page-faults,context-switches", "--per-region", "--json", "--"]);
    command.args(["python3", "work.py"]).current_dir(folder.path()).env("PYTHONPATH", &package);
    let output = command.output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let document = printed.split_once('{').map(|(_, rest)| format!("{{{rest}")).expect("a document");
    let found: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let count = |name: &str, event: usize| {
        let mut regions = found["regions"].as_array().expect("regions").iter();
        let region = regions.find(|one| one["path"] == name).expect("the region");
        let mut counts = region["counts"].as_array().expect("counts").iter();
        let counted = counts.find(|one| one["event"] == event).expect("the event");
        counted["value"]["counted"]["raw"].as_u64().expect("counted")
    };
    // Where the kernel puts things moves some pages; a busy machine adds switches.
    let (ours, theirs) = (count("parse", 0), parse[0]);
    assert!(theirs > 500 && ours.abs_diff(theirs) <= theirs / 20, "{ours} faults, {theirs} by perf");
    assert!(count("nap", 0) < 20 && nap[0] < 20, "{} {}", count("nap", 0), nap[0]);
    for switches in [count("nap", 1), nap[1]] {
        assert!((30..90).contains(&switches), "{switches} switches in 30 naps");
    }
}
