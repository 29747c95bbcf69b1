//! Whatever is asked, in whatever order: nothing panics, lines are not lost, writers are alone, inclusion holds.

use machine::{
    Bytes,
    model::{Inclusion, LinkModel, Model, Replacement},
};
use proptest::prelude::*;
use sim::{
    access::{MemoryPort, MemoryRequest, RequestKind},
    memory::{
        Disturbance, FrameOrder, MemoryOptions, MemorySystem, ModelFault, PagePlacement, PageSize,
        PrefetchSwitches,
    },
    time::Time,
};

/// Small machines of every kind.
fn machines() -> Vec<Model> {
    let tiny = Model::builtin("tiny").expect("a model");
    let link = LinkModel {
        links: 2,
        bytes_per_s: 10_000_000_000,
        line_bytes: 72,
        message_bytes: 8,
        latency_ns: 20.0,
        requests_in_flight: 8,
        forwards_clean: false,
    };
    let mut two = tiny.clone();
    (two.sockets, two.link) = (2, Some(link));
    two.sources.push(machine::model::SourceNote { what: "link".into(), from: "chosen".into() });
    let mut four_victims = two.clone();
    four_victims.sockets = 4;
    let mut two_forwarding = two.clone();
    if let Some(link) = &mut two_forwarding.link {
        link.forwards_clean = true;
    }
    if let Some(l3) = &mut four_victims.l3 {
        l3.inclusion = Inclusion::Victim;
        l3.geometry.size = Bytes::kib(16);
        l3.geometry.replacement = Replacement::Random;
    }
    let mut pairs = tiny.clone();
    (pairs.cores_per_socket, pairs.l2.shared_by_cores, pairs.l3) = (4, 2, None);
    pairs.l2.geometry.replacement = Replacement::Random;
    pairs.sources.retain(|note| !note.what.contains("l3"));
    pairs.sources.push(machine::model::SourceNote { what: "l1d, l2".into(), from: "chosen".into() });
    let mut pairs_with_l3 = tiny.clone();
    (pairs_with_l3.cores_per_socket, pairs_with_l3.l2.shared_by_cores) = (4, 2);
    vec![tiny, two, two_forwarding, four_victims, pairs, pairs_with_l3]
}

/// Few lines of a few pages, so that cores meet, and the edges of the address space.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0u64..600).prop_map(|line| (1 << 33) + line * 64),
        2 => (0u64..64).prop_map(|page| (1 << 34) + page * 4096),
        1 => (0u64..4096).prop_map(|below| u64::MAX - below),
        1 => any::<u64>(),
        1 => 0u64..256,
    ]
}

fn step() -> impl Strategy<Value = (usize, u8, u64, u64)> {
    (0usize..8, 0u8..12, address(), 0u64..200_000)
}

fn options() -> impl Strategy<Value = MemoryOptions> {
    let switches = any::<[bool; 4]>().prop_map(|[l1_next_line, l1_stride, l2_adjacent, l2_streamer]| {
        PrefetchSwitches { l1_next_line, l1_stride, l2_adjacent, l2_streamer }
    });
    let disturbance = prop::option::of(Just(Disturbance { memory_lines_per_s: 1e8, l3_lines_per_s: 1e9 }));
    (switches, any::<u64>(), any::<[bool; 3]>(), disturbance).prop_map(
        |(prefetchers, seed, [huge, interleave, scattered], disturbance)| MemoryOptions {
            prefetchers,
            seed,
            page_size: if huge { PageSize::Huge } else { PageSize::Small },
            placement: if interleave { PagePlacement::Interleave } else { PagePlacement::FirstTouch },
            frames: if scattered { FrameOrder::Scattered } else { FrameOrder::InOrder },
            disturbance,
        },
    )
}

fn kind(choice: u8) -> RequestKind {
    match choice {
        0..=4 => RequestKind::Load,
        5..=8 => RequestKind::Store,
        9 => RequestKind::StoreNonTemporal,
        10 => RequestKind::Prefetch,
        _ => RequestKind::Fetch,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(
        machine in 0usize..5,
        options in options(),
        steps in prop::collection::vec(step(), 1..1500),
    ) {
        let model = &machines()[machine];
        let mut memory = MemorySystem::new(model, options).expect("a valid model");
        memory.map((1 << 33)..(1 << 33) + 4096, 1, PageSize::Small);
        let mut now = 1_000_000;
        for (n, (core, choice, address, passed)) in steps.into_iter().enumerate() {
            // Time goes forward, but requests may look back a little.
            now += passed;
            let at = Time(now - passed % 3 * 100_000 % now);
            let core = core % memory.cores();
            let instruction = 0x400 + (address % 7) * 4;
            let response = memory.access(&MemoryRequest { core, kind: kind(choice), address, at, instruction });
            prop_assert!(response.ready > at && response.accepted >= at);
            if n % 200 == 0 {
                memory.set_core_clock(core, 500_000_000 + n as u64);
                prop_assert_eq!(memory.audit(), Vec::<String>::new());
            }
        }
        (0..memory.cores()).for_each(|core| _ = memory.drain_write_combining(core, Time(now)));
        prop_assert_eq!(memory.audit(), Vec::<String>::new());
        let stats: Vec<_> = (0..memory.cores()).map(|core| *memory.core_stats(core)).collect();
        for stats in stats {
            let loads: u64 = stats.loads_by_supplier.iter().sum();
            let stores: u64 = stats.stores_by_supplier.iter().sum();
            prop_assert_eq!((loads, stores), (stats.loads, stats.stores));
        }
    }
}

#[test]
fn models_that_cannot_be_built_say_so() {
    let mut model = Model::builtin("tiny").expect("a model");
    model.l1d.geometry.ways = 0;
    let fault = MemorySystem::new(&model, MemoryOptions::default()).err().expect("no ways, no cache");
    assert!(matches!(fault, ModelFault::Invalid(_)), "{fault}");
    let mut model = Model::builtin("emerald-rapids").expect("a model");
    model.cores_per_socket = 128;
    let fault = MemorySystem::new(&model, MemoryOptions::default()).err().expect("too many");
    assert_eq!(fault, ModelFault::TooManyL2s { l2s: 128 });
}

#[test]
fn every_model_can_be_built_and_used() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).expect("a model");
        let mut memory = MemorySystem::new(&model, MemoryOptions::default()).expect("a valid model");
        for core in [0, memory.cores() - 1] {
            for n in 0..2000u64 {
                let kind = kind((n % 12) as u8);
                let at = Time(n * 1_000_000);
                memory.access(&MemoryRequest { core, kind, address: n * 72, at, instruction: 0 });
            }
        }
        assert_eq!(memory.overcommitted_pages(), 0, "{name}");
    }
}
