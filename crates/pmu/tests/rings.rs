//! Rings of a scripted kernel that wrap, lose, lie and end too soon.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pmu::{
    Errno, EventTarget, Scope,
    bindings::{self as b, perf_event_mmap_page as Page},
    record::encode,
    sampling::{Fields, MappedFile, RecordLayout, RingActivity, RingRecord, Sampler, SamplerRequest},
    scripted::{Behaviour, Scripted},
};
use proptest::prelude::*;

const FIELDS: Fields = Fields {
    ip: true,
    call_chain: None,
    user_registers: 0b101,
    address: false,
    physical_address: false,
    data_page_size: false,
    weight: false,
    data_source: false,
    period: false,
    id: false,
};

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Two numbers of 32 bits in one word, as they lie in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn sample(time: u64, ip: u64) -> Vec<u8> {
    encode(b::PERF_RECORD_SAMPLE, 2, &words(&[ip, pair(7, 8), time, pair(1, 0), 2, 0xaa, 0xcc]))
}

fn side(kind: u32, misc: u16, body: &[u8], time: u64) -> Vec<u8> {
    encode(kind, misc, &[body, &words(&[pair(7, 8), time, pair(1, 0)])].concat())
}

/// A ring of 4 KiB whose first record begins at `begin`.
fn ring(stream: &[u8], begin: usize) -> Behaviour {
    let mut bytes = vec![0; 4096];
    for (index, byte) in stream.iter().enumerate() {
        bytes[(begin + index) % 4096] = *byte;
    }
    let page =
        Page { data_tail: begin as u64, data_head: (begin + stream.len()) as u64, ..Default::default() };
    Behaviour { map: Ok((page, bytes)), ..Behaviour::counts(0) }
}

fn request(cpus: &str) -> SamplerRequest {
    SamplerRequest { fields: FIELDS, ..SamplerRequest::clock(Scope::Child(7), cpus.parse().unwrap()) }
}

/// Every record in words, for comparison.
fn read(streams: Vec<Vec<u8>>, begin: usize) -> (Vec<String>, u64) {
    let cpus = format!("0-{}", streams.len() - 1);
    let kernel = Scripted::new(move |asked| match asked.target {
        EventTarget::ThreadOnCpu { tid: 7, cpu } => Ok(ring(&streams[cpu as usize], begin)),
        _ => Err(Errno(libc::EINVAL)),
    });
    let mut sampler = Sampler::open(&kernel, &request(&cpus)).unwrap();
    let mut seen = Vec::new();
    assert_eq!(sampler.wait(Duration::ZERO).unwrap(), RingActivity::Over);
    let count = sampler.drain(|record| seen.push(describe(&record)));
    assert_eq!(count, seen.len());
    assert_eq!(sampler.drain_all(|_| ()), 0, "everything was given back");
    (seen, sampler.lost())
}

fn describe(record: &RingRecord<'_>) -> String {
    match record {
        RingRecord::Sample(sample) => {
            let registers = sample.registers.unwrap();
            let (low, high) = (registers.get(0).unwrap(), registers.get(2).unwrap());
            assert_eq!((registers.get(1), registers.get(63), registers.get(64)), (None, None, None));
            format!(
                "sample {} of {} at {:x} with {low:x} {high:x}",
                sample.time_ns,
                sample.tid,
                sample.ip.unwrap()
            )
        }
        RingRecord::Lost { records, .. } => format!("lost {records}"),
        RingRecord::LostSamples { samples, .. } => format!("lost {samples} samples"),
        RingRecord::Unknown { kind, body, stamp } => {
            format!("unknown {kind} of {} at {}", body.len(), stamp.time_ns)
        }
        RingRecord::Malformed { kind, bytes } => format!("malformed {kind:?} of {bytes}"),
        RingRecord::Comm { name, exec, .. } => format!("comm {} {exec}", String::from_utf8_lossy(name)),
        RingRecord::Fork { pid, tid, parent_pid, parent_tid, .. } => {
            format!("fork {pid} {tid} from {parent_pid} {parent_tid}")
        }
        RingRecord::Exit { pid, tid, .. } => format!("exit {pid} {tid}"),
        RingRecord::Switch { out, preempted, .. } => format!("switch {out} {preempted}"),
        RingRecord::Throttle { .. } => "throttle".into(),
        RingRecord::Unthrottle { .. } => "unthrottle".into(),
        RingRecord::Mmap(mmap) => {
            format!("mmap {:x} {:?} {}", mmap.start, mmap.file, String::from_utf8_lossy(mmap.path))
        }
        _ => "other".into(),
    }
}

