//! A hash join made up by hand: its findings, its data, its code, its samples over time.

use analysis::findings::{
    AccessPattern, Account, AllocatedBytes, Confidence, Estimated, FindingSubject, Findings, Flagged,
    FlaggedPart, HeldBack, InstructionFinding, KnownLimits, LevelFindings, LevelLimit, LevelPart,
    LimitFindings, LineUse, Nature, ObjectFinding, ObjectId, ObjectKind, ObjectPages, ObjectSharing,
    ObjectSite, ObjectUse, Objects, Pattern, Rate, SCHEMA, SharedLine, SourceLine, Split, StreamLimit,
    SymbolFinding, ThreadActivity, ThreadFinding, TimeShare, Timeline, TimelineInterval, Verdict, WaitLevel,
};
use analysis::{
    hybrid::{HybridFindings, HybridInterval, HybridPart},
    listing::{AnnotatedFunction, AnnotatedLine},
    reading::SamplePart,
    regions::{RegionFinding, RegionThread, RegionWaiting},
    views::{
        EventLine, EventRow, EventTable, EventViews, EventsOverTime, RegionView, StalledShare, ViewedEvent,
        ViewedKind, ViewedSymbol,
    },
};
use machine::profile::LevelName;
use record::{
    ids::{FunctionId, ModuleId, ThreadId},
    run::{Ending, ModuleKind, Usage},
    sampled::EventPace,
};
use report::html::{Aggregate, CallNode, CallTree, RunPage, SourceText};

use crate::profiles;

/// Samples of the example, and nanoseconds each stands for.
const SAMPLES: u64 = 6000;
const PERIOD_NS: u64 = 1_000_000;
/// Intervals of its time line.
pub const INTERVALS: u64 = 60;

pub fn share(value: f64) -> TimeShare {
    TimeShare { value, low: (value - 0.02).max(0.0), high: (value + 0.02).min(1.0) }
}

fn split(samples: u64, loads: f64, stores: f64) -> Split {
    let executing = (0.95 - loads - stores).max(0.0);
    Split {
        samples,
        loads,
        stores,
        atomics: 0.005,
        divides: 0.0,
        chains: 0.015,
        first_cache: 0.0,
        other_threads: 0.0,
        branches: 0.01,
        executing,
        undecided: (0.97 - loads - stores - executing).max(0.0),
    }
}

fn account(user_ns: f64) -> Account {
    Account {
        user_ns,
        kernel_ns: KnownLimits::Value(4e7),
        blocked_ns: KnownLimits::Value(3.1e8),
        preempted_ns: KnownLimits::Missing("the kernel gave no context-switch records".to_owned()),
        estimated: Estimated::default(),
    }
}

/// Name, share of user time, loads, stores.
pub const SYMBOLS: [(&str, f64, f64, f64); 6] = [
    ("join::probe(join::Table const&, std::span<join::Row const>)", 0.56, 0.86, 0.01),
    ("join::build(join::Table&, std::span<join::Row const>)", 0.24, 0.31, 0.42),
    (
        "std::_Hashtable<unsigned long, std::pair<unsigned long const, join::Row>, std::allocator<std::pair<unsigned long const, join::Row> > >::_M_find_node(unsigned long) const",
        0.09,
        0.55,
        0.0,
    ),
    ("join::checksum(std::span<std::uint64_t const>)", 0.06, 0.12, 0.0),
    ("main", 0.03, 0.05, 0.1),
    ("__memmove_avx512_unaligned_erms", 0.02, 0.4, 0.3),
];

pub fn symbol(index: usize) -> SymbolFinding {
    let (name, user, loads, stores) = SYMBOLS[index];
    SymbolFinding {
        name: name.to_owned(),
        function: Some(FunctionId(index as u32)),
        symbol: None,
        module_id: ModuleId(u32::from(index == 5)),
        module: if index == 5 { "/usr/lib/x86_64-linux-gnu/libc.so.6" } else { "/opt/app/bin/join" }
            .to_owned(),
        module_kind: ModuleKind::File,
        user_share: share(user),
        split: split((user * SAMPLES as f64) as u64, loads, stores),
        flagged_share: if index == 0 { 0.97 } else { 0.2 },
        top: vec![index],
    }
}

