//! The program beside what its machine was measured to give.

use machine::profile::{LevelName, Profile, ProfileLevel};
use record::run::Run;

use super::{account, facts::writes_memory, pattern, streams::AddressStream, tally::Tally};
use crate::findings::{KnownLimits, LevelLimit, LimitFindings, Pattern, Rate, StreamLimit};

const NO_PROFILE: &str = "this machine has no profile; run `memwall calibrate`";

/// Streams with a smaller share of the samples are not set against the machine.
const WORTH: f64 = 0.05;

pub(crate) fn limits(run: &Run, tally: &Tally, profile: Option<&Profile>) -> LimitFindings {
    let running_threads = running_threads(run);
    let levels = match profile {
        Some(profile) => KnownLimits::Value(profile.levels.iter().map(level_limit).collect()),
        None => KnownLimits::Missing(NO_PROFILE.to_owned()),
    };
    let threads = running_threads.value().copied().unwrap_or(1.0);
    LimitFindings { levels, streams: stream_limit(tally, profile, threads), running_threads }
}

fn level_limit(level: &ProfileLevel) -> LevelLimit {
    LevelLimit {
        name: level.name.clone(),
        usable_bytes: level.usable.map(|estimate| estimate.value),
        latency_ns: level.latency_ns.map(|estimate| estimate.value),
        one_core_bytes_per_s: level.one_core.load.map(|estimate| estimate.value),
        all_cores_bytes_per_s: level.all_cores.load.map(|estimate| estimate.value),
    }
}

/// Threads that ran at once on average while any was there.
fn running_threads(run: &Run) -> KnownLimits<f64> {
    let Some(elapsed_ns) = run.about.elapsed_ns.filter(|&elapsed| elapsed > 0) else {
        return KnownLimits::Missing("the recording was cut off before its end".to_owned());
    };
    let running_ns = if run.slices.is_empty() {
        run.samples.place.len() as f64 * account::sample_ns(run)
    } else {
        run.slices.iter().map(|slice| slice.running_ns as f64).sum()
    };
    KnownLimits::Value(running_ns / elapsed_ns as f64)
}

/// The steady streams of the block where most samples fell on such.
fn stream_limit(tally: &Tally, profile: Option<&Profile>, threads: f64) -> KnownLimits<StreamLimit> {
    let samples = |stream: &AddressStream| {
        stream.sites.iter().map(|&site| tally.program.sites[site].samples).sum::<f64>()
    };
    let is_steady = |stream: &&AddressStream| {
        matches!(pattern::walk(stream), Some(Pattern::Streaming | Pattern::Strided))
    };
    let steady: Vec<&AddressStream> = tally.streams.all.iter().filter(is_steady).collect();
    // A walk that hardly takes time says nothing about the program.
    let all: f64 = tally.program.sites.iter().map(|site| site.samples).sum();
    let busiest = steady.iter().max_by(|a, b| samples(a).total_cmp(&samples(b)));
    let busiest = busiest.filter(|stream| samples(stream) >= WORTH * all);
    let Some(block) = busiest.map(|stream| stream.block) else {
        return KnownLimits::Missing(
            "no instruction's addresses advance steadily from sample to sample".to_owned(),
        );
    };
    let mut sum = Rate { bytes_per_s: 0.0, low: 0.0, high: 0.0, pairs: 0 };
    let mut writes = false;
    for stream in steady.iter().filter(|stream| stream.block == block) {
        if let Some(rate) = pattern::advance(stream) {
            sum.bytes_per_s += rate.bytes_per_s;
            sum.low += rate.low;
            sum.high += rate.high;
            sum.pairs += rate.pairs;
        }
        writes |= stream.sites.iter().any(|&site| is_written(tally, site));
    }
    let together_bytes_per_s = sum.bytes_per_s * threads.max(1.0);
    let limit_bytes_per_s = memory_limit(profile, threads, writes);
    let of_limit = limit_bytes_per_s.value().map(|limit| together_bytes_per_s / limit);
    KnownLimits::Value(StreamLimit { per_thread: sum, together_bytes_per_s, limit_bytes_per_s, of_limit })
}

fn is_written(tally: &Tally, site: usize) -> bool {
    let instruction = tally.program.sites.get(site).and_then(|site| tally.program.instruction(site));
    instruction.is_some_and(|(block, instruction)| writes_memory(block, instruction))
}

/// What memory gave that many threads when it was measured: loads, or loads and stores where the program writes.
fn memory_limit(profile: Option<&Profile>, threads: f64, writes: bool) -> KnownLimits<f64> {
    let Some(profile) = profile else { return KnownLimits::Missing(NO_PROFILE.to_owned()) };
    let is_memory = |level: &&ProfileLevel| matches!(level.name, LevelName::Memory { local: true, .. });
    let memory = profile.levels.iter().find(is_memory);
    let pick = |of: fn(&ProfileLevel) -> &machine::profile::Bandwidths| {
        let bandwidths = of(memory?);
        let wanted = if writes { bandwidths.copy.or(bandwidths.load) } else { bandwidths.load };
        wanted.map(|estimate| estimate.value).filter(|value| *value > 0.0)
    };
    let (one, all) = (pick(|level| &level.one_core), pick(|level| &level.all_cores));
    match (one, all) {
        (Some(one), Some(all)) => KnownLimits::Value((one * threads.max(1.0)).min(all.max(one))),
        (Some(one), None) => KnownLimits::Value(one),
        (None, Some(all)) => KnownLimits::Value(all),
        (None, None) => {
            KnownLimits::Missing("the profile lacks memory bandwidth; run `memwall calibrate`".to_owned())
        }
    }
}
