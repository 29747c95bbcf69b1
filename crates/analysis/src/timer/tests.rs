//! Scripted runs: small pieces of code with samples where a core would leave them.

use std::num::NonZeroU64;

use machine::profile::Fingerprint;
use proptest::prelude::*;

use record::{ids::*, run::*};

use super::*;
use trust::{Standing, Trust};

use crate::findings::{Confidence, Estimated, HeldBack, Nature, Pattern, Split, ThreadActivity};

pub(super) const BASE: u64 = 0x1000;

/// A run of one thread in one function. Samples at code offsets, each with the address of its operand.
pub(crate) fn run(code: &[u8], samples: &[(u64, Option<u64>)]) -> Run {
    let mut places: Vec<Place> = Vec::new();
    let mut columns = Samples::default();
    for (index, &(offset, address)) in samples.iter().enumerate() {
        let address_of_code = BASE + offset;
        let place = places.iter().position(|place| place.address == address_of_code).unwrap_or_else(|| {
            places.push(Place {
                module: ModuleId(0),
                address: address_of_code,
                function: Some(FunctionId(0)),
            });
            places.len() - 1
        });
        columns.time_ns.push(index as u64 * 1_000_000);
        columns.thread.push(ThreadId(0));
        columns.cpu.push(0);
        columns.place.push(PlaceId::of(place));
        columns.address.push(address.and_then(NonZeroU64::new));
    }
    let end = BASE + code.len() as u64;
    let function = Function {
        module: ModuleId(0),
        symbol: None,
        name: "f".into(),
        start: BASE,
        end,
        code: Some(code.to_vec()),
    };
    Run {
        about: about(samples.len() as u64 * 1_000_000),
        processes: vec![Process {
            pid: 7,
            parent: None,
            name: "p".into(),
            executable: None,
            began_ns: 0,
            ended_ns: None,
        }],
        threads: vec![RecordedThread {
            tid: 7,
            process: ProcessId(0),
            name: "p".into(),
            began_ns: 0,
            ended_ns: None,
        }],
        modules: vec![Module { path: "/p".into(), kind: ModuleKind::File, build_id: None, problem: None }],
        functions: vec![function],
        files: vec!["f.c".into()],
        lines: vec![LineRange { module: ModuleId(0), start: BASE, end, file: 0, line: 3 }],
        inlined: Default::default(),
        places,
        samples: columns,
        bursts: Samples::default(),
        passes: Samples::default(),
        regions: Default::default(),
        loads: Default::default(),
        relief: record::relief::ReliefRecord::NotAsked,
        probes: Default::default(),
        import: None,
        scaling: None,
        sampled: record::sampled::SampledEvents::default(),
        stacks: Vec::new(),
        data: record::data::Data::default(),
        slices: Vec::new(),
        remarks: Vec::new(),
    }
}

fn about(elapsed_ns: u64) -> About {
    let empty = String::new;
    About {
        memwall: empty(),
        command: vec!["p".into()],
        attached: None,
        started_at: 0,
        fingerprint: Fingerprint::default(),
        rate_hz: 1000.0,
        period_ns: 1e6,
        skid_instructions: 1,
        elapsed_ns: Some(elapsed_ns),
        ending: Ending::Exited(0),
        usage: None,
        slowed: None,
        clock_hz: None,
        lost_samples: Some(0),
        noise: None,
        slice_ns: 0,
    }
}

fn split(run: &Run) -> Split {
    analyse(run, None, &TimerOptions::default()).overall.unwrap()
}

/// A sequence of addresses all over 256 MiB, always the same.
fn scattered(index: u64) -> u64 {
    0x7000_0000_0000 + (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36) / 64 * 64
}

/// mov r8,[r8]; mov r8,[r8]; add rax,1; cmp rax,rsi; jb 0; ret
pub(crate) const CHASE: [u8; 16] =
    [0x4d, 0x8b, 0x00, 0x4d, 0x8b, 0x00, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf1, 0xc3];