pub fn instruction(index: usize) -> InstructionFinding {
    let (_, user, loads, _) = SYMBOLS[index];
    let samples = user * SAMPLES as f64 * 0.9;
    let texts = [
        "mov rax,[r8+rdx*8+10h]",
        "mov [rdi+rcx*8],rax",
        "mov rsi,[rsi]",
        "add rbx,[rdi+rax*8]",
        "div rcx",
        "vmovdqu64 [rdi],zmm16",
    ];
    let patterns = [
        Pattern::Random,
        Pattern::Random,
        Pattern::PointerChasing,
        Pattern::Streaming,
        Pattern::Unknown,
        Pattern::Streaming,
    ];
    InstructionFinding {
        symbol: index,
        address: [0x1840, 0x1620, 0x2210, 0x2ae0, 0x1104, 0x9_8a40][index],
        text: Some(texts[index].to_owned()),
        source: (index < 5).then(|| SourceLine::new("/home/dev/join/src/join.cpp", 40 + 7 * index as u32)),
        activity: if index == 1 { ThreadActivity::Stores } else { ThreadActivity::Loads },
        waiting_samples: samples * loads,
        executing_samples: samples * (1.0 - loads),
        undecided_samples: 0.0,
        user_share: share(user * 0.9),
        access: Some(AccessPattern {
            pattern: patterns[index],
            addresses: 900,
            next_address: false,
            span: Some((0x7f00_0000_0000, 0x7f00_0400_0000)),
            stride_bytes: None,
            advance: None,
        }),
    }
}

/// The run builds for its first third, then probes.
fn probing(interval: u64, of: u64) -> bool {
    interval * 3 >= of
}

fn timeline() -> Timeline {
    let interval = |index: u64| {
        let wobble = ((index * 7) % 11) as f64 / 100.0;
        let loads = if probing(index, INTERVALS) { 0.78 + wobble } else { 0.24 + wobble };
        let idle = index == 19;
        TimelineInterval {
            start_ns: index * 50_000_000,
            samples: if idle { 0 } else { 100 },
            loads: (!idle).then_some(loads),
            memory: (!idle).then_some((loads + if probing(index, INTERVALS) { 0.02 } else { 0.31 }).min(1.0)),
            running_threads: Some(1.9),
            flagged: !idle && loads > 0.4,
        }
    };
    Timeline {
        interval_ns: 50_000_000,
        threshold: 0.4,
        measured_here: true,
        intervals: (0..INTERVALS).map(interval).collect(),
    }
}

fn threads() -> Vec<ThreadFinding> {
    let thread = |(tid, name, user_share): (u32, &str, f64)| ThreadFinding {
        id: ThreadId(tid - 4100),
        tid,
        pid: 4100,
        name: name.to_owned(),
        user_share,
        split: Some(split((user_share * SAMPLES as f64) as u64, 0.66, 0.12)),
        account: account(user_share * 6e9),
    };
    [(4101, "worker-0", 0.51), (4102, "worker-1", 0.46), (4100, "join", 0.03)].map(thread).to_vec()
}

pub fn findings() -> Findings {
    Findings {
        levels: KnownLimits::Value(LevelFindings {
            parts: vec![LevelPart { level: WaitLevel::Memory, share: 0.6 }],
            unknown: 0.0,
            or: None,
            by_time: None,
            perhaps: None,
            earned: None,
        }),
        schema: SCHEMA.to_owned(),
        about: FindingSubject {
            memwall: "0.1.0".to_owned(),
            command: ["./join", "--rows", "64M", "--threads", "2"].map(str::to_owned).to_vec(),
            attached: None,
            started_at: profiles::MEASURED_AT,
            machine: "5f1c09a2b7d3".to_owned(),
            elapsed_ns: KnownLimits::Value(3_020_000_000),
            ending: Ending::Exited(0),
            usage: KnownLimits::Value(Usage::default()),
            samples: SAMPLES,
            lost_samples: KnownLimits::Value(0),
            period_ns: PERIOD_NS as f64,
            processes: 1,
            threads: 3,
        },
        verdict: Verdict {
            held_back: HeldBack::Yes,
            memory: Some(share(0.76)),
            memory_of_work: None,
            loads: Some(share(0.64)),
            largest: Some(ThreadActivity::Loads),
            largest_share: Some(share(0.64)),
            nature: KnownLimits::Value(Nature::Latency),
            trust: KnownLimits::Missing("not validated".to_owned()),
            consulted: Vec::new(),
            confidence: Confidence::High,
            reasons: vec!["6000 samples, 2 % of them undecided".to_owned()],
        },
        overall: Some(split(SAMPLES, 0.64, 0.115)),
        account: account(6e9),
        threads: threads(),
        symbols: (0..SYMBOLS.len()).map(symbol).collect(),
        instructions: (0..SYMBOLS.len()).map(instruction).collect(),
        timeline: timeline(),
        limits: limits(),
        loads: KnownLimits::Missing("nobody asked for them".to_owned()),
        relief: analysis::findings::ReliefFindings::default(),
        advice: vec![
            "Make the table that join::probe reads smaller or nearer: its loads land all over 64 MiB, six times what one core can use of L3.".to_owned(),
            "Fetch several keys ahead of their use: the probes do not depend on each other.".to_owned(),
        ],
        remarks: vec!["Time waiting for a CPU is not known: the kernel gave no context-switch records.".to_owned()],
    }
}

