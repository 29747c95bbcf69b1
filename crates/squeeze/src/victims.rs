//! Victims whose hit rate is known for every capacity, and the capacity that a hit rate tells of.

use std::{num::NonZeroU64, sync::atomic::AtomicBool};

use host::{Host, HostError, VictimLength, VictimReading, repeat::RepeatPlan};
use kernels::{
    Job,
    draw::{Distribution, DrawError, DrawTable},
};
use machine::{Bytes, squeezing::SqueezeVictim};

/// Bytes of an element of the random kernels.
const ELEMENT: u64 = 4;
const LINE: u64 = 64;
/// Steps of the search for a capacity: a millionth of the data.
const STEPS: u32 = 30;
/// Lines of the cache are replaced so many times before a victim is counted, and while it is.
const WARM_UP: f64 = 2.0;
const COUNTED: f64 = 1.0;

/// A victim of known distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownVictim {
    /// Of its accesses.
    pub distribution: Distribution,
    /// Additions between two accesses.
    pub additions: u64,
    /// Its data, in times of the cache.
    pub times: f64,
}

/// Times that stand for hits and misses of a victim where nobody counts them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    /// Of an access that the cache serves, nanoseconds.
    pub hit_ns: f64,
    /// Of one that memory serves.
    pub miss_ns: f64,
}

impl AccessTimes {
    /// The hit rate that explains a time; `None` if the two are not apart.
    pub fn hit_rate(&self, access_ns: f64) -> Option<f64> {
        let apart = self.miss_ns - self.hit_ns;
        (apart > 0.05 * self.hit_ns).then(|| ((self.miss_ns - access_ns) / apart).clamp(0.0, 1.0))
    }
}

impl KnownVictim {
    /// Its data beside a cache.
    pub fn size(&self, cache: Bytes) -> Bytes {
        let page = 4096.0;
        Bytes(((cache.0 as f64 * self.times / page).round() as u64).max(1) * 4096)
    }

    /// Runs it on `cpu`, next to what runs beside.
    pub fn watch(
        &self,
        host: &mut dyn Host,
        cache: Bytes,
        cpu: u32,
        plan: &RepeatPlan,
        interrupt: &AtomicBool,
    ) -> Result<VictimReading, HostError> {
        let job = self.job(host, cache, cpu)?;
        host.watch_victim(&job, length(job.size, cache), plan, interrupt)
    }

    /// Its job on `cpu`.
    pub fn job(&self, host: &dyn Host, cache: Bytes, cpu: u32) -> Result<Job, HostError> {
        let name = format!("random-{}", self.distribution);
        let job = host.job(&name, self.size(cache), &[cpu])?;
        job.with("adds", self.additions).map_err(|error| HostError::new(name, error))
    }

    /// What a reading tells. `times` stand in where nothing was counted.
    pub fn found(
        &self,
        reading: &VictimReading,
        cache: Bytes,
        times: Option<AccessTimes>,
    ) -> Result<Option<SqueezeVictim>, DrawError> {
        let size = self.size(cache);
        let counted = reading.loads.and_then(|loads| loads.hit_rate());
        let timed = || times.zip(access_ns(reading)).and_then(|(times, ns)| times.hit_rate(ns));
        let Some(hit_rate) = counted.or_else(timed) else { return Ok(None) };
        let table = DrawTable::new(self.distribution, size.0 / ELEMENT)?;
        Ok(Some(SqueezeVictim {
            distribution: self.distribution.to_string(),
            additions: self.additions,
            size,
            hit_rate,
            capacity: capacity_che(&table, hit_rate),
            capacity_casas: capacity_casas(&table, hit_rate),
        }))
    }
}

/// Nanoseconds of one access of a victim on one CPU.
pub fn access_ns(reading: &VictimReading) -> Option<f64> {
    let accesses = (reading.measured.size.0 / ELEMENT).max(1) as f64;
    reading.measured.repeated.time_ns().map(|time| time.value / accesses)
}

/// Draws after which a uniform victim of this size has replaced the lines of the cache.
fn length(size: Bytes, cache: Bytes) -> VictimLength {
    let (lines, held) = ((size.0 / LINE) as f64, (cache.0 / LINE) as f64);
    let once = if lines > held { -lines * (1.0 - held / lines).ln() } else { 4.0 * lines };
    VictimLength { warm_up: (WARM_UP * once) as u64, timed: (COUNTED * once) as u64 }
}

/// The capacity, in bytes, at which Che's approximation expects this hit rate; `None` if all data would have to fit.
pub fn capacity_che(table: &DrawTable, hit_rate: f64) -> Option<f64> {
    let granule = NonZeroU64::new(LINE / ELEMENT)?;
    let all = table.elements();
    if hit_rate <= 0.0 {
        return Some(0.0);
    }
    if hit_rate >= table.hit_rate_che(all - 1, granule) {
        return None;
    }
    let (mut low, mut high) = (0, all);
    for _ in 0..STEPS {
        let middle = low + (high - low) / 2;
        if table.hit_rate_che(middle, granule) < hit_rate { low = middle } else { high = middle }
    }
    Some((low + high) as f64 / 2.0 * ELEMENT as f64)
}

/// The same by casas2017 eq. 4, lines in place of elements as misses are of lines; `None` beyond its range, where the hit
/// rate it expects of all the data is above one for less.
pub fn capacity_casas(table: &DrawTable, hit_rate: f64) -> Option<f64> {
    let per_element = table.hit_rate_casas(1);
    let capacity = hit_rate / per_element;
    (per_element > 0.0 && capacity <= table.elements() as f64).then_some(capacity * ELEMENT as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_uniform_victim_tells_its_share() {
        let table = DrawTable::new(Distribution::Uni, 1 << 20).unwrap();
        let found = capacity_che(&table, 0.25).expect("a capacity");
        assert!((found / f64::from(1 << 20) - 1.0).abs() < 1e-3, "{found}");
        assert!((capacity_casas(&table, 0.25).expect("in range") / f64::from(1 << 20) - 1.0).abs() < 1e-6);
        assert_eq!(capacity_che(&table, 0.0), Some(0.0));
        assert_eq!(capacity_che(&table, 1.0), None);
    }

    #[test]
    fn times_tell_hit_rates() {
        let times = AccessTimes { hit_ns: 10.0, miss_ns: 50.0 };
        assert_eq!(times.hit_rate(20.0), Some(0.75));
        assert_eq!(times.hit_rate(60.0), Some(0.0));
        assert_eq!(AccessTimes { hit_ns: 10.0, miss_ns: 10.2 }.hit_rate(10.1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_che_expects_is_told_back(which in 0usize..15, share in 0.05f64..0.9) {
            let table = DrawTable::new(Distribution::ALL[which], 1 << 18).unwrap();
            let capacity = (f64::from(1 << 18) * share) as u64;
            let rate = table.hit_rate_che(capacity, NonZeroU64::new(16).unwrap());
            let found = capacity_che(&table, rate).expect("a capacity") / 4.0;
            prop_assert!((found / capacity as f64 - 1.0).abs() < 0.01, "{found} {capacity}");
        }
    }
}