#[test]
fn a_chase_waits_on_loads() {
    let samples: Vec<_> = (0..600).map(|i| (if i % 2 == 0 { 3 } else { 6 }, Some(scattered(i)))).collect();
    let findings = analyse(&run(&CHASE, &samples), None, &TimerOptions::default());
    let split = findings.overall.unwrap();
    assert!(split.loads > 0.95, "{split:?}");
    assert_eq!(findings.verdict.held_back, HeldBack::Yes);
    assert_eq!(findings.verdict.confidence, Confidence::Medium, "nobody tried it on this machine");
    let standing = Standing {
        indicator: TimerOptions::INDICATOR,
        purpose: "shares".to_owned(),
        trust: Trust::Trusted { error: 0.05 },
    };
    let tuned = TimerOptions { trust: KnownLimits::Value(standing), ..TimerOptions::default() };
    let confidence = analyse(&run(&CHASE, &samples), None, &tuned).verdict.confidence;
    assert_eq!(confidence, Confidence::Medium, "kernels that rules were made on make nobody sure");
    let tried = TimerOptions::unlimited();
    let confidence = analyse(&run(&CHASE, &samples), None, &tried).verdict.confidence;
    assert_eq!(confidence, Confidence::High);
    assert_eq!(findings.verdict.nature.value(), Some(&Nature::Latency));
    let hottest = &findings.instructions[0];
    assert_eq!(hottest.activity, ThreadActivity::Loads);
    assert_eq!(hottest.text.as_deref(), Some("mov r8,[r8]"));
    let access = hottest.access.unwrap();
    assert_eq!((access.pattern, access.next_address), (Pattern::PointerChasing, true));
    assert_eq!(hottest.source.as_ref().unwrap().line, 3);
}

#[test]
fn few_samples_give_no_share_and_no_advice() {
    let chase = |count: u64| {
        let samples: Vec<_> = (0..count).map(|i| (3, Some(scattered(i)))).collect();
        analyse(&run(&CHASE, &samples), None, &TimerOptions::default())
    };
    let few = chase(29);
    assert_eq!((few.verdict.held_back, few.verdict.memory), (HeldBack::Unknown, None));
    assert!(few.verdict.reasons[0].contains("29 samples"), "{:?}", few.verdict.reasons);
    assert!(few.advice.len() == 1 && few.advice[0].contains("longer"), "{:?}", few.advice);
    assert!(chase(30).verdict.memory.is_some());
}

/// addsd xmm0,[rax]; add rax,8; cmp rax,rdx; jne 0; ret
const SUM: [u8; 14] = [0xf2, 0x0f, 0x58, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xd0, 0x75, 0xf3, 0xc3];

#[test]
fn an_addition_that_loads_is_not_taken_for_a_load_that_waits() {
    let at = |bytes: u64, step: u64| {
        let address =
            |i: u64| 0x7000_0000_0000 + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (bytes / step) * step;
        (0..600).map(|i| (4, Some(address(i)))).collect::<Vec<_>>()
    };
    let memory = |samples: &[(u64, Option<u64>)]| {
        let verdict = analyse(&run(&SUM, samples), None, &TimerOptions::default()).verdict;
        (verdict.held_back, verdict.memory.unwrap())
    };
    // In the second cache the chain of additions hides what its lines take.
    let (held_back, share) = memory(&at(160 << 10, 8));
    assert!(held_back != HeldBack::Yes && share.low < 0.02 && share.high < 0.5, "{share:?}");
    let (held_back, share) = memory(&at(12 << 10, 8));
    assert!(held_back == HeldBack::No && share.high < 0.1, "{share:?}");
}

