//! Runs made by hand: samples with addresses, and memory they lie in.

use record::{
    data::*,
    ids::{ProcessId, ThreadId},
    run::Run,
};

use super::*;
use crate::{
    findings::{Findings, ObjectKind, ObjectSharing},
    reading::Reading,
    timer::{TimerOptions, tests::run},
};

/// mov r8,[r8]; mov [rdi],rax; cmp rax,rsi; jb 0; ret
const CODE: [u8; 12] = [0x4d, 0x8b, 0x00, 0x48, 0x89, 0x07, 0x48, 0x39, 0xf0, 0x72, 0xf5, 0xc3];
/// Behind the load, behind the store.
const LOADED: u64 = 3;
const STORED: u64 = 6;

/// Lines all over a megabyte, too many for the first cache.
fn scattered(index: u64) -> u64 {
    index * 7919 % (1 << 14) * 64
}

fn found(run: &Run) -> (Findings, Objects) {
    let reading = Reading::of(run, None, &TimerOptions::default());
    (reading.findings, reading.objects)
}

fn site(name: &str) -> Site {
    Site {
        variable: None,
        function: name.into(),
        module: "/p".into(),
        address: 0x10,
        line: Some(("p.c".into(), 7)),
        callers: vec![],
    }
}

fn block(time_ns: u64, address: u64, size_bytes: u64, kind: BlockKind, site: Option<u32>) -> HeapBlock {
    HeapBlock {
        process: ProcessId(0),
        time_ns,
        address,
        size_bytes,
        stands_for_bytes: None,
        kind,
        tid: 7,
        site,
    }
}

fn area(start: u64, end: u64, kind: AreaKind) -> Area {
    Area { process: ProcessId(0), start, end, kind, pages: None }
}

#[test]
fn blocks_are_found_while_they_are_alive() {
    const MB: u64 = 1 << 20;
    // The second half of the run finds another block at the same place.
    let samples: Vec<_> = (0..400).map(|i| (LOADED, Some(0x1000_0000 + scattered(i)))).collect();
    let mut run = run(&CODE, &samples);
    run.data.sites = vec![site("first"), Site { variable: Some("rows".to_owned()), ..site("second") }];
    run.data.blocks = vec![
        block(0, 0x1000_0000, MB, BlockKind::Large, Some(0)),
        block(200_000_000, 0x1000_0000, 2 * MB, BlockKind::Large, Some(1)),
    ];
    let (findings, objects) = found(&run);
    assert_eq!(objects.objects.len(), 2);
    let names: Vec<&str> = objects.objects.iter().map(|object| object.name.as_str()).collect();
    assert!(names.contains(&"block of 1 MiB from first"), "{names:?}");
    assert!(names.contains(&"rows"), "{names:?}");
    for object in &objects.objects {
        assert_eq!((object.kind, object.samples, object.blocks), (ObjectKind::Heap, 200, 1));
        assert!((0.4..0.51).contains(&object.load_waiting.value), "{object:?}");
        assert_eq!(findings.symbols[object.symbols[0].symbol].name, "f");
        assert_eq!(object.site.as_ref().unwrap().source.as_ref().unwrap().line, 7);
    }
}

#[test]
fn small_blocks_speak_for_their_neighbours_and_no_further() {
    let near = (0..100).map(|i| (LOADED, Some(0x2000_0000 + i * 64)));
    let far = (0..100).map(|i| (LOADED, Some(0x3000_0000 + i * 64)));
    let mut run = run(&CODE, &near.chain(far).collect::<Vec<_>>());
    run.data.sites = vec![site("node")];
    run.data.blocks = vec![block(0, 0x2000_0800, 48, BlockKind::Small, Some(0))];
    run.data.areas = vec![area(0x2000_0000, 0x4000_0000, AreaKind::Heap)];
    let (_, objects) = found(&run);
    let of =
        |name: &str| objects.objects.iter().find(|object| object.name == name).map(|object| object.samples);
    assert_eq!(of("blocks of 32 to 64 B from node"), Some(100));
    assert_eq!(of("heap, block not known"), Some(100));
}

