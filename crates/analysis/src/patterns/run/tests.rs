//! Runs made by hand, each of which has one pattern: that what the samples say reaches the sign it is meant for.

use machine::profile::Profile;
use record::{
    data::{Area, AreaKind, AreaPages},
    ids::{ProcessId, ThreadId},
    run::{RecordedThread, Run, Slice, Usage},
};

use crate::{
    findings::{Confidence, KnownLimits},
    patterns::{PatternFinding, PatternState},
    reading::Reading,
    timer::{
        TimerOptions,
        levels::tests::profile,
        tests::{CHASE, STREAM, run},
    },
};

const START: u64 = 0x7000_0000_0000;
const MIB: u64 = 1 << 20;

fn patterns(run: &Run, profile: Option<&Profile>) -> Vec<PatternFinding> {
    Reading::of(run, profile, &TimerOptions::unlimited()).patterns
}

fn of<'a>(all: &'a [PatternFinding], name: &str) -> &'a PatternFinding {
    all.iter().find(|one| one.name == name).unwrap()
}

fn sign(finding: &PatternFinding, name: &str) -> f64 {
    finding.evidence.iter().find(|sign| sign.indicator == name).map_or(f64::NAN, |sign| sign.value)
}

/// A sample each millisecond, and so many bytes between two.
fn streaming(code: &[u8], bytes: u64, stride: u64) -> Run {
    let samples: Vec<_> =
        (0..600).map(|i| (6, Some(START + (i * bytes + i % 7 * stride) / stride * stride))).collect();
    run(code, &samples)
}

/// The profile's memory gives 10 GB/s.
#[test]
fn streams_that_move_all_that_memory_gives_are_saturation_and_slower_ones_are_not() {
    let near = patterns(&streaming(&STREAM, 9_000_000, 64), Some(&profile()));
    let found = of(&near, "bandwidth-saturation");
    assert_eq!(found.state, PatternState::Found, "{found:?}");
    assert!((sign(found, "bandwidth_of_limit") - 0.9).abs() < 0.02, "{found:?}");
    assert!(sign(found, "stream_waiting") > 0.8 && found.place.is_some(), "{found:?}");
    let far = patterns(&streaming(&STREAM, 3_000_000, 64), Some(&profile()));
    let absent = of(&far, "bandwidth-saturation");
    assert_eq!(absent.state, PatternState::Absent, "{absent:?}");
    assert!((sign(absent, "bandwidth_of_limit") - 0.3).abs() < 0.02, "{absent:?}");
    assert!(absent.confidence > Some(Confidence::Low), "{absent:?}");
    let mut guest = profile();
    guest.fingerprint.hypervisor = "KVM".to_owned();
    let beside_others = patterns(&streaming(&STREAM, 3_000_000, 64), Some(&guest));
    let open = of(&beside_others, "bandwidth-saturation");
    assert_eq!((open.state, open.confidence), (PatternState::Absent, Some(Confidence::Low)), "{open:?}");
    assert_eq!(of(&near, "excess-volume").state, PatternState::Absent);
}

#[test]
fn strides_that_use_a_part_of_each_line_are_excess_volume() {
    // vmovups ymm0,[r8+rax]; add rax,0x200; cmp rax,rsi; jb 0; ret
    let code = [
        0xc4, 0xc1, 0x7c, 0x10, 0x04, 0x00, 0x48, 0x05, 0x00, 0x02, 0x00, 0x00, 0x48, 0x39, 0xf0, 0x72, 0xef,
        0xc3,
    ];
    let all = patterns(&streaming(&code, 5_000_000, 512), Some(&profile()));
    let found = of(&all, "excess-volume");
    assert_eq!(found.state, PatternState::Found, "{all:?}");
    assert!(sign(found, "stride_waiting") > 0.8, "{found:?}");
    assert_eq!(of(&all, "latency-bound").state, PatternState::Absent);
}

/// A chase over more pages than the profile's machine keeps in mind: page walks take a quarter of each step.
#[test]
fn page_walks_are_told_by_the_pages_that_the_data_has() {
    let chase = |is_huge: bool| {
        let bytes = 64 * MIB;
        let address = |i: u64| START + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (bytes / 64) * 64;
        let samples: Vec<_> = (0..900).map(|i| (if i % 2 == 0 { 3 } else { 6 }, Some(address(i)))).collect();
        let mut run = run(&CHASE, &samples);
        run.data.areas.push(Area {
            process: ProcessId(0),
            start: START,
            end: START + bytes,
            kind: AreaKind::Anonymous,
            pages: Some(AreaPages {
                resident_bytes: bytes,
                huge_bytes: if is_huge { bytes } else { 0 },
                nodes: Vec::new(),
            }),
        });
        run
    };
    let small = patterns(&chase(false), Some(&profile()));
    let found = of(&small, "tlb-thrashing");
    assert_eq!(found.state, PatternState::Found, "{found:?}");
    assert!((0.1..0.4).contains(&sign(found, "translation_waiting")), "{found:?}");
    assert_eq!(of(&small, "latency-bound").state, PatternState::Found);
    assert_eq!(of(&patterns(&chase(true), Some(&profile())), "tlb-thrashing").state, PatternState::Absent);
    let unknown = patterns(&chase(false), None);
    assert_eq!(of(&unknown, "tlb-thrashing").state, PatternState::Unknown);
}