/// vmovups ymm0,[r8+rax]; vmovups ymm0,[r8+rax+0x20]; add rax,0x40; cmp rax,rsi; jb 0; ret
pub(crate) const STREAM: [u8; 23] = [
    0xc4, 0xc1, 0x7c, 0x10, 0x04, 0x00, 0xc4, 0xc1, 0x7c, 0x10, 0x44, 0x00, 0x20, 0x48, 0x83, 0xc0, 0x40,
    0x48, 0x39, 0xf0, 0x72, 0xea, 0xc3,
];

#[test]
fn a_stream_beyond_the_caches_waits_and_one_within_the_first_does_not() {
    // 5 GB/s: five megabytes from sample to sample.
    let far: Vec<_> =
        (0..600).map(|i| (6, Some(0x7000_0000_0000 + (i * 5_000_000 + i % 7 * 64) / 64 * 64))).collect();
    let findings = analyse(&run(&STREAM, &far), None, &TimerOptions::default());
    let split = findings.overall.unwrap();
    assert!(split.loads > 0.9, "{split:?}");
    assert_eq!(
        findings.verdict.nature.value(),
        Some(&Nature::Streams),
        "what the machine gives is not known"
    );
    let access = findings.instructions[0].access.unwrap();
    assert_eq!((access.pattern, access.stride_bytes), (Pattern::Streaming, Some(64)));
    let rate = findings.limits.streams.value().unwrap().per_thread.bytes_per_s;
    assert!((rate / 5e9 - 1.0).abs() < 0.01, "{rate}");
    assert!(findings.limits.levels.missing().unwrap().contains("calibrate"));

    let near: Vec<_> = (0..600).map(|i| (6, Some(0x7000_0000_0000 + scattered(i) % 16384))).collect();
    let split = self::split(&run(&STREAM, &near));
    assert!(split.loads < 0.01 && split.executing > 0.99, "{split:?}");
}

#[test]
fn the_second_touch_of_a_line_does_not_wait() {
    let samples: Vec<_> = (0..600)
        .map(|i| {
            (
                if i % 3 == 0 { 13 } else { 6 },
                // In no order: how long a turn takes, which would settle it, nobody can tell.
                Some(0x7000_0000_0000 + scattered(i) / 64 * 64 + if i % 3 == 0 { 32 } else { 0 }),
            )
        })
        .collect();
    let tally = Tally::new(&run(&STREAM, &samples), None);
    let touches = |site: usize| tally.streams.of(site).map(|stream| stream.is_second_touch(site));
    assert_eq!((touches(0), touches(1)), (Some(false), Some(true)));
}

/// divsd xmm1,xmm0; add rax,1; cmp rax,rsi; jb 0; ret
const DIVIDE: [u8; 14] = [0xf2, 0x0f, 0x5e, 0xc8, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xf3, 0xc3];

#[test]
fn divisions_multiplications_and_jumps_are_named() {
    let behind = |offset: u64| vec![(offset, None); 300];
    assert!(split(&run(&DIVIDE, &behind(4))).divides > 0.99);

    // imul r9,r8; imul r9,r8; add rax,1; cmp rax,rsi; jb 0; ret
    let multiply = [
        0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf0, 0x72, 0xef,
        0xc3,
    ];
    let both: Vec<_> = (0..300).map(|i| (if i % 2 == 0 { 4 } else { 8 }, None)).collect();
    assert!(split(&run(&multiply, &both)).chains > 0.8);

    // test rax,rax; je +6; add r9,1; nop; nop; add r10,1; nop; ret
    let branch = [
        0x48, 0x85, 0xc0, 0x74, 0x06, 0x49, 0x83, 0xc1, 0x01, 0x90, 0x90, 0x49, 0x83, 0xc2, 0x01, 0x90, 0xc3,
    ];
    assert!(split(&run(&branch, &behind(9))).branches > 0.9);

    // lock add [r8],rax; nop; pause; nop; ret
    let atomic = [0xf0, 0x49, 0x01, 0x00, 0x90, 0xf3, 0x90, 0x90, 0xc3];
    assert!(split(&run(&atomic, &behind(4))).atomics > 0.9);
    assert!(split(&run(&atomic, &behind(7))).other_threads > 0.9);
}

