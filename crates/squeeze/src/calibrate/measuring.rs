//! One strength at a time: what victims get beside it.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering},
};

use host::{Host, VictimLength, VictimReading, repeat::RepeatPlan};
use kernels::draw::Distribution;
use machine::{
    Bytes,
    profile::Estimate,
    squeezing::{Interference, KnownProgram, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeVictim},
};

use super::{CalibrateSqueeze, LEAST_SPARE, SqueezeError, known::KnownRecipe};
use crate::{
    misses::{self, MissCounter},
    partition::HardwarePartition,
    recipe::{self, SqueezeDomain},
    victims::{AccessTimes, KnownVictim, access_ns},
};

/// What a stream goes over on each CPU, in times of the cache, and at most.
const STREAM_TIMES: u64 = 4;
const STREAM_MOST: Bytes = Bytes::mib(256);
/// Iterations of a simulated stream: of 4 lines each, so that queues and prefetchers are as full as they get.
const STREAM_LENGTH: VictimLength = VictimLength { warm_up: 1500, timed: 3000 };
/// Iterations of simulated work in registers, beside which traffic is counted.
const IDLE_LENGTH: VictimLength = VictimLength { warm_up: 300, timed: 3000 };
/// Uniform victims, in times of the cache, whose two times tell what a miss costs.
const NEAR: f64 = 2.0;
const FAR: f64 = 8.0;
/// Shares of accesses that a counter which can be believed sees miss: of data that fits, and of data of [`FAR`] times the cache.
const FEW: f64 = 0.05;
const MANY: RangeInclusive<f64> = 0.8..=1.05;

/// A machine being calibrated.
pub(super) struct SqueezeBench<'a> {
    pub host: &'a mut dyn Host,
    pub domain: &'a SqueezeDomain,
    pub partition: Option<&'a HardwarePartition>,
    pub request: &'a CalibrateSqueeze,
    pub interrupt: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&str, f64),
    done: usize,
    /// Counts misses of victims.
    counter: Option<Box<dyn MissCounter + 'a>>,
    /// Time of an access that the cache serves, where nobody counts.
    hit_ns: Option<f64>,
    pub recipes: Vec<KnownRecipe>,
    /// In the order of `recipes`.
    pub known: Vec<KnownProgram>,
    /// All cores together, bytes per second.
    pub whole_bandwidth: f64,
    /// Those of the program.
    own_alone: f64,
    pub remarks: Vec<String>,
}

impl<'a> SqueezeBench<'a> {
    /// Measures what there is when nothing is taken.
    pub fn begin(
        host: &'a mut dyn Host,
        domain: &'a SqueezeDomain,
        partition: Option<&'a HardwarePartition>,
        counters: Vec<Box<dyn MissCounter + 'a>>,
        request: &'a CalibrateSqueeze,
        progress: &'a mut dyn FnMut(&str, f64),
        interrupt: &'a AtomicBool,
    ) -> Result<Self, SqueezeError> {
        let remarks = Vec::new();
        let mut bench = Self {
            host,
            domain,
            partition,
            request,
            interrupt,
            progress,
            done: 0,
            counter: None,
            hit_ns: None,
            recipes: Vec::new(),
            known: Vec::new(),
            whole_bandwidth: 0.0,
            own_alone: f64::INFINITY,
            remarks,
        };
        bench.squeeze(&[])?;
        let all: Vec<u32> = domain.cpus.iter().collect();
        bench.whole_bandwidth = bench.stream(&all)?.value;
        bench.choose_counter(counters)?;
        if bench.host.simulated().is_none() && bench.counter.is_none() {
            bench.hit_ns = bench.time_of_hits()?;
        }
        // Where nothing is concluded anyway, they would be run for nothing.
        if domain.spare.len() >= LEAST_SPARE || partition.is_some() {
            bench.learn_known()?;
        }
        Ok(bench)
    }

    /// Ends all interference.
    pub fn finish(self) -> Result<(f64, Vec<KnownProgram>, Vec<String>), SqueezeError> {
        recipe::take(self.host, self.partition, &[], &self.domain.spare)?;
        Ok((self.whole_bandwidth, self.known, self.remarks))
    }

    pub fn check(&self) -> Result<(), SqueezeError> {
        if self.interrupt.load(Ordering::Relaxed) { Err(SqueezeError::Interrupted) } else { Ok(()) }
    }

    /// Lets these run beside all victims from now on.
    pub fn squeeze(&mut self, interferences: &[Interference]) -> Result<(), SqueezeError> {
        self.check()?;
        recipe::take(self.host, self.partition, interferences, &self.domain.spare)
    }