#[test]
fn records_wrap_anywhere() {
    let stream =
        [sample(1, 0x10), side(b::PERF_RECORD_LOST, 0, &words(&[1, 44]), 2), sample(3, 0x30)].concat();
    for begin in (4096 - stream.len() - 8)..4104 {
        let (seen, lost) = read(vec![stream.clone()], begin);
        let expected = ["sample 1 of 8 at 10 with aa cc", "lost 44", "sample 3 of 8 at 30 with aa cc"];
        assert_eq!((seen.as_slice(), lost), (expected.map(String::from).as_slice(), 44), "from {begin}");
    }
}

#[test]
fn every_kind_of_record() {
    let fork = words(&[pair(10, 7), pair(11, 8), 5]);
    let place = words(&[pair(7, 8), 0x1000, 0x2000, 0x3000]);
    let inode = words(&[pair(8, 1), 99, 3]);
    let rest = [&words(&[pair(5, 2)])[..], b"/bin/x\0\0"].concat();
    let stream = [
        side(
            b::PERF_RECORD_COMM,
            b::PERF_RECORD_MISC_COMM_EXEC as u16,
            &[&words(&[pair(7, 8)])[..], b"name\0\0\0\0"].concat(),
            1,
        ),
        side(b::PERF_RECORD_FORK, 0, &fork, 2),
        side(b::PERF_RECORD_EXIT, 0, &fork, 3),
        side(b::PERF_RECORD_SWITCH, 0x6000, &[], 4),
        side(b::PERF_RECORD_SWITCH_CPU_WIDE, 0, &words(&[0]), 5),
        side(b::PERF_RECORD_LOST_SAMPLES, 0, &words(&[6]), 6),
        side(b::PERF_RECORD_THROTTLE, 0, &words(&[0, 0, 0]), 7),
        side(b::PERF_RECORD_UNTHROTTLE, 0, &words(&[0, 0, 0]), 8),
        side(b::PERF_RECORD_MMAP2, 2, &[&place[..], &inode, &rest].concat(), 9),
        // Marked as if it had a build id, which was not asked for.
        side(b::PERF_RECORD_MMAP2, 0x4002, &[&place[..], &inode, &rest].concat(), 10),
        side(b::PERF_RECORD_MMAP, 2, &[&place[..], b"[vdso]\0\0"].concat(), 11),
        side(77, 0, &[0; 16], 12),
    ];
    let (seen, lost) = read(vec![stream.concat()], 0);
    let inode = MappedFile::Inode { major: 8, minor: 1, inode: 99, generation: 3 };
    let expected = [
        "comm name true".to_owned(),
        "fork 10 11 from 7 8".into(),
        "exit 10 11".into(),
        "switch true true".into(),
        "switch false false".into(),
        "lost 6 samples".into(),
        "throttle".into(),
        "unthrottle".into(),
        format!("mmap 1000 {inode:?} /bin/x"),
        format!("mmap 1000 {inode:?} /bin/x"),
        format!("mmap 1000 {:?} [vdso]", MappedFile::Unknown),
        "unknown 77 of 16 at 12".into(),
    ];
    assert_eq!((seen, lost), (expected.to_vec(), 6));
}