/// top: movzx eax,[rdi]; inc rdi; jmp rax; nop; lea rbx,[rbx+rbx*4]; xor rbx,rcx; jmp top; nop; mov rcx,[rsi]; sub rbx,rcx;
/// jmp top
const SWITCH: [u8; 31] = [
    0x0f, 0xb6, 0x07, 0x48, 0xff, 0xc7, 0xff, 0xe0, 0x0f, 0x1f, 0x00, 0x48, 0x8d, 0x1c, 0x9b, 0x48, 0x31,
    0xcb, 0xeb, 0xec, 0x0f, 0x1f, 0x00, 0x48, 0x8b, 0x0e, 0x48, 0x29, 0xcb, 0xeb, 0xe1,
];

#[test]
fn wrong_guesses_of_a_switch_show_behind_the_first_instructions_of_its_cases() {
    let split_of = |counts: &[(u64, usize)]| {
        let at = |&(offset, count): &(u64, usize)| {
            // One word is read again and again, and the codes one after the other.
            (0..count as u64).map(move |i| (offset, Some(if offset == 3 { 0x7000 + i } else { 0x9000 })))
        };
        split(&run(&SWITCH, &counts.iter().flat_map(at).collect::<Vec<_>>()))
    };
    let random = split_of(&[(3, 60), (6, 200), (15, 300), (18, 20), (26, 300), (29, 20)]);
    assert!(random.branches > 0.5 && random.loads < 0.05, "{random:?}");
    let foreseen = split_of(&[(3, 200), (6, 200), (15, 100), (18, 100), (26, 100), (29, 100)]);
    assert!(foreseen.branches < 0.05 && foreseen.loads < 0.05, "{foreseen:?}");
}

/// top: cmp [rdi+rax*8],rdx; jb less; lea rcx,[rax+1]; jmp on; nop; less: mov rsi,rax; nop; on: lea rax,[rcx+rsi]; shr rax,1;
/// cmp rcx,rsi; jne top; ret
const HALVES: [u8; 31] = [
    0x48, 0x39, 0x14, 0xc7, 0x72, 0x07, 0x48, 0x8d, 0x48, 0x01, 0xeb, 0x05, 0x90, 0x48, 0x89, 0xc6, 0x90,
    0x48, 0x8d, 0x04, 0x31, 0x48, 0xd1, 0xe8, 0x48, 0x39, 0xf1, 0x75, 0xe3, 0xc3, 0x90,
];

/// A search by halves: the compare that decides a guess waits for the guess before, and is no measure of what others take.
#[test]
fn what_decides_a_guess_is_no_baseline() {
    let counts = [(4, 150), (10, 200), (16, 200), (21, 60), (24, 8), (27, 8)];
    let at = |&(offset, count): &(u64, usize)| {
        (0..count as u64).map(move |i| (offset, (offset == 4).then_some(0x9000 + i * 8)))
    };
    let run = run(&HALVES, &counts.iter().flat_map(at).collect::<Vec<_>>());
    let found = split(&run);
    assert!(found.branches > 0.45, "{found:?}");
    let reading = crate::reading::Reading::of(&run, None, &TimerOptions::unlimited());
    let flow = reading.patterns.iter().find(|one| one.name == "control-flow").expect("it is known");
    assert_eq!(flow.state, crate::patterns::PatternState::Found);
    assert!(flow.confidence > Some(Confidence::Low), "both ways are taken: {flow:?}");
}

