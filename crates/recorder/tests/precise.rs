//! Sampled loads and events on a scripted kernel: from the rings to the recording, the findings and the report.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use analysis::{reading::Reading, timer::TimerOptions};
use machine::Source;
use pmu::{
    Errno, EventTarget, KernelEvent, NamedSampling, SamplingForm, bindings as b,
    scripted::{Behaviour, Scripted},
};
use record::{
    file::read,
    loads::{DataOrigin, LoadSamples},
    run::Run,
    sampled::EventPace,
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

/// A sample of an event in the function, in user mode or not.
fn event_sample(pid: i32, at_ns: u64, misc: u32, period: u64) -> Vec<u8> {
    let ip = walk_the_table as *const () as u64;
    ring_record(b::PERF_RECORD_SAMPLE, misc, &[ip, both(pid), at_ns, 0, period])
}

fn named(name: &str, id: b::perf_hw_id) -> NamedSampling {
    let form = SamplingForm { event: KernelEvent::hardware(id, None), cpus: None };
    NamedSampling { name: name.to_owned(), precise: 0, forms: vec![form] }
}

/// Records `true` on a kernel that samples cycles and stalls, knows no instructions, and tells of the program's end.
fn recorded_events() -> Run {
    let kernel = Scripted::new(|asked| {
        let EventTarget::ThreadOnCpu { tid, .. } = asked.target else { return Err(Errno(libc::EINVAL)) };
        let user = b::PERF_RECORD_MISC_USER;
        match (asked.event.kind, asked.event.config as u32) {
            (b::PERF_TYPE_SOFTWARE, _) => {
                let exit = [both(tid), both(tid), 9000, both(tid), 9000, 0];
                let exit = ring_record(b::PERF_RECORD_EXIT, 0, &exit);
                Ok(Behaviour::samples(&[sideband(tid), exit].concat()))
            }
            (_, b::PERF_COUNT_HW_CPU_CYCLES) => {
                let mut ring: Vec<u8> =
                    (0..40).flat_map(|index| event_sample(tid, 2000 + index, user, 1000)).collect();
                ring.extend(event_sample(tid, 2100, b::PERF_RECORD_MISC_KERNEL, 1000));
                Ok(Behaviour::samples(&ring))
            }
            (_, b::PERF_COUNT_HW_STALLED_CYCLES_BACKEND) => {
                let ring: Vec<u8> =
                    (0..20).flat_map(|index| event_sample(tid, 8000 + index, user, 500)).collect();
                Ok(Behaviour::samples(&ring))
            }
            _ => Err(Errno(libc::ENOENT)),
        }
    });
    let (_root, source) = machine(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.mw");
    let target = recorder::RecordTarget::Launch(vec!["true".into()]);
    let request = RecordRequest {
        events: vec![
            named("cycles", b::PERF_COUNT_HW_CPU_CYCLES),
            named("stalled-cycles-backend", b::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
            named("instructions", b::PERF_COUNT_HW_INSTRUCTIONS),
        ],
        event_period: Some(1000),
        heap: false,
        ..RecordRequest::new(target, &file)
    };
    record(&request, &kernel, &source).unwrap();
    read(&file).unwrap()
}

#[test]
fn events_reach_the_views_with_their_periods_and_the_end_of_the_program_takes_none_away() {
    let run = recorded_events();
    let list = &run.sampled.list;
    let counts: Vec<_> = list.iter().map(|event| (event.samples, event.in_kernel, event.period)).collect();
    assert_eq!(counts, [(41, 1, Some(41_000)), (20, 0, Some(10_000)), (0, 0, None)]);
    assert_eq!(list[0].pace, Some(EventPace::Every(1000)));
    assert!(
        list[2].refusal.is_some()
            && run.remarks.iter().any(|text| text.contains("instructions was not sampled"))
    );
    let views = Reading::of(&run, None, &TimerOptions::default()).views;
    let name = |event: Option<usize>| event.map(|event| views.events[event].name.as_str());
    assert_eq!((name(views.cycles), name(views.stalled)), (Some("cycles"), Some("stalled-cycles-backend")));
    let walk = views.symbols.iter().find(|symbol| symbol.signature.contains("walk_the_table")).unwrap();
    // 20 samples of 500 over 40 of 1000; the 41st lies in the kernel.
    assert!((walk.stalled.unwrap().value - 0.25).abs() < 1e-9, "{walk:?}");
    assert!(views.symbols.iter().any(|symbol| symbol.signature == "[kernel]"), "{:?}", views.symbols);
    let detail = report::terminal::views::ViewDetail { symbols: 20, regions: 9, verbose: false };
    let choice = report::terminal::views::ViewChoice::Symbol;
    let text = report::terminal::views::text(&views, choice, detail, 160);
    assert!(text.contains("total samples: 41") && text.contains("sampling period: 1000"), "{text}");
    assert!(text.contains("instructions: not sampled: "), "{text}");
}