fn limits() -> LimitFindings {
    LimitFindings {
        levels: KnownLimits::Value(vec![LevelLimit {
            name: LevelName::Cache(1),
            usable_bytes: Some(48128.0),
            latency_ns: Some(1.34),
            one_core_bytes_per_s: Some(4.5e11),
            all_cores_bytes_per_s: None,
        }]),
        streams: KnownLimits::Value(StreamLimit {
            level: Some(WaitLevel::Memory),
            per_thread: Rate { bytes_per_s: 4.1e9, low: 3.8e9, high: 4.4e9, pairs: 410 },
            together_bytes_per_s: 7.8e9,
            limit_bytes_per_s: KnownLimits::Value(2.18e10),
            of_limit: Some(0.36),
            of_limit_at_most: None,
        }),
        running_threads: KnownLimits::Value(1.9),
    }
}

fn object(name: &str, kind: ObjectKind, size: u64, loads: f64, uses: &[usize]) -> ObjectFinding {
    let heap = kind == ObjectKind::Heap;
    ObjectFinding {
        id: ObjectId::Unknown,
        name: name.to_owned(),
        kind,
        site: heap.then(|| ObjectSite {
            function: "join::Table::Table(std::size_t)".to_owned(),
            module: "/opt/app/bin/join".to_owned(),
            address: 0x15f2,
            source: Some(SourceLine::new("/home/dev/join/src/table.cpp", 18)),
            callers: vec!["main".to_owned(), "__libc_start_main".to_owned()],
        }),
        size_bytes: if size > 0 {
            KnownLimits::Value(size)
        } else {
            KnownLimits::Missing("the mapping grew meanwhile".to_owned())
        },
        blocks: 1,
        allocated: heap.then_some(AllocatedBytes { bytes: size as f64, error: 0.0, noted: 1 }),
        samples: (loads * SAMPLES as f64 * 0.7) as u64 + 30,
        next_address_samples: 0,
        load_waiting: share(loads),
        other_waiting: loads / 3.0,
        pattern: Pattern::Random,
        readers: vec![4101, 4102],
        writers: vec![4101],
        reader_ids: vec![ThreadId(1), ThreadId(2)],
        writer_ids: vec![ThreadId(1)],
        pages: KnownLimits::Value(ObjectPages { mapped_bytes: size, huge_bytes: 0, nodes: vec![(0, size)] }),
        symbols: uses
            .iter()
            .map(|&symbol| ObjectUse {
                symbol,
                samples: 900,
                waiting_on_loads: 800.0 * loads,
                writes: symbol == 1,
            })
            .collect(),
    }
}

