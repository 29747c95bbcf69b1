//! Events at marks, on a kernel of ours below the system call (`fake_kernel`): how they are opened, read and let go.
#![allow(clippy::unwrap_used)]
#![cfg(target_arch = "x86_64")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use heap::{EventCount, MarkedEvent, Note, NoteFile, NoteKind, ReadAtMarks, VARIABLE};
use tempfile::TempDir;

/// How an event of the fake kernel behaves, by its number.
const ON_COUNTER: u64 = 0;
const OFF_COUNTER: u64 = 1;
const INTERRUPTED: u64 = 2;
const UNREADABLE: u64 = 3;
const NARROW: u64 = 4;
const UNKNOWN: u64 = 9;

const HEAD: &str = r"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
void memwall_region_begin(const char *) __attribute__((weak));
void memwall_region_end(const char *) __attribute__((weak));
void pass(uint64_t count, uint64_t ns) __attribute__((weak));
int is_open(int event) __attribute__((weak));
int events_opened(void) __attribute__((weak));
";

struct FakeKernel {
    folder: TempDir,
    preload: String,
    file: NoteFile,
}

fn built(folder: &Path, name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let output =
        Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The kernel's form of a hardware event, of which the first words are enough: type, size, number.
fn event(number: u64, leader: Option<usize>) -> MarkedEvent {
    let mut attr = vec![0; 136];
    attr[4..8].copy_from_slice(&136_u32.to_ne_bytes());
    attr[8..16].copy_from_slice(&number.to_ne_bytes());
    MarkedEvent { leader, attr }
}

impl FakeKernel {
    fn with(events: &[MarkedEvent]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = heap::install(folder.path()).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_kernel/events.c");
        let fake = built(folder.path(), "fake.so", &source, &["-shared", "-fPIC"]);
        let mut file = NoteFile::create().unwrap();
        file.ask(&ReadAtMarks { clock: true, events: events.to_vec() }).unwrap();
        file.let_inherit(true).unwrap();
        let preload = format!("{}:{}", library.display(), fake.display());
        Self { folder, preload, file }
    }

    /// What a program printed, and all that it and its children wrote down.
    fn run(&self, body: &str) -> (String, Vec<Note>) {
        let source = self.folder.path().join("program.c");
        std::fs::write(&source, format!("{HEAD}{body}")).unwrap();
        let program = built(self.folder.path(), "program", &source, &["-pthread"]);
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &self.preload).env(VARIABLE, self.file.variable());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let mut notes = Vec::new();
        for region in 0..self.file.claimed() {
            self.file.ring(region).unwrap().take(true, |note| notes.push(note)).unwrap();
        }
        (String::from_utf8(output.stdout).unwrap(), notes)
    }
}

/// Events at each mark, in order.
fn at_marks(notes: &[Note]) -> Vec<Vec<(u64, EventCount)>> {
    let mut marks = vec![Vec::new()];
    for note in notes {
        match note.kind {
            NoteKind::RegionEvent(count) => marks.last_mut().unwrap().push((note.size_bytes, count)),
            NoteKind::RegionBegan(_) | NoteKind::RegionEnded(_) => marks.push(Vec::new()),
            _ => {}
        }
    }
    marks.pop();
    marks
}

fn refused(notes: &[Note]) -> Vec<(u64, u64)> {
    let reason = |note: &Note| match note.kind {
        NoteKind::EventRefused { errno } => Some((note.size_bytes, errno)),
        _ => None,
    };
    notes.iter().filter_map(reason).collect()
}

const ONE_REGION: &str = r#"
int main(void) {
    memwall_region_begin("one");
    pass(500, 1000);
    memwall_region_end("one");
}"#;

#[test]
fn only_programs_with_something_to_read_are_told_to_look() {
    let mut file = NoteFile::create().unwrap();
    let mut numbers = |clock, events: &[MarkedEvent]| {
        file.ask(&ReadAtMarks { clock, events: events.to_vec() }).unwrap();
        file.variable().into_string().unwrap().split(':').count()
    };
    assert_eq!(numbers(false, &[]), 3, "the start of a program is as short as can be");
    assert_eq!((numbers(true, &[]), numbers(false, &[event(ON_COUNTER, None)])), (4, 4));
}

#[test]
fn a_thread_reads_its_own_counters() {
    let events =
        [event(ON_COUNTER, None), event(OFF_COUNTER, Some(0)), event(INTERRUPTED, None), event(NARROW, None)];
    let (_, notes) = FakeKernel::with(&events).run(ONE_REGION);
    let count = |value, enabled_ns, running_ns| EventCount { value, enabled_ns, running_ns };
    // The counter stands 300 below zero and counts 500; pages add what they had when it was programmed.
    let expected = [
        vec![
            (0, count(1000 - 300, 55, 45)),
            (1, count(1001, 55, 40)),
            (2, count(1002 - 300, 55, 45)),
            (3, count(1004 - 300, 55, 45)),
        ],
        vec![
            (0, count(1000 + 200, 1055, 1045)),
            (1, count(1001, 1055, 40)),
            (2, count(1002 + 200, 1055, 1045)),
            (3, count(1004 + 200, 1055, 1045)),
        ],
    ];
    assert_eq!(at_marks(&notes), expected);
    assert_eq!(refused(&notes), []);
    // Events of a mark have its time, so that the reader knows whose they are.
    let times: Vec<u64> = notes.iter().map(|note| note.time_ns).collect();
    let marks =
        notes.iter().filter(|note| matches!(note.kind, NoteKind::RegionBegan(_) | NoteKind::RegionEnded(_)));
    for mark in marks {
        assert_eq!(times.iter().filter(|time| **time == mark.time_ns).count(), 6, "{notes:?}");
    }
    let clocks = notes.iter().filter_map(|note| match note.kind {
        NoteKind::RegionCounts(counts) => Some(counts.cpu_ns),
        _ => None,
    });
    assert!(
        clocks.clone().count() == 2
            && clocks.is_sorted()
            && notes
                .iter()
                .any(|note| { matches!(note.kind, NoteKind::RegionCounts(counts) if counts.cpu_ns > 0) })
    );
}

