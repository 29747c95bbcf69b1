//! At which level of the machine the waiting is: by how far addresses range, and what the machine's levels hold.
//!
//! What walks over its data in order finds nothing of it again once that is larger than a cache. What lands anywhere finds
//! in each cache as much as that holds, and waits for each by its latency.

use std::collections::BTreeMap;

use machine::profile::{Profile, Tlb};
use record::run::Run;
use trust::LevelScore;

use super::{
    blame::BlameCore,
    bounds::{CoreLevel, FIT},
    facts::LINE,
    origin::RunOrigin,
    streams::AddressStream,
    tally::Tally,
};
use crate::findings::{KnownLimits, LevelFindings, LevelPart, WaitLevel};

const PAGE_BYTES: f64 = 4096.0;

/// A part of user time below this is not named.
const WORTH: f64 = 0.005;

/// Samples by level; those of no level under none.
type LevelSums = BTreeMap<Option<WaitLevel>, f64>;

pub(crate) fn levels(
    run: &Run,
    tally: &Tally,
    profile: Option<&Profile>,
    earned: Option<LevelScore>,
) -> KnownLimits<LevelFindings> {
    let Some(profile) = profile else {
        return KnownLimits::Missing(RunOrigin::of(run).no_profile().to_owned());
    };
    let core = &tally.core;
    if !core.is_measured {
        return KnownLimits::Missing("the profile lacks levels; run `memwall calibrate`".to_owned());
    }
    let machine = LevelMachine { core, tlb: profile.tlb.as_ref(), run };
    let samples = run.samples.place.len().max(1) as f64;
    let [found, small, large] = [1.0, 1.0 / FIT, FIT].map(|scale| machine.sums(tally, scale));
    let mut parts: Vec<LevelPart> = found
        .iter()
        .filter_map(|(level, sum)| Some(LevelPart { level: (*level)?, share: sum / samples }))
        .filter(|part| part.share >= WORTH)
        .collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    let most = parts.first().map(|part| part.level);
    let or = [&small, &large].into_iter().filter_map(largest).find(|level| Some(*level) != most);
    let unknown = found.get(&None).copied().unwrap_or(0.0) / samples;
    KnownLimits::Value(LevelFindings { parts, unknown, or: or.filter(|_| most.is_some()), earned })
}

fn largest(sums: &LevelSums) -> Option<WaitLevel> {
    let known = sums.iter().filter_map(|(level, sum)| Some(((*level)?, *sum)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(level, _)| level)
}

struct LevelMachine<'a> {
    core: &'a BlameCore,
    tlb: Option<&'a Tlb>,
    run: &'a Run,
}

impl LevelMachine<'_> {
    /// Samples that wait for memory, were each footprint `scale` times as large.
    fn sums(&self, tally: &Tally, scale: f64) -> LevelSums {
        let mut sums = LevelSums::new();
        for (site, meaning) in tally.meanings.iter().enumerate() {
            if !meaning.activity.is_memory() || meaning.waiting <= 0.0 {
                continue;
            }
            let block = tally.program.sites[site].block;
            let together = tally.streams.footprint_bytes(block) * scale;
            let parts = tally.streams.of(site).map(|stream| self.parts(stream, together, scale));
            for (level, part) in parts.unwrap_or_else(|| vec![(None, 1.0)]) {
                *sums.entry(level).or_default() += meaning.waiting * part;
            }
        }
        sums
    }

    /// Where a stream's data comes from, and the part of its waiting that is for it.
    fn parts(
        &self,
        stream: &AddressStream,
        together_bytes: f64,
        scale: f64,
    ) -> Vec<(Option<WaitLevel>, f64)> {
        let Some(own_bytes) = stream.footprint_bytes().map(|bytes| bytes * scale) else {
            return vec![(None, 1.0)];
        };
        if stream.is_shared {
            return vec![(Some(WaitLevel::OtherCore), 1.0)];
        }
        let costs: Vec<(WaitLevel, f64)> = if stream.goes_in_order() {
            let level = self.core.level_for(together_bytes);
            level.map(|level| (level.level, level.latency_ns)).into_iter().collect()
        } else {
            // All that a turn touches shares the caches.
            self.anywhere(together_bytes)
        };
        let all: f64 = costs.iter().map(|(_, ns)| ns).sum();
        if all <= 0.0 {
            return vec![(None, 1.0)];
        }
        let walk_ns = self.walk_ns(stream, own_bytes);
        let whole = all + walk_ns;
        let translation = (walk_ns > 0.0).then_some((Some(WaitLevel::Translation), walk_ns / whole));
        costs.into_iter().map(|(level, ns)| (Some(level), ns / whole)).chain(translation).collect()
    }

    /// Nanoseconds beyond a hit that a load somewhere in `bytes` waits on average, by level.
    fn anywhere(&self, bytes: f64) -> Vec<(WaitLevel, f64)> {
        let hit_ns = self.core.levels.first().map_or(0.0, |level| level.latency_ns);
        let held = |level: &CoreLevel| level.capacity_bytes.min(bytes);
        let pairs = self.core.levels.iter().zip(self.core.levels.iter().skip(1));
        let cost = |(inner, outer): (&CoreLevel, &CoreLevel)| {
            let part = (held(outer) - held(inner)).max(0.0) / bytes;
            (outer.level, part * (outer.latency_ns - hit_ns).max(0.0))
        };
        pairs.map(cost).filter(|(_, ns)| *ns > 0.0).collect()
    }

    /// What finding the page adds to each access, where pages are small and more than the machine keeps in mind.
    fn walk_ns(&self, stream: &AddressStream, bytes: f64) -> f64 {
        let is_near =
            stream.goes_in_order() && stream.turn_bytes().is_none_or(|step| (step as f64) < PAGE_BYTES);
        let Some(tlb) = self.tlb.filter(|_| !is_near && !self.is_huge(stream)) else { return 0.0 };
        let step = stream.turn_bytes().map_or(PAGE_BYTES, |step| (step as f64).max(PAGE_BYTES));
        let is_kept = |reach: &u64| bytes / step <= *reach as f64;
        match tlb.reach_pages.last() {
            Some(reach) if !is_kept(reach) => tlb.walk_penalty_ns.unwrap_or(0.0).max(0.0),
            _ => 0.0,
        }
    }

    /// Whether the stream's data is on huge pages, as far as the kernel said; what is not known counts as huge, since its cost
    /// is in no latency of the profile.
    fn is_huge(&self, stream: &AddressStream) -> bool {
        let Some((low, high)) = stream.span else { return true };
        let middle = (low + (high - low) / 2) / LINE * LINE;
        let area = self.run.data.areas.iter().find(|area| (area.start..area.end).contains(&middle));
        let pages = area.and_then(|area| area.pages.as_ref()).filter(|pages| pages.resident_bytes > 0);
        pages.is_none_or(|pages| pages.huge_bytes * 2 >= pages.resident_bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests;
