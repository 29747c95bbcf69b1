//! The code of a run, decoded, and the sites in it that samples are blamed on.

use std::collections::{HashMap, HashSet};

use code::{
    Block, Flow, Instruction,
    blame::{Blame, CodeSpot, Routine, WatchedOperand},
    pace::LoopPace,
};
use record::{
    ids::{FunctionId, ModuleId, PlaceId},
    run::{Place, Run},
};

use crate::wait_code::{WaitCode, only_asks};

/// One instruction of a block that samples were blamed on, in it or near it.
#[derive(Clone, Debug)]
pub(crate) struct ProgramSite {
    /// Index of its block among [`DecodedProgram::blocks`].
    pub(crate) block: usize,
    /// Index of the instruction in that block.
    pub(crate) index: usize,
    /// Samples blamed on it.
    pub(crate) samples: f64,
    /// Samples taken here that may belong to several others.
    pub(crate) undecided: f64,
}

/// A block with its sites.
#[derive(Clone, Debug)]
pub(crate) struct BlockSites {
    /// Index of the function in the run.
    pub(crate) function: usize,
    /// Index of the block among those of the function.
    pub(crate) block: usize,
    /// Its first instruction's site; the others follow.
    pub(crate) first_site: usize,
}

/// Whom a place's samples are blamed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BlamedSites {
    /// These sites, with weights that sum to 1.
    Sites(Vec<(usize, f64)>),
    /// One of several that differ in kind; kept with the site that was sampled.
    Undecided(usize),
    /// The code there is not known.
    Unknown,
}

/// What tells in which turn of its loop a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PacedBy {
    /// The address of this site's operand.
    Operand(usize),
    /// A register that turns of this block change by so much.
    Counter { block: usize, step: i64 },
}

/// Decoded functions, and the blocks and sites seen in them.
pub(crate) struct DecodedProgram {
    functions: Vec<Option<Routine>>,
    pub(crate) blocks: Vec<BlockSites>,
    pub(crate) sites: Vec<ProgramSite>,
    /// By place.
    pub(crate) blames: Vec<BlamedSites>,
    /// By place: the operand whose address its samples carry.
    pub(crate) watched: Vec<Option<WatchedOperand>>,
    /// By place: the load of a chase whose address its samples carry, as they are blamed on what has none.
    pub(crate) chased: Vec<Option<usize>>,
    /// By place: what samples of bursts carry.
    pub(crate) pacing: Vec<Option<PacedBy>>,
    /// By place: the loop whose passes are counted there, and by how much each pass moves the counter.
    pub(crate) passes: Vec<Option<(usize, i64)>>,
    /// By function: all of it only waits for other threads.
    spinning: Vec<bool>,
    /// By place: the same of what is sampled there, whether its code is known or not.
    spinning_places: Vec<bool>,
    by_block: HashMap<(usize, usize), usize>,
    /// Functions that are only called through pointers, of which there are several.
    called_by_pointer: HashSet<usize>,
}

impl DecodedProgram {
    /// Decodes what samples landed in and blames each place's samples.
    pub(crate) fn new(run: &Run, counts: &[u64]) -> Self {
        let decode = |function: &record::run::Function| {
            function
                .code
                .as_deref()
                .filter(|code| !code.is_empty())
                .map(|code| Routine::new(code, function.start))
        };
        let spins = |name: &str, module: ModuleId| {
            let module = run.module(module).map_or("", |module| &module.path);
            WaitCode::of(name, module) == WaitCode::Spins
        };
        let spinning: Vec<bool> =
            run.functions.iter().map(|function| spins(&function.name, function.module)).collect();
        let place_spins = |place: &Place| {
            let function = place.function.and_then(|function| spinning.get(function.index()));
            function.copied().unwrap_or_else(|| spins("", place.module))
        };
        let spinning_places = run.places.iter().map(place_spins).collect();
        let mut program = Self {
            functions: run.functions.iter().map(decode).collect(),
            blocks: Vec::new(),
            sites: Vec::new(),
            blames: Vec::new(),
            watched: Vec::new(),
            chased: Vec::new(),
            pacing: Vec::new(),
            passes: Vec::new(),
            spinning,
            spinning_places,
            by_block: HashMap::new(),
            called_by_pointer: HashSet::new(),
        };
        let skid = run.about.skid_instructions as usize;
        for (place, &count) in run.places.iter().zip(counts) {
            let function = place.function.map(FunctionId::index);
            let blame = function
                .map_or(BlamedSites::Unknown, |function| program.blame(function, place.address, skid));
            let routine = function.and_then(|function| program.functions.get(function)?.as_ref());
            program.watched.push(routine.and_then(|routine| routine.watched(place.address, skid)));
            let pacing = routine.and_then(|routine| routine.pacing(place.address));
            let chased = routine.and_then(|routine| routine.chased(place.address, skid));
            let passes = routine.and_then(|routine| routine.passes(place.address));
            let pacing = function.zip(pacing).map(|(function, (pace, _))| program.paced_by(function, pace));
            program.pacing.push(pacing);
            let passes = function
                .zip(passes)
                .map(|(function, passes)| (program.enter(function, passes.block), passes.step));
            program.passes.push(passes);
            let chased = function.zip(chased).map(|(function, (spot, _))| program.site(function, spot));
            program.chased.push(chased);
            program.count(&blame, count as f64);
            program.blames.push(blame);
        }
        program.called_by_pointer = program.find_called_by_pointer(run);
        program
    }

