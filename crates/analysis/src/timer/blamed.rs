//! Samples one by one, for those who look at data.

use code::Block;
use code::blame::AddressBehind;
use record::ids::{FunctionId, PlaceId};

use super::{
    pattern::pattern,
    program::{BlamedSites, DecodedProgram},
    tally::{SplitTally, Tally, undecided},
    views::Ranks,
};
use crate::findings::{Pattern, ThreadActivity};

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

/// Parts of a sample by activity, as small as pages need them.
pub(crate) type ShownParts = [f32; ThreadActivity::ALL.len()];

/// What a sample at each place means.
struct OfPlace {
    /// Index of each instruction blamed among those of the findings, and what its part of the sample means.
    blamed: Vec<(usize, ShownParts)>,
    access: Option<AccessKind>,
    waits: BlamedWaits,
    pattern: Pattern,
}

/// What samples at each place of a run mean, in terms of its findings, for those who look at samples one by one.
pub(crate) struct Blamed {
    program: DecodedProgram,
    places: Vec<OfPlace>,
    ranks: Ranks,
}

impl Blamed {
    pub(crate) fn new(tally: Tally, ranks: Ranks) -> Self {
        let of = |(place, blame): (usize, &BlamedSites)| {
            let parts = tally.parts(PlaceId::of(place));
            let part = |activity: ThreadActivity| parts[activity as usize];
            let site = match blame {
                BlamedSites::Sites(sites) => sites.first().map(|&(site, _)| site),
                BlamedSites::Undecided(_) | BlamedSites::Unknown => None,
            };
            let access = tally.program.watched.get(place).copied().flatten().map(|watched| AccessKind {
                reads: watched.operand.access().reads(),
                writes: watched.operand.access().writes(),
                behind: watched.behind,
            });
            OfPlace {
                blamed: blamed(&tally, &ranks, PlaceId::of(place), blame),
                access,
                waits: BlamedWaits {
                    loads: part(ThreadActivity::Loads),
                    other: part(ThreadActivity::Stores) + part(ThreadActivity::Atomics),
                },
                pattern: site
                    .and_then(|site| pattern(&tally.program, &tally.streams, site))
                    .map_or(Pattern::Unknown, |found| found.pattern),
            }
        };
        let places = tally.program.blames.iter().enumerate().map(of).collect();
        Self { places, program: tally.program, ranks }
    }

    /// How the instruction blamed for samples at a place touches memory; none if it does not, or is not known.
    pub(crate) fn access(&self, place: PlaceId) -> Option<AccessKind> {
        self.places.get(place.index())?.access
    }

    /// What of a sample at a place is waiting for memory.
    pub(crate) fn waits(&self, place: PlaceId) -> BlamedWaits {
        self.places.get(place.index()).map_or_else(BlamedWaits::default, |place| place.waits)
    }

    /// How the instruction walks through memory.
    pub(crate) fn pattern(&self, place: PlaceId) -> Pattern {
        self.places.get(place.index()).map_or(Pattern::Unknown, |place| place.pattern)
    }

    /// The instructions of the findings that a sample at a place is blamed on, and what each part of it means.
    pub(crate) fn parts(&self, place: PlaceId) -> &[(usize, ShownParts)] {
        self.places.get(place.index()).map_or(&[], |place| &place.blamed)
    }

    /// The symbol among the findings that a function of the run is.
    pub(crate) fn symbol(&self, function: FunctionId) -> Option<usize> {
        self.ranks.symbol(function)
    }

    /// A function of the run, decoded; none if its code is not known.
    pub(crate) fn blocks_of(&self, function: FunctionId) -> Option<&[Block]> {
        self.program.blocks_of(function)
    }
}

/// Whom a sample at a place is blamed on, and what each part of it means.
fn blamed(tally: &Tally, ranks: &Ranks, place: PlaceId, blame: &BlamedSites) -> Vec<(usize, ShownParts)> {
    let parts: Vec<(Option<usize>, SplitTally)> = match blame {
        BlamedSites::Sites(sites) => {
            let part = |&(site, weight): &(usize, f64)| (ranks.site(site), tally.parts_of_site(site, weight));
            sites.iter().map(part).collect()
        }
        BlamedSites::Undecided(site) => vec![(ranks.site(*site), undecided())],
        BlamedSites::Unknown => vec![(ranks.place(place), undecided())],
    };
    parts.into_iter().filter_map(|(index, parts)| Some((index?, parts.map(|part| part as f32)))).collect()
}
