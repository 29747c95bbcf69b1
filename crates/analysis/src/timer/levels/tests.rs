//! Scripted walks over as much data as each level holds.

use machine::profile::Profile;
use record::{
    data::{Area, AreaKind, AreaPages},
    run::Run,
};
use serde_json::{Value, json};

use crate::{
    findings::{KnownLimits, LevelFindings, Nature, StreamLimit, WaitLevel},
    timer::{
        TimerOptions, analyse,
        bounds::tests::{SUM, timed_run, without_order},
        tests::run,
    },
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const START: u64 = 0x7000_0000_0000;

/// L1 32 KiB, 1 ns; L2 512 KiB, 4 ns; L3 16 MiB, 15 ns; memory 90 ns; 1500 small pages kept in mind, else 30 ns more.
pub(crate) fn profile() -> Profile {
    let estimate = |value: f64| json!({"value": value, "low": value, "high": value, "samples": 9});
    let level = |name: Value, bytes: Option<u64>, ns: f64, per_s: f64| {
        let bandwidth =
            json!({"load": estimate(per_s), "store": estimate(per_s / 2.0), "copy": estimate(per_s)});
        json!({
            "name": name, "usable": bytes.map(|bytes| estimate(bytes as f64)), "latency_ns": estimate(ns),
            "one_core": bandwidth, "all_cores": bandwidth,
        })
    };
    let whole = json!({
        "schema": "memwall.profile/1",
        "fingerprint": {"id": "", "cpu": "", "microcode": "", "topology": "", "kernel": "", "hypervisor": ""},
        "measured_at": 0, "memwall": "", "extent": {"quick": false, "complete": true}, "seed": 0, "cpus": "0",
        "clock": {"add_hz": 3e9, "mul_hz": 3e9, "tsc_hz": null}, "overheads": null,
        "levels": [
            level(json!({"cache": 1}), Some(32 * KIB), 1.0, 200e9),
            level(json!({"cache": 2}), Some(512 * KIB), 4.0, 80e9),
            level(json!({"cache": 3}), Some(16 * MIB), 15.0, 30e9),
            level(json!({"memory": {"node": 0, "local": true}}), None, 90.0, 10e9),
        ],
        "latency_curve": [],
        "tlb": {"curve": [], "reach_pages": [64, 1500], "walk_penalty_ns": 30.0},
        "loaded_latency": [], "core_to_core": [], "remarks": [], "noise": null,
    });
    serde_json::from_value(whole).unwrap()
}

/// mov r8,[r8]; mov r8,[r8]; add rax,1; cmp rax,rsi; jb 0; ret
const CHASE: [u8; 16] =
    [0x4d, 0x8b, 0x00, 0x4d, 0x8b, 0x00, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf1, 0xc3];

/// A chase that lands anywhere in so many bytes, on huge pages or not.
fn chase(bytes: u64, is_huge: bool) -> Run {
    let places = without_order(900, bytes / 64).map(|line| START + line * 64).enumerate();
    let samples: Vec<_> = places.map(|(i, at)| (if i % 2 == 0 { 3 } else { 6 }, Some(at))).collect();
    let mut run = run(&CHASE, &samples);
    let pages =
        AreaPages { resident_bytes: bytes, huge_bytes: if is_huge { bytes } else { 0 }, nodes: Vec::new() };
    run.data.areas.push(Area {
        process: record::ids::ProcessId(0),
        start: START,
        end: START + bytes,
        kind: AreaKind::Anonymous,
        pages: Some(pages),
    });
    run
}

fn levels(run: &Run) -> LevelFindings {
    let found = analyse(run, Some(&profile()), &TimerOptions::default());
    let memory = found.overall.unwrap().memory();
    let levels = found.levels.value().unwrap().clone();
    let sum = levels.parts.iter().map(|part| part.share).sum::<f64>() + levels.unknown;
    assert!((sum - memory).abs() < 0.02, "levels add up to {sum}, waiting for memory is {memory}");
    levels
}

#[test]
fn each_footprint_waits_at_its_level() {
    for (bytes, level) in [
        (160 * KIB, WaitLevel::Cache(2)),
        (4 * MIB, WaitLevel::Cache(3)),
        (64 * MIB, WaitLevel::Memory),
        (256 * MIB, WaitLevel::Memory),
    ] {
        let found = levels(&chase(bytes, true));
        assert_eq!(found.most().map(|part| part.level), Some(level), "{bytes} {found:?}");
        assert_eq!(found.or, None, "{bytes}: far from every capacity");
    }
}

#[test]
fn near_a_capacity_both_sides_are_named() {
    // Half of what lands anywhere in twice the cache misses it.
    let found = levels(&chase(20 * MIB, true));
    assert_eq!(found.most().map(|part| part.level), Some(WaitLevel::Memory), "{found:?}");
    assert_eq!(found.or, Some(WaitLevel::Cache(3)), "{found:?}");
}

#[test]
fn small_pages_cost_translation_where_there_are_many() {
    let translation = |found: &LevelFindings| {
        found.parts.iter().find(|part| part.level == WaitLevel::Translation).map_or(0.0, |part| part.share)
    };
    let many = levels(&chase(64 * MIB, false));
    assert!((0.2..0.45).contains(&translation(&many)), "30 of some 100 ns: {many:?}");
    let few = levels(&chase(4 * MIB, false));
    assert_eq!(translation(&few), 0.0, "1024 pages are kept in mind: {few:?}");
}

/// addsd xmm0,[rax]; add rax,rcx; cmp rax,rdx; jne 0; ret, where rcx is what a column is apart
const COLUMN: [u8; 13] = [0xf2, 0x0f, 0x58, 0x00, 0x48, 0x01, 0xc8, 0x48, 0x39, 0xd0, 0x75, 0xf4, 0xc3];

#[test]
fn a_walk_down_columns_is_no_stream_and_moves_lines_not_strides() {
    // 48 KB apart, one every 10 ns; each column begins eight bytes further.
    let (stride, rows) = (48_000, 2000);
    let address = |i: u64| {
        let turn = i * 100_000 + i % 5;
        START + turn % rows * stride + turn / rows % 6000 * 8
    };
    let samples: Vec<_> = (0..900).map(|i| (4, Some(address(i)))).collect();
    let found = analyse(&run(&COLUMN, &samples), Some(&profile()), &TimerOptions::default());
    if let Some(streams) = found.limits.streams.value() {
        assert!(streams.of_limit.is_none_or(|part| part < 1.2), "{streams:?}");
    }
    assert_ne!(found.verdict.nature.value(), Some(&Nature::Bandwidth));
}

/// vmovups ymm0,[r8+rax]; vmovups ymm0,[r8+rax+0x20]; add rax,0x40; cmp rax,rsi; jb 0; ret
const STREAM: [u8; 23] = [
    0xc4, 0xc1, 0x7c, 0x10, 0x04, 0x00, 0xc4, 0xc1, 0x7c, 0x10, 0x44, 0x00, 0x20, 0x48, 0x83, 0xc0, 0x40,
    0x48, 0x39, 0xf0, 0x72, 0xea, 0xc3,
];

#[test]
fn bandwidth_is_near_what_the_level_gives_or_not_the_reason() {
    let stream = |bytes_per_ms: u64| {
        let address = |i: u64| START + (i * bytes_per_ms + i % 7 * 64) / 64 * 64;
        let samples: Vec<_> = (0..600).map(|i| (6, Some(address(i)))).collect();
        analyse(&run(&STREAM, &samples), Some(&profile()), &TimerOptions::default())
    };
    let near = stream(9_000_000);
    assert_eq!(near.verdict.nature.value(), Some(&Nature::Bandwidth));
    let streams = near.limits.streams.value().unwrap();
    assert_eq!(streams.level, Some(WaitLevel::Memory));
    assert!(streams.of_limit.is_some_and(|part| (part - 0.9).abs() < 0.02), "{streams:?}");
    assert_eq!(stream(3_000_000).verdict.nature.value(), Some(&Nature::Streams));
    // More than the machine gave is no finding.
    let beyond = stream(20_000_000);
    assert!(beyond.limits.streams.missing().is_some_and(|reason| reason.contains("20 GB/s")));
}

/// vmovups ymm0,[r8+rax]; STORE [r9+rax],ymm0; add rax,0x20; cmp rax,rsi; jb 0; ret, where the store passes the caches or not.
fn copying(store: u8) -> Vec<u8> {
    let code: [u8; 22] = [
        0xc4, 0xc1, 0x7c, 0x10, 0x04, 0x00, 0xc4, 0xc1, 0x7c, store, 0x04, 0x01, 0x48, 0x83, 0xc0, 0x20,
        0x48, 0x39, 0xf0, 0x72, 0xeb, 0xc3,
    ];
    code.to_vec()
}

/// A copy at 9 GB/s, on a machine that gives 10 for loads and 7 for copies that read what they overwrite. All samples lie behind the
/// load, so that no address tells of the other stream.
fn copied(store: u8) -> KnownLimits<StreamLimit> {
    let address = |i: u64| START + (i * 4_500_000 + i % 7 * 32) / 32 * 32;
    let samples: Vec<_> = (0..600).map(|i| (6, Some(address(i)))).collect();
    let mut profile = profile();
    let memory = profile.levels.last_mut().unwrap();
    for given in [&mut memory.one_core, &mut memory.all_cores] {
        given.copy.as_mut().unwrap().value = 7e9;
    }
    analyse(&run(&copying(store), &samples), Some(&profile), &TimerOptions::default()).limits.streams
}

#[test]
fn copies_past_the_caches_are_held_against_what_memory_moves_without_reading_first() {
    const VMOVNTPS: u8 = 0x2b;
    const VMOVUPS: u8 = 0x11;
    let past = copied(VMOVNTPS);
    let part = past.value().and_then(|streams| streams.of_limit);
    // Those copies moved three bytes for two: 10.5 GB/s.
    assert!(part.is_some_and(|part| (part - 9.0 / 10.5).abs() < 0.02), "{past:?}");
    let through = copied(VMOVUPS);
    assert!(through.missing().is_some_and(|why| why.contains("not understood")), "{through:?}");
}

/// mov rcx,rdx; rep movsb; dec eax; jne 0; ret: a turn of the loop is a whole string, which goes through its pages one by one.
#[test]
fn a_string_in_a_loop_walks_through_its_pages_in_order_and_writes_what_it_reads() {
    const CODE: [u8; 10] = [0x48, 0x89, 0xd1, 0xf3, 0xa4, 0xff, 0xc8, 0x75, 0xf7, 0xc3];
    let samples: Vec<_> = (0..600).map(|i| (3, Some(START + i * 3_500_000 % (64 * MIB)))).collect();
    let mut run = run(&CODE, &samples);
    let pages = AreaPages { resident_bytes: 64 * MIB, huge_bytes: 0, nodes: Vec::new() };
    run.data.areas.push(Area {
        process: record::ids::ProcessId(0),
        start: START,
        end: START + 64 * MIB,
        kind: AreaKind::Anonymous,
        pages: Some(pages),
    });
    let found = analyse(&run, Some(&profile()), &TimerOptions::default());
    let parts = &found.levels.value().unwrap().parts;
    assert!(parts.iter().all(|part| part.level != WaitLevel::Translation), "{parts:?}");
    assert!(parts[0].level == WaitLevel::Memory && parts[0].share > 0.5, "{parts:?}");
    let streams = found.limits.streams.value().unwrap();
    assert!((streams.per_thread.bytes_per_s - 7e9).abs() < 2e8, "{streams:?}");
}

/// rep movsb; ret: it may read the lines that it overwrites, or not.
#[test]
fn what_a_string_copies_is_read_and_written() {
    let samples: Vec<_> = (0..600).map(|i| (0, Some(START + i * 3_500_000))).collect();
    let mut profile = profile();
    let memory = profile.levels.last_mut().unwrap();
    for given in [&mut memory.one_core, &mut memory.all_cores] {
        given.copy.as_mut().unwrap().value = 8e9;
    }
    let found = analyse(&run(&[0xf3, 0xa4, 0xc3], &samples), Some(&profile), &TimerOptions::default());
    let streams = found.limits.streams.value().unwrap();
    assert!((streams.per_thread.bytes_per_s - 7e9).abs() < 1e8, "{streams:?}");
    assert!(streams.of_limit.is_some_and(|part| (part - 7.0 / 12.0).abs() < 0.02), "{streams:?}");
    assert!(streams.of_limit_at_most.is_some_and(|part| (part - 7.0 / 8.0).abs() < 0.02), "{streams:?}");
}

/// The stream over 4 MiB, which fit the third cache, with bursts that say how long a turn takes; streams from that cache get so
/// much.
fn stream_turns(turn_ns: f64, third_cache_per_s: f64) -> LevelFindings {
    let mut profile = profile();
    let third = profile.levels.iter_mut().filter_map(|level| level.one_core.load.as_mut()).nth(2).unwrap();
    (third.value, third.low, third.high) = (third_cache_per_s, third_cache_per_s, third_cache_per_s);
    let run = timed_run(&STREAM, 6, turn_ns, |turn| START + turn * 64);
    analyse(&run, Some(&profile), &TimerOptions::default()).levels.value().unwrap().clone()
}

/// What comes from the third cache hardly later than from the second waits for the second: were it there, little would be won.
#[test]
fn a_level_is_waited_for_as_far_as_it_adds_to_the_time() {
    let slow = stream_turns(2.2, 30e9);
    assert_eq!(slow.most().map(|part| part.level), Some(WaitLevel::Cache(3)), "{slow:?}");
    let hardly_slower = stream_turns(1.0, 70e9);
    assert_eq!(hardly_slower.most().map(|part| part.level), Some(WaitLevel::Cache(2)), "{hardly_slower:?}");
}

/// Lines that would be there after 2 ns by where they lie.
#[test]
fn where_turns_take_longer_than_their_lines_the_other_level_is_shown_as_well() {
    let agreed = stream_turns(2.2, 30e9);
    assert_eq!(agreed.by_time, None, "{agreed:?}");
    let slower = stream_turns(30.0, 30e9);
    assert_eq!(slower.most().map(|part| part.level), Some(WaitLevel::Cache(3)), "{slower:?}");
    assert_eq!(slower.by_time, Some(WaitLevel::Memory), "{slower:?}");
}

/// Lines from the second cache hold nobody up who executes for as long; they may, and then nowhere else.
#[test]
fn where_nothing_is_seen_to_wait_the_level_it_may_wait_at_is_named() {
    let address = |at: u64| START + at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (32 * KIB) * 8;
    let samples: Vec<_> = (0..600).map(|at| (8, Some(address(at)))).collect();
    let found = analyse(&run(&SUM, &samples), Some(&profile()), &TimerOptions::default());
    let levels = found.levels.value().unwrap();
    assert!(levels.parts.is_empty(), "{levels:?}");
    assert_eq!(levels.perhaps, Some(WaitLevel::Cache(2)), "{levels:?}");
}

/// mov r9,[r9]; imul r9,r8 six times; add rax,1; cmp rax,rsi; jb 0; ret
const MULTIPLIED: [u8; 37] = [
    0x4d, 0x8b, 0x09, 0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f,
    0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0,
    0x72, 0xdc, 0xc3,
];

/// The multiplications overwrite where the chase goes; that they take six nanoseconds of a turn says how long its load does.
#[test]
fn a_chase_whose_addresses_are_lost_waits_where_its_time_says() {
    for (load_ns, level) in
        [(4.0, WaitLevel::Cache(2)), (15.0, WaitLevel::Cache(3)), (90.0, WaitLevel::Memory)]
    {
        let beside = (1000.0 * 6.0 / (6.0 + load_ns)) as usize;
        let samples: Vec<_> =
            (0..1000).map(|at| (if at < beside { 7 + at as u64 % 6 * 4 } else { 3 }, None)).collect();
        let found = levels(&run(&MULTIPLIED, &samples));
        assert_eq!(found.most().map(|part| part.level), Some(level), "{load_ns} ns: {found:?}");
    }
}

#[test]
fn without_a_profile_no_level_is_named() {
    let found = analyse(&chase(MIB, true), None, &TimerOptions::default());
    assert!(found.levels.missing().is_some_and(|reason| reason.contains("calibrate")));
}
