//! Sampled loads on a scripted kernel: from the rings to the recording, the findings and the report.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use analysis::{reading::Reading, timer::TimerOptions};
use machine::Source;
use pmu::{
    Errno, EventTarget, bindings as b,
    scripted::{Behaviour, Scripted},
};
use record::{
    file::read,
    loads::{DataOrigin, LoadSamples},
    run::Run,
};
use recorder::{RecordOutcome, RecordRequest, record};

/// Loads are sampled in here, as the script has it.
#[inline(never)]
fn walk_the_table() -> u64 {
    std::hint::black_box(7)
}

/// A machine with one CPU and these PMUs of it: folder, files and what they hold.
fn machine(pmu: &[(&str, &str)]) -> (tempfile::TempDir, Source) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(&root.path().join("sys/devices/system/cpu/online"), "0\n");
    for (path, text) in pmu {
        write(&root.path().join("sys/bus/event_source/devices").join(path), text);
    }
    let source = Source::under(root.path());
    (root, source)
}

const INTEL: &[(&str, &str)] = &[
    ("cpu/type", "4\n"),
    ("cpu/format/event", "config:0-7\n"),
    ("cpu/format/umask", "config:8-15\n"),
    ("cpu/format/ldlat", "config1:0-15\n"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
];

/// One record of a ring.
fn ring_record(kind: u32, misc: u32, words: &[u64]) -> Vec<u8> {
    let size = 8 + 8 * words.len() as u64;
    let header = u64::from(kind) | u64::from(misc) << 32 | size << 48;
    std::iter::once(header).chain(words.iter().copied()).flat_map(u64::to_ne_bytes).collect()
}

/// Text in words, ended by at least one 0.
fn text(text: &str) -> Vec<u64> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 8) / 8 * 8, 0);
    bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn both(pid: i32) -> u64 {
    (pid as u64) | (pid as u64) << 32
}

/// The program's exec and the mapping of this very program, whose function the loads are in.
fn sideband(pid: i32) -> Vec<u8> {
    let ip = walk_the_table as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end, offset) = maps
        .lines()
        .find_map(|line| {
            let mut words = line.split(' ');
            let (start, end) = words.next()?.split_once('-')?;
            let (start, end) = (hexadecimal(start), hexadecimal(end));
            (start..end).contains(&ip).then(|| (start, end, hexadecimal(words.nth(1).unwrap())))
        })
        .unwrap();
    let stamp = |time_ns| [both(pid), time_ns, 0];
    let comm = [vec![both(pid)], text("walk"), stamp(1000).to_vec()].concat();
    let path = text(std::env::current_exe().unwrap().to_str().unwrap());
    let mmap = [vec![both(pid), start, end - start, offset], path, stamp(1001).to_vec()].concat();
    let exec = ring_record(b::PERF_RECORD_COMM, b::PERF_RECORD_MISC_COMM_EXEC, &comm);
    [exec, ring_record(b::PERF_RECORD_MMAP, b::PERF_RECORD_MISC_USER, &mmap)].concat()
}

/// A sampled access: its address, weight and data source.
fn access(pid: i32, at_ns: u64, address: u64, weight: u64, source: u64) -> Vec<u8> {
    let ip = walk_the_table as *const () as u64;
    let misc = b::PERF_RECORD_MISC_USER | b::PERF_RECORD_MISC_EXACT_IP;
    ring_record(b::PERF_RECORD_SAMPLE, misc, &[ip, both(pid), at_ns, address, 0, 1, weight, source])
}

fn source(operation: u32, levels: u32) -> u64 {
    u64::from(operation) | u64::from(levels) << 5
}

