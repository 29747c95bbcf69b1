//! The program beside what its machine was measured to give.

use code::Instruction;
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
    // Who waits for other threads moves nothing.
    let threads = running_threads.value().copied().unwrap_or(1.0) * tally.working_share();
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
    let mut moved = MovedBytes::default();
    // What samples never caught of a loop moves as well, by as much as its turns say.
    let moves = |stream: &&AddressStream| is_steady(stream) || stream.is_linear && stream.advance.is_some();
    for stream in tally.streams.of_block(block).iter().filter(moves) {
        let Some(rate) = pattern::advance(stream) else { continue };
        // What a string copies is read here and written there.
        let times = if stream.is_copied { 2.0 } else { 1.0 };
        sum.bytes_per_s += rate.bytes_per_s * times;
        sum.low += rate.low * times;
        sum.high += rate.high * times;
        sum.pairs += rate.pairs;
        moved.add(tally, stream, rate.bytes_per_s);
    }
    if sum.bytes_per_s <= 0.0 {
        return KnownLimits::Missing("how fast its streams advance cannot be told".to_owned());
    }
    // What passes the caches finds its way to memory, however little it is.
    let footprint = if moved.past > 0.0 { f64::INFINITY } else { tally.streams.footprint_bytes(block) };
    let level = level_of(profile, footprint);
    let together_bytes_per_s = sum.bytes_per_s * threads.max(1.0);
    let limit_of = |mix: StreamMix| match profile {
        Some(_) => level_limit_of(level, threads, mix),
        None => KnownLimits::Missing(RunOrigin::of(run).no_profile().to_owned()),
    };
    let part_of = |limit: f64| together_bytes_per_s / limit;
    let limit_bytes_per_s = limit_of(moved.least(sum.bytes_per_s));
    let of_limit = limit_bytes_per_s.value().copied().map(part_of);
    let at_most = limit_of(moved.most(sum.bytes_per_s)).value().copied().map(|limit| part_of(limit).min(1.0));
    let of_limit_at_most = of_limit.zip(at_most).filter(|(part, most)| most > part).map(|(_, most)| most);
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
        of_limit_at_most,
    })
}

/// Bytes per second that streams write, by what becomes of the lines.
#[derive(Clone, Copy, Debug, Default)]
struct MovedBytes {
    written: f64,
    /// Past the caches: their lines are not read first.
    past: f64,
    /// By string instructions, which overwrite whole lines and may do so without reading them.
    by_strings: f64,
}

impl MovedBytes {
    fn add(&mut self, tally: &Tally, stream: &AddressStream, bytes_per_s: f64) {
        let instructions = || {
            let sites = stream.sites.iter().filter_map(|&site| tally.program.sites.get(site));
            sites
                .filter_map(|site| tally.program.instruction(site))
                .filter(|(block, instruction)| writes_memory(block, instruction))
                .map(|(_, instruction)| instruction)
        };
        let Some(first) = instructions().next() else { return };
        self.written += bytes_per_s;
        if instructions().all(Instruction::is_non_temporal) {
            self.past += bytes_per_s;
        } else if first.is_repeated() {
            self.by_strings += bytes_per_s;
        }
    }

    /// Of all that is moved, if no line is read that need not be.
    fn least(self, all: f64) -> StreamMix {
        StreamMix { written: self.written / all, past: (self.past + self.by_strings) / all }
    }

    /// The same if strings read what they overwrite.
    fn most(self, all: f64) -> StreamMix {
        StreamMix { written: self.written / all, past: self.past / all }
    }
}

/// What of a stream's bytes is written, and what of that without having been read.
#[derive(Clone, Copy, Debug)]
struct StreamMix {
    written: f64,
    past: f64,
}

/// The level that streams over so many bytes come from; none without a profile.
fn level_of(profile: Option<&Profile>, bytes: f64) -> Option<&ProfileLevel> {
    profile?.levels.iter().find(|level| match level.name {
        LevelName::Cache(_) => level.usable.is_some_and(|usable| bytes <= usable.value),
        LevelName::Memory { local, .. } => local,
    })
}

/// What a level gave that many threads when it was measured, for such a mix.
fn level_limit_of(level: Option<&ProfileLevel>, threads: f64, mix: StreamMix) -> KnownLimits<f64> {
    let pick = |of: fn(&ProfileLevel) -> &Bandwidths| mix.of(of(level?));
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

impl StreamMix {
    /// Bytes per second that a level gives. Stores were measured with their lines read first (molka2017 §3.1), so that a copy moved
    /// three bytes for two, and a store two for one. What passes the caches is not read, and is written while others are read.
    fn of(self, bandwidths: &Bandwidths) -> Option<f64> {
        if self.past <= 0.0 {
            return mixed(bandwidths, self.written);
        }
        let load = known(bandwidths.load)?;
        let (copy, store) = (known(bandwidths.copy), known(bandwidths.store));
        let both_ways =
            load.max(copy.map_or(0.0, |copy| 1.5 * copy)).max(store.map_or(0.0, |store| 2.0 * store));
        // A store takes what reading its line leaves of its time, and no less than a load.
        let passing_s = store.map_or(0.0, |store| 1.0 / store - 1.0 / load).max(1.0 / load);
        let (read, written) = (1.0 - self.past, self.written);
        Some(1.0 / (read / load).max(self.past * passing_s).max((read + written) / both_ways))
    }
}

fn known(estimate: Option<Estimate>) -> Option<f64> {
    estimate.map(|found| found.value).filter(|value| *value > 0.0)
}

/// Bytes per second of a mix of which the part `written` is stored: between loads alone, as many loads as stores, and stores
/// alone, whichever two lie next to it, by the time that a byte takes.
fn mixed(bandwidths: &Bandwidths, written: f64) -> Option<f64> {
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

    #[test]
    fn what_passes_the_caches_reads_no_line_before_it_is_written() {
        let of = |value: f64| Some(Estimate { value, low: value, high: value, samples: 9 });
        let bandwidths = Bandwidths { load: of(12.0), copy: of(8.0), store: of(4.0) };
        let found = |written, past| StreamMix { written, past }.of(&bandwidths).unwrap();
        assert_eq!(found(0.5, 0.0), 8.0);
        // A store of four takes a quarter in all: a twelfth to read the line, and a sixth to write it.
        assert!((found(1.0, 1.0) - 6.0).abs() < 1e-9, "{}", found(1.0, 1.0));
        // What is read meanwhile takes no longer.
        assert!((found(0.5, 0.5) - 12.0).abs() < 1e-9, "{}", found(0.5, 0.5));
        // Nothing is written faster than it is read.
        let bandwidths = Bandwidths { store: of(11.0), ..bandwidths };
        assert_eq!(StreamMix { written: 1.0, past: 1.0 }.of(&bandwidths), Some(12.0));
        assert_eq!(StreamMix { written: 1.0, past: 1.0 }.of(&Bandwidths::default()), None);
        // As two cores of a Zen 5 guest: copies past the caches were measured at 111, stores at 86.
        let bandwidths = Bandwidths { load: of(83.0), copy: of(80.0), store: of(57.0) };
        let found = |written, past| StreamMix { written, past }.of(&bandwidths).unwrap();
        assert_eq!((found(0.5, 0.5).round(), found(1.0, 1.0).round()), (120.0, 83.0));
    }
}
