//! Records of every kind, and what becomes of them.

use super::*;
use record::{loads::DataOrigin, sampled::EventUse};

/// A word of the kernel: what the instruction did, levels.
fn source(operation: u32, levels: u32) -> u64 {
    u64::from(operation) | u64::from(b::PERF_MEM_LVL_HIT | levels) << 5
}

fn memory_event(weight: u32, id: u64) -> ScriptedEvent {
    ScriptedEvent {
        name: "cpu/mem-loads,ldlat=30/P".to_owned(),
        kind: 4,
        config: 0x1cd,
        pace: 1009,
        sample_type: u64::from(BASIC | b::PERF_SAMPLE_ADDR | b::PERF_SAMPLE_DATA_SRC | weight),
        id,
        ..ScriptedEvent::default()
    }
}

#[test]
fn loads_have_their_latency_address_and_level_whatever_form_weights_have() {
    for (field, weight) in [
        (b::PERF_SAMPLE_WEIGHT, 230u64),
        // Latency, then two numbers of other meanings.
        (b::PERF_SAMPLE_WEIGHT_STRUCT, 230 | 17 << 32 | 99 << 48),
    ] {
        let mut file = ScriptedFile::of(vec![memory_event(field, 5)]);
        let access = |time_ns, operation, level, weight| ScriptedSample {
            address: 0x7000,
            weight,
            data_source: source(operation, level),
            ..sample(time_ns, 0x40_1000)
        };
        let (load, store) = (b::PERF_MEM_OP_LOAD, b::PERF_MEM_OP_STORE);
        file.sample(0, USER, &access(10, load, b::PERF_MEM_LVL_L3, weight));
        file.sample(0, USER, &access(20, load, b::PERF_MEM_LVL_LOC_RAM, 0));
        file.sample(0, USER, &access(30, store, b::PERF_MEM_LVL_L1, weight));
        file.sample(0, KERNEL, &access(40, load, b::PERF_MEM_LVL_L2, weight));
        let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
        let event = &outcome.record.events[0];
        assert_eq!((event.used_for, event.samples, event.in_kernel), (EventUse::Loads, 4, 1));
        let loads: Vec<_> = run
            .loads
            .taken()
            .iter()
            .map(|load| (load.time_ns, load.latency_cycles, load.origin, load.address.map(u64::from)))
            .collect();
        let address = Some(0x7000);
        // A load that was not timed has no latency; stores and the kernel's own are no loads of the program.
        assert_eq!(
            loads,
            [(0, Some(230), Some(DataOrigin::L3), address), (10, None, Some(DataOrigin::Dram), address)]
        );
    }
}

#[test]
fn both_kinds_of_cores_are_samples_of_time_and_other_events_are_not() {
    let kind = |name: &str, pmu: u64, config: u64, id: u64, more: u32| ScriptedEvent {
        name: name.to_owned(),
        config: pmu << 32 | config,
        id,
        ..cycles(more)
    };
    let mut file = ScriptedFile::of(vec![
        kind("cpu_core/cycles/", 4, 0, 1, 0),
        // Other fields than the first one's: told apart by the number in front.
        kind("cpu_atom/cycles/", 10, 0, 2, b::PERF_SAMPLE_ADDR | b::PERF_SAMPLE_BRANCH_STACK),
        kind("cpu_core/instructions/", 4, 1, 3, 0),
    ]);
    for turn in 0..30u64 {
        file.sample((turn % 3) as usize, USER, &sample(100 + turn, 0x40_0000 + turn));
    }
    let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
    let uses: Vec<_> = outcome.record.events.iter().map(|event| (event.used_for, event.samples)).collect();
    assert_eq!(uses, [(EventUse::Time, 10), (EventUse::Time, 10), (EventUse::Counted, 10)]);
    assert_eq!((run.samples.place.len(), run.samples.cpu[0]), (20, 1));
    assert_eq!(outcome.record.events[2].period, Some(10 * 100_003));
}

