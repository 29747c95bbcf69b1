//! At which level of the machine the waiting is: by how far addresses range, and what the machine's levels hold.
//!
//! What walks over its data in order finds nothing of it again once that is larger than a cache. What lands anywhere finds
//! in each cache as much as that holds, and waits for each by its latency.

mod costs;

use std::collections::BTreeMap;

use machine::profile::{Profile, Tlb};
use record::run::Run;
use trust::LevelScore;

use super::{
    blame::BlameCore,
    bounds::FIT,
    facts::{LINE, chase_beside},
    origin::RunOrigin,
    streams::AddressStream,
    tally::Tally,
};
use crate::findings::{KnownLimits, LevelFindings, LevelPart, WaitLevel};
use costs::TurnCosts;

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
    let [found, small, large] =
        [1.0, 1.0 / FIT, FIT].map(|scale| machine.sums(tally, LevelView::Scaled(scale)));
    let mut parts: Vec<LevelPart> = found
        .iter()
        .filter_map(|(level, sum)| Some(LevelPart { level: (*level)?, share: sum / samples }))
        .filter(|part| part.share >= WORTH)
        .collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    let most = parts.first().map(|part| part.level);
    let or = [&small, &large].into_iter().filter_map(largest).find(|level| Some(*level) != most);
    let or = or.filter(|_| most.is_some());
    let by_time = largest(&machine.sums(tally, LevelView::ByTime)).filter(|level| Some(*level) != most);
    let unknown = found.get(&None).copied().unwrap_or(0.0) / samples;
    let at_most = || largest(&machine.sums(tally, LevelView::AtMost));
    let perhaps = if parts.is_empty() && unknown < WORTH { at_most() } else { None };
    KnownLimits::Value(LevelFindings { parts, unknown, or, by_time, perhaps, earned })
}

fn largest(sums: &LevelSums) -> Option<WaitLevel> {
    let known: Vec<(WaitLevel, f64)> =
        sums.iter().filter_map(|(level, sum)| Some(((*level)?, *sum))).collect();
    largest_of(&known)
}

fn largest_of(parts: &[(WaitLevel, f64)]) -> Option<WaitLevel> {
    parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(level, _)| *level)
}

/// Samples of a block that wait for memory: behind what walks over data of which something tells how far it ranges, or needs
/// no address itself; on lines that others touch; and behind what ranges nobody knows how far.
fn waiting(tally: &Tally, id: usize) -> [f64; 3] {
    let first_site = tally.program.blocks[id].first_site;
    let mut sums = [0.0; 3];
    for site in first_site..first_site + tally.program.sites_of(id).len() {
        let meaning = &tally.meanings[site];
        if !meaning.activity.is_memory() || meaning.waiting <= 0.0 {
            continue;
        }
        let kind = match tally.streams.of(site) {
            Some(stream) if stream.footprint_bytes().is_none() => 2,
            Some(stream) if stream.is_shared => 1,
            _ => 0,
        };
        sums[kind] += meaning.waiting;
    }
    sums
}

/// Which samples wait, and for what.
#[derive(Clone, Copy, PartialEq)]
enum LevelView {
    /// As was found, were each footprint so many times as large.
    Scaled(f64),
    /// As was found, by how long turns took where that says something else than footprints.
    ByTime,
    /// As many as bounds leave open.
    AtMost,
}

/// How long a turn took, and to which part of that it is known.
#[derive(Clone, Copy)]
struct TurnTime {
    ns: f64,
    error: f64,
}

struct LevelMachine<'a> {
    core: &'a BlameCore,
    tlb: Option<&'a Tlb>,
    run: &'a Run,
}

impl LevelMachine<'_> {
    /// Samples that wait for memory, as `view` has it.
    fn sums(&self, tally: &Tally, view: LevelView) -> LevelSums {
        let mut sums = LevelSums::new();
        for id in 0..tally.program.blocks.len() {
            let samples = tally.program.samples_of(id);
            let [mut own, shared, unknown] = waiting(tally, id);
            if view == LevelView::AtMost {
                own = own.max(tally.bounds_of(id).1 * samples - shared - unknown);
            }
            let mut add = |level, samples: f64| {
                if samples > 0.0 {
                    *sums.entry(level).or_default() += samples;
                }
            };
            add(Some(WaitLevel::OtherCore), shared);
            let costs = TurnCosts::of(tally, id).filter(|_| own + unknown > 0.0);
            let time = costs.as_ref().and_then(|costs| self.turn_time(tally, id, costs));
            // What ranges nobody knows how far waits where its time says, or else anywhere.
            let costs = costs.map(|costs| if unknown > own { costs } else { costs.without_open() });
            let is_lost = time.is_none();
            let share = (own + unknown) / samples.max(1.0);
            let parts = costs.map_or_else(Vec::new, |costs| self.parts(&costs, time, share, view));
            let told = if parts.is_empty() { 0.0 } else { own + if is_lost { 0.0 } else { unknown } };
            parts.iter().for_each(|(level, part)| add(Some(*level), told * part));
            add(None, own + unknown - told);
        }
        sums
    }

    /// Where the data of a block comes from that waits for a share of its time, and the part of its waiting that is for it.
    fn parts(
        &self,
        costs: &TurnCosts<'_>,
        time: Option<TurnTime>,
        share: f64,
        view: LevelView,
    ) -> Vec<(WaitLevel, f64)> {
        // What was not timed takes as long as its code does beside that share; nearly all of it is nearly all.
        const MOST: f64 = 0.99;
        let open = time.filter(|_| costs.is_open()).map_or(0.0, |time| costs.open_bytes(time.ns));
        let other = time.filter(|_| view == LevelView::ByTime && !costs.is_open());
        let other = other.and_then(|time| costs.other_scale(time.ns, time.error));
        let scale = other.unwrap_or(if let LevelView::Scaled(scale) = view { scale } else { 1.0 });
        let turn_ns = time.map_or_else(|| costs.code_ns / (1.0 - share.min(MOST)), |time| time.ns);
        let waiting_ns = turn_ns * share;
        let mut added = costs.added(scale, open, waiting_ns);
        let walks_ns = costs.walks_ns(scale, |stream, bytes| self.walk_ns(stream, bytes));
        if walks_ns > 0.0 && !added.is_empty() {
            added.push((WaitLevel::Translation, waiting_ns * walks_ns / costs.lines_alone_ns(scale, open)));
        }
        let all: f64 = added.iter().map(|(_, ns)| ns).sum();
        added.into_iter().map(|(level, ns)| (level, ns / all)).collect()
    }

    /// How long a turn took: as its addresses tell, or, of what does nothing but wait for one result after the other, by how
    /// many samples lie beside its loads.
    fn turn_time(&self, tally: &Tally, id: usize, costs: &TurnCosts<'_>) -> Option<TurnTime> {
        const FEWEST: f64 = 8.0;
        if let Some(speed) = tally.streams.speed(id) {
            return Some(TurnTime { ns: speed.turn_ns(), error: speed.error });
        }
        let block = tally.program.block(id)?;
        chase_beside(block, &self.core.costs)?;
        let samples = tally.program.samples_of(id);
        let busy = samples - waiting(tally, id).into_iter().sum::<f64>();
        (busy >= FEWEST).then(|| TurnTime { ns: costs.code_ns * samples / busy, error: 2.0 / busy.sqrt() })
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