    /// What is left under some interference. `victims` tell the room in the cache.
    pub fn point(
        &mut self,
        interferences: &[Interference],
        victims: &[KnownVictim],
    ) -> Result<SqueezePoint, SqueezeError> {
        self.tell(interferences);
        self.squeeze(interferences)?;
        let idle = self.beside_idle()?;
        let drawn = self.drawn(&idle, interferences);
        let own = self.domain.own.clone();
        let stream = self.stream(&own)?;
        let found = self.victims(victims)?;
        let bandwidth_left = self.bandwidth_left(stream, interferences, drawn);
        Ok(SqueezePoint {
            interference: interferences.first().copied(),
            cache_left: spread(found.iter().filter_map(|victim| victim.capacity)),
            bandwidth_left: Some(bandwidth_left),
            known: Vec::new(),
            drawn,
            drawn_by_misses: idle.beside.and_then(|beside| beside.by_misses_bytes_per_s()),
            victims: found,
        })
    }

    fn tell(&mut self, interferences: &[Interference]) {
        self.done += 1;
        let all = self.request.strengths();
        let what = match interferences {
            [] => "nothing taken".to_owned(),
            [one] if one.left.is_some() => format!("{} taken by a partition", one.kind),
            [one] => format!("{} taken by {} threads", one.kind, one.threads),
            _ => "both taken".to_owned(),
        };
        (self.progress)(&what, self.done as f64 / all as f64);
    }

    /// Beside bandwidth interference what it does not draw by itself, or more where a stream gets more than that. Cache
    /// interference draws what others drive out of the cache: there the stream's own loss tells.
    fn bandwidth_left(&mut self, stream: Estimate, taken: &[Interference], drawn: Option<f64>) -> Estimate {
        if taken.is_empty() {
            self.own_alone = stream.value;
        }
        let whole = self.whole_bandwidth;
        let draws_itself =
            taken.iter().all(|one| one.kind == SqueezeKind::Bandwidth && one.form != SqueezeForm::Partition);
        let left = |value: f64| match (taken.is_empty(), draws_itself) {
            (true, _) => whole,
            (_, true) => value.max(whole - drawn.unwrap_or(0.0)),
            // A partition draws nothing: what a stream gets of what it had tells.
            _ => whole * (value / self.own_alone).min(1.0),
        };
        Estimate {
            value: left(stream.value),
            low: left(stream.low),
            high: left(stream.high),
            samples: stream.samples,
        }
    }

    /// Bytes per second of a stream on these CPUs.
    fn stream(&mut self, cpus: &[u32]) -> Result<Estimate, SqueezeError> {
        self.check()?;
        let job = self.host.job("load", self.stream_bytes(cpus.len()), cpus)?;
        let reading = self.host.watch_victim(&job, STREAM_LENGTH, &self.request.repeat, self.interrupt)?;
        reading.measured.program_bytes_per_s().ok_or(SqueezeError::Interrupted)
    }

    /// Data of streams on so many CPUs: none of it is met again while it is in the cache.
    pub fn stream_bytes(&self, cpus: usize) -> Bytes {
        let each = (self.domain.cache.0 * STREAM_TIMES).min(STREAM_MOST.0.max(self.domain.cache.0));
        Bytes(each * cpus as u64)
    }

    /// What interference does beside work that needs nothing.
    pub fn beside_idle(&mut self) -> Result<VictimReading, SqueezeError> {
        self.check()?;
        let cpu = self.domain.own.first().copied().unwrap_or(0);
        let job = self.host.job("add-chain", Bytes(0), &[cpu])?;
        Ok(self.host.watch_victim(&job, IDLE_LENGTH, &self.request.repeat, self.interrupt)?)
    }

    /// Bytes per second that interference draws: as memory counted them, else by its description where no cache can hold
    /// its data.
    pub fn drawn(&self, idle: &VictimReading, interferences: &[Interference]) -> Option<f64> {
        let uncached = |one: &Interference| matches!(one.form, SqueezeForm::Reading | SqueezeForm::Writing);
        let described = || idle.beside.map(|beside| beside.described_bytes_per_s);
        idle.memory_bytes_per_s.or_else(|| described().filter(|_| interferences.iter().all(uncached)))
    }

    fn victims(&mut self, victims: &[KnownVictim]) -> Result<Vec<SqueezeVictim>, SqueezeError> {
        let times = self.access_times()?;
        let mut found = Vec::new();
        for victim in victims {
            self.check()?;
            let reading = self.watch(victim)?;
            found.extend(victim.found(&reading, self.domain.cache, times)?);
        }
        Ok(found)
    }

