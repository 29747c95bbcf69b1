//! Data of real programs: who allocated what, where it lies, who called.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use record::{
    data::{Area, AreaKind, BlockKind},
    file::read,
    ids::{PlaceId, ProcessId, ThreadId},
    run::Run,
};
use tempfile::TempDir;

/// Reads one of two blocks and a variable, from `inner` called by `outer`, for some milliseconds each.
const TOUCH: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { N = 1 << 18 };
unsigned long table[N];
static volatile unsigned long sink;
void *xmalloc(size_t size) { void *block = malloc(size); if (!block) abort(); return block; }
__attribute__((noinline)) unsigned long *make_hot(void) { unsigned long *p = xmalloc(N * sizeof *p); *p = 0; return p; }
__attribute__((noinline)) unsigned long *make_cold(void) { unsigned long *p = xmalloc(N * sizeof *p); *p = 1; return p; }
__attribute__((noinline)) void inner(const unsigned long *a) {
    unsigned long sum = 0;
    for (unsigned long n = 0; n < 100000; n++) sum += a[n * 4099 % N];
    sink = sum;
}
__attribute__((noinline)) void outer(const unsigned long *a) { inner(a); sink = 1; }
static void fill(unsigned long *a) { for (unsigned long i = 0; i < N; i++) a[i] = (i * 5 + 7) % N; }
static void spin(const unsigned long *a, double ms) {
    double until = clock() + ms * CLOCKS_PER_SEC / 1000;
    while (clock() < until) outer(a);
}
static void *thread(void *a) { spin(a, 150); return NULL; }
int main(int argc, char **argv) {
    (void)argv;
    unsigned long *hot = make_hot(), *cold = make_cold();
    fill(hot), fill(cold), fill(table);
    spin(hot, 150);
    spin(table, 150);
    pthread_t other;
    pthread_create(&other, NULL, thread, hot);
    pthread_join(other, NULL);
    if (argc > 1) {
        if (fork() == 0) {
            spin(hot, 150);
            return 0;
        }
        while (wait(NULL) > 0) {}
    }
    for (const char *word = getenv("TOUCH_UNTIL"); word && access(word, F_OK) != 0;) usleep(10000);
    printf("%d\n", getenv("LD_PRELOAD") != NULL);
    return 5;
}"#;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn build(&self, name: &str, flags: &[&str]) -> PathBuf {
        let (source, program) = (self.folder.path().join("touch.c"), self.folder.path().join(name));
        fs::write(&source, TOUCH).unwrap();
        let options =
            ["-O2", "-g", "-pthread", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o"];
        let status = Command::new("cc").args(options).arg(&program).arg(&source).args(flags).status();
        assert!(status.expect("a C compiler").success());
        program
    }

    /// Temporary files of the recorder go to a folder of their own, which must be empty at the end.
    fn record(&self, options: &[&str], command: &[&str]) -> (Output, Run) {
        self.finished(self.recorder(options, command).output().unwrap())
    }

    /// The program goes on until the recording has what is wanted: on a busy machine nobody knows when the recorder gets
    /// to look at it.
    fn record_until(&self, command: &[&str], has: impl Fn(&Run) -> bool) -> (Output, Run) {
        let word = self.folder.path().join("word");
        let mut recorder = self.recorder(&[], command);
        let recorder = recorder.env("TOUCH_UNTIL", &word).stdout(Stdio::piped()).stderr(Stdio::piped());
        let recorder = recorder.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end && !read(&self.file()).is_ok_and(|run| has(&run)) {
            std::thread::sleep(Duration::from_millis(100));
        }
        fs::write(word, "").unwrap();
        self.finished(recorder.wait_with_output().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a.mw")
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn recorder(&self, options: &[&str], command: &[&str]) -> Command {
        fs::create_dir_all(self.temporary()).unwrap();
        let mut recorder = Command::new(recorder());
        recorder.arg(self.file()).args(options).arg("--").args(command);
        recorder.env("TMPDIR", self.temporary()).stdin(Stdio::null());
        recorder
    }

    fn finished(&self, output: Output) -> (Output, Run) {
        assert_eq!(fs::read_dir(self.temporary()).unwrap().count(), 0, "nothing is left behind");
        (output, read(&self.file()).unwrap())
    }
}

/// The example beside this test.
fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let recorder = test.parent().and_then(Path::parent).unwrap().join("examples/record");
    assert!(recorder.exists(), "build the example with 'cargo build -p memwall-recorder --example record'");
    recorder
}

fn name_of(run: &Run, place: PlaceId) -> &str {
    let function = run.place(place).unwrap().function;
    function.map_or("?", |id| run.function(id).unwrap().name.as_str())
}

