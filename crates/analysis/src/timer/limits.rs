//! The program beside what its machine was measured to give.

use machine::profile::{Bandwidths, Estimate, LevelName, Profile, ProfileLevel};
use record::run::Run;

use super::{
    account, facts::writes_memory, origin::RunOrigin, pattern, streams::AddressStream, tally::Tally,
};
use crate::findings::{KnownLimits, LevelLimit, LimitFindings, Pattern, Rate, StreamLimit};

/// Nothing moves this much more than its machine gave.
const BEYOND: f64 = 1.15;

/// Streams with a smaller share of the samples are not set against the machine.
const WORTH: f64 = 0.05;

pub(crate) fn limits(run: &Run, tally: &Tally, profile: Option<&Profile>) -> LimitFindings {
    let running_threads = running_threads(run);
    let levels = match profile {
        Some(profile) => KnownLimits::Value(profile.levels.iter().map(level_limit).collect()),
        None => KnownLimits::Missing(RunOrigin::of(run).no_profile().to_owned()),
    };
    let threads = running_threads.value().copied().unwrap_or(1.0);
    LimitFindings { levels, streams: stream_limit(run, tally, profile, threads), running_threads }
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
fn stream_limit(
    run: &Run,
    tally: &Tally,
    profile: Option<&Profile>,
    threads: f64,
) -> KnownLimits<StreamLimit> {
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
    let mut written = 0.0;
    for stream in steady.iter().filter(|stream| stream.block == block) {
        let Some(rate) = pattern::advance(stream) else { continue };
        sum.bytes_per_s += rate.bytes_per_s;
        sum.low += rate.low;
        sum.high += rate.high;
        sum.pairs += rate.pairs;
        if stream.sites.iter().any(|&site| is_written(tally, site)) {
            written += rate.bytes_per_s;
        }
    }
    if sum.bytes_per_s <= 0.0 {
        return KnownLimits::Missing("how fast its streams advance cannot be told".to_owned());
    }
    let level = level_of(profile, tally.streams.footprint_bytes(block));
    let together_bytes_per_s = sum.bytes_per_s * threads.max(1.0);
    let limit_bytes_per_s = match profile {
        Some(_) => level_limit_of(level, threads, written / sum.bytes_per_s),
        None => KnownLimits::Missing(RunOrigin::of(run).no_profile().to_owned()),
    };
    let of_limit = limit_bytes_per_s.value().map(|limit| together_bytes_per_s / limit);
    if let (Some(part), Some(limit)) = (of_limit, limit_bytes_per_s.value())
        && part > BEYOND
    {
        return KnownLimits::Missing(format!(
            "its streams seem to move {:.0} GB/s where this machine gave {:.0}: their speed was not understood, or the \
             profile no longer holds",
            together_bytes_per_s / 1e9,
            limit / 1e9
        ));
    }
    let level = level.map(|level| (&level.name).into());
    KnownLimits::Value(StreamLimit {
        per_thread: sum,
        level,
        together_bytes_per_s,
        limit_bytes_per_s,
        of_limit,
    })
}

fn is_written(tally: &Tally, site: usize) -> bool {
    let instruction = tally.program.sites.get(site).and_then(|site| tally.program.instruction(site));
    instruction.is_some_and(|(block, instruction)| writes_memory(block, instruction))
}

/// The level that streams over so many bytes come from; none without a profile.
fn level_of(profile: Option<&Profile>, bytes: f64) -> Option<&ProfileLevel> {
    profile?.levels.iter().find(|level| match level.name {
        LevelName::Cache(_) => level.usable.is_some_and(|usable| bytes <= usable.value),
        LevelName::Memory { local, .. } => local,
    })
}

/// What a level gave that many threads when it was measured, for that part of bytes stored.
fn level_limit_of(level: Option<&ProfileLevel>, threads: f64, written: f64) -> KnownLimits<f64> {
    let pick = |of: fn(&ProfileLevel) -> &Bandwidths| mixed(of(level?), written);
    let (one, all) = (pick(|level| &level.one_core), pick(|level| &level.all_cores));
    match (one, all) {
        (Some(one), Some(all)) => KnownLimits::Value((one * threads.max(1.0)).min(all.max(one))),
        (Some(one), None) => KnownLimits::Value(one),
        (None, Some(all)) => KnownLimits::Value(all),
        (None, None) => {
            KnownLimits::Missing("the profile lacks the bandwidth; run `memwall calibrate`".to_owned())
        }
    }
}

/// Bytes per second of a mix of which the part `written` is stored: between loads alone, as many loads as stores, and stores
/// alone, whichever two lie next to it, by the time that a byte takes.
fn mixed(bandwidths: &Bandwidths, written: f64) -> Option<f64> {
    let known = |estimate: Option<Estimate>| estimate.map(|found| found.value).filter(|value| *value > 0.0);
    let (load, copy, store) = (known(bandwidths.load), known(bandwidths.copy), known(bandwidths.store));
    let between = |from: f64, to: f64, part: f64| 1.0 / ((1.0 - part) / from + part / to);
    if written <= 0.5 {
        let load = load?;
        Some(copy.map_or(load, |copy| between(load, copy, written * 2.0)))
    } else {
        let copy = copy.or(load)?;
        Some(store.map_or(copy, |store| between(copy, store, written * 2.0 - 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_lies_between_what_was_measured() {
        let of = |value: f64| Some(Estimate { value, low: value, high: value, samples: 9 });
        let bandwidths = Bandwidths { load: of(12.0), copy: of(8.0), store: of(4.0) };
        let found = |written| mixed(&bandwidths, written).unwrap();
        assert_eq!((found(0.0), found(0.5), found(1.0)), (12.0, 8.0, 4.0));
        // Two loads and a store, as in a triad: a third of them as in a load, two thirds as in a copy.
        assert!((found(1.0 / 3.0) - 1.0 / (1.0 / 36.0 + 2.0 / 24.0)).abs() < 1e-9);
        assert_eq!(mixed(&Bandwidths::default(), 0.3), None);
    }
}
