//! Files of other machines: another byte order, older perfs, events that only look like loads.

use super::*;

#[test]
fn a_file_of_the_other_byte_order_says_the_same() {
    let mut file = ordinary();
    file.map((7, 7), 1500, (0x40_0000, 0x41_0000), "/usr/bin/far", &[7; 20]);
    file.say(6, "s390x");
    let (same, told) = read(&file.file()).unwrap();
    let (other, turned) = read(&file.file_of_other_order()).unwrap();
    assert_eq!((other.all, turned.cut_short.as_ref(), turned.malformed), (same.all, None, 0));
    assert!(turned.omissions.is_empty() && turned.faults.is_empty(), "{turned:?}");
    assert_eq!((turned.machine, turned.events), (told.machine, told.events));
    let (outcome, run) = Imports::of(&[("perf.data", &file.file_of_other_order())]).import().unwrap();
    assert_eq!(run.samples.place.len(), 90);
    assert!(run.processes.iter().any(|process| process.name == "app"), "{:?}", run.processes);
    assert!(run.modules.iter().any(|module| module.path == "/usr/bin/far"), "{:?}", run.modules);
    assert!(outcome.remarks.iter().any(|remark| remark.contains("s390x")), "{:?}", outcome.remarks);
}

#[test]
fn sections_of_a_machine_with_32_bits_and_the_other_byte_order_are_found() {
    let mut bytes = ordinary().file_of_other_order();
    bytes[72..80].rotate_left(4);
    let (_, outcome) = read(&bytes).unwrap();
    assert_eq!(outcome.machine.host.as_deref(), Some("far"));
}

#[test]
fn precise_events_of_the_other_byte_order_are_as_precise() {
    for precise in 0..4 {
        let event = ScriptedEvent { flags: precise << 15, ..cycles(0) };
        let mut file = ScriptedFile::of(vec![event]);
        file.sample(0, USER, &sample(5, 6));
        let (_, turned) = read(&file.file_of_other_order()).unwrap();
        assert_eq!(u64::from(turned.events[0].precise), precise);
    }
}

#[test]
fn a_file_of_before_2012_is_read() {
    let mut bytes = ordinary().file();
    bytes[..8].copy_from_slice(b"PERFFILE");
    assert_eq!(read(&bytes).unwrap().0.all.len(), 100);
}

#[test]
fn packed_files_are_named_as_such() {
    let imports = Imports::of(&[("perf.data.gz", b"\x1f\x8b\x08\0\0\0\0\0")]);
    let error = imports.import().err().unwrap().to_string();
    assert!(error.contains("gzip") && error.contains("gunzip"), "{error}");
}

#[test]
fn an_event_whose_samples_never_say_what_they_accessed_is_no_load() {
    // 'perf record -d' asks for addresses and sources of every event.
    let fields = b::PERF_SAMPLE_ADDR | b::PERF_SAMPLE_DATA_SRC;
    let instructions = ScriptedEvent { name: "instructions".to_owned(), config: 1, id: 12, ..cycles(fields) };
    let loads =
        ScriptedEvent { name: "mem-loads".to_owned(), kind: 4, config: 0x1cd, id: 13, ..cycles(fields) };
    let mut file = ScriptedFile::of(vec![cycles(fields), instructions, loads]);
    // As the kernel says that nothing is known.
    let unknown = ScriptedSample { data_source: 0x5_1080_0021, ..sample(10, 0x1000) };
    let load = ScriptedSample { data_source: 0x2 | 0x2 << 5, ..sample(20, 0x2000) };
    (0..3).for_each(|event| file.sample(event, USER, if event == 2 { &load } else { &unknown }));
    let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
    use record::sampled::EventUse::{Counted, Loads, Time};
    let uses: Vec<_> = outcome.record.events.iter().map(|event| event.used_for).collect();
    assert_eq!(uses, [Time, Counted, Loads]);
    assert_eq!(run.loads.taken().len(), 1);
}

#[test]
fn events_without_a_name_are_called_as_perf_calls_them() {
    let flags = |bits: &[u64]| bits.iter().map(|bit| 1 << bit).sum::<u64>();
    const CACHE: u32 = b::PERF_TYPE_HW_CACHE;
    const HARDWARE: u32 = b::PERF_TYPE_HARDWARE;
    // Bits: 4 to 6 leave out user mode, kernel and hypervisor, 19 and 20 host and guests.
    for (kind, config, flags, name) in [
        (HARDWARE, 0, 0, "cycles:HG"),
        (HARDWARE, 0, flags(&[19]), "cycles:G"),
        (HARDWARE, 0, flags(&[5, 6]), "cycles:u"),
        (HARDWARE, 0, flags(&[5, 6, 20]), "cycles:uH"),
        (HARDWARE, 1, flags(&[4, 6]), "instructions:k"),
        (HARDWARE, 0, flags(&[16, 20]), "cycles:ppH"),
        (HARDWARE, 0, flags(&[16]), "cycles:pp"),
        (HARDWARE, 0, flags(&[20]), "cycles"),
        (CACHE, 0x1_0000, flags(&[20]), "L1-dcache-load-misses"),
        (CACHE, 0x102, flags(&[5, 6]), "LLC-stores:u"),
        (CACHE, 0x77, 0, "cache event 0x77"),
    ] {
        let event = ScriptedEvent { kind, config, flags, ..cycles(0) };
        let mut file = ScriptedFile::of(vec![event]);
        // A description of nothing: the names are not there.
        file.sections.insert(12, vec![0; 8]);
        file.sample(0, USER, &sample(5, 6));
        let (rows, _) = read_pipe(&file.pipe()).unwrap();
        assert_eq!(rows.all[0].0, name);
    }
}

#[test]
fn a_compressed_module_is_not_taken_for_the_kernel() {
    let entry = |misc: u16, path: &str, id: u8| {
        let mut body = (-1i32).to_ne_bytes().to_vec();
        body.extend([id; 20]);
        body.extend([20, 0, 0, 0]);
        body.extend(path.as_bytes());
        body.resize((body.len() + 1).next_multiple_of(8) + 4, 0);
        pmu::record::encode(67, misc | 1 << 15, &body)
    };
    let mut file = ordinary();
    let kernel = entry(KERNEL, "[kernel.kallsyms]", 1);
    let module = entry(KERNEL, "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz", 2);
    file.sections.insert(2, [kernel, module].concat());
    let (_, outcome) = read(&file.file()).unwrap();
    assert_eq!(outcome.machine.build_ids.get(&b"[kernel.kallsyms]"[..]), Some(&vec![1; 20]));
}

#[test]
fn stacks_of_other_architectures_are_named_and_left_out() {
    let event =
        ScriptedEvent { registers: 0b1001, ..cycles(b::PERF_SAMPLE_REGS_USER | b::PERF_SAMPLE_STACK_USER) };
    for (architecture, left_out) in [("aarch64", 1), ("x86_64", 1)] {
        // The second has registers, but neither where it was nor where its stack is.
        let mut file = ScriptedFile::of(vec![event.clone()]);
        file.say(6, architecture);
        let filled = ScriptedSample { registers: vec![1, 2], stack: vec![5; 64], ..sample(10, 0x40_0000) };
        file.sample(0, USER, &filled);
        let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
        let stacks = outcome.record.omissions.iter().find(|left| left.what.starts_with("stacks of samples"));
        assert_eq!(stacks.map(|left| left.count), Some(left_out), "{architecture}");
        assert_eq!((run.samples.place.len(), run.stacks.len()), (1, 0));
    }
}