    fn watch(&mut self, victim: &KnownVictim) -> Result<VictimReading, SqueezeError> {
        let cpu = self.domain.own.first().copied().unwrap_or(0);
        let (cache, plan): (Bytes, &RepeatPlan) = (self.domain.cache, &self.request.repeat);
        let mut reading = victim.watch(self.host, cache, cpu, plan, self.interrupt)?;
        if let Some(counter) = &mut self.counter {
            let job = victim.job(self.host, cache, cpu)?;
            reading.loads = misses::counted(self.host, &job, &mut **counter, self.interrupt)?;
        }
        Ok(reading)
    }

    /// The first that sees few misses of a victim that fits, and nearly all accesses of one that does not.
    fn choose_counter(&mut self, counters: Vec<Box<dyn MissCounter + 'a>>) -> Result<(), SqueezeError> {
        for counter in counters {
            let name = counter.name();
            self.counter = Some(counter);
            let mut missed = [None; 2];
            for (missed, times) in missed.iter_mut().zip([self.small(), FAR]) {
                let victim = KnownVictim { distribution: Distribution::Uni, additions: 1, times };
                let hit_rate = self.watch(&victim)?.loads.and_then(|loads| loads.hit_rate());
                *missed = hit_rate.map(|hit_rate| 1.0 - hit_rate);
            }
            let [few, many] = missed;
            // Of data of eight times the cache at most an eighth can be in it.
            let sees = few.is_some_and(|few| few < FEW) && many.is_some_and(|many| MANY.contains(&many));
            let share = |missed: Option<f64>| {
                missed.map_or("nothing".to_owned(), |missed| format!("{:.0} %", missed * 100.0))
            };
            self.remarks.push(format!(
                "Misses of victims {} counted by {name}: {} of the accesses to data that fits, {} to data of {FAR:.0} times the cache.",
                if sees { "are" } else { "are not" },
                share(few),
                share(many),
            ));
            if sees {
                return Ok(());
            }
            self.counter = None;
        }
        Ok(())
    }

    /// Data that surely fits, in times of the cache.
    fn small(&self) -> f64 {
        let small = (4 * self.domain.private.0).min(self.domain.cache.0 / 4) as f64;
        (small / self.domain.cache.0 as f64).clamp(0.01, 0.25)
    }

    /// Of a uniform victim that surely fits.
    fn time_of_hits(&mut self) -> Result<Option<f64>, SqueezeError> {
        let times = self.small();
        let reading = self.watch(&KnownVictim { distribution: Distribution::Uni, additions: 1, times })?;
        Ok(access_ns(&reading))
    }

    /// What hits and misses take now, from two uniform victims: with room x, in times of the cache, one of n times the
    /// cache misses 1 − x/n of its accesses.
    fn access_times(&mut self) -> Result<Option<AccessTimes>, SqueezeError> {
        let Some(hit_ns) = self.hit_ns else { return Ok(None) };
        let mut times = [0.0; 2];
        for (time, of) in times.iter_mut().zip([NEAR, FAR]) {
            let victim = KnownVictim { distribution: Distribution::Uni, additions: 1, times: of };
            let reading = self.watch(&victim)?;
            *time = access_ns(&reading).ok_or(SqueezeError::Interrupted)? - hit_ns;
        }
        Ok(miss_cost(times[0], times[1]).map(|cost| AccessTimes { hit_ns, miss_ns: hit_ns + cost }))
    }
}

/// What a miss costs beyond a hit, from the mean excess of a near and a far victim; `None` if they contradict.
fn miss_cost(near_ns: f64, far_ns: f64) -> Option<f64> {
    if !(far_ns > 0.0 && near_ns <= far_ns) {
        return None;
    }
    let ratio = near_ns.max(0.0) / far_ns;
    let room = ((1.0 - ratio) / (1.0 / NEAR - ratio / FAR)).clamp(0.0, NEAR);
    Some(far_ns / (1.0 - room / FAR))
}

/// The middle of some values, with the least and the most of them.
pub(super) fn spread(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let many = values.len();
    let value = (values[(many - 1) / 2] + values[many / 2]) / 2.0;
    Some(Estimate { value, low, high, samples: many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_victims_tell_what_a_miss_costs() {
        for room in [0.05, 0.5, 1.0] {
            let cost = 70.0;
            let found = miss_cost(cost * (1.0 - room / NEAR), cost * (1.0 - room / FAR)).expect("a cost");
            assert!((found / cost - 1.0).abs() < 1e-9, "{room}: {found}");
        }
        assert_eq!(miss_cost(5.0, 4.0), None);
        assert_eq!(miss_cost(0.0, 0.0), None);
    }

    #[test]
    fn the_middle_with_its_ends() {
        let found = spread([3.0, 1.0, 2.0].into_iter()).expect("values");
        assert_eq!((found.low, found.value, found.high, found.samples), (1.0, 2.0, 3.0, 3));
        assert_eq!(spread([].into_iter()), None);
    }
}
