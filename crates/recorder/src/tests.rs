//! The recorder on records written by hand.

use machine::profile::Fingerprint;
use pmu::sampling::{KernelSample, MappedFile, Mmap, Mode, RingRecord, Stamp};
use record::{
    file::{Code, Writer, read},
    ids::ProcessId,
    run::{About, Ending, ModuleKind, Run},
};

use super::{
    recorder::{NEVER, RecordWindow, Recorder},
    schedule::ScheduleWatch,
};

const ROOT: i32 = 2_000_000_100;
const CHILD: i32 = 2_000_000_101;
const EXEC_NS: u64 = 5_000;

fn about() -> About {
    About {
        memwall: "test".into(),
        command: vec!["app".into()],
        attached: None,
        started_at: 0,
        fingerprint: Fingerprint::default(),
        rate_hz: 1000.0,
        period_ns: 1e6,
        skid_instructions: 1,
        elapsed_ns: None,
        ending: Ending::Unknown,
        usage: None,
        slowed: None,
        clock_hz: None,
        lost_samples: None,
        noise: None,
        slice_ns: 100,
    }
}

fn stamp(at_ns: u64, pid: i32) -> Stamp {
    Stamp { time_ns: EXEC_NS + at_ns, pid, tid: pid, cpu: 0, id: None }
}

fn exec(at_ns: u64, pid: i32, name: &'static str) -> RingRecord<'static> {
    RingRecord::Comm { stamp: stamp(at_ns, pid), pid, tid: pid, name: name.as_bytes(), exec: true }
}

fn mmap(at_ns: u64, pid: i32, start: u64, path: &'static str) -> RingRecord<'static> {
    RingRecord::Mmap(Mmap {
        stamp: stamp(at_ns, pid),
        pid,
        tid: pid,
        start,
        length: 0x1000,
        offset: 0x2000,
        file: MappedFile::Unknown,
        protection: None,
        flags: None,
        is_data: false,
        path: path.as_bytes(),
    })
}

fn sample(at_ns: u64, pid: i32, tid: i32, ip: u64) -> RingRecord<'static> {
    RingRecord::Sample(KernelSample {
        time_ns: EXEC_NS + at_ns,
        pid,
        tid,
        cpu: 1,
        mode: Mode::User,
        ip: Some(ip),
        exact_ip: false,
        call_chain: None,
        registers: None,
        address: None,
        physical_address: None,
        data_page_size: None,
        weight: None,
        data_source: None,
        period: Some(1_000_000),
        id: None,
    })
}

fn fork(at_ns: u64, pid: i32, tid: i32, parent_pid: i32) -> RingRecord<'static> {
    RingRecord::Fork { stamp: stamp(at_ns, parent_pid), pid, tid, parent_pid, parent_tid: parent_pid }
}

fn exit(at_ns: u64, pid: i32, tid: i32) -> RingRecord<'static> {
    RingRecord::Exit { stamp: stamp(at_ns, pid), pid, tid, parent_pid: 1, parent_tid: 1 }
}

fn switch(at_ns: u64, pid: i32, out: bool, preempted: bool) -> RingRecord<'static> {
    RingRecord::Switch { stamp: stamp(at_ns, pid), out, preempted }
}

