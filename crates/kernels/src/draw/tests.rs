//! Tables against the distributions they stand for, and the cache models against a simulated cache.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

fn table(distribution: Distribution, elements: u64) -> DrawTable {
    DrawTable::new(distribution, elements).expect("a table")
}

fn granule(elements: u64) -> NonZeroU64 {
    NonZeroU64::new(elements).expect("not zero")
}

#[test]
fn sizes_that_cannot_be() {
    assert_eq!(DrawTable::new(Distribution::Uni, 0), Err(DrawError::NoElements));
    assert_eq!(
        DrawTable::new(Distribution::Uni, 1 << 32),
        Err(DrawError::TooManyElements { elements: 1 << 32 })
    );
}

#[test]
fn entries_cover_all_elements_in_order() {
    for distribution in Distribution::ALL {
        for elements in [1, 2, 3, 1000, 1024, 1025, 99_999, 1 << 24, u64::from(u32::MAX)] {
            let table = table(distribution, elements);
            let mut next = 0;
            for slot in table.entries().iter().map(|&entry| DrawSlot::unpack(entry)) {
                assert_eq!(slot.start, next, "{distribution} over {elements}");
                assert!(slot.end() <= elements, "{distribution} over {elements}");
                next = slot.start + slot.span;
            }
            assert_eq!(next, elements, "{distribution}");
            assert_eq!((table.index(0), table.index(u64::MAX)), (0, elements - 1), "{distribution}");
        }
    }
}

/// Pearson's statistic of seeded draws against the table's own probabilities, over 50 equal ranges.
fn chi_square(table: &DrawTable, draws: u32) -> f64 {
    let bins = 50;
    let mut counts = vec![0u32; bins];
    let mut lcg = Lcg::stream(2017, 1);
    for _ in 0..draws {
        counts[(table.index(lcg.next()) * bins as u64 / table.elements()) as usize] += 1;
    }
    let edge = |bin: usize| (bin as u64 * table.elements()).div_ceil(bins as u64);
    let terms = counts.iter().enumerate().map(|(bin, &count)| {
        let expected = table.pmf_of_range(edge(bin), edge(bin + 1)) * f64::from(draws);
        (f64::from(count) - expected).powi(2) / expected
    });
    terms.sum()
}

#[test]
fn frequencies_follow_the_probabilities() {
    for distribution in Distribution::ALL {
        let statistic = chi_square(&table(distribution, 10_007), 200_000);
        // 49 degrees of freedom: mean 49, deviation 10.
        assert!((15.0..110.0).contains(&statistic), "{distribution}: {statistic}");
    }
}

#[test]
fn probabilities_follow_the_distribution() {
    let elements = 1_000_000;
    for distribution in Distribution::ALL {
        let table = table(distribution, elements);
        for part in 1..=20 {
            let edge = elements * part / 20;
            let expected = distribution.cdf(part as f64 / 20.0);
            let found = table.pmf_of_range(0, edge);
            // A slot holds 1/1024, and the staircase is right at the slots' ends.
            assert!((found - expected).abs() < 1.0 / 1024.0, "{distribution} at {part}: {found}, {expected}");
        }
    }
}

#[test]
fn a_uniform_table_is_uniform() {
    let table = table(Distribution::Uni, 1 << 20);
    assert_eq!(table.pmf_of_range(0, 1), 1.0 / f64::from(1 << 20));
    assert_eq!(table.pmf_of_range(1000, 1000 + (1 << 18)), 0.25);
    assert_eq!((table.pmf_of_range(5, 5), table.pmf_of_range(9, 5)), (0.0, 0.0));
    assert_eq!(table.pmf_of_range(0, u64::MAX), 1.0);
}

#[test]
fn probabilities_are_exact_by_counting() {
    // Few enough elements to count outcomes: walk all slots with a lattice of fractions that hits each step.
    for elements in [1, 3, 700, 2500] {
        let table = table(Distribution::Tri2, elements);
        for index in [0, elements / 3, elements / 2, elements - 1] {
            let counted: u64 = (0..SLOTS as u64).map(|slot| fractions_giving(&table, slot, index)).sum();
            assert_eq!(table.pmf_of_range(index, index + 1), counted as f64 / OUTCOMES as f64);
        }
    }
}

/// Fractions that give `index` in `slot`, by bisection on the (rising) index.
fn fractions_giving(table: &DrawTable, slot: u64, index: u64) -> u64 {
    let first_at_least = |wanted: u64| {
        let (mut low, mut high) = (0u64, 1u64 << 32);
        while low < high {
            let middle = (low + high) / 2;
            if table.index(slot << 54 | middle << 22) >= wanted { high = middle } else { low = middle + 1 }
        }
        low
    };
    first_at_least(index + 1) - first_at_least(index)
}

