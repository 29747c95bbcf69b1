//! Samples one by one, for those who look at data.

use code::{Block, Decoded, Instruction};
use record::ids::{FunctionId, PlaceId};

use super::{
    facts::{keeps_its_address, overwrites_its_address},
    pattern::pattern,
    program::{Blame, Program},
    tally::{Parts, Tally, undecided},
    views::Ranks,
};
use crate::findings::{Activity, Pattern};

/// How an instruction touches its memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub reads: bool,
    pub writes: bool,
    pub registers: Registers,
}

/// Which address the registers behind an instruction give for its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registers {
    /// The one it used.
    Own,
    /// The one it will use next: it loaded its own address register (`mov r,[r]`).
    Next,
    /// None that it uses: the register was overwritten by something that is no address yet.
    Lost,
}

impl Registers {
    fn of(block: &Block, instruction: &Instruction) -> Self {
        match (keeps_its_address(block, instruction), overwrites_its_address(block, instruction)) {
            (false, _) => Self::Lost,
            (true, true) => Self::Next,
            (true, false) => Self::Own,
        }
    }
}

/// Parts of a sample that wait for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Waits {
    /// On loads.
    pub loads: f64,
    /// On stores, atomics and fences.
    pub other: f64,
}

/// Parts of a sample by activity, as small as pages need them.
pub(crate) type ShownParts = [f32; Activity::ALL.len()];

/// What a sample at each place means.
struct OfPlace {
    /// Index of each instruction blamed among those of the findings, and what its part of the sample means.
    blamed: Vec<(usize, ShownParts)>,
    access: Option<Access>,
    waits: Waits,
    pattern: Pattern,
}

/// What samples at each place of a run mean, in terms of its findings, for those who look at samples one by one.
pub(crate) struct Blamed {
    program: Program,
    places: Vec<OfPlace>,
    ranks: Ranks,
}

impl Blamed {
    pub(crate) fn new(tally: Tally, ranks: Ranks) -> Self {
        let of = |(place, blame): (usize, &Blame)| {
            let parts = tally.parts(PlaceId::of(place));
            let part = |activity: Activity| parts[activity as usize];
            let site = match blame {
                Blame::Sites(sites) => sites.first().map(|&(site, _)| site),
                Blame::Undecided(_) | Blame::Unknown => None,
            };
            let instruction = site.and_then(|site| tally.program.instruction(tally.program.sites.get(site)?));
            let access = instruction.and_then(|(block, instruction)| {
                let operands = block.memory_of(instruction);
                let any = |wanted: fn(&code::MemoryOperand) -> bool| operands.iter().any(wanted);
                (!operands.is_empty()).then(|| Access {
                    reads: any(|operand| operand.access().reads()),
                    writes: any(|operand| operand.access().writes()),
                    registers: Registers::of(block, instruction),
                })
            });
            OfPlace {
                blamed: blamed(&tally, &ranks, PlaceId::of(place), blame),
                access,
                waits: Waits {
                    loads: part(Activity::Loads),
                    other: part(Activity::Stores) + part(Activity::Atomics),
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
    pub(crate) fn access(&self, place: PlaceId) -> Option<Access> {
        self.places.get(place.index())?.access
    }

    /// What of a sample at a place is waiting for memory.
    pub(crate) fn waits(&self, place: PlaceId) -> Waits {
        self.places.get(place.index()).map_or_else(Waits::default, |place| place.waits)
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
    pub(crate) fn decoded(&self, function: FunctionId) -> Option<&Decoded> {
        self.program.decoded(function)
    }
}

/// Whom a sample at a place is blamed on, and what each part of it means.
fn blamed(tally: &Tally, ranks: &Ranks, place: PlaceId, blame: &Blame) -> Vec<(usize, ShownParts)> {
    let parts: Vec<(Option<usize>, Parts)> = match blame {
        Blame::Sites(sites) => {
            let part = |&(site, weight): &(usize, f64)| (ranks.site(site), tally.parts_of_site(site, weight));
            sites.iter().map(part).collect()
        }
        Blame::Undecided(site) => vec![(ranks.site(*site), undecided())],
        Blame::Unknown => vec![(ranks.place(place), undecided())],
    };
    parts.into_iter().filter_map(|(index, parts)| Some((index?, parts.map(|part| part as f32)))).collect()
}