pub fn objects() -> Objects {
    Objects {
        addressed: Some(share(0.93)),
        objects: vec![
            object("block of 64 MiB from join::Table::Table", ObjectKind::Heap, 64 << 20, 0.83, &[0, 1, 2]),
            object("block of 8 MiB from join::read_rows", ObjectKind::Heap, 8 << 20, 0.09, &[0, 3]),
            object("g_counters", ObjectKind::Global, 128, 0.05, &[0, 4]),
            object("stack of thread 4101", ObjectKind::Stack, 0, 0.01, &[2]),
        ],
        shared_lines: vec![SharedLine {
            address: 0x40_4080,
            object: Some(2),
            sharing: ObjectSharing::False,
            samples: 240,
            waiting: share(0.05),
            uses: vec![
                LineUse { thread: ThreadId(1), tid: 4101, offset: 0, symbol: 0, writes: true, samples: 130 },
                LineUse { thread: ThreadId(2), tid: 4102, offset: 8, symbol: 4, writes: true, samples: 110 },
            ],
        }],
        flagged: Some(Flagged {
            intervals: 40,
            samples: SAMPLES * 2 / 3,
            symbols: vec![FlaggedPart { index: 0, samples: 3300, load_waiting: share(0.91) }],
            objects: vec![FlaggedPart { index: 0, samples: 3200, load_waiting: share(0.88) }],
        }),
        remarks: vec![
            "Addresses of 7 % of the memory samples could not be recovered from their registers.".to_owned(),
        ],
    }
}

pub fn functions() -> Vec<AnnotatedFunction> {
    let body = [
        "push rbx",
        "mov r8,[rdi]",
        "mov r9,[rdi+8]",
        "xor ecx,ecx",
        "mov rdx,[rsi+rcx*8]",
        "imul rdx,r10",
        "shr rdx,40",
        "mov rax,[r8+rdx*8+10h]",
        "cmp rax,[rsi+rcx*8]",
        "jne 1860h",
        "inc rbx",
        "inc rcx",
        "cmp rcx,r9",
        "jb 1830h",
        "mov rax,rbx",
        "pop rbx",
        "ret",
    ];
    let line = |(at, text): (usize, &&str)| AnnotatedLine {
        address: 0x1808 + 8 * at as u64,
        text: (*text).to_owned(),
        source: Some(SourceLine::new("/home/dev/join/src/join.cpp", 38 + at as u32 / 3)),
        samples: if at == 7 {
            3024.0
        } else if (4..10).contains(&at) {
            60.0
        } else {
            0.0
        },
        waiting: if at == 7 { 2600.0 } else { 0.0 },
        activity: if at == 7 { ThreadActivity::Loads } else { ThreadActivity::Executing },
    };
    let mut lines: Vec<AnnotatedLine> = body.iter().enumerate().map(line).collect();
    lines[7].address = 0x1840;
    vec![AnnotatedFunction { symbol: 0, lines }]
}

pub fn sources() -> Vec<SourceText> {
    let text = [
        "std::size_t probe(Table const& table, std::span<Row const> rows) {",
        "    for (Row const& row : rows) {",
        "        std::size_t const slot = hash(row.key) >> table.shift;",
        "        if (table.slots[slot].key == row.key) {",
        "            ++hits;",
        "        }",
        "    }",
    ];
    vec![SourceText {
        file: "/home/dev/join/src/join.cpp".to_owned(),
        first_line: 38,
        lines: text.map(str::to_owned).to_vec(),
    }]
}

/// Samples that agree with the findings: build first, probe later.
pub fn aggregate(findings: &Findings) -> Aggregate {
    let one = |activity: ThreadActivity| {
        let mut parts = [0.0; ThreadActivity::ALL.len()];
        parts[activity as usize] = 1.0;
        parts
    };
    let span = INTERVALS * findings.timeline.interval_ns;
    let seen = (0..SAMPLES).map(|index| {
        let time_ns = index * span / SAMPLES;
        let late = probing(index, SAMPLES);
        let waits = index % 10 < if late { 8 } else { 3 };
        SamplePart {
            time_ns,
            thread: (index % 2) as usize,
            instruction: match (late, index % 12) {
                (true, 0) => 2,
                (true, 1) => 3,
                (true, _) => 0,
                (false, 0) => 4,
                (false, _) => 1,
            },
            object: Some(usize::from(index % 9 == 0)),
            parts: one(match (waits, late) {
                (true, _) => ThreadActivity::Loads,
                (false, true) => ThreadActivity::Executing,
                (false, false) => ThreadActivity::Stores,
            }),
        }
    });
    Aggregate::collect(findings, 4, seen)
}