/// Of code that hardly touches memory no address is needed to say that it shares nothing.
#[test]
fn two_threads_that_only_compute_share_no_lines() {
    let mut run = blocked(20);
    let found = patterns(&run, None);
    assert_eq!(of(&found, "instruction-throughput").state, PatternState::Found, "{found:?}");
    // add rax,[rbx]; jmp -5: the same of code that does, where no sample has an address.
    run.functions[0].code = Some(vec![0x48, 0x03, 0x03, 0xeb, 0xfb, 0x90]);
    run.places.iter_mut().for_each(|place| place.address = run.functions[0].start + 3);
    let unseen = patterns(&run, None);
    assert_eq!(of(&unseen, "instruction-throughput").state, PatternState::Unknown, "{unseen:?}");
}

/// Two threads that compute for half of the time and are off the CPU for the other half.
fn blocked(voluntary_switches: u64) -> Run {
    // add rax,1; jmp -6
    let samples: Vec<_> = (0..1000).map(|index| (4 * (index % 2), None)).collect();
    let mut run = run(&[0x48, 0x83, 0xc0, 0x01, 0xeb, 0xfa], &samples);
    run.threads.push(RecordedThread { tid: run.threads[0].tid + 1, ..run.threads[0].clone() });
    run.samples.thread = (0..1000).map(|index| ThreadId(index / 2 % 2)).collect();
    run.about.slice_ns = 100_000_000;
    let slice = |(thread, slice)| Slice {
        thread: ThreadId(thread),
        slice,
        running_ns: 50_000_000,
        blocked_ns: 50_000_000,
        preempted_ns: 0,
    };
    run.slices = (0..10).flat_map(|slice| [(0, slice), (1, slice)]).map(slice).collect();
    run.about.usage = Some(Usage {
        user_ns: 1_000_000_000,
        system_ns: 0,
        peak_resident_bytes: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches,
        involuntary_switches: 0,
    });
    run
}

#[test]
fn many_short_waits_off_the_cpu_are_synchronisation_and_a_few_long_ones_are_not() {
    // A second in all: 10000 waits of 100 µs.
    let often = patterns(&blocked(10_000), None);
    let found = of(&often, "synchronisation");
    assert_eq!(found.state, PatternState::Found, "{found:?}");
    assert!((sign(found, "blocked") - 0.5).abs() < 0.01, "{found:?}");
    assert!((sign(found, "mean_wait_us") - 100.0).abs() < 1.0, "{found:?}");
    // Twenty of 50 ms: serial phases, or a device.
    let seldom = patterns(&blocked(20), None);
    assert_eq!(of(&seldom, "synchronisation").state, PatternState::Absent);
    assert!(matches!(
        Reading::of(&blocked(20), None, &TimerOptions::default()).work.synchronising,
        KnownLimits::Value(_)
    ));
}

/// Loads that overwrite a register of their own address wait, and nobody knows where: that is no sign against any walk.
#[test]
fn waiting_without_addresses_decides_against_no_walk_through_memory() {
    // mov rax,rcx; movsxd rax,[rdx+rax]; add rsi,rax; nop; jmp 0
    let code = [0x48, 0x89, 0xc8, 0x48, 0x63, 0x04, 0x02, 0x48, 0x01, 0xc6, 0x90, 0xeb, 0xf3];
    let samples: Vec<_> = (0..600).map(|i| (if i % 20 == 0 { 10 } else { 7 }, None)).collect();
    let all = patterns(&run(&code, &samples), Some(&profile()));
    for name in ["latency-bound", "bandwidth-saturation", "excess-volume", "tlb-thrashing"] {
        let unknown = of(&all, name);
        assert_eq!(unknown.state, PatternState::Unknown, "{unknown:?}");
        assert!(unknown.needs.iter().any(|need| need.starts_with("addresses of what waits")), "{unknown:?}");
    }
}

/// A loop that goes round between two samples has no speed by which far they lie apart.
#[test]
fn streams_that_begin_again_between_samples_are_not_called_slow() {
    let random = |i: u64| START + (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) % (MIB / 2) * 64;
    let samples: Vec<_> = (0..600).map(|i| (6, Some(random(i)))).collect();
    let reading = Reading::of(&run(&STREAM, &samples), Some(&profile()), &TimerOptions::unlimited());
    let streams = &reading.findings.limits.streams;
    assert!(matches!(streams, KnownLimits::Missing(why) if why.contains("how fast")), "{streams:?}");
}

/// rep movsb; ret, at 7 GB/s: of copies that read what they overwrite memory gives 8, of others 12.
#[test]
fn strings_that_may_read_what_they_overwrite_leave_saturation_open() {
    let samples: Vec<_> = (0..600).map(|i| (0, Some(START + i * 3_500_000))).collect();
    let mut profile = profile();
    let memory = profile.levels.last_mut().unwrap();
    for given in [&mut memory.one_core, &mut memory.all_cores] {
        given.copy.as_mut().unwrap().value = 8e9;
    }
    let all = patterns(&run(&[0xf3, 0xa4, 0xc3], &samples), Some(&profile));
    let open = of(&all, "bandwidth-saturation");
    assert_eq!(open.state, PatternState::Unknown, "{open:?}");
    assert!(open.needs[0].contains("0.58") && open.needs[0].contains("0.8"), "{open:?}");
}