/// What a recording of these records reads like; the program's time begins `delay_ns` after its exec.
fn recorded(records: &[RingRecord<'static>], delay_ns: u64) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let window = RecordWindow { origin_ns: 0, delay_after_exec_ns: Some(delay_ns), end_ns: NEVER };
    let mut recorder = Recorder::new(Writer::create(&path, &about()).unwrap(), ROOT, window, 100, 1);
    records.iter().for_each(|record| recorder.take(*record));
    recorder.end(EXEC_NS + 1000);
    let code = Code { function_of_place: vec![None; recorder.places.len()], ..Code::default() };
    recorder.writer.finish(&about(), &code).unwrap();
    read(&path).unwrap()
}

/// A recorder of one process with one thread and one place, at the beginning.
pub(crate) fn recorder(path: &std::path::Path) -> Recorder {
    let window = RecordWindow { origin_ns: 0, delay_after_exec_ns: None, end_ns: NEVER };
    let mut recorder = Recorder::new(Writer::create(path, &about()).unwrap(), ROOT, window, 100, 1);
    recorder.take(mmap(1, ROOT, 0x10000, "/nowhere/app"));
    recorder.take(sample(2, ROOT, ROOT, 0x10000));
    recorder
}

/// Ends its recording.
pub(crate) fn finish(mut recorder: Recorder) {
    let code = Code { function_of_place: vec![None; recorder.places.len()], ..Code::default() };
    recorder.writer.finish(&about(), &code).unwrap();
}

/// For each sample: its module's path and its address there.
fn located(run: &Run) -> Vec<(&str, u64)> {
    let places = run.samples.place.iter().map(|place| run.place(*place).unwrap());
    places.map(|place| (run.module(place.module).unwrap().path.as_str(), place.address)).collect()
}

#[test]
fn forks_copy_memory_and_exec_clears_it() {
    let run = recorded(
        &[
            exec(0, ROOT, "app"),
            mmap(1, ROOT, 0x10000, "/nowhere/app"),
            sample(10, ROOT, ROOT, 0x10004),
            fork(20, CHILD, CHILD, ROOT),
            sample(30, CHILD, CHILD, 0x10004),
            // Mapped by the parent after the fork: not the child's.
            mmap(35, ROOT, 0x20000, "/nowhere/plugin.so"),
            sample(36, ROOT, ROOT, 0x20010),
            sample(37, CHILD, CHILD, 0x20010),
            exec(40, CHILD, "other"),
            mmap(41, CHILD, 0x10000, "/nowhere/other"),
            sample(50, CHILD, CHILD, 0x10004),
            exit(60, CHILD, CHILD),
            // Mapped over what was there.
            mmap(70, ROOT, 0x20000, "/nowhere/second.so"),
            sample(80, ROOT, ROOT, 0x20010),
            exit(90, ROOT, ROOT),
        ],
        0,
    );
    let unknown = format!("unknown memory of process {CHILD}");
    // Files that cannot be read have offsets for addresses.
    let expected = [
        ("/nowhere/app", 0x2004),
        ("/nowhere/app", 0x2004),
        ("/nowhere/plugin.so", 0x2010),
        (unknown.as_str(), 0x20010),
        ("/nowhere/other", 0x2004),
        ("/nowhere/second.so", 0x2010),
    ];
    assert_eq!(located(&run), expected);
    let processes: Vec<_> = run
        .processes
        .iter()
        .map(|p| (p.name.as_str(), p.executable.as_deref(), p.began_ns, p.ended_ns))
        .collect();
    assert_eq!(
        processes,
        [("app", Some("/nowhere/app"), 0, Some(90)), ("other", Some("/nowhere/other"), 20, Some(60))]
    );
    assert!(run.modules.iter().all(|module| module.kind != ModuleKind::File || module.problem.is_some()));
}

#[test]
fn threads_have_their_own_time() {
    let thread = ROOT + 7;
    let run = recorded(
        &[
            exec(0, ROOT, "app"),
            mmap(1, ROOT, 0x10000, "/nowhere/app"),
            fork(100, ROOT, thread, ROOT),
            RingRecord::Comm {
                stamp: stamp(110, thread),
                pid: ROOT,
                tid: thread,
                name: b"worker",
                exec: false,
            },
            switch(150, thread, false, false),
            sample(160, ROOT, thread, 0x10004),
            switch(170, ROOT, true, false),
            switch(180, thread, true, true),
            switch(250, ROOT, false, false),
            exit(300, ROOT, thread),
            exit(320, ROOT, ROOT),
        ],
        0,
    );
    assert_eq!(run.threads.len(), 2);
    assert_eq!((run.threads[1].name.as_str(), run.threads[1].process), ("worker", ProcessId(0)));
    assert_eq!((run.threads[1].began_ns, run.threads[1].ended_ns), (100, Some(300)));
    assert_eq!(run.processes[0].ended_ns, Some(320), "with its last thread");
    let spent = |thread: u32| {
        let own = run.slices.iter().filter(|slice| slice.thread.0 == thread);
        own.fold([0; 3], |sum, slice| {
            [sum[0] + slice.running_ns, sum[1] + slice.blocked_ns, sum[2] + slice.preempted_ns]
        })
    };
    assert_eq!(spent(0), [240, 80, 0]);
    assert_eq!(spent(1), [30, 0, 170]);
}

/// From a clock of the CPUs come records of everybody.
#[test]
fn of_the_whole_machine_only_the_program_is_taken() {
    const OTHER: i32 = 2_000_000_900;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut recorder = recorder(&path);
    let alone = recorder.counts.samples;
    recorder.sifts_from_ns = Some(EXEC_NS + 100);
    let mut take = |record| recorder.take_unless_copied(record, None);
    take(sample(99, ROOT, ROOT, 0x10004));
    take(sample(110, ROOT, ROOT, 0x10004));
    take(sample(111, OTHER, OTHER, 0x10004));
    take(fork(112, OTHER + 1, OTHER + 1, OTHER));
    take(sample(113, OTHER + 1, OTHER + 1, 0x10004));
    take(mmap(114, OTHER, 0x20000, "/nowhere/other"));
    take(exec(115, OTHER, "other"));
    take(fork(120, CHILD, CHILD, ROOT));
    take(exec(121, CHILD, "child"));
    take(mmap(122, CHILD, 0x30000, "/nowhere/child"));
    take(sample(130, CHILD, CHILD, 0x30004));
    take(exit(140, OTHER, OTHER));
    take(exit(141, CHILD, CHILD));
    take(sample(150, CHILD, CHILD, 0x30004));
    assert_eq!(recorder.counts.samples - alone, 2, "what was before, of others, and of who has ended is not");
    finish(recorder);
    let run = read(&path).unwrap();
    assert_eq!(run.processes.iter().map(|process| process.name.as_str()).collect::<Vec<_>>(), ["", "child"]);
    assert_eq!(located(&run).last().unwrap().0, "/nowhere/child");
}

/// Without records of switches threads are asked; nobody goes on running for ever.
#[test]
fn when_switches_are_told_no_more_slices_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut recorder = recorder(&path);
    recorder.take(switch(60, ROOT, true, false));
    recorder.take(switch(70, ROOT, false, false));
    let own = std::process::id().cast_signed();
    recorder.take(fork(80, own, own, ROOT));
    let mut watch = ScheduleWatch::default();
    recorder.begin_asking(&mut watch, EXEC_NS + 90);
    assert_eq!(recorder.switching().switches, 1);
    assert_eq!(recorder.switching().running_ns, 58 + 20, "from the first record of it on, but for 10");
    recorder.take(switch(100, ROOT, true, false));
    recorder.take(fork(110, ROOT, ROOT + 7, ROOT));
    recorder.ask_all(&mut watch, EXEC_NS + 1_000_090);
    recorder.end(EXEC_NS + 2_000_000);
    finish(recorder);
    let run = read(&path).unwrap();
    let of = |thread: u32| run.slices.iter().filter(move |slice| slice.thread.0 == thread);
    assert_eq!(of(0).map(|slice| slice.running_ns).sum::<u64>(), 78);
    assert_eq!(of(0).map(|slice| slice.blocked_ns).sum::<u64>(), 10);
    let asked: u64 = of(1).map(|slice| slice.running_ns + slice.blocked_ns + slice.preempted_ns).sum();
    assert_eq!(asked, 10 + 1_000_000, "the one that procfs knows: since it was first asked for");
    assert_eq!(of(2).count(), 0, "one that began later has not run for ever");
}

