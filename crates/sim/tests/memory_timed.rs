//! The timed memory system, asked by a driver that stands for a core with a window without end: it waits for a fill
//! buffer and for nothing else, unless told to.

use machine::model::Model;
use sim::{
    access::{MemoryPort, MemoryRequest, RequestKind, Response, Supplier},
    memory::{Disturbance, MemoryOptions, MemorySystem, PageSize, PrefetchSwitches},
    time::Time,
};

/// Where buffers begin.
const BASE: u64 = 1 << 30;
const HASWELL: &str = "haswell-ep-e5-2680v3";

fn model(name: &str) -> Model {
    Model::builtin(name).expect("a model of that name")
}

fn quiet() -> MemoryOptions {
    MemoryOptions {
        prefetchers: PrefetchSwitches::OFF,
        page_size: PageSize::Huge,
        ..MemoryOptions::default()
    }
}

fn system(model: &Model, options: MemoryOptions) -> MemorySystem {
    MemorySystem::new(model, options).expect("a valid model")
}

/// One core that asks.
struct Driver {
    core: usize,
    now: Time,
    cycle: Time,
}

impl Driver {
    fn new(model: &Model, core: usize) -> Self {
        Self { core, now: Time::ZERO, cycle: Time::cycle_of(model.clock.core_hz) }
    }

    fn ask(&self, memory: &mut MemorySystem, kind: RequestKind, address: u64) -> Response {
        memory.access(&MemoryRequest { core: self.core, kind, address, at: self.now, instruction: 0x40_1000 })
    }

    /// Waits for the answer; the cycles it took.
    fn wait(&mut self, memory: &mut MemorySystem, kind: RequestKind, address: u64) -> (f64, Response) {
        let response = self.ask(memory, kind, address);
        let cycles = response.ready.since(self.now).0 as f64 / self.cycle.0 as f64;
        self.now = self.now.max(response.ready);
        (cycles, response)
    }

    /// Asks for `bytes` from `base` in steps of 32 without waiting for data, two requests per cycle; gives GB/s.
    fn stream(&mut self, memory: &mut MemorySystem, kind: RequestKind, base: u64, bytes: u64) -> f64 {
        let (begin, mut last) = (self.now, self.now);
        for (n, address) in (base..base + bytes).step_by(32).enumerate() {
            let response = self.ask(memory, kind, address);
            last = last.max(response.ready);
            let step = if n % 2 == 1 { self.cycle } else { Time::ZERO };
            self.now = (self.now + step).max(response.accepted);
        }
        self.now = self.now.max(last);
        bytes as f64 / self.now.since(begin).ns()
    }
}

/// GB/s of a stream: with caches cold, or warmed by a pass before.
fn bandwidth(model: &Model, options: MemoryOptions, kind: RequestKind, bytes: u64, warm: bool) -> f64 {
    let mut memory = system(model, options);
    let mut driver = Driver::new(model, 0);
    if warm {
        driver.stream(&mut memory, kind, BASE, bytes);
    }
    let rate = driver.stream(&mut memory, kind, BASE, bytes);
    assert_eq!(memory.audit(), Vec::<String>::new());
    rate
}

/// Cycles per load of a chase through `lines` lines in an order without streams, in caches warmed by a pass or cold.
fn chase(model: &Model, options: MemoryOptions, lines: u64, warm: bool, node: u32) -> f64 {
    let mut memory = system(model, options);
    let mut driver = Driver::new(model, 0);
    memory.map(BASE..BASE + lines * 64, node, PageSize::Huge);
    let address = |n: u64| BASE + n.wrapping_mul(0x9e37_79b1) % lines * 64;
    // One line of each huge page, so that no walk is left to do.
    for page in (BASE..BASE + lines * 64).step_by(2 << 20) {
        driver.wait(&mut memory, RequestKind::Load, page);
    }
    if warm {
        (0..lines).for_each(|n| _ = driver.wait(&mut memory, RequestKind::Load, address(n)));
    }
    let total: f64 = (1..lines).map(|n| driver.wait(&mut memory, RequestKind::Load, address(n)).0).sum();
    total / (lines - 1) as f64
}