    /// Functions of a module that calls through pointers which nothing in it is seen to call otherwise. One alone is foreseen.
    fn find_called_by_pointer(&self, run: &Run) -> HashSet<usize> {
        let module = |function: usize| run.functions[function].module;
        let ends = || {
            let routines = self.functions.iter().enumerate();
            let routines = routines.filter_map(|(index, routine)| Some((index, routine.as_ref()?)));
            routines.flat_map(|(index, routine)| routine.blocks().iter().map(move |block| (index, block)))
        };
        let calling: HashSet<ModuleId> =
            ends().filter(|(_, block)| calls_by_pointer(block)).map(|(index, _)| module(index)).collect();
        let called: HashSet<u64> = ends().filter_map(|(_, block)| block.target()).collect();
        let is_entered = |at: &&BlockSites| at.block == 0 && calling.contains(&module(at.function));
        let entered = self.blocks.iter().filter(is_entered).map(|at| at.function);
        let found: HashSet<usize> =
            entered.filter(|&function| !called.contains(&run.functions[function].start)).collect();
        if found.len() > 1 { found } else { HashSet::new() }
    }

    fn count(&mut self, blame: &BlamedSites, samples: f64) {
        match blame {
            BlamedSites::Sites(sites) => {
                sites.iter().for_each(|&(site, weight)| self.sites[site].samples += weight * samples)
            }
            BlamedSites::Undecided(site) => self.sites[*site].undecided += samples,
            BlamedSites::Unknown => {}
        }
    }

    /// The blocks of a function of the run; none if its code is not known.
    pub(crate) fn blocks_of(&self, function: FunctionId) -> Option<&[Block]> {
        Some(self.functions.get(function.index())?.as_ref()?.blocks())
    }

    /// The block of a site.
    pub(crate) fn block(&self, block: usize) -> Option<&Block> {
        let at = self.blocks.get(block)?;
        self.functions.get(at.function)?.as_ref()?.blocks().get(at.block)
    }

    /// The block that samples at a place are blamed on; none if there are several, or it is not known.
    pub(crate) fn block_of(&self, place: PlaceId) -> Option<usize> {
        match self.blames.get(place.index())? {
            BlamedSites::Sites(sites) => Some(self.sites.get(sites.first()?.0)?.block),
            BlamedSites::Undecided(site) => Some(self.sites.get(*site)?.block),
            BlamedSites::Unknown => None,
        }
    }

    /// The instruction of a site.
    pub(crate) fn instruction(&self, site: &ProgramSite) -> Option<(&Block, &Instruction)> {
        let block = self.block(site.block)?;
        Some((block, block.instructions().get(site.index)?))
    }

    /// The sites of a block.
    pub(crate) fn sites_of(&self, block: usize) -> &[ProgramSite] {
        let Some(at) = self.blocks.get(block) else { return &[] };
        let len = self.block(block).map_or(0, |block| block.instructions().len());
        self.sites.get(at.first_site..at.first_site + len).unwrap_or_default()
    }

    /// Samples blamed on a block.
    pub(crate) fn samples_of(&self, block: usize) -> f64 {
        self.sites_of(block).iter().map(|site| site.samples).sum()
    }

