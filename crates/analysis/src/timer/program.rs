//! The code of a run, decoded, and the sites in it that samples are blamed on.

use std::collections::HashMap;

use code::{Block, Decoded, Flow, Instruction, decode_range};
use record::{ids::FunctionId, run::Run};

use super::facts::wait_of;
use crate::findings::Activity;

/// One instruction of a block that samples were blamed on, in it or near it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Index of its block among [`Program::blocks`].
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
pub(crate) enum Blame {
    /// These sites, with weights that sum to 1.
    Sites(Vec<(usize, f64)>),
    /// One of several that differ in kind; kept with the site that was sampled.
    Undecided(usize),
    /// The code there is not known.
    Unknown,
}

/// Decoded functions, and the blocks and sites seen in them.
pub(crate) struct Program {
    functions: Vec<Option<Function>>,
    pub(crate) blocks: Vec<BlockSites>,
    pub(crate) sites: Vec<Site>,
    /// By place.
    pub(crate) blames: Vec<Blame>,
    by_block: HashMap<(usize, usize), usize>,
}

struct Function {
    decoded: Decoded,
    /// Blocks that lead to a block, by its address.
    leads: HashMap<u64, Vec<usize>>,
}

impl Function {
    fn new(code: &[u8], start: u64) -> Self {
        let decoded = decode_range(code, start, &[]);
        let mut leads: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, block) in decoded.blocks.iter().enumerate() {
            let targets = [block.target().filter(|_| !is_call(block)), block.fall_through()];
            for target in targets.into_iter().flatten() {
                leads.entry(target).or_default().push(index);
            }
        }
        Self { decoded, leads }
    }
}

fn is_call(block: &Block) -> bool {
    matches!(block.flow(), Flow::Call | Flow::IndirectCall)
}

impl Program {
    /// Decodes what samples landed in and blames each place's samples.
    pub(crate) fn new(run: &Run, counts: &[u64]) -> Self {
        let decode = |function: &record::run::Function| {
            function
                .code
                .as_deref()
                .filter(|code| !code.is_empty())
                .map(|code| Function::new(code, function.start))
        };
        let mut program = Self {
            functions: run.functions.iter().map(decode).collect(),
            blocks: Vec::new(),
            sites: Vec::new(),
            blames: Vec::new(),
            by_block: HashMap::new(),
        };
        for (place, &count) in run.places.iter().zip(counts) {
            let function = place.function.map(FunctionId::index);
            let blame = match function {
                Some(function) => {
                    program.blame(function, place.address, run.about.skid_instructions as usize)
                }
                None => Blame::Unknown,
            };
            program.count(&blame, count as f64);
            program.blames.push(blame);
        }
        program
    }

    fn count(&mut self, blame: &Blame, samples: f64) {
        match blame {
            Blame::Sites(sites) => {
                sites.iter().for_each(|&(site, weight)| self.sites[site].samples += weight * samples)
            }
            Blame::Undecided(site) => self.sites[*site].undecided += samples,
            Blame::Unknown => {}
        }
    }

    /// A function of the run, decoded; none if its code is not known.
    pub(crate) fn decoded(&self, function: FunctionId) -> Option<&Decoded> {
        Some(&self.functions.get(function.index())?.as_ref()?.decoded)
    }

    /// The block of a site.
    pub(crate) fn block(&self, block: usize) -> Option<&Block> {
        let at = self.blocks.get(block)?;
        self.functions.get(at.function)?.as_ref()?.decoded.blocks.get(at.block)
    }

    /// The instruction of a site.
    pub(crate) fn instruction(&self, site: &Site) -> Option<(&Block, &Instruction)> {
        let block = self.block(site.block)?;
        Some((block, block.instructions().get(site.index)?))
    }

    /// The sites of a block.
    pub(crate) fn sites_of(&self, block: usize) -> &[Site] {
        let Some(at) = self.blocks.get(block) else { return &[] };
        let len = self.block(block).map_or(0, |block| block.instructions().len());
        self.sites.get(at.first_site..at.first_site + len).unwrap_or_default()
    }