#[test]
fn what_was_unmapped_is_gone_and_variables_and_stacks_are_named() {
    let samples =
        [(LOADED, Some(0x5000_0000)), (LOADED, Some(0x6000)), (LOADED, Some(0x7ff0)), (LOADED, Some(0x1))];
    let samples: Vec<_> = samples.into_iter().cycle().take(40).collect();
    let mut run = run(&CODE, &samples);
    run.data.sites = vec![site("gone")];
    run.data.blocks = vec![
        block(0, 0x5000_0000, 1 << 20, BlockKind::Mapped, Some(0)),
        block(0, 0x5000_0000, 1 << 20, BlockKind::Unmapped, None),
    ];
    let module = "/p".to_owned();
    run.data.variables =
        vec![Variable { process: ProcessId(0), start: 0x6000, end: 0x6100, name: "table".into(), module }];
    run.data.areas = vec![
        area(0x5000, 0x7000, AreaKind::File("/p".into())),
        area(0x7000, 0x8000, AreaKind::Stack(ThreadId(0))),
    ];
    let (_, objects) = found(&run);
    let mut names: Vec<_> = objects.objects.iter().map(|object| (object.kind, object.name.clone())).collect();
    names.sort();
    assert_eq!(
        names,
        [
            (ObjectKind::Global, "table".to_owned()),
            (ObjectKind::Stack, "stack of thread 7".to_owned()),
            (ObjectKind::Unknown, "memory of no known mapping".to_owned()),
        ]
    );
}

#[test]
fn a_forked_process_begins_with_its_parents_blocks() {
    let samples: Vec<_> = (0..100).map(|i| (LOADED, Some(0x1000_0000 + i * 64))).collect();
    let mut run = run(&CODE, &samples);
    run.processes.push(run.processes[0].clone());
    run.threads[0].process = ProcessId(1);
    run.data.sites = vec![site("before")];
    run.data.blocks = vec![block(0, 0x1000_0000, 1 << 20, BlockKind::Large, Some(0))];
    run.data.heap =
        vec![HeapLog { process: ProcessId(1), inherits: Some(ProcessId(0)), began_ns: 1, problem: None }];
    let (_, objects) = found(&run);
    assert_eq!(objects.objects[0].name, "block of 1 MiB from before");
}

/// Two threads that alternate: both at the code offsets given, at their own addresses.
fn two_threads(addresses: [u64; 2]) -> Run {
    let samples: Vec<_> = (0..200u64).map(|i| (STORED, Some(addresses[i as usize % 2]))).collect();
    let mut run = run(&CODE, &samples);
    run.threads.push(record::run::RecordedThread { tid: 8, ..run.threads[0].clone() });
    run.samples.thread = (0..200).map(|i| ThreadId(i % 2)).collect();
    run
}

#[test]
fn lines_that_threads_share_are_told_apart() {
    let sharing = |addresses| {
        let (_, objects) = found(&two_threads(addresses));
        objects.shared_lines.first().map(|line| (line.sharing, line.address, line.uses.len()))
    };
    assert_eq!(sharing([0x9000, 0x9008]), Some((ObjectSharing::False, 0x9000, 2)));
    assert_eq!(sharing([0x9008, 0x9008]), Some((ObjectSharing::True, 0x9000, 2)));
    assert_eq!(sharing([0x9000, 0x9040]), None);
    let (_, objects) = found(&two_threads([0x9000, 0x9008]));
    let tids: Vec<u32> = objects.shared_lines[0].uses.iter().map(|found| found.tid).collect();
    assert_eq!(tids, [7, 8]);
    assert_eq!(objects.objects[0].writers, [7, 8]);
    let (findings, objects) = found(&two_threads([0x9000, 0x9008]));
    assert!(advice(&findings, &objects)[0].contains("line at 0x9000"), "{:?}", advice(&findings, &objects));
    let (findings, objects) = found(&two_threads([0x9008, 0x9008]));
    assert!(advice(&findings, &objects).is_empty());
}

