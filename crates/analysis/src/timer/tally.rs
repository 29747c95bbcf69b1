//! Samples by what they mean.

use record::{ids::PlaceId, run::Run};

use super::{
    blame::{Core, Meaning, meanings},
    program::{BlamedSites, Program},
    streams::Streams,
};
use crate::findings::{Activity, Split};

/// Parts of a sample, by activity in the order of [`Activity::ALL`]; they sum to 1.
pub(crate) type Parts = [f64; Activity::ALL.len()];

/// All samples of a run, blamed.
pub(crate) struct Tally {
    pub(crate) program: Program,
    pub(crate) streams: Streams,
    /// By site.
    pub(crate) meanings: Vec<Meaning>,
    /// By place: what one of its samples means.
    parts: Vec<Parts>,
}

impl Tally {
    pub(crate) fn new(run: &Run, core: &Core) -> Self {
        let mut counts = vec![0u64; run.places.len()];
        for &place in &run.samples.place {
            if let Some(count) = counts.get_mut(place.index()) {
                *count += 1;
            }
        }
        let program = Program::new(run, &counts);
        let streams = Streams::new(run, &program, core);
        let meanings = meanings(&program, &streams, core);
        let parts = program.blames.iter().map(|blame| parts_of(blame, &program, &meanings)).collect();
        Self { program, streams, meanings, parts }
    }

    /// What one sample at a place means.
    pub(crate) fn parts(&self, place: PlaceId) -> Parts {
        self.parts.get(place.index()).copied().unwrap_or(undecided())
    }

    /// What the part `weight` of a sample means that is blamed on a site.
    pub(crate) fn parts_of_site(&self, site: usize, weight: f64) -> Parts {
        site_parts(&self.program, &self.meanings, site).map(|part| part * weight)
    }

    /// The split of some samples, given by their places; none of none.
    pub(crate) fn split_of(&self, places: impl Iterator<Item = PlaceId>) -> Option<Split> {
        let (mut sum, mut samples) = (Parts::default(), 0);
        for place in places {
            add(&mut sum, &self.parts(place), 1.0);
            samples += 1;
        }
        split(&sum, samples)
    }
}

/// Adds `times` parts to a sum.
pub(crate) fn add(sum: &mut Parts, parts: &Parts, times: f64) {
    sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part * times);
}

/// Summed parts of `samples` samples as a split; none of none.
pub(crate) fn split(sum: &Parts, samples: u64) -> Option<Split> {
    if samples == 0 {
        return None;
    }
    let share = |activity: Activity| sum[activity as usize] / samples as f64;
    Some(Split {
        samples,
        loads: share(Activity::Loads),
        stores: share(Activity::Stores),
        atomics: share(Activity::Atomics),
        divides: share(Activity::Divides),
        chains: share(Activity::Chains),
        branches: share(Activity::Branches),
        executing: share(Activity::Executing),
        undecided: share(Activity::Undecided),
    })
}

pub(crate) fn undecided() -> Parts {
    let mut parts = Parts::default();
    parts[Activity::Undecided as usize] = 1.0;
    parts
}

fn parts_of(blame: &BlamedSites, program: &Program, meanings: &[Meaning]) -> Parts {
    let BlamedSites::Sites(sites) = blame else { return undecided() };
    let mut parts = Parts::default();
    for &(site, weight) in sites {
        add(&mut parts, &site_parts(program, meanings, site), weight);
    }
    parts
}

/// What a sample blamed on a site means.
fn site_parts(program: &Program, meanings: &[Meaning], site: usize) -> Parts {
    let (meaning, samples) = (&meanings[site], program.sites[site].samples);
    if samples <= 0.0 {
        return undecided();
    }
    let mut parts = Parts::default();
    parts[meaning.activity as usize] += meaning.waiting / samples;
    parts[Activity::Chains as usize] += meaning.chained / samples;
    parts[Activity::Executing as usize] += meaning.executing / samples;
    parts
}
