//! casas2017 §3 again: victims of its configurations beside its storage threads, what it published beside what is found.

use std::{num::NonZeroU64, sync::atomic::AtomicBool};

use host::{Host, repeat::RepeatPlan};
use kernels::draw::{Distribution, DrawTable, SplitMix};
use machine::squeezing::{SqueezeForm, SqueezeVictim};

use crate::{
    SqueezeError,
    recipe::{self, SqueezeDomain},
    victims::KnownVictim,
};

/// Cache that 0 to 5 storage threads of 4 MB leave of 20 MB (§3.2.3; §5.2 says 4 and 3 for the last two).
pub const PUBLISHED_MB: [f64; 6] = [20.0, 15.0, 12.0, 7.0, 5.0, 2.5];
/// Its cache, in the same unit.
pub const PUBLISHED_CACHE_MB: f64 = 20.0;
/// Additions between two accesses (§3.2.1).
const RATES: [u64; 3] = [1, 10, 100];
/// Sizes of buffers from 30 to 74 MB (§3.2.3).
const SIZES: u64 = 22;

/// One of the configurations, and the threads it is tried beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CasasConfiguration {
    /// The victim.
    pub victim: KnownVictim,
    /// Storage threads.
    pub threads: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CasasReading {
    /// Which.
    pub configuration: CasasConfiguration,
    /// What the victim found.
    pub found: SqueezeVictim,
    /// Hit rate that Che's approximation expects of the whole cache.
    pub expected_che: f64,
    /// The same by eq. 4, at most 1.
    pub expected_casas: f64,
}

/// So many of them, drawn by `seed`: every distribution and rate as often as the next, numbers of threads almost.
pub fn configurations(many: usize, seed: u64) -> Vec<CasasConfiguration> {
    let mut random = SplitMix::new(seed);
    (0..many)
        .map(|index| {
            let distribution = Distribution::ALL[index % Distribution::ALL.len()];
            let round = index / Distribution::ALL.len();
            let size = 30.0 + 44.0 * random.below(SIZES) as f64 / (SIZES - 1) as f64;
            let victim = KnownVictim {
                distribution,
                additions: RATES[(index + round) % RATES.len()],
                times: size / PUBLISHED_CACHE_MB,
            };
            CasasConfiguration { victim, threads: (index + 2 * round) % PUBLISHED_MB.len() }
        })
        .collect()
}

/// Runs one of them. A victim may draw from another distribution than it is taken for, to see whether that is noticed.
pub fn measure(
    host: &mut dyn Host,
    domain: &SqueezeDomain,
    configuration: CasasConfiguration,
    drawn: Option<Distribution>,
    interrupt: &AtomicBool,
) -> Result<CasasReading, SqueezeError> {
    let taken = match configuration.threads {
        0 => Vec::new(),
        threads => vec![domain.storage(SqueezeForm::Paper, 0.2 * threads as f64)],
    };
    recipe::take(host, None, &taken, &domain.spare)?;
    let cpu = domain.own.first().copied().unwrap_or(0);
    let plan = RepeatPlan::within(1e8, 0.01);
    let distribution = drawn.unwrap_or(configuration.victim.distribution);
    let runs = KnownVictim { distribution, ..configuration.victim };
    let reading = runs.watch(host, domain.cache, cpu, &plan, interrupt)?;
    recipe::take(host, None, &[], &domain.spare)?;
    let found = configuration.victim.found(&reading, domain.cache, None)?;
    let found = found.ok_or_else(|| SqueezeError::Metric("nobody counts hits here".to_owned()))?;
    let table = DrawTable::new(configuration.victim.distribution, found.size.0 / 4)?;
    let elements = domain.cache.0 / 4;
    let line =
        NonZeroU64::new(16).ok_or_else(|| SqueezeError::Metric("a line holds no element".to_owned()))?;
    Ok(CasasReading {
        configuration,
        found,
        expected_che: table.hit_rate_che(elements, line),
        expected_casas: table.hit_rate_casas(elements).min(1.0),
    })
}

/// Mean and standard deviation; `None` of nothing.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let many = values.len() as f64;
    let mean = values.iter().sum::<f64>() / many;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / many;
    (!values.is_empty()).then(|| (mean, square.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_hold_every_distribution_rate_and_number_of_threads() {
        let all = configurations(60, 1);
        assert_eq!(all, configurations(60, 1));
        assert_ne!(all, configurations(60, 2));
        let count = |of: &dyn Fn(&CasasConfiguration) -> bool| all.iter().filter(|one| of(one)).count();
        for distribution in Distribution::ALL {
            assert_eq!(count(&|one| one.victim.distribution == distribution), 4);
        }
        for rate in RATES {
            assert_eq!(count(&|one| one.victim.additions == rate), 20);
        }
        for threads in 0..6 {
            assert!((9..=11).contains(&count(&|one| one.threads == threads)));
        }
        assert!(all.iter().all(|one| (1.5..=3.7).contains(&one.victim.times)));
    }

    #[test]
    fn means_and_deviations() {
        assert_eq!(spread(&[1.0, 3.0]), Some((2.0, 1.0)));
        assert_eq!(spread(&[]), None);
    }
}