#[test]
fn a_number_used_again_is_another_process() {
    let run = recorded(
        &[
            exec(0, ROOT, "app"),
            fork(1, CHILD, CHILD, ROOT),
            exit(2, CHILD, CHILD),
            fork(3, CHILD, CHILD, ROOT),
            sample(4, CHILD, CHILD, 0x10),
        ],
        0,
    );
    assert_eq!(run.processes.len(), 3);
    assert_eq!(run.thread(run.samples.thread[0]).unwrap().process, ProcessId(2));
    assert_eq!(run.processes[1].ended_ns, Some(2));
    assert_eq!(run.processes[2].ended_ns, None);
}

#[test]
fn nothing_before_the_delay_is_a_sample() {
    let run = recorded(
        &[
            exec(0, ROOT, "app"),
            mmap(1, ROOT, 0x10000, "/nowhere/app"),
            sample(10, ROOT, ROOT, 0x10004),
            sample(60, ROOT, ROOT, 0x10004),
            exit(200, ROOT, ROOT),
        ],
        50,
    );
    assert_eq!(run.samples.time_ns, [10]);
    assert_eq!(located(&run), [("/nowhere/app", 0x2004)], "but what was mapped before is known");
    assert_eq!(run.slices.iter().map(|slice| slice.running_ns).sum::<u64>(), 150);
}

#[test]
fn records_without_sense_do_no_harm() {
    let run = recorded(
        &[
            sample(1, -1, -1, 0x10),
            sample(2, 0, 0, 0x10),
            exit(3, CHILD, CHILD),
            switch(4, CHILD, true, true),
            mmap(5, -1, u64::MAX - 5, "/nowhere/x"),
            mmap(6, ROOT, u64::MAX - 5, "/nowhere/x"),
            sample(7, ROOT, ROOT, u64::MAX),
            RingRecord::Malformed { kind: None, bytes: 7 },
            exec(8, ROOT, "app"),
            sample(1, ROOT, ROOT, 0),
        ],
        0,
    );
    assert_eq!(run.threads.len(), 1);
}

#[test]
fn places_beyond_those_that_are_kept_are_counted_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let window = RecordWindow { origin_ns: 0, delay_after_exec_ns: None, end_ns: NEVER };
    let mut recorder = Recorder::new(Writer::create(&path, &about()).unwrap(), ROOT, window, 100, 1);
    recorder.most_places = 4;
    recorder.take(mmap(1, ROOT, 0x10000, "/nowhere/app"));
    (0..10).for_each(|turn| recorder.take(sample(10 + turn, ROOT, ROOT, 0x10000 + turn)));
    // One that is known already keeps its place.
    recorder.take(sample(30, ROOT, ROOT, 0x10000));
    assert_eq!((recorder.places.len(), recorder.counts.crowded, recorder.counts.samples), (5, 6, 11));
    let code = Code { function_of_place: vec![None; recorder.places.len()], ..Code::default() };
    recorder.writer.finish(&about(), &code).unwrap();
    let run = read(&path).unwrap();
    let crowd = located(&run).iter().filter(|(module, _)| module.contains("more places")).count();
    assert_eq!(crowd, 6);
}