/// The page of the example, after `change` to its findings and data.
pub fn join(change: impl FnOnce(&mut Findings, &mut Objects, &mut Vec<AnnotatedFunction>)) -> String {
    let (mut findings, mut objects, mut functions) = (findings(), objects(), functions());
    let aggregate = aggregate(&findings);
    change(&mut findings, &mut objects, &mut functions);
    let profile = profiles::guest();
    report::html::run(&RunPage {
        findings: &findings,
        objects: Some(&objects),
        profile: Some(&profile),
        functions: &functions,
        sources: &sources(),
        source_remark: None,
        surroundings: None,
        views: Some(&views()),
        hybrid: Some(&hybrid()),
        import: None,
        aggregate: Some(&aggregate),
        calls: Some(&calls()),
        regions: &regions(),
        scaling: None,
        patterns: &[],
    })
}

/// Two regions with samples, and one that was too short for any.
fn regions() -> Vec<RegionFinding> {
    let region = |name: &str, user_share: f64, wall_ns: [u64; 2]| {
        let thread = |(index, wall_ns): (usize, u64)| RegionThread {
            id: ThreadId(index as u32),
            tid: 4100 + index as u32,
            visits: 10,
            wall_ns,
            waits_ns: None,
            counts: None,
        };
        RegionFinding {
            name: name.to_owned(),
            is_parallel: false,
            visits: 20,
            unended: 0,
            wall_ns: wall_ns.iter().sum(),
            threads: wall_ns.into_iter().enumerate().map(thread).collect(),
            waits_ns: None,
            counts: None,
            imbalance: Some(1.0 - wall_ns[1] as f64 / wall_ns[0] as f64),
            samples: (user_share * 6000.0) as u64,
            user_share,
            waiting: None,
        }
    };
    let waiting = RegionWaiting {
        held_back: HeldBack::Yes,
        memory: Some(share(0.81)),
        memory_of_work: None,
        confidence: Confidence::Medium,
        split: split(SAMPLES, 0.64, 0.115),
        level: None,
        object: None,
        symbols: Vec::new(),
    };
    vec![
        RegionFinding { waiting: Some(waiting), ..region("probe", 0.7, [2_000_000_000, 1_900_000_000]) },
        region("build", 0.25, [900_000_000, 300_000_000]),
        region("open", 0.0, [20_000, 10_000]),
    ]
}

/// Who called whom; the first function of the example has samples of its own, the last is too narrow to be drawn.
pub fn calls() -> CallTree {
    let node = |parent: usize, name: &str, symbol: Option<usize>, samples: u64, waiting: f64| CallNode {
        parent,
        name: name.to_owned(),
        symbol,
        samples,
        waiting,
    };
    CallTree {
        nodes: vec![
            node(0, "all threads", None, 6000, 3900.0),
            node(0, "start_thread", None, 5800, 3890.0),
            node(1, "join::worker(join::Table&)", None, 5700, 3880.0),
            node(2, SYMBOLS[0].0, Some(0), 3360, 2900.0),
            node(2, SYMBOLS[1].0, Some(1), 1440, 980.0),
            node(4, "seldom_called", None, 2, 0.0),
        ],
        alone: 40,
        left_out: 7,
    }
}

/// A signature as long as templates make them.
pub fn long_signature() -> String {
    let matrix = "ROOT::Math::SMatrix<double, 5u, 5u, ROOT::Math::MatRepStd<double, 5u, 5u> >";
    format!(
        "{matrix}& {matrix}::operator=<{matrix}>(ROOT::Math::Expr<{matrix}, double, 5u, 5u> const&) const"
    )
}