/// Samples behind jumps to places that were loaded may be of jumps that are all foreseen.
#[test]
fn control_flow_is_not_sure_where_nothing_shows_that_the_core_has_to_guess() {
    let counts = [(3, 60), (6, 200), (15, 300), (18, 20), (26, 300), (29, 20)];
    let at = |&(offset, count): &(u64, usize)| {
        (0..count as u64).map(move |i| (offset, Some(if offset == 3 { 0x7000 + i } else { 0x9000 })))
    };
    let run = run(&SWITCH, &counts.iter().flat_map(at).collect::<Vec<_>>());
    let reading = crate::reading::Reading::of(&run, None, &TimerOptions::unlimited());
    let flow = reading.patterns.iter().find(|one| one.name == "control-flow").expect("it is known");
    assert_eq!(flow.state, crate::patterns::PatternState::Found);
    assert_eq!(flow.confidence, Some(Confidence::Low));
    let sign = &flow.evidence[0];
    assert!(sign.about.contains("it may be that all are foreseen"), "{sign:?}");
    assert!(sign.interval.is_some_and(|(low, _)| low < 0.15), "{sign:?}");
}

/// What the bounds of the verdict leave open is open in the patterns too.
#[test]
fn a_pattern_is_as_open_as_the_bounds_of_what_it_rests_on() {
    // Random places in 256 MiB, of a block that is no loop: what the samples say, give or take thirty points.
    // mov rax,[r8]; nop; nop; nop; nop; nop; nop; nop; ret
    let code = [0x49, 0x8b, 0x00, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3];
    let busy = (0..280).map(|i| (4 + i % 7, None));
    let samples: Vec<_> = (0..320).map(|i| (3, Some(scattered(i)))).chain(busy).collect();
    let run = run(&code, &samples);
    let reading = crate::reading::Reading::of(&run, None, &TimerOptions::unlimited());
    let memory = reading.findings.verdict.memory.expect("a share");
    assert!(memory.low < 0.05 && memory.value > 0.15, "{memory:?}");
    for name in ["latency-bound", "instruction-throughput"] {
        let found = reading.patterns.iter().find(|one| one.name == name).expect("it is known");
        assert_eq!(found.confidence, Some(Confidence::Low), "{found:?}");
    }
}

/// `chasing` samples in a hundred are of one thread that follows a chase, all others of another that spins in a runtime.
fn beside_spinning(chasing: u64) -> Findings {
    let is_chase = |i: u64| i % 100 < chasing;
    let samples: Vec<_> = (0..1000)
        .map(
            |i| if is_chase(i) { (if i % 2 == 0 { 3 } else { 6 }, Some(scattered(i))) } else { (0x13, None) },
        )
        .collect();
    // pause; jmp -4 behind the chase.
    let code = [&CHASE[..], &[0x90, 0xf3, 0x90, 0xeb, 0xfc]].concat();
    let mut run = run(&code, &samples);
    run.threads.push(RecordedThread { tid: 8, ..run.threads[0].clone() });
    run.samples.thread = (0..1000).map(|i| ThreadId(u32::from(!is_chase(i)))).collect();
    analyse(&run, None, &TimerOptions::default())
}

#[test]
fn who_spins_is_not_held_back_by_memory_and_hides_nobody_who_is() {
    let idle = beside_spinning(0);
    assert_eq!(idle.verdict.held_back, HeldBack::No, "{:?}", idle.verdict);
    assert!(idle.overall.unwrap().other_threads > 0.99 && idle.verdict.memory.unwrap().high < 0.02);
    assert_eq!(
        (idle.verdict.largest, idle.verdict.memory_of_work),
        (Some(ThreadActivity::OtherThreads), None)
    );
    assert!(idle.advice[0].contains("wait for each other"), "{:?}", idle.advice);
    let worker = beside_spinning(30);
    let (memory, work) = (worker.verdict.memory.unwrap(), worker.verdict.memory_of_work.unwrap());
    assert!(
        (0.25..0.35).contains(&memory.value) && work.value > 0.85 && work.high <= 1.0,
        "{memory:?} {work:?}"
    );
    assert_eq!(worker.verdict.held_back, HeldBack::Yes, "its one worker chases");
}