#[test]
fn flagged_intervals_name_their_own_code_and_data() {
    // Half a second in a chase through one block; half a second in a loop that loads from another and does not wait:
    // mov rdx,[rdi]; add rax,1; cmp rax,rsi; jb; ret
    const BUSY: [u8; 13] = [0x48, 0x8b, 0x17, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf4, 0xc3];
    let begin = CODE.len() as u64;
    let waiting = (0..500).map(|i| (LOADED, Some(0x1000_0000 + scattered(i))));
    let busy = (0..500).map(|i| match i % 3 {
        0 => (begin + 3, Some(0x2000_0000)),
        1 => (begin + 7, None),
        _ => (begin + 10, None),
    });
    let mut run = run(&[&CODE[..], &BUSY].concat(), &waiting.chain(busy).collect::<Vec<_>>());
    run.data.sites = vec![site("slow"), site("quick")];
    run.data.blocks = vec![
        block(0, 0x1000_0000, 1 << 20, BlockKind::Large, Some(0)),
        block(0, 0x2000_0000, 1 << 20, BlockKind::Large, Some(1)),
    ];
    let (findings, objects) = found(&run);
    let flags = findings.timeline.intervals.iter().map(|interval| (interval.start_ns, interval.flagged));
    assert!(
        flags.clone().all(|(start, flag)| flag == (start < 500_000_000)),
        "{:?}",
        flags.collect::<Vec<_>>()
    );
    let flagged = objects.flagged.as_ref().unwrap();
    assert!((480..=520).contains(&flagged.samples), "{flagged:?}");
    assert_eq!(findings.symbols[flagged.symbols[0].index].name, "f");
    let part = flagged.objects[0];
    assert_eq!(objects.objects[part.index].name, "block of 1 MiB from slow");
    assert!(part.load_waiting.value > 0.8 && part.samples >= 480, "{part:?}");
    assert_eq!(objects.objects.len(), 2, "the whole run touches both");
}

#[test]
fn an_overwritten_address_is_the_next_of_its_chain_or_none() {
    let samples: Vec<_> = (0..100).map(|i| (LOADED, Some(0x1000_0000 + i * 64))).collect();
    let (_, objects) = found(&run(&CODE, &samples));
    assert_eq!((objects.objects[0].samples, objects.objects[0].next_address_samples), (100, 100));
    // mov rax,[rdi+rax*8]; and rax,rsi; cmp rax,rdx; jb 0; ret: what is loaded is masked before it is an index.
    const INDEXED: [u8; 13] = [0x48, 0x8b, 0x04, 0xc7, 0x48, 0x21, 0xf0, 0x48, 0x39, 0xd0, 0x72, 0xf4, 0xc3];
    let samples: Vec<_> = (0..100).map(|i| (4, Some(0x1000_0000 + i * 64))).collect();
    let (_, objects) = found(&run(&INDEXED, &samples));
    assert!(objects.objects.is_empty(), "{:?}", objects.objects);
    assert_eq!(objects.addressed.map(|share| share.value), Some(0.0));
}

#[test]
fn without_addresses_that_is_said() {
    let (_, objects) = found(&run(&CODE, &[(LOADED, None); 20]));
    assert!(objects.objects.is_empty());
    assert_eq!(objects.addressed.map(|share| share.value), Some(0.0));
    assert!(objects.remarks.iter().any(|remark| remark.contains("Only 0 %")));
}

#[test]
fn what_was_allocated_is_estimated_with_its_error_where_blocks_say_what_they_stand_for() {
    let samples: Vec<_> = (0..400).map(|i| (LOADED, Some(0x2000_0800 + i % 6 * 8))).collect();
    let allocated = |blocks: Vec<HeapBlock>| {
        let mut run = run(&CODE, &samples);
        run.data.sites = vec![site("make")];
        run.data.blocks = blocks;
        found(&run).1.objects[0].allocated
    };
    let chosen = |time_ns, stands_for_bytes| HeapBlock {
        stands_for_bytes,
        ..block(time_ns, 0x2000_0800, 48, BlockKind::Small, Some(0))
    };
    let sum = allocated(vec![chosen(0, Some(4096)), chosen(1, Some(8192))]).expect("an estimate");
    let variance: f64 = 4096.0 * (4096.0 - 48.0) + 8192.0 * (8192.0 - 48.0);
    assert_eq!((sum.bytes, sum.noted), (12_288.0, 2));
    assert!((sum.error / (1.96 * variance.sqrt()) - 1.0).abs() < 1e-9, "{sum:?}");
    // Recorded before that was kept, or all of them written down.
    assert_eq!(allocated(vec![chosen(0, Some(4096)), chosen(1, None)]), None);
    let all = allocated(vec![block(0, 0x2000_0800, 48, BlockKind::Large, Some(0))]).expect("known");
    assert_eq!((all.bytes, all.error, all.noted), (48.0, 0.0, 1));
}
