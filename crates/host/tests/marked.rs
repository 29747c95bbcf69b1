//! A program counted by its regions, on a kernel of ours below the system call of both: the program's
//! (`crates/heap/tests/fake_kernel`) and memwall's own.
#![allow(clippy::unwrap_used)]
#![cfg(target_arch = "x86_64")]

use std::{
    collections::HashSet,
    ffi::OsString,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use events::CountShare;
use host::count::{CountRequest, Fit, MarkedProgram, Selection, count_marked};
use machine::Source;
use pmu::{
    Errno, EventTarget, KernelEvent, LinuxKernel, Live, Mapping, PerfEvents, bindings, kernel::RingState,
};
use record::count::{Counts, Total, total};
use recorder::ProgramOutput;

/// This kernel, and beside it hardware events that count nothing for memwall itself but can be read.
#[derive(Default)]
struct WithHardware {
    hardware: Mutex<HashSet<RawFd>>,
}

impl LinuxKernel for WithHardware {
    fn open(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        if event.kind != bindings::PERF_TYPE_HARDWARE {
            return Live.open(event, target, leader);
        }
        let (kind, config) = (bindings::PERF_TYPE_SOFTWARE, u64::from(bindings::PERF_COUNT_SW_DUMMY));
        let opened = Live.open(&KernelEvent { kind, config, ..event.clone() }, target, leader)?;
        self.hardware.lock().unwrap().insert(opened.as_raw_fd());
        Ok(opened)
    }

    fn open_in_cgroup(
        &self,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        Live.open_in_cgroup(event, cgroup, cpu, leader)
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        Live.switch(fd, on, group)
    }

    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        Live.read(fd, bytes)
    }

    fn map(&self, fd: BorrowedFd<'_>, data_pages: usize) -> Result<Mapping, Errno> {
        if data_pages > 0 || !self.hardware.lock().unwrap().contains(&fd.as_raw_fd()) {
            return Live.map(fd, data_pages);
        }
        let mut page = bindings::perf_event_mmap_page::default();
        page.__bindgen_anon_1.capabilities = 1 << 2 | 1 << 3;
        Mapping::from_script(page, &[])
    }

    fn redirect(&self, fd: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        Live.redirect(fd, to)
    }

    fn set_period(&self, fd: BorrowedFd<'_>, period: u64) -> Result<(), Errno> {
        Live.set_period(fd, period)
    }

    fn wait(&self, rings: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<RingState>, Errno> {
        Live.wait(rings, timeout)
    }
}

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
void memwall_region_begin(const char *) __attribute__((weak));
void memwall_region_end(const char *) __attribute__((weak));
void pass(uint64_t count, uint64_t ns) __attribute__((weak));
static void *work(void *unused) {
    memwall_region_begin("both");
    pass(40, 1000);
    memwall_region_end("both");
    return unused;
}
int main(void) {
    for (int visit = 0; visit < 3; visit++) {
        memwall_region_begin("hot");
        pass(500, 2000);
        memwall_region_begin("within");
        pass(7, 100);
        memwall_region_end("within");
        memwall_region_end("hot");
        pass(100000, 100000); /* in no region */
    }
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    work(NULL);
    return 3;
}"#;

fn built(folder: &Path, name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let output =
        Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn counted(events: &str, share: CountShare) -> Option<(Counts, Vec<(String, Counts)>)> {
    let folder = tempfile::tempdir().unwrap();
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../heap/tests/fake_kernel/events.c");
    let fake = built(folder.path(), "fake.so", &fake, &["-shared", "-fPIC"]);
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = built(folder.path(), "program", &source, &["-pthread"]);
    let script = format!("LD_PRELOAD=$LD_PRELOAD:{} exec {}", fake.display(), program.display());
    let command: Vec<OsString> = ["sh", "-c", &script].map(OsString::from).into();
    let kernel = WithHardware::default();
    let live = Source::live();
    let here = PerfEvents::new(&kernel, live.clone());
    let selection = Selection::new(&here, &[events.to_owned()], &[]).unwrap();
    let request = CountRequest { fit: Fit::TakeTurns, share, ..CountRequest::once(&selection) };
    let recording = folder.path().join("a.sqlite");
    let program = MarkedProgram {
        command: &command,
        output: ProgramOutput::Nowhere,
        recording: &recording,
        kernel: &kernel,
        source: &live,
    };
    let (whole, regions) = count_marked(&request, &here, &program).unwrap();
    if regions.is_empty() && whole.remarks.iter().any(|remark| remark.contains("not known")) {
        prerequisites::skip(prerequisites::Need::PerfEvent, whole.remarks.join(" "));
        return None;
    }
    Some((whole, regions))
}

fn of<'a>(regions: &'a [(String, Counts)], name: &str) -> &'a Counts {
    &regions.iter().find(|(path, _)| path == name).unwrap_or_else(|| panic!("{name}: {regions:?}")).1
}

fn estimate(counts: &Counts, event: usize) -> Option<f64> {
    total(&counts.runs[0].counts, event, |_| true).unwrap().estimate()
}

fn reason(counts: &Counts, event: usize) -> String {
    match total(&counts.runs[0].counts, event, |_| true).unwrap() {
        Total::Missing { reason, .. } => format!("{reason:?}"),
        counted @ Total::Counted { .. } => panic!("{counted:?}"),
    }
}

#[test]
fn every_region_has_its_own_counts() {
    let events =
        "cycles,instructions,cache-references,cache-misses,branch-misses,bus-cycles,page-faults,task-clock";
    let Some((whole, regions)) = counted(events, CountShare::Together) else { return };
    assert_eq!(whole.runs[0].ending, Some(record::run::Ending::Exited(3)));
    let names: Vec<&str> = regions.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["hot", "within", "both"]);
    for (region, counts) in [("hot", 3.0 * 507.0), ("within", 3.0 * 7.0), ("both", 80.0)] {
        let found = of(&regions, region);
        assert_eq!(estimate(found, 0), Some(counts), "{region}");
        assert_eq!(estimate(found, 2), Some(counts), "{region}: read again where the kernel came between");
        assert_eq!(estimate(found, 4), Some(2.0 * counts), "{region}: it had a counter half of the time");
        // Never on a counter; may not be read; unknown to the program's kernel: each with its reason, none is 0.
        assert_eq!(reason(found, 1), "NeverRan");
        assert!(reason(found, 3).contains("rdpmc"), "{}", reason(found, 3));
        assert!(reason(found, 5).contains("ENOENT"), "{}", reason(found, 5));
        assert!(estimate(found, 7).is_some_and(|cpu_ns| cpu_ns > 0.0));
        assert_eq!(found.remarks, Vec::<String>::new());
    }
}

#[test]
fn threads_are_told_apart_where_that_is_asked_for() {
    let Some((_, regions)) = counted("cycles", CountShare::Each) else { return };
    let of_threads = |region| {
        let mut found: Vec<f64> =
            of(&regions, region).runs[0].counts.iter().filter_map(|count| count.value.estimate()).collect();
        found.sort_by(f64::total_cmp);
        found
    };
    assert_eq!(of_threads("both"), [40.0, 40.0]);
    assert_eq!(of_threads("hot"), [3.0 * 507.0]);
}

#[test]
fn a_thread_is_counted_though_others_had_the_cpu_while_its_events_were_opened() {
    let Some((_, regions)) = counted("stalled-cycles-frontend", CountShare::Together) else { return };
    assert_eq!(estimate(of(&regions, "both"), 0), Some(80.0));
}