/// jmp 6; nop...; 4: pause; 6: mov eax,[rdi]; cmp eax,edx; jne 4; mov [rdi],ecx; jmp 6
const ASKS_BETWEEN: [u8; 18] = [
    0xeb, 0x04, 0x90, 0x90, 0xf3, 0x90, 0x8b, 0x07, 0x39, 0xd0, 0x75, 0xf8, 0x89, 0x0f, 0xeb, 0xf6, 0x90,
    0xc3,
];

/// Samples behind the pause may be of whatever else leads there.
#[test]
fn what_is_asked_between_pauses_waits_for_other_threads() {
    let samples: Vec<_> = (0..300).map(|i| (if i % 3 == 0 { 8 } else { 6 }, None)).collect();
    let run = run(&ASKS_BETWEEN, &samples);
    let findings = analyse(&run, None, &TimerOptions::default());
    let split = findings.overall.unwrap();
    assert!(split.other_threads > 0.99, "{split:?}");
    assert!(findings.verdict.memory.unwrap().high < 0.05, "{:?}", findings.verdict);
}

#[test]
fn code_of_a_runtime_that_nobody_can_read_waits_for_other_threads_too() {
    let mut run = run(&CHASE, &vec![(3, None); 100]);
    run.modules[0].path = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0".into();
    run.functions[0].code = None;
    let nowhere = {
        let mut run = run.clone();
        run.places.iter_mut().for_each(|place| place.function = None);
        run
    };
    for run in [run, nowhere] {
        let findings = analyse(&run, None, &TimerOptions::default());
        let split = findings.overall.unwrap();
        assert_eq!((split.other_threads, split.undecided), (1.0, 0.0));
        assert_eq!(
            (findings.verdict.held_back, findings.instructions[0].activity),
            (HeldBack::No, ThreadActivity::OtherThreads)
        );
    }
}

#[test]
fn predecessors_that_disagree_are_undecided() {
    // 0: test rax,rax; 3: jne 8; 5: mov rbx,[r8]; 8: nop; 9: ret
    let code = [0x48, 0x85, 0xc0, 0x75, 0x03, 0x49, 0x8b, 0x18, 0x90, 0xc3];
    let findings = analyse(&run(&code, &[(8, None); 200]), None, &TimerOptions::default());
    assert_eq!(findings.overall.unwrap().undecided, 1.0);
    assert_eq!(findings.verdict.held_back, HeldBack::Unknown);
    assert_eq!(findings.verdict.confidence, Confidence::Low);
}

#[test]
fn filling_memory_waits_on_stores_wherever_its_pointer_comes_from() {
    // mov rcx,[rsi]; rep stosb; ret: the pointer is an argument.
    const ARGUMENT: [u8; 6] = [0x48, 0x8b, 0x0e, 0xf3, 0xaa, 0xc3];
    // mov rcx,[rsi]; lea rdi,[rdx]; rep stosb; ret
    const COMPUTED: [u8; 9] = [0x48, 0x8b, 0x0e, 0x48, 0x8d, 0x3a, 0xf3, 0xaa, 0xc3];
    let found = |code: &[u8], fill: u64| {
        // Even steps through a range would be a speed.
        let samples: Vec<_> = (0..600).map(|i| (fill, Some(scattered(i * i)))).collect();
        let (run, options) = (run(code, &samples), TimerOptions::default());
        let reading = crate::reading::Reading::of(&run, None, &options);
        let access = reading.findings.instructions[0].access.expect("an access");
        assert_eq!((access.addresses, access.next_address), (600, false));
        let objects: Vec<_> = reading.objects.objects;
        assert_eq!(objects.len(), 1);
        assert_eq!(
            (objects[0].samples, &objects[0].writers[..], &objects[0].readers[..]),
            (600, &[7][..], &[][..])
        );
        (reading.findings.verdict.held_back, reading.findings.overall.map(|split| split.stores))
    };
    let (held_back, stores) = found(&ARGUMENT, 3);
    assert_eq!(held_back, HeldBack::Yes);
    // Its bytes take some of the time in the first cache too.
    assert!(stores.is_some_and(|stores| (0.5..0.95).contains(&stores)), "{stores:?}");
    assert_eq!(found(&COMPUTED, 6), (held_back, stores));
}