/// GB/s of `cores` cores, each with a cold stream of its own on package `node`.
fn together(model: &Model, kind: RequestKind, cores: usize, bytes: u64, node: u32) -> f64 {
    let mut memory = system(model, MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() });
    let mut drivers: Vec<Driver> = (0..cores).map(|core| Driver::new(model, core)).collect();
    let base = |core: usize| (core as u64 + 1) << 32;
    (0..cores).for_each(|core| memory.map(base(core)..base(core) + bytes, node, PageSize::Huge));
    let mut done = vec![0; cores];
    // The one that is farthest behind goes next, two lines at a time.
    while let Some(core) = (0..cores).filter(|&core| done[core] < bytes).min_by_key(|&core| drivers[core].now)
    {
        for _ in 0..4 {
            let response = drivers[core].ask(&mut memory, kind, base(core) + done[core]);
            let half = Time(drivers[core].cycle.0 / 2);
            drivers[core].now = (drivers[core].now + half).max(response.accepted);
            done[core] += 32;
        }
    }
    let end = drivers.iter().map(|driver| driver.now).max().unwrap_or(Time::ZERO);
    (cores as u64 * bytes) as f64 / end.ns()
}

fn near(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() <= share
}

#[test]
fn idle_latencies_are_those_of_the_model() {
    for name in [HASWELL, "nehalem-ep-x5570", "broadwell-ex-e7-8890v4"] {
        let model = model(name);
        let expected = model.idle_latencies();
        let ns = |cycles: f64| cycles * 1e9 / model.clock.core_hz as f64;
        for (what, found, expected) in [
            ("L1", ns(chase(&model, quiet(), 256, true, 0)), Some(expected.l1_ns)),
            ("L2", ns(chase(&model, quiet(), 2048, true, 0)), Some(expected.l2_ns)),
            ("L3", ns(chase(&model, quiet(), 10_007, true, 0)), expected.l3_ns),
            ("local", ns(chase(&model, quiet(), 3001, false, 0)), Some(expected.local_ns)),
            ("remote", ns(chase(&model, quiet(), 3001, false, 1)), expected.remote_ns),
        ] {
            let expected = expected.expect("the model has this level");
            assert!(near(found, expected, 0.02), "{name} {what}: {found} ns, expected {expected}");
        }
    }
}

#[test]
fn a_victim_cache_serves_what_the_l2_dropped() {
    let model = model("emerald-rapids");
    let expected = model.idle_latencies();
    let cycles_ns = 1e9 / model.clock.core_hz as f64;
    // Twice the L2: all of it passes the L3 in each round.
    let found = chase(&model, quiet(), 65_537, true, 0) * cycles_ns;
    assert!(near(found, expected.l3_ns.expect("an L3"), 0.03), "{found} ns");
    let local = chase(&model, quiet(), 3001, false, 0) * cycles_ns;
    assert!(near(local, expected.local_ns, 0.02), "{local} ns");
}

#[test]
fn bandwidth_follows_little() {
    let whole = model(HASWELL);
    let rate = |model: &Model| bandwidth(model, quiet(), RequestKind::Load, 1 << 20, false);
    let full = rate(&whole);
    let mut fewer = whole.clone();
    fewer.l1d.misses_in_flight /= 2;
    assert!(near(rate(&fewer), full / 2.0, 0.15), "{} of {full}", rate(&fewer));
    let mut slower = whole.clone();
    slower.memory.idle_latency_ns += whole.idle_latencies().local_ns;
    assert!(near(rate(&slower), full / 2.0, 0.15), "{} of {full}", rate(&slower));
    let cycles = [&whole, &fewer].map(|model| chase(model, quiet(), 3001, false, 0));
    assert_eq!(cycles[0], cycles[1], "a chase has one miss at a time");
}

#[test]
fn prefetchers_help_streams_and_can_be_switched() {
    let model = model(HASWELL);
    let on = MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() };
    let rate = |options, bytes, warm| bandwidth(&model, options, RequestKind::Load, bytes, warm);
    let (with, without) = (rate(on, 2 << 20, false), rate(quiet(), 2 << 20, false));
    assert!(with > 1.2 * without, "memory: {with} with, {without} without");
    let (with, without) = (rate(on, 2 << 20, true), rate(quiet(), 2 << 20, true));
    assert!(with > without, "L3: {with} with, {without} without");
    let mut memory = system(&model, on);
    memory.set_prefetchers(0, PrefetchSwitches::OFF);
    Driver::new(&model, 0).stream(&mut memory, RequestKind::Load, BASE, 1 << 20);
    Driver::new(&model, 1).stream(&mut memory, RequestKind::Load, BASE << 1, 1 << 20);
    assert_eq!(memory.core_stats(0).offcore_prefetches, 0);
    let other = memory.core_stats(1);
    assert!(
        other.offcore_prefetches_l3_only > 0 && other.offcore_prefetches > other.offcore_prefetches_l3_only
    );
    let l2 = &other.l2;
    assert!(l2.prefetch_used > 0 && l2.prefetch_used + l2.prefetch_unused <= l2.prefetch_fills);
}