    /// Blocks with sites that lead to this one or that it leads to.
    pub(crate) fn neighbours(&self, block: usize) -> Vec<usize> {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return Vec::new() };
        let Some(Some(function)) = self.functions.get(at.function) else { return Vec::new() };
        let before = function.leads.get(&decoded.address()).into_iter().flatten();
        let mut found: Vec<usize> =
            before.filter_map(|&index| self.by_block.get(&(at.function, index)).copied()).collect();
        found.extend(self.next_blocks(block));
        found.sort_unstable();
        found.dedup();
        found.retain(|&other| other != block);
        found
    }

    /// Blocks with sites that this one leads to.
    pub(crate) fn next_blocks(&self, block: usize) -> Vec<usize> {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return Vec::new() };
        let Some(Some(function)) = self.functions.get(at.function) else { return Vec::new() };
        let next = [decoded.target(), decoded.fall_through()].into_iter().flatten();
        let blocks = next.filter_map(|address| {
            let index = function.decoded.blocks.partition_point(|other| other.address() < address);
            function.decoded.blocks.get(index).filter(|other| other.address() == address).map(|_| index)
        });
        blocks.filter_map(|index| self.by_block.get(&(at.function, index)).copied()).collect()
    }

    /// Whether control enters the block by a conditional or indirect jump, a call or a return, so that the core may
    /// have guessed wrongly.
    pub(crate) fn is_entered_by_guess(&self, block: usize) -> bool {
        let Some((at, decoded)) = self.blocks.get(block).zip(self.block(block)) else { return false };
        let Some(Some(function)) = self.functions.get(at.function) else { return false };
        let Some(leads) = function.leads.get(&decoded.address()) else { return true };
        let guessed = |flow| !matches!(flow, Flow::Sequential | Flow::Jump | Flow::System | Flow::Trap);
        leads.iter().any(|&lead| guessed(function.decoded.blocks[lead].flow()))
    }

    /// Registers all instructions of a block, once.
    fn enter(&mut self, function: usize, block: usize) -> usize {
        if let Some(&known) = self.by_block.get(&(function, block)) {
            return known;
        }
        let len = match &self.functions[function] {
            Some(code) => code.decoded.blocks[block].instructions().len(),
            None => 0,
        };
        let (id, first_site) = (self.blocks.len(), self.sites.len());
        self.blocks.push(BlockSites { function, block, first_site });
        self.sites.extend((0..len).map(|index| Site { block: id, index, samples: 0.0, undecided: 0.0 }));
        self.by_block.insert((function, block), id);
        id
    }

    fn blame(&mut self, function: usize, address: u64, skid: usize) -> Blame {
        let Some(Some(code)) = self.functions.get(function) else { return Blame::Unknown };
        let after = code.decoded.blocks.partition_point(|block| block.address() <= address);
        let Some(block) = after.checked_sub(1) else { return Blame::Unknown };
        let decoded = &code.decoded.blocks[block];
        let Some(index) = decoded.index_of(address) else { return Blame::Unknown };
        // A string instruction is interrupted between its steps, and the sample lies on it.
        let on_itself = decoded.instructions()[index].is_repeated();
        let back = if on_itself { 0 } else { skid };
        if let Some(index) = index.checked_sub(back) {
            let index = behind_fusion(decoded, index);
            let id = self.enter(function, block);
            return Blame::Sites(vec![(self.blocks[id].first_site + index, 1.0)]);
        }
        self.blame_before(function, block, index, back - index)
    }

    /// Blames the instruction `back` before the first of a block: that of any block that leads there.
    fn blame_before(&mut self, function: usize, block: usize, sampled: usize, back: usize) -> Blame {
        let Some(Some(code)) = self.functions.get(function) else { return Blame::Unknown };
        let address = code.decoded.blocks[block].address();
        let leads = code.leads.get(&address).cloned().unwrap_or_default();
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        for lead in leads {
            let before = &code.decoded.blocks[lead];
            if let Some(index) = before.instructions().len().checked_sub(back) {
                candidates.push((lead, behind_fusion(before, index)));
            }
        }
        let kind = |&(lead, index): &(usize, usize)| {
            let instruction = &code.decoded.blocks[lead].instructions()[index];
            // Computing and jumping are told apart later; only memory and division must not be mixed up with them.
            match wait_of(&code.decoded.blocks[lead], instruction) {
                Activity::Executing | Activity::Chains => Activity::Branches,
                other => other,
            }
        };
        let agree =
            candidates.first().map(kind).filter(|first| candidates.iter().all(|other| kind(other) == *first));
        let id = self.enter(function, block);
        let here = self.blocks[id].first_site + sampled;
        if candidates.is_empty() {
            // The function's entry, or the target of a jump through a register: whoever came here jumped.
            return Blame::Sites(vec![(self.blocks[id].first_site, 1.0)]);
        }
        if agree.is_none() {
            return Blame::Undecided(here);
        }
        let weight = 1.0 / candidates.len() as f64;
        let sites = candidates.into_iter().map(|(lead, index)| {
            let id = self.enter(function, lead);
            (self.blocks[id].first_site + index, weight)
        });
        Blame::Sites(sites.collect())
    }
}

/// A jump fused with the instruction before it retires with it: a load in that one is what it waits for.
fn behind_fusion(block: &Block, index: usize) -> usize {
    match index.checked_sub(1).and_then(|before| block.instructions().get(before)) {
        Some(before) if before.fuses_with_next() && before.has_load() => index - 1,
        _ => index,
    }
}