#[test]
fn runs_are_the_lines() {
    for distribution in [Distribution::Uni, Distribution::Exp8, Distribution::Norm8, Distribution::Tri1] {
        for (elements, per_line) in
            [(1, 8), (5, 8), (1000, 8), (5000, 1), (5000, 7), (5000, 16), (5000, 9000)]
        {
            let table = table(distribution, elements);
            let lines = table
                .runs(granule(per_line))
                .into_iter()
                .flat_map(|run| std::iter::repeat_n(run.probability, run.lines as usize));
            let lines: Vec<f64> = lines.collect();
            assert_eq!(
                lines.len() as u64,
                elements.div_ceil(per_line),
                "{distribution} {elements}/{per_line}"
            );
            for (line, probability) in (0u64..).zip(lines) {
                let exact = table.pmf_of_range(line * per_line, (line + 1) * per_line);
                assert!(
                    (probability - exact).abs() < 1e-11,
                    "{distribution} {elements}/{per_line} line {line}"
                );
            }
        }
    }
}

#[test]
fn casas_is_capacity_times_the_sum_of_squares() {
    let table = table(Distribution::Norm6, 3000);
    let squares: f64 = (0..3000).map(|i| table.pmf_of_range(i, i + 1).powi(2)).sum();
    assert!((table.hit_rate_casas(700) - 700.0 * squares).abs() < 1e-9);
    assert!(table.hit_rate_casas(3000) > 1.0, "eq. 4 leaves its range for large caches");
}

#[test]
fn uniform_hit_rate_is_the_share_held() {
    let elements = 1 << 22;
    let table = table(Distribution::Uni, elements);
    for share in [0.0, 0.01, 0.25, 0.5, 0.9, 0.999] {
        let capacity = (elements as f64 * share) as u64;
        let expected = capacity as f64 / elements as f64;
        for per_line in [1, 8, 16] {
            let found = table.hit_rate_che(capacity, granule(per_line));
            assert!((found - expected).abs() < 1e-9, "{share} of lines of {per_line}: {found}");
        }
        assert!((table.hit_rate_casas(capacity) - expected).abs() < 1e-9);
    }
    assert_eq!(table.hit_rate_che(elements, granule(16)), 1.0);
    assert_eq!(table.hit_rate_che(u64::MAX, granule(16)), 1.0);
}

/// Hit rate of a simulated fully associative LRU cache of `capacity` lines, after a warm-up of equal length.
fn simulated_lru(table: &DrawTable, capacity: usize, per_line: u64, draws: u64) -> f64 {
    let (mut last_use, mut by_age) = (HashMap::new(), BTreeMap::new());
    let mut lcg = Lcg::stream(7, 0);
    let mut hits = 0u64;
    for now in 0..2 * draws {
        let line = table.index(lcg.next()) / per_line;
        if let Some(before) = last_use.insert(line, now) {
            by_age.remove(&before);
            hits += u64::from(now >= draws);
        } else if by_age.len() == capacity
            && let Some((_, oldest)) = by_age.pop_first()
        {
            last_use.remove(&oldest);
        }
        by_age.insert(now, line);
    }
    hits as f64 / draws as f64
}

#[test]
fn che_predicts_a_simulated_cache() {
    for distribution in [Distribution::Exp8, Distribution::Norm8, Distribution::Laplace6, Distribution::Tri3]
    {
        let table = table(distribution, 40_000);
        for lines in [250, 1000, 3000] {
            let expected = table.hit_rate_che(lines * 8, granule(8));
            let found = simulated_lru(&table, lines as usize, 8, 60_000);
            assert!(
                (found - expected).abs() < 0.015,
                "{distribution}, {lines} lines: {found} and {expected}"
            );
        }
    }
}

proptest! {
    #[test]
    fn indices_stay_inside(which in 0usize..15, elements in 1u64..=u64::from(u32::MAX), x: u64) {
        let table = table(Distribution::ALL[which], elements);
        let index = table.index(x);
        prop_assert!(index < elements);
        prop_assert!(table.pmf_of_range(index, index + 1) > 0.0);
    }

    #[test]
    fn hit_rates_rise_with_capacity(
        which in 0usize..15, elements in 1u64..=u64::from(u32::MAX), per_line in 1u64..64, share in 0.0f64..1.2
    ) {
        let table = table(Distribution::ALL[which], elements);
        let capacity = (elements as f64 * share) as u64;
        let rate = table.hit_rate_che(capacity, granule(per_line));
        let more = table.hit_rate_che(capacity + elements / 16, granule(per_line));
        prop_assert!((0.0..=1.0 + 1e-9).contains(&rate) && more >= rate - 1e-9, "{} then {}", rate, more);
        // LRU holds the popular lines more often than chance would.
        let held = capacity as f64 / per_line as f64 / elements.div_ceil(per_line) as f64;
        prop_assert!(rate >= held.min(1.0) - 1e-9, "{} below {}", rate, held);
    }
}

#[test]
fn a_jump_is_that_many_steps() {
    let mut walked = Lcg::new(7);
    for steps in 0..200 {
        assert_eq!(Lcg::new(7).after(steps), walked);
        walked.next();
    }
}
