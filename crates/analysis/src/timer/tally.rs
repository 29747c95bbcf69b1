//! Samples by what they mean.

use code::blame::AddressBehind;
use machine::profile::Profile;
use record::{ids::PlaceId, run::Run};

use super::{
    blame::{BlameCore, SampleMeaning, meanings},
    bounds::{MemoryBounds, WaitBounds},
    pattern::pattern,
    program::{BlamedSites, DecodedProgram},
    relief::RelievedBlocks,
    streams::AddressStreams,
    views::Ranks,
};
use crate::findings::{Pattern, Split, ThreadActivity};

/// Parts of a sample, by activity in the order of [`ThreadActivity::ALL`]; they sum to 1.
pub(crate) type SplitTally = [f64; ThreadActivity::ALL.len()];

/// All samples of a run, blamed.
pub(crate) struct Tally {
    pub(crate) program: DecodedProgram,
    pub(crate) streams: AddressStreams,
    /// The core that ran it.
    pub(crate) core: BlameCore,
    /// By site.
    pub(crate) meanings: Vec<SampleMeaning>,
    /// By block: between which shares its waiting for memory lies.
    bounds: Vec<WaitBounds>,
    /// By block: what of that samples alone say.
    by_samples: Vec<WaitBounds>,
    /// By place: what one of its samples means.
    parts: Vec<SplitTally>,
    /// By place: how the instruction blamed for its samples walks through memory.
    patterns: Vec<Pattern>,
    /// Samples that are blamed on no block, but of code that only waits for other threads.
    spinning_somewhere: f64,
    /// The share of all samples that wait for other threads.
    spinning_share: f64,
}

/// How the operand that a sample's address is of is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessKind {
    pub reads: bool,
    pub writes: bool,
    pub behind: AddressBehind,
}

/// Parts of a sample that wait for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BlamedWaits {
    /// On loads.
    pub loads: f64,
    /// On stores, atomics and fences.
    pub other: f64,
}

impl Tally {
    /// Blames the samples of a run, on the core that the profile tells of.
    pub(crate) fn new(run: &Run, profile: Option<&Profile>) -> Self {
        let core = BlameCore::of(profile, run.about.clock_hz);
        let mut counts = vec![0u64; run.places.len()];
        for &place in &run.samples.place {
            if let Some(count) = counts.get_mut(place.index()) {
                *count += 1;
            }
        }
        let program = DecodedProgram::new(run, &counts);
        let streams = AddressStreams::new(run, &program, &core);
        let relieved = RelievedBlocks::new(run, &program);
        let (meanings, bounds, by_samples) = meanings(&program, &streams, &core, &relieved);
        let places = || program.blames.iter().enumerate().map(|(at, blame)| (PlaceId::of(at), blame));
        let spins = |at: PlaceId, blame: &BlamedSites| {
            // Whichever of several it was: the sample lies in a loop that waits.
            let waits =
                matches!(blame, BlamedSites::Undecided(site) if program.spins(program.sites[*site].block));
            waits || program.spins_at(at)
        };
        let parts = places().map(|(at, blame)| match spins(at, blame) {
            true => all_of(ThreadActivity::OtherThreads),
            false => parts_of(blame, &program, &meanings),
        });
        let parts: Vec<SplitTally> = parts.collect();
        let spinning = |(parts, count): (&SplitTally, &u64)| {
            parts[ThreadActivity::OtherThreads as usize] * *count as f64
        };
        let spinning_share =
            parts.iter().zip(&counts).map(spinning).sum::<f64>() / run.samples.place.len().max(1) as f64;
        let is_nowhere = |(at, blame): &(PlaceId, &BlamedSites)| {
            spins(*at, blame) && !matches!(blame, BlamedSites::Sites(_))
        };
        let spinning_somewhere = places().filter(is_nowhere).map(|(at, _)| counts[at.index()] as f64).sum();
        let patterns = program.blames.iter().map(|blame| pattern_of(blame, &program, &streams)).collect();
        Self {
            program,
            streams,
            core,
            meanings,
            bounds,
            by_samples,
            parts,
            patterns,
            spinning_somewhere,
            spinning_share,
        }
    }

    /// Between which shares of a block waiting for memory lies.
    pub(crate) fn bounds_of(&self, block: usize) -> (f64, f64) {
        self.bounds.get(block).map_or((0.0, 1.0), |bounds| (bounds.low, bounds.high))
    }

    /// What samples alone say of a block.
    pub(crate) fn by_samples(&self, block: usize) -> WaitBounds {
        self.by_samples.get(block).copied().unwrap_or(WaitBounds::UNKNOWN)
    }

    /// How the instruction blamed for samples at a place touches memory; none if it does not, or is not known.
    pub(crate) fn access(&self, place: PlaceId) -> Option<AccessKind> {
        let watched = self.program.watched.get(place.index()).copied().flatten()?;
        let access = watched.operand.access();
        Some(AccessKind { reads: access.reads(), writes: access.writes(), behind: watched.behind })
    }

    /// What of a sample at a place is waiting for memory.
    pub(crate) fn waits(&self, place: PlaceId) -> BlamedWaits {
        let parts = self.parts(place);
        let part = |activity: ThreadActivity| parts[activity as usize];
        BlamedWaits {
            loads: part(ThreadActivity::Loads),
            other: part(ThreadActivity::Stores) + part(ThreadActivity::Atomics),
        }
    }