    /// Blocks with sites that run about as often as this one: those that lead to it or that it leads to; of a case of a
    /// `switch` the other cases, since what leads to them runs for each of them.
    pub(crate) fn neighbours(&self, block: usize) -> Vec<usize> {
        let mut found: Vec<usize> = if self.is_case(block) {
            self.cases_beside(block)
        } else {
            self.blocks_before(block).into_iter().chain(self.next_blocks(block)).collect()
        };
        found.sort_unstable();
        found.dedup();
        found.retain(|&other| other != block);
        found
    }

    /// Blocks with sites that only indirect jumps of the same function lead to.
    pub(crate) fn cases_beside(&self, block: usize) -> Vec<usize> {
        let cases = self.routine_of(block).map(Routine::cases).unwrap_or_default();
        self.blocks.get(block).map_or_else(Vec::new, |at| self.entered(at.function, cases))
    }

    /// Blocks with sites that are known to lead to this one.
    pub(crate) fn blocks_before(&self, block: usize) -> Vec<usize> {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return Vec::new() };
        let leads = self.routine_of(block).map(|function| function.leads_to(decoded.address()));
        self.entered(at.function, leads.unwrap_or_default())
    }

    /// Blocks with sites that this one is known to lead to.
    pub(crate) fn next_blocks(&self, block: usize) -> Vec<usize> {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return Vec::new() };
        let Some(function) = self.routine_of(block) else { return Vec::new() };
        let next = [decoded.target(), decoded.fall_through()].into_iter().flatten();
        let spots = next.filter_map(|address| function.spot(address)).filter(|spot| spot.index == 0);
        self.entered(at.function, &spots.map(|spot| spot.block).collect::<Vec<_>>())
    }

    /// The function that a block is of, and its place among that one's blocks.
    pub(crate) fn routine_at(&self, block: usize) -> Option<(&Routine, usize)> {
        Some((self.routine_of(block)?, self.blocks.get(block)?.block))
    }

    /// Samples blamed on a block of the same function, by its place there.
    pub(crate) fn samples_beside(&self, block: usize, index: usize) -> f64 {
        let function = self.blocks.get(block).map(|at| at.function);
        let other = function.and_then(|function| self.by_block.get(&(function, index)));
        other.map_or(0.0, |&other| self.samples_of(other))
    }

    fn routine_of(&self, block: usize) -> Option<&Routine> {
        self.functions.get(self.blocks.get(block)?.function)?.as_ref()
    }

    /// Those of a function's blocks that have sites.
    fn entered(&self, function: usize, blocks: &[usize]) -> Vec<usize> {
        blocks.iter().filter_map(|&index| self.by_block.get(&(function, index)).copied()).collect()
    }

    /// Whether a block only waits until another thread goes on.
    pub(crate) fn spins(&self, block: usize) -> bool {
        let function = self.blocks.get(block).map(|at| at.function);
        let is_runtime = function.and_then(|function| self.spinning.get(function)).copied().unwrap_or(false);
        is_runtime || self.block(block).is_some_and(only_asks) || self.asks_between(block)
    }

    /// Whether a block asks what is asked again behind a pause that it leads to.
    fn asks_between(&self, block: usize) -> bool {
        let Some((routine, own)) = self.routine_at(block) else { return false };
        let next = |index: usize| {
            let ways = [routine.blocks()[index].target(), routine.blocks()[index].fall_through()];
            let spots = ways.into_iter().flatten().filter_map(|address| routine.spot(address));
            spots.filter(|spot| spot.index == 0).map(|spot| spot.block)
        };
        let stores = routine.blocks()[own].instructions().iter().any(Instruction::has_store);
        !stores
            && next(own)
                .any(|pause| only_asks(&routine.blocks()[pause]) && next(pause).any(|back| back == own))
    }

    /// Whether samples at a place are of code of which all waits for other threads, whoever is blamed.
    pub(crate) fn spins_at(&self, place: PlaceId) -> bool {
        self.spinning_places.get(place.index()).copied().unwrap_or(false)
    }

    /// Whether the block is reached by an indirect jump alone.
    pub(crate) fn is_case(&self, block: usize) -> bool {
        let index = self.blocks.get(block).map(|at| at.block);
        self.routine_of(block).zip(index).is_some_and(|(routine, index)| routine.cases().contains(&index))
    }

    /// Whether only jumps and calls to places that were loaded lead to the block.
    pub(crate) fn is_jumped_to(&self, block: usize) -> bool {
        let is_entry = |at: &BlockSites| at.block == 0 && self.called_by_pointer.contains(&at.function);
        self.is_case(block) || self.blocks.get(block).is_some_and(is_entry)
    }

    /// Whether control enters the block by a conditional or indirect jump, a call or a return, so that the core may
    /// have guessed wrongly.
    pub(crate) fn is_entered_by_guess(&self, block: usize) -> bool {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return false };
        let Some(Some(function)) = self.functions.get(at.function) else { return false };
        let leads = function.leads_to(decoded.address());
        let guessed = |flow| !matches!(flow, Flow::Sequential | Flow::Jump | Flow::System | Flow::Trap);
        leads.is_empty() || leads.iter().any(|&lead| guessed(function.blocks()[lead].flow()))
    }

    /// Whether both blocks that a block leads to run often, so that the core has to guess which comes next. How often a loop
    /// ends is foreseen, or seldom.
    pub(crate) fn goes_both_ways(&self, block: usize) -> bool {
        // The rarer of two ways, for each time of the other.
        const OFTEN: f64 = 0.1;
        if self.block(block).is_none_or(Block::is_loop) {
            return false;
        }
        let each = |&next: &usize| self.samples_of(next) / self.sites_of(next).len().max(1) as f64;
        let mut seen: Vec<f64> = self.next_blocks(block).iter().map(each).collect();
        seen.sort_by(f64::total_cmp);
        matches!(seen[..], [less, more] if less >= OFTEN * more && less > 0.0)
    }

    /// Whether a block that goes both ways leads here.
    pub(crate) fn is_guessed(&self, block: usize) -> bool {
        self.blocks_before(block).into_iter().any(|before| self.goes_both_ways(before))
    }

    /// Registers all instructions of a block, once.
    fn enter(&mut self, function: usize, block: usize) -> usize {
        if let Some(&known) = self.by_block.get(&(function, block)) {
            return known;
        }
        let len = match &self.functions[function] {
            Some(code) => code.blocks()[block].instructions().len(),
            None => 0,
        };
        let (id, first_site) = (self.blocks.len(), self.sites.len());
        self.blocks.push(BlockSites { function, block, first_site });
        self.sites.extend((0..len).map(|index| ProgramSite {
            block: id,
            index,
            samples: 0.0,
            undecided: 0.0,
        }));
        self.by_block.insert((function, block), id);
        id
    }

    /// The sites behind what the rule of blame says.
    fn blame(&mut self, function: usize, address: u64, skid: usize) -> BlamedSites {
        let Some(Some(code)) = self.functions.get(function) else { return BlamedSites::Unknown };
        let blame = code.blame(address, skid);
        // The block that was sampled has its say in the baselines even if another one is blamed.
        if let Some(sampled) = code.spot(address) {
            self.enter(function, sampled.block);
        }
        match blame {
            Blame::Instructions(spots) => {
                let weight = 1.0 / spots.len() as f64;
                BlamedSites::Sites(spots.iter().map(|&spot| (self.site(function, spot), weight)).collect())
            }
            // Whoever came here jumped.
            Blame::Entry(spot) => BlamedSites::Sites(vec![(self.site(function, spot), 1.0)]),
            Blame::Undecided(spot) => BlamedSites::Undecided(self.site(function, spot)),
            Blame::Unknown => BlamedSites::Unknown,
        }
    }

    fn paced_by(&mut self, function: usize, pace: LoopPace) -> PacedBy {
        match pace {
            LoopPace::Operand(spot) => PacedBy::Operand(self.site(function, spot)),
            LoopPace::Counter { block, step } => {
                PacedBy::Counter { block: self.enter(function, block), step }
            }
        }
    }

    fn site(&mut self, function: usize, spot: CodeSpot) -> usize {
        let id = self.enter(function, spot.block);
        self.blocks[id].first_site + spot.index
    }
}

/// Whether a block ends with a call to a place that may be another each time.
fn calls_by_pointer(block: &Block) -> bool {
    let Some(last) = block.instructions().last().filter(|last| last.flow() == Flow::IndirectCall) else {
        return false;
    };
    let operands = block.memory_of(last);
    let is_slot = |operand: &code::MemoryOperand| operand.base().is_none() && operand.index().is_none();
    operands.is_empty() || !operands.iter().all(is_slot)
}