#[test]
fn fields_behind_branch_stacks_registers_and_stacks_are_where_they_are() {
    let all = [
        b::PERF_SAMPLE_CALLCHAIN,
        b::PERF_SAMPLE_RAW,
        b::PERF_SAMPLE_BRANCH_STACK,
        b::PERF_SAMPLE_REGS_USER,
        b::PERF_SAMPLE_STACK_USER,
        b::PERF_SAMPLE_WEIGHT,
        b::PERF_SAMPLE_DATA_SRC,
        b::PERF_SAMPLE_PHYS_ADDR,
        b::PERF_SAMPLE_STREAM_ID,
        b::PERF_SAMPLE_ID,
    ];
    struct Last(Vec<(u64, u64, usize, u64)>);
    impl RecordConsumer for Last {
        fn sample(&mut self, _: &[EventAttributes], _: usize, sample: &FileSample<'_>) {
            let weight = sample.weight.unwrap().latency_cycles();
            let chain = sample.call_chain.unwrap().entries().count();
            let register = sample.registers.unwrap().get(3).unwrap();
            assert_eq!(sample.stack, Some(&[5; 64][..]));
            self.0.push((weight, sample.data_source.unwrap().raw, chain, register));
        }
        fn beside(&mut self, _: &[EventAttributes], _: u64, _: RingRecord<'_>) {}
    }
    for branch_sample_type in [0, b::PERF_SAMPLE_BRANCH_HW_INDEX, b::PERF_SAMPLE_BRANCH_COUNTERS] {
        let event = ScriptedEvent {
            branch_sample_type: branch_sample_type.into(),
            registers: 0b1001,
            ..cycles(all.iter().fold(0, |bits, bit| bits | bit))
        };
        let mut file = ScriptedFile::of(vec![event]);
        let filled = ScriptedSample {
            chain: vec![-512i64 as u64, 0x40_0000, 0x40_0010],
            raw: vec![9; 13],
            branches: vec![[1, 2, 3]; 32],
            registers: vec![0xa, 0xb],
            stack: vec![5; 64],
            weight: 77,
            data_source: 0x1234,
            ..sample(10, 0x40_0000)
        };
        file.sample(0, USER, &filled);
        let mut last = Last(Vec::new());
        let outcome = perf_data::read(&mut SeekableInput(Cursor::new(file.file())), "it", &mut last).unwrap();
        assert_eq!(last.0, [(77, 0x1234, 3, 0xb)], "{branch_sample_type:#x}");
        let said: Vec<&str> = outcome.omissions.keys().map(String::as_str).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().any(|what| what.contains("branch stacks")), "{said:?}");
        assert!(said.iter().any(|what| what.contains("raw data")), "{said:?}");
    }
}

#[test]
fn counters_of_a_group_are_samples_of_each_event_that_moved_on() {
    let format = b::PERF_FORMAT_GROUP | b::PERF_FORMAT_ID | b::PERF_FORMAT_TOTAL_TIME_ENABLED;
    let leader = ScriptedEvent { read_format: format.into(), ..cycles(b::PERF_SAMPLE_READ) };
    let member = ScriptedEvent { name: "cache-misses".to_owned(), config: 3, id: 12, ..leader.clone() };
    let mut file = ScriptedFile::of(vec![leader, member]);
    for (time_ns, first, second) in [(10, 100, 5), (20, 250, 5), (30, 400, 9)] {
        // How many, time enabled, then value and number of each.
        let read = vec![2, 999, first, 11, second, 12];
        file.sample(0, USER, &ScriptedSample { read, ..sample(time_ns, 1) });
    }
    let (rows, _) = read(&file.file()).unwrap();
    let told: Vec<_> =
        rows.all.iter().map(|(event, time, _, _, period)| (event.as_str(), *time, *period)).collect();
    let (leader, member) = ("cycles:u", "cache-misses");
    assert_eq!(
        told,
        [
            (leader, 10, Some(100)),
            (member, 10, Some(5)),
            (leader, 20, Some(150)),
            (leader, 30, Some(150)),
            (member, 30, Some(4)),
        ]
    );
}