#[test]
fn what_cannot_be_counted_is_told_with_the_reason_and_spoils_nothing_else() {
    let events = [event(UNKNOWN, None), event(UNREADABLE, None), event(ON_COUNTER, Some(0))];
    let (printed, notes) = FakeKernel::with(&events).run(
        r#"
int main(void) {
    errno = 77;
    memwall_region_begin("one");
    pass(500, 1000);
    memwall_region_end("one");
    printf("%d\n", errno);
}"#,
    );
    assert_eq!(printed, "77\n", "the program's own error");
    assert_eq!(refused(&notes), [(0, 2), (1, 0)], "ENOENT, and one that may not be read");
    let marks = at_marks(&notes);
    assert_eq!(marks.len(), 2);
    assert!(marks.iter().all(|mark| mark.len() == 1 && mark[0].0 == 2), "{marks:?}");
}

#[test]
fn no_descriptor_stays_and_no_more_places_than_threads_are_alive() {
    let (printed, notes) = FakeKernel::with(&[event(ON_COUNTER, None)]).run(
        r#"
static void *work(void *unused) {
    memwall_region_begin("thread");
    pass(1, 1);
    memwall_region_end("thread");
    usleep(500); /* opening is paid from the time that passes */
    return unused;
}
int main(void) {
    int before = open("/dev/null", O_RDONLY);
    close(before);
    memwall_region_begin("first");
    int within = open("/dev/null", O_RDONLY);
    int left = 0;
    for (int round = 0; events_opened() < 300 && round < 100000; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
    }
    for (int event = 0; event < events_opened(); event++) left += is_open(event) && event > 3;
    char line[4096];
    int mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) mapped += strstr(line, "memfd:event") && strstr(line, "r--s");
    memwall_region_end("first");
    printf("%d %d %d %d\n", before == within, events_opened() >= 300, left, mapped <= 256);
}"#,
    );
    assert_eq!(printed, "1 1 0 1\n", "same number, all threads, none open, places used again");
    assert_eq!(refused(&notes), []);
}

#[test]
fn a_forked_process_opens_its_own() {
    let (printed, notes) = FakeKernel::with(&[event(ON_COUNTER, None)]).run(
        r#"
int main(void) {
    memwall_region_begin("parent");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        memwall_region_begin("child");
        pass(20, 1);
        memwall_region_end("child");
        _exit(events_opened());
    }
    int status;
    waitpid(child, &status, 0);
    pass(3, 1);
    memwall_region_end("parent");
    printf("%d\n", WEXITSTATUS(status));
}"#,
    );
    assert_eq!(printed, "2\n", "one of the parent's, one of its own");
    let mut by_process: Vec<(u32, u64)> = Vec::new();
    for note in &notes {
        if let NoteKind::RegionEvent(count) = note.kind {
            by_process.push((note.pid, count.value));
        }
    }
    let parent = by_process[0].0;
    let of = |is_parent: bool| -> Vec<u64> {
        by_process.iter().filter(|(pid, _)| (*pid == parent) == is_parent).map(|(_, value)| *value).collect()
    };
    assert_eq!((of(true), of(false)), (vec![700, 703], vec![700, 720]));
}

/// Lines of its own map that a program counts: pages of events, and the beginning of our file.
const COUNT_MAPPED: &str = r#"
static void say_mapped(void) {
    char line[4096];
    int pages = 0, heads = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        pages += strstr(line, "memfd:event") && strstr(line, "r--s");
        heads += strstr(line, "memfd:memwall-heap") && strstr(line, " 00000000 ");
    }
    fclose(maps);
    printf("%d %d\n", pages, heads);
}
"#;

#[test]
fn a_program_that_locks_its_memory_keeps_none_of_ours() {
    let (printed, notes) = FakeKernel::with(&[event(ON_COUNTER, None), event(NARROW, None)]).run(&format!(
        r#"{COUNT_MAPPED}
int main(void) {{
    memwall_region_begin("one");
    say_mapped();
    mlockall(MCL_CURRENT);
    say_mapped();
    memwall_region_end("one");
}}"#
    ));
    assert_eq!(printed, "2 0\n0 0\n");
    assert_eq!(at_marks(&notes).len(), 1, "nothing is written down behind it");
}

#[test]
fn threads_that_forbid_themselves_the_clock_read_no_counter() {
    let (printed, notes) = FakeKernel::with(&[event(ON_COUNTER, None)]).run(
        r#"
int main(void) {
    memwall_region_begin("one");
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    pass(1, 1);
    memwall_region_end("one");
    memwall_region_begin("two");
    if (write(1, "fine\n", 5) == 5) syscall(SYS_exit, 0);
}"#,
    );
    assert_eq!(printed, "fine\n");
    assert_eq!(at_marks(&notes).len(), 1);
}

#[test]
fn programs_that_may_have_a_filter_open_nothing() {
    let (printed, notes) = FakeKernel::with(&[event(ON_COUNTER, None)]).run(
        r#"
int main(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    memwall_region_begin("one");
    pass(5, 5);
    memwall_region_end("one");
    printf("%d\n", events_opened());
}"#,
    );
    assert_eq!(printed, "0\n");
    assert!(at_marks(&notes).iter().all(Vec::is_empty));
}