#[test]
fn cores_share_the_channels_and_the_links() {
    let model = model(HASWELL);
    let raw = f64::from(model.memory.channels) * model.memory.channel_bytes_per_s as f64 / 1e9;
    let rates = [1, 4, 12].map(|cores| together(&model, RequestKind::Load, cores, 1 << 20, 0));
    assert!(near(rates[1], 4.0 * rates[0], 0.15), "{rates:?}");
    assert!(rates[2] < raw && rates[2] > 0.85 * raw, "{rates:?} of {raw}");
    let stores = together(&model, RequestKind::StoreNonTemporal, 12, 1 << 20, 0);
    assert!(stores < raw && stores > 0.6 * raw, "{stores} of {raw}");
    let remote = [1, 12].map(|cores| together(&model, RequestKind::Load, cores, 1 << 20, 1));
    assert!(remote[0] < rates[0] && remote[1] < rates[2] / 2.0, "{remote:?}");
}

#[test]
fn a_store_moves_two_lines_and_a_non_temporal_one_moves_one() {
    let model = model("tiny");
    let (lines, options) = (8192, MemoryOptions { page_size: PageSize::Huge, ..MemoryOptions::default() });
    let mut memory = system(&model, options);
    Driver::new(&model, 0).stream(&mut memory, RequestKind::Store, BASE, lines * 64);
    let stats = memory.memory_stats(0);
    // Walks read a few lines too; what is still in the L3 has not been written.
    assert!(stats.reads >= lines && stats.reads < lines + 8, "{stats:?}");
    assert!(stats.writes <= lines && stats.writes >= lines - 1024, "{stats:?}");
    for step in [8u64, 16, 32, 64] {
        let mut memory = system(&model, options);
        let driver = Driver::new(&model, 0);
        for address in (BASE..BASE + lines * 64).step_by(step as usize) {
            driver.ask(&mut memory, RequestKind::StoreNonTemporal, address);
        }
        memory.drain_write_combining(0, driver.now);
        let (core, stats) = (memory.core_stats(0), memory.memory_stats(0));
        assert_eq!((core.non_temporal_lines, core.non_temporal_partial), (lines, 0), "{step} bytes");
        assert_eq!((stats.writes, stats.writes_non_temporal), (lines, lines));
        assert!(stats.reads < 8, "{stats:?}");
    }
}

#[test]
fn non_temporal_stores_empty_the_caches() {
    let model = model("tiny");
    let mut memory = system(&model, quiet());
    let mut driver = Driver::new(&model, 0);
    driver.wait(&mut memory, RequestKind::Store, BASE);
    driver.wait(&mut memory, RequestKind::StoreNonTemporal, BASE);
    memory.drain_write_combining(0, driver.now);
    assert_eq!(memory.memory_stats(0).writes, 2, "the modified line, then the new one");
    assert_eq!(driver.wait(&mut memory, RequestKind::Load, BASE).1.supplier, Supplier::LocalMemory);
    assert_eq!(memory.audit(), Vec::<String>::new());
}