#[test]
fn rings_are_merged_by_time() {
    let (seen, _) = read(
        vec![
            [sample(1, 1), sample(4, 4), sample(5, 5)].concat(),
            Vec::new(),
            [sample(2, 2), sample(3, 3), sample(6, 6)].concat(),
        ],
        64,
    );
    let order: Vec<_> = seen.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn what_is_later_than_the_drain_waits_for_the_next() {
    let stream = [sample(1, 1), sample(u64::MAX - 1, 2)].concat();
    let kernel = Scripted::new(move |_| Ok(ring(&stream, 0)));
    let mut sampler = Sampler::open(&kernel, &request("0")).unwrap();
    assert_eq!((sampler.drain(|_| ()), sampler.drain(|_| ()), sampler.drain_all(|_| ())), (1, 0, 1));
}

#[test]
fn short_records_and_broken_lengths() {
    let short = encode(b::PERF_RECORD_SAMPLE, 2, &words(&[1, 2]));
    let stampless = encode(b::PERF_RECORD_COMM, 0, &words(&[1]));
    let (seen, _) = read(vec![[short, stampless, sample(9, 9)].concat()], 4088);
    let expected = ["malformed Some(9) of 16", "malformed Some(3) of 8", "sample 9 of 8 at 9 with aa cc"];
    assert_eq!(seen, expected);
    let mut lying = sample(1, 1);
    lying[6..8].copy_from_slice(&4000u16.to_ne_bytes());
    let (seen, _) = read(vec![[sample(0, 0), lying.clone()].concat()], 8);
    assert_eq!(
        seen,
        ["sample 0 of 8 at 0 with aa cc".to_owned(), format!("malformed None of {}", lying.len())]
    );
    let (seen, _) = read(vec![vec![0; 64]], 0);
    assert_eq!(seen, ["malformed None of 64"]);
}

#[test]
fn a_call_chain_longer_than_its_record() {
    let fields = Fields { call_chain: Some(0), ..Fields::default() };
    for count in [2, 1 << 61, u64::MAX] {
        let body = words(&[pair(1, 2), 3, 0, count, 5]);
        let raw = encode(b::PERF_RECORD_SAMPLE, 2, &body);
        let records = pmu::record::Records::new(raw);
        let record = RecordLayout::new(fields, true).decode(records.iter().next().unwrap());
        assert!(matches!(record, RingRecord::Malformed { kind: Some(9), .. }), "{record:?}");
    }
}

fn any_fields() -> impl Strategy<Value = Fields> {
    any::<(bool, bool, u64, [bool; 7])>().prop_map(|(ip, chain, user_registers, rest)| {
        let [address, physical_address, data_page_size, weight, data_source, period, id] = rest;
        let call_chain = chain.then_some(0);
        Fields {
            ip,
            call_chain,
            user_registers,
            address,
            physical_address,
            data_page_size,
            weight,
            data_source,
            period,
            id,
        }
    })
}

/// Touches everything a record borrows.
fn touch(record: &RingRecord<'_>) -> usize {
    let mut total = format!("{record:?}").len();
    if let RingRecord::Sample(sample) = record {
        total += sample.call_chain.map_or(0, |chain| chain.addresses().count() + chain.entries().len());
        total += sample.registers.map_or(0, |registers| (0..70).filter_map(|r| registers.get(r)).count());
    }
    total
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_bytes_in_a_ring_break_it(
        mut bytes in proptest::collection::vec(any::<u8>(), 4096),
        headers in proptest::collection::vec((0u32..24, any::<u16>(), 0u16..200), 0..40),
        tail in any::<u64>(),
        length in 0u64..5000,
        fields in any_fields(),
    ) {
        // Some headers that make sense, so that more than the first record is reached.
        let mut at = tail as usize;
        for (kind, misc, size) in headers {
            for (index, byte) in encode(kind, misc, &vec![0; size.into()])[..8].iter().enumerate() {
                bytes[at.wrapping_add(index) % 4096] = *byte;
            }
            at = at.wrapping_add(8 + usize::from(size));
        }
        let page = Page { data_tail: tail, data_head: tail.wrapping_add(length), ..Default::default() };
        let kernel =
            Scripted::new(move |_| Ok(Behaviour { map: Ok((page, bytes.clone())), ..Behaviour::counts(0) }));
        let mut sampler = Sampler::open(&kernel, &SamplerRequest { fields, ..request("0-1") }).unwrap();
        let mut given = 0;
        sampler.drain(|record| given += touch(&record).min(1));
        sampler.drain_all(|record| given += touch(&record).min(1));
        prop_assert!(given <= 2 * 4096 / 8 + 2);
        prop_assert_eq!(sampler.drain_all(|_| ()), 0);
    }

    #[test]
    fn no_record_breaks_the_decoder(
        kind in 0u32..30,
        misc in any::<u16>(),
        body in proptest::collection::vec(any::<u8>(), 0..300),
        fields in any_fields(),
        struct_weight in any::<bool>(),
    ) {
        let layout = RecordLayout::new(fields, struct_weight);
        let raw = pmu::record::Record { kind, misc, body: &body };
        touch(&layout.decode(raw));
    }
}
