//! Samples one by one, for those who look at data.

use std::collections::HashMap;

use code::{Block, Instruction};
use record::{
    ids::{ModuleId, PlaceId},
    run::Run,
};

use super::{
    facts::{keeps_its_address, overwrites_its_address},
    pattern::pattern,
    program::Blame,
    tally::{Parts, Tally, undecided},
};
use crate::findings::{Activity, Findings, Pattern};

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

/// What a sample at each place means.
struct OfPlace {
    /// Module and address of each instruction blamed, and its part of the sample.
    blamed: Vec<(ModuleId, u64, Parts)>,
    access: Option<Access>,
    waits: Waits,
    pattern: Pattern,
}

/// The parts of a sample as the findings have them: index of an instruction, and what it means.
pub(crate) type Shown = (usize, [f32; Activity::ALL.len()]);

/// What samples at each place of a run mean, for those who look at samples one by one.
pub struct Blamed {
    places: Vec<OfPlace>,
}

impl Blamed {
    pub(crate) fn new(run: &Run, tally: &Tally) -> Self {
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
                blamed: blamed(run, tally, place, blame),
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
        Self { places: tally.program.blames.iter().enumerate().map(of).collect() }
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

    /// By place: the instructions of the findings that a sample there is blamed on.
    pub(crate) fn instructions(&self, run: &Run, findings: &Findings) -> Vec<Vec<Shown>> {
        let mut known: HashMap<(&str, u64), usize> = HashMap::new();
        for (index, found) in findings.instructions.iter().enumerate() {
            if let Some(symbol) = findings.symbols.get(found.symbol) {
                known.insert((&symbol.module, found.address), index);
            }
        }
        let path = |id: ModuleId| run.module(id).map_or("unknown", |module| &module.path);
        let shown = |&(module, address, parts): &(ModuleId, u64, Parts)| {
            Some((*known.get(&(path(module), address))?, parts.map(|part| part as f32)))
        };
        self.places.iter().map(|place| place.blamed.iter().filter_map(shown).collect()).collect()
    }
}

/// Whom a sample at a place is blamed on, and what each part of it means.
fn blamed(run: &Run, tally: &Tally, place: usize, blame: &Blame) -> Vec<(ModuleId, u64, Parts)> {
    let at = |site: usize| {
        let site = tally.program.sites.get(site)?;
        let (_, instruction) = tally.program.instruction(site)?;
        let function = run.functions.get(tally.program.blocks.get(site.block)?.function)?;
        Some((function.module, instruction.address()))
    };
    match blame {
        Blame::Sites(sites) => sites
            .iter()
            .filter_map(|&(site, weight)| {
                let (module, address) = at(site)?;
                Some((module, address, tally.parts_of_site(site, weight)))
            })
            .collect(),
        Blame::Undecided(site) => {
            at(*site).map(|(module, address)| (module, address, undecided())).into_iter().collect()
        }
        Blame::Unknown => {
            let place = run.places.get(place);
            place.map(|place| (place.module, place.address, undecided())).into_iter().collect()
        }
    }
}