#[test]
fn an_unmodified_line_comes_from_the_package_that_has_it_where_packages_forward() {
    for (name, other, forwarded) in [("nehalem-ep-x5570", 4, true), (HASWELL, 12, false)] {
        let model = model(name);
        for kind in [RequestKind::Load, RequestKind::Fetch] {
            let mut memory = system(&model, quiet());
            // Touched first, so at home in package 0; then thrown out there by nothing but the other package's copy.
            memory.map(BASE..BASE + (1 << 20), 0, PageSize::Huge);
            let mut there = Driver::new(&model, other);
            let (remote, response) = there.wait(&mut memory, RequestKind::Load, BASE);
            assert_eq!(response.supplier, Supplier::RemoteMemory);
            let mut here = Driver::new(&model, 0);
            // A line beside it that nobody has: what memory takes, its pages known.
            let (local, _) = here.wait(&mut memory, kind, BASE + 4096);
            here.now = here.now.max(there.now);
            let before = memory.memory_stats(0).reads;
            let (cycles, response) = here.wait(&mut memory, kind, BASE);
            let expected = if forwarded { Supplier::RemoteCacheClean } else { Supplier::LocalMemory };
            assert_eq!(response.supplier, expected, "{name} {kind:?}");
            assert!(cycles < remote, "{name}: {cycles} of a line {local} away at home, {remote} from afar");
            assert_eq!(
                memory.memory_stats(0).reads,
                before + 1,
                "memory is read beside the copy that answers"
            );
            assert_eq!(memory.audit(), Vec::<String>::new());
        }
    }
}

#[test]
fn producer_and_consumer_pass_each_line_once_per_step() {
    let model = model(HASWELL);
    for options in [quiet(), MemoryOptions::default()] {
        for (consumer, supplier) in [(1, Supplier::OtherCoreModified), (12, Supplier::RemoteCacheModified)] {
            let mut memory = system(&model, options);
            let mut drivers = [Driver::new(&model, 0), Driver::new(&model, consumer)];
            let lines = 100;
            let transfers = |memory: &MemorySystem| {
                let within =
                    (0..2).map(|package| memory.shared_stats(package).modified_transfers).sum::<u64>();
                within
                    + (0..2).map(|package| memory.shared_stats(package).modified_transfers_out).sum::<u64>()
            };
            for step in 0..5 {
                let before =
                    (transfers(&memory), memory.core_stats(consumer).loads_by_supplier[supplier as usize]);
                for (n, kind) in [RequestKind::Store, RequestKind::Load].into_iter().enumerate() {
                    for line in 0..lines {
                        drivers[n].wait(&mut memory, kind, BASE + line * 64);
                    }
                    drivers[1 - n].now = drivers[n].now;
                }
                assert_eq!(transfers(&memory) - before.0, lines, "step {step} to core {consumer}");
                if options == quiet() {
                    let seen = memory.core_stats(consumer).loads_by_supplier[supplier as usize];
                    assert_eq!(seen - before.1, lines);
                }
            }
            assert_eq!(memory.audit(), Vec::<String>::new());
        }
    }
}

#[test]
fn false_sharing_moves_the_line_with_every_store() {
    for (name, other) in [(HASWELL, 1), ("core2-e5430", 1), ("core2-e5430", 2), ("emerald-rapids", 1)] {
        let model = model(name);
        let mut memory = system(&model, quiet());
        let mut drivers = [Driver::new(&model, 0), Driver::new(&model, other)];
        drivers[0].wait(&mut memory, RequestKind::Store, BASE);
        for turn in 1..50 {
            drivers[turn % 2].now = drivers[1 - turn % 2].now;
            let (_, response) =
                drivers[turn % 2].wait(&mut memory, RequestKind::Store, BASE + 8 * (turn as u64 % 2));
            assert_eq!(response.supplier, Supplier::OtherCoreModified, "{name} turn {turn}");
        }
        assert_eq!(memory.shared_stats(0).modified_transfers, 49, "{name}");
        assert_eq!(memory.audit(), Vec::<String>::new());
    }
}

#[test]
fn small_pages_beyond_reach_are_walked() {
    let model = model("tiny");
    let walks = |page_size, pages: u64| {
        let mut memory = system(&model, MemoryOptions { page_size, ..quiet() });
        let mut driver = Driver::new(&model, 0);
        for _ in 0..4 {
            for page in 0..pages {
                driver.wait(&mut memory, RequestKind::Load, BASE + page * 4096);
            }
        }
        memory.core_stats(0).walks
    };
    assert_eq!(walks(PageSize::Small, 16), 16, "once each: the second level holds them");
    assert_eq!(walks(PageSize::Small, 64), 4 * 64, "beyond it each access");
    assert_eq!(walks(PageSize::Huge, 64), 1);
}

