//! Samples by what they mean.

use record::{ids::PlaceId, run::Run};

use super::{
    blame::{BlameCore, SampleMeaning, meanings},
    program::{BlamedSites, DecodedProgram},
    streams::AddressStreams,
};
use crate::findings::{Split, ThreadActivity};

/// Parts of a sample, by activity in the order of [`ThreadActivity::ALL`]; they sum to 1.
pub(crate) type SplitTally = [f64; ThreadActivity::ALL.len()];

/// All samples of a run, blamed.
pub(crate) struct Tally {
    pub(crate) program: DecodedProgram,
    pub(crate) streams: AddressStreams,
    /// By site.
    pub(crate) meanings: Vec<SampleMeaning>,
    /// By place: what one of its samples means.
    parts: Vec<SplitTally>,
}

impl Tally {
    pub(crate) fn new(run: &Run, core: &BlameCore) -> Self {
        let mut counts = vec![0u64; run.places.len()];
        for &place in &run.samples.place {
            if let Some(count) = counts.get_mut(place.index()) {
                *count += 1;
            }
        }
        let program = DecodedProgram::new(run, &counts);
        let streams = AddressStreams::new(run, &program, core);
        let meanings = meanings(&program, &streams, core);
        let parts = program.blames.iter().map(|blame| parts_of(blame, &program, &meanings)).collect();
        Self { program, streams, meanings, parts }
    }

    /// What one sample at a place means.
    pub(crate) fn parts(&self, place: PlaceId) -> SplitTally {
        self.parts.get(place.index()).copied().unwrap_or(undecided())
    }

    /// What the part `weight` of a sample means that is blamed on a site.
    pub(crate) fn parts_of_site(&self, site: usize, weight: f64) -> SplitTally {
        site_parts(&self.program, &self.meanings, site).map(|part| part * weight)
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
        branches: share(ThreadActivity::Branches),
        executing: share(ThreadActivity::Executing),
        undecided: share(ThreadActivity::Undecided),
    })
}

pub(crate) fn undecided() -> SplitTally {
    let mut parts = SplitTally::default();
    parts[ThreadActivity::Undecided as usize] = 1.0;
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

/// What a sample blamed on a site means.
fn site_parts(program: &DecodedProgram, meanings: &[SampleMeaning], site: usize) -> SplitTally {
    let (meaning, samples) = (&meanings[site], program.sites[site].samples);
    if samples <= 0.0 {
        return undecided();
    }
    let mut parts = SplitTally::default();
    parts[meaning.activity as usize] += meaning.waiting / samples;
    parts[ThreadActivity::Chains as usize] += meaning.chained / samples;
    parts[ThreadActivity::Executing as usize] += meaning.executing / samples;
    parts
}