    /// How the instruction blamed for samples at a place walks through memory.
    pub(crate) fn pattern(&self, place: PlaceId) -> Pattern {
        self.patterns.get(place.index()).copied().unwrap_or(Pattern::Unknown)
    }

    /// Whom a sample at a place is blamed on, as the findings number instructions, and what each part of it means.
    pub(crate) fn parts_by_instruction(&self, place: PlaceId, ranks: &Ranks) -> Vec<(usize, SplitTally)> {
        let parts: Vec<(Option<usize>, SplitTally)> = match self.program.blames.get(place.index()) {
            Some(BlamedSites::Sites(sites)) => {
                let part =
                    |&(site, weight): &(usize, f64)| (ranks.site(site), self.parts_of_site(site, weight));
                sites.iter().map(part).collect()
            }
            Some(BlamedSites::Undecided(site)) => vec![(ranks.site(*site), self.parts(place))],
            Some(BlamedSites::Unknown) | None => vec![(ranks.place(place), self.parts(place))],
        };
        parts.into_iter().filter_map(|(index, parts)| Some((index?, parts))).collect()
    }

    /// What one sample at a place means.
    pub(crate) fn parts(&self, place: PlaceId) -> SplitTally {
        self.parts.get(place.index()).copied().unwrap_or(undecided())
    }

    /// What the part `weight` of a sample means that is blamed on a site.
    fn parts_of_site(&self, site: usize, weight: f64) -> SplitTally {
        site_parts(&self.program, &self.meanings, site).map(|part| part * weight)
    }

    /// The share of samples that are not of waiting for other threads; all of none.
    pub(crate) fn working_share(&self) -> f64 {
        1.0 - self.spinning_share
    }

    /// Between which shares of all samples waiting for memory lies, whatever chance did.
    pub(crate) fn memory_bounds(&self, samples: u64) -> MemoryBounds {
        let blocks = self.bounds.iter().enumerate();
        let blocks = blocks.map(|(id, bounds)| (*bounds, self.program.samples_of(id)));
        let spinning = std::iter::once((WaitBounds::NOTHING, self.spinning_somewhere));
        MemoryBounds::of(blocks.chain(spinning), samples)
    }

    /// The split of some samples, given by their places; none of none.
    pub(crate) fn split_of(&self, places: impl Iterator<Item = PlaceId>) -> Option<Split> {
        let (mut sum, mut samples) = (SplitTally::default(), 0);
        for place in places {
            add(&mut sum, &self.parts(place), 1.0);
            samples += 1;
        }
        split(&sum, samples)
    }
}

/// Adds `times` parts to a sum.
pub(crate) fn add(sum: &mut SplitTally, parts: &SplitTally, times: f64) {
    sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part * times);
}

/// Summed parts of `samples` samples as a split; none of none.
pub(crate) fn split(sum: &SplitTally, samples: u64) -> Option<Split> {
    if samples == 0 {
        return None;
    }
    let share = |activity: ThreadActivity| sum[activity as usize] / samples as f64;
    Some(Split {
        samples,
        loads: share(ThreadActivity::Loads),
        stores: share(ThreadActivity::Stores),
        atomics: share(ThreadActivity::Atomics),
        divides: share(ThreadActivity::Divides),
        chains: share(ThreadActivity::Chains),
        first_cache: share(ThreadActivity::FirstCache),
        branches: share(ThreadActivity::Branches),
        other_threads: share(ThreadActivity::OtherThreads),
        executing: share(ThreadActivity::Executing),
        undecided: share(ThreadActivity::Undecided),
    })
}

fn undecided() -> SplitTally {
    all_of(ThreadActivity::Undecided)
}

fn all_of(activity: ThreadActivity) -> SplitTally {
    let mut parts = SplitTally::default();
    parts[activity as usize] = 1.0;
    parts
}

fn parts_of(blame: &BlamedSites, program: &DecodedProgram, meanings: &[SampleMeaning]) -> SplitTally {
    let BlamedSites::Sites(sites) = blame else { return undecided() };
    let mut parts = SplitTally::default();
    for &(site, weight) in sites {
        add(&mut parts, &site_parts(program, meanings, site), weight);
    }
    parts
}

fn pattern_of(blame: &BlamedSites, program: &DecodedProgram, streams: &AddressStreams) -> Pattern {
    let BlamedSites::Sites(sites) = blame else { return Pattern::Unknown };
    let found = sites.first().and_then(|&(site, _)| pattern(program, streams, site));
    found.map_or(Pattern::Unknown, |found| found.pattern)
}

/// What a sample blamed on a site means.
fn site_parts(program: &DecodedProgram, meanings: &[SampleMeaning], site: usize) -> SplitTally {
    let (meaning, samples) = (&meanings[site], program.sites[site].samples);
    if samples <= 0.0 {
        return undecided();
    }
    let mut parts = SplitTally::default();
    parts[meaning.activity as usize] += meaning.waiting / samples;
    parts[ThreadActivity::Chains as usize] += meaning.chained / samples;
    parts[ThreadActivity::FirstCache as usize] += meaning.near / samples;
    parts[ThreadActivity::Executing as usize] += meaning.executing / samples;
    parts
}