/// Records `true` on a kernel with or without the weights in parts of Linux 5.12. In parts the upper half means
/// something else than latency.
fn recorded(pmu: &[(&str, &str)], is_new: bool, refuses: bool) -> (RecordOutcome, Run) {
    let kernel = Scripted::new(move |asked| {
        let EventTarget::ThreadOnCpu { tid, .. } = asked.target else { return Err(Errno(libc::EINVAL)) };
        let fields = asked.event.sampling.as_ref().map_or(0, |sampling| sampling.fields);
        let in_parts = fields & u64::from(b::PERF_SAMPLE_WEIGHT_STRUCT) != 0;
        match asked.event.kind {
            b::PERF_TYPE_SOFTWARE => Ok(Behaviour::samples(&sideband(tid))),
            _ if refuses => Err(Errno(libc::EACCES)),
            _ if in_parts && !is_new => Err(Errno(libc::EINVAL)),
            _ => {
                assert!(asked.event.enable_on_exec && asked.event.attr().precise_ip() == 2);
                let more = if in_parts { 9 << 32 } else { 0 };
                let hit = |level| source(b::PERF_MEM_OP_LOAD, b::PERF_MEM_LVL_HIT | level);
                let ring = [
                    access(tid, 2000, 0x7000, 400 | more, hit(b::PERF_MEM_LVL_LOC_RAM)),
                    access(tid, 2001, 0x7008, 6 | more, hit(b::PERF_MEM_LVL_L1)),
                    access(tid, 2002, 0, more, hit(b::PERF_MEM_LVL_REM_RAM1)),
                    access(tid, 2003, 0x7010, 5, source(b::PERF_MEM_OP_STORE, 0)),
                ];
                Ok(Behaviour::samples(&ring.concat()))
            }
        }
    });
    let (_root, source) = machine(pmu);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.mw");
    let target = recorder::RecordTarget::Launch(vec!["true".into()]);
    let request = RecordRequest { precise: true, heap: false, ..RecordRequest::new(target, &file) };
    let outcome = record(&request, &kernel, &source).unwrap();
    (outcome, read(&file).unwrap())
}

#[test]
fn loads_reach_the_recording_and_the_report() {
    assert_eq!(walk_the_table(), 7);
    for is_new in [true, false] {
        let (outcome, run) = recorded(INTEL, is_new, false);
        assert_eq!((outcome.no_loads, outcome.refusal), (None, None));
        let loads: Vec<_> = run
            .loads
            .taken()
            .iter()
            .map(|load| (load.address.map(|address| address.get()), load.latency_cycles, load.origin))
            .collect();
        let expected = [
            (Some(0x7000), Some(400), Some(DataOrigin::Dram)),
            (Some(0x7008), Some(6), Some(DataOrigin::L1)),
            (None, None, Some(DataOrigin::Remote)),
        ];
        assert_eq!(loads, expected, "the store is none");
        let reading = Reading::of(&run, None, &TimerOptions::default());
        let found = reading.findings.loads.value().unwrap();
        assert!(found.functions[0].name.contains("walk_the_table"), "{:?}", found.functions);
        assert_eq!(found.functions[0].loads.median_cycles.value(), Some(&203.0));
        let detail = report::terminal::run::Detail { verbose: true, ..Default::default() };
        let text = report::terminal::run::text(&reading.findings, Some(&reading.objects), detail, 200);
        assert!(
            text.contains("3 loads, median 203 cycles, from L1 33 %, DRAM 33 %, a remote node 33 %"),
            "{text}"
        );
        let json = serde_json::to_value(&reading.findings).unwrap();
        assert_eq!(json["loads"]["value"]["all"]["origins"][1], serde_json::json!(["dram", 1]));
    }
}

#[test]
fn where_loads_cannot_be_sampled_the_recording_goes_on_and_says_why() {
    for (pmu, refuses, word) in
        [(&[][..], false, "sample the clock instead"), (INTEL, true, "sudo memwall run")]
    {
        let (outcome, run) = recorded(pmu, true, refuses);
        let reason = outcome.no_loads.unwrap();
        assert!(reason.contains(word), "{reason}");
        assert_eq!((outcome.refusal, &run.loads), (None, &LoadSamples::Refused(reason.clone())));
        assert!(
            run.remarks.iter().any(|remark| remark.contains("No loads were sampled")),
            "{:?}",
            run.remarks
        );
        let reading = Reading::of(&run, None, &TimerOptions::default());
        assert!(reading.findings.loads.missing().unwrap().contains(&reason));
    }
}