/// Cycles and stalled cycles of the example by function and region.
pub fn views() -> EventViews {
    let event = |name: &str, kind, samples, pace| ViewedEvent {
        name: name.to_owned(),
        kind,
        samples,
        in_kernel: 0,
        period: Some(100_000.0),
        pace,
        refusal: None,
    };
    let every = Some(EventPace::Every(100_000));
    let refused = ViewedEvent {
        refusal: Some("this machine does not sample it".to_owned()),
        ..event("node-load-misses", ViewedKind::Event, 0.0, Some(EventPace::PerSecond(1000)))
    };
    let stalled = |value: f64| Some(StalledShare { value, low: value - 0.05, high: value + 0.05 });
    let symbol = |index: usize| ViewedSymbol {
        signature: SYMBOLS[index].0.to_owned(),
        library: symbol(index).module,
        function: Some(FunctionId(index as u32)),
        finding: Some(index),
        stalled: stalled(SYMBOLS[index].2),
    };
    let mut symbols: Vec<ViewedSymbol> = (0..SYMBOLS.len()).map(symbol).collect();
    symbols.push(ViewedSymbol {
        signature: long_signature(),
        library: "/opt/app/lib/libTrackingToolsPatternTools.so".to_owned(),
        function: None,
        finding: None,
        stalled: None,
    });
    let table = |event: usize, samples: f64, parts: &[(usize, f64)]| EventTable {
        event,
        samples,
        rows: parts
            .iter()
            .map(|&(symbol, share)| EventRow { symbol, samples: share * samples, share })
            .collect(),
        left_out: 3,
    };
    let region = |name: Option<&str>, shares: [f64; 2], stall: f64, tables| RegionView {
        name: name.map(str::to_owned),
        is_parallel: false,
        shares: vec![Some(shares[0]), Some(shares[1]), None],
        stalled: stalled(stall),
        tables,
    };
    EventViews {
        events: vec![
            event("cycles:u", ViewedKind::Event, 6000.0, every),
            event("cpu/uops_executed.stall_cycles/u", ViewedKind::Event, 3900.0, every),
            refused,
        ],
        cycles: Some(0),
        stalled: Some(1),
        symbols,
        by_symbol: vec![
            table(0, 6000.0, &[(0, 0.56), (1, 0.24), (2, 0.09), (3, 0.06), (4, 0.03), (6, 0.02)]),
            table(1, 3900.0, &[(0, 0.7), (2, 0.2), (1, 0.08), (6, 0.02)]),
        ],
        by_region: vec![
            region(
                Some("probe"),
                [0.7, 0.85],
                0.79,
                vec![
                    table(0, 4200.0, &[(0, 0.8), (2, 0.13), (6, 0.07)]),
                    table(1, 3315.0, &[(0, 0.82), (2, 0.18)]),
                ],
            ),
            region(Some("build"), [0.25, 0.14], 0.36, vec![table(0, 1500.0, &[(1, 0.96), (5, 0.04)])]),
            region(None, [0.05, 0.01], 0.13, vec![table(0, 300.0, &[(4, 1.0)])]),
        ],
        regions_left_out: 0,
        over_time: EventsOverTime {
            interval_ns: 50_000_000,
            lines: (0..2).map(|event| EventLine { event, per_second: over_time(event as f64) }).collect(),
            stalled: over_time(0.0).iter().map(|rate| rate.map(|rate| rate / 4e9)).collect(),
        },
    }
}

fn over_time(less: f64) -> Vec<Option<f64>> {
    (0..INTERVALS)
        .map(|index| Some(if probing(index, INTERVALS) { 3.1e9 - less * 1e9 } else { 2e9 }))
        .collect()
}

/// The last two thirds are short of bandwidth.
pub fn hybrid() -> KnownLimits<HybridFindings> {
    let part = |name: &str, module: Option<&str>, loads: u64| HybridPart {
        name: name.to_owned(),
        module: module.map(str::to_owned),
        loads,
        share: share(loads as f64 / 1000.0),
    };
    let intervals = (0..INTERVALS).map(|index| HybridInterval {
        start_ns: index * 50_000_000,
        end_ns: (index + 1) * 50_000_000,
        latency_cycles: (index != 19).then(|| if probing(index, INTERVALS) { 310.0 } else { 60.0 }),
        flagged: index != 19 && probing(index, INTERVALS),
    });
    KnownLimits::Value(HybridFindings {
        threshold_cycles: 212.0,
        source: "samples of L1D_PEND_MISS.PENDING, MEM_LOAD_RETIRED.L1_MISS, MEM_LOAD_RETIRED.FB_HIT"
            .to_owned(),
        intervals: intervals.collect(),
        flagged: 40,
        slow_loads: 1100,
        walked_loads: 0,
        blamed_loads: 1000,
        functions: vec![part(SYMBOLS[0].0, Some("/opt/app/bin/join"), 900), part(SYMBOLS[2].0, None, 100)],
        objects: vec![part("block of 64 MiB from join::Table::Table(std::size_t)", None, 980)],
    })
}