#[test]
fn lines_shared_by_threads_are_not_taken_for_hits() {
    // add [r8],rax; nop; jmp 0
    let code = [0x49, 0x01, 0x00, 0x90, 0xeb, 0xfa];
    let samples: Vec<_> = (0..400).map(|i| (3, Some(0x5000 + i % 2 * 8))).collect();
    let alone = run(&code, &samples);
    assert!(split(&alone).loads < 0.01);
    let mut shared = alone.clone();
    shared.threads.push(RecordedThread { tid: 8, ..shared.threads[0].clone() });
    shared.samples.thread = (0..400).map(|i| ThreadId(i % 2)).collect();
    let findings = analyse(&shared, None, &TimerOptions::default());
    assert!(findings.overall.unwrap().loads > 0.9);
    assert_eq!(findings.threads.len(), 2);
    assert!(findings.threads.iter().all(|thread| (thread.user_share - 0.5).abs() < 1e-9));
}

#[test]
fn time_off_the_cpu_and_in_the_kernel_is_accounted() {
    let mut run = run(&DIVIDE, &[(4, None); 100]);
    run.about.slice_ns = 10_000_000;
    run.slices = (0..10)
        .map(|slice| Slice {
            thread: ThreadId(0),
            slice,
            running_ns: 12_000_000,
            blocked_ns: 3_000_000,
            preempted_ns: 1_000_000,
        })
        .collect();
    let findings = analyse(&run, None, &TimerOptions::default());
    assert_eq!(findings.account.user_ns, 1e8);
    assert_eq!(findings.account.kernel_ns.value(), Some(&2e7));
    assert_eq!(findings.account.blocked_ns.value(), Some(&3e7));
    assert_eq!(findings.account.total_ns(), Some(1.6e8));
    run.slices.clear();
    let findings = analyse(&run, None, &TimerOptions::default());
    assert!(findings.account.kernel_ns.missing().is_some() && findings.account.total_ns().is_none());
}

#[test]
fn times_are_the_kernels_where_records_were_lost() {
    let mut run = run(&DIVIDE, &[(4, None); 100]);
    let slice =
        Slice { thread: ThreadId(0), slice: 0, running_ns: 2e8 as u64, blocked_ns: 5, preempted_ns: 5 };
    run.slices = vec![slice];
    run.about.usage = Some(Usage { user_ns: 3e8 as u64, system_ns: 1e7 as u64, ..Usage::default() });
    let whole = analyse(&run, None, &TimerOptions::default());
    assert_eq!((whole.account.user_ns, whole.account.estimated), (3e8, Estimated::default()));
    assert_eq!((whole.threads[0].account.user_ns, whole.about.period_ns), (1e8, 1e6));
    run.about.lost_samples = Some(400);
    let holed = analyse(&run, None, &TimerOptions::default());
    assert_eq!((holed.account.user_ns, holed.account.kernel_ns.value()), (3e8, Some(&1e7)));
    assert_eq!(holed.account.estimated, Estimated { running: false, waiting: true });
    let thread = &holed.threads[0].account;
    assert_eq!((thread.user_ns, thread.estimated), (3e8, Estimated { running: true, waiting: true }));
    assert!(thread.user_ns + thread.kernel_ns.value().unwrap() <= 3e8);
    assert_eq!(holed.verdict.confidence, Confidence::Low);
    assert!(holed.remarks.iter().any(|remark| remark.contains("are estimates")), "{:?}", holed.remarks);
    // Attached to, or cut off: nobody but the samples tells, at most as many as were lost.
    run.about.usage = None;
    let alone = analyse(&run, None, &TimerOptions::default());
    assert_eq!((alone.account.user_ns, alone.about.period_ns), (5e8, 5e6));
    assert!(alone.account.estimated.running);
}