#[test]
fn threads_that_the_kernel_does_not_name_any_more_stay_with_their_processes() {
    let mut file = ScriptedFile::of(vec![cycles(0)]);
    let tasks = [(7, 7), (7, -1), (8, -1), (7, -1), (0, 0), (-1, -1), (9, 7)];
    for (at, task) in tasks.into_iter().enumerate() {
        file.sample(0, USER, &ScriptedSample { task, ..sample(10 + at as u64, 0x40_0000) });
    }
    let (_, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
    let task = |id: &record::ids::ThreadId| {
        let thread = run.thread(*id).unwrap();
        (run.process(thread.process).unwrap().pid.cast_signed(), thread.tid.cast_signed())
    };
    let told: Vec<_> = run.samples.thread.iter().map(task).collect();
    assert_eq!(told, tasks);
    assert_eq!(run.threads.len(), 6, "one without a number for each process");
}

#[test]
fn hardware_traces_are_named_and_stepped_over() {
    let mut file = ordinary();
    let bytes: u64 = 3_000_001u64.next_multiple_of(8);
    file.record(70, 0, &[0; 16]);
    file.record(71, 0, &[&bytes.to_ne_bytes()[..], &[0; 32]].concat());
    file.records.resize(file.records.len() + bytes as usize, 0xff);
    let stamp = [0; 40];
    file.record(b::PERF_RECORD_AUX, 0, &[&[0; 24][..], &stamp].concat());
    file.record(b::PERF_RECORD_ITRACE_START, 0, &[&[0; 8][..], &stamp].concat());
    file.sample(0, USER, &sample(9000, 0x40_0000));
    let (rows, outcome) = read(&file.file()).unwrap();
    assert_eq!((rows.all.len(), outcome.cut_short.clone()), (101, None));
    for said in ["Intel PT", "(AUX)", "beginnings of hardware traces", "descriptions of hardware traces"] {
        assert!(outcome.omissions.keys().any(|what| what.contains(said)), "{said}: {:?}", outcome.omissions);
    }
}

#[test]
fn what_is_newer_than_this_program_is_named_and_the_rest_is_read() {
    let mut file = ordinary();
    let stamp = [0; 40];
    for kind in [b::PERF_RECORD_BPF_EVENT, b::PERF_RECORD_KSYMBOL, 40] {
        file.record(kind, 0, &[&[0; 16][..], &stamp].concat());
    }
    file.record(200, 0, &[0; 16]);
    file.record(b::PERF_RECORD_THROTTLE, 0, &[&[0; 24][..], &stamp].concat());
    file.record(b::PERF_RECORD_LOST, 0, &[&[0; 8][..], &1234u64.to_ne_bytes(), &stamp].concat());
    file.events[0].sample_type |= 1 << 40;
    let (rows, outcome) = read(&file.file()).unwrap();
    assert_eq!((rows.all.len(), rows.lost, rows.throttled), (100, 1234, 1));
    for said in ["BPF", "symbols that the kernel registered", "kind 40", "kind 200", "0x10000000000"] {
        assert!(outcome.omissions.keys().any(|what| what.contains(said)), "{said}: {:?}", outcome.omissions);
    }
    let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
    assert_eq!(run.about.lost_samples, Some(1234));
    assert!(outcome.remarks.iter().any(|remark| remark.contains("paused an event")), "{:?}", outcome.remarks);
}

#[test]
fn a_pipe_and_compressed_records_say_what_a_file_says() {
    let file = ordinary();
    let expected = read(&file.file()).unwrap().0.all;
    assert!(expected.is_sorted_by_key(|row| row.1), "in order of time");
    let (piped, outcome) = read_pipe(&file.pipe()).unwrap();
    assert_eq!(piped.all, expected);
    assert_eq!((outcome.is_pipe, outcome.machine.host.as_deref()), (true, Some("far")));
    for (most, newer) in [(60_000, false), (64, false), (777, true)] {
        let packed = file.compressed(most, newer).unwrap();
        assert!(packed.records.len() < file.records.len());
        assert_eq!(read(&packed.file()).unwrap().0.all, expected, "{most} {newer}");
        assert_eq!(read_pipe(&packed.pipe()).unwrap().0.all, expected, "{most} {newer}");
    }
}

#[test]
fn the_machine_of_the_file_and_the_kernels_share_are_told() {
    let (outcome, run) = Imports::of(&[("perf.data", &ordinary().file())]).import().unwrap();
    let machine = &outcome.record.machine;
    assert_eq!((machine.host.as_deref(), machine.events.as_deref()), (Some("far"), Some("skylake-x")));
    let cpu = "GenuineIntel Some Xeon, family 6 model 85 stepping 4";
    assert_eq!((run.about.fingerprint.cpu.as_str(), run.about.fingerprint.kernel.as_str()), (cpu, "5.4.0"));
    assert!(run.about.fingerprint.id.starts_with("imported-"));
    assert_eq!((run.samples.place.len(), run.about.lost_samples), (90, Some(0)));
    let share = "10 of 100 samples of cycles:u (10.0 %) were taken in the kernel";
    assert!(run.remarks.iter().any(|remark| remark.contains(share)), "{:?}", run.remarks);
    let tallies = &run.sampled.tallies;
    assert_eq!(tallies.iter().map(|tally| tally.samples).sum::<u64>(), 100);
    // Every other sample is 10 ns after the one before.
    assert_eq!(run.about.period_ns, 10.0);
}

#[test]
fn another_architecture_is_named_with_what_still_works() {
    let mut file = ordinary();
    file.say(6, "aarch64");
    file.say(9, "0x00000000410fd0c0");
    let (outcome, run) = Imports::of(&[("perf.data", &file.file())]).import().unwrap();
    let said = outcome.remarks.iter().find(|remark| remark.contains("aarch64")).unwrap();
    assert!(said.contains("does not decode") && said.contains("Functions"), "{said}");
    assert_eq!((run.samples.place.len(), outcome.record.machine.events), (90, None));
}