#[test]
fn a_line_on_its_way_is_not_asked_for_twice() {
    let model = model(HASWELL);
    let mut memory = system(&model, quiet());
    let driver = Driver::new(&model, 0);
    let first = driver.ask(&mut memory, RequestKind::Load, BASE);
    let second = driver.ask(&mut memory, RequestKind::Load, BASE + 8);
    assert_eq!(first.supplier, Supplier::LocalMemory);
    assert_eq!((second.supplier, second.ready), (Supplier::FillBuffer, first.ready));
    assert_eq!(memory.memory_stats(0).reads, 2, "the line and its page-table entry");
}

#[test]
fn half_the_core_clock_halves_the_caches_but_not_the_memory() {
    let model = model(HASWELL);
    let time = |hz: u64, lines: u64, warm: bool| {
        let mut memory = system(&model, quiet());
        memory.set_core_clock(0, hz);
        let mut driver = Driver { cycle: Time::cycle_of(hz), ..Driver::new(&model, 0) };
        let pass = |driver: &mut Driver, memory: &mut MemorySystem| {
            let begin = driver.now;
            (0..lines).for_each(|n| _ = driver.wait(memory, RequestKind::Load, BASE + n * 7 % lines * 64));
            driver.now.since(begin).ns()
        };
        let cold = pass(&mut driver, &mut memory);
        if warm { pass(&mut driver, &mut memory) } else { cold }
    };
    let (fast, slow) = (model.clock.core_hz, model.clock.core_hz / 2);
    assert!(near(time(slow, 300, true), 2.0 * time(fast, 300, true), 0.01));
    assert!(near(time(slow, 3001, false), time(fast, 3001, false), 0.12));
}

#[test]
fn disturbance_costs_bandwidth_and_everything_repeats_to_the_bit() {
    let model = model(HASWELL);
    let disturbance = Disturbance { memory_lines_per_s: 6e8, l3_lines_per_s: 1e8 };
    let run = |seed, disturbance| {
        // Without prefetchers: with them, a little noise may even help by moving requests apart.
        let options = MemoryOptions { seed, disturbance, ..quiet() };
        let mut memory = system(&model, options);
        let mut driver = Driver::new(&model, 0);
        driver.stream(&mut memory, RequestKind::Load, BASE, 1 << 20);
        assert_eq!(memory.memory_stats(0).background > 0, disturbance.is_some());
        (driver.now, *memory.core_stats(0), *memory.memory_stats(0))
    };
    assert_eq!(run(1, None), run(1, None));
    assert_eq!(run(1, Some(disturbance)), run(1, Some(disturbance)));
    assert_ne!(run(1, Some(disturbance)), run(2, Some(disturbance)));
    assert!(run(1, Some(disturbance)).0 > run(1, None).0);
}

#[test]
fn a_fence_waits_until_memory_has_what_was_gathered() {
    let model = model("tiny");
    let mut memory = system(&model, quiet());
    let mut driver = Driver::new(&model, 0);
    driver.wait(&mut memory, RequestKind::StoreNonTemporal, BASE + 8);
    let sent = driver.now;
    let had = memory.drain_write_combining(0, sent);
    assert!(had.since(sent).ns() >= model.memory.idle_latency_ns, "{} ns", had.since(sent).ns());
    assert_eq!(memory.memory_stats(0).writes, 1);
    let later = had + Time::from_ns(1.0);
    assert_eq!(memory.drain_write_combining(0, later), later, "nothing is left");
}

#[test]
fn code_is_translated_once() {
    let model = model("tiny");
    let mut memory = system(&model, quiet());
    let mut driver = Driver::new(&model, 0);
    let walked = memory.translate_code(0, BASE, driver.now);
    assert!(walked > driver.now);
    let again = memory.translate_code(0, BASE, walked);
    let cycle_ns = 1e9 / model.clock.core_hz as f64;
    assert_eq!(
        again.since(walked).ns(),
        f64::from(model.tlb.l2_latency) * cycle_ns,
        "the second level has it"
    );
    driver.now = again;
    driver.wait(&mut memory, RequestKind::Fetch, BASE);
    // The line is in the L2 now, and the core has told where: no more than the L2's latency is left.
    let (ns, _) = driver.wait(&mut memory, RequestKind::Fetch, BASE);
    assert_eq!(ns, f64::from(model.l2.latency) * cycle_ns);
    assert_eq!((memory.core_stats(0).itlb_misses, memory.core_stats(0).walks), (2, 1));
}