/// A hundred samples of 40 ms may be 3.4 or 4.6 s by chance: the kernel's account is believed where it lies within.
#[test]
fn few_slow_samples_stand_for_what_the_kernel_accounts() {
    let mut run = run(&DIVIDE, &[(4, None); 100]);
    run.about.period_ns = 4e7;
    run.about.slowed = Some(SlowedSampling { from_ns: 5, counted_before: 1.0 });
    let stands_for = |run: &record::run::Run| analyse(run, None, &TimerOptions::default());
    run.about.usage = Some(Usage { user_ns: 3_600_000_000, ..Usage::default() });
    let found = stands_for(&run);
    assert_eq!((found.about.period_ns, found.account.user_ns), (3.6e7, 3.6e9));
    assert!(found.account.estimated.waiting && found.threads[0].account.estimated.running);
    // Far more than chance explains: most of it ran where nobody sampled, and is not put on those samples.
    run.about.usage = Some(Usage { user_ns: 9_000_000_000, ..Usage::default() });
    assert!((stands_for(&run).about.period_ns / 5.2e7 - 1.0).abs() < 1e-9);
    run.about.usage = None;
    assert_eq!(stands_for(&run).about.period_ns, 4e7);
}

#[test]
fn intervals_of_high_load_waiting_are_flagged() {
    let wait = |i: u64| i >= 300;
    let samples: Vec<_> =
        (0..600).map(|i| if wait(i) { (3, Some(scattered(i))) } else { (15, None) }).collect();
    let findings = analyse(&run(&CHASE, &samples), None, &TimerOptions::default());
    let intervals = &findings.timeline.intervals;
    assert_eq!(intervals.len(), 60);
    assert!(intervals[..30].iter().all(|interval| !interval.flagged));
    assert!(intervals[30..].iter().all(|interval| interval.flagged));
}

#[test]
fn no_samples_say_so() {
    let findings = analyse(&run(&CHASE, &[]), None, &TimerOptions::default());
    assert_eq!(findings.overall, None);
    assert_eq!(findings.verdict.held_back, HeldBack::Unknown);
    assert!(!findings.advice.is_empty());
}

proptest! {
    #[test]
    fn shares_sum_to_one_whatever_the_code(
        code in proptest::collection::vec(any::<u8>(), 0..80),
        samples in proptest::collection::vec((0u64..100, proptest::option::of(any::<u64>())), 1..200),
        skid in 0u32..4,
        holes in any::<bool>(),
    ) {
        let mut run = run(&code, &samples);
        run.about.skid_instructions = skid;
        if holes {
            // As a truncated recording has it: indices that lead nowhere.
            run.threads.clear();
            run.modules.clear();
            run.lines[0].file = 9;
            run.places[0].function = Some(FunctionId(7));
            run.samples.place[0] = PlaceId(1000);
            run.samples.time_ns[0] = u64::MAX - 1;
            run.about.elapsed_ns = None;
        }
        let findings = analyse(&run, None, &TimerOptions::default());
        let whole = |split: &Split| {
            let shares: Vec<f64> = ThreadActivity::ALL.into_iter().map(|activity| split.share(activity)).collect();
            shares.iter().all(|share| (-1e-9..=1.0 + 1e-9).contains(share)) && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6
        };
        prop_assert!(findings.overall.as_ref().is_some_and(whole), "{:?}", findings.overall);
        prop_assert!(findings.symbols.iter().all(|symbol| whole(&symbol.split)));
        prop_assert!(findings.instructions.iter().all(|found| found.waiting_samples >= 0.0 && found.executing_samples >= -1e-9));
        let text = serde_json::to_string(&findings).unwrap();
        prop_assert_eq!(serde_json::from_str::<Findings>(&text).unwrap().instructions.len(), findings.instructions.len());
    }
}
