//! Oracles with a formula: what hit rates must be by probability, and what a smaller machine must answer.

use std::num::NonZeroU64;

use kernels::draw::{Distribution, DrawTable, Lcg};
use machine::{
    Bytes,
    model::{CacheGeometry, Model, Replacement},
};
use sim::memory::trace::{Hierarchy, TraceLevel, TwoLevel};

fn geometry(size: Bytes, ways: u32, replacement: Replacement) -> CacheGeometry {
    CacheGeometry { size, ways, line: Bytes(64), replacement }
}

/// Hit rate of the last level alone, after warming up, when lines are drawn from `table`.
fn hit_rate(cache: CacheGeometry, table: &DrawTable, accesses: u64) -> f64 {
    // A first level of one line, which no draw finds twice in a row often enough to matter.
    let first = geometry(Bytes(64), 1, Replacement::Lru);
    let mut caches = TwoLevel::new(&first, &first, &cache);
    let mut random = Lcg::stream(7, 0);
    let mut draw = |caches: &mut TwoLevel| caches.read(table.index(random.next()) * 64, 8);
    (0..accesses).for_each(|_| draw(&mut caches));
    let before = caches.counts().reads.last_misses;
    (0..accesses).for_each(|_| draw(&mut caches));
    1.0 - (caches.counts().reads.last_misses - before) as f64 / accesses as f64
}

#[test]
fn uniform_accesses_hit_with_the_share_that_fits() {
    let lines = 16_384;
    let table = DrawTable::new(Distribution::Uni, lines).expect("a table");
    for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
        for (ways, share) in [(8, 8), (16, 4), (16, 2)] {
            let cache = geometry(Bytes(lines * 64 / share), ways, replacement);
            let found = hit_rate(cache, &table, 200_000);
            let expected = 1.0 / share as f64;
            assert!((found - expected).abs() < 0.01, "{replacement:?} {ways}: {found}, expected {expected}");
        }
    }
}

#[test]
fn distributions_hit_as_che_says() {
    let lines = 16_384;
    println!("distribution  capacity/buffer  simulated    Che  casas2017 eq. 4");
    for distribution in Distribution::ALL {
        let table = DrawTable::new(distribution, lines).expect("a table");
        for share in [8, 2] {
            let capacity = lines / share;
            let found = hit_rate(geometry(Bytes(capacity * 64), 16, Replacement::Lru), &table, 150_000);
            let che = table.hit_rate_che(capacity, NonZeroU64::MIN);
            let casas = table.hit_rate_casas(capacity);
            let flag = if casas > 1.0 { "  above 1: outside its range" } else { "" };
            println!("{:<12}  1/{share:<13}  {found:9.3}  {che:5.3}  {casas:5.3}{flag}", distribution.name());
            assert!((found - che).abs() < 0.03, "{distribution:?} 1/{share}: {found}, Che {che}");
        }
    }
}

/// Hit rates of the three levels for a mix of a random and a sequential walk over 1/`part` of 8 MiB.
fn level_rates(model: &Model, part: u64) -> [f64; 3] {
    let mut caches = Hierarchy::new(model, 1).expect("a valid model");
    let lines = (8 << 20) / 64 / part;
    let table = DrawTable::new(Distribution::Exp4, lines).expect("a table");
    let mut random = Lcg::stream(3, 0);
    let mut walk = |caches: &mut Hierarchy, rounds: u64| {
        for n in 0..rounds * lines {
            caches.access(0, table.index(random.next()) * 64, n % 4 == 0);
            caches.access(0, (1 << 40) + n / 4 % (lines / 8) * 64, false);
        }
    };
    walk(&mut caches, 2);
    caches.reset_counts();
    walk(&mut caches, if part == 1 { 2 } else { 16 });
    [TraceLevel::L1, TraceLevel::L2, TraceLevel::L3]
        .map(|level| caches.counts(0).hit_rate(level).expect("accesses at this level"))
}

#[test]
fn a_sixteenth_of_the_machine_answers_alike() {
    for name in ["haswell-ep-e5-2680v3", "nehalem-ep-x5570"] {
        let mut whole = Model::builtin(name).expect("a model");
        // An L3 of 4 MiB, so that it too is filled.
        if let Some(l3) = &mut whole.l3 {
            (l3.slices, l3.geometry.size, l3.geometry.ways) = (4, Bytes::mib(4), 16);
            whole.cores_per_socket = 4;
        }
        let part = whole.scaled(16).expect("a sixteenth");
        let rates = [level_rates(&whole, 1), level_rates(&part, 16)];
        for (whole, part) in rates[0].iter().zip(&rates[1]) {
            assert!((whole - part).abs() < 0.02, "{name}: {rates:?}");
        }
        assert!(rates[0].iter().all(|rate| (0.02..0.98).contains(rate)), "{name}: {rates:?} tests nothing");
    }
}

#[test]
fn an_access_across_lines_is_one_miss_at_most_and_a_long_one_is_cut() {
    let small = geometry(Bytes::kib(1), 2, Replacement::Lru);
    let mut caches = TwoLevel::new(&small, &small, &geometry(Bytes::kib(8), 4, Replacement::Lru));
    caches.read(60, 8);
    caches.read(0, 8);
    caches.write(64, 8);
    let counts = caches.counts();
    assert_eq!((counts.reads.accesses, counts.reads.first_misses, counts.reads.last_misses), (2, 1, 1));
    assert_eq!((counts.writes.accesses, counts.writes.first_misses), (1, 0), "both lines came in");
    caches.read(1024, 512);
    caches.read(1024 + 64, 8);
    assert_eq!(caches.counts().reads.first_misses, 3, "the long access brought one line only");
    caches.read(u64::MAX, 64);
    caches.instruction(u64::MAX - 1, 15);
    assert_eq!(caches.counts().instructions.last_misses, 0, "the data access had brought the line");
}

#[test]
fn an_inclusive_cache_takes_lines_back_and_a_victim_cache_does_not() {
    for (inclusion, expected) in [
        (machine::model::Inclusion::Inclusive, TraceLevel::Memory),
        (machine::model::Inclusion::Victim, TraceLevel::L1),
    ] {
        let mut model = Model::builtin("tiny").expect("a model");
        if let Some(l3) = &mut model.l3 {
            (l3.inclusion, l3.geometry.size) = (inclusion, Bytes::kib(16));
        }
        let mut caches = Hierarchy::new(&model, 1).expect("a valid model");
        caches.access(0, 0, true);
        // The other core fills the L3 many times over.
        (1..2000u64).for_each(|line| _ = caches.access(1, line * 64, false));
        assert_eq!(caches.access(0, 0, false), expected, "{inclusion:?}");
        assert_eq!(caches.lines_written(), u64::from(expected == TraceLevel::Memory));
    }
}