#[test]
fn blocks_variables_areas_and_callers_are_known() {
    let place = Place::new();
    let program = place.build("touch", &[]);
    // The table was filled before its pages were counted.
    let is_filled = |area: &Area| area.pages.as_ref().is_some_and(|pages| pages.resident_bytes > 1 << 20);
    let of_program = |area: &Area| matches!(&area.kind, AreaKind::File(path) if path.ends_with("/touch"));
    let (output, run) = place.record_until(&[program.to_str().unwrap()], |run| {
        run.data.areas.iter().any(|area| of_program(area) && is_filled(area))
    });
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b"1\n"[..]));
    let data = &run.data;
    assert_eq!(data.heap.len(), 1, "{:?}", data.heap);
    assert_eq!((data.heap[0].inherits, data.heap[0].problem.as_deref()), (None, None));
    let large: Vec<_> = data.blocks.iter().filter(|block| block.size_bytes == 8 << 18).collect();
    let sites: Vec<&str> =
        large.iter().map(|block| data.sites[block.site.unwrap() as usize].function.as_str()).collect();
    assert_eq!(sites, ["make_hot", "make_cold"], "past xmalloc");
    assert!(large.iter().all(|block| block.kind == BlockKind::Large && block.tid == run.processes[0].pid));
    let hot = &data.sites[large[0].site.unwrap() as usize];
    assert!(hot.line.as_ref().is_some_and(|(file, _)| file.ends_with("touch.c")), "{hot:?}");
    assert_eq!(hot.callers.first().map(String::as_str), Some("main"));

    let table = data.variables.iter().find(|variable| variable.name == "table").unwrap();
    assert_eq!(table.end - table.start, 8 << 18);
    let within = |start: u64, end: u64| {
        let addresses = run.samples.address.iter().flatten().map(|address| address.get());
        addresses.filter(|address| (start..end).contains(address)).count()
    };
    let in_hot = within(large[0].address, large[0].address + (8 << 18));
    let in_table = within(table.start, table.end);
    assert!(in_hot > 20 && in_table > 10, "{in_hot} {in_table}");

    let kinds = |wanted: fn(&AreaKind) -> bool| data.areas.iter().filter(|area| wanted(&area.kind)).count();
    assert_eq!(kinds(|kind| matches!(kind, AreaKind::Stack(ThreadId(0)))), 1, "{:?}", data.areas);
    let holder = data.areas.iter().find(|area| (area.start..area.end).contains(&table.start)).unwrap();
    assert!(of_program(holder) && is_filled(holder), "{holder:?}");
}

#[test]
fn call_chains_lead_outwards() {
    let place = Place::new();
    let program = place.build("touch", &[]);
    let (_, run) = place.record(&["--call-graph"], &[program.to_str().unwrap()]);
    let chains: Vec<Vec<&str>> =
        run.stacks.iter().map(|stack| stack.iter().map(|place| name_of(&run, *place)).collect()).collect();
    // `inner` needs no frame of its own on most compilers, which hides `outer`.
    let is_whole = |chain: &Vec<&str>| {
        chain[0] == "inner"
            && chain[1..].iter().any(|name| name.starts_with("spin"))
            && chain.contains(&"main")
    };
    assert!(chains.iter().any(is_whole), "{chains:?}");
    let with_chain = run.samples.stack.iter().flatten().count();
    assert!(with_chain * 2 > run.samples.place.len(), "{with_chain} of {}", run.samples.place.len());
    for (index, stack) in run.samples.stack.iter().enumerate() {
        assert!(stack.is_none_or(|stack| run.stacks[stack as usize][0] == run.samples.place[index]));
    }
}

#[test]
fn forked_processes_inherit() {
    let place = Place::new();
    let program = place.build("touch", &[]);
    let (output, run) = place.record(&[], &[program.to_str().unwrap(), "fork"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b"1\n"[..]));
    assert_eq!(run.processes.len(), 2);
    let mut logs: Vec<_> = run.data.heap.iter().map(|log| (log.process, log.inherits)).collect();
    logs.sort_unstable();
    assert_eq!(logs, [(ProcessId(0), None), (ProcessId(1), Some(ProcessId(0)))]);
}

#[test]
fn what_was_not_asked_for_is_not_there() {
    let place = Place::new();
    let program = place.build("touch", &[]);
    let (output, run) = place.record(&["--no-heap"], &[program.to_str().unwrap()]);
    assert_eq!(output.stdout, b"0\n", "the environment is as it was");
    assert!(run.data.heap.is_empty() && run.data.blocks.is_empty() && run.data.sites.is_empty());
    assert!(run.stacks.is_empty() && run.samples.stack.is_empty());
    assert!(!run.data.areas.is_empty());
    assert!(!run.remarks.iter().any(|remark| remark.contains("llocations")), "{:?}", run.remarks);
}

#[test]
fn programs_that_cannot_be_entered_are_named() {
    let place = Place::new();
    let program = place.build("touch", &["-static"]);
    let (output, run) = place.record(&[], &[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(5));
    assert!(run.data.heap.is_empty() && run.data.blocks.is_empty());
    assert!(run.remarks.iter().any(|remark| remark.contains("statically linked")), "{:?}", run.remarks);
    assert!(run.data.areas.iter().any(|area| area.kind == AreaKind::Heap));
}

/// Programs that nobody here wrote do what they do alone.
#[test]
fn other_programs_do_not_notice() {
    let place = Place::new();
    let python = "import sys, subprocess, json\n\
        d = {str(i): [i] * 50 for i in range(20000)}\n\
        print(len(json.dumps(d)), sum(map(len, d.values())), flush=True)\n\
        print(subprocess.run(['sh', '-c', 'echo from sh; exit 3']).returncode)\n\
        sys.stderr.write('to stderr\\n'); sys.exit(7)";
    let sql = "CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)\n\
        INSERT INTO t SELECT i, hex(i * 7919 % 100003) FROM n; CREATE INDEX x ON t(b);\n\
        SELECT count(*), sum(a), max(b) FROM t; SELECT a FROM t ORDER BY b LIMIT 3;";
    for command in [["python3", "-c", python], ["sqlite3", ":memory:", sql]] {
        if !prerequisites::needs(command[0]) {
            continue;
        }
        let alone = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
        let (recorded, run) = place.record(&[], &command);
        assert_eq!(recorded, alone, "{}", command[0]);
        assert!(run.data.heap.iter().all(|log| log.problem.is_none()), "{:?}", run.data.heap);
        assert!(!run.data.blocks.is_empty() && !run.data.sites.is_empty());
    }
}
